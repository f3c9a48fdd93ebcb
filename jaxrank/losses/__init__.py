"""Losses, one value per query: metrics made smooth, and the classical ones.

`loss(scores, labels, *, where=None, ...)` takes arrays `[..., n]` and returns `[...]`, lower is
better. What `jaxrank` says of metrics holds here too, and

* the mean is yours: `jnp.mean(weights * loss(...))` for weights per query, `jaxrank.aggregate` to
  leave queries out;
* `weights=[..., n]` weighs items, such as inverse propensities; the ideal of an nDCG knows them;
* items at -inf under `where=True` are left out of sums and pairs, also if relevant, with gradient
  0; the ideal of a metric counts them;
* a query with nothing relevant has gradient 0 and loss 0, or 1 where the loss is `1 - metric`;
* labels get no gradient worth having.
"""

from jaxrank.losses.lambdas import lambda_ndcg as lambda_ndcg
from jaxrank.losses.lambdas import lambda_rank as lambda_rank
from jaxrank.losses.likelihood import list_mle as list_mle
from jaxrank.losses.likelihood import unique_softmax as unique_softmax
from jaxrank.losses.listwise import poly1 as poly1
from jaxrank.losses.listwise import sampled_softmax as sampled_softmax
from jaxrank.losses.listwise import softmax as softmax
from jaxrank.losses.listwise import xe_ndcg as xe_ndcg
from jaxrank.losses.pairwise import pairwise_hinge as pairwise_hinge
from jaxrank.losses.pairwise import pairwise_logistic as pairwise_logistic
from jaxrank.losses.pairwise import pairwise_soft_zero_one as pairwise_soft_zero_one
from jaxrank.losses.permutation import neural_sort as neural_sort
from jaxrank.losses.permutation import soft_sort as soft_sort
from jaxrank.losses.surrogate import approx_ap as approx_ap
from jaxrank.losses.surrogate import approx_err as approx_err
from jaxrank.losses.surrogate import approx_mrr as approx_mrr
from jaxrank.losses.surrogate import approx_ndcg as approx_ndcg
from jaxrank.losses.surrogate import perturbed as perturbed
from jaxrank.losses.surrogate import smooth_ap as smooth_ap
from jaxrank.losses.surrogate import softrank_ap as softrank_ap
from jaxrank.losses.surrogate import softrank_err as softrank_err
from jaxrank.losses.surrogate import softrank_ndcg as softrank_ndcg
from jaxrank.losses.surrogate import softrank_rr as softrank_rr
