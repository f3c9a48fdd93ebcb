"""`evaluate`: several measures on one ranking."""

import functools
from collections.abc import Callable

import jax
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import checks
from jaxrank._core.apply import Evaluated, apply_calls
from jaxrank._core.ranked import Ranking
from jaxrank.measures import scales
from jaxrank.measures.grammar import read_measures
from jaxrank.measures.measure import Measure, Measures
from jaxrank.rankings.exact import Exact


@checks.written("evaluate('nDCG@10', scores, labels)")
def evaluate(
  measures: Measures,
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> dict[str, Array]:
  """Evaluates several measures on one ranking, which is computed once.

  >>> import jax.numpy as jnp
  >>> import jaxrank as jr
  >>> scores, labels = jnp.array([[3.0, 2.0, 1.0]]), jnp.array([[0, 2, 1]])
  >>> values = evaluate(["nDCG@2 RR", jr.recall, Measure(jr.err, max_label=2)], scores, labels)
  >>> print({name: f"{value[0]:.4f}" for name, value in values.items()})
  {'nDCG@2': '0.4796', 'RR': '0.5000', 'recall': '1.0000', 'err(max_label=2)': '0.3958'}

  Args:
    measures: A string of names, as `parse` reads them; a metric, of the library or made by
      `jaxrank.metric`, with its defaults; a `Measure`; or an iterable of these.
    scores: `[..., n]`.
    labels: `[..., n]`, or `[..., n, subtopics]` if all measures are of diversity.
    where: `[..., n]`, False on padding.
    ranking: Exact or smooth.

  Returns:
    Arrays `[...]`, one value per query, by the names of the measures.

  Raises:
    ValueError: if a name is unknown, two measures have the same name, some measures are of
      diversity and others not, shapes differ, or a label of NumPy or in a list is beyond the scale
      of a measure, as the grade 5 is for `ERR@10`. Arrays of JAX are not read: in them, and under
      `jit`, such a label counts as the best grade.
    TypeError: if an item of `measures` is no measure, or a dtype cannot be ranked.
  """
  with checks.named("evaluate"):
    parsed = read_measures(measures)
    values = evaluate_calls(parsed, scores, labels, where, ranking)
  return {measure.name: x.value for measure, x in zip(parsed, values, strict=True)}


@functools.lru_cache(maxsize=64)
def compiled(measures: tuple[Measure, ...]) -> Callable[..., list[Array]]:
  """A jitted function of scores, labels and mask, with a value for each measure in their order.

  Calls with equal measures get the same function, whose programs they share.
  """

  def values(scores: ArrayLike, labels: ArrayLike, where: ArrayLike) -> list[Array]:
    return [x.value for x in evaluate_calls(measures, scores, labels, where, Exact())]

  return jax.jit(values)


def evaluate_calls(
  measures: tuple[Measure, ...],
  scores: ArrayLike,
  labels: ArrayLike,
  where: ArrayLike | None,
  ranking: Ranking,
  *,
  with_found: bool = False,
) -> list[Evaluated]:
  """The values of measures; with `with_found`, also whether each query holds what they seek."""
  if not measures:
    return []
  calls = [measure.call() for measure in measures]
  evaluated = apply_calls(calls, scores, labels, where, ranking, with_found=with_found)
  scales.check_arrays(measures, labels, where)
  return evaluated
