"""What a metric may ask of a ranked query that does not depend on its order."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank import gains
from jaxrank._core import ranked, sorting
from jaxrank._core.types import Cutoff, Discount, Gain

# Gains that keep the order of the labels, with gain 0 at label 0: their ideal is that of the
# labels, which are sorted once for all.
_INCREASING = (gains.exponential, gains.linear, gains.binary)

_Method = TypeVar("_Method", bound=Callable[..., Any])


def shared(method: _Method) -> _Method:
  """Answers the same question once, whichever metric asks.

  Numbers are compared by value, arrays and functions by identity; the arguments are kept, so
  that no identity is reused.
  """

  @functools.wraps(method)
  def once(self, *args):
    name = (method.__name__, *(x if isinstance(x, int | float) else id(x) for x in args))
    if name not in self.answers:
      self.answers[name] = (method(self, *args), args)
    return self.answers[name][0]

  return once  # type: ignore[return-value]


def at_ranks(values: Array, discount: Discount, k: Cutoff) -> Array:
  """`sum values[r - 1] * discount(r)` over the ranks `r <= k`."""
  values = values[:k] if isinstance(k, int) else values
  rank = jnp.arange(1, values.shape[-1] + 1, dtype=values.dtype)
  inside = rank <= jnp.asarray(rank.size if k is None else k).astype(rank.dtype)
  return jnp.sum(jnp.where(inside, values * discount(rank), 0))


def at_least_tiny(temperature: ArrayLike, dtype: Any) -> Array:
  """A temperature to divide by: the limit at 0 where a traced one is not positive."""
  return jnp.maximum(jnp.asarray(temperature).astype(dtype), float(jnp.finfo(dtype).tiny) ** 0.5)


def by_column(draw: Callable[[Array], Array], key: Array, like: Array) -> Array:
  """`draw(key)` for each item, from its column alone, so that padding does not change it."""
  return jax.vmap(lambda i: draw(jax.random.fold_in(key, i)))(sorting.slots(like))


def relevant(labels: Array, where: Array, rel: ArrayLike | None = None) -> Array:
  """`label > 0`, or `label >= rel`, of the valid items; unjudged items never are."""
  if rel is None:
    return where & (labels > 0)
  return where & (labels >= jnp.asarray(rel).astype(labels.dtype)) & (labels >= 0)


class Pairs(NamedTuple):
  """Numbers of pairs of valid items, as floats."""

  concordant: Array
  discordant: Array
  tied_scores: Array
  tied_labels: Array


class Query:
  """A ranked query: what does not depend on the order. The rest is up to the subclass.

  Its items stand in an order of its own, which all arrays `[n]` share.

  Attributes:
    labels: `[n]`.
    grades: `[n]`, labels as floats of the dtype of the result, 0 under the mask.
    where: `[n]`, False on padding.
    retrieved: `[n]`, False on padding and for items known but not retrieved.
    depth: The largest rank that a metric may ask for; None for all, 0 if none sorts.
    keys: `[n]`, int32 in the order of the scores.
    item: `[n]`, the place in the input of each item; None while they stand as in the input.
  """

  item: Array | None = None

  def __init__(self, scores: Array, labels: Array, where: Array, depth: int | None):
    self.scores, self.labels, self.where, self.depth = scores, labels, where, depth
    wide = jnp.float64 in (scores.dtype, labels.dtype)
    self.dtype = jnp.dtype(jnp.float64 if wide else jnp.float32)
    self.grades = jnp.where(where, labels.astype(self.dtype), 0)
    real = jnp.issubdtype(scores.dtype, jnp.floating)
    self.retrieved = where & (scores > -jnp.inf) if real else where
    self.keys = sorting.keys(lax.stop_gradient(scores), where)
    self.answers: dict[Any, Any] = {}

  def _sort(self, first: Array | None = None) -> None:
    """Puts the items in rank order, those not retrieved behind and the padding last.

    One permutation of the labels serves every metric. Ties keep the order of the input, or of the
    keys `first`.
    """
    self.keys, self.item = sorting.order(self.keys, first)
    self.scores, self.labels, self.grades = map(self.own, (self.scores, self.labels, self.grades))
    self.where, self.retrieved = self.keys > sorting.MASKED, self.keys > sorting.LOST

  def count(self, chosen: Array) -> Array:
    """How many items are chosen, as a float."""
    return self.total(chosen, self.dtype)

  def total(self, x: Array, dtype: Any = None) -> Array:
    """The sum over all items."""
    return jnp.sum(x, dtype=dtype)

  def most(self, x: Array) -> Array:
    """The maximum over all items."""
    return jnp.max(x)

  def cutoff(self, k: Cutoff) -> Array:
    """`k` as a float; the number of valid items for None."""
    return self.count(self.where) if k is None else jnp.asarray(k).astype(self.dtype)

  @shared
  def relevant(self, rel: ArrayLike | None) -> Array:
    """`label > 0`, or `label >= rel`, of the valid items."""
    return ranked.relevant(self.grades, self.where, rel)

  @shared
  def gain(self, gain: Gain, weights: Array | None) -> Array:
    """Gains, times `weights` if given, 0 under the mask."""
    value = jnp.where(self.where, gain(self.grades), 0)
    if weights is None:
      return value
    return value * jnp.where(self.where, self.own(weights).astype(self.dtype), 0)

  def own(self, x: Array) -> Array:
    """What the caller gave for each item, in the order of this query."""
    return x if self.item is None else sorting.take(x, self.item)

  @shared
  def stop(self, max_label: ArrayLike | None) -> Array:
    """The chance of each item to satisfy; None is the best grade of the query."""
    return gains.stop_probability(self.grades, self.max_label(max_label))

  def max_label(self, given: ArrayLike | None) -> Array:
    """The grade given, or the best of the query."""
    if given is None:
      return self.most(gains.linear(self.grades))
    return jnp.asarray(given).astype(self.dtype)

  @shared
  def best(self, gain: Gain, weights: Array | None) -> Array:
    """The gains in their best order, down to `depth`."""
    if weights is None and gain in _INCREASING:
      return gain(self.best_grades())
    return self._best(self.gain(gain, weights))

  @shared
  def best_grades(self) -> Array:
    """The labels in their best order, down to `depth`; unjudged items count as 0."""
    return self._best(gains.linear(self.grades))

  def _best(self, x: Array) -> Array:
    return sorting.descending(x, min(self.depth or self.n, self.n))

  @property
  def n(self) -> int:
    """The padded number of items."""
    return self.labels.shape[-1]

  def exact(self, what: str) -> Any:
    """This query, for what only an exact ranking can answer."""
    kind = type(self).__name__.removesuffix("Query")
    raise ValueError(f"{what} has no smooth form: it needs ranking=Exact(), got {kind}.")
