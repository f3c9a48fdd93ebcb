"""Numbers of pairs of items that scores and labels order alike, for `Exact` (Knight, 1966)."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrank._base import Pairs
from jaxrank._core import checks, sorting, ties
from jaxrank._core._jax import enable_x64
from jaxrank._core.all_pairs import ADDED_AT_ONCE, Items, counts
from jaxrank._core.ranked import Ranked, depth_of_pairs
from jaxrank._core.sorting import take


def counted(query: Ranked) -> Pairs:
  """Numbers of pairs of valid items of a query, whatever the rule for ties.

  Short lists may have any order, and long ones that of the ranks. docs/mathematics.md, "Sorting
  keys and counts of pairs".
  """
  return (_by_sorts if depth_of_pairs(query.n) is None else _compared)(query)


def _compared(query: Ranked) -> Pairs:
  """Compares all pairs."""
  checks.not_split(query.scores)
  score, label = query.keys, sorting.keys(query.given_labels, query.where)
  # Nothing is higher than padding, nor padding higher than an item.
  lower_score, lower_label = (jnp.where(query.where, x, sorting.LARGEST) for x in (score, label))
  # Three counts share an int32: those of all pairs, or those of each item.
  few = query.n <= ADDED_AT_ONCE
  bits = (query.n * (query.n - 1) // 2 if few else query.n - 1).bit_length()
  nothing, one, discordant, different = map(np.int32, (0, 1, 1 << bits, 1 << 2 * bits))

  def by_label(upper: Items, lower: Items) -> Array:
    (score, label), (lower_score, lower_label) = upper, lower
    worth = jnp.where(score < lower_score, different + discordant, different)
    worth = jnp.where(score > lower_score, different + one, worth)
    return jnp.where(label > lower_label, worth, nothing)

  def by_score(upper: Items, lower: Items) -> Array:
    (score,), (lower_score,) = upper, lower
    return jnp.where(score > lower_score, one, nothing)

  labels = counts(by_label, (score, label), (score, lower_label))

  def total(field: int) -> Array:
    number = labels >> (bits * field) & ((1 << bits) - 1)
    return jnp.sum(number.astype(query.dtype))

  return Pairs(
    concordant=total(0),
    discordant=total(1),
    different_scores=jnp.sum(counts(by_score, (score,), (lower_score,)).astype(query.dtype)),
    different_labels=total(2),
  )


def _by_sorts(query: Ranked) -> Pairs:
  start, _ = ties.layout(query.keys, sorting.MASKED)
  labels, by_label = sorting.order(sorting.keys(query.given_labels, query.where))
  # In the order of the scores; tied scores in the order of the labels, which is no inversion.
  start, back = sorting.order(~take(start, by_label))
  discordant = sorting.discordant(back)
  joint = take(labels, back)
  changed = (start[1:] != start[:-1]) | (joint[1:] != joint[:-1])
  joint = jnp.concatenate([jnp.zeros_like(start[:1]), -jnp.cumsum(changed, dtype=jnp.int32)])
  joint = jnp.where(query.where, joint, sorting.MASKED)
  tied_scores, tied_labels, tied_both = map(_tied_pairs, (query.keys, labels, joint))
  with enable_x64():
    n = jnp.sum(query.where.astype(jnp.int64))
    both = (n * (n - 1) - tied_scores - tied_labels + tied_both) // 2
    counts = Pairs(
      concordant=both - discordant,
      discordant=discordant,
      different_scores=(n * (n - 1) - tied_scores) // 2,
      different_labels=(n * (n - 1) - tied_labels) // 2,
    )
    return Pairs(*(count.astype(query.dtype) for count in counts))


def _tied_pairs(key: Array) -> Array:
  """The number of ordered pairs of valid items that tie by sorted keys, int64."""
  start, end = ties.layout(key, sorting.MASKED)
  with enable_x64():
    return jnp.sum((end - start).astype(jnp.int64))
