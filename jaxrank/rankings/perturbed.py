"""Rankings under noise, `Gumbel` and `Gaussian`: expectations over the orders of noisy scores.

Nothing is sampled: `_core.quadrature` integrates over the noisy score of one item. A discount that
is a sum of exponentials needs no distribution of ranks; for a cut-off at `k`, the distribution is
computed down to rank `k`. docs/mathematics.md, "Quadrature over noise", derives the answers.
"""

import dataclasses
import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank import discounts
from jaxrank._base import Cutoff, Discount, pytree, told
from jaxrank._core import integrands, quadrature
from jaxrank._core.decays import distance
from jaxrank._core.integrands import Exponentials, FirstRanks
from jaxrank._core.quadrature import Grid, Integrand, Items, Noise, rank_chances
from jaxrank._core.ranked import weighed
from jaxrank.rankings.expected_rank import SmoothQuery, SmoothRanking

# The position of items that are not retrieved, in temperatures: below all nodes.
_NOWHERE = -1e30
# The default tolerance is the least, because it is near the rounding of float32.
_LEAST_TOLERANCE, _MOST_TOLERANCE = 1e-5, 1e-3


class NoiseQuery(SmoothQuery):
  """A query ordered by scores plus noise.

  Attributes:
    z: `[n]`, the scores in temperatures, with wide gaps shortened.
    digits: How many digits of a value nodes and terms keep.
  """

  noise: Noise

  def __init__(self, temperature: ArrayLike, *query: Any, tolerance: float = _LEAST_TOLERANCE):
    super().__init__(temperature, *query)
    digits = -math.log10(tolerance)
    finest = tolerance <= _LEAST_TOLERANCE and self.dtype == jnp.float64
    self.digits = 9.0 if finest else digits
    self.z = self._compressed()

  def _compressed(self) -> Array:
    """Scores in temperatures, with wide gaps shortened to a length that makes no difference.

    Such a gap starts a cluster. Scores are measured from the head of their cluster, whose gradient
    would be rounding noise around 0: docs/mathematics.md, "Quadrature over noise".
    """
    score, temperature = lax.stop_gradient((self.score, self.temperature))
    widest = self.noise.gap(self.digits)
    # The quotient of a product by the same number may be rounded to less than the other factor.
    wide = score[:-1] - score[1:] >= widest * temperature
    gap = jnp.where(wide, widest, distance(score[:-1], score[1:], temperature, widest))
    first = jnp.zeros_like(score[:1])
    depth = jnp.cumsum(jnp.concatenate([first, gap]))
    starts = jnp.concatenate([first == 0, wide])
    base = lax.cummax(jnp.where(starts, depth, 0))
    head = lax.cummin(jnp.where(starts, score, score[:1]))
    return (self.score - head) / self.temperature - base

  def _integral(self, integrand: Integrand, width: int, depth: int = 1, **asked: Any) -> Array:
    """Integrates over all nodes; an integrand that tells `depth` ranks apart needs closer nodes.

    docs/mathematics.md, "Quadrature over noise".
    """
    below, above = self.noise.reach(self.n, self.digits)
    top = lax.stop_gradient(self.z[0]) + above
    ends = lax.stop_gradient(self.z[-1]) - below, top
    z = jnp.where(self.retrieved, self.z, _NOWHERE)
    # As a function of the node, the probability of rank k has a width of about 1 / sqrt(k).
    width_in_nodes = 2.88 if self.digits > 5 else 2.14 * math.sqrt(self.digits / 5)
    closer = min(1.0, width_in_nodes / math.sqrt(depth + 2))
    spacing = closer * self.noise.spacing(self.n, self.digits)
    # Either each node costs much, or there are few of them.
    grid = Grid(spacing, width, short_blocks=depth > 1 or self.digits < 5)
    # Under `shard_map`, all arguments must vary over the mesh axes over which the queries do.
    nothing = 0 * lax.stop_gradient(z[:1])
    items = Items(z, **jax.tree.map(lambda x: x + nothing, asked))
    return quadrature.integral(integrand, grid, ends, items)

  def _expect(self, c: Array, discount: Discount, k: Cutoff, **asked: Array | None) -> Array:
    """`E sum_i c_i discount(r_i)`, down to rank `k`; `asked` are further attributes of `Items`."""
    integrand, width, depth, terms = self._discounted(discount, k)
    weights = {name: self._weight(x) for name, x in asked.items() if x is not None}
    return self._integral(integrand, width, depth, c=self._weight(c), discount=terms, **weights)

  def _discounted(
    self, discount: Discount, k: Cutoff
  ) -> tuple[Integrand, int, int, Exponentials | FirstRanks]:
    """The integrand of a discount, its width, how many ranks it tells apart, and its terms."""
    depth = getattr(discount, "depth", self.n)
    depth = min(depth, k) if isinstance(k, int) else depth
    if depth >= self.n and not isinstance(k, Array) and hasattr(discount, "terms"):
      # A fit for 1e-3 has 3.5 digits, and errs by 7e-4; one of five digits errs by 6e-6.
      digits = 9 if self.digits > 5 else 1.25 + 0.75 * self.digits
      w, t = discount.terms(self.n, digits)
      w, lost = (jnp.asarray(x).astype(self.dtype) for x in (w, 1 - t))
      return integrands.products(self.noise), -(-w.size // self.n), 1, Exponentials(w, lost)
    depth = min(depth, self.n)
    rank = jnp.arange(1, depth + 1, dtype=self.dtype)
    inside = rank <= jnp.asarray(depth if k is None else k).astype(self.dtype)
    ranks = FirstRanks(jnp.where(inside, discount(rank), 0))
    return integrands.counts(self.noise), depth, depth, ranks

  def expect(
    self, w: Array, discount: Discount, *, k: Cutoff = None, among: Array | None = None
  ) -> Array:
    """`E sum_i w_i discount(r_i)` over the items with `r_i <= k`."""
    if isinstance(discount, discounts.Affine) and k is None:
      return jnp.sum(self._weight(w) * self._affine(discount, among))
    return self._expect(w, discount, k, among=among)

  def _affine(self, discount: discounts.Affine, among: Array | None) -> Array:
    """`E discount(r_i)` of each item, which is that of its mean rank."""
    ahead = self._weight_ahead(self._weight(self.retrieved if among is None else among))
    return jnp.asarray(discount.first + discount.step * ahead)

  def exposure(self, discount: Discount, *, k: Cutoff = None) -> Array:
    """`E discount(r_i)` of each item, `[n]`: one integral for all of them."""
    if isinstance(discount, discounts.Affine) and k is None:
      return self._weight(self._affine(discount, None))
    integrand, width, depth, terms = self._discounted(discount, k)
    each = integrands.of_each_item(integrand)
    return self._weight(self._integral(each, width, depth, discount=terms))

  def _cascade(self, stop: Array, discount: Discount, k: Cutoff, worth: Array | None) -> Array:
    """`E discount(r)` of the item at which a user stops, or of the `worth` of those reached."""
    return self._expect(stop if worth is None else worth, discount, k, stop=stop)

  def precision(
    self,
    b: Array,
    *,
    k: Cutoff = None,
    weights: Array | None = None,
    discount: Discount = discounts.reciprocal,
  ) -> Array:
    """`E sum_i b_i discount(r_i) sum_j w_j`, over the `j` with `r_j <= r_i`, and `r_i <= k`."""
    if weights is None:
      return self._expect(b, discount, k, mark=b)
    # The integral counts each item itself as 1.
    own = weighed(b, weights - 1)
    return self._expect(b, discount, k, mark=weights) + self._expect(own, discount, k)

  def chances(self, depth: int) -> Array:
    """The probability of each item to have each of the first ranks, `[n, depth]`."""
    return self._integral(rank_chances(self.noise, depth), 4 * depth, depth)

  def _weight_ahead(self, w: Array) -> Array:
    return self._integral(integrands.weight_ahead(self.noise), 1, c=w)


class GumbelQuery(NoiseQuery):
  """A query ordered by scores plus Gumbel noise."""

  name = "Gumbel"
  noise = quadrature.GUMBEL


class GaussianQuery(NoiseQuery):
  """A query ordered by scores plus normal noise."""

  name = "Gaussian"
  noise = quadrature.NORMAL


@dataclasses.dataclass(frozen=True)
class NoiseRanking(SmoothRanking):
  """A smooth ranking under noise, whose integrals are within a tolerance.

  Attributes:
    temperature: A positive number, in units of the scores; may be traced.
    tolerance: The largest error of a metric between 0 and 1, from 1e-5 to 1e-3; static.
  """

  tolerance: float = _LEAST_TOLERANCE
  query: ClassVar[type[NoiseQuery]]

  def __post_init__(self) -> None:
    super().__post_init__()
    given = self.tolerance
    number = isinstance(given, (int, float, np.number)) and not isinstance(given, bool)
    value = float(given) if number else math.nan
    # A float32 beside an end of the range is that end, rounded.
    nearest = min(max(value, _LEAST_TOLERANCE), _MOST_TOLERANCE)
    if not abs(nearest - value) <= 1e-6 * nearest:
      raise ValueError(
        f"{type(self).__name__}: tolerance must be a Python number from {_LEAST_TOLERANCE} to "
        f"{_MOST_TOLERANCE}, got {told(given)}."
      )
    object.__setattr__(self, "tolerance", nearest)

  def __call__(
    self, scores: Array, labels: Array, where: Array, *, k: int | None = None
  ) -> NoiseQuery:
    """Ranks one query `[n]`; all items are sorted, whatever `k` is."""
    return self.query(self.temperature, scores, labels, where, k, tolerance=self.tolerance)


@pytree("temperature")
@dataclasses.dataclass(frozen=True)
class Gumbel(NoiseRanking):
  """A smooth ranking: expectations over the Plackett-Luce model, without sampling.

  Orders are those of the scores plus Gumbel noise of scale `temperature`. A metric that is affine
  in the answers of the ranking, as all of the library are, becomes its expectation.
  Values and gradients are integrals over the noisy score of one item. Nodes are half a temperature
  apart, from about 3 temperatures below the lowest score to `log n + 14` above the highest; for `k`
  from 3 on they are closer, by the factor `2.1 / sqrt(k + 2)`. Values are within 1e-5 up to 100,000
  items, and within 1e-8 for float64 scores, which take twice as many nodes. A `tolerance` of 1e-3
  takes half of the nodes and five eighths of the terms, which is enough for most training. The
  tolerance also bounds the error of a gradient times the temperature, but not relative to its size:
  a gradient that is no larger, as that of scores many temperatures apart, may be mostly error.
  float64 scores at a tolerance above 1e-5 take the nodes of float32.

  Time is proportional to the numbers of items, nodes and terms of the discount; there are about
  `4 (1 + log10 n)` terms. With a static `k` there are `k` instead, and with a traced `k`, or a
  discount that is a plain function, `n`. Gaps are shortened to 25 temperatures, which limits the
  nodes to about `50 n`: at a temperature far below the gaps, the time grows with the square of the
  length of the list. float32 also rounds scores that are many temperatures apart: at a range of 1e4
  the gradient, which is tiny there, is within 1e-3 of its largest component. At temperature 0 a
  metric is the exact one, with ties averaged.
  `metric(c * s, ranking=Gumbel(c * t))` equals `metric(s, ranking=Gumbel(t))`.
  (Luce, `Individual choice behavior <https://doi.org/10.1037/14396-000>`_, 1959, gives the model.)

  Attributes:
    temperature: A positive number, in units of the scores; may be traced. A traced temperature
      that is not positive gives the limit at 0, and NaN gives NaN, with gradient 0.
    tolerance: The largest error of a metric between 0 and 1, from 1e-5 to 1e-3; static.
  """

  query = GumbelQuery


@pytree("temperature")
@dataclasses.dataclass(frozen=True)
class Gaussian(NoiseRanking):
  """A smooth ranking: expectations under normal noise, as in SoftRank, without sampling.

  Orders are those of the scores plus independent normal noise of standard deviation `temperature`.
  Values, gradients, errors and time are as for `Gumbel`, but nodes are `t / (2 sqrt(2 log n))`
  apart, at most `t / 2`, and gaps are shortened to 12 temperatures; float64 scores take twice as
  many nodes. The paper takes the comparisons of an item with the others as independent; here they
  share the noise of that item. At temperature 0 a metric is the exact one, with ties averaged.
  `metric(c * s, ranking=Gaussian(c * t))` equals `metric(s, ranking=Gaussian(t))`.
  (Taylor et al., `SoftRank <https://doi.org/10.1145/1341531.1341544>`_, 2008.)

  Attributes:
    temperature: A positive number, in units of the scores; may be traced. A traced temperature
      that is not positive gives the limit at 0, and NaN gives NaN, with gradient 0.
    tolerance: The largest error of a metric between 0 and 1, from 1e-5 to 1e-3; static.
  """

  query = GaussianQuery
