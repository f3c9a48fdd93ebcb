"""Conversion of flat rows with query ids to padded arrays with a mask, and back.

Files and data frames have one row for each item, with the id of its query. The metrics take arrays
`[queries, length]` and a mask. The functions of this package convert one form to the other on the
host, in numpy, and not inside `jit`, because the shapes depend on the data.

`pad` and `pad_buckets` take the same rows:

* `query_ids`: `[rows]`, the id of the query of each row, in any order and in any dtype that sorts,
  without NaN.
* `scores`: `[rows]`, real numbers or booleans. The dtype is kept.
* `labels`: `[rows]`, real numbers or booleans. The dtype is kept.
"""

from jaxrank.padding.epochs import epoch
from jaxrank.padding.feeding import batches
from jaxrank.padding.padding import Batch, pad, pad_buckets, unpad

__all__ = [
  "Batch",
  "batches",
  "epoch",
  "pad",
  "pad_buckets",
  "unpad",
]
