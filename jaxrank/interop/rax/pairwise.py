"""The pairwise losses of rax.

All pairs are in memory at once only for a `lambdaweight_fn`, or a `reduce_fn` other than the mean
and the sum. Otherwise they are computed in blocks of rows. `jaxrank.interop.rax` explains the
arguments that the losses share.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import batching
from jaxrank._core.all_pairs import rows_of, total
from jaxrank._core.arithmetic import safe_divide
from jaxrank.interop.rax.families import family
from jaxrank.interop.rax.lists import Lists, ReduceFn, safe_reduce

PairLossFn = Callable[[Array, Array], tuple[Array, Array]]
LambdaweightFn = Callable[..., Array]


def compute_pairs(a: ArrayLike, op: Callable[[Array, Array], Array]) -> Array:
  """`op(a_i, a_j)` for all pairs of items of the last axis, `[..., n * n]`.

  >>> print(compute_pairs(jnp.array([1, 2]), jnp.subtract))
  [ 0 -1  1  0]
  """
  a = jnp.asarray(a)
  pairs = op(a[..., :, None], a[..., None, :])
  return flat(jnp.broadcast_to(pairs, (*a.shape, a.shape[-1])))


def flat(pairs: Array) -> Array:
  """Reshapes `[..., n, n]` to `[..., n * n]`."""
  return pairs.reshape(*pairs.shape[:-2], pairs.shape[-2] * pairs.shape[-1])


def pairwise_loss(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  pair_loss_fn: PairLossFn,
  lambdaweight_fn: LambdaweightFn | None = None,
  where: ArrayLike | None = None,
  segments: ArrayLike | None = None,
  weights: ArrayLike | None = None,
  reduce_fn: ReduceFn | None = jnp.mean,
) -> Array:
  """Computes and reduces the loss of all pairs of items of each list.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 0.0, 0.0])
  >>> def missed(scores_diff, labels_diff):
  ...   return (scores_diff <= 0).astype(float), labels_diff > 0
  >>> print(pairwise_loss(scores, labels, pair_loss_fn=missed))
  0.5

  See `jaxrank.interop.rax` for the other arguments.

  Args:
    pair_loss_fn: Elementwise function from `s_i - s_j` and `y_i - y_j` to the loss of a pair and to
      whether the pair counts.
    lambdaweight_fn: Function of `(scores, labels, where=, segments=, weights=)` that returns the
      weight of each pair, `[..., n * n]`; None is 1.
    segments: `[..., n]`, ids of groups; only pairs within one group count.
    weights: `[..., n]`, the weights of the pairs `(i, j)` by item `i`; None is 1.
    reduce_fn: Function that reduces the losses of all pairs of the batch, `[..., n * n]`, with the
      mask of the pairs that count as `where`.

  Returns:
    The result of `reduce_fn`; the losses `[..., n * n]` for None.
  """
  lists = Lists.of(scores, labels, where, segments)
  items = (
    lists.logits,
    lists.labels.astype(lists.dtype),
    lists.kept,
    lists.segment,
    lists.weight(weights),
    lists.spoiled,
  )

  def pair(upper, lower):
    (z, y, live, segment, w, nan), (other_z, other_y, *others) = upper, lower
    loss, counts = pair_loss_fn(z - other_z, y - other_y)
    both = live & others[0] & (segment == others[1])
    spoiled = both & (nan | others[3])
    loss = jnp.where(both & counts, w * loss.astype(z.dtype), 0)
    return jnp.where(spoiled, jnp.nan, loss), both & counts | spoiled

  if lambdaweight_fn is None and reduce_fn in (jnp.mean, jnp.sum):
    return _in_blocks(pair, items, mean=reduce_fn is jnp.mean)
  loss, counts = map(flat, pair([x[..., :, None] for x in items], [x[..., None, :] for x in items]))
  if lambdaweight_fn is not None:
    given = None if weights is None else lists.weight(weights)
    weight = lambdaweight_fn(
      lists.scores, lists.labels, where=lists.where, segments=lists.segments, weights=given
    )
    loss = jnp.where(counts, loss * weight.astype(loss.dtype), 0)
  return safe_reduce(loss, counts, reduce_fn)


def _in_blocks(
  pair: Callable[..., tuple[Array, Array]], items: tuple[Array, ...], *, mean: bool
) -> Array:
  rows = rows_of(items[0])

  def one(*items):
    def numbers(upper, lower):
      loss, counts = pair(upper, lower)
      return loss, counts.astype(loss.dtype)

    return total(numbers, items, rows)

  loss, count = map(jnp.sum, batching.over_queries(one, items[0].ndim - 1)(*items))
  return safe_divide(loss, count) if mean else loss


@family
def _of_pairs(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  segments: ArrayLike | None = None,
  weights: ArrayLike | None = None,
  lambdaweight_fn: LambdaweightFn | None = None,
  reduce_fn: ReduceFn | None = jnp.mean,
) -> Callable[[PairLossFn], Array]:
  """Losses of pairs, each a `pair_loss_fn` of `pairwise_loss`."""
  return lambda own: pairwise_loss(
    scores,
    labels,
    pair_loss_fn=own,
    lambdaweight_fn=lambdaweight_fn,
    where=where,
    segments=segments,
    weights=weights,
    reduce_fn=reduce_fn,
  )


@_of_pairs
def pairwise_hinge_loss(scores_diff: Array, labels_diff: Array) -> tuple[Array, Array]:
  """Hinge loss `max(0, 1 - (s_i - s_j))` of the pairs with `y_i > y_j`.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 0.0, 0.0])
  >>> print(f"{pairwise_hinge_loss(scores, labels):.5f}")
  1.00000

  See `jaxrank.interop.rax` for the arguments.
  """
  return jax.nn.relu(1 - scores_diff), labels_diff > 0


@_of_pairs
def pairwise_logistic_loss(scores_diff: Array, labels_diff: Array) -> tuple[Array, Array]:
  """RankNet: the logistic loss `log(1 + exp(-(s_i - s_j)))` of the pairs with `y_i > y_j`.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 0.0, 0.0])
  >>> print(f"{pairwise_logistic_loss(scores, labels):.5f}")
  0.81326

  See `jaxrank.interop.rax` for the arguments.
  """
  return jax.nn.softplus(-scores_diff), labels_diff > 0


@_of_pairs
def pairwise_soft_zero_one_loss(scores_diff: Array, labels_diff: Array) -> tuple[Array, Array]:
  """Smoothed zero-one loss `sigmoid(-(s_i - s_j))` of the pairs with `y_i > y_j`.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 0.0, 0.0])
  >>> print(f"{pairwise_soft_zero_one_loss(scores, labels):.5f}")
  0.50000

  See `jaxrank.interop.rax` for the arguments.
  """
  return jax.nn.sigmoid(-scores_diff), labels_diff > 0


@_of_pairs
def pairwise_mse_loss(scores_diff: Array, labels_diff: Array) -> tuple[Array, Array]:
  """Squared error `((y_i - y_j) - (s_i - s_j))^2` of all pairs, also of an item with itself.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 0.0, 0.0])
  >>> print(f"{pairwise_mse_loss(scores, labels):.5f}")
  1.77778

  See `jaxrank.interop.rax` for the arguments.
  """
  return jnp.square(scores_diff - labels_diff), jnp.ones_like(labels_diff, bool)


def pairwise_qr_loss(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  segments: ArrayLike | None = None,
  weights: ArrayLike | None = None,
  tau: float = 0.5,
  squared: bool = False,
  lambdaweight_fn: LambdaweightFn | None = None,
  reduce_fn: ReduceFn | None = jnp.mean,
) -> Array:
  """Quantile regression loss of the pairs with `y_i > y_j`.

  `tau max(0, d) + (1 - tau) max(0, -d)`, with `d = (y_i - y_j) - (s_i - s_j)`.

  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 0.0, 0.0])
  >>> print(f"{pairwise_qr_loss(scores, labels):.5f}")
  0.50000

  See `jaxrank.interop.rax` for the other arguments.

  Args:
    tau: The quantile, a number in (0, 1].
    squared: Whether to square both maxima.

  Raises:
    ValueError: if `tau` is not in (0, 1].
  """
  if not (tau > 0.0 and tau <= 1.0):
    raise ValueError(f"tau should be in the range of (0.0, 1.0], but {tau} is given.")

  def quantile(scores_diff, labels_diff):
    above = jax.nn.relu(labels_diff - scores_diff)
    below = jax.nn.relu(scores_diff - labels_diff)
    if squared:
      above, below = jnp.square(above), jnp.square(below)
    return tau * above + (1 - tau) * below, labels_diff > 0

  return pairwise_loss(
    scores,
    labels,
    pair_loss_fn=quantile,
    where=where,
    segments=segments,
    weights=weights,
    lambdaweight_fn=lambdaweight_fn,
    reduce_fn=reduce_fn,
  )
