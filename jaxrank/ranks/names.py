"""Names of rank statistics: `resolve`, `parse`, and `evaluate` by name, side and macro weights."""

import difflib
import functools
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import batching, checks, sorting
from jaxrank.ranks import adjusted, metrics
from jaxrank.ranks._metric import RankMetric
from jaxrank.ranks.target import TargetRanks, floating

SIDES = ("head", "tail", "both")
KINDS = ("optimistic", "realistic", "pessimistic")
_SYNONYMS = {"best": "optimistic", "worst": "pessimistic", "avg": "realistic"}
_KINDS = {kind: kind for kind in KINDS} | _SYNONYMS | {"average": "realistic"}

METRICS = {
  x.statistic.name: x
  for module in (metrics, adjusted)
  for x in vars(module).values()
  if isinstance(x, RankMetric)
}


class Name(NamedTuple):
  """What a name such as `both.realistic.hits_at_10` names.

  Attributes:
    side: "head", "tail" or "both".
    kind: "optimistic", "realistic" or "pessimistic".
    metric: The statistic.
  """

  side: str
  kind: str
  metric: RankMetric

  def __str__(self) -> str:
    return f"{self.side}.{self.kind}.{self.metric.name}"


def _check_name(name: str) -> None:
  if not isinstance(name, str):
    raise TypeError(f"a name must be a string such as 'mrr', got {name!r}.")


def _plain(name: str) -> str:
  return re.sub(r"[-_ ]", "", name.lower())


_BY_NAME = {
  _plain(name): metric
  for metric in METRICS.values()
  for name in (metric.statistic.name, *metric.synonyms)
}


def resolve(name: str) -> RankMetric:
  """The statistic of a name or synonym, such as `mrr`, `hits@5` or `adjusted_hits_at_3`.

  Case, `-`, `_` and spaces make no difference; `hits@k` and the like are at 10.

  >>> print(resolve("Mean-Reciprocal-Rank").name, resolve("h@3").name, resolve("ah@k").name)
  inverse_harmonic_mean_rank hits_at_3 adjusted_hits_at_10

  Args:
    name: The name.

  Returns:
    The statistic.

  Raises:
    ValueError: if there is none of that name.
    TypeError: if it is no string.
  """
  _check_name(name)
  plain = _plain(name)
  if plain in _BY_NAME:
    return _BY_NAME[plain]
  family = re.sub(r"\.?\d+$", "", plain)
  metric = _BY_NAME.get(family)
  # A minus is not a hyphen: `hits@-1` is not `hits@1`.
  if family != plain and metric is not None and metric.k is not None and "@-" not in name:
    return metric.at(int(plain.removeprefix(family).removeprefix(".")))
  near = difflib.get_close_matches(plain, _BY_NAME, n=1)
  hint = f"; did you mean {_BY_NAME[near[0]].name!r}?" if near else ""
  raise ValueError(f"unknown rank statistic {name!r}{hint}")


def parse(name: str) -> Name:
  """Reads `side.kind.metric`, of which side and kind may be missing: both sides, realistic ranks.

  >>> print(parse("hits@5"), parse("head.mrr"))
  both.realistic.hits_at_5 head.realistic.inverse_harmonic_mean_rank

  Args:
    name: The name; `best`, `worst`, `avg` and `average` are kinds too.

  Returns:
    Its parts.

  Raises:
    ValueError: if a part is unknown, or a comparison with chance is asked of ranks that are not
      realistic.
  """
  _check_name(name)
  rest = name.split(".")
  side = rest.pop(0) if rest[0] in SIDES else "both"
  kind = _KINDS[rest.pop(0)] if rest and rest[0] in _KINDS else "realistic"
  metric = resolve(".".join(rest))
  if metric.needs_candidates and kind != "realistic":
    raise ValueError(
      f"{metric.name} compares realistic ranks with chance, got {name!r}; drop {kind!r}."
    )
  return Name(side, kind, metric)


def evaluate(
  names: str | Iterable[str],
  head: TargetRanks,
  tail: TargetRanks | None = None,
  *,
  head_weights: ArrayLike | None = None,
  tail_weights: ArrayLike | None = None,
) -> dict[str, Array]:
  """Many statistics of the ranks of one or two sides, in one program.

  Both sides together are all of their tasks, not the mean of two values.

  >>> head = TargetRanks(jnp.array([1]), jnp.array([1]), jnp.array([5]))
  >>> tail = TargetRanks(jnp.array([2, 4]), jnp.array([2, 4]), jnp.array([5, 5]))
  >>> values = evaluate("mr head.mr tail.mr both.realistic.hits_at_1", head, tail)
  >>> print({name: f"{value:.2f}" for name, value in values.items()})
  {'mr': '2.33', 'head.mr': '1.00', 'tail.mr': '3.00', 'both.realistic.hits_at_1': '0.33'}

  Args:
    names: Names as `parse` reads them, in a list or with spaces between.
    head: Ranks `[..., n]`.
    tail: Ranks `[..., m]`; None where there is one side, which is then both.
    head_weights: `[..., n]`.
    tail_weights: `[..., m]`.

  Returns:
    Values `[...]` by name.

  Raises:
    ValueError: if a name is unknown, or shapes do not go together.
  """
  names = names.split() if isinstance(names, str) else list(names)
  parsed = [parse(name) for name in names]
  if not parsed:
    raise ValueError("names must name one statistic at least, such as 'mrr'.")
  sides = tuple(side for side in SIDES if side in {name.side for name in parsed})
  kinds = tuple(kind for kind in KINDS if kind in {name.kind for name in parsed})
  given = {"head": _given("head", head, head_weights)}
  if tail is not None:
    given["tail"] = _given("tail", tail, tail_weights)
  elif "tail" in sides:
    raise ValueError("these names ask for the tail: pass its ranks, tail=.")
  values = by_side(sides, kinds, [name.metric for name in parsed], given)
  return {
    name: value[..., sides.index(asked.side), kinds.index(asked.kind)]
    for name, asked, value in zip(names, parsed, values, strict=True)
  }


def _given(side: str, ranks: Any, weights: Any) -> tuple[TargetRanks, Array]:
  if not isinstance(ranks, TargetRanks):
    raise TypeError(f"{side} must be TargetRanks, as from_scores gives them, got {ranks!r}.")
  shape = ranks.candidates.shape
  weights = checks.array(f"{side}_weights", np.float32(1) if weights is None else weights)
  if weights.ndim > len(shape) or weights.shape != shape[len(shape) - weights.ndim :]:
    raise ValueError(
      f"{side}_weights must have the shape of its ranks, {shape}, got {weights.shape}."
    )
  return ranks, jnp.broadcast_to(weights.astype(ranks.realistic.dtype), shape)


@functools.partial(jax.jit, static_argnums=(0, 1))
def by_side(
  sides: tuple[str, ...],
  kinds: tuple[str, ...],
  metrics: list[RankMetric],
  given: dict[str, tuple[TargetRanks, Array]],
) -> list[Array]:
  """`[..., sides, kinds]` for each metric.

  A side is a row of all tasks that gives those of the other no weight: there is one program of
  each metric to compile, not one for each side and kind.
  """

  def row(side: str) -> Array:
    kept = [w if side in (name, "both") else jnp.zeros_like(w) for name, (_, w) in given.items()]
    return jnp.concatenate(kept, axis=-1)

  ranks = jax.tree.map(lambda *x: jnp.concatenate(x, axis=-1), *(r for r, _ in given.values()))
  by_kind = jnp.stack([floating(getattr(ranks, kind)) for kind in kinds], axis=-2)
  weights = jnp.stack([row(side) for side in sides], axis=-2)
  shape = (*ranks.candidates.shape[:-1], len(sides), len(kinds), ranks.candidates.shape[-1])
  grid = [
    jnp.broadcast_to(x, shape)
    for x in (
      by_kind[..., None, :, :],
      weights[..., :, None, :],
      ranks.candidates[..., None, None, :],
    )
  ]
  return [metric(grid[0], grid[1], candidates=grid[2]) for metric in metrics]


def macro_weights(groups: ArrayLike, *, where: ArrayLike | None = None) -> Array:
  """Weights that count every group once: one over the size of the group of a task.

  A group is the query that tasks share, the relation and the tail of a triple whose head is asked
  for. Weights of both sides together count each group of each side once.

  >>> print(macro_weights(jnp.array([7, 3, 7])))
  [0.5 1.  0.5]

  Args:
    groups: `[..., n]`, integers.
    where: `[..., n]`, False on padding, which gets weight 0.

  Returns:
    `[..., n]`, float32.

  Raises:
    TypeError: if groups are not integers, or `where` is not boolean.
    ValueError: if shapes differ.
  """
  groups = checks.array("groups", groups)
  if not jnp.issubdtype(groups.dtype, jnp.integer) or groups.ndim == 0:
    raise TypeError(f"groups must be integers [..., n], got {groups.dtype}{list(groups.shape)}.")

  if groups.dtype.itemsize < 4:
    groups = groups.astype(jnp.int32)
  return _macro_weights(groups, checks.mask(where, groups))


@jax.jit
def _macro_weights(groups: Array, where: Array) -> Array:
  def weigh(groups: Array, where: Array) -> Array:
    # Keys of wide integers are dense: from 0 on, without gaps.
    group = jnp.where(where, sorting.keys(groups, where), groups.size)
    size = jnp.zeros(groups.size + 1, jnp.float32).at[group].add(1)
    return jnp.where(where, 1 / size[group], 0)

  return batching.over_queries(weigh, groups.ndim - 1)(groups, where)
