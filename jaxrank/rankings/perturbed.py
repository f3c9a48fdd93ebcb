"""Rankings under noise: the expectation of every metric over the orders of noisy scores.

The result is exact and deterministic: `jaxrank._core.quadrature` integrates over the noisy score of
one item at a time. A discount enters as a sum of exponentials, so that no distribution of ranks is
formed; a cut-off forms it down to the rank `k`. docs/mathematics.md, "Quadrature over noise".
"""

import math
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank import discounts
from jaxrank._core import quadrature
from jaxrank._core.pair_sums import distance
from jaxrank._core.quadrature import Integrand, Noise
from jaxrank._core.types import Cutoff, Discount, pytree
from jaxrank.rankings.expected_rank import SmoothQuery, SmoothRanking

# Where items stand that are not retrieved: below everything.
_NOWHERE = -1e30


class NoiseQuery(SmoothQuery):
  """A query ordered by scores plus noise."""

  noise: Noise

  def __init__(self, temperature: ArrayLike, *query: Any):
    super().__init__(temperature, *query)
    self.wide = self.dtype == jnp.float64
    self.z = self._compressed()

  def _compressed(self) -> Array:
    """Scores in temperatures, with gaps no wider than makes a difference.

    Such a gap starts a cluster, and clusters do not feel each other: each is measured from its
    head, whose gradient would be noise around 0: docs/mathematics.md, "Quadrature over noise".
    """
    score = lax.stop_gradient(self.score)
    most = self.noise.gap(self.wide)
    gap = distance(score[:-1], score[1:], lax.stop_gradient(self.temperature), most)
    first = jnp.zeros_like(score[:1])
    depth = jnp.cumsum(jnp.concatenate([first, gap]))
    starts = jnp.concatenate([first == 0, gap >= most])
    base = lax.cummax(jnp.where(starts, depth, 0))
    head = lax.cummin(jnp.where(starts, score, score[:1]))
    return (self.score - head) / self.temperature - base

  def _integral(self, integrand: Integrand, width: int, *args: Array, depth: int = 1) -> Array:
    """Integrates what tells no two ranks below `depth` apart."""
    below, above = self.noise.reach(self.n, self.wide)
    top = lax.stop_gradient(self.z[0]) + above
    ends = lax.stop_gradient(self.z[-1]) - below, top
    z = jnp.where(self.retrieved, self.z, _NOWHERE)
    # The chance of rank k rises and falls within about 1 / sqrt(k).
    closer = min(1.0, (2.88 if self.wide else 2.14) / math.sqrt(depth + 2))
    spacing = closer * self.noise.spacing(self.n, self.wide)
    # Whatever the queries are spread over, every argument has to be.
    nothing = 0 * lax.stop_gradient(z[:1])
    args = tuple(x + nothing for x in args)
    return quadrature.integral(integrand, spacing, width, ends, z, *args)

  def _expect(
    self,
    c: Array,
    stop: Array,
    discount: Discount,
    k: Cutoff,
    *,
    among: Array | None = None,
    marked: bool = False,
  ) -> Array:
    """`E sum_i c_i discount(r_i)` times the chance to pass all items ahead, down to rank `k`.

    Marked by `c`: times one more than the sum of `c` over the items ahead, instead.
    """
    c = self._weight(c)
    last = () if among is None else (self._weight(among),)
    last = (*last, c) if marked else last
    depth = getattr(discount, "depth", self.n)
    depth = min(depth, k) if isinstance(k, int) else depth
    if depth >= self.n and not isinstance(k, Array) and hasattr(discount, "terms"):
      w, t = discount.terms(self.n, 9 if self.wide else 5)
      w, lost = (jnp.asarray(x).astype(self.dtype) for x in (w, 1 - t))
      integrand = quadrature.products(self.noise, marked)
      return self._integral(integrand, -(-w.size // self.n), c, stop, w, lost, *last)
    depth = min(depth, self.n)
    rank = jnp.arange(1, depth + 1, dtype=self.dtype)
    inside = rank <= jnp.asarray(depth if k is None else k).astype(self.dtype)
    integrand = quadrature.counts(self.noise, marked)
    d = jnp.where(inside, discount(rank), 0)
    return self._integral(integrand, depth, c, stop, d, *last, depth=depth)

  def expect(
    self, w: Array, discount: Discount, *, k: Cutoff = None, among: Array | None = None
  ) -> Array:
    """`E sum_i w_i discount(r_i)` over the items with `r_i <= k`."""
    if isinstance(discount, discounts.Affine) and k is None:
      ahead = self._weight_ahead(self._weight(self.retrieved if among is None else among))
      return jnp.sum(self._weight(w) * (discount.first + discount.step * ahead))
    return self._expect(w, jnp.zeros_like(self.z), discount, k, among=among)

  def _cascade(self, stop: Array, discount: Discount, k: Cutoff, worth: Array | None) -> Array:
    """`E discount(r)` of the item at which a user stops, or of the `worth` of those reached."""
    return self._expect(stop if worth is None else worth, self._weight(stop), discount, k)

  def precision(self, b: Array, *, k: Cutoff = None) -> Array:
    """The expected sum of the precisions at the ranks `r_i <= k` of the relevant items."""
    return self._expect(b, jnp.zeros_like(self.z), discounts.reciprocal, k, marked=True)

  def _weight_ahead(self, w: Array) -> Array:
    return self._integral(quadrature.weight_ahead(self.noise), 1, w)


class GumbelQuery(NoiseQuery):
  """A query ordered by scores plus Gumbel noise."""

  name = "Gumbel"
  noise = quadrature.GUMBEL


class GaussianQuery(NoiseQuery):
  """A query ordered by scores plus normal noise."""

  name = "Gaussian"
  noise = quadrature.NORMAL


@pytree("temperature")
class Gumbel(SmoothRanking):
  """A smooth ranking: exact expectations over the Plackett-Luce model.

  Orders are those of the scores plus Gumbel noise of scale `temperature`. Every metric becomes
  its expectation, with exact gradients and no sampling: an integral over the noisy score of one
  item, whose nodes are half a temperature apart from 4 temperatures below the lowest score to
  `log n + 14` above the highest; closer for `k` above 3, by `2.1 / sqrt(k + 2)`. Values are within
  1e-5 up to 100,000 items, and within 1e-8 for float64 scores, which double the nodes.

  The time is linear in items, nodes and terms of the discount, about `4 (1 + log10 n)`; a static
  `k` takes `k` instead of the terms; a traced one, and a discount that is a plain function, `n`.
  Gaps count up to 25 temperatures, so that there are at most `50 n` nodes: a temperature far below
  the gaps of a long list costs the square of its length, and float32 rounds scores that many
  temperatures apart: at a range of 1e4 the gradient, tiny there, is within 1e-3 of its largest
  part. At temperature 0 a metric is the exact one, with ties averaged.
  `metric(c * s, ranking=Gumbel(c * t))` equals `metric(s, ranking=Gumbel(t))`.
  (Luce, `Individual choice behavior <https://doi.org/10.1037/14396-000>`_, 1959, gives the model.)

  Attributes:
    temperature: A positive number, in units of the scores; may be traced. A traced temperature
      that is not positive acts as the limit at 0.
  """

  query = GumbelQuery


@pytree("temperature")
class Gaussian(SmoothRanking):
  """A smooth ranking: exact expectations under normal noise, which is SoftRank.

  Orders are those of the scores plus independent normal noise of standard deviation
  `temperature`. Every metric becomes its expectation, with exact gradients and no sampling, by
  the integral of `Gumbel`, whose nodes are `t / (2 sqrt(2 log n))` apart here, at most `t / 2`.
  SoftRank took the comparisons of an item as independent; here they share its noise. Errors are
  those of `Gumbel`; float64 scores double the nodes.

  The time is linear in items, nodes and terms of the discount, as for `Gumbel`; gaps count up to
  12 temperatures. At temperature 0 a metric is the exact one, with ties averaged.
  `metric(c * s, ranking=Gaussian(c * t))` equals `metric(s, ranking=Gaussian(t))`.
  (Taylor et al., `SoftRank <https://doi.org/10.1145/1341531.1341544>`_, 2008.)

  Attributes:
    temperature: A positive number, in units of the scores; may be traced. A traced temperature
      that is not positive acts as the limit at 0.
  """

  query = GaussianQuery
