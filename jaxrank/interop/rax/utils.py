"""The functions of `rax.utils`, re-exported."""

from jaxrank.interop.rax.lists import safe_reduce as safe_reduce
from jaxrank.interop.rax.losses import normalize_probabilities as normalize_probabilities
from jaxrank.interop.rax.pairwise import compute_pairs as compute_pairs
from jaxrank.interop.rax.pairwise import pairwise_loss as pairwise_loss
from jaxrank.interop.rax.positions import approx_cutoff as approx_cutoff
from jaxrank.interop.rax.positions import approx_ranks as approx_ranks
from jaxrank.interop.rax.positions import cutoff as cutoff
from jaxrank.interop.rax.positions import ranks as ranks
