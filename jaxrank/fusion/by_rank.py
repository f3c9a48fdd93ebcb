"""Methods that combine ranks: they need no scale.

The points of an item are the expectation over the orders of tied items, so that they do not depend
on the order of the input: items that share the ranks 2 and 3 have the mean of the points of both.
With a smooth ranking as `ranking`, points have gradients by the scores.
"""

from typing import Literal

import jax.numpy as jnp
from jax import Array, lax
from jax.tree_util import Partial
from jax.typing import ArrayLike

from jaxrank import discounts
from jaxrank._base import Discount
from jaxrank._core import checks
from jaxrank._core.ranked import Ranking
from jaxrank.exposure.shares import expected
from jaxrank.fusion._define import Runs, by_any, method, points_of, retrieved, summed
from jaxrank.fusion.by_score import times_count
from jaxrank.fusion.normalising import borda_points, mean_rank
from jaxrank.rankings.exact import Exact


def by_rank(
  scores: ArrayLike,
  where: ArrayLike | None,
  discount: Discount,
  ranking: Ranking = Exact(),
  scale: ArrayLike = 1,
) -> Array:
  """`[systems, ..., n]`, expected points by rank, times a number, and -inf for other items."""
  s = jnp.asarray(scores)
  has = retrieved(s, jnp.asarray(where))
  points = expected(jnp.where(has, s, 0), where=has, discount=discount, ranking=ranking)
  return jnp.where(has, scale * points, -jnp.inf)


def _reciprocal(k: ArrayLike, rank: Array) -> Array:
  return 1 / (jnp.asarray(k) + rank)


def _weighs(name: str, value: object) -> None:
  checks.choice(name, value, ("score", "rank"))


@method("ranks", "rrf", k=checks.nonnegative, weighs=_weighs)
def rrf(
  scores: ArrayLike,
  *,
  where: ArrayLike | None = None,
  weights: ArrayLike | None = None,
  k: ArrayLike = 60.0,
  weighs: Literal["score", "rank"] = "score",
  ranking: Ranking = Exact(),
) -> Array:
  """Reciprocal rank fusion (RRF).

  `sum_s w_s / (k + r_s)`, with the rank `r_s` of the item in system `s`, over the systems that
  retrieve it. Engines disagree on where a weight stands. It multiplies the score in Elasticsearch,
  OpenSearch, Chroma and Azure AI Search. In Qdrant it divides the rank, `1 / (k + r_s / w_s)`, with
  a constant that is `k + 1`, by default 2.

  >>> scores = jnp.array([[9.0, 8.0, 7.0], [0.2, -jnp.inf, 0.9]])
  >>> print(*(f"{x:.4f}" for x in rrf(scores)))
  0.0325 0.0161 0.0323
  >>> fused = rrf(scores, weights=jnp.array([3.0, 1.0]), k=1.0, weighs="rank")  # as in Qdrant
  >>> print(*(f"{x:.3f}" for x in fused))
  1.083 0.600 1.000

  Args:
    scores: `[systems, ..., n]`.
    where: `[..., n]`, False on padding.
    weights: `[systems]` or `[..., systems]`; None is 1 for each.
    k: The constant, at least 0: the larger, the less the first ranks count.
    weighs: What a weight is applied to: "score", or "rank", which takes the mean rank of ties.
    ranking: How ranks are computed: exact, or smooth for gradients.

  Returns:
    `[..., n]`.

  References:
    Cormack et al., `Reciprocal rank fusion outperforms Condorcet and individual rank learning
    methods <https://doi.org/10.1145/1571941.1572114>`_, 2009.
  """
  if weighs == "score":
    return points_of(by_rank(scores, where, Partial(_reciprocal, k), ranking), Runs.total)

  def divided(runs: Runs) -> Array:
    # `1 / (k + r / w)`, of which neither value nor slope is lost for a weight of 0.
    by = jnp.where(runs.has, k * runs.weights + runs.points, 1)
    return summed(jnp.where(runs.has, runs.weights / by, 0))

  return points_of(by_rank(scores, where, lambda rank: rank, ranking), divided)


@method("ranks", "isr")
def isr(
  scores: ArrayLike,
  *,
  where: ArrayLike | None = None,
  weights: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  """Inverse square rank (ISR).

  `m sum_s w_s / r_s^2`, with the rank `r_s` of the item in system `s`, over the `m` systems that
  retrieve it.

  >>> scores = jnp.array([[9.0, 8.0, 7.0], [0.2, -jnp.inf, 0.9]])
  >>> print(*(f"{x:.3f}" for x in isr(scores)))
  2.500 0.250 2.222

  See `jaxrank.fusion` for the arguments and what methods share.

  Returns:
    `[..., n]`.

  References:
    Mourão et al., `Multimodal medical information retrieval with unsupervised rank fusion
    <https://doi.org/10.1016/j.compmedimag.2014.05.006>`_, 2015.
  """
  return points_of(by_rank(scores, where, lambda rank: 1 / rank**2, ranking), times_count)


@method("ranks", "log_isr")
def log_isr(
  scores: ArrayLike,
  *,
  where: ArrayLike | None = None,
  weights: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  """Inverse square rank with the logarithm of the number of systems.

  `log(m) sum_s w_s / r_s^2`, with the rank `r_s` of the item in system `s`, over the `m` systems
  that retrieve it. An item of one system alone has 0.

  >>> scores = jnp.array([[9.0, 8.0, 7.0], [0.2, -jnp.inf, 0.9]])
  >>> print(*(f"{x:.3f}" for x in log_isr(scores)))
  0.866 0.000 0.770

  See `jaxrank.fusion` for the arguments and what methods share.

  Returns:
    `[..., n]`.

  References:
    Mourão et al., `Multimodal medical information retrieval with unsupervised rank fusion
    <https://doi.org/10.1016/j.compmedimag.2014.05.006>`_, 2015.
  """
  points = by_rank(scores, where, lambda rank: 1 / rank**2, ranking)
  return points_of(points, lambda runs: _times_log(runs, 0.0))


@method("ranks", "logn_isr", sigma=checks.unit_interval)
def logn_isr(
  scores: ArrayLike,
  *,
  where: ArrayLike | None = None,
  weights: ArrayLike | None = None,
  sigma: ArrayLike = 0.01,
  ranking: Ranking = Exact(),
) -> Array:
  """Inverse square rank with the logarithm of the number of systems, shifted.

  `log(m + sigma) sum_s w_s / r_s^2`, with the rank `r_s` of the item in system `s`, over the `m`
  systems that retrieve it. The shift keeps the items of one system alone apart.

  >>> scores = jnp.array([[9.0, 8.0, 7.0], [0.2, -jnp.inf, 0.9]])
  >>> print(*(f"{x:.4f}" for x in logn_isr(scores)))
  0.8727 0.0025 0.7757

  Args:
    scores: `[systems, ..., n]`.
    where: `[..., n]`, False on padding.
    weights: `[systems]` or `[..., systems]`; None is 1 for each.
    sigma: The shift, in [0, 1].
    ranking: How ranks are computed: exact, or smooth for gradients.

  Returns:
    `[..., n]`.

  References:
    Mourão et al., `Multimodal medical information retrieval with unsupervised rank fusion
    <https://doi.org/10.1016/j.compmedimag.2014.05.006>`_, 2015.
  """
  points = by_rank(scores, where, lambda rank: 1 / rank**2, ranking)
  return points_of(points, lambda runs: _times_log(runs, sigma))


def _times_log(runs: Runs, shift: ArrayLike) -> Array:
  return runs.total() * jnp.log(jnp.maximum(runs.count, 1) + shift)


@method("ranks", "rbc", phi=checks.unit_interval)
def rbc(
  scores: ArrayLike,
  *,
  where: ArrayLike | None = None,
  weights: ArrayLike | None = None,
  phi: ArrayLike = 0.9,
  ranking: Ranking = Exact(),
) -> Array:
  """Rank-biased centroids (RBC).

  `sum_s w_s (1 - phi) phi^(r_s - 1)`, with the rank `r_s` of the item in system `s`, over the
  systems that retrieve it: the sum of what a reader with the persistence of RBP gives to it.

  >>> print(rbc(jnp.array([[9.0, 8.0, 7.0], [0.2, -jnp.inf, 0.9]]), phi=0.5))
  [0.75  0.25  0.625]

  Args:
    scores: `[systems, ..., n]`.
    where: `[..., n]`, False on padding.
    weights: `[systems]` or `[..., systems]`; None is 1 for each.
    phi: The persistence, in [0, 1].
    ranking: How ranks are computed: exact, or smooth for gradients.

  Returns:
    `[..., n]`.

  References:
    Bailey et al., `Retrieval consistency in the presence of query variations
    <https://doi.org/10.1145/3077136.3080839>`_, 2017.
  """
  points = by_rank(scores, where, discounts.geometric(phi), ranking, scale=1 - phi)
  return points_of(points, Runs.total)


@method("ranks", "bordafuse", "w_bordafuse")
def borda_fuse(
  scores: ArrayLike,
  *,
  where: ArrayLike | None = None,
  weights: ArrayLike | None = None,
  ranking: Ranking = Exact(),
) -> Array:
  """Borda-fuse: the weighted sum of Borda points.

  `sum_s w_s (N + 1 - r_s)`, with the rank `r_s` of the item in system `s`, where `N` items are
  retrieved by some system; the items that a system lacks share what is left, `(N - m + 1) / 2` for
  each where it retrieves `m`.

  >>> print(borda_fuse(jnp.array([[9.0, 8.0, 7.0], [0.2, -jnp.inf, 0.9]])))
  [5. 3. 4.]

  See `jaxrank.fusion` for the arguments and what methods share.

  Returns:
    `[..., n]`.

  References:
    Aslam and Montague, `Models for metasearch <https://doi.org/10.1145/383952.384007>`_, 2001.
  """
  s = jnp.asarray(scores)
  has = retrieved(s, jnp.asarray(where))
  points = borda_points(jnp.where(has, s, 0), has, ranking)
  return points_of(jnp.where(by_any(has), points, -jnp.inf), Runs.total)


@method("ranks", "condorcet", "w_condorcet")
def condorcet_fuse(
  scores: ArrayLike, *, where: ArrayLike | None = None, weights: ArrayLike | None = None
) -> Array:
  """Condorcet-fuse: one for the item itself and for each item that it beats, by majority.

  `1 + sum_j b_ij`, where `b_ij` is 1 if item `i` beats `j`, 1/2 for a draw, and otherwise 0. An
  item beats another one if the systems that rank it ahead have more weight than those that rank it
  behind. An item that a system retrieves is ahead of those that it lacks; two that it lacks, and
  two with one score, have no vote. Halves for draws are those of Copeland's rule. If majorities
  contradict each other, Condorcet's order does not exist, and items that beat equally many are
  tied, so that the result does not depend on the order of the input. The derivative is 0.

  The time is quadratic in the number of items, and the memory linear.

  >>> print(condorcet_fuse(jnp.array([[9.0, 8.0, 7.0], [0.2, -jnp.inf, 0.9], [3.0, 2.0, 1.0]])))
  [3. 2. 1.]

  See `jaxrank.fusion` for the arguments and what methods share.

  Returns:
    `[..., n]`, from 1 to the number of items that some system retrieves.

  References:
    Montague and Aslam, `Condorcet fusion for improved retrieval
    <https://doi.org/10.1145/584792.584881>`_, 2002; Copeland, 1951, see `Handbook of computational
    social choice <https://doi.org/10.1017/CBO9781107446984>`_, 2016.
  """
  # Ranks, and not scores, because what a system lacks has the last one.
  s = jnp.asarray(scores)
  has = retrieved(s, jnp.asarray(where))
  last = jnp.asarray(s.shape[-1] + 1, s.dtype)
  ranks = jnp.where(has, mean_rank(jnp.where(has, s, 0), has, Exact()), last)
  return points_of(jnp.where(by_any(has), ranks, -jnp.inf), _copeland)


def _copeland(runs: Runs) -> Array:
  points, weights = lax.stop_gradient((runs.points, runs.weights))
  some = by_any(runs.has)[0]
  # Sums of weights that would be equal differ by rounding.
  rounding = 1e-6 * jnp.sum(weights, axis=0)

  def against(wins: Array, other: tuple[Array, Array]) -> tuple[Array, None]:
    ranks, is_item = other

    def vote(margin: Array, of_system: tuple[Array, Array, Array]) -> tuple[Array, None]:
      rank, points, weight = of_system
      return margin + weight * jnp.sign(rank[..., None] - points), None

    margin, _ = lax.scan(vote, jnp.zeros_like(points[0]), (ranks, points, weights))
    beats = jnp.where(jnp.abs(margin) <= rounding, 0.5, (margin > 0).astype(wins.dtype))
    return wins + jnp.where(is_item[..., None], beats, 0), None

  items = jnp.moveaxis(points, -1, 0), jnp.moveaxis(some, -1, 0)
  wins, _ = lax.scan(against, jnp.zeros_like(points[0]), items)
  # An item draws with itself, which is half of its 1.
  return (0.5 + wins)[None]
