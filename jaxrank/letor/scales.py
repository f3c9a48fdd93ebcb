"""`ranks`, `z_scores` and `min_max`: features on the scale of their query."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank import _scaling
from jaxrank._core import checks
from jaxrank.padding.padding import grouped

# Features of about so many cells are scaled at once, so that orders take little memory.
_CELLS = 1 << 24


def ranks(
  features: ArrayLike, query_ids: ArrayLike | None = None, *, where: ArrayLike | None = None
) -> np.ndarray | Array:
  """The rank of each feature of an item within its query, from -1 to 1.

  `(2 r - 1) / m - 1`, where `r` is the rank among the `m` items of the query, 1 for the smallest
  number, and the average rank for equal ones. It is the share of the items with smaller numbers
  minus that of those with larger ones: 0 on average in every query, and 0 for a feature that is the
  same for all items of the query. Ranks do not depend on the scale of a feature, nor on how it is
  distributed.

  >>> features = np.array([[0.1, 7.0], [0.3, 7.0], [0.2, 7.0], [5.0, 1.0]])
  >>> print(ranks(features, ["a", "a", "a", "b"]).round(3))
  [[-0.667  0.   ]
   [ 0.667  0.   ]
   [ 0.     0.   ]
   [ 0.     0.   ]]

  A feature that is NaN is missing: it stays NaN, and the ranks of other items are as if the item
  was not there. `np.nan_to_num` then puts it in the middle. Infinite numbers have ranks as others
  do. The derivative is 0.

  Args:
    features: `[rows, n_features]` with `query_ids`, and otherwise `[..., n, n_features]`, padded;
      numbers or booleans.
    query_ids: `[rows]`, the id of the query of each row, in any order, as `jaxrank.pad` takes them.
      With them, the function runs on the host, in NumPy; without them it takes and returns arrays
      of JAX, and may be called inside `jit`.
    where: `[..., n]`, False on padding, without `query_ids` only.

  Returns:
    Ranks, of the shape of `features`: float32 of NumPy with `query_ids`; otherwise at least
    float32, and 0 on padding.

  Raises:
    ValueError: if shapes do not fit, an id is NaN, or both `query_ids` and `where` are given.
    TypeError: if features are no numbers, ids cannot be sorted, or `where` is not boolean.
  """
  return _within_queries("ranks", _scaling.ranks, features, query_ids, where)


def z_scores(
  features: ArrayLike, query_ids: ArrayLike | None = None, *, where: ArrayLike | None = None
) -> np.ndarray | Array:
  """Features minus their mean within the query, divided by their standard deviation there.

  `(x - mean) / std`, with the population's standard deviation; 0 for a feature that is the same for
  all items of the query. Offsets and scales of any size are taken out before sums are formed, so
  that they cost no digits.

  >>> features = np.array([[0.1, 7.0], [0.3, 7.0], [0.2, 7.0], [5.0, 1.0]])
  >>> print(z_scores(features, ["a", "a", "a", "b"]).round(3))
  [[-1.225  0.   ]
   [ 1.225  0.   ]
   [ 0.     0.   ]
   [ 0.     0.   ]]

  A feature that is NaN is missing: it stays NaN, and the z-scores of other items are as if the item
  was not there. `np.nan_to_num` then puts it at the mean. Infinite numbers do not count either, and
  stay infinite.

  Args:
    features: `[rows, n_features]` with `query_ids`, and otherwise `[..., n, n_features]`, padded;
      numbers or booleans.
    query_ids: `[rows]`, as for `ranks`: with them, the function runs in NumPy, otherwise in JAX.
    where: `[..., n]`, False on padding, without `query_ids` only.

  Returns:
    z-scores, of the shape of `features`: float32 of NumPy with `query_ids`; otherwise at least
    float32, and 0 on padding.

  Raises:
    ValueError: if shapes do not fit, an id is NaN, or both `query_ids` and `where` are given.
    TypeError: if features are no numbers, ids cannot be sorted, or `where` is not boolean.
  """
  return _within_queries("z_scores", _scaling.z_scores, features, query_ids, where)


def min_max(
  features: ArrayLike, query_ids: ArrayLike | None = None, *, where: ArrayLike | None = None
) -> np.ndarray | Array:
  """Features between their least and their largest number within the query, from 0 to 1.

  `(x - min) / (max - min)`; 0 for a feature that is the same for all items of the query. LETOR's
  data sets with the name `QueryLevelNorm` have such features.

  >>> features = np.array([[0.1, 7.0], [0.5, 7.0], [0.2, 7.0], [5.0, 1.0]])
  >>> print(min_max(features, ["a", "a", "a", "b"]).round(3))
  [[0.   0.  ]
   [1.   0.  ]
   [0.25 0.  ]
   [0.   0.  ]]

  A feature that is NaN is missing: it stays NaN, and the values of other items are as if the item
  was not there. Infinite numbers do not count either: +inf becomes 1, and -inf 0.

  Args:
    features: `[rows, n_features]` with `query_ids`, and otherwise `[..., n, n_features]`, padded;
      numbers or booleans.
    query_ids: `[rows]`, as for `ranks`: with them, the function runs in NumPy, otherwise in JAX.
    where: `[..., n]`, False on padding, without `query_ids` only.

  Returns:
    Numbers in [0, 1], of the shape of `features`: float32 of NumPy with `query_ids`; otherwise at
    least float32, and 0 on padding.

  Raises:
    ValueError: if shapes do not fit, an id is NaN, or both `query_ids` and `where` are given.
    TypeError: if features are no numbers, ids cannot be sorted, or `where` is not boolean.
  """
  return _within_queries("min_max", _scaling.min_max, features, query_ids, where)


def _within_queries(
  name: str,
  scale: Callable[..., Any],
  features: ArrayLike,
  query_ids: ArrayLike | None,
  where: ArrayLike | None,
) -> np.ndarray | Array:
  """Scales padded features in JAX, or rows with the ids of their queries in NumPy."""
  with checks.named(f"letor.{name}"):
    if query_ids is not None:
      if where is not None:
        raise ValueError("where goes with padded features; rows with query_ids have no padding.")
      return _scaled_rows(scale, features, query_ids)
    x = checks.array("features", features)
    if x.ndim < 2:
      raise ValueError(
        f"features must have shape [..., n, n_features], got {x.shape}; pass features[..., None] "
        "if there is one."
      )
    # Of any items, to have their shape and their layout over devices.
    mask = checks.mask(where, jnp.any(x, axis=-1))
  scaled: Array = _scaled_lists(scale, x, mask)
  return scaled


@partial(jax.jit, static_argnums=0)
def _scaled_lists(scale: Callable[..., Any], x: Array, mask: Array) -> Array:
  return jnp.swapaxes(scale(jnp.swapaxes(x, -1, -2), mask[..., None, :]), -1, -2)


def _scaled_rows(
  scale: Callable[..., Any], features: ArrayLike, query_ids: ArrayLike
) -> np.ndarray:
  x = checks.on_host("features", features)
  checks.untraced("query_ids", query_ids)
  checks.check("query_ids", query_ids)
  ids = np.asarray(query_ids)
  if x.ndim != 2 or ids.shape != x.shape[:1]:
    raise ValueError(
      "features must have shape [rows, n_features], and query_ids [rows], got shapes "
      f"{x.shape} and {ids.shape}; pass padded features without query_ids."
    )
  _, sizes, order = grouped(ids)
  rows, scaled = _scaling.Rows(sizes), np.empty(x.shape, np.float32)
  width = max(1, _CELLS // max(1, ids.size))
  for start in range(0, x.shape[1], width):
    columns = slice(start, start + width)
    scaled[order, columns] = scale(x[order, columns].T, np.ones((1, 1), bool), rows).T
  return scaled
