"""The law that derivatives of a loss are slopes, in scores and in numbers of the signature."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrank._core._jax import enable_x64
from jaxrank.testing.asking import Metric
from jaxrank.testing.asking_losses import Both, LossLaw
from jaxrank.testing.exact import untied
from jaxrank.testing.queries import Case

# Central differences of fourth order, in units of the step: where, and with which weights.
_POINTS = np.array([0.0, 1.0, -1.0, 2.0, -2.0])
_WEIGHTS = np.array([0.0, 8.0, -8.0, -1.0, 1.0]) / 12
_STEP = 1e-3
# Numbers stand at these multiples of their defaults; below them, so that a share stays a share. One
# whose default is 0 stands as far from it as one whose default is 1.
_FACTORS = (1.0, 0.8, 0.45)
_SINGLE_TOLERANCE = 1e-4


class _Line(NamedTuple):
  """A line through scores and numbers: its start, its direction, its unit, and its name."""

  scores: np.ndarray
  leaves: list[np.ndarray]
  by_scores: np.ndarray
  by_leaves: list[np.ndarray]
  unit: np.ndarray
  text: str

  def at(self, step: float) -> tuple[np.ndarray, list[np.ndarray]]:
    """The scores and the numbers at some steps from the start."""
    moved = [x + step * d for x, d in zip(self.leaves, self.by_leaves, strict=True)]
    # An item at -inf does not move.
    scores = np.where(self.by_scores == 0, self.scores, self.scores + step * self.by_scores)
    return scores, moved


def check_derivatives(
  loss: Metric,
  case: Case,
  *,
  parameters: Iterable[str] | None = None,
  tolerance: float = 1e-7,
) -> int:
  """Derivatives in the scores and in the numbers of the signature are slopes.

  By `jax.vjp`, and by `jax.jvp` unless a rule of `jax.custom_vjp` refuses it, they are held against
  central differences of fourth order in float64, at scores without ties in the order of those of
  the case, far apart and close together.
  Gradients in float32 are those in float64, up to 1e-4.
  """
  statement = "derivatives are slopes"
  with LossLaw("derivatives", statement, loss, case, tolerance) as law:
    queries = law.programs.filled(law.case.arrays(lambda x: x.reshape(-1, x.shape[-1])))
    queries = queries._replace(labels=queries.labels.astype(np.float32))
    n = queries.scores.shape[-1]
    spread = 0.75 * untied(queries, np.arange(n)) + 0.1 * np.cos(3 * np.arange(n))
    spread = spread.astype(np.float32)
    single = law.both(queries._replace(scores=spread))
    with enable_x64():
      for scale in (1.0, 0.02):
        double = queries.arrays(lambda x: x.astype(np.float64 if x.dtype != bool else bool))
        double = double._replace(scores=scale * spread.astype(np.float64))
        slopes = _held(law, double, parameters, scale)
        if scale == 1:
          wide = Both(single.values, slopes, lambda query: "the same in float64")
          law.parallel(single, wide, _SINGLE_TOLERANCE)
  return law.compared


def _held(
  law: LossLaw, queries: Case, parameters: Iterable[str] | None, scale: float
) -> np.ndarray:
  """Holds derivatives against differences; returns the gradients in the scores `[Q, n]`."""
  lines, tree = _lines(law.programs.given(parameters, *queries.scores.shape), queries, scale)
  law.asked = queries
  columns = [line.at(step) for line in lines for step in _POINTS]
  moves = [(line.by_scores, line.by_leaves) for line in lines for _ in _POINTS]
  count, (size, n) = len(columns), queries.scores.shape

  def flat(parts: Iterable[tuple[np.ndarray, list[np.ndarray]]]) -> tuple[Any, Any]:
    scores, leaves = zip(*parts, strict=True)
    joined = [np.concatenate(x) for x in zip(*leaves, strict=True)]
    return np.concatenate(scores), jax.tree.unflatten(tree, joined)

  (scores, given), directions = flat(columns), flat(moves)
  labels, where = (np.tile(x, (count, 1)) for x in (queries.labels, queries.valid))
  probed = law.programs.probe(scores, labels, where, given, directions)
  values, slopes, rises = jax.tree.map(np.asarray, probed)
  if values.shape != (count * size,):
    law.fail(f"The loss of one query must have shape (), got {values.shape[1:]}.")
  pairs = zip(jax.tree.leaves(slopes), jax.tree.leaves(directions), strict=True)
  with np.errstate(invalid="ignore"):
    products = [np.reshape(slope * move, (count, size, -1)) for slope, move in pairs]
  product = np.concatenate(products, -1)
  values = values.reshape(len(lines), len(_POINTS), size)
  pulls, sizes = (np.sum(x, -1).reshape(values.shape)[:, 0] for x in (product, np.abs(product)))
  expected = np.einsum("lpq,p->lq", values, _WEIGHTS)
  room = law.tolerance * (np.abs(expected) + np.nan_to_num(sizes)) + 1e-13 * (
    1 + np.abs(values[:, 0])
  )
  ways = {"jax.vjp": pulls}
  if rises is not None:
    ways = {"jax.jvp": rises.reshape(values.shape)[:, 0], **ways}
  for how, got in ways.items():
    law.compared += got.size
    wrong = np.argwhere(~(np.abs(got - expected) <= room))
    if len(wrong):
      line, query = map(int, wrong[0])
      unit = lines[line].unit[query]
      law.fail(
        f"{lines[line].text}, by {how}, of\n{law.text(queries, (query,))}\n"
        f"is {got[line, query] / unit:.8g}, but its difference quotient is "
        f"{expected[line, query] / unit:.8g}."
      )
  shaped: np.ndarray = slopes[0].reshape(count, size, n)[0]
  return shaped


def _lines(given: dict[str, Any], queries: Case, scale: float) -> tuple[list[_Line], Any]:
  """The lines along which derivatives are held against differences, and the tree of numbers."""
  paths, tree = jax.tree.flatten_with_path(given)
  names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths]
  starts = [x for _, x in paths]
  size, n = queries.scores.shape
  moving = queries.valid & np.isfinite(queries.scores)
  wave = _STEP * np.cos(1 + 2 * np.arange(n))
  along, still = np.where(moving, scale * wave, 0), np.zeros((size, n))

  def lines() -> Iterator[_Line]:
    for factor in _FACTORS if paths else _FACTORS[:1]:
      leaves = [
        factor * x + (1 - factor) * (x == 0) if x.ndim == 1 else x + 300 * (1 - factor) * wave
        for x in starts
      ]
      rest = [0 * x for x in leaves]
      known = zip(names, leaves, strict=True)
      at = ", ".join(f"{name}={x[0]:.4g}" for name, x in known if x.ndim == 1)
      where = f" at {at}" if at else ""
      unit = np.full(size, scale * _STEP)
      text = f"The slope along cos(1 + 2 i){where}"
      yield _Line(queries.scores, leaves, along, rest, unit, text)
      for i, name in enumerate(names if factor != 1 else ()):
        number = leaves[i].ndim == 1
        step = _STEP * np.abs(leaves[i]) if number else wave + 0 * leaves[i]
        moves = [step if j == i else x for j, x in enumerate(rest)]
        unit = step if number else np.full(size, _STEP)
        yield _Line(queries.scores, leaves, still, moves, unit, f"The derivative in {name}{where}")

  return list(lines()), tree
