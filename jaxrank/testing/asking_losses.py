"""Calls a loss in the ways that a user may, and compares its values and its gradients."""

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from jaxrank.testing.asking import Answer, Identity, Law, Metric, name_of, takes
from jaxrank.testing.laws import ODD_NUMBERS
from jaxrank.testing.queries import Case, array

_ADVICE = {
  "jit": "Write it with jax.numpy and jax.lax, without Python's `if` on values and without numpy.",
  "remat": "A function that is computed again must have no side effects, such as callbacks.",
  "mask": "Replace what stands under the mask before any arithmetic: jnp.where(where, x, 0).",
  "nan": "Replace what stands under the mask before any arithmetic: 0 * nan and its gradient are "
  "nan. Let a NaN of a valid item reach the value.",
  "padding": "Count valid items, not columns, and replace what stands under the mask before any "
  "arithmetic: jnp.where(where, x, 0).",
  "permutation": "Sum over items or over pairs. A sort breaks ties by the column.",
  "empty": "Divide by jnp.where(total > 0, total, 1), not by a total that may be 0.",
  "batch": "Reduce over the last axis, axis=-1, and return one value per query.",
  "isolation": "Take maxima, sums and lengths of loops in each query alone. A product with 0 keeps "
  "what is not finite: take jnp.where.",
  "vmap": "Reduce over the last axis, axis=-1; look at rules of custom_vmap and at callbacks.",
  "finite": "Use jax.nn.logsumexp and jax.nn.softplus for logarithms of sums, and replace infinite "
  "scores before they meet arithmetic: a jnp.where after it still multiplies 0 by inf.",
  "dtypes": "Compute in float32 at least: "
  "scores = scores.astype(np.promote_types(scores.dtype, np.float32)).",
  "derivatives": "Look at rules of custom_jvp and custom_vjp, and at stop_gradient. Leave the law "
  'out if the gradient is another on purpose: laws=LOSS_LAWS.keys() - {"derivatives"}. '
  "parameters=(...) names the numbers in which derivatives are tested.",
  "alive": "A scorer that starts from zero does not learn. A smooth cut-off such as k=10 keeps "
  "products over items and weights that decay with the rank from vanishing; an exact cut-off has "
  "no gradient. If lists are never so long, say so: sizes=(10, 200).",
}


# Annotations that allow a float; an array or a scalar of JAX may be one.
_REAL = re.compile("float|array|scalar|real|number", re.IGNORECASE)


class Programs:
  """The jitted forms of one loss: values and gradients, each compiled once for each shape.

  Attributes:
    name: The name of the loss for messages.
    takes: `where`, if the loss takes it.
    numbers: The defaults of the numbers of the signature by name, as `numbers_of` returns them.
    forms: The functions `(scores, labels, where)` to values `[...]` and gradients `[..., n]` that
      are compiled, by name; "mapped" and "beside" map over the first axis.
    run: The forms, compiled but for "direct".
    backward: Of queries `[Q, n]` and a tree of numbers: the values, and the gradients in both.
    probe: The same and, where the loss has forward mode, the derivatives along some moves.
  """

  def __init__(self, loss: Metric):
    name = name_of(loss)
    self.name = "loss" if name == "<lambda>" else name
    self.takes = takes(loss) & {"where"}
    self.bound = loss.keywords if isinstance(loss, functools.partial) else {}
    self.numbers, self.counts = numbers_of(loss), counts_of(loss)

    def value(scores: Any, labels: Any, where: Any, given: Any) -> Any:
      try:
        values = loss(scores, labels, **({"where": where} if self.takes else {}), **given)
      except Exception as error:
        if not given or _is_reverse_only(error):
          raise
        raise AssertionError(
          f"check_loss: {self.name} must take traced numbers for {' and '.join(given)}, to be "
          "differentiated in them. Annotate as int what is a count, or name the parameters that "
          "have derivatives, perhaps none: parameters=(). With traced numbers, the loss raised "
          f"{type(error).__name__}: {error}"
        ) from error
      if not isinstance(values, jax.Array):
        raise AssertionError(
          f"check_loss: {self.name} must return one array, with one value per query, got a "
          f"{type(values).__name__}. If it returns more than that, give check_loss a function that "
          "returns the value alone."
        )
      if not jnp.issubdtype(values.dtype, jnp.floating):
        raise AssertionError(
          f"check_loss: {self.name} must return floats, got {values.dtype}, which has no gradient. "
          "For counts of comparisons take a smooth function, such as jax.nn.sigmoid of differences "
          "of scores."
        )
      return values

    def both(function: Callable[..., Any], scores: Any, labels: Any, where: Any) -> Any:
      values, pull = jax.vjp(lambda s: function(s, labels, where, {}), scores)
      return values, *pull(jnp.ones_like(values))

    def backward(scores: Any, labels: Any, where: Any, given: Any) -> Any:
      values, pull = jax.vjp(lambda s, given: value(s, labels, where, given), scores, given)
      return values, pull(jnp.ones_like(values))

    def probe(scores: Any, labels: Any, where: Any, given: Any, moves: Any) -> Any:
      def at(scores: Any, given: Any) -> Any:
        return value(scores, labels, where, given)

      try:
        rise = jax.jvp(at, (scores, given), moves)[1]
      except TypeError as error:
        if not _is_reverse_only(error):
          raise
        rise = None
      return *backward(scores, labels, where, given), rise

    direct = functools.partial(both, value)
    mapped = jax.vmap(direct)
    self.forms: dict[str, Callable[..., Any]] = {
      "direct": direct,
      "jitted": direct,
      "mapped": mapped,
      "beside": mapped,
      "remat": functools.partial(both, jax.checkpoint(value)),
    }
    self.run = {how: form if how == "direct" else jax.jit(form) for how, form in self.forms.items()}
    self.run["beside"] = self.run["mapped"]
    self.slopes: dict[str, Callable[..., Any]] = {
      "backward": jax.vmap(backward),
      "probe": jax.vmap(probe),
    }
    self.backward, self.probe = (jax.jit(x) for x in self.slopes.values())

  def filled(self, case: Case) -> Case:
    """A case that may have more queries, copies of the last."""
    return case

  def given(self, parameters: Iterable[str] | None, size: int, n: int) -> dict[str, Any]:
    """The defaults of some numbers, all that are no counts for None, in each of `size` queries.

    Weights of 1 are the default, None.
    """
    names = [x for x in self.numbers if x not in self.counts] if parameters is None else parameters
    chosen = {x: np.ones((size, n)) if self.numbers[x] is None else self.numbers[x] for x in names}
    filled: dict[str, Any] = jax.tree.map(
      lambda x: x if np.ndim(x) else np.full(size, float(x)), chosen
    )
    return filled


def programs(identity: Identity) -> Programs:
  """The programs of a loss: its attribute `programs`, or those kept of the losses tested last."""
  own: Programs | None = getattr(identity.metric, "programs", None)
  return _compiled(identity) if own is None else own


@functools.lru_cache(maxsize=16)
def _compiled(identity: Identity) -> Programs:
  return Programs(identity.metric)


def numbers_of(loss: Metric) -> dict[str, Any]:
  """The parameters of a loss whose default is a number or a tree of numbers, and their defaults.

  `weights` whose default is None is there too, with the value None.
  """
  numbers = {}
  for name, parameter in inspect.signature(loss).parameters.items():
    leaves = jax.tree.leaves(parameter.default)
    weights = name == "weights" and parameter.default is None
    if weights or (leaves and all(map(_is_number, leaves))):
      numbers[name] = parameter.default
  return numbers


def counts_of(loss: Metric) -> set[str]:
  """The numbers of a loss that are no reals: ints named `k` or whose annotation allows no float.

  An int without an annotation is real: `scale=1` is more often a factor than a count.
  """
  counts = set()
  for name, parameter in inspect.signature(loss).parameters.items():
    annotated = parameter.annotation is not parameter.empty
    real = not annotated or _REAL.search(inspect.formatannotation(parameter.annotation))
    if (name == "k" or not real) and _is_whole(parameter.default):
      counts.add(name)
  return counts


def _is_whole(x: Any) -> bool:
  """Whether a default is an int or holds ints; the leaves of a ranking are real all the same."""
  plain = isinstance(x, int | np.number | np.ndarray | jax.Array | tuple | list | dict)
  return plain and all(jnp.result_type(leaf).kind in "iu" for leaf in jax.tree.leaves(x))


def _is_reverse_only(error: Exception) -> bool:
  """Whether an error says that a function with a rule of `jax.custom_vjp` has no forward mode."""
  return isinstance(error, TypeError) and "(jvp) to a custom_vjp function" in str(error)


def _is_number(x: Any) -> bool:
  return (
    isinstance(x, int | float | np.number | np.ndarray | jax.Array)
    and not isinstance(x, bool)
    and np.ndim(x) == 0
    and jnp.issubdtype(jnp.result_type(x), jnp.number)
  )


class Both(NamedTuple):
  """Values `[...]` of queries, gradients `[..., n]`, and what they are values and gradients of."""

  values: np.ndarray
  slopes: np.ndarray
  text: Callable[[tuple[int, ...]], str]
  what: str = "the gradient"

  @property
  def answer(self) -> Answer:
    """The values alone."""
    return Answer(self.values, self.text)

  def at(self, index: int) -> "Both":
    """What is known about one entry of the first axis."""
    return Both(self.values[index], self.slopes[index], lambda query: self.text((index, *query)))


class LossLaw(Law):
  """The context in which a law asks a loss for values and gradients."""

  programs: Any

  def __init__(self, name: str, statement: str, loss: Metric, case: Case, tolerance: float):
    super().__init__(name, statement, loss, case, tolerance, programs)

  def both(self, case: Case, how: str = "jitted", prefix: str = "") -> Both:
    """The values and the gradients of a case."""
    self.asked = case
    given = map(np.asarray, (case.scores, case.labels, case.valid))
    given = map(jax.device_put, given) if how == "direct" else given
    values, slopes = map(np.asarray, self.programs.run[how](*given))
    if values.shape != case.scores.shape[:-1]:
      self.fail(
        f"The values must have shape {case.scores.shape[:-1]}, one per query, for scores of shape "
        f"{case.scores.shape}, got {values.shape}."
      )
    return Both(values, slopes, lambda query: prefix + self.text(case, query))

  def by_numbers(
    self, case: Case, parameters: Iterable[str] | None, odd: Sequence[float] = ()
  ) -> Both:
    """The values `[Q]` of all queries of a case, and their gradients in some numbers, `[Q, m]`.

    One call maps over the queries beside copies of them, in which each number in turn is each of
    `odd`, if it is given, and then the gradients in the scores stand in front of the others.
    """
    beside_others, odd = bool(odd), odd or (1.0,) * len(ODD_NUMBERS)
    case = self.programs.filled(case.arrays(lambda x: x.reshape(-1, x.shape[-1])))
    self.asked, (size, n) = case, case.scores.shape
    given = self.programs.given(parameters, size, n)
    leaves, tree = jax.tree.flatten(jax.tree.map(np.float32, given))
    blocks = [[x] * (1 + len(leaves) * len(odd)) for x in leaves]
    for i, (x, block) in enumerate(zip(leaves, blocks, strict=True)):
      first = 1 + i * len(odd)
      block[first : first + len(odd)] = [np.full_like(x, number) for number in odd]
    lists = [np.tile(x, (1 + len(leaves) * len(odd), 1)) for x in case[:2] + (case.valid,)]
    swept = jax.tree.unflatten(tree, list(map(np.concatenate, blocks)))
    asked = self.programs.backward(*lists, swept)
    values, (by_scores, slopes) = jax.tree.map(np.asarray, asked)
    flat = [np.reshape(x[:size], (size, -1)) for x in jax.tree.leaves(slopes)]
    flat = [by_scores[:size] if beside_others else np.zeros((size, 0), np.float32), *flat]
    what = f"the gradient in {' and '.join([*['scores'] * beside_others, *sorted(given)])}"
    return Both(values[:size], np.concatenate(flat, -1), lambda query: self.text(case, query), what)

  def text(self, case: Case, query: tuple[int, ...]) -> str:
    """The call of the loss on one query of a case, with what `functools.partial` sets."""
    own = "".join(f"  {name}={value!r},\n" for name, value in self.programs.bound.items())
    return super().text(case, query).removesuffix(")") + own + ")"

  def fail(self, what: str) -> NoReturn:
    """Raises an error that says what is wrong and what to do."""
    super().fail(f"{what}\n{_ADVICE[self.name]}")

  def same(self, both: Both, expected: Both, among: Any = True) -> None:
    """Raises an error for the first of some queries whose values or gradients differ."""
    self.equal(both.answer, expected.answer, among)
    self.parallel(both, expected, self.tolerance, among)

  def parallel(self, both: Both, expected: Both, tolerance: float, among: Any = True) -> None:
    """Raises an error for the first query whose gradients differ, by a share of the largest."""
    x, y = (slopes.astype(np.float64) for slopes in (both.slopes, expected.slopes))
    with np.errstate(invalid="ignore"):
      size = np.max(np.abs(np.where(np.isfinite(y), y, 0)), axis=-1, keepdims=True, initial=0)
      right = (np.abs(x - y) <= tolerance * (1 + size)) | (x == y)
    right |= np.isnan(x) & np.isnan(y)
    self.compared += x.size

    def other(query: tuple[int, ...]) -> str:
      slopes = array(expected.slopes[query])
      return f", but that of\n{expected.text(query)}\nis, item by item, {slopes}"

    self.first_wrong(right, among, both, other, both.what)

  def zero(self, both: Both, here: np.ndarray) -> None:
    """Raises an error unless gradients are exactly 0 at some items."""
    what = f"{both.what}, which should be 0 of all that does not count,"
    self.first_wrong(~here | (both.slopes == 0), True, both, lambda _: "", what)

  def finite(self, both: Both) -> None:
    """Raises an error unless values and gradients are finite."""
    self.first_wrong(np.isfinite(both.values)[..., None], True, both, lambda _: "", "the value")
    self.first_wrong(np.isfinite(both.slopes), True, both, lambda _: "", "the gradient")
    self.compared += both.values.size

  def first_wrong(
    self,
    right: np.ndarray,
    among: Any,
    both: Both,
    other: Callable[[tuple[int, ...]], str],
    what: str,
  ) -> None:
    """Raises an error for the first query with an item that is not right."""
    wrong = np.argwhere(~right.all(-1) & np.broadcast_to(among, right.shape[:-1]))
    if len(wrong):
      query = tuple(map(int, wrong[0]))
      got = both.values[query] if what == "the value" else array(both.slopes[query])
      self.fail(f"{what} of\n{both.text(query)}\nis {got}{other(query)}.")
