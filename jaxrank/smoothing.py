"""Smooth rankings: the questions of `jaxrank.ranking` answered by differentiable functions.

Item `j` stands before item `i` with probability `F((s_j - s_i) / t)`. In score order, every sum
over `j` of weights times a function of `exp(-|s_j - s_i| / t)` is a pair of decaying sums, one
from each side: O(n log n) time for the sort, O(n) for the rest, and O(n) memory.
"""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank import _checks, sorting
from jaxrank._typing import Cutoff, Discount
from jaxrank.query import Query, shared
from jaxrank.sorting import take

# log(1 - x / 2) = sum_p c_p x ** p on [0, 1], error 2e-11, of the slope 7e-9.
_POWERS = 12

# The variance, in squared ranks, that keeps the cut-off defined where the ranking is certain.
_LEAST_VARIANCE = 1e-3


def _log_half_coefficients(powers: int) -> np.ndarray:
  nodes = np.cos(np.pi * (np.arange(256) + 0.5) / 256) / 2 + 0.5
  matrix = nodes[:, None] ** np.arange(1, powers + 1)
  return np.linalg.lstsq(matrix, np.log1p(-nodes / 2), rcond=None)[0]


_LOG_HALF = _log_half_coefficients(_POWERS)


class LaplaceQuery(Query):
  """A query whose pairs are ordered by the Laplace distribution function."""

  def __init__(self, temperature: ArrayLike, *query: Any):
    super().__init__(*query)
    _, self.item = sorting.order(sorting.keys(lax.stop_gradient(self.scores), self.retrieved))
    self.live = sorting.slots(self.item) < jnp.sum(self.retrieved, dtype=jnp.int32)
    bound = float(jnp.finfo(self.dtype).max) / 4
    score = jnp.where(self.retrieved, self.scores, 0).astype(self.dtype)
    score = jnp.clip(take(score, self.item), -bound, bound)
    temperature = jnp.asarray(temperature).astype(self.dtype)
    least = float(jnp.finfo(self.dtype).tiny) ** 0.5
    gap = (score[:-1] - score[1:]) / jnp.maximum(temperature, least)
    gap = jnp.where(self.live[1:], gap, 0)
    self.gap = jnp.concatenate([jnp.zeros_like(score[:1]), gap])

  def _weight(self, w: Array) -> Array:
    return jnp.where(self.live, take(w.astype(self.dtype), self.item), 0)

  def _decayed(self, w: Array, powers: int) -> tuple[Array, Array]:
    """`sum_j w_j exp(-p |z_ij|)` for p = 1 ... powers over the items ahead, and behind."""
    gap = jnp.stack([self.gap, jnp.roll(self.gap, -1)[::-1]])
    sums = jax.vmap(functools.partial(decayed_sums, powers=powers))
    ahead, behind = sums(gap, jnp.stack([w, w[::-1]]))
    return ahead, behind[:, ::-1]

  def _before(self, w: Array) -> Array:
    """Expected weight ahead, in score order, of weights in score order."""
    ahead, behind = self._decayed(w, 1)
    return jnp.cumsum(w) - w - ahead[0] / 2 + behind[0] / 2

  @functools.cached_property
  def rank(self) -> Array:
    """The expected rank of each item, in score order."""
    return 1 + self._before(self.live.astype(self.dtype))

  @shared
  def kept(self, k: Cutoff) -> Array | int:
    """A smooth `rank <= k`: a normal step as wide as the distribution of the rank."""
    if k is None:
      return 1
    ahead, behind = self._decayed(self.live.astype(self.dtype), 2)
    variance = jnp.sum(jnp.array([[0.5], [-0.25]], self.dtype) * (ahead + behind), axis=0)
    step = (self.rank - self.cutoff(k) - 0.5) * lax.rsqrt(2 * (variance + _LEAST_VARIANCE))
    return lax.erfc(step) / 2

  def _survival(self, stop: Array) -> Array:
    """The chance to pass all items ahead, from chances to stop, in score order.

    An item ahead with chance `F` multiplies by `(1 - stop) ** F`; one where everyone stops by
    `1 - F`, whose logarithm is `-z - log 2` ahead and a series in `exp(-z)` behind.
    """
    wall = stop >= 1
    log = self._before(jnp.log1p(-jnp.where(wall, 0, stop)))
    wall = wall.astype(self.dtype)
    count = jnp.cumsum(wall) - wall
    # Where there is no wall a gap may be infinite.
    passed = jnp.where(count > 0, count * jnp.where(count > 0, self.gap, 0), 0)
    log = log - jnp.cumsum(passed) - count * math.log(2)
    series = jnp.asarray(_LOG_HALF, self.dtype)[:, None]
    return jnp.exp(log + jnp.sum(series * self._decayed(wall, _POWERS)[1], axis=0))

  def expect(self, w: Array, discount: Discount, *, k: Cutoff = None) -> Array:
    """`sum w_i discount(r_i)` with smooth ranks and cut-off."""
    return jnp.sum(self._weight(w) * discount(self.rank) * self.kept(k))

  def cascade(self, stop: Array, discount: Discount, *, k: Cutoff = None) -> Array:
    """`sum stop_i discount(r_i)` times the chance to pass all items ahead of `i`."""
    stop = self._weight(stop)
    return jnp.sum(stop * self._survival(stop) * discount(self.rank) * self.kept(k))

  def precision(self, b: Array, *, k: Cutoff = None) -> Array:
    """`sum_i b_i (1 + before(b)_i) / r_i` times the smooth cut-off."""
    b = self._weight(b)
    return jnp.sum(b * (b + self._before(b)) / self.rank * self.kept(k))

  def first(self, b: Array, discount: Discount, *, k: Cutoff = None) -> Array:
    """`sum_i b_i discount(r_i)` times the chance that no relevant item is ahead."""
    return self.cascade(b, discount, k=k)

  def ahead(self, b: Array, others: Array) -> Array:
    """The expected number of pairs of a `b` item with one of the `others` ahead of it.

    Items that are not retrieved stand behind all that are, and tie with each other.
    """
    found = jnp.sum(self._weight(b) * self._before(self._weight(others)))
    lost = self.where & ~self.retrieved
    lost_b, lost_others = self.count(b & lost), self.count(others & lost)
    behind = lost_b * (self.count(others) - lost_others)
    return found + behind + (lost_b * lost_others - self.count(b & others & lost)) / 2

  def position(self) -> Array:
    """The expected rank of each item, counted from 0, in the order of the input."""
    found, lost = self.count(self.retrieved), self.count(self.where & ~self.retrieved)
    rank = sorting.scatter(self.rank - 1, self.item)
    return jnp.where(self.retrieved, rank, found + (lost - 1) / 2)


def decayed_sums(gap: Array, w: Array, powers: int) -> Array:
  """`out[p - 1, i] = sum_{j < i} w_j exp(-p (gap_{j + 1} + ... + gap_i))`, p = 1 ... powers.

  The recurrence runs in blocks side by side, then over the blocks: about 2 sqrt(n) steps.

  Args:
    gap: `[n]`, at least 0.
    w: `[n]`.
    powers: How many decay rates.

  Returns:
    `[powers, n]`.
  """
  n = w.shape[0]
  width = max(1, math.isqrt(n))
  blocks = -(-n // width)

  def columns(x):
    return jnp.pad(x, (0, blocks * width - n)).reshape(blocks, width).T[:, None, :]

  power = jnp.arange(1, powers + 1, dtype=w.dtype)[None, :, None]
  decay = jnp.exp(-power * columns(gap))
  new = columns(jnp.concatenate([jnp.zeros_like(w[:1]), w[:-1]]))

  def step(state, column):
    inside, shrunk = state
    decay, new = column
    inside, shrunk = (inside + new) * decay, shrunk * decay
    return (inside, shrunk), (inside, shrunk)

  def carry(entering, block):
    inside, shrunk = block
    return inside + shrunk * entering, entering

  start = (jnp.zeros_like(decay[0]), jnp.ones_like(decay[0]))
  ends, (inside, shrunk) = lax.scan(step, start, (decay, new))
  _, entering = lax.scan(carry, jnp.zeros_like(decay[0, :, 0]), jax.tree.map(jnp.transpose, ends))
  out = inside + shrunk * entering.T[None]
  return out.transpose(1, 2, 0).reshape(powers, blocks * width)[:, :n]


@functools.partial(jax.tree_util.register_dataclass, data_fields=["temperature"], meta_fields=[])
@dataclasses.dataclass(frozen=True)
class Laplace:
  """A smooth ranking: `j` stands before `i` with probability `F((s_j - s_i) / temperature)`.

  `F` is the Laplace distribution function. Ranks are expected ranks, a cut-off at `k` is a step
  as wide as the rank is uncertain, and every gradient is exact, in O(n log n) time and O(n)
  memory. At temperature 0 a metric is the exact one without ties, and takes the mean rank of
  tied items. `metric(c * s, ranking=Laplace(c * t))` equals `metric(s, ranking=Laplace(t))`.
  (Struski et al., `LapSum <https://arxiv.org/abs/2503.06242>`_, 2025, give the kernel.)

  Attributes:
    temperature: A positive number, in units of the scores; may be traced. A traced temperature
      that is not positive acts as the limit at 0.
  """

  temperature: ArrayLike

  def __post_init__(self):
    _checks.positive("temperature", self.temperature)

  def __call__(
    self, scores: Array, labels: Array, where: Array, *, k: int | None = None
  ) -> LaplaceQuery:
    """Ranks one query `[n]`; `k` does not matter here."""
    return LaplaceQuery(self.temperature, scores, labels, where, k)
