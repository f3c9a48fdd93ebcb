"""`evaluate`: many measures of one ranking."""

from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import checks
from jaxrank._core.apply import Evaluated, apply_calls
from jaxrank._core.ranked import Ranking
from jaxrank.measures.grammar import parse
from jaxrank.measures.measure import Measure, Measures
from jaxrank.rankings.exact import Exact


def evaluate(
  measures: Measures,
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> dict[str, Array]:
  """Many measures of the same ranking, which is made once.

  >>> import jax.numpy as jnp
  >>> import jaxrank as jr
  >>> scores, labels = jnp.array([[3.0, 2.0, 1.0]]), jnp.array([[0, 2, 1]])
  >>> values = evaluate(["nDCG@2 RR", jr.recall, Measure(jr.err, max_label=2)], scores, labels)
  >>> print({name: f"{value[0]:.4f}" for name, value in values.items()})
  {'nDCG@2': '0.4796', 'RR': '0.5000', 'recall': '1.0000', 'err(max_label=2)': '0.3958'}

  Args:
    measures: Names, as `parse` reads them; metrics, ours or made by `jaxrank.metric`, with their
      defaults; `Measure`s; or several of these.
    scores: `[..., n]`.
    labels: `[..., n]`, or `[..., n, subtopics]` if all measures are of diversity.
    where: `[..., n]`, False on padding.
    ranking: Exact or smooth.

  Returns:
    Arrays `[...]`, one value per query, by name.

  Raises:
    ValueError: for an unknown name, two measures of one name, measures that take labels of
      different rank, or shapes that differ.
    TypeError: for what is no measure, or dtypes that cannot be ranked.
  """
  with checks.named("evaluate"):
    found = parse(measures)
    values = evaluate_calls(found, scores, labels, where, ranking)
  return {measure.name: x.value for measure, x in zip(found, values, strict=True)}


def evaluate_calls(
  measures: tuple[Measure, ...],
  scores: ArrayLike,
  labels: ArrayLike,
  where: ArrayLike | None,
  ranking: Ranking,
  *,
  with_found: bool = False,
) -> list[Evaluated]:
  """The values of measures, and whether each query holds what they seek."""
  if not measures:
    return []
  calls = [measure.call() for measure in measures]
  return apply_calls(calls, scores, labels, where, ranking, with_found=with_found)
