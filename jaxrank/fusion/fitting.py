"""`fit`: weights from judged queries, and whether they hold on other queries."""

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._core import batching, checks
from jaxrank._core.arithmetic import floating
from jaxrank._core.ranked import UnansweredError
from jaxrank.fusion import held_out
from jaxrank.fusion._define import METHODS, NORMALISATIONS, Method, combined, found, systems
from jaxrank.fusion.fitted import Fit, Normalize, Setting
from jaxrank.measures.grammar import only_measure
from jaxrank.measures.measure import Measure, Measures
from jaxrank.rankings.expected_rank import Laplace

# A grid is as fine as these allow with about so many points.
_STEPS, _POINTS = (100, 50, 20, 10, 5, 4, 3, 2), 1_001

# About so many scores are fused and ranked at once, which fit in the caches of a CPU.
_ITEMS = 3 << 19

# The steps of the ascent from the best point of the grid, and the share of the spread of fused
# scores that is the temperature of its smooth measure.
_RATES, _SHARE = np.linspace(0.3, 0.02, 16), 0.1


@checks.written("fusion.fit('rrf', scores, labels, 'nDCG@10', key=jax.random.key(0))")
def fit(
  method: str | Callable[..., Array],
  scores: ArrayLike,
  labels: ArrayLike,
  measure: Measures,
  *,
  key: Array,
  where: ArrayLike | None = None,
  normalize: Normalize | Sequence[Normalize] = "auto",
  parameters: Mapping[str, Any] | None = None,
  folds: int = 5,
  repeats: int = 10,
  groups: ArrayLike | None = None,
  steps: int | None = None,
  refine: bool = True,
  names: Sequence[str] | None = None,
  confidence: float = 0.95,
  progress: Callable[[int, int], None] | None = None,
) -> Fit:
  """Weights of systems that are best on judged queries, and whether they are worth it.

  All weights of a grid on the simplex are evaluated, with each normalisation and each parameter
  that is to be tried. From the best of them, gradients of the smooth measure under `Laplace` lead
  to weights between the points, which are taken if the exact measure is better.

  The value on the queries that chose the weights is too good. So it is cross-validated: each fold
  of the queries is fused with the point of the grid that is best on the other folds, and the values
  of a query are averaged over repeated divisions into folds. The same is done with the choice of
  the best system. Three differences follow, each with a paired t interval that is corrected for the
  overlap of the training folds, and for three comparisons by Bonferroni's method. Tuned weights are
  recommended if they are ahead of equal weights, unless a single system is ahead of these too and
  level with the tuned ones; that system then; otherwise equal weights. Nothing but equal weights is
  recommended for fewer than 20 queries.

  >>> k1, k2, k3 = jax.random.split(jax.random.key(0), 3)
  >>> labels = (jax.random.uniform(k1, (60, 20)) < 0.2).astype(float)
  >>> noise = jax.random.normal(k2, (2, 60, 20))
  >>> scores = labels[None] * jnp.array([2.5, 0.8])[:, None, None] + noise
  >>> found = fit("comb_sum", scores, labels, "nDCG@10", key=k3, names=["good", "weak"])
  >>> print(found.recommendation, found.best_system)
  tuned good

  Args:
    method: A method or its name, such as "comb_sum" or "rrf"; or any function with the same
      arguments, `method(scores, *, where, weights, **parameters)`.
    scores: `[systems, queries, n]`, -inf where a system does not retrieve an item.
    labels: `[queries, n]`.
    measure: A measure or its name.
    key: PRNG key of the divisions into folds.
    where: `[queries, n]`, False on padding.
    normalize: A normalisation or its name, several that are tried, or None; "auto" is "min_max" for
      methods of scores, and None for others.
    parameters: Parameters of the method by name: a value, or a list of values that are tried.
    folds: The number of folds, at least 2.
    repeats: How many times queries are divided.
    groups: `[queries]`, ids of groups of queries that stay together in folds, such as the variants
      of a question; intervals then are those of groups.
    steps: Weights are multiples of `1 / steps`; None is 100 for two systems, 20 for three, and
      fewer for more.
    refine: Whether to look between the points of the grid.
    names: The names of the systems; None is "system 1" and so on.
    confidence: The probability that all three intervals contain the gains, in [0, 1].
    progress: A function that is called after each block, with the number of points that were
      evaluated, and that of all.

  Returns:
    The fit.

  Raises:
    ValueError: if shapes differ, there are fewer than two systems, or fewer queries or groups than
      folds, the value of a query is NaN, or a name is unknown.
    TypeError: if an argument has a wrong type, or is traced.

  References:
    Nadeau and Bengio, `Inference for the generalization error
    <https://doi.org/10.1023/A:1024068626366>`_, 2003.
  """
  with checks.named("fusion.fit"):
    given, truth, mask = _lists(scores, labels, where)
    called = _called(names, len(given))
    group = _numbered(groups, given.shape[1])
    count = int(group.max()) + 1
    folds, repeats = checks.count("folds", folds), checks.count("repeats", repeats)
    if not 2 <= folds <= count:
      raise ValueError(
        f"folds must be from 2 to {count}, the number of queries or groups, got {folds}."
      )
    key = checks.prng_key(key)
    checks.unit_interval("confidence", confidence)
    evaluated = _Evaluated(_measure(measure), truth, mask)
    fuse, settings = _settings(method, given, mask, normalize, parameters or {})
    grid = _grid(len(given), steps)

    alone = evaluated.alone(given)
    unknown = np.isnan(alone).any(axis=0)
    if unknown.any():
      raise ValueError(
        f"the measure of query {int(unknown.argmax())} is NaN, as if a score or a label is; leave "
        "the query out, or the item by where=."
      )
    every = len(grid) * len(settings)
    told = [functools.partial(_tell, progress, i * len(grid), every) for i in range(len(settings))]
    points = [evaluated.of(fuse, x, grid, tell) for x, tell in zip(settings, told, strict=True)]
    values = np.concatenate(points)
    first, place = divmod(held_out.best(values.mean(axis=1)), len(grid))
    setting, weights = settings[first], grid[place]
    of_setting = points[first].mean(axis=1)
    value, refined = of_setting[place], False
    path = evaluated.ascent(fuse, setting, weights) if refine else grid[:0]
    if len(path):
      on_path = evaluated.of(fuse, setting, path).mean(axis=1)
      if on_path.max() > value:
        value, weights, refined = on_path.max(), path[on_path.argmax()], True
    # Equal weights are given the setting that is best for them, too.
    equal = np.stack([of_points[0] for of_points in points])
    best_equal = held_out.best(equal.mean(axis=1))

    divided = held_out.divided(key, folds, repeats, group)
    candidates: dict[held_out.Choice, np.ndarray]
    candidates = {"equal": equal, "single": alone, "tuned": values}
    held = {choice: held_out.held_out(x, divided) for choice, x in candidates.items()}
    gains = held_out.gains(held, group, folds, confidence)

  def turned(x: np.ndarray) -> np.ndarray:
    # Without a negative zero.
    return evaluated.sign * x + 0.0

  return Fit(
    method=fuse.function if isinstance(fuse, Method) else fuse,
    tuned=Setting(*setting[:2]),
    equal=Setting(*settings[best_equal][:2]),
    systems=called,
    weights=weights,
    measure=evaluated.measure.name,
    value=float(turned(value)),
    equal_value=float(turned(equal[best_equal].mean())),
    system_values=turned(alone.mean(axis=1)),
    values={choice: turned(x) for choice, x in held.items()},
    gains=gains,
    recommendation=held_out.recommended(gains, count, 1 - confidence),
    best_system=called[held_out.best(alone.mean(axis=1))],
    refined=refined,
    count=count,
    grid=grid,
    grid_values=turned(of_setting),
  )


Fused = Method | Callable[..., Array]


class _Scaled(NamedTuple):
  """What is fused: normalised scores, and what does not depend on weights."""

  normalize: Normalize
  parameters: dict[str, Any]
  scores: Array
  points: Array


class _Lists(NamedTuple):
  """The arrays of all fusions: points and scores of systems, the mask, and labels."""

  points: Array
  scores: Array
  where: Array
  labels: Array


class _Evaluated(NamedTuple):
  """A measure of queries; its values are turned so that larger ones are better."""

  measure: Measure
  labels: Array
  where: Array

  @property
  def sign(self) -> int:
    """1 if larger values of the measure are better, otherwise -1."""
    return 1 if self.measure.description.higher_is_better else -1

  def lists(self, setting: _Scaled) -> _Lists:
    """What is fused in a setting."""
    return _Lists(setting.points, setting.scores, self.where, self.labels)

  def alone(self, scores: Array) -> np.ndarray:
    """`[systems, queries]`, the values of the systems."""
    values = (self.measure(x, self.labels, where=self.where) for x in scores)
    return self.sign * np.stack([np.asarray(x, np.float64) for x in values])

  def of(
    self,
    fuse: Fused,
    setting: _Scaled,
    weights: np.ndarray,
    done: Callable[[int], None] | None = None,
  ) -> np.ndarray:
    """`[points, queries]`, the values of fusions with these weights, block by block."""
    lists = self.lists(setting)
    arrays, static = batching.split(setting.parameters)
    block = max(1, min(64, len(weights), _ITEMS // self.labels.size))
    values = []
    for start in range(0, len(weights), block):
      # The last block is filled, because another size would be another program.
      rows = np.minimum(np.arange(start, start + block), len(weights) - 1)
      some = jnp.asarray(weights[rows], lists.scores.dtype)
      of_block = _values(fuse, static, self.measure, arrays, some, lists)
      values.append(np.asarray(of_block, np.float64))
      if done is not None:
        done(min(start + block, len(weights)))
    return self.sign * np.concatenate(values)[: len(weights)]

  def ascent(self, fuse: Fused, setting: _Scaled, start: np.ndarray) -> np.ndarray:
    """`[steps, systems]`, weights that the smooth measure leads to; none without gradients."""
    lists = self.lists(setting)
    arrays, static = batching.split(setting.parameters)
    # From the inside of the simplex, because a factor does not change a weight of 0.
    inside = jnp.asarray(0.95 * start + 0.05 / start.size, lists.scores.dtype)
    try:
      path = _path(fuse, static, self.measure, self.sign, arrays, inside, lists)
    except (UnansweredError, NotImplementedError):
      return np.zeros((0, start.size))
    found: np.ndarray = np.asarray(path, np.float64)
    return np.asarray(found[np.isfinite(found).all(axis=1)])


@functools.partial(jax.jit, static_argnums=(0, 1))
def _points(
  fuse: Fused, static: batching.Static, arrays: list[Any], scores: Array, where: Array
) -> Array:
  """What of a method does not depend on weights."""
  if not isinstance(fuse, Method):
    return scores
  points: Array = fuse.body(scores, where=where[None], **batching.joined(arrays, static))[0]
  return points


def _fused(fuse: Fused, parameters: dict[str, Any], weights: Array, lists: _Lists) -> Array:
  points, scores, where, _ = lists
  if not isinstance(fuse, Method):
    try:
      fused = jnp.asarray(fuse(scores, where=where, weights=weights, **parameters))
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError) as error:
      raise TypeError(
        "method must compute with jax.numpy, because its weights are traced, without float(), `if` "
        f"or NumPy of them; {type(error).__name__} was raised in it."
      ) from error
    if fused.shape != where.shape:
      raise ValueError(
        f"method must return fused scores of shape {where.shape}, got {fused.shape}."
      )
    return fused
  # The points that the body computes here are not used, and so are no part of the program.
  _, rule = fuse.body(scores, where=where[None], **parameters)
  return combined(points, rule, scores, where[None], weights.reshape(-1, 1, 1))


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _values(
  fuse: Fused,
  static: batching.Static,
  measure: Measure,
  arrays: list[Any],
  weights: Array,
  lists: _Lists,
) -> Array:
  parameters = batching.joined(arrays, static)

  def of_weights(weights: Array) -> Array:
    return _fused(fuse, parameters, weights, lists)

  # One batch of all lists: under vmap, AP of lists of 2,700 items takes twice the time on a CPU.
  fused = jax.vmap(of_weights)(weights)
  labels, where = (jnp.broadcast_to(x[None], fused.shape) for x in (lists.labels, lists.where))
  values: Array = measure(fused, labels, where=where)
  return values


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _path(
  fuse: Fused,
  static: batching.Static,
  measure: Measure,
  sign: int,
  arrays: list[Any],
  start: Array,
  lists: _Lists,
) -> Array:
  parameters = batching.joined(arrays, static)

  def smooth(weights: Array) -> Array:
    fused = _fused(fuse, parameters, weights, lists)
    finite = lists.where & jnp.isfinite(fused)
    spread = jnp.std(jnp.where(finite, fused, 0), where=finite | ~jnp.any(finite))
    temperature = lax.stop_gradient(_SHARE * spread) + jnp.finfo(fused.dtype).tiny
    ranking = Laplace(temperature)
    return sign * jnp.mean(measure(fused, lists.labels, where=lists.where, ranking=ranking))

  def step(weights: Array, rate: Array) -> tuple[Array, Array]:
    slope = jax.grad(smooth)(weights)
    slope = slope - jnp.sum(weights * slope)
    largest = jnp.max(jnp.abs(slope))
    moved = weights * jnp.exp(rate * slope / jnp.where(largest == 0, 1, largest))
    moved = moved / jnp.sum(moved)
    return moved, moved

  path: Array = lax.scan(step, start, jnp.asarray(_RATES, start.dtype))[1]
  return path


def _grid(n_systems: int, steps: int | None) -> np.ndarray:
  """Weights with sum 1, `[points, systems]`: equal ones first, then by the distance to them."""
  if steps is None:
    fits = (n for n in _STEPS if math.comb(n + n_systems - 1, n_systems - 1) <= _POINTS)
    steps = next(fits, 1)
  steps = checks.count("steps", steps)
  bars = itertools.combinations(range(1, steps + n_systems), n_systems - 1)
  cuts = np.array([(0, *bar, steps + n_systems) for bar in bars])
  points = (np.diff(cuts, axis=1) - 1) / steps
  equal = np.full((1, n_systems), 1 / n_systems)
  distance = np.sum((points - equal) ** 2, axis=1)
  others = np.argsort(distance, kind="stable")[np.sum(distance < 1e-12) :]
  return np.concatenate([equal, points[others]])


def _lists(scores: Any, labels: Any, where: Any) -> tuple[Array, Array, Array]:
  """Scores `[systems, queries, n]`, labels and mask."""
  for name, x in (("scores", scores), ("labels", labels), ("where", where)):
    checks.untraced(name, x)
  given, masks = systems(scores, where)
  mask = masks[0]
  if given.ndim != 3 or len(given) < 2 or given.shape[1] < 2:
    raise ValueError(
      "scores must have shape [systems, queries, n], of two systems or more and two queries or "
      f"more, got {given.shape}."
    )
  truth = floating(checks.array("labels", labels))
  checks.same_shape("labels", truth, "the scores of a system", given[0])
  return given, truth, mask


def _measure(measure: Any) -> Measure:
  chosen = only_measure(measure)
  about = chosen.description
  if about.best is not None or about.aggregation == "sum":
    raise ValueError(
      f"measure must have a mean of which more, or less, is better, got {chosen.name}."
    )
  return chosen


def _called(names: Any, count: int) -> tuple[str, ...]:
  given = [f"system {i + 1}" for i in range(count)] if names is None else list(names)
  if len(given) != count or len(set(given)) != count:
    raise ValueError(f"names must be {count} different names, got {checks.told(names)}.")
  return tuple(map(str, given))


def _numbered(groups: Any, queries: int) -> np.ndarray:
  """The number of the group of each query, from 0."""
  if groups is None:
    return np.arange(queries)
  ids = np.asarray(groups)
  if ids.shape != (queries,):
    raise ValueError(f"groups must have shape ({queries},), an id for each query, got {ids.shape}.")
  try:
    return np.unique(ids, return_inverse=True)[1]
  except TypeError as error:
    raise TypeError(f"groups must be ids of one type, got {checks.told(groups)}.") from error


def _settings(
  method: Any, scores: Array, mask: Array, normalize: Any, parameters: Mapping[str, Any]
) -> tuple[Fused, list[_Scaled]]:
  """The method, and all normalisations and parameters that are tried."""
  fuse: Any = found("method", method, METHODS)
  fuse = next((x for x in METHODS.values() if x.function is fuse), fuse)
  ways = list(normalize) if isinstance(normalize, list | tuple) else [normalize]
  if isinstance(fuse, Method):
    if not fuse.weighted:
      raise ValueError(
        f"method {fuse.name} has no weights; jaxrank.fusion.train learns what it needs."
      )
    unknown = [name for name in parameters if name not in fuse.parameters]
    if unknown:
      takes = ", ".join(fuse.parameters) or "no parameters"
      raise ValueError(f"parameters has {unknown[0]!r}, but {fuse.name} takes {takes}.")
  by_scores = isinstance(fuse, Method) and fuse.kind == "scores"
  ways = [("min_max" if by_scores else None) if way == "auto" else way for way in ways]
  tried = [_several(x) for x in parameters.values()]
  accepts = fuse.accepts if isinstance(fuse, Method) else {}
  for name, given in zip(parameters, tried, strict=True):
    for value in given if name in accepts else ():
      accepts[name](name, value)
  if not ways or not all(tried):
    raise ValueError(
      "normalize and parameters must have a value or more to try, got an empty list."
    )
  settings = []
  for way in ways:
    scaled = scores
    if way is not None:
      scaled = found("normalize", way, NORMALISATIONS)(scores, where=mask)
    for values in itertools.product(*tried):
      chosen = dict(zip(parameters, values, strict=True))
      arrays, static = batching.split(chosen)
      points = _points(fuse, static, arrays, scaled, mask)
      settings.append(_Scaled(way, chosen, scaled, points))
  return fuse, settings


def _several(x: Any) -> list[Any]:
  """The values of a parameter that are tried: those of a list or of an array, or one."""
  if isinstance(x, list | tuple):
    return list(x)
  return np.asarray(x).tolist() if getattr(x, "ndim", 0) == 1 else [x]


def _tell(progress: Callable[[int, int], None] | None, before: int, of: int, done: int) -> None:
  if progress is not None:
    progress(before + done, of)
