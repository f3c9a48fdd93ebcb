"""Internals of the adapter of ptranking: labels in rank order, as input of jaxrank's metrics."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrank import discounts
from jaxrank._core import checks
from jaxrank.interop import _lists


def at(metric: Callable[..., Any], lists: np.ndarray, ks: Any, **parameters: Any) -> np.ndarray:
  """The values of a metric for labels in rank order, `[lists, cutoffs]`.

  `parameters` have one value for each list.
  """
  if isinstance(ks, str) or not isinstance(ks, Iterable):
    raise TypeError(f"ks must be a sequence of cut-offs, got {ks!r}; pass [k] for one.")
  cutoffs = [lists.shape[1] or 1 if k is None else checks.cutoff(k, "a cut-off") for k in ks]
  k = _lists.padded(np.array(cutoffs, np.int32))
  given = {name: _lists.padded(np.asarray(x, np.float32)) for name, x in parameters.items()}
  labels, where = _lists.padded(lists), _lists.padded(np.ones(lists.shape[:2], bool))
  values = _ranked(metric, labels, where, k, given)
  return np.asarray(values)[: len(lists), : len(cutoffs)]


@functools.partial(jax.jit, static_argnums=0)
def _ranked(
  metric: Callable[..., Any], labels: Array, where: Array, ks: Array, parameters: dict[str, Array]
) -> Array:
  scores = -jnp.arange(labels.shape[1], dtype=jnp.float32)

  def query(labels, where, parameters):
    return jax.vmap(lambda k: metric(scores, labels, where=where, k=k, **parameters))(ks)

  return jax.vmap(query)(labels, where, parameters)


def array(name: str, x: Any) -> np.ndarray:
  """Converts numbers of any library to float32."""
  return _lists.numbers(name, x).astype(np.float32)


def as_lists(x: Any) -> np.ndarray:
  """Converts labels to an array `[queries, ranks]`, or `[subtopics, ranks]`."""
  x = array("rankings", x)
  if x.ndim != 2:
    raise ValueError(f"rankings must have two axes, the second of ranks, got shape {x.shape}.")
  return x


def pair(system: Any, ideal: Any) -> tuple[np.ndarray, np.ndarray]:
  """Converts the rankings and the ideal rankings of the same queries."""
  system, ideal = as_lists(system), as_lists(ideal)
  if len(system) != len(ideal):
    raise ValueError(
      "rankings must be as many as ideal ones, got "
      f"{len(system)} rankings and {len(ideal)} ideal ones."
    )
  return system, ideal


def best(max_label: Any, lists: np.ndarray) -> np.ndarray:
  """The best grade for each query, `[queries]`; for None, the best label of the query."""
  if max_label is not None:
    grades = array("max_label", max_label).reshape(-1)
    if len(grades) not in (1, len(lists)) or np.any(grades < 0):
      raise ValueError(
        f"max_label must be one number from 0 on, or one for each of {len(lists)} queries, got "
        f"{max_label!r}."
      )
    return np.broadcast_to(grades, (len(lists),))
  return lists.max(axis=tuple(range(1, lists.ndim)), initial=0)


def up_to(k: Any, lists: np.ndarray) -> range:
  """All cut-offs from 1 to `k`, or to the length of the lists for None."""
  last = checks.cutoff(k)
  return range(1, (lists.shape[1] if last is None else int(last)) + 1)


def discount(lists: np.ndarray) -> np.ndarray:
  """The logarithmic discount of each rank, `[1, ranks]`."""
  rank = jnp.arange(1, lists.shape[1] + 1, dtype=jnp.float32)
  return np.asarray(discounts.logarithmic(rank))[None]


def differences(x: np.ndarray) -> np.ndarray:
  """The differences `x_i - x_j` over the last axis, `[lists, ranks, ranks]`."""
  return x[:, :, None] - x[:, None]


def ratio(x: np.ndarray, y: Any) -> np.ndarray:
  """`x / y`, and 0 where `y` is 0."""
  return np.divide(x, y, out=np.zeros_like(x), where=y != 0)
