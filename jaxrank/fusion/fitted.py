"""`Fit`: the result of `fit`, in numbers and in words."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from jaxrank.fusion._define import NORMALISATIONS, found
from jaxrank.fusion.held_out import FEWEST, Choice, Gain, Pair

Normalize: TypeAlias = str | Callable[..., Array] | None


class Setting(NamedTuple):
  """How scores are fused, but for the weights.

  Attributes:
    normalize: The normalisation; None for none.
    parameters: The parameters of the method.
  """

  normalize: Normalize
  parameters: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Fit:
  """The result of `fit`; `print` shows it as a table with a recommendation.

  Calling it fuses scores of the same systems as it recommends.

  Attributes:
    method: The method.
    tuned: The normalisation and the parameters that were chosen with the tuned weights.
    equal: Those that were chosen for equal weights.
    systems: The names of the systems.
    weights: `[systems]`, the tuned weights, with sum 1.
    measure: The name of the measure.
    value: The mean of the measure with the tuned weights, on the queries that chose them.
    equal_value: That with equal weights, on the queries that chose their setting.
    system_values: `[systems]`, the means of the systems alone.
    values: `[queries]` by the names "equal", "single" and "tuned": the cross-validated values of
      equal weights, of the best system, and of the best weights, as the other folds choose them.
    gains: By pairs of these names, how much better the first one is.
    recommendation: "equal" for equal weights, "single" for one system, or "tuned".
    best_system: The name of the system with the best value.
    refined: Whether the weights are between the points of the grid.
    count: The number of queries, or of groups if there are any.
    grid: `[points, systems]`, the weights of the grid.
    grid_values: `[points]`, their means, with the setting of the tuned weights.
  """

  method: Callable[..., Array]
  tuned: Setting
  equal: Setting
  systems: tuple[str, ...]
  weights: np.ndarray
  measure: str
  value: float
  equal_value: float
  system_values: np.ndarray
  values: Mapping[Choice, np.ndarray]
  gains: Mapping[Pair, Gain]
  recommendation: Choice
  best_system: str
  refined: bool
  count: int
  grid: np.ndarray
  grid_values: np.ndarray

  @property
  def recommended_weights(self) -> np.ndarray:
    """`[systems]`, the weights that are recommended, with sum 1."""
    n = len(self.systems)
    if self.recommendation == "single":
      return np.asarray(np.eye(n)[self.systems.index(self.best_system)])
    return self.weights if self.recommendation == "tuned" else np.full(n, 1 / n)

  @property
  def advice(self) -> str:
    """The recommendation in a sentence, with its reason."""
    tuned, alone = self.gains["tuned", "equal"], self.gains["single", "equal"]
    equal = "equal weights"
    if self.equal != self.tuned:
      equal += f", {self._called(self.equal)}"
    if self.count < FEWEST:
      return (
        f"Use {equal}: nothing can be learnt from fewer than {FEWEST} queries (or groups), "
        f"and there are {self.count}."
      )
    if self.recommendation == "tuned":
      chosen = self._weights(2)
      return f"Use the tuned weights, {chosen}: held out, they gain {tuned} over equal weights."
    if self.recommendation == "single":
      return (
        f"Use {self.best_system} alone: held out, it gains {alone} over equal weights; the gain "
        f"of tuned weights over it, {self.gains['tuned', 'single']}, is not proven."
      )
    return (
      f"Use {equal}: held out, the gain of tuned ones, {tuned}, is not proven, nor that of "
      f"{self.best_system} alone, {alone}."
    )

  def __call__(
    self,
    scores: ArrayLike,
    *,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
  ) -> Array:
    """Fused scores of scores of the same systems, as is recommended.

    If one system is recommended, these are its own scores.

    Args:
      scores: `[systems, ..., n]`.
      where: `[..., n]`, False on padding.
      weights: Other weights, such as `fit.weights`, which are used with the setting of those.

    Returns:
      `[..., n]`.
    """
    if weights is None and self.recommendation == "single":
      return jnp.asarray(scores)[self.systems.index(self.best_system)]
    equal = weights is None and self.recommendation == "equal"
    setting = self.equal if equal else self.tuned
    if setting.normalize is not None:
      scores = found("normalize", setting.normalize, NORMALISATIONS)(scores, where=where)
    chosen = jnp.asarray(self.recommended_weights if weights is None else weights)
    chosen = chosen.astype(jnp.result_type(float))
    return self.method(scores, where=where, weights=chosen, **setting.parameters)

  def __str__(self) -> str:
    mean = {name: f"{np.mean(x):.4f}" for name, x in self.values.items()}
    alone = {
      name: f"{value:.4f}" for name, value in zip(self.systems, self.system_values, strict=True)
    }
    rows = [
      ("", "value", "held out", "gain over equal weights, held out"),
      *((name, value, "", "") for name, value in alone.items()),
      ("equal weights", f"{self.equal_value:.4f}", mean["equal"], ""),
      ("best system", alone[self.best_system], mean["single"], str(self.gains["single", "equal"])),
      ("tuned weights", f"{self.value:.4f}", mean["tuned"], str(self.gains["tuned", "equal"])),
    ]
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = str.ljust, str.rjust, str.rjust, str.ljust
    table = (
      "  ".join(side(cell, n) for side, cell, n in zip(left, row, wide, strict=True)).rstrip()
      for row in rows
    )
    title = f"{self.measure} of {len(self.values['equal'])} queries, {self._called(self.tuned)}"
    over = f"tuned weights over the best system, held out: {self.gains['tuned', 'single']}"
    return "\n".join([title, *table, f"tuned weights: {self._weights(3)}", over, self.advice])

  def _called(self, setting: Setting) -> str:
    """The call of the method, without scores and weights."""
    given = {"normalize": setting.normalize, **setting.parameters}
    words = (f"{name}={_shown(x)}" for name, x in given.items() if x is not None)
    return f"{_shown(self.method)}({', '.join(words)})"

  def _weights(self, digits: int) -> str:
    pairs = zip(self.systems, self.weights, strict=True)
    return ", ".join(f"{name} {weight:.{digits}f}" for name, weight in pairs)


def _shown(x: Any) -> str:
  return f"{x:g}" if isinstance(x, float) else str(getattr(x, "__name__", x))
