"""Numbers of pairs of items that scores and labels order alike, for `Exact` (Knight, 1966)."""

import jax.numpy as jnp
from jax import Array

from jaxrank._core import inversions, sorting, ties
from jaxrank._core.ranked import Ranked
from jaxrank._core.sorting import take
from jaxrank._core.types import Pairs
from jaxrank._core.x64 import enable_x64


def counted(query: Ranked) -> Pairs:
  """Numbers of pairs of valid items of a query in rank order, whatever the rule for ties.

  docs/mathematics.md, "Sorting keys and counts of pairs".
  """
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
