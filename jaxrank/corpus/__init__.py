"""Ranks among a whole corpus of items, chunk by chunk: scores `[queries, items]` are never stored.

`target_ranks` ranks one target of each query, `evaluate` computes metrics of many positives, and
`top_items` finds the best items of each query. `softmax`, and `evaluate` under a smooth ranking,
are losses. `unsampled_rank` and `unsampled_metric` correct metrics that were measured on a sample
of the items.

The arguments that the three searches share mean the same in all of them:

* `queries`: `[q, d]`, vectors, or what the similarity takes: a pytree of arrays `[q, ...]`.
* `items`: `[n, d]`, vectors, or what the similarity takes: a pytree of arrays `[n, ...]`. numpy
  arrays, memory maps among them, stay on the host and are sent to the device chunk by chunk. So are
  all items if there is a `progress`.
* `similarity`: "dot", "cosine" (0 for a vector of zeros), "l2" (minus the squared distance, as
  `2 q.x - |x|^2 - |q|^2`), or a function of queries and of a chunk of items that returns scores
  `[q, c]`. It is compiled once for each function object: put parameters that change into the
  queries, the items, or a `jax.tree_util.Partial`. A NaN among the scores of its candidates makes
  the results of a query NaN.
* `exclude`: `[q, e]`, ids of items that are no candidates, such as known positives, in any order,
  padded with -1; None excludes nothing.
* `chunk`: the number of items that are scored at a time, at least 1, rounded up to a multiple of
  128.
* `axis_name`: inside `shard_map`, the mesh axis over which the items are split. Queries, targets
  and excluded ids must be the same on all devices along it, and ids are those of the whole corpus.
  Where JAX does not track what varies along the axis, in `jax.pmap` and with `check_vma=False`,
  results are the same, and a gradient of `softmax` or of smooth metrics raises `ValueError`.
* `progress`: a function that is called as `progress(done, items)` after each chunk, outside `jit`
  only.

Ids count from 0, and -1 stands for no item. An id beyond the corpus raises `ValueError` outside
`jit`, and stands for no item under `jit`. All scores come from one program of one shape, so that
the copies of an item have equal scores.
"""

from jaxrank.corpus.evaluation import evaluate
from jaxrank.corpus.losses import softmax
from jaxrank.corpus.sampled import unsampled_metric, unsampled_rank
from jaxrank.corpus.search import target_ranks, top_items

__all__ = [
  "evaluate",
  "softmax",
  "target_ranks",
  "top_items",
  "unsampled_metric",
  "unsampled_rank",
]
