"""`compare`: what there is to say of several runs, in one table."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank._base import pytree
from jaxrank._core import batching, checks
from jaxrank._core._jax import is_traced
from jaxrank._core.arithmetic import floating
from jaxrank.stats import _values, student
from jaxrank.stats.corrections import benjamini_hochberg, holm
from jaxrank.stats.leaderboards import rank_intervals
from jaxrank.stats.paired import effect_size, paired_t
from jaxrank.stats.randomization import randomization_test, tukey_hsd

Test = Literal["randomization", "t", "tukey"]
Correction = Literal["holm", "bh", "none"]

# The largest number of differences of pairs of runs in memory at a time.
_HELD = 1 << 24

_COLUMNS = (
  "mean", "low", "high", "difference", "difference_low", "difference_high", "p_value",
  "effect_size", "lowest_rank", "highest_rank", "tier",
)  # fmt: skip


@pytree(*_COLUMNS, "p_values")
@dataclasses.dataclass(frozen=True)
class Leaderboard:
  """A table of runs; its columns are arrays `[..., runs]`, and `print` shows them.

  Attributes:
    runs: The names of the runs.
    baseline: The name of the run that the others are compared with.
    mean: The mean.
    low: The lower end of the interval of the mean.
    high: The upper end of the interval of the mean.
    difference: The mean less that of the baseline.
    difference_low: The lower end of the interval of the difference.
    difference_high: The upper end of the interval of the difference.
    p_value: The corrected p-value of the difference, 1 for the baseline itself.
    effect_size: The difference in units of its standard deviation over queries.
    lowest_rank: The lowest rank that the data allow; None without ranks, as the next two.
    highest_rank: The highest rank that the data allow.
    tier: Groups of runs, from 1, no two of which differ.
    p_values: `[..., runs, runs]`, the corrected p-values of all pairs that were tested; NaN for the
      others, and 1 on the diagonal.
  """

  runs: tuple[str, ...]
  baseline: str
  mean: Array
  low: Array
  high: Array
  difference: Array
  difference_low: Array
  difference_high: Array
  p_value: Array
  effect_size: Array
  lowest_rank: Array | None
  highest_rank: Array | None
  tier: Array | None
  p_values: Array

  def columns(self) -> dict[str, Any]:
    """The columns by name, arrays of NumPy, as `pandas.DataFrame` and `polars.DataFrame` take them.

    Returns:
      The names of the runs as `"run"`, and an array for each column that there is.

    Raises:
      ValueError: if the values had leading axes, as of measures.
    """
    if self.mean.ndim != 1:
      raise ValueError(
        f"Leaderboard.columns: the table has leading axes {self.mean.shape[:-1]}, and a column has "
        "none; take one table, as by jax.tree.map(lambda x: x[0], board)."
      )
    columns = {name: getattr(self, name) for name in _COLUMNS}
    known = {name: np.asarray(x) for name, x in columns.items() if x is not None}
    return {"run": list(self.runs), **known}

  def __str__(self) -> str:
    if is_traced(self.mean) or self.mean.ndim != 1:
      return repr(self)
    of = self.columns()
    ranked = self.tier is not None
    header = ["run", "mean", "interval", f"less {self.baseline}", "interval", "p", "effect"]
    rows = [header + ["rank", "tier"] * ranked]
    for i, run in enumerate(self.runs):
      row = {name: column[i] for name, column in of.items()}
      cells = [f"{row['mean']:.4f}", "{low:.4f} to {high:.4f}".format(**row)]
      if run == self.baseline:
        cells += [""] * 4
      else:
        cells += [
          f"{row['difference']:+.4f}",
          "{difference_low:+.4f} to {difference_high:+.4f}".format(**row),
          "<0.0001" if row["p_value"] < 1e-4 else f"{row['p_value']:.4f}",
          f"{row['effect_size']:+.2f}",
        ]
      if ranked:
        least, most = row["lowest_rank"], row["highest_rank"]
        cells += [f"{least}" if least == most else f"{least}-{most}", f"{row['tier']}"]
      rows.append([run, *cells])
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
      "  ".join(
        cell.rjust(width) if i else cell.ljust(width)
        for i, (cell, width) in enumerate(zip(row, wide, strict=True))
      ).rstrip()
      for row in rows
    )
    return "\n".join(lines)


def compare(
  runs: Mapping[str, ArrayLike],
  *,
  key: Array,
  baseline: str | None = None,
  confidence: ArrayLike = 0.95,
  test: Test = "randomization",
  correction: Correction = "holm",
  resamples: int | None = 10_000,
) -> Leaderboard:
  """The means of runs, their differences to a baseline, and their ranks, with their uncertainty.

  The intervals of the means and the differences are those of Student's t, each for itself. The
  p-values are corrected for all runs that are compared with the baseline, or, without one, for all
  pairs. Ranks and groups are those of `rank_intervals`, for all runs together.

  Only queries for which every run has a value count, where values are known, for each measure those
  that have its values; under `jit` a run that lacks one has no p-value. The rows are in the order
  of `runs`; JAX sorts the names of a dict that is an argument of a function under `jit`.

  >>> noise = 0.1 * jax.random.normal(jax.random.key(1), (3, 40))
  >>> runs = {"bm25": 0.5 + noise[0], "dense": 0.52 + noise[1], "fused": 0.7 + noise[2]}
  >>> print(compare(runs, baseline="bm25", key=jax.random.key(0), resamples=2000))
  run      mean          interval  less bm25            interval        p  effect  rank  tier
  bm25   0.5215  0.4864 to 0.5565                                                   2-3     2
  dense  0.5123  0.4747 to 0.5499    -0.0091  -0.0546 to +0.0364   0.6876   -0.06   2-3     2
  fused  0.6854  0.6555 to 0.7154    +0.1640  +0.1178 to +0.2102  <0.0001   +1.14     1     1

  Args:
    runs: The values of the runs by their names, `[..., queries]` of the same queries, higher is
      better; NaN where a run lacks a query.
    key: PRNG key of the test and of the ranks.
    baseline: The run that the others are compared with; None compares all pairs, and shows the
      differences to the first row.
    confidence: Probability that an interval contains what it is of, in [0, 1]; may be traced.
    test: "randomization", "t" or "tukey": `randomization_test`, `paired_t` or `tukey_hsd`.
    correction: "holm", "bh" or "none": `holm`, `benjamini_hochberg`, or no correction. The p-values
      of Tukey's test are for all pairs already, and take none.
    resamples: Number of resamples of the ranks, at least 1, or None for no ranks.

  Returns:
    The table.

  Raises:
    ValueError: if there are fewer than two runs or queries, runs differ in their queries, or an
      option is unknown or out of its range.
    TypeError: if an argument has a wrong type.
  """
  with checks.named("stats.compare"):
    names, values = _stacked(runs)
    if baseline is not None and (not isinstance(baseline, str) or baseline not in names):
      raise ValueError(
        f"baseline must be the name of a run, one of {', '.join(map(repr, names))}, got "
        f"{checks.told(baseline)}."
      )
    checks.unit_interval("confidence", confidence)
    checks.choice("test", test, get_args(Test))
    checks.choice("correction", correction, get_args(Correction))
    if test == "tukey" and correction == "bh":
      raise ValueError(
        "the p-values of 'tukey' are for all pairs together and need no correction; pass "
        "correction='none'."
      )
    key = checks.prng_key(key)
    if resamples is not None:
      resamples = checks.count("resamples", resamples)
    lacking = jnp.any(jnp.isnan(values), axis=-2)
    some = checks.is_known(lacking) and bool(lacking.any())
    shared = ~np.asarray(lacking).reshape(-1, lacking.shape[-1]) if some else ()
    for own in shared:
      _values.enough_shared("runs", "run", int(own.sum()))
  base = None if baseline is None else names.index(baseline)
  share = jnp.asarray(confidence, values.dtype)

  def board(values: Array) -> Leaderboard:
    columns = _columns(values, base, share, test, correction, key, resamples)
    return Leaderboard(names, names[base or 0], *columns)

  if not some:
    return board(values)
  each = values.reshape(-1, *values.shape[-2:])
  boards = [board(x[:, own]) for x, own in zip(each, shared, strict=True)]
  whole: Leaderboard = jax.tree.map(
    lambda *x: jnp.stack(x).reshape(*values.shape[:-2], *x[0].shape), *boards
  )
  return whole


def _columns(
  values: Array,
  base: int | None,
  share: Array,
  test: str,
  correction: str,
  key: Array,
  resamples: int | None,
) -> tuple[Any, ...]:
  """The columns of a `Leaderboard`, in their order."""
  p_values = _tested(values, base, test, correction, key)
  first = base or 0
  compared = jnp.broadcast_to(values[..., first : first + 1, :], values.shape)
  ranks: tuple[Array | None, ...] = (None,) * 3
  if resamples is not None:
    other = jax.random.fold_in(key, 1)
    intervals = rank_intervals(values, key=other, resamples=resamples, confidence=share)
    ranks = intervals.lowest, intervals.highest, intervals.tiers
  return (
    *student.interval(values, share),
    *student.interval(values - compared, share),
    p_values[..., first, :],
    effect_size(values, compared),
    *ranks,
    p_values,
  )


def _stacked(runs: Any) -> tuple[tuple[str, ...], Array]:
  """The names of the runs, and their values `[..., runs, queries]`."""
  if not isinstance(runs, Mapping):
    frame = "; pass dict(runs) if its columns are runs" if hasattr(runs, "columns") else ""
    raise TypeError(f"runs must be a dict of values by name, got {checks.told(runs)}{frame}.")
  others = [name for name in runs if not isinstance(name, str)]
  if others:
    raise TypeError(f"the names of runs must be strings, got {checks.told(others[0])}.")
  if len(runs) < 2:
    raise ValueError(
      f"runs must be a dict of two runs or more, got {list(runs)}; "
      "jaxrank.stats.bootstrap_interval has the interval of one."
    )
  arrays = {name: floating(checks.array(f"run {name!r}", x)) for name, x in runs.items()}
  first, *others = arrays
  for name in others:
    if arrays[name].shape != arrays[first].shape:
      raise ValueError(
        f"runs must have values of the same queries, got {arrays[first].shape} of {first!r} and "
        f"{arrays[name].shape} of {name!r}; pass NaN where a run lacks a query, or 0 if it counts "
        "as that."
      )
  _values.enough(f"run {first!r}", arrays[first], 2)
  return tuple(runs), jnp.stack(_values.alike(*arrays.values()), axis=-2)


def _tested(values: Array, base: int | None, test: str, correction: str, key: Array) -> Array:
  """The corrected p-values of all pairs of runs, or of those with one, `[..., runs, runs]`."""
  count = values.shape[-2]
  first, second = np.triu_indices(count, 1)
  if base is not None:
    chosen = (first == base) | (second == base)
    first, second = first[chosen], second[chosen]
  if test == "tukey":
    p_values = tukey_hsd(values, key=key)[..., first, second]
  else:

    def tested(first: Array, second: Array) -> Array:
      x, y = values[..., first, :], values[..., second, :]
      result = paired_t(x, y) if test == "t" else randomization_test(x, y, key=key)
      return jnp.moveaxis(result.p_value, -1, 0)

    in_blocks = batching.in_blocks(tested, max(1, _HELD // values[..., 0, :].size))
    corrections: dict[str, Callable[[Array], Array]]
    corrections = {"holm": holm, "bh": benjamini_hochberg, "none": jnp.asarray}
    p_values = corrections[correction](jnp.moveaxis(in_blocks(first, second), 0, -1))
  untested = 1.0 if base is None else jnp.nan
  table = jnp.full((*values.shape[:-1], count), untested, p_values.dtype)
  diagonal = jnp.arange(count)
  table = table.at[..., diagonal, diagonal].set(1)
  return table.at[..., first, second].set(p_values).at[..., second, first].set(p_values)
