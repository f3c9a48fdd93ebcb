"""The names of rax 0.4.0, on jaxrank's core: `from jaxrank.interop import rax`.

What the arguments are is said here once. Arrays are `[..., n]`; one of length 1 along an axis is
repeated.

* `scores`, `labels`: an item with a score of -inf is unranked. Metrics of binary relevance take
  labels from 1 on as relevant.
* `where`: False, or 0, on padding. What stands under the mask never matters.
* `segments`: ids of groups within a list, in any order, each a list of its own. O(n log n) time
  and O(n) memory, unless said otherwise. Values stand at the first valid item of each segment.
* `topn`: the last rank that counts; None for all. It may be traced.
* `weights`: of each item, times its gain or label; of the better item of a pair.
* `key`: breaks ties by chance, as rax does with the same key. Without one they keep the order of
  the input.
* `rank_fn`, `cutoff_fn`: `utils.ranks` and `utils.cutoff`, or functions like them.
* `gain_fn`, `discount_fn`: of labels, and of 1-based ranks.
* `lambdaweight_fn`: weights of pairs, such as `dcg_lambdaweight`.
* `reduce_fn`: reduces the values of the batch, `reduce_fn(values, where=mask)`; the default is the
  mean of the lists, or segments, with a valid item. None keeps them, with 0 for the others.

A NaN of a valid item makes the value of its list, or segment, NaN. bfloat16 counts in float32.
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
