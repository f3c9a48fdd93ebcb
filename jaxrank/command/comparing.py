"""Tests whether the runs of the command differ."""

import argparse
import itertools
from typing import NamedTuple

import jax
import numpy as np

from jaxrank import stats
from jaxrank.command.evaluating import Results


class Compared(NamedTuple):
  """The tests of all pairs of runs.

  Attributes:
    test: The name of the test, with its correction.
    p_values: `[measures, runs, runs]`, corrected, 1 on the diagonal.
    better: `[measures, runs, runs]`, whether the first run is better than the second one, at the
      level of the arguments.
  """

  test: str
  p_values: np.ndarray
  better: np.ndarray


_TITLES = {
  "randomization": "randomization test",
  "t": "paired t-test",
  "tukey": "randomized Tukey HSD test",
}
_CORRECTIONS = {"holm": stats.holm, "bh": stats.benjamini_hochberg}
_CORRECTED = {"holm": ", corrected by Holm", "bh": ", corrected by Benjamini and Hochberg"}


def compare(results: Results, args: argparse.Namespace) -> Compared:
  """Tests all pairs of runs by each measure."""
  runs = results.runs
  if len(runs) < 2:
    raise ValueError("--compare needs two runs or more, got one.")
  for run in runs[1:]:
    if run.queries != runs[0].queries:
      raise ValueError(
        f"--compare needs the same queries for all runs, and {run.name} has others than "
        f"{runs[0].name}; with --queries judged, a query that a run lacks counts as 0."
      )
  if len(runs[0].queries) < 2:
    raise ValueError(
      "--compare needs two queries or more, because a test looks at how differences vary over "
      "queries; got one."
    )
  values = np.stack([run.values for run in runs], axis=1)
  p_values = _p_values(values, args)
  good = results.goodness
  better = good[:, :, None] > good[:, None, :]
  title = f"{_TITLES[args.test]}{_CORRECTED.get(args.correction, '')}"
  return Compared(title, p_values, better & (p_values <= args.level))


def _p_values(values: np.ndarray, args: argparse.Namespace) -> np.ndarray:
  key = jax.random.key(args.seed)
  if args.test == "tukey":
    return np.asarray(stats.tukey_hsd(values, key=key))
  count = values.shape[1]
  first, second = np.array([*itertools.combinations(range(count), 2)]).T
  x, y = values[:, first], values[:, second]
  tested = stats.paired_t(x, y) if args.test == "t" else stats.randomization_test(x, y, key=key)
  of_pairs = np.asarray(_CORRECTIONS.get(args.correction, np.asarray)(tested.p_value))
  found = np.ones((len(values), count, count))
  found[:, first, second] = found[:, second, first] = of_pairs
  return found
