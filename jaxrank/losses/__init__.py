"""Ranking losses with one value per query: smooth metrics, and the classical losses.

`loss(scores, labels, *, where=None, ...)` takes arrays `[..., n]` and returns `[...]`; lower is
better. The conventions of the metrics of `jaxrank` apply. In addition:

* Losses are not reduced. `jnp.mean(query_weights * loss(...))` applies weights per query, and
  `jaxrank.aggregate` leaves queries out of the mean.
* Items with score -inf and `where=True` are in no sum and in no pair, whether they are relevant or
  not, and have gradient 0. The ideal of a metric counts them.
* A query without relevant items has gradient 0. Its loss is 0, or 1 if the loss is `1 - metric`.
* Gradients with respect to labels are not meaningful.
* Weights of items change the ideal of nDCG too. In the pairwise losses, the weight of a pair is
  that of its better item.
* A traced temperature that is not positive acts as the square root of the smallest normal number,
  1.1e-19 in float32: loss and gradient are finite, and the gradient with respect to the temperature
  is 0.
* `neural_sort` and `soft_sort` return soft permutation matrices, and `perturbed` makes a loss from
  another loss.

The arguments that losses share mean the same in all of them, and a loss documents only its own:

* `scores`: `[..., n]`, floats.
* `labels`: `[..., n]`, grades. Where relevance is binary, positive labels are relevant. The
  pairwise losses and `list_mle` use only the order of the labels, and take negative ones as 0.
* `where`: `[..., n]`, boolean, False on padding; None is all True.
* `k`: the cut-off of the metric, a positive integer, which may be traced; None is the whole list.
* `rel`: labels from here on are relevant; None is any positive label. It may be traced.
* `gain`: a function from labels to gains, by default `jaxrank.gains.linear` in every loss.
* `discount`: a function from ranks, 1-based and perhaps fractional, to weights.
* `max_label`: the largest label of the grading scale, which may be traced; larger labels count as
  this one. It must be the same for all queries, so that their losses are comparable.
* `normalizer`: the divisor of the sum of precisions in average precision: `"relevant"` is the
  number `R` of relevant items, `"cutoff"` is `min(k, R)`.
* `weights`: `[..., n]`, factors of the gains of the items, such as inverse propensities; None is 1.
* `teacher`: `[..., n]`, the scores of a teacher, of any scale and sign. They stand apart from the
  labels, where a negative number would mean unjudged. An item that the teacher did not score, with
  -inf here, is left out as one with a score of -inf is.
* `temperature`: a positive number that divides the scores; may be traced.
* `ranking`: a smooth ranking; an exact one, whose gradient is 0, is refused. The temperature of
  `jaxrank.Gaussian` is the standard deviation of the noise, that of `jaxrank.Gumbel` its scale.
  `1 / t` for `jaxrank.Logistic(t)` is the `alpha` of ApproxNDCG.

Every loss raises `ValueError` if shapes differ, a parameter is out of its range, or the ranking
cannot answer what the loss asks, and `TypeError` for a dtype that cannot be ranked or a parameter
of the wrong type. The message starts with the name of the function.
"""

from jaxrank.losses.approx import approx_ap, approx_err, approx_mrr, approx_ndcg, smooth_ap
from jaxrank.losses.distillation import kl, margin_mse, rank_mse
from jaxrank.losses.lambdas import lambda_ndcg, lambda_rank
from jaxrank.losses.likelihood import list_mle, unique_softmax
from jaxrank.losses.listwise import poly1, sampled_softmax, softmax, xe_ndcg
from jaxrank.losses.pairwise import pairwise_hinge, pairwise_logistic, pairwise_soft_zero_one
from jaxrank.losses.permutation import neural_sort, soft_sort
from jaxrank.losses.perturbation import perturbed
from jaxrank.losses.softrank import softrank_ap, softrank_err, softrank_ndcg, softrank_rr

__all__ = [
  "approx_ap",
  "approx_err",
  "approx_mrr",
  "approx_ndcg",
  "kl",
  "lambda_ndcg",
  "lambda_rank",
  "list_mle",
  "margin_mse",
  "neural_sort",
  "pairwise_hinge",
  "pairwise_logistic",
  "pairwise_soft_zero_one",
  "perturbed",
  "poly1",
  "rank_mse",
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
