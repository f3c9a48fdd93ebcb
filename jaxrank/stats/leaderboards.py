"""`rank_intervals`: where each of several systems stands, and which of them can be told apart."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from jaxrank._core import batching, checks, sorting
from jaxrank._core.arithmetic import floating, safe_divide, varying_zeros
from jaxrank.stats import _values

# The largest number of resampled weights in memory at a time, which fit in the caches of a CPU.
_HELD = 1 << 20


class RankIntervals(NamedTuple):
  """The ranks of systems that the data allow, `[..., systems]`.

  Attributes:
    lowest: The lowest rank, from 1: one more than the number of systems that are better.
    highest: The highest rank: the number of systems less that of those that are worse.
    tiers: Groups of systems, from 1, of which no two members differ. The first holds the system of
      the largest mean, and each system in descending order of the means joins the group of the one
      before unless it differs from a member.
    p_values: `[..., systems, systems]`, of all pairs, for all pairs together; 1 on the diagonal.
  """

  lowest: Array
  highest: Array
  tiers: Array
  p_values: Array


def rank_intervals(
  values: ArrayLike,
  *,
  key: Array,
  resamples: int = 10_000,
  confidence: ArrayLike = 0.95,
  tasks: Any = None,
) -> RankIntervals:
  """Confidence intervals of the ranks of systems, for all systems together.

  A system is better than another if the difference of their means is significant at the level
  `1 - confidence` among all pairs. With that confidence no such claim is false, and the ranks of
  all systems lie in their intervals, whatever their correlations and ties.

  The p-values are those of the step-down method of Romano and Wolf: of the pairs in descending
  order of their statistics, that of a pair is the probability that the largest of the resampled
  statistics of it and the pairs after it is at least its own, and at least that of the pair
  before: `(c + 1) / (resamples + 1)` if `c` of the resamples reach it. A resample draws the queries
  with replacement, and its statistics are differences in units of their deviation over resamples.
  The statistic of the data is `|sum(d)| / sqrt(sum(d^2))` for `n` differences `d` of two systems.
  Chance makes it large about as rarely as a normal deviate, also for few and for discrete values.
  It is `sqrt(n)` at most, so that a few queries cannot tell many systems apart. A p-value is at
  least the probability that `m` differences other than 0 have one sign by chance, `2^(1 - m)`; if
  all differences are equal, resamples are too, and it is this times the number of pairs.

  With tasks, the mean of a system is that of its means over tasks, and a resample draws tasks with
  replacement and the queries within each of them. The claims are then about other tasks too, and
  `n` is the number of tasks, with the statistic `t sqrt(n / (n - 1 + t^2))` of the t statistic.

  Only queries for which every system has a value count, because systems can be compared only on
  queries that they share. Where a query that a system lacks is worth 0, pass
  `jnp.nan_to_num(values)`.

  >>> quality = jnp.array([0.7, 0.5, 0.5])[:, None]
  >>> values = quality + 0.1 * jax.random.normal(jax.random.key(1), (3, 40))
  >>> ranks = rank_intervals(values, key=jax.random.key(0), resamples=2000)
  >>> print(ranks.lowest, ranks.highest, ranks.tiers)
  [1 2 2] [1 3 3] [1 2 2]

  Args:
    values: `[..., systems, queries]`, higher is better; NaN where a system lacks a query.
    key: PRNG key of the resamples.
    resamples: Number of resamples, at least 1.
    confidence: Probability that the intervals contain all ranks, in [0, 1]; may be traced.
    tasks: `[queries]`, the task of each query, by numbers or names, such as a column of a frame;
      None is one task.

  Returns:
    The lowest and the highest rank of each system, the groups and the p-values. A system with an
    infinite value differs from none. Under `jit`, data that cannot be compared, as of one shared
    query, allow all ranks; outside they are an error.

  Raises:
    ValueError: if there are fewer than two systems or queries that they share, a task has a single
      query, tasks differ in length from the queries, or a number is out of its range.
    TypeError: if an argument has a wrong type, or `tasks` is traced.

  References:
    Mogstad, Romano, Shaikh and Wilhelm, `Inference for ranks with applications to mobility across
    neighbourhoods and academic achievement across countries
    <https://doi.org/10.1093/restud/rdad006>`_, 2024; the statistic of few values is that of Efron,
    `Student's t-test under symmetry conditions
    <https://doi.org/10.1080/01621459.1969.10501056>`_, 1969.
  """
  with checks.named("stats.rank_intervals"):
    (values,) = batching.replicated(floating(checks.array("values", values)))
    if values.ndim < 2 or min(values.shape[-2:]) < 2:
      raise ValueError(
        "values must have shape [..., systems, queries], at least 2 of each, got "
        f"{values.shape}; a row holds the values of a system."
      )
    checks.unit_interval("confidence", confidence)
    resamples = checks.count("resamples", resamples)
    key = checks.prng_key(key)
    names, task = _tasks(tasks, values.shape[-1])
    complete = _check_shared(values, names, task)
  level = 1 - jnp.asarray(confidence, values.dtype)
  intervals: RankIntervals = _rank_intervals(
    resamples, len(names), complete, values, jnp.asarray(task), key, level
  )
  return intervals


def _tasks(tasks: Any, queries: int) -> tuple[np.ndarray, np.ndarray]:
  """The names of the tasks, and the index of that of each query, int32."""
  if tasks is None:
    return np.zeros(1, int), np.zeros(queries, np.int32)
  checks.untraced("tasks", tasks)
  checks.check("tasks", tasks)
  try:
    # Columns of frames have types of their own for names.
    given = np.asarray(tasks.tolist() if hasattr(tasks, "tolist") else tasks)
  except (TypeError, ValueError):
    given = np.asarray(None)
  if given.ndim != 1 or given.dtype.kind not in "iubUS":
    raise TypeError(
      f"tasks must be a list with the number or the name of the task of each query, got "
      f"{checks.told(tasks)}."
    )
  if len(given) != queries:
    raise ValueError(
      f"tasks must be as many as the queries, {queries}, got {len(given)}; pass the task of each "
      "query."
    )
  names, index = np.unique(given, return_inverse=True)
  _check_sizes(names, np.bincount(index))
  return names, index.astype(np.int32)


def _check_sizes(names: np.ndarray, sizes: np.ndarray) -> None:
  few = np.flatnonzero(sizes < 2)
  if few.size and len(names) > 1:
    raise ValueError(
      f"each task must have two queries or more that all systems share, got {sizes[few[0]]} of "
      f"task {names[few[0]].item()!r}; leave the task out, or join it to another."
    )


def _check_shared(values: Array, names: np.ndarray, task: np.ndarray) -> bool:
  """Whether no system is known to lack a query; raises if too few queries are shared."""
  if not checks.is_known(values):
    return False
  missing = np.isnan(np.asarray(values)).any(axis=-2).reshape(-1, task.size)
  for lacking in missing:
    _values.enough_shared("values", "system", int((~lacking).sum()))
    _check_sizes(names, np.bincount(task[~lacking], minlength=len(names)))
  return not missing.any()


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _rank_intervals(
  resamples: int, tasks: int, complete: bool, values: Array, task: Array, key: Array, level: Array
) -> RankIntervals:
  def resample(values: Array) -> tuple[Array, Array, Contrasts]:
    return _resample(resamples, tasks, complete, values, task, key)

  def stand(arrays: tuple[Array, Array, Contrasts]) -> RankIntervals:
    mean, moved, pairs = arrays
    p_values = _p_values(moved, pairs)
    gap = mean[:, None] - mean[None]
    # What cannot be compared has the p-value 1, and differs at no level.
    differs = (p_values <= level) & (p_values < 1) & (gap != 0)
    above = jnp.sum(differs & (gap < 0), axis=1, dtype=jnp.int32)
    below = jnp.sum(differs & (gap > 0), axis=1, dtype=jnp.int32)
    return RankIntervals(1 + above, mean.size - below, _tiers(mean, differs), p_values)

  flat = values.reshape(-1, *values.shape[-2:])
  # All share the resamples, and the step-down method is fast for one after the other.
  standings = lax.map(stand, jax.vmap(resample)(flat))
  of_each: RankIntervals = jax.tree.map(
    lambda x: x.reshape(*values.shape[:-2], *x.shape[1:]), standings
  )
  return of_each


def _tiers(mean: Array, differs: Array) -> Array:
  """Groups of systems `[systems]`, from the largest mean on, none of which differ within."""
  _, systems = sorting.order(sorting.keys(mean, ~jnp.isnan(mean)))

  def join(before: tuple[Array, Array], system: Array) -> tuple[tuple[Array, Array], Array]:
    tier, members = before
    new = jnp.any(members & differs[system])
    tier, members = (
      tier + new.astype(tier.dtype),
      jnp.where(new, False, members).at[system].set(True),
    )
    return (tier, members), tier

  nothing = jnp.zeros_like(mean, bool)
  start = 1 + varying_zeros(nothing, (), jnp.int32), nothing
  return sorting.scatter(lax.scan(join, start, systems)[1], systems)


class Contrasts(NamedTuple):
  """Contrasts of systems, `[pairs]`.

  Attributes:
    z: The statistic of the difference of their means.
    scale: What makes a statistic of the difference in resamples; 0 if it has no deviation.
    least: The least p-value.
    known: Whether the values are finite.
  """

  z: Array
  scale: Array
  least: Array
  known: Array


def _resample(
  resamples: int, tasks: int, complete: bool, values: Array, task: Array, key: Array
) -> tuple[Array, Array, Contrasts]:
  """The means of systems, how they move in resamples `[systems, resamples]`, and the pairs."""
  systems, n = values.shape
  shared = jnp.ones((n,), bool)
  if not complete:
    shared = ~jnp.any(jnp.isnan(values), axis=0)
  if tasks > 1 or not complete:
    # Queries stand together by tasks, those that count first.
    _, item = sorting.order(-2 * task - (~shared).astype(jnp.int32))
    values, task, shared = values[:, item], task[item], shared[item]
  member = (task[None] == jnp.arange(tasks, dtype=jnp.int32)[:, None]) & shared[None]
  size = jnp.sum(member, axis=1, dtype=values.dtype)
  weight = jnp.where(shared, 1 / (tasks * size)[task], 0)
  values = jnp.where(shared[None], values, 0)
  mean = jnp.matmul(values, weight, precision="highest")
  moved = _resampled(resamples, (values - mean[:, None]) * weight[None], task, member, key)

  first, second = jnp.triu_indices(systems, 1)
  gap = mean[first] - mean[second]
  spread, error, apart = (x[first, second] for x in _deviations(values, task, member, size))
  # Equal differences have deviation 0, although they may be rounded.
  size_of = _values.tolerance(values) / n
  rounding = jnp.maximum(size_of[first], size_of[second])
  same = spread <= rounding
  t = jnp.where(same, jnp.where(jnp.abs(gap) <= rounding, 0, jnp.inf), jnp.abs(gap) / error)
  known = jnp.isfinite(gap) & ~jnp.isnan(t) & (jnp.min(size) >= 2)
  count = jnp.sum(size) if tasks == 1 else jnp.asarray(float(tasks), t.dtype)
  z = jnp.sqrt(count / (1 + (count - 1) / jnp.square(t)))
  signs = jnp.exp2(1 - (apart if tasks == 1 else count))
  least = signs * jnp.where(same & (t > 0), first.size, 1)
  scale = jnp.where(same, 0, 1 / spread)
  return mean, moved, Contrasts(jnp.where(known, z, 0), scale, jnp.minimum(least, 1), known)


def _p_values(moved: Array, pairs: Contrasts) -> Array:
  """The p-values of all pairs of systems by the step-down method, `[systems, systems]`."""
  systems, resamples = moved.shape
  first, second = jnp.triu_indices(systems, 1)
  _, ascending = sorting.order(sorting.keys(-pairs.z, pairs.known))

  def reach(largest: Array, pair: Array) -> tuple[Array, Array]:
    statistic = jnp.abs(moved[first[pair]] - moved[second[pair]]) * pairs.scale[pair]
    largest = jnp.where(pairs.known[pair], jnp.maximum(largest, statistic), largest)
    reached = jnp.sum(largest >= pairs.z[pair], dtype=jnp.int32)
    return largest, jnp.where(pairs.known[pair], reached, 0)

  _, reached = lax.scan(reach, jnp.zeros_like(moved[0]), ascending)
  reached = sorting.scatter(lax.cummax(reached, reverse=True), ascending)
  p_values = (1 + reached.astype(moved.dtype)) / (1 + resamples)
  p_values = jnp.where(pairs.known, jnp.maximum(p_values, pairs.least), 1)
  table = jnp.ones((systems, systems), p_values.dtype)
  return table.at[first, second].set(p_values).at[second, first].set(p_values)


def _resampled(resamples: int, deviation: Array, task: Array, member: Array, key: Array) -> Array:
  """By how much the mean of each system moves in each resample, `[systems, resamples]`.

  The queries of a task that is drawn `c` times are drawn in `c` rounds of as many as the task has.
  """
  tasks, n = member.shape
  size = jnp.sum(member, axis=1, dtype=jnp.int32)
  start = jnp.argmax(member, axis=1).astype(jnp.int32)
  counts = jnp.any(member, axis=0)

  def weights(key: Array) -> Array:
    of_tasks, of_queries = jax.random.split(key)
    times = jnp.ones((1,), jnp.int32)
    if tasks > 1:
      drawn = jax.random.randint(of_tasks, (tasks,), 0, tasks, jnp.int32)
      times = jnp.zeros((tasks,), jnp.int32).at[drawn].add(1)

    def draw(state: tuple[Array, Array]) -> tuple[Array, Array]:
      turn, total = state
      place = jax.random.randint(
        jax.random.fold_in(of_queries, turn), (n,), 0, size[task], jnp.int32
      )
      live = counts & (turn < times[task])
      return turn + 1, total.at[start[task] + place].add(live.astype(total.dtype))

    nothing = jnp.zeros((), jnp.int32), varying_zeros(member, (n,), deviation.dtype)
    _, total = lax.while_loop(lambda state: state[0] < jnp.max(times), draw, nothing)
    return total

  def moves(keys: Array) -> Array:
    return jnp.matmul(jax.vmap(weights)(keys), deviation.T, precision="highest")

  keys = jax.random.split(key, resamples)
  moved: Array = batching.in_blocks(moves, max(1, _HELD // n))(keys)
  return moved.T


def _deviations(values: Array, task: Array, member: Array, size: Array) -> tuple[Array, ...]:
  """The deviations of differences of means, `[systems, systems]`: in resamples, and unbiased.

  The third array is the number of differences of queries that are not 0.

  With `K` tasks, the variance of resamples is that of the differences of a task's means and of
  single queries, `(between + sum_k within_k / n_k / K) / K`, each without Bessel's correction.
  """
  tasks = size.size
  share = member.astype(size.dtype) / size[:, None]
  bessel = safe_divide(size, size - 1)

  def of(own: Array) -> tuple[Array, Array, Array]:
    difference = own[None] - values
    means = jnp.matmul(difference, share.T, precision="highest")
    within = jnp.matmul(
      jnp.square(difference - means[:, task]), (share / size[:, None]).T, precision="highest"
    )
    between = jnp.var(means, axis=1)
    spread = between + jnp.mean(within, axis=1)
    error = between * (tasks / max(tasks - 1, 1)) + jnp.mean(within * bessel[None], axis=1)
    apart = jnp.sum(difference != 0, axis=1, dtype=values.dtype)
    return jnp.sqrt(spread / tasks), jnp.sqrt(error / tasks), apart

  of_pairs: tuple[Array, ...] = lax.map(of, values)
  return of_pairs
