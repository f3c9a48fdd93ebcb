"""What normalisations and methods share: lists of systems, checks, and their registration.

A method is written once: a typed, documented function whose body returns `points_of(points, rule)`.
The points are `[systems, ..., n]`, -inf where a system does not retrieve an item, and the rule
makes one number of those of an item. Points do not depend on weights, so that `fit` computes them
once. `method` makes the public function of the body: it checks arguments, compiles, and places
-inf, NaN and padding.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, ParamSpec, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._core import batching, checks
from jaxrank._core.arithmetic import floating, over_first

P = ParamSpec("P")
Kind = Literal["scores", "ranks", "trained"]
Check: TypeAlias = Callable[[str, Any], None]
Missing: TypeAlias = ArrayLike | Literal["min"] | None


@dataclasses.dataclass(frozen=True)
class Runs:
  """The points of all items of systems. What is said of an item, by all systems, is `[1, ..., n]`.

  Attributes:
    points: `[systems, ..., n]`, 0 for an item that a system does not retrieve.
    has: `[systems, ..., n]`, whether a system retrieves an item.
    weights: `[systems, ..., 1]`, the weights of the systems.
  """

  points: Array
  has: Array
  weights: Array

  @property
  def count(self) -> Array:
    """`[1, ..., n]`, how many systems retrieve each item."""
    return summed(self.has.astype(self.points.dtype))

  @property
  def weighted(self) -> Array:
    """`[systems, ..., n]`, points times weights, where an infinite point of weight 0 is 0."""
    return times(self.points, self.weights)

  def total(self) -> Array:
    """`[1, ..., n]`, the sum of weighted points."""
    return summed(self.weighted)


def over_systems(combine: Callable[[Array, Array], Array], x: Array) -> Array:
  """`[1, ..., n]`: of `[systems, ..., n]`, one system combined with the next."""
  return over_first(combine, x)[None]


def summed(x: Array) -> Array:
  """`[1, ..., n]`, the sum over systems."""
  return over_systems(jnp.add, x)


def by_any(has: Array) -> Array:
  """`[1, ..., n]`, whether some system retrieves an item."""
  return over_systems(jnp.logical_or, has)


def times(points: Array, factor: Array) -> Array:
  """`points * factor` for a factor of at least 0, with which an infinite point times 0 is 0."""
  infinite = jnp.isinf(points)
  return jnp.where(infinite & (factor > 0), points, factor * jnp.where(infinite, 0, points))


Rule: TypeAlias = Callable[[Runs], Array]


def points_of(points: ArrayLike, rule: Rule) -> Array:
  """What a body returns: points, and the rule that `method` applies to them with the weights.

  To callers of the public function, and to type checkers, it is the array that the rule makes.
  """
  return cast(Array, (points, rule))


@dataclasses.dataclass(frozen=True, eq=False)
class Method:
  """The description of a method of fusion.

  Attributes:
    name: Its name.
    kind: What it reads: "scores", "ranks", or "trained", for ranks and what `train` learnt.
    names: Its names in other libraries.
    function: The public function.
    body: The function that returns points and a rule.
    weighted: Whether it takes weights.
    accepts: Checks of its parameters by their names.
    training: What `train` computes for it; None for nothing.
  """

  name: str
  kind: Kind
  names: tuple[str, ...]
  function: Callable[..., Array]
  body: Callable[..., Any]
  weighted: bool
  accepts: Mapping[str, Check]
  training: Callable[..., Array] | None = None

  @property
  def parameters(self) -> Mapping[str, Any]:
    """The parameters of its own by name, with their defaults."""
    shared = ("scores", "where", "weights")
    given = inspect.signature(self.function).parameters
    return {name: x.default for name, x in given.items() if name not in shared}


METHODS: dict[str, Method] = {}
NORMALISATIONS: dict[str, Callable[..., Array]] = {}


def method(
  kind: Kind, *names: str, training: Callable[..., Array] | None = None, **accepts: Check
) -> Callable[[Callable[P, Array]], Callable[P, Array]]:
  """Makes a method of a body, and registers it.

  Args:
    kind: What it reads.
    *names: Its names in other libraries.
    training: A function of scores, hits, mask and parameters that `train` calls.
    **accepts: Checks of parameters by their names, which see the values that are given.

  Returns:
    A decorator of bodies.
  """

  def attach(body: Callable[P, Array]) -> Callable[P, Array]:
    name, signature = body.__name__, inspect.signature(body)

    @functools.wraps(body)
    def call(*args: P.args, **given: P.kwargs) -> Array:
      with checks.named(f"fusion.{name}"):
        scores, where, parameters = _given(signature, accepts, args, given)
        weights = weights_of(parameters.pop("weights", None), scores)
        arrays, static = batching.split(parameters)
        fused: Array = _fused(body, static, arrays, scores, where, weights)
      return fused

    weighted = "weights" in signature.parameters
    METHODS[name] = Method(name, kind, names, call, body, weighted, accepts, training)
    return call

  return attach


def _given(
  signature: inspect.Signature, accepts: Mapping[str, Check], args: Any, given: Any
) -> tuple[Array, Array, dict[str, Any]]:
  """The scores, the mask and the other arguments of a call, checked."""
  arguments = signature.bind(*args, **given).arguments
  scores, where = systems(arguments.pop("scores"), arguments.pop("where", None))
  for name, accept in accepts.items():
    if name in arguments:
      accept(name, arguments[name])
      arguments[name] = _as(scores, arguments[name])
  return scores, where, arguments


def _as(scores: Array, value: Any) -> Any:
  """A number that has a dtype, in that of the scores; anything else as it is."""
  return value.astype(scores.dtype) if isinstance(value, Array | np.ndarray | np.generic) else value


@functools.partial(jax.jit, static_argnums=(0, 1))
def _fused(
  body: Callable[..., Any],
  static: batching.Static,
  arrays: list[Any],
  scores: Array,
  where: Array,
  weights: Array,
) -> Array:
  # Of NaN, the slopes of weights and of what is trained would be NaN, although NaN has the slope 0.
  known = jnp.where(jnp.isnan(scores), 0, scores)
  points, rule = body(known, where=where, **batching.joined(arrays, static))
  return combined(points, rule, scores, where, weights)


def combined(points: Array, rule: Rule, scores: Array, where: Array, weights: Array) -> Array:
  """The fused scores of points; `scores` are those that were given, whose NaN spoil a query."""
  unknown = by_any(where & jnp.isnan(lax.stop_gradient(scores)))
  unknown = jnp.any(unknown, axis=-1, keepdims=True)
  has = retrieved(points, where)
  fused = rule(Runs(jnp.where(has, points, 0), has, weights))
  fused = jnp.where(by_any(has), fused, -jnp.inf)
  return jnp.where(where, jnp.where(unknown, jnp.nan, fused), 0)[0]


def retrieved(scores: Array, where: Array) -> Array:
  """`[systems, ..., n]`, whether a system retrieves an item."""
  return where & (scores != -jnp.inf)


def normalisation(
  *, fills: bool = False, **accepts: Check
) -> Callable[[Callable[P, Array]], Callable[P, Array]]:
  """Makes a normalisation of a body, and registers it.

  The body gets scores `[systems, ..., n]`, and as `where` which of them are of retrieved items; the
  others are 0. `missing` is applied here.

  Args:
    fills: Whether the body has values for items that a system does not retrieve.
    **accepts: Checks of parameters by their names.

  Returns:
    A decorator of bodies.
  """

  def attach(body: Callable[P, Array]) -> Callable[P, Array]:
    name, signature = body.__name__, inspect.signature(body)

    @functools.wraps(body)
    def call(*args: P.args, **given: P.kwargs) -> Array:
      with checks.named(f"fusion.{name}"):
        scores, where, parameters = _given(signature, accepts, args, given)
        missing = parameters.pop("missing", None)
        if isinstance(missing, str):
          checks.choice("missing", missing, ("min",))
        elif missing is not None:
          checks.number("missing", missing)
          missing = _as(scores, missing)
        arrays, static = batching.split((parameters, missing))
        normalised: Array = _normalised(body, static, fills, arrays, scores, where)
      return normalised

    NORMALISATIONS[name] = call
    return call

  return attach


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _normalised(
  body: Callable[..., Array],
  static: batching.Static,
  fills: bool,
  arrays: list[Any],
  scores: Array,
  where: Array,
) -> Array:
  parameters, missing = batching.joined(arrays, static)
  has = retrieved(scores, where)
  known = has & ~jnp.isnan(lax.stop_gradient(scores))
  x = body(jnp.where(known, scores, 0), where=has, **parameters)
  unknown = jnp.any(has & ~known, axis=-1, keepdims=True)
  some = by_any(has)
  if missing is None:
    filler: Any = -jnp.inf
  else:
    least = jnp.min(jnp.where(has, x, jnp.inf), axis=-1, keepdims=True, initial=jnp.inf)
    least = jnp.where(jnp.any(has, axis=-1, keepdims=True), least, 0)
    # XLA's minimum may lose a NaN.
    least = jnp.where(unknown, jnp.nan, least)
    filler = jnp.where(some, least if isinstance(missing, str) else missing, -jnp.inf)
  x = jnp.where(unknown, jnp.nan, x)
  given = some if fills else has
  return jnp.where(where, jnp.where(given, x, filler), 0)


def systems(scores: Any, where: Any) -> tuple[Array, Array]:
  """Scores of systems as floats, and the mask, `[1, ..., n]`.

  Raises:
    ValueError: if there is no axis of systems, or shapes differ.
    TypeError: if they are no numbers, or `where` is not boolean.
  """
  given = checks.array("scores", scores)
  if given.ndim < 2 or not given.shape[0]:
    raise ValueError(
      "scores must have shape [systems, ..., candidates], with one system or more, got "
      f"{given.shape}; stack the scores of the systems along a first axis, -inf where a system "
      "does not retrieve an item."
    )
  mask = checks.mask(where, given[0])
  return floating(given), mask[None]


def weights_of(weights: Any, scores: Array) -> Array:
  """Weights as `[systems, ..., 1]`, 1 for None.

  Raises:
    ValueError: if they are neither `[systems]` nor `[..., systems]`, or a known one is negative or
      no number.
  """
  if weights is None:
    return jnp.ones((scores.shape[0],) + (1,) * (scores.ndim - 1), scores.dtype)
  given = floating(checks.array("weights", weights))
  each = (*scores.shape[1:-1], scores.shape[0])
  if given.shape not in (each, each[-1:]):
    raise ValueError(
      f"weights must have shape {each[-1:]}, one for each system, or {each}, for each query, got "
      f"{given.shape}."
    )
  if checks.is_known(given) and not bool(jnp.all((given >= 0) & (given < jnp.inf))):
    raise ValueError(f"weights must be finite and at least 0, got {given.tolist()}.")
  given = given.astype(scores.dtype)
  if given.ndim == 1:
    return given.reshape(-1, *(1,) * (scores.ndim - 1))
  return jnp.moveaxis(given, -1, 0)[..., None]


def found(name: str, value: Any, among: Mapping[str, Any]) -> Any:
  """What a name stands for in a table; a function stands for itself."""
  if callable(value):
    return value
  checks.choice(name, value, among)
  return among[value]
