"""Internals of `jaxrank.corpus`: scores of queries and items, by name or by the user's function."""

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.tree_util import Partial

from jaxrank._core import arithmetic, checks

Similarity = Literal["dot", "cosine", "l2"] | Callable[[Any, Any], Array]


def scorer(similarity: Similarity) -> Partial:
  """The similarity as a callable pytree, so that it passes through `jit` with its parameters."""
  if isinstance(similarity, Partial):
    return similarity
  if callable(similarity):
    return Partial(similarity)
  checks.choice("similarity", similarity, _NAMED)
  return _NAMED[similarity]


def _dot(queries: Array, items: Array) -> Array:
  queries, items = _alike(queries, items)
  # XLA computes a single row by a matrix-vector product, which rounds the last columns differently.
  rows = jnp.concatenate([queries, queries]) if queries.shape[0] == 1 else queries
  product = lax.dot_general(
    rows,
    items,
    (((1,), (1,)), ((), ())),
    precision=lax.Precision.HIGHEST,
    preferred_element_type=arithmetic.floating(queries).dtype,
  )
  return lax.optimization_barrier(product)[:1] if queries.shape[0] == 1 else product


def _cosine(queries: Array, items: Array) -> Array:
  return _dot(_unit(queries), _unit(items))


def _l2(queries: Array, items: Array) -> Array:
  product = _dot(queries, items)
  of_queries, of_items = (_squares(x).astype(product.dtype) for x in (queries, items))
  return 2 * product - of_items[None, :] - of_queries[:, None]


def _alike(x: Array, y: Array) -> tuple[Array, Array]:
  """Both as floats of one dtype. Half precision stays, as its products are exact in float32."""
  if x.dtype == y.dtype and jnp.issubdtype(x.dtype, jnp.floating):
    return x, y
  x, y = arithmetic.floating(x), arithmetic.floating(y)
  dtype = jnp.promote_types(x.dtype, y.dtype)
  return x.astype(dtype), y.astype(dtype)


def _squares(x: Array) -> Array:
  return jnp.sum(jnp.square(arithmetic.floating(x)), axis=-1)


def _unit(x: Array) -> Array:
  return arithmetic.safe_divide(arithmetic.floating(x), jnp.sqrt(_squares(x))[:, None])


# Sums of a few such numbers are finite in float32.
_LARGE = 1e36

_NAMED = {"dot": Partial(_dot), "cosine": Partial(_cosine), "l2": Partial(_l2)}


def scores(similarity: Partial, queries: Any, items: Any) -> Array:
  """Scores `[q, c]`, with checks of the shape and the dtype that a user's function returns."""
  values = similarity(queries, items)
  expected = tuple(jax.tree.leaves(x)[0].shape[0] for x in (queries, items))
  if getattr(values, "shape", None) != expected:
    got = getattr(values, "shape", type(values).__name__)
    raise ValueError(f"similarity must return scores [queries, items] = {expected}, got {got}.")
  return arithmetic.floating(checks.array("similarity", values))


def dtype_of(similarity: Partial, queries: Any, items: Any) -> Any:
  """The dtype of the scores."""
  return jax.eval_shape(scores, similarity, queries, items).dtype


def scores_of_own(similarity: Partial, queries: Any, items: Any) -> Array:
  """Scores `[q, p]` of items `[q, p, ...]`, each with its own query."""

  def of_query(query: Any, items: Any) -> Array:
    return scores(similarity, jax.tree.map(lambda x: x[None], query), items)[0]

  own: Array = jax.vmap(of_query)(queries, items)
  return own


def _is_named(similarity: Partial) -> bool:
  return similarity.func in [known.func for known in _NAMED.values()]


def finite_vectors(similarity: Partial, queries: Any) -> tuple[Any, Array | bool]:
  """Vectors of queries whose slopes reach no item that is NaN, and which had a NaN, `[q]`.

  The slope of an item is a sum over queries, in which that of a query of NaN would be `0 * NaN`. A
  function of the user may know what a NaN among its inputs means, and gets them as they are.
  """
  if not _is_named(similarity) or not jnp.issubdtype(queries.dtype, jnp.inexact):
    return queries, False
  return jnp.nan_to_num(queries), jnp.any(jnp.isnan(queries), axis=1)


def bounded(similarity: Partial, queries: Any, items: Any) -> Array:
  """Whether no score can be NaN or infinite, because all numbers are finite and small enough.

  It is True only for similarities by name.
  """
  if not _is_named(similarity):
    return jnp.zeros((), bool)
  # By Cauchy and Schwarz, no score and no part of one exceeds the larger of these sums by more than
  # a small factor. A NaN is not below anything. A maximum would do, but that of XLA for a CPU loses
  # a NaN from 4,096 numbers on (jaxlib 0.10.2).
  sums = (jnp.sum(jnp.square(x.astype(jnp.float32))) for x in (queries, items))
  of_queries, of_items = (x < _LARGE for x in sums)
  return of_queries & of_items
