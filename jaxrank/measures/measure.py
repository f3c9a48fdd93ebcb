"""Measures by name: `parse`, `evaluate`, `resolve_metrics`."""

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank import gains, metrics
from jaxrank._core.types import Gain
from jaxrank.measures import grammar
from jaxrank.metrics._apply import Question, ask
from jaxrank.rankings.exact import Exact

_GAINS = {"linear": gains.linear, "exponential": gains.exponential, "binary": gains.binary}


@dataclasses.dataclass(frozen=True)
class Measure:
  """A metric with its parameters and the name of its values.

  Attributes:
    name: As in the keys of `evaluate`.
    metric: The name of a function of `jaxrank.metrics`.
    parameters: Its keyword arguments as sorted pairs.
  """

  name: str
  metric: str
  parameters: tuple[tuple[str, Any], ...] = ()

  def __call__(
    self, scores: ArrayLike, labels: ArrayLike, *, where: ArrayLike | None = None
  ) -> Array:
    """The values of this measure alone, `[...]`."""
    return evaluate([self], scores, labels, where=where)[self.name]

  def __str__(self) -> str:
    return self.name

  def question(self) -> Question:
    """What to ask of a ranked query."""
    parameters = dict(self.parameters)
    if "gain" in parameters:
      parameters["gain"] = _gain(parameters["gain"])
    return getattr(metrics, self.metric).question(parameters)


@functools.cache
def _gain(gain: str | tuple[tuple[float, float], ...]) -> Gain:
  """A gain by name, or a table of labels to gains, linear where it says nothing.

  Cached, because programs are compiled for a gain by its identity.
  """
  if isinstance(gain, str):
    return _GAINS[gain]

  def graded(labels):
    value = gains.linear(labels)
    for label, worth in gain:
      value = jnp.where(labels == label, jnp.asarray(worth, labels.dtype), value)
    return value

  return graded


def parse(text: str | Iterable[str | Measure]) -> tuple[Measure, ...]:
  """Measures from names in the spelling of ir_measures, trec_eval, ranx or this library.

  A name means what its dialect means: `nDCG@10` has linear gain, as trec_eval's `ndcg_cut_10`,
  and `nDCG(dcg='exp-log2')@10` and `ndcg_burges@10` an exponential one. `ERR@20` has four grades
  above 0. The names of our own functions have our own defaults.

  >>> print(*parse("nDCG@10 AP(rel=2) P@5 recip_rank"))
  nDCG@10 AP(rel=2) P@5 recip_rank

  Args:
    text: Names separated by spaces or commas, or a sequence of names and measures.

  Returns:
    Measures, hashable and in order.

  Raises:
    ValueError: for an unknown name, which suggests the nearest, or a bad parameter.
    TypeError: for what is no names at all.
  """
  if isinstance(text, str):
    text = [text]
  if not isinstance(text, Iterable):
    raise TypeError(f"measures must be names such as 'nDCG@10', or measures, got {text!r}.")
  found: list[Measure] = []
  for item in text:
    if isinstance(item, Measure):
      found.append(item)
    else:
      found += [Measure(s.name, s.metric, s.parameters) for s in grammar.parse_names(item)]
  return tuple(found)


def resolve_metrics(names: Iterable[str]) -> tuple[Measure, ...]:
  """Measures from plain names of metrics, such as `mrr` and `hit_rate`.

  >>> print(*resolve_metrics(["mrr", "hit_rate"]))
  mrr hit_rate

  Args:
    names: One name each.

  Returns:
    Measures in order.

  Raises:
    ValueError: for an unknown name, which suggests the nearest.
  """
  return parse([names] if isinstance(names, str) else list(names))


def evaluate(
  measures: str | Iterable[str | Measure],
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  ranking: Any = Exact(),
) -> dict[str, Array]:
  """Many measures of the same ranking, which is made once.

  >>> import jax.numpy as jnp
  >>> values = evaluate("nDCG@2 RR", jnp.array([[3.0, 2.0, 1.0]]), jnp.array([[0, 2, 1]]))
  >>> print({name: f"{value[0]:.4f}" for name, value in values.items()})
  {'nDCG@2': '0.4796', 'RR': '0.5000'}

  Args:
    measures: From `parse`, or names.
    scores: `[..., n]`.
    labels: `[..., n]`.
    where: `[..., n]`, False on padding.
    ranking: Exact or smooth.

  Returns:
    Arrays `[...]`, one value per query, by name.

  Raises:
    ValueError: for an unknown name, or shapes that differ.
    TypeError: for dtypes that cannot be ranked.
  """
  measures = parse(measures)
  questions = [measure.question() for measure in measures]
  values = ask(questions, scores, labels, where, ranking) if measures else []
  return {measure.name: value for measure, value in zip(measures, values, strict=True)}
