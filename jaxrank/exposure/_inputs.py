"""Groups of items: checks, memberships and exposures."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank._base import Cutoff, Discount
from jaxrank._core import checks
from jaxrank._core.apply import Lists
from jaxrank._core.ranked import Ranked


def of_groups(scores: Any, where: Any, groups: Any, n_groups: Any) -> Lists:
  """The lists of a function without labels, after the check of the ids of groups."""
  check_ids(groups, n_groups, where)
  return scores, checks.no_labels(scores), where


def check_ids(groups: Any, n_groups: Any, where: Any) -> None:
  """Raises unless the group ids of valid items are in range; traced arrays have no value to check.

  Raises:
    TypeError: if `groups` are floats `[..., n]`, or `n_groups` is no int.
    ValueError: if an id is out of range.
  """
  count = checks.count("n_groups", n_groups)
  given = checks.array("groups", groups)
  where = None if where is None else checks.array("where", where)
  if where is not None and where.dtype != jnp.bool_:
    # Refused where it is used.
    return
  known = checks.is_known(given) and checks.is_known(where)
  if not known or jnp.issubdtype(given.dtype, jnp.floating):
    return
  ids, valid = np.asarray(given), np.asarray(True if where is None else where)
  if valid.ndim and ids.shape != valid.shape:
    return
  wrong = ids[valid & ((ids < 0) | (ids >= count))]
  if wrong.size:
    raise ValueError(
      f"groups must be ids from 0 to {count - 1}, one of {count} groups, got {wrong[0]}; if such "
      f"items are in none of the groups, pass the memberships jax.nn.one_hot(groups, {count}), "
      "with which they keep their ranks: where=False would move those of the items behind them."
    )


def memberships(ranked: Ranked, groups: ArrayLike, n_groups: int) -> Array:
  """The memberships of one query, `[n, n_groups]`: 0 under the mask, NaN for ids out of range."""
  n_groups, groups = checks.count("n_groups", n_groups), jnp.asarray(groups)
  if groups.ndim == 1:
    if jnp.issubdtype(groups.dtype, jnp.floating):
      raise TypeError(
        f"groups must be integer ids [..., n] or memberships [..., n, {n_groups}], got "
        f"{groups.dtype} of the shape of the scores."
      )
    ids = groups.astype(jnp.int32)[:, None]
    member = (ids == jnp.arange(n_groups, dtype=jnp.int32)[None]).astype(ranked.dtype)
    member = jnp.where((ids < 0) | (ids >= n_groups), jnp.nan, member)
  else:
    member = groups.astype(ranked.dtype)
    if groups.shape[1] != n_groups:
      raise ValueError(
        f"groups must have a membership for each of {n_groups} groups, [..., n, {n_groups}], got "
        f"{groups.shape[1]}."
      )
  return jnp.where(ranked.where[:, None], member, 0)


def group_exposures(
  ranked: Ranked, groups: ArrayLike, n_groups: int, discount: Discount, k: Cutoff
) -> Array:
  """The sums of the exposures of the items of each group of one query, `[n_groups]`."""
  member = memberships(ranked, groups, n_groups)
  return ranked.total(member * ranked.exposure(discount, k=k)[:, None])
