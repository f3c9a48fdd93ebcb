"""Listwise losses that compare each item with the items that have smaller labels."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank import gains
from jaxrank._base import Cutoff, Gain
from jaxrank._core import sorting, ties
from jaxrank._core.all_pairs import rows_of
from jaxrank._core.arithmetic import safe_divide
from jaxrank._core.decays import LogSums, log_sums, log_sums_of_lower
from jaxrank._core.sorting import take
from jaxrank.losses._loss import exact_query, headroom, largest, logits, loss, saturated, target
from jaxrank.rankings.exact import ExactQuery

# Up to this length, the pairs of items take no longer than a sort, and a fifth of the compilation.
_ALL_PAIRS = 128


@loss(in_blocks=True)
def unique_softmax(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  gain: Gain = gains.linear,
  weights: ArrayLike | None = None,
  temperature: ArrayLike = 1.0,
) -> Array:
  """Unique softmax: the softmax loss of each item against the items with smaller labels only.

  `-sum_i w_i g(y_i) log(exp(z_i) / (exp(z_i) + sum_{y_j < y_i} exp(z_j)))`, with gain `g` and
  `z = s / temperature`. The time is O(n log n). The paper uses the exponential gain `2^y - 1`,
  which `gain=jaxrank.gains.exponential` selects.

  >>> print(f"{unique_softmax(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 2])):.5f}")
  5.12847

  See `jaxrank.losses` for the arguments that losses share.

  Args:
    gain: Function from labels to gains, which weigh the terms of the items.

  Returns:
    Loss of each query, `[...]`, at least 0.

  References:
    Zhu and Klabjan, `Listwise learning to rank by exploring unique ratings
    <https://doi.org/10.1145/3336191.3371814>`_, 2020.
  """
  query = exact_query(scores, labels, where)
  z, worth = _below_largest(query, temperature), target(query, gain, weights)
  if query.n <= min(rows_of(query), _ALL_PAIRS):
    live = query.retrieved
    below = log_sums_of_lower(gains.linear(query.labels), z, live, -largest(z))
  else:
    levels = _by_label(query, z)
    live, z, worth = levels.live, levels.z, take(worth, levels.item)
    below = levels.total.at(levels.end)
  scale = headroom(jnp.where(live, z, 0), query.n)
  missed = (scale * worth) * jax.nn.softplus(below.minus(z))
  return saturated(jnp.sum(jnp.where(live, missed, 0)) / scale)


def _below_largest(query: ExactQuery, temperature: ArrayLike) -> Array:
  """The logits minus the largest one; the lowest number for items that are not retrieved."""
  z = logits(query, temperature)
  nothing = -largest(z)
  z = z - lax.stop_gradient(jnp.max(jnp.where(query.retrieved, z, nothing)))
  return jnp.where(query.retrieved, jnp.maximum(z, nothing), nothing)


class _Levels(NamedTuple):
  """Items sorted by label, largest first; arrays `[n]`, but `total` is `[n + 1]`.

  Attributes:
    item: The column of each item.
    live: Whether the item is retrieved.
    start: The slot at which the items with its label start.
    end: The slot at which the next smaller label starts.
    z: The logit of the item, as in `_below_largest`.
    total: `log sum exp z` over the slots from each one to the end; the last entry is an empty sum.
  """

  item: Array
  live: Array
  start: Array
  end: Array
  z: Array
  total: LogSums


def _by_label(query: ExactQuery, z: Array) -> _Levels:
  key = sorting.keys(lax.stop_gradient(gains.linear(query.labels)), query.retrieved)
  key, item = sorting.order(key)
  start, end = ties.layout(key)
  z = take(z, item)
  empty = LogSums(jnp.full_like(z[:1], -largest(z)), jnp.zeros_like(z[:1]))
  total = jax.tree.map(lambda *x: jnp.concatenate(x), log_sums(z), empty)
  return _Levels(item, key > sorting.MASKED, start, end + 1, z, total)


@loss(in_blocks=True)
def list_mle(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  weights: ArrayLike | None = None,
  temperature: ArrayLike = 1.0,
) -> Array:
  """ListMLE: the negative log likelihood of the labels under the Plackett-Luce model.

  Without ties in the labels, `sum_i w_i (log sum_j exp(z_j) - z_i)` over the items `i` above the
  lowest label, where `j` runs over `i` and the items of smaller labels, and `z = s / temperature`.

  With ties it is `sum_i w_i (mean_l log((1 - l / m) T + l / m B) - z_i)`. `m` items have the label
  of `i`, and `l` runs from 0 to `m - 1`. `T` is the sum of `exp(z)` over the items with the label
  of `i` or a smaller one, and `B` that over those with a smaller one. This is Efron's rule for ties
  in the Cox model, which replaces the tied items that are already placed by their mean. The loss is
  therefore not random; it is an upper bound of the mean of ListMLE over all orders of the tied
  items, and equal to it if their scores are equal. The order of the items with the lowest label
  carries no information, and they have no terms. The time is O(n log n).

  With `k` it is the likelihood of the first `k` ranks alone. If `c` of `m` tied items are within
  rank `k`, `l` runs from 0 to `c - 1` only, and `-z_i` counts by the share `c / m`: again the tied
  items are averaged, not broken.

  >>> print(f"{list_mle(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 2])):.5f}")
  2.72087
  >>> print(f"{list_mle(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 1])):.5f}")
  2.34098
  >>> print(f"{list_mle(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 2]), k=1):.5f}")
  2.40761

  See `jaxrank.losses` for the arguments that losses share.

  Args:
    k: The number of ranks of the likelihood, a positive integer, which may be traced; None is the
      whole list.
    weights: Weights of the terms of the items, `[..., n]`; None for 1.

  Returns:
    Loss of each query, `[...]`, at least 0; 0 if all labels are equal.

  References:
    Xia et al., `Listwise approach to learning to rank: theory and algorithm
    <https://doi.org/10.1145/1390156.1390306>`_, 2008; Efron, `The efficiency of Cox's likelihood
    function for censored data <https://doi.org/10.1080/01621459.1977.10480613>`_, 1977.
  """
  query = exact_query(scores, labels, where)
  item, live, start, end, z, total = _by_label(query, _below_largest(query, temperature))
  scale = headroom(jnp.where(live, z, 0), query.n)
  counted = live & (end < jnp.sum(live, dtype=jnp.int32))
  at_rank = weight = jnp.where(counted, scale, 0)
  if weights is not None:
    weights = take(jnp.where(query.where, weights, 0).astype(z.dtype), item)
    weight = jnp.where(counted, scale * weights, 0)
    at_rank = ties.mean(weight, start, end - 1)
  slot, size = sorting.slots(item), (end - start).astype(z.dtype)
  placed = safe_divide((slot - start).astype(z.dtype), size)
  whole, below = total.at(start), total.at(end)
  fewer = jnp.log1p(placed * jnp.expm1((below.top - whole.top) + (below.rest - whole.rest)))
  share = jnp.ones_like(z)
  if k is not None:
    cut = jnp.asarray(k, jnp.int32)
    at_rank = jnp.where(slot < cut, at_rank, 0)
    share = jnp.clip(safe_divide((cut - start).astype(z.dtype), size), 0, 1)
  # The top and the logit may be huge and cancel, and the rest stays.
  missed = at_rank * (whole.rest + fewer) + (at_rank * whole.top - share * weight * z)
  return saturated(jnp.sum(jnp.where(live, missed, 0)) / scale)
