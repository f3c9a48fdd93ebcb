"""Ranks among a whole corpus of items, chunk by chunk: `[queries, items]` is never stored.

A similarity is "dot", "cosine" (0 for a vector of zeros), "l2" (minus the squared distance, as
`2 q.x - |x|^2 - |q|^2`), or a function of queries `[q, ...]` and items `[c, ...]` that returns
scores `[q, c]`. A function may take pytrees of such arrays on both sides. It is compiled once for
each function object: parameters that change belong in the queries, in the items, or in a
`jax.tree_util.Partial`.

Ids count from 0, and -1 is no item. Outside `jit` an id beyond the corpus raises; under `jit` it is
no item. A similarity of NaN leaves its item out. All scores come out of one program of one shape,
so that copies of an item tie.

Items that are numpy arrays, memory maps among them, stay on the host, and come to the device chunk
by chunk; so do all others if there is a callback to tell of the progress.
"""

from jaxrank.corpus.sampled import unsampled_metric, unsampled_rank
from jaxrank.corpus.search import target_ranks, top_items

__all__ = [
  "target_ranks",
  "top_items",
  "unsampled_metric",
  "unsampled_rank",
]
