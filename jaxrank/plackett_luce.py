"""The Plackett-Luce model as a distribution of orders: samples, likelihoods, ranks.

An order takes the items one by one, each with a probability in proportion to `exp(s_i / t)` among
those that are left. It is the order of scores with independent Gumbel noise of scale `t`, so that
the mean of a metric over all orders is the metric under `jaxrank.Gumbel(t)`, without samples.

The arguments that the functions share mean the same in all of them:

* `scores`: `[..., n]`, higher first. Items at -inf, like items under the mask, are in no order.
* `where`: `[..., n]`, boolean, False on padding; None is all True.
* `temperature`: the scale of the noise, a positive number in units of the scores; may be traced. A
  traced temperature that is not positive acts as the limit at 0: the order of the scores, in which
  orders of tied items have equal probabilities.
* `k`: the number of ranks from the top; None for all `n`.

`docs/plackett_luce.md` has examples. (Luce, `Individual choice behavior
<https://doi.org/10.1037/14396-000>`_, 1959; Plackett, `The analysis of permutations
<https://doi.org/10.2307/2346567>`_, 1975.)
"""

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._base import Cutoff
from jaxrank._core import checks, sorting
from jaxrank._core._jax import is_traced
from jaxrank._core.apply import Call, apply_calls
from jaxrank._core.arithmetic import at_least_tiny, clipped
from jaxrank._core.decays import distance, polynomial_sums
from jaxrank._core.description import Description, Kind
from jaxrank._core.ranked import Ranked, Ranking, by_column
from jaxrank._core.sorting import take
from jaxrank.rankings.exact import Exact, ExactQuery
from jaxrank.rankings.perturbed import Gumbel, GumbelQuery

__all__ = ["log_prob", "rank_probabilities", "sample"]

# The farthest distance of two scores in temperatures; a sum of them is finite.
_FARTHEST = 1e30


def sample(
  key: Array,
  scores: ArrayLike,
  *,
  where: ArrayLike | None = None,
  temperature: ArrayLike = 1.0,
  k: int | None = None,
  shape: Sequence[int] = (),
) -> Array:
  """Random orders, by sorting scores with Gumbel noise.

  >>> print(sample(jax.random.key(0), jnp.array([0.0, 9.0, 4.0]), shape=(2,)))
  [[1 2 0]
   [1 2 0]]

  See `jaxrank.plackett_luce` for the arguments that are not listed here.

  Args:
    key: A PRNG key. The noise of an item depends only on the position of its query in the batch and
      on its column, so that more padding does not change the order.
    k: The number of items of an order; None for `n`.
    shape: The shape of the samples of each query.

  Returns:
    Columns of items, best first, `[*shape, ..., k]`, int32; -1 behind the last item, and for every
    rank if a score or the temperature is NaN.

  Raises:
    ValueError: if shapes differ, or the temperature is not positive.

  References:
    Kool, van Hoof and Welling, `Stochastic beams and where to find them
    <https://arxiv.org/abs/1903.06059>`_, 2019.
  """
  with checks.named(_SAMPLE.name):
    checks.positive_number("temperature", temperature)
    given = checks.array("scores", scores).shape
    length = given[-1] if k is None and given else checks.count("k", k)
    if not isinstance(shape, Sequence) or isinstance(shape, str):
      raise TypeError(f"shape must be a tuple of ints, got {checks.told(shape)}; write (n,).")
    shape = tuple(checks.count("shape", size, 0) for size in shape)
    temperature = jnp.asarray(temperature)
    numbers = {"samples": math.prod(shape), "k": length, "temperature": temperature}
    ranking = Exact("random", checks.prng_key(key))
    orders = _apply(_SAMPLE, scores, where, ranking, numbers, depth=0, poisons=True)
  # The samples of a query, `[..., samples, k]`, become the leading axes.
  orders = jnp.where(jnp.isnan(temperature), -1, jnp.moveaxis(orders, -2, 0))
  return orders.reshape(*shape, *orders.shape[1:])


def log_prob(
  scores: ArrayLike,
  order: ArrayLike,
  *,
  where: ArrayLike | None = None,
  temperature: ArrayLike = 1.0,
  k: Cutoff = None,
) -> Array:
  """The logarithm of the probability of an order, or of its first `k` items.

  `sum_r z_r - log(sum of exp(z_j) over the items j without the ranks 1 ... r - 1)`, with
  `z = s / temperature` and the item at rank `r` in `z_r`. An order of a part of the items has the
  probability that they are the first ones, in this order.

  >>> scores = jnp.array([1.0, 3.0, 2.0])
  >>> print(f"{log_prob(scores, jnp.array([1, 2, 0])):.5f}, {log_prob(scores, jnp.array([1])):.5f}")
  -0.72087, -0.40761

  See `jaxrank.plackett_luce` for the arguments that are not listed here.

  Args:
    order: Columns of items, best first, `[*samples, ..., ranks]`, integers, with any leading axes
      before those of the scores, as `sample` returns them; -1 behind the last item.
    k: How many items of the order count; None for all. It may be traced.

  Returns:
    Logarithms of probabilities, `[*samples, ...]`, -inf for an order with an item that is in no
    order. A traced order in which an item occurs twice, or with a number that is no column, gives
    NaN.

  Raises:
    ValueError: if shapes differ, the temperature is not positive, or an order that is not traced
      has an item twice, a number that is no column, or an item behind a -1.
    TypeError: if the order is not of integers.
  """
  with checks.named(_LOG_PROB.name):
    checks.positive_number("temperature", temperature)
    scores = checks.array("scores", scores)
    if not scores.ndim:
      raise ValueError("scores must have shape [..., candidates], got a scalar; pass a list.")
    order = _checked_order(order, scores.shape)
    extra = order.shape[: order.ndim - scores.ndim]
    # 0 for no item, because lists without items get one column of 0.
    columns = jnp.pad(
      order + 1, (*((0, 0),) * (order.ndim - 1), (0, scores.shape[-1] - order.shape[-1]))
    )
    columns = columns.reshape(math.prod(extra), *columns.shape[len(extra) :])
    numbers = {"k": checks.cutoff(k), "temperature": jnp.asarray(temperature)}

    def of_sample(columns: Array) -> Array:
      return _apply(_LOG_PROB, scores, where, Exact(), numbers | {"order": columns}, depth=0)

    values = jax.vmap(of_sample)(columns) if extra else of_sample(columns[0])
  return values.reshape(*extra, *values.shape[1:]) if extra else values


def rank_probabilities(
  scores: ArrayLike,
  *,
  where: ArrayLike | None = None,
  temperature: ArrayLike = 1.0,
  k: int | None = None,
) -> Array:
  """The probability of each item to have each rank, exact and without samples.

  An integral over the noisy score of the item, within 1e-5, or 1e-8 for float64 scores. For each of
  its nodes (see `jaxrank.Gumbel`) the time is O(n k log k).

  >>> print(rank_probabilities(jnp.array([0.0, jnp.log(2.0)])).round(4))
  [[0.3333 0.6667]
   [0.6667 0.3333]]

  See `jaxrank.plackett_luce` for the arguments.

  Returns:
    Probabilities `[..., n, k]`. A row sums to 1 if `k` is None, and a column if there are as many
    items. Items that are in no order have zeros.

  Raises:
    ValueError: if shapes differ, or `k` or the temperature is not positive.
    TypeError: if `k` is not a static int.
  """
  with checks.named(_RANKS.name):
    checks.positive_number("temperature", temperature)
    given = checks.array("scores", scores).shape
    depth = given[-1] if k is None and given else checks.count("k", k)
    probabilities = _apply(_RANKS, scores, where, Gumbel(temperature), {"k": depth})
  return probabilities[..., : given[-1], :]


def _sample(query: ExactQuery, *, samples: int, k: int, temperature: Array) -> Array:
  live, score, t = query.retrieved, _finite(query), at_least_tiny(temperature, query.dtype)
  spoiled = jnp.any(query.where & jnp.isnan(query.scores.astype(query.dtype)))
  # Centred, so that the noise is large beside the scores.
  score = score - jnp.max(jnp.where(live, score, jnp.min(score)))

  def draw(key: Array) -> Array:
    # Noise from all bits of a float, because the tails decide between many items.
    gumbel = functools.partial(jax.random.gumbel, shape=(), dtype=query.dtype, mode="high")
    noise = by_column(gumbel, key, score)
    # Noise also orders scores that it is too small to change.
    keys = (sorting.keys(x, live) for x in (score + t * noise, noise))
    key, item = sorting.order(*keys)
    return jnp.where((key > sorting.MASKED) & ~spoiled, item, -1)

  assert query.noise is not None
  items = jax.vmap(draw)(jax.random.split(query.noise, samples))[:, :k]
  return jnp.pad(items, ((0, 0), (0, k - items.shape[1])), constant_values=-1)


def _log_prob(query: ExactQuery, *, order: Array, k: Cutoff, temperature: Array) -> Array:
  slot = sorting.slots(order)
  item = order - 1
  if k is not None:
    item = jnp.where(slot < jnp.asarray(k, jnp.int32), item, -1)
  placed = item >= 0
  index = jnp.clip(item, 0, query.n - 1)
  times = jnp.zeros_like(item).at[index].add(placed.astype(jnp.int32))
  wrong = jnp.any(times > 1) | jnp.any(item < -1) | jnp.any(item >= query.n)
  wrong |= jnp.any(placed[1:] & ~placed[:-1])
  live, score, t = query.retrieved, _finite(query), at_least_tiny(temperature, query.dtype)
  # Behind the order stand the other items, all in one, with the largest of their scores.
  others = live & (times == 0)
  # The value does not depend on it.
  last = jnp.max(jnp.where(others, score, jnp.min(score)), keepdims=True)
  last = lax.stop_gradient(last)
  # An exponential of an item of the order would be infinite, and its gradient 0 times infinity.
  below = distance(last, jnp.where(others, score, last), t, _FARTHEST)
  weight = jnp.where(others, jnp.exp(-below), 0)
  ordered = jnp.where(placed, take(score, index), last)
  # Sums of exponentials relative to the largest one that is left: it never increases with the rank.
  top = lax.stop_gradient(lax.cummax(jnp.concatenate([ordered, last]), reverse=True))
  below = distance(top[:-1], ordered, t, _FARTHEST)
  weight = jnp.append(jnp.where(placed, jnp.exp(-below), 0), jnp.sum(weight))
  left = weight + polynomial_sums(top, t, weight, np.array([[0.0], [1.0]]))
  value = -jnp.sum(jnp.where(placed, below + jnp.log(jnp.where(placed, left[:-1], 1)), 0))
  value = jnp.where(jnp.any(placed & ~take(live, index)), -jnp.inf, value)
  return jnp.where(wrong, jnp.nan, value)


def _rank_probabilities(query: Ranked, *, k: int) -> Array:
  assert isinstance(query, GumbelQuery)
  depth = min(k, query.n)
  # Lists of no items have one of padding, and no rank.
  chances = jnp.where(query.retrieved[:, None], query.chances(max(depth, 1))[:, :depth], 0)
  return query.in_input_order(jnp.pad(chances, ((0, 0), (0, k - depth))))


def _finite(query: Ranked) -> Array:
  """Scores of the retrieved items, clipped so that differences are finite; 0 elsewhere."""
  bound = float(jnp.finfo(query.dtype).max) / 4
  score = jnp.where(query.retrieved, query.scores, jnp.zeros_like(query.scores))
  return clipped(score.astype(query.dtype), bound)


def _checked_order(order: ArrayLike, shape: tuple[int, ...]) -> Array:
  """An order of items of lists of a shape; wrong ones raise, by their values if they are known."""
  columns = checks.array("order", order)
  if not jnp.issubdtype(columns.dtype, jnp.integer):
    raise TypeError(f"order must be integers, the columns of items, got {columns.dtype}.")
  batch = columns.shape[columns.ndim - len(shape) : -1]
  if columns.ndim < len(shape) or batch != shape[:-1] or columns.shape[-1] > shape[-1]:
    raise ValueError(
      f"order must have shape [*samples, ..., ranks] for scores [..., n] of shape {shape}, with "
      f"ranks <= n, got {columns.shape}."
    )
  columns = columns.astype(jnp.int32)
  if is_traced(columns):
    return columns
  rows = np.asarray(columns)
  wrong = (rows < -1) | (rows >= shape[-1])
  _refuse(wrong, rows, f"is no column of {shape[-1]} items; -1 is for no item")
  _refuse((rows[..., 1:] >= 0) & (rows[..., :-1] < 0), rows[..., 1:], "stands behind a -1")
  ascending = np.sort(rows, axis=-1)
  twice = (ascending[..., 1:] == ascending[..., :-1]) & (ascending[..., 1:] >= 0)
  _refuse(twice, ascending[..., 1:], "occurs twice; an order has each item once")
  return columns


def _refuse(wrong: np.ndarray, rows: np.ndarray, why: str) -> None:
  if wrong.any():
    where = np.unravel_index(wrong.argmax(), wrong.shape)
    place = f"order{[int(i) for i in where[:-1]]}" if rows.ndim > 1 else "order"
    raise ValueError(f"{rows[where]} in {place} {why}.")


_ORDER = Kind("columns of items", lambda name, value: value, axis="items")
_SAMPLE = Description("plackett_luce.sample", _sample, integers=True)
_LOG_PROB = Description(
  "plackett_luce.log_prob", _log_prob, {"order": _ORDER}, range=(-math.inf, 0.0)
)
_RANKS = Description("plackett_luce.rank_probabilities", _rank_probabilities, range=(0.0, 1.0))


def _apply(
  about: Description,
  scores: ArrayLike,
  where: ArrayLike | None,
  ranking: Ranking,
  parameters: Mapping[str, Any],
  *,
  depth: int | None = None,
  poisons: bool = False,
) -> Array:
  labels = checks.no_labels(scores)
  call = Call(about, parameters, depth, poisons=poisons)
  (evaluated,) = apply_calls([call], scores, labels, where, ranking)
  value: Array = evaluated.value
  return value
