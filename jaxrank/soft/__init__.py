"""Soft operators on lists of scores: expected ranks, the top k as a mask, sorting, quantiles.

`operator(scores, *, where=None, ranking=Laplace(1.0))` takes scores `[..., n]`. The ranking says how
the operator is softened: `F` is the distribution function of `Laplace` or `Logistic`, at distances
in temperatures. Time is O(n log n) and memory O(n), also for a million items in one list, and
gradients are exact: those of a threshold are by the implicit function theorem. At temperature 0, and
under `Exact()`, the operators are the hard ones, with ties averaged.

The conventions of `jaxrank` apply. Items under the mask and items with score -inf take no part: they
have the value 0, and gradient 0. A NaN score makes all values of its list NaN. Integer scores are
taken as floats. `docs/soft.md` has examples; `jaxrank.losses.neural_sort` and
`jaxrank.losses.soft_sort` are matrices instead.
"""

from jaxrank.soft.operators import quantile, rank, sort, top_k

__all__ = ["quantile", "rank", "sort", "top_k"]
