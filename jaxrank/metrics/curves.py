"""Metrics at every cut-off at once."""

import jax.numpy as jnp
from jax import Array

from jaxrank._typing import Ranked
from jaxrank.masking import safe_divide
from jaxrank.metrics._metric import metric


@metric(sorts="all")
def precision_recall_curve(
  ranked: Ranked, *, max_k: int | None = None, adaptive_k: bool = False
) -> tuple[Array, Array, Array]:
  """Precision and recall at every cut-off `1 ... max_k`.

  >>> scores, labels = jnp.array([4.0, 3.0, 2.0, 1.0]), jnp.array([1, 0, 0, 1])
  >>> precision, recall, k = precision_recall_curve(scores, labels, max_k=2)
  >>> print(precision, recall, k)
  [1.  0.5] [0.5 0.5] [1 2]

  Args:
    scores: `[..., n]`.
    labels: `[..., n]`, relevant where positive.
    where: `[..., n]`, False on padding.
    max_k: The last cut-off, a Python int; None is `n`.
    adaptive_k: Whether cut-offs stop at the number of valid items of the query, which then
      repeats.
    ranking: `Exact`.

  Returns:
    Precision, recall and cut-offs, each `[..., max_k]`.

  Raises:
    TypeError: if `max_k` is traced: it is a shape.
  """
  if not isinstance(max_k, int | None):
    raise TypeError("max_k is the length of the curve and must be a Python int, got a traced one.")
  b = ranked.relevant(None)
  hits = ranked.exact("precision_recall_curve").hits(b)
  max_k = max_k or ranked.n
  k = jnp.arange(1, max_k + 1, dtype=jnp.int32)
  hits = hits[jnp.minimum(k, ranked.n) - 1]
  if adaptive_k:
    k = jnp.minimum(k, jnp.maximum(jnp.sum(ranked.where, dtype=jnp.int32), 1))
  k = k + jnp.zeros_like(hits, k.dtype)
  return hits / k.astype(ranked.dtype), safe_divide(hits, ranked.count(b)), k
