"""Numbers of pairs of items that scores and labels order alike, for `Exact` (Knight, 1966)."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrank._core import checks, inversions, sorting, ties
from jaxrank._core.arithmetic import ones_where
from jaxrank._core.ranked import Ranked
from jaxrank._core.recorder import ALL_PAIRS
from jaxrank._core.sorting import take
from jaxrank._core.types import Pairs
from jaxrank._core.x64 import enable_x64


def counted(query: Ranked) -> Pairs:
  """Numbers of pairs of valid items of a query, whatever the rule for ties.

  Short lists may have any order, and long ones that of the ranks. docs/mathematics.md, "Sorting
  keys and counts of pairs".
  """
  return (_compared if query.n <= ALL_PAIRS else _by_sorts)(query)


def _compared(query: Ranked) -> Pairs:
  """Compares all pairs."""
  checks.not_split(query.scores)
  score, label = query.keys, sorting.keys(query.given_labels, query.where)
  # Nothing is higher than padding, nor padding higher than an item.
  lower_score, lower_label = (jnp.where(query.where, x, sorting.MOST) for x in (score, label))
  higher = score[:, None] > lower_score[None]
  better, worse = label[:, None] > lower_label[None], label[:, None] < label[None]
  # The three counts of an item share a float, which is exact, because a CPU adds up floats fastest.
  concordant, discordant, different = (np.float32(ALL_PAIRS**i) for i in range(3))
  of_better = different + jnp.where(higher, concordant, 0)
  counts = jnp.where(better, of_better, jnp.where(higher & worse, discordant, 0))
  counts = jnp.sum(counts, axis=-1).astype(jnp.int32)

  def total(x: Array) -> Array:
    return jnp.sum(x.astype(query.dtype))

  return Pairs(
    concordant=total(counts % ALL_PAIRS),
    discordant=total(counts // ALL_PAIRS % ALL_PAIRS),
    different_scores=jnp.sum(ones_where(higher, query.dtype)),
    different_labels=total(counts // ALL_PAIRS**2),
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
