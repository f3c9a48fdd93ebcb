"""Losses of one value per query: smooth metrics, and the classical losses.

`loss(scores, labels, *, where=None, ...)` takes arrays `[..., n]` and returns `[...]`; lower is
better. The conventions of the metrics of `jaxrank` apply. In addition:

* Losses are not reduced. `jnp.mean(weights * loss(...))` applies weights per query, and
  `jaxrank.aggregate` leaves queries out of the mean.
* `weights=[..., n]` weighs items, for example by inverse propensities. The ideal of nDCG takes
  them into account.
* Sums and pairs leave out items with score -inf and `where=True`, relevant or not, and their
  gradient is 0. The ideal of a metric counts them.
* A query without relevant items has gradient 0. Its loss is 0, or 1 if the loss is `1 - metric`.
* Every loss with a `gain` has the linear gain by default.
* Gradients with respect to labels are not meaningful.
"""

from jaxrank.losses.approx import approx_ap, approx_err, approx_mrr, approx_ndcg, smooth_ap
from jaxrank.losses.lambdas import lambda_ndcg, lambda_rank
from jaxrank.losses.likelihood import list_mle, unique_softmax
from jaxrank.losses.listwise import poly1, sampled_softmax, softmax, xe_ndcg
from jaxrank.losses.noise import perturbed
from jaxrank.losses.pairwise import pairwise_hinge, pairwise_logistic, pairwise_soft_zero_one
from jaxrank.losses.permutation import neural_sort, soft_sort
from jaxrank.losses.softrank import softrank_ap, softrank_err, softrank_ndcg, softrank_rr

__all__ = [
  "approx_ap",
  "approx_err",
  "approx_mrr",
  "approx_ndcg",
  "lambda_ndcg",
  "lambda_rank",
  "list_mle",
  "neural_sort",
  "pairwise_hinge",
  "pairwise_logistic",
  "pairwise_soft_zero_one",
  "perturbed",
  "poly1",
  "sampled_softmax",
  "smooth_ap",
  "soft_sort",
  "softmax",
  "softrank_ap",
  "softrank_err",
  "softrank_ndcg",
  "softrank_rr",
  "unique_softmax",
  "xe_ndcg",
]
