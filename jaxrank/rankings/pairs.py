"""Numbers of pairs of items that scores and labels order alike, for `Exact` (Knight, 1966)."""

import jax.numpy as jnp
from jax import Array

from jaxrank._core import checks, inversions, sorting, ties
from jaxrank._core.arithmetic import ones_where
from jaxrank._core.ranked import Ranked
from jaxrank._core.recorder import depth_of_pairs
from jaxrank._core.sorting import take
from jaxrank._core.types import Pairs
from jaxrank._core.x64 import enable_x64


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
  lower_score, lower_label = (jnp.where(query.where, x, sorting.MOST) for x in (score, label))
  better = label[:, None] > lower_label[None]
  # Three counts share a number: those of all pairs an int32 if they fit, those of each item a
  # float32, because a CPU adds up long rows of floats fastest.
  all_pairs = query.n * (query.n - 1) // 2
  whole = 3 * all_pairs.bit_length() < 32
  most, number = (all_pairs, jnp.int32) if whole else (query.n - 1, jnp.float32)
  bits = most.bit_length()
  nothing, concordant, discordant, different = (
    jnp.asarray(x, number) for x in (0, 1, 1 << bits, 1 << 2 * bits)
  )
  lower = jnp.where(score[:, None] < score[None], different + discordant, different)
  worth = jnp.where(score[:, None] > score[None], different + concordant, lower)
  counts = jnp.sum(jnp.where(better, worth, nothing), axis=None if whole else -1)

  def total(field: int) -> Array:
    share = counts.astype(jnp.int32) >> (bits * field) & ((1 << bits) - 1)
    return jnp.sum(share.astype(query.dtype))

  return Pairs(
    concordant=total(0),
    discordant=total(1),
    different_scores=jnp.sum(ones_where(score[:, None] > lower_score[None], query.dtype)),
    different_labels=total(2),
  )


def _by_sorts(query: Ranked) -> Pairs:
  start, _ = ties.layout(query.keys, sorting.MASKED)
  labels, by_label = sorting.order(sorting.keys(query.given_labels, query.where))
  # In the order of the scores; tied scores in the order of the labels, which is no inversion.
  start, back = sorting.order(~take(start, by_label))
  discordant = inversions.discordant(back)
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
