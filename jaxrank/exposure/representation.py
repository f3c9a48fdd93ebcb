"""Attention-weighted rank fairness, and the divergence that it takes by default."""

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank import discounts
from jaxrank._base import Cutoff, Discount
from jaxrank._core import checks
from jaxrank._core.apply import Lists, metric, ranked_query
from jaxrank._core.arithmetic import floating, kept_within, steady_divide
from jaxrank._core.description import DISTANCE, VECTOR
from jaxrank._core.ranked import Ranking
from jaxrank.exposure._inputs import group_exposures, of_groups
from jaxrank.rankings.exact import Exact


def jensen_shannon(p: ArrayLike, q: ArrayLike) -> Array:
  """The Jensen-Shannon divergence of distributions, in bits.

  `(KL(p || m) + KL(q || m)) / 2` with `m = (p + q) / 2` and logarithms of base 2. Its square root
  is the Jensen-Shannon distance.

  >>> print(f"{jensen_shannon(jnp.array([0.5, 0.5]), jnp.array([1.0, 0.0])):.5f}")
  0.31128

  Args:
    p: `[..., groups]`, at least 0, of sum 1.
    q: `[..., groups]`, at least 0, of sum 1.

  Returns:
    `[...]`, in [0, 1].

  References:
    Lin, `Divergence measures based on the Shannon entropy <https://doi.org/10.1109/18.61115>`_,
    1991.
  """
  with checks.named("jensen_shannon"):
    p, q = (floating(checks.array(name, x)) for name, x in (("p", p), ("q", q)))
    checks.same_shape("p", p, "q", q)
  apart = steady_divide(p - q, p + q)

  def bits(x: Array, apart: Array) -> Array:
    # `x log(1 + apart)`, with full relative precision where the shares are about equal.
    some, near = x > 0, jnp.abs(apart) < 0.5
    log = jnp.log1p(jnp.where(near, apart, 0))
    far = jnp.log(jnp.where(some & ~near, steady_divide(2 * x, p + q), 1))
    return jnp.where(some, x * jnp.where(near, log, far), 0)

  divergence = jnp.sum(bits(p, apart) + bits(q, -apart), axis=-1) / (2 * math.log(2.0))
  return kept_within(divergence, (0.0, 1.0))


def _checked(scores: Any, where: Any, groups: Any, target: Any, n_groups: Any) -> Lists:
  """The lists, after the checks of values."""
  _check_target(target, where)
  return of_groups(scores, where, groups, n_groups)


def _check_target(target: Any, where: Any) -> None:
  """Raises `ValueError` unless the targets of queries with an item are shares, or are traced."""
  given = checks.array("target", target)
  if not (checks.is_known(given) and checks.is_known(where)) or not given.ndim:
    return
  shares = np.asarray(given, float)
  total = shares.sum(axis=-1)
  wrong = ~(np.all(shares >= 0, axis=-1) & (total > 0) & np.isfinite(total))
  valid = np.any(True if where is None else np.asarray(where), axis=-1)
  if shares.ndim == 1 or valid.shape not in ((), wrong.shape):
    # Other shapes are refused where they are used.
    valid = np.asarray(shares.ndim == 1)
  if np.any(wrong & valid):
    first = shares[tuple(np.argwhere(wrong & valid)[0])].tolist()
    raise ValueError(
      f"target must be shares from 0 with a positive sum, got {first}; jnp.ones({len(first)}) are "
      "equal shares."
    )


@metric(lists=_checked, target=VECTOR, distance=DISTANCE, seeks="any items", listed=False)
def awrf(
  scores: ArrayLike,
  groups: ArrayLike,
  target: ArrayLike,
  *,
  n_groups: int,
  where: ArrayLike | None = None,
  k: Cutoff = None,
  discount: Discount = discounts.logarithmic,
  distance: Callable[[Array, Array], Array] = jensen_shannon,
  ranking: Ranking = Exact(),
) -> Array:
  """Attention-weighted rank fairness: how near the exposures of groups are to target shares.

  `AWRF = 1 - distance(p, q)`, with the shares `p` of the groups in the exposure, and target shares
  `q`.

  >>> scores, groups = jnp.array([3.0, 2.0, 1.0]), jnp.array([0, 1, 0])
  >>> print(f"{awrf(scores, groups, jnp.array([0.5, 0.5]), n_groups=2):.5f}")
  0.96843

  See `jaxrank.exposure` for the arguments that its functions share.

  Args:
    target: `[n_groups]` or `[..., n_groups]`, target shares, divided by their sum. Shares below 0,
      or all of 0, raise `ValueError`, or make the value NaN if they are traced.
    distance: A function of two distributions `[n_groups]` to a number, by default the
      Jensen-Shannon divergence of base 2.

  Returns:
    `[...]`, in [0, 1] for a distance in [0, 1]; higher is better. 0 if there is no exposure.

  References:
    Sapiezynski et al., `Quantifying the impact of user attention on fair group representation in
    ranked lists <https://doi.org/10.1145/3308560.3317595>`_, 2019.
  """
  ranked = ranked_query(scores, where=where, ranking=ranking)
  exposures = group_exposures(ranked, groups, n_groups, discount, k)
  goal = jnp.asarray(target).astype(ranked.dtype)
  if goal.shape != (n_groups,):
    raise ValueError(
      f"target must have a share for each of {n_groups} groups, [..., {n_groups}], got "
      f"{goal.shape[0]}."
    )
  far = distance(*(steady_divide(x, jnp.sum(x)) for x in (exposures, goal)))
  known = jnp.all(goal >= 0) & (jnp.sum(goal) > 0)
  return jnp.where(jnp.sum(exposures) == 0, 0, jnp.where(known, 1 - far, jnp.nan))
