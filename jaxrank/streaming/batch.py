"""Internals of `Evaluator.update`: the values of a batch of queries, and what they add to a state.

`evaluator`, `summary` and `reservoir` import it.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxrank._base import Aggregation
from jaxrank._core import arithmetic, checks
from jaxrank.measures.measure import Measure
from jaxrank.streaming import moments
from jaxrank.streaming.moments import Moments


class Queries(NamedTuple):
  """A batch of evaluated queries, with any leading axes.

  Attributes:
    values: `[..., measures]`.
    weight: `[...]`, in the dtype of the values.
    group: `[...]`, int32, from 0 to the number of groups - 1.
    kept: `[..., measures]`, whether the mean includes the value.
    empty: `[..., measures]`, whether the query holds nothing that the measure seeks.
    invalid: `[...]`, whether the query counts as invalid.
  """

  values: Array
  weight: Array
  group: Array
  kept: Array
  empty: Array
  invalid: Array


class Rules(NamedTuple):
  """The settings of an evaluator that its compiled programs depend on.

  Attributes:
    empty: The policy for empty queries.
    groups: The number of groups, or None.
    aggregations: How the values of each measure become one.
  """

  empty: str
  groups: int | None
  aggregations: tuple[Aggregation, ...]


def rules(measures: tuple[Measure, ...], empty: str, groups: int | None) -> Rules:
  """The rules of an evaluator with these settings."""
  return Rules(empty, groups, tuple(measure.description.aggregation for measure in measures))


def queries(
  rules: Rules, values: Array, found: Array, live: Array, weight: Array, group: Array
) -> Queries:
  """Determines which values count, and which queries are empty or invalid.

  Args:
    rules: The settings of the evaluator.
    values: `[..., measures]`.
    found: `[..., measures]`, whether the query holds what the measure seeks.
    live: `[...]`, whether the query has a candidate.
    weight: `[...]`, the weight of the query.
    group: `[...]`, int32, the group of the query, which may be out of range.
  """
  last = (rules.groups or 1) - 1
  proper = jnp.all(jnp.isfinite(values), -1) & jnp.isfinite(weight) & (weight >= 0)
  proper = proper & (group >= 0) & (group <= last)
  live = live & (weight != 0)
  valid = (live & proper)[..., None]
  if rules.empty == "one":
    # The values of "exp_mean" are logarithms.
    one = jnp.asarray([how != "exp_mean" for how in rules.aggregations], values.dtype)
    values = jnp.where(found, values, one)
  kept = valid & found if rules.empty == "skip" else valid & jnp.ones_like(found)
  return Queries(values, weight, jnp.clip(group, 0, last), kept, valid & ~found, live & ~proper)


def weight(query_weights: Any, like: Array) -> Array:
  """The weight of each query, in the shape and dtype of `like`; None gives ones."""
  if query_weights is None:
    return jnp.ones_like(like)
  weights = arithmetic.floating(checks.array("query_weights", query_weights)).astype(like.dtype)
  checks.same_shape("query_weights", weights, "the queries", like)
  return weights


def group(groups: Any, expected: int | None, like: Array) -> Array:
  """The group of each query, int32, in the shape of `like`; `expected` is the number of groups."""
  if (groups is None) != (expected is None):
    got = "none" if groups is None else "some"
    raise ValueError(
      f"the evaluator has groups={expected}, and groups= here are {got}; pass both or neither."
    )
  if groups is None:
    return jnp.zeros_like(like, jnp.int32)
  numbers = checks.array("groups", groups)
  if not jnp.issubdtype(numbers.dtype, jnp.integer):
    raise TypeError(f"groups must be integers from 0, one for each query, got {numbers.dtype}.")
  checks.same_shape("groups", numbers, "the queries", like)
  return numbers.astype(jnp.int32)


def tally(
  queries: Queries, groups: int | None
) -> tuple[Array, Array, Array, Moments, Array, Array]:
  """What a state has of the queries but for a sample; per group if there are any."""
  axes = tuple(range(queries.group.ndim))

  def of(these: Array) -> tuple[Array, Array, Array, Moments, Array, Array]:
    kept, empty = (x & these[..., None] for x in (queries.kept, queries.empty))
    count, none, bad = (
      jnp.sum(x, axes, jnp.uint32) for x in (kept, empty, queries.invalid & these)
    )
    weights = jnp.where(kept, queries.weight[..., None], 0)
    values = queries.values.astype(jnp.float32)
    least, largest = (
      end(values, axes, initial=without, where=kept)
      for end, without in ((jnp.min, jnp.inf), (jnp.max, -jnp.inf))
    )
    return count, none, bad, moments.of(queries.values, weights), least, largest

  if groups is None:
    return of(jnp.ones_like(queries.invalid))
  return jax.vmap(lambda g: of(queries.group == g))(jnp.arange(groups, dtype=jnp.int32))
