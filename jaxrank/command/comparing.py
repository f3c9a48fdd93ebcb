"""Tests whether the runs of the command differ."""

import argparse
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
    ranks: `[measures, runs, 3]`, the lowest rank, the highest one and the tier, if asked for.
    confidence: That of the ranks.
  """

  test: str
  p_values: np.ndarray
  better: np.ndarray
  ranks: np.ndarray | None
  confidence: float


_TITLES = {
  "randomization": "randomization test",
  "t": "paired t-test",
  "tukey": "randomized Tukey HSD test",
}
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
  signs = _signs(results, args.ranks)[:, None]
  board = stats.compare(
    {run.name: run.values * signs for run in runs},
    key=jax.random.key(args.seed),
    confidence=1 - args.level,
    test=args.test,
    correction=args.correction,
    resamples=10_000 if args.ranks else None,
  )
  p_values = np.asarray(board.p_values, np.float64)
  good = results.goodness
  better = good[:, :, None] > good[:, None, :]
  title = f"{_TITLES[args.test]}{_CORRECTED.get(args.correction, '')}"
  ranks = None
  if args.ranks:
    ranks = np.stack([*map(np.asarray, (board.lowest_rank, board.highest_rank, board.tier))], -1)
  return Compared(title, p_values, better & (p_values <= args.level), ranks, 1 - args.level)


def _signs(results: Results, ranked: bool) -> np.ndarray:
  """`[measures]`: -1 where a smaller value is better, which changes no test, and else 1."""
  descriptions = [measure.description for measure in results.measures]
  for measure, description in zip(results.measures, descriptions, strict=True):
    if ranked and description.best is not None:
      raise ValueError(
        f"--ranks needs measures of which more, or less, is better, and {measure.name} is best at "
        f"{description.best:g}; leave it out."
      )
  return np.array([1 if description.higher_is_better else -1 for description in descriptions])
