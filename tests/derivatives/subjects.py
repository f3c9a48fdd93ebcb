"""Public differentiable functions as cases for differences, read from their signatures."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np

import jaxrank as jr
from jaxrank import catalogue, exposure, losses, plackett_luce, soft
from jaxrank.metrics import described
from tests.helpers.traits import subtopics

N = 7
WHERE = np.array([[True] * 7, [True] * 6 + [False], [True, True, False, True, True, True, True]])
LABELS = np.array([[0, 2, 1, 0, 3, 0, 1], [1, 0, 0, 4, 0, 2, 3], [0, 1, 4, 1, 0, 2, 0]], np.float32)
GROUPS = np.array([[0, 1, 1, 0, 1, 0, 1], [1, 0, 0, 1, 0, 1, 1], [0, 1, 1, 1, 0, 0, 0]])
ORDER = np.array([[4, 1, 0, 2, 6, 5, 3], [3, 0, 5, 1, 4, 2, 6], [5, 3, 0, 1, 4, 6, 2]])
RANKINGS = {kind.__name__: kind for kind in (jr.Laplace, jr.Logistic, jr.Gumbel, jr.Gaussian)}


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


# Three values of every numeric parameter, none of them a default.
VALUES = {
  "weights": items(0.4, 2.5, 2.0),
  "teacher": items(-2.0, 2.0, 3.0),
  "log_q": items(-3.0, -0.5, 4.0),
  "popularity": items(0.1, 0.9, 5.0),
  "embeddings": np.sin(1 + 1.3 * np.arange(3 * 3 * N * 2)).reshape(3, 3, N, 2),
  "temperature": np.array([0.5, 0.8, 2.3]),
  "margin": np.array([0.37, 0.71, 1.9]),
  "epsilon": np.array([-0.4, 0.6, 2.2]),
  "mu": np.array([3.0, 7.0, 14.0]),
  "persistence": np.array([0.35, 0.6, 0.9]),
  "alpha": np.array([0.2, 0.4, 0.85]),
  "beta": np.array([0.3, 0.7, 0.9]),
  "hit": np.array([0.4, 1.7, 2.9]),
  "other": np.array([-0.3, -2.0, 0.6]),
  "miss": np.array([-0.5, 0.3, 1.1]),
  "q": np.array([0.21, 0.48, 0.83]),
  "subtopic_weights": np.array([[0.2, 0.3, 0.5], [0.5, 0.3, 0.2], [0.25, 0.6, 0.15]]),
  "max_label": np.array([4.5, 5.2, 7.0]),
  "chances": np.array(
    [[0.05, 0.2, 0.3, 0.1, 0.35], [0.3, 0.2, 0.2, 0.2, 0.1], [0.1, 0.15, 0.2, 0.25, 0.3]]
  ),
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
  "scheme": "a word",
  "key": "a random key",
  "gain": "a function; gains have rows of their own",
  "discount": "a function; discounts have rows of their own",
  "distance": "a function or a word",
  "metric": "a function",
  "parameters": "of the metric, whose slope is taken",
  "ranking": "its temperature is differentiated",
  "axis_name": "a name",
  "accidental_hits": "a mask",
  "n_groups": "a whole number",
  "multiple": "of a whole number of ranks",
  "level": "a threshold",
  "floor": "a clip: no slope where the value is above it",
  "target": "a row of its own",
  "patience": "None is of the metric",
  "min_label": "a whole number",
}
GIVEN = {"groups": GROUPS, "order": ORDER, "labels": LABELS, "where": WHERE}
POSITIONAL = ("scores", "labels", "teacher", "groups", "order", "popularity", "embeddings", "q")


def parameters(function):
  """The names of the parameters, checked against the tables."""
  names = list(inspect.signature(function).parameters)
  unknown = [n for n in names if n not in VALUES and n not in FIXED and n != "scores"]
  assert not unknown, (
    f"{function.__name__} takes {unknown[0]!r}, which has neither three values in VALUES nor a "
    "reason in FIXED"
  )
  return names


def subject(function, ranking=None, *, ties=True, gone=True, bare=(), **fixed):
  """A function of a dictionary of parameters, and three cases of it."""
  names = [name for name in parameters(function) if name not in bare and name not in fixed]
  taken = [n for n in names if n in VALUES]
  cases = {n: np.asarray(VALUES[n]) for n in taken}
  if ranking != "Exact" and "scores" in names:
    cases["scores"] = scores(ties, gone)
  smooth = "ranking" in names and ranking not in (None, "Exact")
  if smooth:
    cases["temperature"] = VALUES["temperature"]
  given = {n: GIVEN[n] for n in names if n in GIVEN}
  if "subtopic_weights" in names:
    given["labels"] = np.asarray(subtopics(LABELS))

  def call(values):
    values = dict(values)
    if smooth:
      values["ranking"] = RANKINGS[ranking](values.pop("temperature"))
    if ranking == "Exact":
      values["scores"] = scores(True, True)[0]
    arguments = {**given, **values, **fixed}
    return function(**arguments)

  return call, cases


def metric_subjects():
  """All metrics under all rankings."""
  for metric, about in described():
    for ranking in (*RANKINGS, "Exact"):
      call, cases = subject(metric, ranking)
      if not cases:
        continue
      try:
        jax.eval_shape(call, {n: jnp.asarray(v[0], jnp.float32) for n, v in cases.items()})
      except (ValueError, NotImplementedError, TypeError):
        continue
      yield f"{about.name}/{ranking}", call, cases


def loss_subjects():
  """All losses, with their own rankings under Laplace and Logistic."""
  for name in losses.__all__:
    if name == "perturbed":
      continue
    function = getattr(losses, name)
    ranked = "ranking" in inspect.signature(function).parameters
    for ranking in RANKINGS if ranked else (None,):
      yield (f"{name}/{ranking or ''}", *subject(function, ranking))


def operator_subjects():
  """Soft operators, Plackett-Luce, exposure and catalogue."""
  for function in (soft.rank, soft.top_k, soft.sort, soft.quantile):
    for ranking in ("Laplace", "Logistic", "Gumbel", "Gaussian"):
      if ranking in ("Gumbel", "Gaussian") and function in (soft.sort, soft.quantile):
        continue
      fixed = {"k": 2} if function is soft.top_k else {}
      if function is soft.quantile:
        function = functools.partial(function)
        function.__name__ = "quantile"
      yield (f"{function.__name__}/{ranking}", *subject(function, ranking, **fixed))
  for function in (plackett_luce.log_prob, plackett_luce.rank_probabilities):
    yield (function.__name__, *subject(function, gone=False))
  for module in (exposure, catalogue):
    for name in module.__all__:
      function = getattr(module, name)
      if inspect.isclass(function) or "ranking" not in inspect.signature(function).parameters:
        continue
      fixed = {"n_groups": 2} if "n_groups" in inspect.signature(function).parameters else {}
      if name == "awrf":
        fixed["target"] = np.array([0.4, 0.6])
      elif "target" in inspect.signature(function).parameters:
        fixed["target"] = items(0.1, 0.9, 1.0)[0]
      for ranking in RANKINGS:
        yield (f"{name}/{ranking}", *subject(function, ranking, **fixed))
