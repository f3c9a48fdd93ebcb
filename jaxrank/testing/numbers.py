"""Laws of numbers: dtypes and gradients."""

import jax.numpy as jnp
import numpy as np

from jaxrank._core._jax import enable_x64
from jaxrank.testing.asking import Answer, Law, Metric
from jaxrank.testing.exact import places, untied
from jaxrank.testing.queries import Case

# Steps of scores that float64 tells apart and float32 does not.
_TINY = 2.0**-50

# The step of a difference in float64, and how exact the difference is.
_STEP = 1e-5
_SLOPE_TOLERANCE = 1e-6


def check_dtypes(metric: Metric, case: Case, *, tolerance: float = 1e-5) -> int:
  """Values have the dtype and the precision of the scores, and float32 at least.

  * bfloat16 and float16 scores have the values of the same scores in float32.
  * Integer and boolean labels have the values of the same labels in float32.
  * Integer scores have the values of the same scores in float32.
  * float64 scores, where JAX has them, have float64 values, and scores that are `2^-50` apart are
    not tied. (Of a smooth ranking, only the dtype and the float32 value are compared.)

  See `jaxrank.testing` for the arguments.
  """
  statement = "values have the precision of the scores, and float32 at least"
  with Law("dtypes", statement, metric, case, tolerance) as law:
    single = as_floats(law.case, np.float32)
    of_dtype(law, law.ask(single), np.float32)
    for dtype in (jnp.bfloat16, jnp.float16):
      with np.errstate(over="ignore"):
        half = single._replace(scores=single.scores.astype(dtype))
      image = half._replace(scores=half.scores.astype(np.float32))
      answer = law.ask(half)
      of_dtype(law, answer, np.float32)
      law.equal(answer, law.ask(image))
    grades = integers(single.labels)
    for kind in (grades, grades > 0):
      image = single._replace(labels=kind.astype(np.float32))
      law.equal(law.ask(single._replace(labels=kind)), law.ask(image))
    order = places(single)
    whole = integers(np.where(order > -np.inf, order, -1))
    image = single._replace(scores=whole.astype(np.float32), labels=grades)
    law.equal(law.ask(image._replace(scores=whole)), law.ask(image))
    _double(law, single._replace(scores=order))
  return law.compared


def check_gradients(metric: Metric, case: Case, *, tolerance: float = _SLOPE_TOLERANCE) -> int:
  """Gradients in the scores are slopes; under the mask they are 0; they are finite everywhere.

  `g * d = (m(s + h d) - m(s - h d)) / (2 h)` in float64, for a direction `d` and a step `h`, at
  scores without ties in the order of those of the case, about 0.75 apart. At the scores of the case
  itself, also if none of the items with a positive label is retrieved, and NaN under the mask, the
  gradients in scores and labels are finite, 0 under the mask, and in the scores 0 where a score is
  -inf. See `jaxrank.testing` for the arguments.
  """
  statement = "gradients are slopes, finite, and 0 under the mask"
  with Law("gradients", statement, metric, case, tolerance) as law:
    _bounded(law, as_floats(law.case, np.float32))
    with enable_x64():
      _slopes(law)
  return law.compared


def _slopes(law: Law) -> None:
  """Gradients in float64 are finite, and those in the scores are difference quotients."""
  double = as_floats(law.case, np.float64)
  _bounded(law, double)
  n = double.scores.shape[-1]
  # Unequal distances, because a kink such as that of bpref may lie where items are symmetric.
  apart = double._replace(
    scores=0.75 * untied(double, np.arange(n)) + 0.1 * np.cos(3 * np.arange(n))
  )
  moving = double.valid & np.isfinite(apart.scores)
  step = np.where(moving, _STEP * np.cos(1 + 2 * np.arange(n)), 0)
  still = np.where(moving, apart.scores, 0)
  up, down = (
    law.slopes(apart._replace(scores=np.where(moving, still + s, apart.scores)))[0]
    for s in (step, -step)
  )
  _, slopes, _ = law.slopes(apart)
  directional = np.sum(np.where(moving, slopes * step, 0), -1) / _STEP
  rise = (up - down) / (2 * _STEP)

  def slope(query: tuple[int, ...]) -> str:
    return f"the gradient in the direction cos(1 + 2 i) of\n{law.text(apart, query)}"

  law.equal(Answer(directional, slope), Answer(rise, lambda _: "its difference quotient"))


def as_floats(case: Case, dtype: type) -> Case:
  """The case with scores and labels of a dtype."""
  return case._replace(scores=case.scores.astype(dtype), labels=case.labels.astype(dtype))


def integers(x: np.ndarray) -> np.ndarray:
  """The whole parts of numbers; what stands under a mask may be none."""
  whole: np.ndarray = np.trunc(np.clip(np.nan_to_num(x), -100, 100)).astype(np.int32)
  return whole


def _bounded(law: Law, case: Case) -> None:
  """Gradients are finite, and 0 of items that the value does not depend on."""
  masked = ~case.valid
  hidden = case._replace(
    scores=np.where(masked, np.nan, case.scores), labels=np.where(masked, np.nan, case.labels)
  )
  # The value may be 0, where a root or a logarithm has an infinite slope.
  dropped = hidden._replace(scores=np.where(~(hidden.labels > 0), hidden.scores, -np.inf))
  for spoiled in (hidden, dropped):
    _, *slopes = law.slopes(spoiled)
    lost = masked | (spoiled.scores == -np.inf)
    for name, slope, still in zip(("scores", "labels"), slopes, (lost, masked), strict=True):
      what = f"the gradient in the {name}, which should be finite and 0 under the mask,"
      law.require(np.isfinite(slope) & ((slope == 0) | ~still), slope, spoiled, what)


def of_dtype(law: Law, answer: Answer, least: type) -> None:
  """Raises an error unless values are floats of at least a precision."""
  dtype = answer.values.dtype
  if not jnp.issubdtype(dtype, jnp.floating) or jnp.finfo(dtype).bits < jnp.finfo(least).bits:
    query = (0,) * answer.values.ndim
    law.fail(f"The values of\n{answer.text(query)}\nmust be {np.dtype(least)}, got {dtype}.")


def _double(law: Law, case: Case) -> None:
  """float64 scores, `2^-50` apart where those of the case are 1 apart."""
  expected = law.ask(case)
  with enable_x64():
    order = case.scores.astype(np.float64)
    scores = 1 + order * _TINY if law.exact else order
    double = case._replace(scores=scores, labels=case.labels.astype(np.float64))
    answer = law.ask(double)
    of_dtype(law, answer, np.float64)
    law.equal(answer, expected)
