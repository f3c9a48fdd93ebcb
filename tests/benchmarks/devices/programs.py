"""The programs that are counted: headline rows, and every metric, loss and ranking.

The metrics and losses come from what the library exports; none is listed here.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, get_args, get_origin

import jax
import jax.numpy as jnp
import numpy as np

import jaxrank as jr
from tests.helpers import traits

from . import by_hand

SHORT, MANY, LONG = (32, 1000), (1000, 1000), (8, 10000)
# Lists of a few candidates, as rankers are trained on.
FEW = (32, 64)
TWENTY = (
  "nDCG nDCG@5 nDCG@10 nDCG@20 nDCG@100 AP AP@10 RR RR@10 P@1 P@5 P@10 P@20 R@10 R@100 "
  "RBP(p=0.8) Rprec Success@5 ERR@10 ERR@20"
)
SMOOTH = (jr.Laplace, jr.Logistic, jr.Gumbel, jr.Gaussian)
TWO_SORTS, ALL_PAIRS = "nDCG, two sorts", "gradient of ApproxNDCG, all pairs"
_HEADLINE = ("ndcg", "average_precision", "reciprocal_rank", "precision", "recall", "rbp")
_CUT = 10
# Values for parameters without a default.
_REQUIRED = {"max_label": 4}
# How losses are called that need more than scores and labels.
_CALLS: dict[str, Callable[..., Any]] = {
  "perturbed": lambda *args, **given: jr.losses.perturbed(
    jr.losses.softmax, jax.random.key(0), samples=3
  )(*args, **given),
  "margin_mse": lambda *args, **given: jr.losses.margin_mse(*args, teacher=args[1], **given),
  **{
    name: functools.partial(
      lambda name, scores, labels, **given: getattr(jr.losses, name)(
        scores, teacher=labels, **given
      ),
      name,
    )
    for name in ("kl", "rank_mse")
  },
}

Arrays = dict[str, Any]


class Program(NamedTuple):
  """A function to compile, at one shape.

  Attributes:
    title: What it computes, without the shape.
    group: The heading under which it is budgeted.
    function: A function of the inputs.
    shape: Queries and items.
    inputs: What it takes: scores, labels, subtopics, where.
    dtype: That of the scores.
    ranking: The name of the smooth ranking, if there is one.
  """

  title: str
  group: str
  function: Callable[..., Any]
  shape: tuple[int, int]
  inputs: tuple[str, ...] = ("scores", "labels")
  dtype: str = "float32"
  ranking: str = ""

  @property
  def name(self) -> str:
    """The title and the shape, which no other program has."""
    return f"{self.title} {list(self.shape)}"

  @property
  def arguments(self) -> list[jax.ShapeDtypeStruct]:
    """The shapes and types of the inputs."""
    kinds = {"scores": self.dtype, "where": "bool"}
    shapes = {"subtopics": (*self.shape, 3)}
    return [
      jax.ShapeDtypeStruct(shapes.get(x, self.shape), jnp.dtype(kinds.get(x, "float32")))
      for x in self.inputs
    ]

  def data(self) -> list[jax.Array]:
    """Normal scores, labels 0 to 4 of which a tenth are positive, and masks of nine tenths."""
    generator = np.random.default_rng(12)
    labels = generator.choice(5, size=self.shape, p=[0.9, 0.05, 0.03, 0.015, 0.005])
    arrays = {
      "scores": generator.standard_normal(self.shape),
      "labels": labels,
      "subtopics": np.stack([np.maximum(labels - i, 0) for i in range(3)], axis=-1),
      "where": generator.random(self.shape) < 0.9,
    }
    kinds = [x.dtype for x in self.arguments]
    return [jnp.asarray(arrays[x]).astype(kind) for x, kind in zip(self.inputs, kinds, strict=True)]


def gradient(function: Callable[..., Any]) -> Callable[..., Any]:
  """The gradient of the sum of a function's values with respect to the scores."""
  return jax.grad(lambda scores, *args: jnp.sum(function(scores, *args)))


def of_hand() -> Iterator[Program]:
  """The formulas by hand, with which the others are compared."""
  for shape in (SHORT, MANY, LONG):
    yield Program(TWO_SORTS, "by hand", by_hand.sorted_ndcg, shape)
  for shape in (FEW, SHORT, LONG):
    yield Program(ALL_PAIRS, "by hand", gradient(by_hand.pairwise_ndcg), shape)


def headline() -> Iterator[Program]:
  """What most users run: without masks, at the shapes of the headline budgets."""
  for shape in (SHORT, MANY, LONG):
    for name in _HEADLINE:
      for k in (None, _CUT):
        title = name if k is None else f"{name}, k={k}"
        yield Program(title, "exact", functools.partial(getattr(jr, name), k=k), shape)
    twenty = functools.partial(jr.evaluate, jr.parse(TWENTY))
    yield Program("twenty measures", "twenty measures", twenty, shape)
  for kind in SMOOTH:
    losses = {"ndcg": jr.ndcg, f"ndcg, k={_CUT}": functools.partial(jr.ndcg, k=_CUT)}
    if kind in (jr.Laplace, jr.Logistic):
      losses |= {"average_precision": jr.average_precision, "err": _bound(jr.err)}
    for shape in (FEW, SHORT, LONG) if len(losses) > 2 else (SHORT,):
      for name, metric in losses.items():
        yield Program(
          f"gradient of {name}, {kind.__name__}",
          f"gradient of {name}, {kind.__name__}",
          gradient(_smooth(metric, kind, sign=-1)),
          shape,
          ranking=kind.__name__,
        )


def general() -> Iterator[Program]:
  """Every public metric, loss and ranking: with a mask, and at a list of items in bfloat16."""
  for name, metric in metrics().items():
    exact = Program(name, "metrics", _masked(metric), SHORT, _inputs(metric))
    yield from _at(exact, SHORT, MANY, LONG)
    if "k" in inspect.signature(metric).parameters:
      yield from _at(
        exact._replace(title=f"{name}, k={_CUT}", function=_masked(metric, k=_CUT)), SHORT
      )
    for option, chosen in _options(metric):
      yield from _at(exact._replace(title=f"{name}, {option}", function=_masked(chosen)), SHORT)
    if "ranking" not in inspect.signature(metric).parameters:
      continue
    for kind in SMOOTH:
      smooth = _masked(_smooth(metric, kind))
      value = exact._replace(
        title=f"{name}, {kind.__name__}",
        group=f"values under {kind.__name__}",
        function=smooth,
        ranking=kind.__name__,
      )
      yield from _at(value, SHORT)
      slope = value._replace(
        title=f"gradient of {value.title}",
        group=f"gradients under {kind.__name__}",
        function=gradient(smooth),
      )
      noisy = kind in (jr.Gumbel, jr.Gaussian)
      yield from _at(slope, SHORT, *(() if noisy else (LONG,)))
  for name in jr.losses.__all__:
    loss = _CALLS.get(name) or _bound(getattr(jr.losses, name))
    takes = inspect.signature(getattr(jr.losses, name)).parameters
    labelled = "labels" in takes or name in _CALLS
    ranking = takes["ranking"].default if "ranking" in takes else None
    value = Program(
      name,
      "losses",
      _masked(loss) if labelled else _squares(loss),
      SHORT,
      ("scores", "labels", "where") if labelled else ("scores", "where"),
      ranking=type(ranking).__name__ if ranking else "",
    )
    yield from _with_slopes(value)
    for option, chosen in _options(loss):
      yield from _with_slopes(value._replace(title=f"{name}, {option}", function=_masked(chosen)))
  for name, metric in metrics().items():
    if name in traits.rows():
      loss = functools.partial(jr.losses.lambda_rank, metric=metric.func, **metric.keywords)
      title = f"lambda_rank, metric={name}"
      yield from _with_slopes(Program(title, "losses", _masked(loss), SHORT, _inputs(metric)))


def _with_slopes(loss: Program) -> Iterator[Program]:
  """A loss and its gradient."""
  yield from _at(loss, SHORT)
  slope = loss._replace(
    title=f"gradient of {loss.title}",
    group="gradients of losses",
    function=gradient(loss.function),
  )
  yield from _at(slope, SHORT, LONG)


def metrics() -> dict[str, functools.partial[Any]]:
  """Every public metric of lists and exposure, with the parameters that they need."""
  described = {name: row.public for name, row in traits.rows().items()}
  exported = {name: getattr(jr, name) for name in jr.__all__}
  others = {
    name: value
    for name, value in exported.items()
    if inspect.isfunction(value)
    and value.__module__.startswith("jaxrank.metrics.")
    and "scores" in inspect.signature(value).parameters
  }
  every = described | others | {"exposure": _exposure}
  return {name: _bound(metric) for name, metric in every.items()}


def _exposure(
  scores: Any, labels: Any, *, where: Any = None, k: Any = None, ranking: Any = None
) -> Any:
  """What the functions of `jaxrank.exposure` sum up, weighed."""
  ranking = ranking or jr.Exact()
  return jnp.sum(labels * jr.exposure.expected(scores, where=where, k=k, ranking=ranking), axis=-1)


def _bound(function: Callable[..., Any]) -> functools.partial[Any]:
  """A function with values for its parameters that have no default."""
  takes = inspect.signature(function).parameters
  given = {name: x for name, x in _REQUIRED.items() if name in takes}
  given |= {"max_k": _CUT} if "max_k" in takes else {}
  return functools.partial(function, **given)


def _options(function: Callable[..., Any]) -> Iterator[tuple[str, Callable[..., Any]]]:
  """A function with each value but the default of each parameter that is one of several words."""
  for name, parameter in inspect.signature(function).parameters.items():
    if get_origin(parameter.annotation) is Literal:
      for value in get_args(parameter.annotation):
        if value != parameter.default:
          yield f"{name}={value}", functools.partial(function, **{name: value})


def _inputs(metric: functools.partial[Any]) -> tuple[str, ...]:
  row = traits.rows().get(metric.func.__name__)
  return "scores", "subtopics" if row and row.about.subtopics else "labels", "where"


def _smooth(metric: Callable[..., Any], kind: Any, sign: int = 1) -> Callable[..., Any]:
  """A metric, or its negative, under a smooth ranking at temperature 1."""
  return lambda *args, **given: sign * metric(*args, ranking=kind(1.0), **given)


def _masked(function: Callable[..., Any], **given: Any) -> Callable[..., Any]:
  return lambda scores, labels, where: function(scores, labels, where=where, **given)


def _squares(function: Callable[..., Any]) -> Callable[..., Any]:
  """The sum of the squares of a matrix, which its gradient needs whole."""
  return lambda scores, where: jnp.sum(jnp.square(function(scores, where=where)), axis=(-2, -1))


def _at(program: Program, *shapes: tuple[int, int]) -> Iterator[Program]:
  """A masked program at some shapes, and at the first also with scores in bfloat16."""
  for shape in shapes:
    yield program._replace(title=f"{program.title}, masked", shape=shape)
  yield program._replace(
    title=f"{program.title}, masked, bfloat16", shape=shapes[0], dtype="bfloat16"
  )


@functools.cache
def table(only_headline: bool = False) -> dict[str, Program]:
  """All programs by name, or those of the headline budgets, after the formulas by hand."""
  rows = [*of_hand(), *headline(), *(() if only_headline else general())]
  named = {program.name: program for program in rows}
  if len(named) < len(rows):
    raise ValueError("two programs have the same name.")
  return named
