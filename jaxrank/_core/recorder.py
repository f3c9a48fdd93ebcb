"""Records the questions of a kernel, to find out how deep it looks and whether it is affine.

`apply` needs the depth. If a kernel is affine in the answers to its questions, the change of the
metric when two items swap places, and its expectation by chance, follow from those of the answers:
`losses.swaps` and `chance` use `slopes`. docs/mathematics.md, "Affine kernels", has the reasons.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank import discounts
from jaxrank._base import Cutoff, Discount, Gain, Pairs
from jaxrank._core._jax import current_trace, without_dead_code
from jaxrank._core.arithmetic import varying_zeros
from jaxrank._core.ranked import Ranked

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
  def of(cls, ranked: Ranked, answers: list[Array] | None = None) -> "Recorder":
    """A recorder with the facts of a ranked query.

    Args:
      ranked: The query whose facts the kernel reads.
      answers: One for each question, in the order in which they are asked; None for zeros.
    """
    recorder = object.__new__(cls)
    vars(recorder).update(vars(ranked))
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


def slopes(kernel: Callable[[Ranked], Any], ranked: Ranked) -> list[Slope] | None:
  """The slopes of a kernel that is jointly affine in the answers; None for any other kernel.

  Two programs decide whether it is. Neither the gradient nor the arguments of the questions may
  depend on an answer, and the value may not depend on one through a step whose derivative is 0,
  such as a comparison: docs/mathematics.md, "Slopes".

  Args:
    kernel: A function of one ranked query to a scalar.
    ranked: The query whose facts the kernel reads.
  """
  zeros = _answers(kernel, ranked)

  def value(answers: list[Array]) -> tuple[Array, Any]:
    recorder = Recorder.of(ranked, answers)
    scalar = kernel(recorder)
    return scalar, [_traced_arguments(question) for question in recorder.questions]

  gradient = jax.grad(value, has_aux=True)
  if not zeros:
    return []
  program = jax.make_jaxpr(gradient)(zeros).jaxpr
  _, used = without_dead_code(program)
  forward = jax.make_jaxpr(lambda answers: value(answers)[0])(zeros).jaxpr
  forward, used_forward = without_dead_code(forward)
  if any(used) or _is_flat_in(forward, [True] * sum(used_forward)):
    return None
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

  def run(scores: Array, labels: Array, where: Array) -> Any:
    recorder = Recorder(scores, labels, where, None)
    value = kernel(recorder)
    depths[:] = recorder.depths
    return value

  jax.eval_shape(run, *map(_unsplit, (scores, labels, where)))
  return deepest(depths)


def _unsplit(x: Array) -> Any:
  """The shape and dtype of a sharded array, because its facts cannot be sliced at a cut-off."""
  split = any(jax.typeof(x).sharding.spec)
  return jax.ShapeDtypeStruct(x.shape, x.dtype) if split else x
