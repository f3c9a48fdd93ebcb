"""Flat rows with query ids, to and from padded arrays with a mask.

Files and data frames hold one row per item and an id that says which query the row belongs to. The
metrics take arrays `[queries, length]` and a mask. The functions here go from one to the other on
the host, in numpy: shapes depend on the data, so this is work for before `jit`.
"""

from jaxrank.padding.feeding import batches
from jaxrank.padding.padding import Batch, pad, pad_buckets, unpad

__all__ = [
  "Batch",
  "batches",
  "pad",
  "pad_buckets",
  "unpad",
]
