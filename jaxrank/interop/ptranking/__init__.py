"""The metrics of ptranking, which take labels in rank order and one or many cut-offs.

The arguments that the functions share mean the same in all of them:

* `batch_rankings`, `batch_predict_rankings`: `[queries, ranks]`, labels in the order of the system.
* `batch_ideal_rankings`: `[queries, ranks]`, labels in the ideal order.
* `sorted_q_doc_rele_mat`, `sys_q_doc_rele_mat`: `[subtopics, ranks]`, labels of one query in the
  order of the system, for metrics of diversity.
* `ideal_q_doc_rele_mat`: `[subtopics, ranks]`, the same in the ideal order.
* `k`, `cutoff`: the cut-off, a positive integer, which may exceed the list; None is the whole list.
* `ks`: a sequence of cut-offs in any order.
* `max_label`: the best grade of the scale, at least 0, for all queries or `[queries]`; None takes
  the best label of each query.
* `label_type`: `LABEL_TYPE.MultiLabel` for grades, with the gain `2^y - 1`, or
  `LABEL_TYPE.Permutation` for labels that are gains.
* `alpha`: the fraction, in [0, 1], of the remaining gain of a subtopic that each document which
  covers it removes.
* `point`: whether to compute the value at `k` only, rather than at 1 ... k.
* `device`: has no effect.

Arrays may be numpy or JAX arrays, lists or torch tensors, and the results are float32 numpy arrays.
Values are 0 where the divisor is 0 because nothing is relevant.

`get_delta_ndcg` and `get_delta_alpha_dcg` return weights of pairs of ranks for losses, and
`get_div_ideal_ranking`, `alpha_dcg_at_k` and `alpha_ndcg_at_k` take documents by name.
"""

from jaxrank.interop.ptranking.adhoc import LABEL_TYPE as LABEL_TYPE
from jaxrank.interop.ptranking.adhoc import get_delta_ndcg as get_delta_ndcg
from jaxrank.interop.ptranking.adhoc import metric_results_to_string as metric_results_to_string
from jaxrank.interop.ptranking.adhoc import rele_gain as rele_gain
from jaxrank.interop.ptranking.adhoc import torch_ap_at_k as torch_ap_at_k
from jaxrank.interop.ptranking.adhoc import torch_ap_at_ks as torch_ap_at_ks
from jaxrank.interop.ptranking.adhoc import torch_dcg_at_k as torch_dcg_at_k
from jaxrank.interop.ptranking.adhoc import torch_dcg_at_ks as torch_dcg_at_ks
from jaxrank.interop.ptranking.adhoc import torch_kendall_tau as torch_kendall_tau
from jaxrank.interop.ptranking.adhoc import torch_nDCG_at_k as torch_nDCG_at_k
from jaxrank.interop.ptranking.adhoc import torch_ndcg_at_k as torch_ndcg_at_k
from jaxrank.interop.ptranking.adhoc import torch_nDCG_at_ks as torch_nDCG_at_ks
from jaxrank.interop.ptranking.adhoc import torch_ndcg_at_ks as torch_ndcg_at_ks
from jaxrank.interop.ptranking.adhoc import torch_nerr_at_k as torch_nerr_at_k
from jaxrank.interop.ptranking.adhoc import torch_nerr_at_ks as torch_nerr_at_ks
from jaxrank.interop.ptranking.adhoc import torch_precision_at_k as torch_precision_at_k
from jaxrank.interop.ptranking.adhoc import torch_precision_at_ks as torch_precision_at_ks
from jaxrank.interop.ptranking.adhoc import torch_rankwise_err as torch_rankwise_err
from jaxrank.interop.ptranking.diversity import alpha_dcg_at_k as alpha_dcg_at_k
from jaxrank.interop.ptranking.diversity import alpha_ndcg_at_k as alpha_ndcg_at_k
from jaxrank.interop.ptranking.diversity import get_delta_alpha_dcg as get_delta_alpha_dcg
from jaxrank.interop.ptranking.diversity import get_div_ideal_ranking as get_div_ideal_ranking
from jaxrank.interop.ptranking.diversity import torch_alpha_dcg_at_k as torch_alpha_dcg_at_k
from jaxrank.interop.ptranking.diversity import torch_alpha_dcg_at_ks as torch_alpha_dcg_at_ks
from jaxrank.interop.ptranking.diversity import torch_alpha_ndcg_at_k as torch_alpha_ndcg_at_k
from jaxrank.interop.ptranking.diversity import torch_alpha_ndcg_at_ks as torch_alpha_ndcg_at_ks
from jaxrank.interop.ptranking.diversity import torch_err_ia_at_k as torch_err_ia_at_k
from jaxrank.interop.ptranking.diversity import torch_err_ia_at_ks as torch_err_ia_at_ks
from jaxrank.interop.ptranking.diversity import torch_nerr_ia_at_k as torch_nerr_ia_at_k
from jaxrank.interop.ptranking.diversity import torch_nerr_ia_at_ks as torch_nerr_ia_at_ks
from jaxrank.interop.ptranking.diversity import torch_rankwise_err_ia as torch_rankwise_err_ia
