"""Fusion: one ranking from those of several systems, and weights that hold on new queries.

A *normalisation* puts the scores of each system on a scale that systems have in common. A *method*
makes one score of those of an item: of scores, which want a normalisation, or of ranks, which do
not.

    fused = fusion.comb_sum(fusion.min_max(scores), weights=jnp.array([0.3, 0.7]))
    fused = fusion.rrf(scores)

`fit` chooses weights by judged queries, and says whether they are better than equal weights on
queries that did not choose them; `threshold` says how many results to show.

What methods share:

* `scores`: `[systems, ..., n]`, -inf where a system does not retrieve an item.
* `where`: `[..., n]`, boolean, False on padding; None is all True.
* `weights`: `[systems]`, or `[..., systems]` for weights of each query, at least 0; None is 1 for
  each. They need not have the sum 1.
* The result is `[..., n]`, at least float32: -inf for an item that no system retrieves, and 0 on
  padding. Methods are pure functions for `jit`, `vmap` and `grad`, and differentiable by weights
  and scores where their formula is.
* A system that does not retrieve an item adds nothing to it, and is not counted for it, unless a
  normalisation was told what it gets, `missing=`.
* Tied items have the mean of what their ranks get, and ranks are never decided by the order of the
  input. Methods of ranks take `ranking=`: smooth ranks have gradients by scores.
* A NaN score of a valid item makes its query NaN.
* A method of one's own is any function with the same arguments, and `fit` takes it.
"""

from jaxrank.fusion.by_rank import borda_fuse, condorcet_fuse, isr, log_isr, logn_isr, rbc, rrf
from jaxrank.fusion.by_score import (
  comb_anz,
  comb_gmnz,
  comb_max,
  comb_med,
  comb_min,
  comb_mnz,
  comb_sum,
  mixed,
  weighted_mnz,
)
from jaxrank.fusion.cutting import threshold
from jaxrank.fusion.fitted import Fit, Setting
from jaxrank.fusion.fitting import fit
from jaxrank.fusion.held_out import Gain
from jaxrank.fusion.normalising import (
  borda,
  distribution,
  max_norm,
  min_max,
  rank_norm,
  sum_norm,
  theoretical_min_max,
  z_score,
)
from jaxrank.fusion.trained import (
  bayes_fuse,
  map_fuse,
  pos_fuse,
  prob_fuse,
  seg_fuse,
  slide_fuse,
  train,
)

__all__ = [
  "Fit",
  "Gain",
  "Setting",
  "bayes_fuse",
  "borda",
  "borda_fuse",
  "comb_anz",
  "comb_gmnz",
  "comb_max",
  "comb_med",
  "comb_min",
  "comb_mnz",
  "comb_sum",
  "condorcet_fuse",
  "distribution",
  "fit",
  "isr",
  "log_isr",
  "logn_isr",
  "map_fuse",
  "max_norm",
  "min_max",
  "mixed",
  "pos_fuse",
  "prob_fuse",
  "rank_norm",
  "rbc",
  "rrf",
  "seg_fuse",
  "slide_fuse",
  "sum_norm",
  "theoretical_min_max",
  "threshold",
  "train",
  "weighted_mnz",
  "z_score",
]
