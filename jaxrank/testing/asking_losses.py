"""Calls a loss in the ways that a user may, and compares its values and its gradients."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from jaxrank.testing.asking import Answer, Identity, Law, Metric, name_of, takes
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
  "vmap": "Reduce over the last axis, axis=-1; look at rules of custom_vmap and at callbacks.",
  "finite": "Use jax.nn.logsumexp and jax.nn.softplus for logarithms of sums, and replace infinite "
  "scores before they meet arithmetic: a jnp.where after it still multiplies 0 by inf.",
  "derivatives": "Look at rules of custom_jvp and custom_vjp, and at stop_gradient. Leave the law "
  'out if the gradient is another on purpose: laws=LOSS_LAWS.keys() - {"derivatives"}.',
  "alive": "A scorer that starts from zero does not learn. Use the whole list for a cut-off, or a "
  "sum for a product over items. If lists are never so long, say so: sizes=(10, 200).",
}


class Programs:
  """The jitted forms of one loss: values and gradients, each compiled once for each shape.

  Attributes:
    name: The name of the loss for messages.
    takes: `where`, if the loss takes it.
    numbers: The numbers of the signature by name, as `numbers_of` returns them.
    run: The forms `(scores, labels, where)` to values `[...]` and gradients `[..., n]`.
  """

  def __init__(self, loss: Metric):
    name = name_of(loss)
    self.name = "loss" if name == "<lambda>" else name
    self.takes = takes(loss) & {"where"}
    self.bound = loss.keywords if isinstance(loss, functools.partial) else {}
    self.numbers = numbers_of(loss)

    def value(scores: Any, labels: Any, where: Any, given: Any) -> Any:
      return loss(scores, labels, **({"where": where} if self.takes else {}), **given)

    def both(function: Callable[..., Any], scores: Any, labels: Any, where: Any) -> Any:
      found, pull = jax.vjp(lambda s: function(s, labels, where, {}), scores)
      return found, *pull(jnp.ones_like(found))

    def probe(scores: Any, labels: Any, where: Any, given: Any, moves: Any) -> Any:
      def at(scores: Any, given: Any) -> Any:
        return value(scores, labels, where, given)

      found, rise = jax.jvp(at, (scores, given), moves)
      return found, rise, jax.vjp(at, scores, given)[1](jnp.ones_like(found))

    direct = functools.partial(both, value)
    self.run: dict[str, Callable[..., Any]] = {
      "direct": direct,
      "jitted": jax.jit(direct),
      "mapped": jax.jit(jax.vmap(direct)),
      "remat": jax.jit(functools.partial(both, jax.checkpoint(value))),
    }
    self.probe = jax.jit(jax.vmap(probe))


@functools.lru_cache(maxsize=16)
def programs(identity: Identity) -> Programs:
  """The programs of a loss, kept for the losses that were tested last."""
  return Programs(identity.metric)


def numbers_of(loss: Metric) -> dict[str, Any]:
  """The numeric parameters of a loss: those whose default is a float or a tree of floats.

  `weights` whose default is None is there too, with the value None.
  """
  found = {}
  for name, parameter in inspect.signature(loss).parameters.items():
    leaves = jax.tree.leaves(parameter.default)
    weights = name == "weights" and parameter.default is None
    if weights or (leaves and all(map(_is_float, leaves))):
      found[name] = parameter.default
  return found


def _is_float(x: Any) -> bool:
  return isinstance(x, float) or (
    isinstance(x, np.ndarray | jax.Array) and x.ndim == 0 and jnp.issubdtype(x.dtype, jnp.floating)
  )


class Both(NamedTuple):
  """Values `[...]` of queries, gradients `[..., n]`, and what they are values of."""

  values: np.ndarray
  slopes: np.ndarray
  text: Callable[[tuple[int, ...]], str]

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
    found = self.programs.run[how](*map(jnp.asarray, (case.scores, case.labels, case.valid)))
    values, slopes = map(np.asarray, found)
    if values.shape != case.scores.shape[:-1]:
      self.fail(
        f"The values must have shape {case.scores.shape[:-1]}, one per query, for scores of shape "
        f"{case.scores.shape}, got {values.shape}."
      )
    return Both(values, slopes, lambda query: prefix + self.text(case, query))

  def text(self, case: Case, query: tuple[int, ...]) -> str:
    """The call of the loss on one query of a case, with what `functools.partial` sets."""
    own = "".join(f"  {name}={value!r},\n" for name, value in self.programs.bound.items())
    return super().text(case, query).removesuffix(")") + own + ")"

  def fail(self, what: str) -> NoReturn:
    """Raises an error that says what is wrong and what to do."""
    super().fail(f"{what}\n{_ADVICE[self.name]}")

  def same(self, found: Both, expected: Both, among: Any = True) -> None:
    """Raises an error for the first of some queries whose values or gradients differ."""
    self.equal(Answer(found.values, found.text), Answer(expected.values, expected.text), among)
    self.parallel(found, expected, self.tolerance, among)

  def parallel(self, found: Both, expected: Both, tolerance: float, among: Any = True) -> None:
    """Raises an error for the first query whose gradients differ, by a share of the largest."""
    x, y = (slopes.astype(np.float64) for slopes in (found.slopes, expected.slopes))
    with np.errstate(invalid="ignore"):
      size = np.max(np.abs(np.where(np.isfinite(y), y, 0)), axis=-1, keepdims=True, initial=0)
      right = (np.abs(x - y) <= tolerance * (1 + size)) | (x == y)
    right |= np.isnan(x) & np.isnan(y)
    self.compared += x.size

    def other(query: tuple[int, ...]) -> str:
      slopes = array(expected.slopes[query])
      return f", but that of\n{expected.text(query)}\nis, item by item, {slopes}"

    self.first_wrong(right, among, found, other, "the gradient")

  def zero(self, found: Both, here: np.ndarray) -> None:
    """Raises an error unless gradients are exactly 0 at some items."""
    what = "the gradient, which should be 0 of items that do not count,"
    self.first_wrong(~here | (found.slopes == 0), True, found, lambda _: "", what)

  def finite(self, found: Both) -> None:
    """Raises an error unless values and gradients are finite."""
    self.first_wrong(np.isfinite(found.values)[..., None], True, found, lambda _: "", "the value")
    self.first_wrong(np.isfinite(found.slopes), True, found, lambda _: "", "the gradient")
    self.compared += found.values.size

  def first_wrong(
    self,
    right: np.ndarray,
    among: Any,
    found: Both,
    other: Callable[[tuple[int, ...]], str],
    what: str,
  ) -> None:
    """Raises an error for the first query with an item that is not right."""
    wrong = np.argwhere(~right.all(-1) & np.broadcast_to(among, right.shape[:-1]))
    if len(wrong):
      query = tuple(map(int, wrong[0]))
      got = found.values[query] if what == "the value" else array(found.slopes[query])
      self.fail(f"{what} of\n{found.text(query)}\nis {got}{other(query)}.")
