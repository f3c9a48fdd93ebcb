"""Soft operators on lists of scores: expected ranks, the top k as a mask, sorting, quantiles.

`operator(scores, *, where=None, ranking=Laplace(1.0))` takes scores `[..., n]`. Time is O(n log n)
and memory O(n) under `Laplace` and `Logistic`, also for a million items in one list, and gradients
are exact, those of a threshold by the implicit function theorem. At temperature 0, and under
`Exact()`, the operators are the hard ones, with ties averaged.

The arguments that operators share mean the same in all of them:

* `scores`: `[..., n]`, of any real dtype; values are float32, or float64 for float64 scores. Items
  with score -inf take no part: their value and gradient are 0. A NaN makes its list NaN.
* `where`: `[..., n]`, boolean, False on padding, whose value and gradient are 0; None is all True.
* `ranking`: how the operator is softened. `F` is the distribution function of `jaxrank.Laplace` or
  `jaxrank.Logistic`, and `t` its temperature, which may be traced. Only `rank` and `top_k` have a
  form under the noise of `jaxrank.Gumbel` and `jaxrank.Gaussian`.

`docs/soft.md` has examples. `jaxrank.losses.neural_sort` and `jaxrank.losses.soft_sort` are
matrices instead.
"""

from jaxrank.soft.operators import quantile, rank, sort, top_k

__all__ = ["quantile", "rank", "sort", "top_k"]
