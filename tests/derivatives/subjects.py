"""Public differentiable functions as cases for differences, read from their signatures."""

import functools
import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxrank as jr
from jaxrank import losses
from jaxrank._core import description
from tests.derivatives.differences import SHARED
from tests.helpers import public_calls
from tests.helpers.traits import subtopics

N = 7
WHERE = np.array([[True] * 7, [True] * 6 + [False], [True, True, False, True, True, True, True]])
LABELS = np.array([[0, 2, 1, 0, 3, 0, 1], [1, 0, 0, 4, 0, 2, 3], [0, 1, 4, 1, 0, 2, 0]], np.float32)
GROUPS = np.array([[0, 1, 1, 0, 1, 0, 1], [1, 0, 0, 1, 0, 1, 1], [0, 1, 1, 1, 0, 0, 0]], np.int32)
ORDER = np.array([[4, 1, 0, 2, 6], [3, 0, 5, 1, 4], [5, 3, 0, 1, 4]], np.int32)
RANKINGS = {kind.__name__: kind for kind in (jr.Laplace, jr.Logistic, jr.Gumbel, jr.Gaussian)}
EXACT = "Exact"


def scores(ties, gone):
  """Three cases of three lists, with tied items and one at -inf."""
  drawn = 1.3 * np.sin(1.0 + 2.7 * np.arange(63)).reshape(3, 3, N)
  if ties:
    drawn[:, 0, 3] = drawn[:, 0, 1]
    drawn[:, 2, [1, 4]] = drawn[:, 2, :1]
  if gone:
    drawn[:, 1, 2] = -np.inf
  return drawn


def items(low, high, phase):
  """Three cases of a number for each item."""
  waves = np.sin(phase + 1.9 * np.arange(63)).reshape(3, 3, N)
  return low + (high - low) * (waves + 1) / 2


def distinct():
  """Three cases of three lists whose neighbours are .3 apart or more."""
  ranks = np.argsort(np.argsort(scores(ties=False, gone=False)))
  return 0.45 * (ranks - 3) + 0.07 * np.cos(np.arange(63)).reshape(3, 3, N)


_GROUP_CHANCES = np.array([[0.4, 0.6], [0.7, 0.3], [0.15, 0.85]])
# Three values of every numeric parameter, none of them a default; of one function under its name.
VALUES: dict[str, np.ndarray] = {
  "scores": scores(ties=True, gone=True),
  "temperature": np.array([0.5, 0.8, 2.3]),
  "weights": items(0.4, 2.5, 2.0),
  "teacher": items(-2.0, 2.0, 3.0),
  "log_q": items(-3.0, -0.5, 4.0),
  "popularity": items(0.1, 0.9, 5.0),
  "embeddings": np.sin(1 + 1.3 * np.arange(3 * 3 * N * 2)).reshape(3, 3, N, 2),
  "margin": np.array([0.37, 0.71, 1.9]),
  "epsilon": np.array([-0.4, 0.6, 2.2]),
  "mu": np.array([3.0, 7.0, 14.0]),
  "scale": np.array([0.4, 0.7, 1.9]),
  "persistence": np.array([0.35, 0.6, 0.9]),
  "alpha": np.array([0.2, 0.4, 0.85]),
  "beta": np.array([0.3, 0.7, 0.9]),
  "hit": np.array([0.4, 1.7, 2.9]),
  "other": np.array([-0.3, -2.0, 0.6]),
  "miss": np.array([-0.5, 0.3, 1.1]),
  "rest": np.array([0.2, -0.4, 0.9]),
  "p": np.array([0.35, 0.6, 0.85]),
  "q": np.array([0.21, 0.48, 0.83]),
  "first": np.array([0.7, 1.3, 2.0]),
  "step": np.array([-0.03, -0.08, 0.2]),
  "values": items(0.2, 1.5, 6.0)[:, 0],
  "rank": items(1.0, 8.0, 7.0),
  "ratio": items(0.4, 2.5, 8.0),
  "floor": np.array([1e-4, 1e-2, 0.9]),
  "subtopic_weights": np.array([[0.2, 0.3, 0.5], [0.5, 0.3, 0.2], [0.25, 0.6, 0.15]]),
  "max_label": np.array([4.5, 5.2, 7.0]),
  "chances": np.array([[0.1, 0.25, 0.3, 0.35], [0.4, 0.3, 0.2, 0.1], [0.15, 0.2, 0.25, 0.4]]),
  "target": np.array([1.4, 2.3, 3.1]),
  "exposure.awrf.target": _GROUP_CHANCES,
  "exposure.ee_l.target": items(0.1, 0.9, 1.0),
  "exposure.ee_r.target": items(0.1, 0.9, 1.0),
  "exposure.jensen_shannon.p": _GROUP_CHANCES,
  "exposure.jensen_shannon.q": _GROUP_CHANCES[::-1],
}
# Parameters without a derivative, and the reason.
FIXED = {
  "labels": "gradients by labels are not meaningful",
  "where": "a mask",
  "k": "a whole number",
  "rel": "a threshold: the value is constant between labels",
  "groups": "ids",
  "order": "indices",
  "normalizer": "a word",
  "divisor": "a word",
  "of": "a word",
  "rounding": "a word",
  "levels": "constants, known at trace time",
  "tail": "a word",
  "collection": "a whole number",
  "scheme": "a word",
  "key": "a random key",
  "samples": "a whole number",
  "loss": "a function",
  "gain": "a function; those of jaxrank.gains have rows of their own",
  "discount": "a function; those of jaxrank.discounts have rows of their own",
  "distance": "a function or a word",
  "metric": "a function",
  "parameters": "of the metric",
  "ranking": "its temperature is differentiated",
  "axis_name": "a name",
  "accidental_hits": "a mask",
  "correct_positives": "a choice",
  "n_groups": "a whole number",
  "multiple": "of a whole number of ranks",
  "level": "a threshold",
  "min_label": "a whole number",
  "patience": "a whole number",
  "losses.lambda_ndcg.mu": "a factor of the weights of pairs, which are constants",
  "losses.lambda_ndcg.weights": "factors of the weights of pairs, which are constants",
  "losses.rank_mse.teacher": "scores of an exact order",
  "gap.max_label": "a whole number, the size of `chances`",
  "bpm.target": "a threshold: the value is constant between sums of gains",
  "x": "scores of an exact order",
  "y": "scores of an exact order",
}
# What the fixed parameters of a function are, where it has no default or another path is meant.
GIVEN: dict[str, Any] = {
  "labels": LABELS,
  "where": WHERE,
  "groups": GROUPS,
  "order": ORDER,
  "n_groups": 2,
  "gap.max_label": 4,
  "soft.top_k.k": 2,
  "utility.k": 2,
  "bpm.target": 1.4,
  "losses.rank_mse.teacher": items(-2.0, 2.0, 3.0)[0],
  "agreement.rbo.x": items(-1.0, 1.0, 1.0)[0],
  "agreement.rbo.y": items(-1.0, 1.0, 2.0)[0],
  "agreement.rbo_residual.x": items(-1.0, 1.0, 1.0)[0],
  "agreement.rbo_residual.y": items(-1.0, 1.0, 2.0)[0],
}
# Distances of scores, and weights of pairs by rank, have kinks and jumps at ties.
KINKED: tuple[str, ...] = (
  "losses.neural_sort",
  "losses.soft_sort",
  "losses.lambda_ndcg",
  "losses.lambda_rank",
)
# A query needs scores above -inf for all items of the order.
WHOLE = ("plackett_luce.log_prob",)


def _perturbed(scores, labels, *, where=None, scale):
  return losses.perturbed(losses.softmax, jax.random.key(3), 2, scale)(scores, labels, where=where)


def _made(maker):
  """What a maker of gains or discounts makes, at some ranks or labels."""

  @functools.wraps(maker)
  def call(**parameters):
    return maker(**parameters)(
      jnp.asarray(np.arange(5.0) + 1, jnp.result_type(*parameters.values()))
    )

  return call


# Functions that return functions.
CALLED = {
  "losses.perturbed": _perturbed,
  **{
    f"{module.__name__.removeprefix('jaxrank.')}.{name}": _made(getattr(module, name))
    for module, names in (
      (jr.discounts, ("geometric", "inverse_square", "affine", "table")),
      (jr.gains, ("table",)),
    )
    for name in names
  },
}


def is_floats(x):
  """Whether a fixed argument is an array of floats."""
  return isinstance(x, np.ndarray) and np.issubdtype(x.dtype, np.floating)


def looked_up(table, function, parameter):
  """The entry of a parameter of a function, or of all that have it; None if there is none."""
  return table.get(f"{function}.{parameter}", table.get(parameter))


def numeric(name, function):
  """The names of the numeric parameters, checked against the tables."""
  found = []
  for parameter in inspect.signature(function).parameters:
    fixed = f"{name}.{parameter}" in FIXED or parameter in FIXED
    if f"{name}.{parameter}" in VALUES or (parameter in VALUES and not fixed):
      found.append(parameter)
    else:
      assert fixed, f"{name} takes {parameter!r}, which has neither VALUES nor a reason in FIXED"
  return found


def subject(name, ranking=None, **fixed):
  """A function of its numbers, and three cases `{parameter: {owner: array}}` of them."""
  public = public_calls.public()[name]
  call = CALLED.get(name, public)
  takes = inspect.signature(call).parameters
  numbers = [p for p in numeric(name, call) if p not in fixed]
  given = {p: looked_up(GIVEN, name, p) for p in takes if looked_up(GIVEN, name, p) is not None}
  about = description.of_metric(public)
  if about is not None and about.subtopics:
    given["labels"] = np.asarray(subtopics(LABELS))
  elif about is not None and about.seeks == "any items" and "labels" in takes:
    # Such metrics may count items without a judgement.
    given["labels"] = np.where(GROUPS == 1, LABELS, np.float32(-1))
  cases = {p: {name: looked_up(VALUES, name, p)} for p in numbers}
  if "scores" in cases:
    cases["scores"] = {SHARED: VALUES["scores"]}
    if name in KINKED or name in WHOLE:
      cases["scores"] = {name: distinct() if name in KINKED else scores(ties=True, gone=False)}
  if ranking == EXACT:
    given["scores"] = cases.pop("scores", {SHARED: VALUES["scores"]})[SHARED][0]
  elif ranking is not None:
    cases["temperature"] = {SHARED: VALUES["temperature"]}
  mine = [p for p in cases if p != "temperature" or "temperature" in takes]

  def of(values):
    floats = jnp.result_type(*values.values())
    fitting = {p: x.astype(floats) if is_floats(x) else x for p, x in given.items()}
    arguments = {**fitting, **{p: values[p] for p in mine}, **fixed}
    if ranking not in (None, EXACT):
      arguments["ranking"] = RANKINGS[ranking](values["temperature"])
    return call(**arguments)

  return of, cases


def together(subjects):
  """Functions by name, and the inputs of all."""
  functions: dict[str, Any] = {}
  inputs: dict[str, dict[str, np.ndarray]] = {}
  for name, (of, cases) in subjects.items():
    functions[name] = of
    for parameter, owners in cases.items():
      for owner, value in owners.items():
        # A function may be there with a cut-off and without; both have their own numbers.
        inputs.setdefault(parameter, {})[owner and name] = value
  return functions, inputs
