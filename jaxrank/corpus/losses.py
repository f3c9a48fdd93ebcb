"""`softmax`, a loss over a whole corpus of items."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._core import batching, checks, platforms
from jaxrank._core.apply import nan_where
from jaxrank._core.arithmetic import at_least_tiny, clipped
from jaxrank.corpus import _inputs, _streamed, _sweep, search
from jaxrank.corpus._inputs import NONE, Inputs
from jaxrank.corpus._streamed import Chunk, EachChunk, Program, Stage, relative
from jaxrank.corpus.evaluation import without_repeats
from jaxrank.corpus.similarity import Similarity, dtype_of, finite_vectors, scores, scores_of_own


def softmax(
  queries: Any,
  items: Any,
  positives: ArrayLike,
  *,
  weights: ArrayLike | None = None,
  exclude: ArrayLike | None = None,
  log_q: ArrayLike | None = None,
  temperature: ArrayLike = 1.0,
  similarity: Similarity = "dot",
  chunk: int = 8192,
  axis_name: str | None = None,
) -> Array:
  """The cross entropy of the positives of each query and the softmax over all items.

  `-sum_p w_p log(exp(z_p) / sum_j exp(z_j))`, with the sum over all items that are not excluded,
  and `z = s / temperature - log_q`. It is `jaxrank.losses.sampled_softmax` of the scores of all
  items, which are never stored: neither pass holds more than the scores of a chunk, and the
  gradient of the items is written chunk by chunk.

  >>> items = jnp.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
  >>> queries = jnp.array([[2.0, 1.0], [0.0, 1.0]])
  >>> print(jnp.round(softmax(queries, items, jnp.array([[2, 0], [1, -1]])), 5))
  [1.81521 0.86199]

  See `jaxrank.corpus` for the arguments that all searches share. Items from the host are sent to
  the device at once. Derivatives are those of reverse mode, and second ones those of forward mode
  over it, in the queries, the items, the weights, `log_q`, the temperature and the parameters of
  the similarity. With `axis_name`, a gradient needs `check_vma=True`, the default of
  `jax.shard_map`; the losses do not.

  Args:
    positives: `[q, p]`, ids of items in any order, padded with -1. Repeats count once, with the
      first of their weights. A query without positives has the loss 0, and no gradient.
    weights: `[q, p]`, factors of the positives; None for 1.
    exclude: `[q, e]`, ids that are no candidates, and no positives: a positive among them raises
      `ValueError`, and makes the loss of its query NaN under `jit`.
    log_q: `[n]`, subtracted from the scores of the items, of positives as well: the logarithms of
      the probabilities with which a sampler draws them, up to a constant, or any bias of items,
      such as popularity; None for 0. The sum is over all items, none of which is sampled, so that
      there are no accidental hits.
    temperature: A positive number, in units of the scores; may be traced.

  Returns:
    Loss of each query, `[q]`, at least 0 if the weights are not negative, in float32, or float64
    for float64 scores. A query with a NaN among the scores of its candidates, or with a positive
    that is no item under `jit`, has the loss NaN.

  Raises:
    TypeError: if ids are not integers, or an argument has another wrong type.
    ValueError: if shapes do not match, there are no items, an id is not that of an item, `log_q` is
      -inf outside `jit`, a positive is excluded, the temperature is not positive, or a gradient is
      taken with an `axis_name` that JAX does not track, in `jax.pmap` or with `check_vma=False`.

  References:
    Milakov and Gimelshein, `Online normalizer calculation for softmax
    <https://arxiv.org/abs/1805.02867>`_, 2018.
  """
  with checks.named("corpus.softmax"):
    checks.positive_number("temperature", temperature)
    inputs, items, known = search.prepare(queries, items, exclude, similarity, axis_name)
    q = len(inputs.removed)
    positives = _inputs.as_ids("positives", positives, q, known, ndim=2)
    _inputs.check_apart("positives", positives, exclude)
    weights = _numbers("weights", weights, positives.shape, "positives")
    if log_q is not None:
      given, log_q = log_q, _numbers("log_q", log_q, (_inputs.size(items),), "items")
      checks.drawn("log_q", given)
    chunk = checks.count("chunk", chunk)
    if axis_name is not None:
      same = positives, weights, temperature
      checks.same_on_devices("positives, weights and temperature", same, axis_name)
    if not q:
      return jnp.zeros(0)
    items = jax.tree.map(jnp.asarray, items), log_q
    loss: Array = _softmax(inputs, items, positives, weights, temperature, chunk, axis_name)
  return loss if axis_name is None else platforms.summed("corpus.softmax", loss, axis_name)


def _numbers(name: str, x: ArrayLike | None, shape: tuple[int, ...], like: str) -> Array:
  """An array of numbers of a shape; ones for None."""
  if x is None:
    return jnp.ones(shape)
  given = checks.array(name, x)
  checks.real(name, given.dtype)
  if given.shape != shape:
    raise ValueError(
      f"{name} must have one number for each of the {like}, {list(shape)}, got {list(given.shape)}."
    )
  return given


@functools.partial(jax.jit, static_argnums=(5, 6))
def _softmax(
  inputs: Inputs,
  items: Any,
  positives: Array,
  weights: Array,
  temperature: ArrayLike,
  chunk: int,
  axis_name: str | None,
) -> Array:
  no_number, temperature = batching.without_nan(temperature)
  queries, unknown = finite_vectors(inputs.similarity, inputs.queries)
  inputs = inputs._replace(queries=queries)
  of_each = jnp.broadcast_to(jnp.asarray(temperature), positives.shape[:1])

  def of_devices(
    inputs: Inputs, items: Any, axis: _sweep.Axis, listed: Array, weights: Array, of_each: Array
  ) -> Array:
    dtype = dtype_of(inputs.similarity, inputs.queries, items[0])
    listed, weights = without_repeats(listed, weights.astype(dtype))
    out = _inputs.are_wrong(listed, inputs.removed, _sweep.size_of_all(items, axis))
    some = listed != NONE
    worth = jnp.where(out, jnp.nan, jnp.where(some, weights, 0))
    params = (inputs.queries, inputs.similarity, of_each.astype(dtype)), some, worth
    loss: Array = _streamed.run(_PROGRAM, params, items, listed, inputs.removed, chunk, axis)
    return loss

  losses: Array = _sweep.over_devices(
    of_devices, inputs, items, axis_name, positives, weights, of_each
  )
  return nan_where(no_number | unknown, losses)


def _logits(scores: Array, log_q: Array | None, temperature: Array) -> Array:
  """`s / t - log_q`, finite but for NaN, and -inf where a score is."""
  lost, unknown = scores == -jnp.inf, jnp.isnan(scores)
  bound = float(jnp.finfo(scores.dtype).max)
  finite = clipped(jnp.where(lost | unknown, 0, scores), bound)
  z = clipped(finite / at_least_tiny(temperature, scores.dtype)[:, None], bound)
  if log_q is not None:
    z = clipped(z - log_q.astype(scores.dtype).reshape(-1, scores.shape[1]), bound)
  return jnp.where(unknown, jnp.nan, jnp.where(lost, -jnp.inf, z))


def _of_chunk(shared: Any, chunk: Chunk) -> Array:
  """The logits `[q, c]` of a chunk; -inf for items that are no candidates."""
  queries, similarity, temperature = shared
  items, log_q = chunk.items
  block = scores(similarity, queries, items)
  return jnp.where(chunk.candidates(block), _logits(block, log_q, temperature), -jnp.inf)


# The largest logit of each query, and the logarithm of the sum of exponentials relative to it. Only
# the sum of both has the derivative that `_shares` gives to the second one.
_LogSum = tuple[Array, Array]


def _log_sum(shared: Any, each_chunk: EachChunk, axis: _sweep.Axis) -> _LogSum:
  def add(state: _LogSum, chunk: Chunk) -> _LogSum:
    z = _of_chunk(shared, chunk)
    top = jnp.maximum(state[0], jnp.max(z, axis=1))
    return top, state[1] * relative(state[0], top) + jnp.sum(relative(z, top[:, None]), axis=1)

  like = shared[2]
  top, total = each_chunk(add, (jnp.full_like(like, -jnp.inf), jnp.zeros_like(like)))
  if axis is not None:
    largest = lax.pmax(top, axis)
    total, top = lax.psum(total * relative(top, largest), axis), largest
  some = total != 0
  return jnp.where(some, top, 0), jnp.log(jnp.where(some, total, 1))


def _shares(shared: Any, total: _LogSum, chunk: Chunk) -> _LogSum:
  """The sum of the probabilities, whose slope is that of the logarithm of the sum."""
  z = _of_chunk(shared, chunk)
  top, rest = total
  shares = jnp.exp(z - top[:, None] - rest[:, None])
  # The slope of a query with a NaN is 0, and 0 times NaN would reach the items.
  return jnp.zeros_like(top), jnp.sum(jnp.where(jnp.isnan(shares), 0, shares), axis=1)


def _cross_entropy(params: Any, own: Any, totals: tuple[_LogSum]) -> Array:
  (queries, similarity, temperature), some, worth = params
  items, log_q = own
  ((top, rest),) = totals
  z = _logits(scores_of_own(similarity, queries, items), log_q, temperature)
  lost = ~some | (z == -jnp.inf)
  gap = (top[:, None] - jnp.where(lost, 0, z)) + rest[:, None]
  worth = jnp.where(lost, 0, worth)
  value = jnp.where(jnp.isnan(rest), jnp.nan, jnp.sum(worth * gap, axis=1))
  # A slope that is not finite would reach the items, which all queries share.
  known = jnp.isfinite(rest) & jnp.all(jnp.isfinite(worth), axis=1)
  worth = jnp.where(known[:, None], worth, 0)
  return jnp.where(known, jnp.sum(worth * gap, axis=1), lax.stop_gradient(value))


_PROGRAM = Program(
  (Stage(lambda params, own, totals: params[0], _log_sum, _shares),), _cross_entropy
)
