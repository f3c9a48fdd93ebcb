"""Listwise losses: cross entropies with the softmax of the scores, in O(n) time."""

import functools

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank import gains
from jaxrank._base import Gain
from jaxrank._core import checks, platforms
from jaxrank._core.apply import nan_where
from jaxrank._core.arithmetic import at_least_tiny, floating, safe_divide
from jaxrank._core.batching import without_nan
from jaxrank._core.description import NUMBER
from jaxrank._core.ranked import by_column
from jaxrank.losses._loss import cross_entropy, exact_query, loss, saturated, worth_of
from jaxrank.rankings.exact import ExactQuery


@loss(poisons=True)
def softmax(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  gain: Gain = gains.linear,
  weights: ArrayLike | None = None,
  temperature: ArrayLike = 1.0,
) -> Array:
  """ListNet: the cross entropy of the gains and the softmax of the scores.

  `-sum_i w_i g(y_i) log(exp(z_i) / sum_j exp(z_j))`, with gain `g` and `z = s / temperature`.
  For a single relevant item of gain 1 the loss is an upper bound of the negative logarithm of its
  reciprocal rank.

  >>> print(f"{softmax(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 2])):.5f}")
  5.22282

  See `jaxrank.losses` for the arguments that losses share.

  Args:
    gain: Function from labels to gains, which are not normalised.

  Returns:
    Loss of each query, `[...]`, at least 0.

  References:
    Cao et al., `Learning to rank: from pairwise approach to listwise approach
    <https://doi.org/10.1145/1273496.1273513>`_, 2007.
  """
  query = exact_query(scores, labels, where)
  return _cross_entropy(query, query.gain(gain, weights), temperature)[0]


def _cross_entropy(
  query: ExactQuery,
  gain: Array,
  temperature: ArrayLike,
  missed: ArrayLike = 0.0,
) -> tuple[Array, Array]:
  return cross_entropy(
    gain,
    query.labels,
    jnp.asarray(missed, query.dtype),
    _scores(query),
    at_least_tiny(temperature, query.dtype),
  )


def _scores(query: ExactQuery) -> Array:
  """The scores; -inf for padding, as for items that are not retrieved."""
  return jnp.where(query.where, query.scores.astype(query.dtype), -jnp.inf)


@loss(poisons=True, epsilon=NUMBER)
def poly1(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  epsilon: ArrayLike = 1.0,
  gain: Gain = gains.linear,
  weights: ArrayLike | None = None,
  temperature: ArrayLike = 1.0,
) -> Array:
  """Poly-1: `softmax`, plus `epsilon` times the probability mass that is not on the targets.

  `softmax + epsilon (1 - sum_i p_i exp(z_i) / sum_j exp(z_j))`, with `p_i` the share of item `i`
  in `sum w g(y)` and `z = s / temperature`.

  >>> print(f"{poly1(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 2])):.5f}")
  5.94105

  See `jaxrank.losses` for the arguments that losses share.

  Args:
    epsilon: Weight of the second term, a number; may be traced.

  Returns:
    Loss of each query, `[...]`, at least 0 for `epsilon >= 0`.

  References:
    Leng et al., `PolyLoss <https://arxiv.org/abs/2204.12511>`_, 2022.
  """
  query = exact_query(scores, labels, where)
  known = query.gain(gain, weights)
  worth = worth_of(known, query.labels, _scores(query) > -jnp.inf)
  factor = safe_divide(jnp.asarray(epsilon).astype(query.dtype), jnp.sum(worth))
  return _cross_entropy(query, known, temperature, factor * worth)[0]


@loss(poisons=True)
def xe_ndcg(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  key: Array | None = None,
  gain: Gain = gains.linear,
  weights: ArrayLike | None = None,
  temperature: ArrayLike = 1.0,
) -> Array:
  """XE-NDCG: the cross entropy of softened gains and the softmax, a convex bound of nDCG.

  `-sum_i p_i log(exp(z_i) / sum_j exp(z_j))`, where `z = s / temperature`, and `p_i` is the share
  of item `i` in `sum_j w_j (g(y_j) + 1 - u_j)`, with gain `g`. Without a key, all `u_j` are 1/2;
  with a key, they are independent and uniform on [0, 1). The paper uses the exponential gain
  `2^y - 1`, which `gain=jaxrank.gains.exponential` selects, so that its targets are `2^y - u`.

  >>> print(f"{xe_ndcg(jnp.array([3.0, 2.0, 1.0]), jnp.array([1, 0, 2])):.5f}")
  1.62983

  See `jaxrank.losses` for the arguments that losses share.

  Args:
    key: PRNG key of `u`. The paper draws `u` anew in each training step. The `u` of an item
      depends only on the position of its query in the batch and on its column.
    weights: Factors of the softened gains, `[..., n]`; None for 1.

  Returns:
    Loss of each query, `[...]`, at least 0; 0 if no item is relevant.

  References:
    Bruch, `An alternative cross entropy loss for learning-to-rank
    <https://doi.org/10.1145/3442381.3449794>`_, 2021.
  """
  query = exact_query(scores, labels, where)
  # The sum divides the loss and not each target, which would take a pass. The power of two keeps
  # the loss of the undivided targets finite.
  power = 2.0 ** -(query.n.bit_length() + 8)
  worth = query.gain(lambda labels: power * _softened(labels, gain, query.noise), weights)
  cost, total = _cross_entropy(query, worth, temperature)
  some = (jnp.max(jnp.where(query.retrieved, query.labels, 0)) > 0) & (total > 0)
  cost /= jnp.where(some, total, 1)
  # A product with 0 keeps the NaN of a score or a label that is NaN.
  return jnp.where(some, saturated(cost), 0 * (cost + total))


def _softened(labels: Array, gain: Gain, key: Array | None) -> Array:
  if key is None:
    return gain(labels) + 0.5
  noise = by_column(functools.partial(jax.random.uniform, dtype=labels.dtype), key, labels)
  return gain(labels) + (1 - noise)


def sampled_softmax(
  scores: ArrayLike,
  labels: ArrayLike,
  *,
  where: ArrayLike | None = None,
  log_q: ArrayLike | None = None,
  accidental_hits: ArrayLike | None = None,
  correct_positives: bool | None = None,
  weights: ArrayLike | None = None,
  temperature: ArrayLike = 1.0,
  axis_name: str | tuple[str, ...] | None = None,
) -> Array:
  """Softmax over sampled candidates, such as the other items of a batch, corrected for sampling.

  `-sum_i w_i y_i log(exp(z_i) / sum_j exp(z_j))`. The logits `z` make the gradient close to that of
  the softmax over the whole catalogue, for any sampling distribution `q`:

  * `z = s / temperature - log q` for all candidates, if accidental hits are kept (Yi et al.). The
    positive is one of the draws, and `q` may have any scale.
  * With accidental hits removed, `z = s / temperature` for positives and
    `z = s / temperature - log(m q)` for the `m` negatives (Blanc and Rendle). The negatives that
    remain estimate the sum over the other items, and `exp(z)` of the positive is added to it as it
    is, so that `q` must be probabilities.

  The first form with hits removed would weigh a positive by `1 / (m q)`, which is wrong for popular
  items: the relative error of the gradient with 4,096 negatives is .35 for a target of probability
  .26, and 6.7 for one of .87. `correct_positives=True` selects it.

  A two-tower model has `scores = users @ items.T` and `labels = jnp.eye(batch)`. `log_q` is the
  logarithm of the frequency of each item in the batches. An accidental hit is a candidate in the
  column of another row that is the same item as the target of this row;
  `accidental_hits = ids[:, None] == ids` marks them, where `ids` are the items of the batch.

  >>> users, items = jnp.array([[2.0, 0.0], [0.0, 1.0]]), jnp.array([[1.0, 0.0], [1.0, 2.0]])
  >>> log_q = jnp.log(jnp.array([0.5, 0.1]))
  >>> print(jnp.round(sampled_softmax(jnp.inner(users, items), jnp.eye(2), log_q=log_q), 5))
  [1.79176 0.02671]

  See `jaxrank.losses` for the arguments that losses share.

  Args:
    labels: Labels, `[..., n]`, positive for the targets.
    log_q: Logarithm of the probability with which each draw is the item of the candidate, `[n]` or
      `[..., n]`; up to a constant if positives are corrected, and `-log(items)` for a uniform
      sampler. None corrects nothing, `z = s / temperature`.
    accidental_hits: Boolean, `[..., n]`, True for candidates that are the same item as a target, or
      another known positive. The loss leaves them out, unless their own label is positive; the
      number `m` of negatives counts them. All False is for a sampler that never draws a target,
      whose `q` are probabilities among the other items.
    correct_positives: Whether `log_q` is subtracted from the scores of positives as well, without
      `log(m)`; None for True if there are no `accidental_hits`, and False if there are. `m` is the
      number of candidates of the query that `where` keeps and whose label is not positive.
    weights: Factors of the labels, `[..., n]`; None for 1.
    axis_name: Inside `shard_map`, the mesh axes over which the candidates of each query are split,
      as the items of a batch are that all devices share. `n` is then the number of candidates of a
      device, and all devices get the same losses. Gradients need `check_vma=True`, the default of
      `jax.shard_map`; values and derivatives in forward mode do not.

  Returns:
    Loss of each query, `[...]`, at least 0.

  Raises:
    TypeError: if `accidental_hits` or `correct_positives` is not boolean.
    ValueError: if the shapes do not match, `log_q` is -inf for a candidate outside `jit`, there is
      no `log_q` for `correct_positives`, there is no such axis, or a gradient is taken where JAX
      does not track the axis, in `jax.pmap` or with `check_vma=False`.

  References:
    Yi et al., `Sampling-bias-corrected neural modeling for large corpus item recommendations
    <https://doi.org/10.1145/3298689.3346996>`_, 2019; Blanc and Rendle, `Adaptive sampled softmax
    with kernel based sampling <https://proceedings.mlr.press/v80/blanc18a.html>`_, 2018.
  """
  with checks.named("sampled_softmax"):
    checks.positive_number("temperature", temperature)
    if axis_name is not None:
      checks.axis(axis_name)
    if correct_positives is None:
      correct_positives = accidental_hits is None
    else:
      checks.true_or_false("correct_positives", correct_positives)
      if log_q is None:
        raise ValueError("correct_positives says where log_q is subtracted; pass log_q=.")
    candidates = True if where is None else where
    scores, labels, where = checks.lists(scores, labels, where)
    nothing = jnp.zeros_like(labels)
    sampled = where & ~(labels > nothing)
    if accidental_hits is not None:
      hits = checks.boolean("accidental_hits", accidental_hits, scores, "True for accidental hits")
      where = where & ~(hits & (labels <= nothing))
    scores = jnp.where(where, floating(scores), -jnp.inf)
    known = scores > -jnp.inf
    # A quotient of an infinity would have the derivative NaN by the temperature.
    z = saturated(jnp.where(known, scores, 0))
    no_number, temperature = without_nan(temperature)
    z = nan_where(no_number, saturated(z / at_least_tiny(temperature, scores.dtype)))
    if log_q is not None:
      given, log_q = log_q, checks.array("log_q", log_q).astype(scores.dtype)
      if log_q.ndim == 1 and scores.ndim > 1:
        log_q = jnp.broadcast_to(log_q, (*scores.shape[:-1], log_q.shape[0]))
      checks.same_shape("log_q", log_q, "scores", scores)
      checks.drawn("log_q", given, candidates)
      if not correct_positives:
        m = jnp.sum(sampled, axis=-1, keepdims=True, dtype=jnp.float32)
        m = m if axis_name is None else lax.psum(m, axis_name)
        log_q = jnp.where(sampled, log_q + jnp.log(jnp.maximum(m, 1)).astype(log_q.dtype), 0)
      z = z - jnp.where(known, log_q, 0)
    if weights is not None:
      weights = checks.array("weights", weights)
      checks.same_shape("weights", weights, "scores", scores)
  lists = jnp.where(known, z, scores), labels, where
  if axis_name is None:
    return softmax(*lists[:2], where=where, weights=weights)
  weights = None if weights is None else weights.astype(z.dtype)
  value = _split_softmax(*lists, weights, axis_name)
  return platforms.summed("sampled_softmax", value, axis_name)


def _split_softmax(
  z: Array, labels: Array, where: Array, weights: Array | None, axis_name: str | tuple[str, ...]
) -> Array:
  """`softmax` of queries `[..., n]` whose candidates are split over devices."""
  z = z.astype(jnp.promote_types(z.dtype, jnp.float32))
  # A score that is NaN is known, and makes the loss NaN.
  known = where & (z != -jnp.inf)
  worth = jnp.maximum(jnp.where(known, labels.astype(z.dtype), 0), 0)
  worth = worth if weights is None else worth * jnp.where(known, weights, 0)
  largest = jnp.max(jnp.where(known, lax.stop_gradient(z), -jnp.inf), axis=-1, initial=-jnp.inf)
  largest = lax.pmax(largest, axis_name)
  largest = jnp.where(largest > -jnp.inf, largest, 0)[..., None]
  mass = jnp.sum(jnp.where(known, jnp.exp(jnp.where(known, z - largest, 0)), 0), axis=-1)
  mass = lax.psum(mass, axis_name)[..., None]
  total = jnp.log(jnp.where(mass != 0, mass, 1)) + largest
  term = worth * (total - jnp.where(known, z, 0))
  loss = lax.psum(jnp.sum(term, axis=-1), axis_name)
  return jnp.where(jnp.isnan(mass[..., 0]), jnp.nan, loss)
