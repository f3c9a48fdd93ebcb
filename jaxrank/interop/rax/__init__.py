"""The names of rax 0.4.0, computed by jaxrank: `from jaxrank.interop import rax`.

The arguments that the functions share mean the same in all of them, and a function documents only
its own. All arrays but `scores` and `labels` may have length 1 along an axis, which is repeated.

* `scores`: `[..., n]`, higher first. An item with a score of -inf is not ranked.
* `labels`: `[..., n]`. Metrics of binary relevance take labels of at least 1 as relevant.
* `where`: boolean or numbers, False or 0 on padding; None has no padding. Values on padding have no
  effect.
* `segments`: ids of groups of items within a list, in any order; each group is a list of its own.
  They take O(n log n) time and O(n) memory, unless a function says otherwise. With segments, the
  values stand at the first valid item of each segment.
* `topn`: the largest rank that counts, a positive integer, which may be traced; None for all.
* `weights`: factors of the gains or labels of the items, or of the pairs of the better item; None
  is 1.
* `key`: a PRNG key that breaks ties at random, in the same way as rax with the same key; without
  one, tied items keep the order of the input.
* `rank_fn`, `cutoff_fn`: functions like `utils.ranks` and `utils.cutoff`, the defaults.
* `gain_fn`, `discount_fn`: functions from labels to gains, and from 1-based ranks to discounts.
* `step_fn`: a function that approximates the step `x >= 0`.
* `lambdaweight_fn`: a function that returns the weights of pairs `[..., n * n]`, such as
  `dcg_lambdaweight`; None is 1.
* `reduce_fn`: a function that reduces the values of the batch, called as
  `reduce_fn(values, where=mask)`. The default is the mean over the lists, or segments, with a valid
  item. None keeps all values, with 0 for the others.

A NaN at a valid item makes the value of its list, or segment, NaN. bfloat16 is computed in float32.
"""

from jaxrank.interop.rax import types as types
from jaxrank.interop.rax import utils as utils
from jaxrank.interop.rax.lambdaweights import dcg2_lambdaweight as dcg2_lambdaweight
from jaxrank.interop.rax.lambdaweights import dcg_lambdaweight as dcg_lambdaweight
from jaxrank.interop.rax.lambdaweights import labeldiff_lambdaweight as labeldiff_lambdaweight
from jaxrank.interop.rax.losses import listmle_loss as listmle_loss
from jaxrank.interop.rax.losses import pointwise_mse_loss as pointwise_mse_loss
from jaxrank.interop.rax.losses import pointwise_sigmoid_loss as pointwise_sigmoid_loss
from jaxrank.interop.rax.losses import poly1_softmax_loss as poly1_softmax_loss
from jaxrank.interop.rax.losses import softmax_loss as softmax_loss
from jaxrank.interop.rax.losses import unique_softmax_loss as unique_softmax_loss
from jaxrank.interop.rax.metrics import ap_metric as ap_metric
from jaxrank.interop.rax.metrics import dcg_metric as dcg_metric
from jaxrank.interop.rax.metrics import mrr_metric as mrr_metric
from jaxrank.interop.rax.metrics import ndcg_metric as ndcg_metric
from jaxrank.interop.rax.metrics import opa_metric as opa_metric
from jaxrank.interop.rax.metrics import precision_metric as precision_metric
from jaxrank.interop.rax.metrics import recall_metric as recall_metric
from jaxrank.interop.rax.pairwise import pairwise_hinge_loss as pairwise_hinge_loss
from jaxrank.interop.rax.pairwise import pairwise_logistic_loss as pairwise_logistic_loss
from jaxrank.interop.rax.pairwise import pairwise_mse_loss as pairwise_mse_loss
from jaxrank.interop.rax.pairwise import pairwise_qr_loss as pairwise_qr_loss
from jaxrank.interop.rax.pairwise import pairwise_soft_zero_one_loss as pairwise_soft_zero_one_loss
from jaxrank.interop.rax.t12n import approx_t12n as approx_t12n
from jaxrank.interop.rax.t12n import bound_t12n as bound_t12n
from jaxrank.interop.rax.t12n import gumbel_t12n as gumbel_t12n
from jaxrank.interop.rax.t12n import segment_t12n as segment_t12n
