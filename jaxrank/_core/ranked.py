"""The contract between metrics and rankings: `Ranked`, one ranked query, `Ranking`, and `Recorder`.

A metric is a kernel of one ranked query. It reads facts, which do not depend on the order of the
items, and asks questions about the order. A ranking answers the questions; `docs/extending.md`
shows how to write either.

A `Recorder` is a query that writes the questions down, to find out how deep a kernel looks, which
`apply` needs, and whether it is affine in the answers. The change of an affine kernel when two
items swap places, and its expectation by chance, follow from those of the answers: `losses.swaps`
and `chance` use `slopes_of`. docs/mathematics.md, "Affine kernels", has the reasons.
"""

import abc
import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import (
  Any,
  ClassVar,
  Concatenate,
  Literal,
  NamedTuple,
  NoReturn,
  ParamSpec,
  Protocol,
  TypeVar,
)

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank import discounts, gains
from jaxrank._base import Cutoff, Discount, Gain, Pairs
from jaxrank._core import batching, checks, sorting
from jaxrank._core._jax import current_trace, without_dead_code
from jaxrank._core.arithmetic import discount_sums, varying_zeros

# Where results are kept, and each result with its arguments, by method and arguments.
_Memory = tuple[object, dict[Any, tuple[Any, Any]]]


class _Remembering(Protocol):
  memories: list[_Memory]


_Query = TypeVar("_Query", bound=_Remembering)
_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")


def memoised(
  method: Callable[Concatenate[_Query, _Arguments], _Answer],
) -> Callable[Concatenate[_Query, _Arguments], _Answer]:
  """Computes the result of a method once for each combination of arguments.

  Metrics that are evaluated together share the results. Numbers are compared by value, arrays and
  functions by identity; the arguments are kept alive, so that no `id` is reused. Results are kept
  where the query was made, and within a loop, a branch or a `vmap` that is `remembering`. Anywhere
  else a query would outlive the tracers that it keeps.
  """

  @functools.wraps(method)
  def once(self: _Query, /, *args: _Arguments.args, **named: _Arguments.kwargs) -> _Answer:
    given = (*args, *named.values())
    values = (x if isinstance(x, int | float) else id(x) for x in given)
    asked = (method.__name__, *named, *values)
    for _, known in self.memories:
      if asked in known:
        kept: _Answer = known[asked][0]
        return kept
    answer = method(self, *args, **named)
    here = current_trace()
    for trace, known in reversed(self.memories):
      if trace == here:
        known[asked] = answer, given
        break
    return answer

  return once


@contextlib.contextmanager
def remembering(query: _Remembering) -> Iterator[None]:
  """Keeps results in the loop, branch or `vmap` that is traced now, and forgets them at its end."""
  query.memories.append((current_trace(), {}))
  try:
    yield
  finally:
    query.memories.pop()


# Gains that never decrease with the label, and are 0 at label 0: their ideal order is that of the
# labels, which are sorted once for all of them.
_INCREASING = (gains.exponential, gains.linear, gains.binary)


def _over_a_power(power: Array, labels: Array) -> Array:
  """The exponential gain over `2 ** power`."""
  return jnp.exp2(gains.linear(labels) - power) - jnp.exp2(-power)


class UnansweredError(ValueError):
  """A ranking cannot answer a question that a metric asks."""


def relevant(labels: Array, where: Array, rel: ArrayLike | None = None) -> Array:
  """`label > 0`, or `label >= rel`, of the valid items; unjudged items are never relevant."""
  if rel is None:
    return where & (labels > 0)
  return where & (labels >= jnp.asarray(rel).astype(labels.dtype)) & (labels >= 0)


def within(rank: Array, k: Cutoff) -> Array:
  """Whether a rank is at most `k`; True everywhere if `k` is None."""
  return jnp.ones_like(rank, bool) if k is None else rank <= jnp.asarray(k).astype(rank.dtype)


def seen(ranked: "Ranked", k: Cutoff) -> Array:
  """How many of the first `k` ranks hold an item, as a float."""
  return jnp.minimum(ranked.cutoff(k), ranked.count(ranked.retrieved))


def weighed(b: Array, weights: Array | None) -> Array:
  """`b_i w_i`; `b` itself without weights, which are those of a mask."""
  return b if weights is None else jnp.where(b, b.astype(weights.dtype) * weights, 0)


def _at_whole_ranks(discount: Discount, rank: Array) -> Array:
  """The discount at the ranks 1, 2, ..., n, as `ties.mean_discount` has it without ties."""
  reference = getattr(discount, "reference", None)
  if reference is None or rank.dtype != jnp.float32:
    return discount(rank)
  return jnp.asarray(np.diff(discount_sums(reference, rank.shape[-1])), jnp.float32)


def at_ranks(values: Array, discount: Discount, k: Cutoff = None) -> Array:
  """`sum values[r - 1] * discount(r)` over the ranks `r <= k`, of values in rank order.

  Its terms, and their rounding, are those of `Exact.expect` without ties: an ideal ranking has the
  value of the ideal, to the last bit.
  """
  values, k = (values[:k], None) if isinstance(k, int) else (values, k)
  rank = jnp.arange(1, values.shape[-1] + 1, dtype=values.dtype)
  # With the choice, which changes no value, a CPU rounds the products before it adds them up.
  terms = jnp.where(jnp.isnan(values), values, values * _at_whole_ranks(discount, rank))
  return jnp.sum(jnp.where(within(rank, k), terms, 0))


def by_column(draw: Callable[[Array], Array], key: Array, like: Array) -> Array:
  """`draw(key)` for each item, with a key of its column, so that padding does not change it."""
  return jax.vmap(lambda i: draw(jax.random.fold_in(key, i)))(sorting.slots(like))


class Ranked(abc.ABC):
  """One query after ranking: all that the kernel of a metric may read and ask.

  Arrays of items have shape `[n]`, and all of them, facts, arguments and answers, share one order,
  which the ranking chooses. Facts do not depend on the order of the scores. The answer to a
  question is an expectation, `E`, over the noise of the ranking and the orders of tied items:
  docs/mathematics.md, "Notation and the two questions". A ranking that cannot answer a question
  raises `UnansweredError`, with its own name and that of the metric.

  Attributes:
    labels: `[n]`, or `[n, subtopics]` for metrics of diversity; floats of the dtype of the result,
      0 under the mask.
    where: `[n]`, False on padding.
    judged: Valid items with a label that is not negative, of the shape of the labels.
    retrieved: `[n]`, valid items with a score above -inf; the others have no rank.
    dtype: The dtype of the result, float32 or float64.
    name: The name of the ranking, for messages.
    scores: `[n]`, in the dtype of the caller.
    depth: The largest rank that a kernel asks for, a static int; None for the whole list, 0 if no
      kernel needs an order.
    shape: The shape of the scores `[..., n]` of which these are the ones of one query.
    order: `[n]`, the column of each item in the input; None for the order of the input.
  """

  name: ClassVar[str] = "this ranking"
  order: Array | None = None
  _sorted_keys: Array | None = None

  def __init__(self, scores: Array, labels: Array, where: Array, depth: int | None):
    self.scores, self.where, self.depth, self.shape = scores, where, depth, scores.shape
    wide = jnp.float64 in (scores.dtype, labels.dtype)
    self.dtype = jnp.dtype(jnp.float64 if wide else jnp.float32)
    self._given_labels = jnp.where(self._valid(labels), labels, jnp.zeros_like(labels))
    self.labels = self._given_labels.astype(self.dtype)
    real = jnp.issubdtype(scores.dtype, jnp.floating)
    self.retrieved = where & (scores > -jnp.inf) if real else where
    self.memories: list[_Memory] = [(current_trace(), {})]

  @property
  def keys(self) -> Array:
    """`[n]`, int32 numbers in the order of the scores."""
    return self._keys_of_scores() if self._sorted_keys is None else self._sorted_keys

  @memoised
  def _keys_of_scores(self) -> Array:
    return sorting.keys(lax.stop_gradient(self.scores), self.where)

  def _valid(self, like: Array) -> Array:
    """The mask of valid items, for an array `[n]` or `[n, subtopics]`."""
    return self.where[:, None] if like.ndim > 1 else self.where

  def _numbers(self, x: ArrayLike) -> Array:
    x = jnp.asarray(x)
    return jnp.where(self._valid(x), x.astype(self.dtype), 0)

  def sort(self, first: Array | None = None) -> None:
    """Puts the items in rank order: retrieved ones, then those not retrieved, then padding.

    Tied items keep the order of the input, or have that of the keys `first`, largest first.
    """
    self._sorted_keys, self.order, self.scores, self._given_labels = sorting.arranged(
      self.keys, self.scores, self._given_labels, first
    )
    self.where, self.retrieved = self.keys > sorting.MASKED, self.keys > sorting.LOST
    self.labels = self._given_labels.astype(self.dtype)

  def in_order(self, x: Array) -> Array:
    """Puts an array of items, `[n]` or `[n, any]`, from the input order into that of this query."""
    return self._moved(sorting.take, x)

  def in_input_order(self, x: Array) -> Array:
    """The inverse of `in_order`."""
    return self._moved(sorting.put_back, x)

  def _moved(self, move: Callable[[Array, Array], Array], x: Array) -> Array:
    return x if self.order is None else sorting.by_columns(move, x, self.order)

  @property
  def n(self) -> int:
    """The number of items, padding included."""
    return self.where.shape[-1]

  @property
  def given_labels(self) -> Array:
    """The labels in the dtype of the caller, 0 under the mask."""
    return self._given_labels

  @property
  def longest(self) -> int:
    """The largest number of items, also where one entry of the arrays stands for many."""
    return self.n

  @property
  def judged(self) -> Array:
    """Valid items with a label that is not negative, of the shape of the labels."""
    return self._valid(self.labels) & (self.labels >= 0)

  def total(self, x: Array, dtype: Any = None) -> Array:
    """The sum over all items, on all devices: `[n]` to a scalar, `[n, any]` to `[any]`."""
    return jnp.sum(x, axis=0, dtype=dtype)

  def count(self, chosen: Array) -> Array:
    """The number of items in a mask, on all devices, as a float."""
    dtype = self.dtype if self.n < sorting.COUNTED else jnp.int32
    return self.total(chosen, dtype).astype(self.dtype)

  def largest(self, x: Array) -> Array:
    """The maximum over all items, on all devices."""
    return jnp.max(x)

  def cutoff(self, k: Cutoff) -> Array:
    """`k` as a float; the number of valid items for None."""
    return self.count(self.where) if k is None else jnp.asarray(k).astype(self.dtype)

  @memoised
  def relevant(self, rel: ArrayLike | None = None) -> Array:
    """`label > 0`, or `label >= rel`, of the valid items, of the shape of the labels."""
    # Labels are 0 under the mask.
    return self.labels > 0 if rel is None else relevant(self.labels, self._valid(self.labels), rel)

  @memoised
  def weighted(self, x: ArrayLike, weights: ArrayLike | None = None) -> Array:
    """`x` as floats, times the weights of the items if given, 0 under the mask."""
    return self._numbers(x) if weights is None else self._numbers(x) * self._numbers(weights)

  @memoised
  def gain(self, gain: Gain, weights: ArrayLike | None = None) -> Array:
    """Gains, times the weights of the items if given, 0 under the mask."""
    return self.weighted(checks.array("what gain returns", gain(self.labels)), weights)

  @memoised
  def relative_gain(self, gain: Gain) -> Gain:
    """A multiple of the gain, with the same ratios, that is finite for the labels of the query."""
    if gain is not gains.exponential:
      return gain
    excess = self.largest(gains.linear(self.labels)) - gains._MAX_LABEL
    return functools.partial(_over_a_power, jnp.maximum(excess, 0))

  @memoised
  def stop_probability(self, max_label: ArrayLike) -> Array:
    """`(2 ** y - 1) / 2 ** max_label`, the probability that an item satisfies the user."""
    return gains.stop_probability(self.labels, jnp.asarray(max_label).astype(self.dtype))

  def best(self, gain: Gain, weights: ArrayLike | None = None, *, k: Cutoff = None) -> Array:
    """The gains of an ideal ranking, `[m]`: in descending order, and 0 past rank `k`.

    All valid items count, retrieved or not.
    """
    values = self._best_gains(gain, weights)
    values = values[:k] if isinstance(k, int) else values
    return jnp.where(within(sorting.slots(values).astype(self.dtype) + 1, k), values, 0)

  @memoised
  def _best_gains(self, gain: Gain, weights: ArrayLike | None) -> Array:
    if weights is None and (gain in _INCREASING or getattr(gain, "func", None) is _over_a_power):
      labels = self._best_labels()
      return labels if gain is gains.linear else gain(labels)
    return self._largest_first(self.gain(gain, weights))

  @memoised
  def _best_labels(self) -> Array:
    return self._largest_first(gains.linear(self.labels))

  def _largest_first(self, x: Array) -> Array:
    return sorting.descending(x, min(self.depth or self.n, self.n))

  def require_order(self, what: str) -> None:
    """Raises `UnansweredError` under a smooth ranking; `what` has no smooth form."""
    self._cannot_answer(what)

  @abc.abstractmethod
  def expect(
    self, w: Array, discount: Discount, *, k: Cutoff = None, among: Array | None = None
  ) -> Array:
    """`E sum_i w_i discount(r_i)` over the retrieved items with `r_i <= k`.

    The rank `r_i` is 1 plus the number of items of the mask `among`, by default all retrieved
    ones, ahead of item `i`. The discount receives ranks as floats, which are fractional under
    `Laplace` and `Logistic`.
    """

  def exposure(self, discount: Discount, *, k: Cutoff = None) -> Array:
    """`E discount(r_i)` of each item, `[n]`; 0 past rank `k` and for items without a rank."""
    # `expect` is linear in the weights, and its slopes are what each item adds to it.
    nothing = 0 * self.where.astype(self.dtype)
    slopes: Array = jax.grad(lambda w: self.expect(w, discount, k=k))(nothing)
    return slopes

  def cascade(
    self, stop: Array, discount: Discount, *, k: Cutoff = None, worth: Array | None = None
  ) -> Array:
    """`E discount(r)` of the item at which a user stops, with probability `stop` at each item.

    With a `worth`, it is `E sum_i worth_i discount(r_i)` over the items that the user reaches. For
    arrays `[n, s]`, which are `s` users of the same ranking, the answer is `[s]`.
    """
    if stop.ndim == 1:
      return self._cascade(stop, discount, k, worth)

    def of_user(stop: Array, worth: Array | None = None, *, k: Cutoff) -> Array:
      return self._cascade(stop, discount, k, worth)

    users = (stop,) if worth is None else (stop, worth)
    return self.each_user(of_user, *users, k=k)

  def each_user(self, question: Callable[..., Array], *users: Array, **parameters: Any) -> Array:
    """The answers to one question for many users: `question(*columns, **parameters)` of each.

    Args:
      question: A method of this query, such as `precision`, or a function that calls one.
      *users: Arrays `[n, s]`, whose columns are the first arguments of the question.
      **parameters: What all users share, such as the cut-off `k`.

    Returns:
      `[s]`.
    """
    one = remembering(self)(functools.partial(question, **parameters))
    answers: Array = batching.of_each_column(*users, function=one)
    return answers

  def _cascade(self, stop: Array, discount: Discount, k: Cutoff, worth: Array | None) -> Array:
    """The answer to `cascade` for one user; `stop` and `worth` are `[n]`."""
    del stop, discount, k, worth
    self._cannot_answer("cascade, the item at which a user stops")

  def precision(
    self,
    b: Array,
    *,
    k: Cutoff = None,
    weights: Array | None = None,
    discount: Discount = discounts.reciprocal,
  ) -> Array:
    """`E sum_i b_i discount(r_i) sum_j w_j`, over the `j` with `r_j <= r_i`, and `r_i <= k`.

    The weights `w` are `b` by default, so that the answer is the sum of the precisions at the ranks
    of the relevant items `b`.
    """
    del b, k, weights, discount
    self._cannot_answer("precision, the sum of the precisions at relevant items")

  def first(self, b: Array, discount: Discount, *, k: Cutoff = None) -> Array:
    """`E discount(r)` of the first item of the mask `b`, if its rank is at most `k`."""
    del b, discount, k
    self._cannot_answer("first, the rank of the first relevant item")

  def before(self, w: Array) -> Array:
    """The expected weight ahead of each item, `[n]`; tied items count half, the item itself not.

    For an item that is not retrieved it is the weight of all retrieved items; it is 0 under the
    mask. It is a mean: `f(before(w))` is not the expectation of `f` unless `f` is affine.
    """
    del w
    self._cannot_answer("before, the weight ahead of each item")

  def spread_of_ranks(self, centred: Array) -> Array:
    """The sum of the squares of the ranks around their mean; a smooth ranking draws no ties.

    Args:
      centred: `[n]`, the mean ranks around their mean, 0 under the mask. Items that are not
        retrieved tie with each other.
    """
    return self.total(jnp.square(centred))

  def cumulative(self, w: Array) -> Array:
    """The expected weight of the items at the ranks 1 to `r`, for `r = 1 ... n`: `[n]`."""
    del w
    self._cannot_answer("cumulative, the weight at the first ranks")

  def pairs(self) -> Pairs:
    """Numbers of concordant and discordant pairs, and of pairs that differ, of valid items."""
    self._cannot_answer("pairs, the numbers of concordant and discordant pairs")

  def _cannot_answer(self, what: str) -> NoReturn:
    raise UnansweredError(
      f"ranking={self.name} does not answer {what}; rank with jaxrank.Exact() instead."
    )


class Ranking(abc.ABC):
  """How the items of a query are ordered: exactly, or smoothly in the scores.

  A ranking is a hashable value or a registered pytree, so that it passes through `jit` and `vmap`
  as an argument.

  Attributes:
    key: A PRNG key, from which each query gets one of its own; None if nothing is random.
    in_blocks: Whether a large batch may be ranked in blocks of queries.
  """

  key: Array | None = None
  in_blocks: ClassVar[bool] = False

  @abc.abstractmethod
  def __call__(self, scores: Array, labels: Array, where: Array, *, k: int | None = None) -> Ranked:
    """Ranks one query.

    Args:
      scores: `[n]`.
      labels: `[n]` or `[n, subtopics]`.
      where: `[n]`, False on padding.
      k: The largest rank that will be asked for; None for the whole list, 0 for no order.

    Returns:
      The ranked query.
    """

  def with_key(self, key: Array) -> "Ranking":
    """The same ranking with the key of one query."""
    del key
    return self

  def anywhere(self, which: Array) -> Array:
    """Whether an item of one query is chosen, on any device: `[n]` to a scalar."""
    return jnp.any(which)


Name = Literal[
  "expect", "exposure", "cascade", "precision", "first", "before", "cumulative", "pairs"
]

# Primitives on floats whose derivative is 0 wherever it exists.
_FLAT = ("ceil", "floor", "nextafter", "round", "sign", "stop_gradient")


# The longest lists of which `pairs` compares all pairs, which takes no order: three numbers below
# this one share an int32.
ALL_PAIRS = 1024


def depth_of_pairs(n: int) -> int | None:
  """The depth that `pairs` of a list of `n` items needs: 0 for short lists, None for others."""
  return 0 if n <= ALL_PAIRS else None


def counts_all_alike(discount: Discount, k: Cutoff, among: Array | None) -> bool:
  """Whether `expect` needs no order: it is the weight of all retrieved items."""
  return discount is discounts.constant and k is None and among is None


def deepest(depths: Sequence[int | None]) -> int | None:
  """The largest of several depths, of which None is the whole list."""
  known = [depth for depth in depths if depth is not None]
  return None if len(known) < len(depths) else max(known, default=0)


class Question(NamedTuple):
  """One question of a kernel.

  Attributes:
    kind: The name of the method of `Ranked`.
    arguments: Its arguments by name, defaults included.
  """

  kind: Name
  arguments: dict[str, Any]


class Recorder(Ranked):
  """A ranked query that records questions, and answers each with 0 or the next given answer."""

  name = "the recorder of questions"
  ranked: Ranked | None = None

  def __init__(self, *query: Any):
    super().__init__(*query)
    self._begin(None)

  @classmethod
  def of(
    cls, ranked: Ranked, answers: list[Array] | None = None, order: tuple[Array, ...] = ()
  ) -> "Recorder":
    """A recorder with the facts of a ranked query.

    Args:
      ranked: The query whose facts the kernel reads.
      answers: One for each question, in the order in which they are asked; None for zeros.
      order: What stands for the scores and the keys; those of the query by default.
    """
    recorder = object.__new__(cls)
    vars(recorder).update(vars(ranked))
    if order:
      recorder.scores, recorder._sorted_keys = order
    recorder.ranked = ranked
    recorder._begin(answers)
    return recorder

  def _begin(self, answers: list[Array] | None) -> None:
    self.given = answers
    # The query must not keep facts that are computed while a kernel is only traced.
    self.memories = [*self.memories, (current_trace(), {})]
    self.questions: list[Question] = []
    self.zeros: list[Array] = []
    self.depths: list[int | None] = []

  def _ask(self, kind: Name, shape: tuple[int, ...], depth: Cutoff, **arguments: Any) -> Array:
    number = len(self.questions)
    self.questions.append(Question(kind, arguments))
    self.zeros.append(varying_zeros(self.where, shape, self.dtype))
    self.depths.append(depth if isinstance(depth, int) else None)
    return self.zeros[-1] if self.given is None else self.given[number]

  def best(self, gain: Gain, weights: ArrayLike | None = None, *, k: Cutoff = None) -> Array:
    """The gains of an ideal ranking, whose depth is recorded like that of a question."""
    self.depths.append(k if isinstance(k, int) else None)
    if self.ranked is None:
      # The depth does not depend on the gains, and to trace their sort takes longer than the rest.
      return varying_zeros(
        self.where, (min(self.n, k) if isinstance(k, int) else self.n,), self.dtype
      )
    return super().best(gain, weights, k=k)

  def require_order(self, what: str) -> None:
    """Does nothing: the ranking itself raises the error when the kernel runs on it."""

  def expect(
    self, w: Array, discount: Discount, *, k: Cutoff = None, among: Array | None = None
  ) -> Array:
    """Records `expect`; the answer is a scalar."""
    depth = k if among is None else None
    depth = 0 if counts_all_alike(discount, k, among) else depth
    return self._ask("expect", (), depth, w=w, discount=discount, k=k, among=among)

  def exposure(self, discount: Discount, *, k: Cutoff = None) -> Array:
    """Records `exposure`; the answer is `[n]`."""
    return self._ask("exposure", (self.n,), k, discount=discount, k=k)

  def cascade(
    self, stop: Array, discount: Discount, *, k: Cutoff = None, worth: Array | None = None
  ) -> Array:
    """Records `cascade`; the answer is a scalar, or `[s]` for `s` users."""
    given: dict[str, Any] = {"stop": stop, "discount": discount, "k": k, "worth": worth}
    return self._ask("cascade", stop.shape[1:], None, **given)

  def each_user(self, question: Callable[..., Array], *users: Array, **parameters: Any) -> Array:
    """Records the question of each user on its own."""
    columns = zip(*(x.T for x in users), strict=True)
    return jnp.stack([question(*user, **parameters) for user in columns])

  def precision(
    self,
    b: Array,
    *,
    k: Cutoff = None,
    weights: Array | None = None,
    discount: Discount = discounts.reciprocal,
  ) -> Array:
    """Records `precision`; the answer is a scalar."""
    return self._ask("precision", (), k, b=b, k=k, weights=weights, discount=discount)

  def first(self, b: Array, discount: Discount, *, k: Cutoff = None) -> Array:
    """Records `first`, which needs no sort, only counts; the answer is a scalar."""
    return self._ask("first", (), 0, b=b, discount=discount, k=k)

  def before(self, w: Array) -> Array:
    """Records `before`; the answer is `[n]`."""
    return self._ask("before", (self.n,), None, w=w)

  def cumulative(self, w: Array) -> Array:
    """Records `cumulative`; the answer is `[n]`."""
    return self._ask("cumulative", (self.n,), None, w=w)

  def pairs(self) -> Pairs:
    """Records `pairs`; the answers are two counts, since those of pairs that differ are facts."""
    counts = self._ask("pairs", (2,), depth_of_pairs(self.n))
    one = jnp.ones((), self.dtype)
    facts = Pairs(one, one, one, one) if self.ranked is None else self.ranked.pairs()
    return facts._replace(concordant=counts[0], discordant=counts[1])


class Slope(NamedTuple):
  """A question of an affine kernel, and how the value changes with the answer.

  Attributes:
    question: The question, with its arguments.
    slope: Of the shape of the answer.
  """

  question: Question
  slope: Array


def slopes_of(kernel: Callable[[Ranked], Any], ranked: Ranked) -> list[Slope] | str:
  """The slopes of a kernel that is jointly affine in the answers; for others why there are none.

  Two programs decide whether it is. Neither the gradient nor the arguments of the questions may
  depend on an answer, and the value may not depend on one through a step whose derivative is 0,
  such as a comparison. Nothing may depend on the order but by the answers, so that neither program
  may use the scores or their keys: docs/mathematics.md, "Slopes".

  Args:
    kernel: A function of one ranked query to a scalar.
    ranked: The query whose facts the kernel reads.
  """
  zeros, order = _answers(kernel, ranked), (ranked.scores, ranked.keys)

  def value(answers: list[Array], order: tuple[Array, ...] = ()) -> tuple[Array, Any]:
    recorder = Recorder.of(ranked, answers, order)
    scalar = jnp.asarray(kernel(recorder)).astype(ranked.dtype)
    return scalar, [_traced_arguments(question) for question in recorder.questions]

  gradient = jax.grad(value, has_aux=True)
  forward = jax.make_jaxpr(lambda *given: value(*given)[0])(zeros, order).jaxpr
  forward, used_forward = without_dead_code(forward)
  used = used_forward
  if zeros:
    _, used = without_dead_code(jax.make_jaxpr(gradient)(zeros, order).jaxpr)
  if any(used[len(zeros) :] + used_forward[len(zeros) :]):
    return "reads the scores themselves, beside what it asks of the ranking"
  if not zeros:
    return []
  if any(used) or _is_flat_in(forward, [True] * sum(used_forward)):
    return "is not affine in the answers of the ranking"
  by_answer, _ = gradient(zeros)
  # The questions that were recorded before hold tracers of other programs: the kernel runs again.
  asked = Recorder.of(ranked, zeros)
  kernel(asked)
  return [Slope(*pair) for pair in zip(asked.questions, by_answer, strict=True)]


def _is_flat_in(program: Any, chosen: list[bool]) -> bool:
  """Whether a program depends on a chosen input by a step whose derivative is 0 where it exists.

  The inputs of a called program are those at the end of the call; all inputs of a loop count as
  chosen. docs/mathematics.md, "Slopes".
  """
  depends = {id(x) for x, yes in zip(program.invars, chosen, strict=True) if yes}
  for step in program.eqns:
    here = [id(x) in depends for x in step.invars]
    if not any(here):
      continue
    name, inner = step.primitive.name, list(_programs_in(step.params.values()))
    for called in inner:
      same = name not in ("scan", "while") and len(called.invars) <= len(here)
      size = len(called.invars)
      if _is_flat_in(called, here[len(here) - size :] if same else [True] * size):
        return True
    floats = all(jnp.issubdtype(x.aval.dtype, jnp.inexact) for x in step.outvars)
    if not inner and (name in _FLAT or not floats):
      return True
    depends.update(map(id, step.outvars))
  return False


def _programs_in(values: Iterable[Any]) -> Iterator[Any]:
  """The programs among the parameters of a step, in nested tuples and lists too."""
  for value in values:
    if isinstance(value, tuple | list):
      yield from _programs_in(value)
    elif hasattr(value, "eqns"):
      yield getattr(value, "jaxpr", value)


def _answers(kernel: Callable[[Ranked], Any], ranked: Ranked) -> list[Array]:
  """Zeros of the shapes of the answers."""

  def asked() -> list[Array]:
    recorder = Recorder.of(ranked)
    kernel(recorder)
    return recorder.zeros

  return [varying_zeros(ranked.where, x.shape, x.dtype) for x in jax.eval_shape(asked)]


def _traced_arguments(question: Question) -> list[Array]:
  """The arguments of a question that may depend on answers: arrays, and values of the discount."""
  discount = question.arguments.get("discount")
  arrays = [x for x in question.arguments.values() if isinstance(x, jax.Array)]
  ranks = jnp.arange(1.0, 3.0)
  return arrays if discount is None else [*arrays, discount(ranks)]


def depth_of(
  kernel: Callable[[Ranked], Any], scores: Array, labels: Array, where: Array
) -> int | None:
  """The largest rank for which a kernel of one ranked query asks; None for the whole list."""
  depths: list[int | None] = []

  def run(scores: Array, labels: Array, where: Array) -> None:
    recorder = Recorder(scores, labels, where, None)
    kernel(recorder)
    depths[:] = recorder.depths

  jax.eval_shape(run, *map(_unsplit, (scores, labels, where)))
  return deepest(depths)


def _unsplit(x: Array) -> Any:
  """The shape and dtype of a sharded array, because its facts cannot be sliced at a cut-off."""
  split = any(jax.typeof(x).sharding.spec)
  return jax.ShapeDtypeStruct(x.shape, x.dtype) if split else x
