"""Tests of significance, intervals and corrections for the values of two or more systems.

All functions take values of queries, `[..., n]` with one value for each of `n` queries, as metrics
return them, and treat leading axes, such as measures or pairs of systems, one by one;
`risk_control` takes losses of queries at `m` thresholds, `[..., n, m]`. They are pure functions for
`jit` and `vmap`. All leading axes share the same random flips, resamples or permutations, so that
the result for each of them is that of a call of its own. On an explicit mesh the values, which are
few, are replicated. A value that is not finite makes the results that depend on it NaN.
`docs/comparison.md` has examples.
"""

from jaxrank.stats.bootstrap import Interval, bootstrap_interval
from jaxrank.stats.comparing import Leaderboard, compare
from jaxrank.stats.corrections import benjamini_hochberg, holm
from jaxrank.stats.judges import Powered, prediction_powered
from jaxrank.stats.leaderboards import RankIntervals, rank_intervals
from jaxrank.stats.paired import Comparison, effect_size, paired_t, queries_needed
from jaxrank.stats.randomization import randomization_test, tukey_hsd
from jaxrank.stats.risk import Threshold, risk_control
from jaxrank.stats.sequences import Bounds, confidence_sequence

__all__ = [
  "Bounds",
  "Comparison",
  "Interval",
  "Leaderboard",
  "Powered",
  "RankIntervals",
  "Threshold",
  "benjamini_hochberg",
  "bootstrap_interval",
  "compare",
  "confidence_sequence",
  "effect_size",
  "holm",
  "paired_t",
  "prediction_powered",
  "queries_needed",
  "randomization_test",
  "rank_intervals",
  "risk_control",
  "tukey_hsd",
]
