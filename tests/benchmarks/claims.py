"""`python -m tests.benchmarks.claims`: how often claims about systems hold, in simulations.

The tables replace what stands between comments of `docs/comparison.md` and `docs/judges.md`. The
thorough tests of `tests/stats` hold the same simulations to their targets.
"""

import resource
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.stats import norm

from jaxrank import stats
from tests.house.metric_table import table

from . import report

# Simulations of systems of which some are alike, and of which all are, which is the hardest case.
SIMULATIONS, GROUP, RESAMPLES = {False: 500, True: 2000}, 50, 1000
# Few queries, and values of few levels, among systems that are all alike.
SMALL = [(2, 6), (5, 3), (20, 5), (100, 10), (20, 20), (100, 50)]
RUNS, LOOKS = 2000, 5000
CORRELATIONS, BIASES, LABELLED, QUERIES, JUDGED = (0.0, 0.5, 0.7, 0.9), (0.0, 0.2), 100, 2000, 1000
RARE = (0.5, 0.1, 0.05)


def systems(key: Array, count: int, queries: int, alike: bool) -> tuple[Array, Array]:
  """Values of simulations `[GROUP, count, queries]` between 0 and 1, and what orders the systems.

  The systems are correlated. They are all alike, or groups of a fifth of them, two at least, are.
  """
  of_query, own = jax.random.split(key)
  level = jnp.arange(count, dtype=jnp.float32) // max(2, count // 5) * (0.0 if alike else 0.25)
  hard = jax.random.normal(of_query, (GROUP, 1, queries))
  noise = jax.random.normal(own, (GROUP, count, queries))
  return norm.cdf(level[None, :, None] + 0.8 * hard + 0.6 * noise - 0.3), level


def coins(key: Array, count: int, queries: int) -> tuple[Array, Array]:
  """Independent values of 0 or 1, `[GROUP, count, queries]`, of systems that are all alike."""
  shape = (GROUP, count, queries)
  return jax.random.bernoulli(key, shape=shape).astype(jnp.float32), jnp.zeros(count)


def ranks(count: int, queries: int, alike: bool, binary: bool = False) -> tuple[float, float]:
  """The share of simulations in which all true ranks are inside, and the mean width."""
  inside, width = 0, 0.0
  groups = SIMULATIONS[alike] // GROUP
  for i in range(groups):
    key = jax.random.key(i)
    values, level = coins(key, count, queries) if binary else systems(key, count, queries, alike)
    found = stats.rank_intervals(values, key=jax.random.key(1000 + i), resamples=RESAMPLES)
    best = 1 + jnp.sum(level[None] > level[:, None], axis=1)
    worst = jnp.sum(level[None] >= level[:, None], axis=1)
    holds = (found.lowest <= best[None]) & (found.highest >= worst[None])
    inside += int(jnp.sum(jnp.all(holds, axis=-1)))
    width += float(np.mean(1 + np.asarray(found.highest - found.lowest))) / groups
  return inside / SIMULATIONS[alike], width


# Values of queries as functions of uniform numbers, with their means and their bounds.
VALUES = {
  "uniform": (lambda u: u, 1 / 2, (0, 1)),
  "skewed, `u^4`": (lambda u: u**4, 1 / 5, (0, 1)),
  "0 or 1, mean 0.1": (lambda u: jnp.floor(u + 0.1), 0.1, (0, 1)),
  "reciprocal ranks": (
    lambda u: 1 / jnp.ceil(10 * u + 1e-6),
    float(np.mean(1 / np.arange(1, 11))),
    (0, 1),
  ),
  "differences, deviation 0.3": (lambda u: 0.3 * 12**0.5 * (u - 0.5), 0.0, (-1, 1)),
  "differences, deviation 0.1": (lambda u: 0.1 * 12**0.5 * (u - 0.5), 0.0, (-1, 1)),
  "differences, deviation 0.02": (lambda u: 0.02 * 12**0.5 * (u - 0.5), 0.0, (-1, 1)),
}


def looks(name: str) -> tuple[float, float, float]:
  """False stops of all looks by intervals for all times and by fixed ones; and their widths."""
  of, mean, bounds = VALUES[name]

  def run(key: Array) -> tuple[Array, Array, Array]:
    x = of(jax.random.uniform(key, (LOOKS,)))
    found = stats.confidence_sequence(x, bounds=bounds)
    n = jnp.arange(1, LOOKS + 1, dtype=x.dtype)
    middle = jnp.cumsum(x) / n
    error = jnp.sqrt(jnp.maximum(jnp.cumsum(jnp.square(x)) / n - jnp.square(middle), 0) / n)
    # Fixed intervals from the 30th query on.
    fixed = (jnp.abs(middle - mean) > 1.96 * error) & (n >= 30)
    width = (found.high - found.low)[-1] / (2 * 1.96 * error[-1])
    return jnp.any((found.low > mean) | (found.high < mean)), jnp.any(fixed), width

  keys = jax.random.split(jax.random.key(0), RUNS)
  found = jax.jit(lambda keys: jax.lax.map(run, keys, batch_size=100))(keys)
  stops, fixed, width = (float(jnp.mean(x.astype(jnp.float32))) for x in found)
  return stops, fixed, width


def judges(correlation: float, bias: float) -> tuple[float, float, float, float]:
  """`help_of` a judge, who adds twice the bias to half of the queries."""
  z, e, kind = jax.random.normal(jax.random.key(1), (3, JUDGED, QUERIES))
  noise = 0.2 * (correlation * z + (1 - correlation**2) ** 0.5 * e)
  return help_of(0.5 + 0.2 * z, 0.5 + noise + jnp.where(kind > 0, 2 * bias, 0), 0.5)


def rare(mean: float) -> tuple[float, float, float, float]:
  """`help_of` a judge of values of 0 or 1, who is wrong about one query in ten."""
  u, wrong = jax.random.uniform(jax.random.key(2), (2, JUDGED, QUERIES))
  y = jnp.floor(u + mean)
  return help_of(y, jnp.where(wrong < 0.1, 1 - y, y), mean)


def help_of(y: Array, p: Array, mean: float) -> tuple[float, float, float, float]:
  """Coverage, that of labels alone, and the mean and the worst gain of all simulations."""
  labelled = y[:, :LABELLED]
  found = stats.prediction_powered(labelled, p[:, :LABELLED], p[:, LABELLED:])
  alone = stats.prediction_powered(labelled, jnp.ones_like(labelled), jnp.ones_like(p))
  covered = (float(jnp.mean((x.low <= mean) & (x.high >= mean))) for x in (found, alone))
  return *covered, float(jnp.mean(found.gain)), float(jnp.min(found.gain))


def speed() -> tuple[float, float]:
  """Seconds, and GB of the process, of the ranks of 181 systems in 5,000 queries."""
  rng = np.random.default_rng(0)
  values = 0.7 * rng.random((1, 5000)) + 0.3 * rng.random((181, 5000))
  values += np.linspace(0, 0.05, 181)[:, None]
  start = time.perf_counter()
  jax.block_until_ready(stats.rank_intervals(values, key=jax.random.key(0)))
  seconds = time.perf_counter() - start
  return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
  """Writes the tables into the pages."""
  seconds, memory = speed()
  cases = [(s, q, alike) for alike in (False, True) for s in (5, 20, 100) for q in (50, 500)]
  rows = []
  for s, q, alike in cases:
    inside, width = ranks(s, q, alike)
    ties = "all" if alike else f"groups of {max(2, s // 5)}"
    rows.append(["continuous", f"{s}", f"{q}", ties, f"{inside:.3f}", f"{width:.1f}"])
  for s, q in SMALL:
    inside, width = ranks(s, q, alike=True, binary=True)
    rows.append(["0 or 1", f"{s}", f"{q}", "all", f"{inside:.3f}", f"{width:.1f}"])
  text = table(["values", "systems", "queries", "alike", "all ranks inside", "mean width"], rows)
  text += (
    f"\n\n181 systems, 5,000 queries and 10,000 resamples take {seconds:.1f} s, compilation "
    f"included, and {memory:.1f} GB.\n\n{report.machine()}"
  )
  report.write("ranks", text, "comparison.md")
  rows = []
  for name in VALUES:
    stops, fixed, width = looks(name)
    rows.append([name, f"{stops:.3f}", f"{fixed:.3f}", f"{width:.2f}"])
  text = table(["values", "false stops", "of fixed intervals", "width over the fixed one"], rows)
  report.write("looks", text, "comparison.md")
  found = {
    f"normal, noise of correlation {c:g}, bias {b:g}": judges(c, b)
    for c in CORRELATIONS
    for b in BIASES
  }
  found |= {f"0 or 1, mean {mean:g}, one in ten wrong": rare(mean) for mean in RARE}
  rows = [[name, *(f"{x:.3f}" for x in row)] for name, row in found.items()]
  header = ["values and judge", "coverage", "of labels alone", "mean gain", "least gain"]
  report.write("judges", table(header, rows), "judges.md")


if __name__ == "__main__":
  main()
