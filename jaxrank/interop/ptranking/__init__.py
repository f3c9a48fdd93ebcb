"""The metrics of ptranking: of labels in rank order, at one or many cut-offs.

`batch_predict_rankings` and `batch_ideal_rankings` are labels `[queries, ranks]` in the order of
the system and in the best one, `q_doc_rele_mat` are labels `[subtopics, ranks]` of one query.
They may be numpy or JAX arrays, lists or torch tensors; what comes back are numpy arrays of
float32. Cut-offs come in any order, may exceed the list, and None is all of it. What cannot be
divided by, because nothing is relevant, gives 0. `device` does not matter.

`get_delta_ndcg` and `get_delta_alpha_dcg` weigh pairs of ranks for losses, and
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
