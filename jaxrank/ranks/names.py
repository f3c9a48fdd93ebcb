"""Names of rank statistics: `resolve` and `parse` read names, `evaluate` computes many at once."""

import difflib
import functools
import re
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import batching, checks, sorting
from jaxrank.ranks import against_chance, metrics
from jaxrank.ranks._metric import RankMetric
from jaxrank.ranks.target import TargetRanks, floating

Side = Literal["head", "tail", "both"]
RankType = Literal["average", "optimistic", "realistic", "pessimistic"]

SIDES: tuple[Side, ...] = ("head", "tail", "both")
KINDS: tuple[RankType, ...] = ("average", "optimistic", "realistic", "pessimistic")
_SIDES: dict[str, Side] = {side: side for side in SIDES}
_KINDS: dict[str, RankType] = {
  **{kind: kind for kind in KINDS},
  "best": "optimistic",
  "worst": "pessimistic",
  "avg": "average",
}

# Every metric of `jaxrank.ranks` by its name.
METRICS: dict[str, RankMetric] = {
  x.statistic.name: x
  for module in (metrics, against_chance)
  for x in vars(module).values()
  if isinstance(x, RankMetric)
}


class Name(NamedTuple):
  """The parts of a name such as `both.average.hits_at_10`.

  Attributes:
    side: `"head"`, `"tail"` or `"both"`.
    kind: `"average"`, the mean over the orders of tied items; or the statistic of one rank for each
      target, `"optimistic"`, `"realistic"` (the mean rank) or `"pessimistic"`.
    metric: The statistic.
  """

  side: Side
  kind: RankType
  metric: RankMetric

  def __str__(self) -> str:
    return f"{self.side}.{self.kind}.{self.metric.name}"


def _check_name(name: Any) -> None:
  if not isinstance(name, str):
    raise TypeError(f"a name must be a string such as 'mrr', got {checks.told(name)}.")


def _normalized(name: str) -> str:
  """The name in lower case, without hyphens, underscores and spaces."""
  return re.sub(r"[-_ ]", "", name.lower())


_BY_NAME = {
  _normalized(name): metric
  for metric in METRICS.values()
  for name in (metric.statistic.name, *metric.synonyms)
}


def resolve(name: str) -> RankMetric:
  """Finds a metric by its name or a synonym, such as `mrr`, `hits@5` or `adjusted_hits_at_3`.

  Case, `-`, `_` and spaces have no effect. Names without a number, such as `hits@k`, have the
  cut-off 10.

  >>> print(resolve("Mean-Reciprocal-Rank").name, resolve("h@3").name, resolve("ah@k").name)
  inverse_harmonic_mean_rank hits_at_3 adjusted_hits_at_10

  Args:
    name: The name or a synonym; a number at its end is the cut-off.

  Returns:
    The metric.

  Raises:
    ValueError: if no metric has that name.
    TypeError: if the name is not a string.
  """
  with checks.named("ranks.resolve"):
    return _resolve(name)


def _resolve(name: str) -> RankMetric:
  _check_name(name)
  plain = _normalized(name)
  if plain in _BY_NAME:
    return _BY_NAME[plain]
  family = re.sub(r"\.?\d+$", "", plain)
  metric = _BY_NAME.get(family)
  # A minus is not a hyphen: `hits@-1` is not `hits@1`.
  if family != plain and metric is not None and metric.k is not None and "@-" not in name:
    return metric.at(int(plain.removeprefix(family).removeprefix(".")))
  near = difflib.get_close_matches(plain, _BY_NAME, n=1)
  hint = f"did you mean {_BY_NAME[near[0]].name!r}?" if near else "jr.ranks.METRICS has all names."
  raise ValueError(f"unknown rank statistic {name!r}; {hint}")


def parse(name: str) -> Name:
  """Parses a name of the form `side.kind.metric`; the defaults are both sides and the average.

  >>> print(parse("hits@5"), parse("head.realistic.mrr"))
  both.average.hits_at_5 head.realistic.inverse_harmonic_mean_rank

  Args:
    name: The name. `best`, `worst` and `avg` are synonyms of `optimistic`, `pessimistic` and
      `average`. PyKEEN means `realistic` by `average`, and where a name has no kind.

  Returns:
    The parts of the name.

  Raises:
    ValueError: if a part is unknown, or a metric that compares with chance is combined with
      optimistic or pessimistic ranks.
    TypeError: if the name is not a string.
  """
  with checks.named("ranks.parse"):
    return _parse(name)


def _parse(name: str) -> Name:
  _check_name(name)
  rest = name.split(".")
  side = _SIDES[rest.pop(0)] if rest[0] in _SIDES else "both"
  kind = _KINDS[rest.pop(0)] if rest and rest[0] in _KINDS else "average"
  metric = _resolve(".".join(rest))
  if metric.needs_candidates and kind in ("optimistic", "pessimistic"):
    raise ValueError(
      f"{metric.name} compares with chance, which {kind} ranks of tied items differ "
      f"from, got {name!r}; drop {kind!r}."
    )
  return Name(side, kind, metric)


def evaluate(
  names: str | Iterable[str],
  head: TargetRanks,
  tail: TargetRanks | None = None,
  *,
  head_query_weights: ArrayLike | None = None,
  tail_query_weights: ArrayLike | None = None,
) -> dict[str, Array]:
  """Computes many statistics of the ranks of one or two sides in one program.

  The value of both sides is the statistic of all their tasks together, not the mean of two values.

  >>> head = TargetRanks(jnp.array([1]), jnp.array([1]), jnp.array([5]))
  >>> tail = TargetRanks(jnp.array([2, 4]), jnp.array([2, 4]), jnp.array([5, 5]))
  >>> values = evaluate("mr head.mr tail.mr both.realistic.hits_at_1", head, tail)
  >>> print({name: f"{value:.2f}" for name, value in values.items()})
  {'mr': '2.33', 'head.mr': '1.00', 'tail.mr': '3.00', 'both.realistic.hits_at_1': '0.33'}

  Args:
    names: Names as `parse` reads them, in a list or in a string, separated by spaces.
    head: `TargetRanks` of the head, `[..., n]`.
    tail: `TargetRanks` of the tail, `[..., m]`; None if there is only one side, so that `"both"` is
      that side.
    head_query_weights: `[..., n]`, the weights of the tasks of the head, at least 0; None weights
      all tasks equally.
    tail_query_weights: `[..., m]`, the same for the tail.

  Returns:
    Values `[...]` by name.

  Raises:
    ValueError: if a name is unknown, or the shape of weights is not that of their ranks.
    TypeError: if names are not strings, or ranks are not `TargetRanks`.
  """
  with checks.named("ranks.evaluate"):
    names = _listed(names)
    parsed = [_parse(name) for name in names]
    if not parsed:
      raise ValueError("names must have at least one name such as 'mrr', got none.")
    sides = tuple(side for side in SIDES if side in {name.side for name in parsed})
    kinds = tuple(kind for kind in KINDS if kind in {name.kind for name in parsed})
    given = {"head": _with_weights("head", head, head_query_weights)}
    if tail is not None:
      given["tail"] = _with_weights("tail", tail, tail_query_weights)
      lead, other = (ranks.candidates.shape[:-1] for ranks, _ in given.values())
      if lead != other:
        raise ValueError(
          f"head and tail must have the same leading axes, got {list(lead)} and {list(other)}."
        )
    elif tail_query_weights is not None:
      raise ValueError("tail_query_weights need the ranks of the tail, got tail=None; pass tail=.")
    elif "tail" in sides:
      raise ValueError(f"names of the tail need its ranks, got {names} and tail=None; pass tail=.")
  values = by_side(sides, kinds, [name.metric for name in parsed], given)
  return {
    name: value[..., sides.index(known.side), kinds.index(known.kind)]
    for name, known, value in zip(names, parsed, values, strict=True)
  }


def _listed(names: Any) -> list[Any]:
  if isinstance(names, str):
    return names.split()
  if hasattr(names, "shape") or isinstance(names, TargetRanks) or not isinstance(names, Iterable):
    raise TypeError(
      f"names must be strings such as 'mrr', got {checks.told(names)}. Names are the first "
      "argument, as in ranks.evaluate('mrr', ranks)."
    )
  return list(names)


def _with_weights(side: Side, ranks: Any, query_weights: Any) -> tuple[TargetRanks, Array]:
  """The ranks of a side, and the weights of its tasks in the shape of the ranks."""
  if not isinstance(ranks, TargetRanks):
    raise TypeError(
      f"{side} must be TargetRanks, got {checks.told(ranks)}; make them with "
      "jr.ranks.from_scores, or of ranks and numbers of candidates: "
      "TargetRanks(ranks, ranks, candidates)."
    )
  if not ranks.candidates.ndim:
    raise ValueError(
      f"{side} must have shape [..., n], got the ranks of one task, []; pass [1], as of "
      "ranks.from_scores(scores[None], targets[None])."
    )
  shape, name = ranks.candidates.shape, f"{side}_query_weights"
  weights = checks.array(name, np.float32(1) if query_weights is None else query_weights)
  single = query_weights is not None and not weights.ndim
  if single or weights.ndim > len(shape) or weights.shape != shape[len(shape) - weights.ndim :]:
    raise ValueError(
      f"{name} must have the shape of the ranks, {shape}, got {weights.shape}; pass one weight per "
      "rank."
    )
  return ranks, jnp.broadcast_to(weights.astype(ranks.realistic.dtype), shape)


@functools.partial(jax.jit, static_argnums=(0, 1))
def by_side(
  sides: tuple[str, ...],
  kinds: tuple[str, ...],
  metrics: list[RankMetric],
  given: dict[str, tuple[TargetRanks, Array]],
) -> list[Array]:
  """Computes the values of each metric, `[..., sides, kinds]`.

  Every side is a row of all tasks, in which the tasks of the other side have weight 0. JAX thus
  compiles each metric once, rather than once for each side and kind.
  """

  def row(side: str) -> Array:
    kept = [w if side in (name, "both") else jnp.zeros_like(w) for name, (_, w) in given.items()]
    return jnp.concatenate(kept, axis=-1)

  ranks = jax.tree.map(lambda *x: jnp.concatenate(x, axis=-1), *(r for r, _ in given.values()))
  pairs = [_best_and_worst(ranks, kind) for kind in kinds]
  best, worst = (jnp.stack(x, axis=-2) for x in zip(*pairs, strict=True))
  weights = jnp.stack([row(side) for side in sides], axis=-2)
  shape = (*ranks.candidates.shape[:-1], len(sides), len(kinds), ranks.candidates.shape[-1])
  of_kinds = (x[..., None, :, :] for x in (best, worst))
  grid = [jnp.broadcast_to(x, shape) for x in (*of_kinds, ranks.candidates[..., None, None, :])]
  weights = jnp.broadcast_to(weights[..., :, None, :], shape)
  return [metric(TargetRanks(*grid), weights) for metric in metrics]


def _best_and_worst(ranks: TargetRanks, kind: str) -> tuple[Array, Array]:
  """The ranks of a kind, as those of targets that tie for all ranks between."""
  if kind == "average":
    return floating(ranks.optimistic), floating(ranks.pessimistic)
  one = floating(getattr(ranks, kind))
  return one, one


def macro_weights(groups: ArrayLike, *, where: ArrayLike | None = None) -> Array:
  """Weights with which every group of tasks counts once: the inverse of the size of the group.

  The tasks of a group share a query, such as the relation and the tail of the triples whose heads
  are ranked. Pass the result as `query_weights`, or to `evaluate` for each side.

  >>> print(macro_weights(jnp.array([7, 3, 7])))
  [0.5 1.  0.5]

  Args:
    groups: `[..., n]`, integers, the group of each task.
    where: `[..., n]`, boolean, False on padding, which gets weight 0; None is all True.

  Returns:
    `[..., n]`, float32.

  Raises:
    TypeError: if groups are not integers, or `where` is not boolean.
    ValueError: if shapes differ.
  """
  with checks.named("ranks.macro_weights"):
    groups = checks.array("groups", groups)
    if not jnp.issubdtype(groups.dtype, jnp.integer) or groups.ndim == 0:
      raise TypeError(
        f"groups must be integers [..., n], got {groups.dtype}{list(groups.shape)}; number the "
        "groups, as np.unique does with return_inverse=True."
      )
    if groups.dtype.itemsize < 4:
      groups = groups.astype(jnp.int32)
    mask = checks.mask(where, groups)
  weights: Array = _macro_weights(groups, mask)
  return weights


@jax.jit
def _macro_weights(groups: Array, where: Array) -> Array:
  def weigh(groups: Array, where: Array) -> Array:
    # The keys of integers of 32 bits or more are dense ranks, 0, 1, 2 and so on.
    group = jnp.where(where, sorting.keys(groups, where), groups.size)
    size = jnp.zeros(groups.size + 1, jnp.float32).at[group].add(1)
    return jnp.where(where, 1 / size[group], 0)

  weights: Array = batching.over_queries(weigh, groups.ndim - 1)(groups, where)
  return weights
