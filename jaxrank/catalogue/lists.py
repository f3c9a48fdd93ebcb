"""`novelty` and `intra_list_distance`, metrics of a list without labels, exact or smooth."""

import functools
from typing import Literal, get_args

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank import discounts
from jaxrank._base import Cutoff
from jaxrank._core import checks
from jaxrank._core.arithmetic import floating, safe_divide, safe_sqrt
from jaxrank._core.ranked import Ranked, Ranking, seen
from jaxrank.metrics import metric
from jaxrank.rankings.exact import Exact

Distance = Literal["cosine", "squared_euclidean"]


def novelty(
  scores: ArrayLike,
  popularity: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  ranking: Ranking = Exact(),
) -> Array:
  """Novelty of a list: the mean self-information of its first `k` items, in bits.

  `novelty@k = sum_{r_i <= k} -log2(p_i) / min(k, items retrieved)`, with the popularity `p_i`. It
  is linear in the items of the list, so that smooth rankings with noise give its expectation.

  >>> print(f"{novelty(jnp.array([3.0, 2.0, 1.0]), jnp.array([0.5, 0.125, 0.1]), k=2):.4f}")
  2.0000

  Args:
    scores: `[..., n]`, higher first; -inf for items that are not retrieved.
    popularity: `[..., n]`, the probability that a user knows the item, such as the share of users
      who chose it, in (0, 1]. That of every valid item must be positive, or the value is NaN.
    where: `[..., n]`, boolean, False on padding; None is all True.
    k: Cut-off rank; None is the whole list.
    ranking: How items are ordered, exact or smooth.

  Returns:
    `[...]`, at least 0; 0 for lists without items.

  Raises:
    ValueError: if shapes differ, or `k` is less than 1.
    TypeError: if an argument has a wrong type.

  References:
    Zhou et al., `Solving the apparent diversity-accuracy dilemma of recommender systems
    <https://doi.org/10.1073/pnas.1000488107>`_, 2010.
  """
  with checks.named("novelty"):
    known = floating(checks.array("popularity", popularity))
    checks.same_shape("scores", checks.array("scores", scores), "popularity", known)
  bits = jnp.where(known > 0, -jnp.log2(jnp.where(known > 0, known, 1)), jnp.nan)
  return _novelty(scores, bits, where=where, k=k, ranking=ranking)


@functools.partial(metric, seeks="any items", range=(0.0, float("inf")))
def _novelty(ranked: Ranked, *, k: Cutoff = None) -> Array:
  total = ranked.expect(ranked.labels, discounts.constant, k=k)
  return safe_divide(total, seen(ranked, k))


def intra_list_distance(
  scores: ArrayLike,
  embeddings: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  distance: Distance = "cosine",
  ranking: Ranking = Exact(),
) -> Array:
  """Intra-list distance: the mean distance between two of the first `k` items.

  `ILD@k = 2 / (m (m - 1)) sum_{i < j} d(e_i, e_j)` over the `m` items at ranks up to `k`. Under
  exact rankings it is the expectation over the orders of tied items. Under smooth rankings it is
  the product of soft masks: with the probability `w_i` that `r_i <= k`, `sum_{i < j} w_i w_j d_ij /
  sum_{i < j} w_i w_j`, which takes the two items of a pair as independent.

  Sums over pairs follow from sums over items: the time is O(n log n + n d).

  >>> embeddings = jnp.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
  >>> print(f"{intra_list_distance(jnp.array([3.0, 2.0, 1.0]), embeddings):.4f}")
  0.6667

  Args:
    scores: `[..., n]`, higher first; -inf for items that are not retrieved.
    embeddings: `[..., n, d]`, the vector of each item.
    where: `[..., n]`, boolean, False on padding; None is all True.
    k: Cut-off rank; None is the whole list.
    distance: "cosine", one minus the cosine (that of a zero vector is 0), or "squared_euclidean".
    ranking: How items are ordered, exact or smooth.

  Returns:
    `[...]`, at least 0 up to rounding; 0 for lists of fewer than two items.

  Raises:
    ValueError: if shapes do not fit, the distance is unknown, or `k` is less than 1.
    TypeError: if an argument has a wrong type.

  References:
    Ziegler et al., `Improving recommendation lists through topic diversification
    <https://doi.org/10.1145/1060745.1060754>`_, 2005.
  """
  with checks.named("intra_list_distance"):
    items, vectors = checks.array("scores", scores), checks.array("embeddings", embeddings)
    if vectors.shape[:-1] != items.shape:
      raise ValueError(
        f"embeddings must have shape [..., candidates, d], with scores of shape {items.shape}, got "
        f"{vectors.shape}."
      )
  exact = isinstance(ranking, Exact)
  return _intra_list_distance(
    scores, embeddings, where=where, k=k, distance=distance, exact=exact, ranking=ranking
  )


@functools.partial(
  metric,
  seeks="any items",
  range=(0.0, float("inf")),
  subtopics=True,
  depth="all",
  checks={"distance": lambda x: checks.choice("distance", x, get_args(Distance))},
)
def _intra_list_distance(
  ranked: Ranked, *, k: Cutoff = None, distance: Distance = "cosine", exact: bool = True
) -> Array:
  vectors = ranked.labels
  if distance == "cosine":
    length = safe_sqrt(jnp.sum(vectors**2, axis=-1, keepdims=True))
    vectors = safe_divide(vectors, jnp.broadcast_to(length, vectors.shape))
  else:
    # Distances do not change, and sums of squares round less.
    share = ranked.where.astype(ranked.dtype) / jnp.maximum(ranked.count(ranked.where), 1)
    vectors = vectors - jnp.sum(share[:, None] * vectors, axis=0, keepdims=True)

  def within(w: Array) -> Array:
    return ranked.expect(w, discounts.constant, k=k)

  w = jax.grad(within)(jnp.zeros_like(ranked.where, ranked.dtype))
  if not exact:
    distances, pairs = _over_pairs(w, vectors, distance)
    return safe_divide(distances, pairs)
  # Of the items that tie across the cut-off, `m` of `t` are in the list, all with one probability.
  sure, maybe = (x.astype(ranked.dtype) for x in (w >= 1, (w > 0) & (w < 1)))
  t, m = jnp.sum(maybe), jnp.sum(jnp.where(maybe > 0, w, 0))
  one, two = safe_divide(m, t), safe_divide(m * (m - 1), t * (t - 1))
  inside, among, whole = (_over_pairs(x, vectors, distance) for x in (sure, maybe, sure + maybe))
  distances, pairs = (
    x + one * (z - x - y) + two * y for x, y, z in zip(inside, among, whole, strict=True)
  )
  return safe_divide(distances, pairs)


def _over_pairs(w: Array, vectors: Array, distance: Distance) -> tuple[Array, Array]:
  """The sums of `w_i w_j d_ij` and of `w_i w_j` over ordered pairs of two items."""
  mass, squares = jnp.sum(w), jnp.sum(w**2)
  sizes = jnp.sum(vectors**2, axis=-1)
  mean = jnp.sum(w[:, None] * vectors, axis=0)
  products = jnp.sum(mean**2) - jnp.sum(w**2 * sizes)
  pairs = mass**2 - squares
  if distance == "cosine":
    return pairs - products, pairs
  return 2 * (jnp.sum(w * sizes) * mass - jnp.sum(w**2 * sizes) - products), pairs
