"""Laws of losses: each is about the values and about the gradients in the scores.

A law is a function of a loss and a case, as those of metrics are; `jaxrank.testing` says what they
share. A loss is called with its own defaults, and with `where` if it takes it.
"""

from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np

from jaxrank._core._jax import enable_x64
from jaxrank.testing.asking import Answer, Metric, known
from jaxrank.testing.asking_losses import LossLaw
from jaxrank.testing.exact import untied
from jaxrank.testing.laws import ODD_NUMBERS, batch_of, padded, pairs_of, replaced, spoiled
from jaxrank.testing.numbers import as_floats, integers, of_dtype
from jaxrank.testing.queries import Case, array, stacked

_HIDDEN = (1e9, -3e38, np.inf, -np.inf)
_SPREADS = (0.0, 1.0, 30.0, 100.0, 1e4, 1e30)

SIZES = (10, 200, 1000)
_LEAST_NORM = 1e-6


def check_jit(loss: Metric, case: Case, *, tolerance: float = 1e-5) -> int:
  """`jax.jit` changes neither the values nor the gradients."""
  with LossLaw("jit", "jax.jit does not change it", loss, case, tolerance) as law:
    both = law.both(law.case, prefix="under jax.jit, ")
    law.same(both, law.both(law.case, "direct", "without jax.jit, "))
  return law.compared


def check_remat(loss: Metric, case: Case, *, tolerance: float = 1e-5) -> int:
  """`jax.checkpoint`, which computes the loss again for the gradient, changes nothing."""
  with LossLaw("remat", "jax.checkpoint does not change it", loss, case, tolerance) as law:
    both = law.both(law.case, "remat", "under jax.checkpoint, ")
    law.same(both, law.both(law.case, prefix="without jax.checkpoint, "))
  return law.compared


def check_mask(loss: Metric, case: Case, *, tolerance: float = 1e-5) -> int:
  """What stands under the mask does not matter, as far as it is a number, and has gradient 0."""
  statement = "what stands under the mask does not matter, and has gradient 0"
  with LossLaw("mask", statement, loss, case, tolerance) as law:
    masked = ~law.case.valid
    expected = law.both(law.case)
    for hidden in _HIDDEN if masked.any() else ():
      both = law.both(replaced(law.case, masked, hidden, hidden))
      law.same(both, expected)
      law.zero(both, masked)
  return law.compared


def check_nan(
  loss: Metric, case: Case, *, parameters: Iterable[str] | None = None, tolerance: float = 1e-5
) -> int:
  """A NaN under the mask does not matter; one of a valid item makes the value NaN.

  Gradients in the numbers of the loss do not depend on what is under the mask either.
  """
  statement = "the value is NaN if and only if a score or a label of a valid item is"
  with LossLaw("nan", statement, loss, case, tolerance) as law:
    valid = law.case.valid
    if not valid.all():
      spoiled = replaced(law.case, ~valid, np.nan, np.nan)
      both = law.both(spoiled)
      law.same(both, law.both(law.case))
      law.zero(both, ~valid)
      law.same(law.by_numbers(spoiled, parameters), law.by_numbers(law.case, parameters))
    here = valid & (np.arange(valid.shape[-1]) == valid.argmax(-1)[..., None])
    for score, label in ((np.nan, None), (None, np.nan)):
      if label is not None and law.case.labels.dtype.kind in "biu":
        continue
      both = law.both(replaced(law.case, here, score, label))
      nan = known(np.nan, "the value of a query with a NaN")
      law.equal(both.answer, nan, here.any(-1))
  return law.compared


def check_padding(loss: Metric, case: Case, *, columns: int = 3, tolerance: float = 1e-5) -> int:
  """Longer padding, before, between and behind the items, does not matter, and has gradient 0."""
  statement = "padding does not matter, and has gradient 0"
  with LossLaw("padding", statement, loss, case, tolerance) as law:
    n = law.case.scores.shape[-1]
    if "where" in law.takes and n:
      expected = law.both(law.case)
      spread = np.linspace(0, n + columns - 1, n).round().astype(int) if n > 1 else np.array([1])
      for places in (np.arange(n), np.arange(n) + columns, spread):
        wide = padded(law.case, places, n + columns)
        for hidden in (np.nan, np.inf, 1e9):
          both = law.both(replaced(wide, ~wide.where, hidden, hidden))
          law.same(both._replace(slopes=both.slopes[..., places]), expected)
          law.zero(both, ~wide.where)
  return law.compared


def check_permutation(loss: Metric, case: Case, *, tolerance: float = 1e-5) -> int:
  """The order of the items does not matter, and gradients move with them."""
  statement = "the order of the items does not matter, and gradients move with them"
  with LossLaw("permutation", statement, loss, case, tolerance) as law:
    n = law.case.scores.shape[-1]
    expected = law.both(law.case)
    for order in (np.roll(np.arange(n), 1), np.r_[1, 0, 2:n]) if n > 1 else ():
      both = law.both(law.case.take(order))
      law.same(both._replace(slopes=both.slopes[..., np.argsort(order)]), expected)
  return law.compared


def check_empty(
  loss: Metric, case: Case, *, parameters: Iterable[str] | None = None, tolerance: float = 1e-5
) -> int:
  """A query with every item masked has a finite value, and gradient 0, in numbers too."""
  statement = "all masked is a finite value and gradient 0"
  with LossLaw("empty", statement, loss, case, tolerance) as law:
    if "where" in law.takes:
      nothing = np.zeros_like(law.case.valid)
      empty = law.case._replace(where=nothing)
      both = law.both(empty)
      law.finite(both)
      law.zero(both, ~nothing)
      both = law.by_numbers(empty, parameters)
      law.zero(both, np.ones(both.slopes.shape, bool))
  return law.compared


def check_batch(loss: Metric, case: Case, *, tolerance: float = 1e-5) -> int:
  """A query has in a batch the value and the gradient that it has alone."""
  statement = "a query has in a batch the value and the gradient that it has alone"
  with LossLaw("batch", statement, loss, case, tolerance) as law:
    batch = batch_of(law.case, "where" in law.takes)
    together = law.both(batch, prefix="one query of a batch, ")
    for i in (0, 1):
      law.same(together.at(i), law.both(batch.at(i), prefix="the query alone, "))
  return law.compared


def check_isolation(
  loss: Metric, case: Case, *, parameters: Iterable[str] | None = None, tolerance: float = 1e-5
) -> int:
  """A query in a batch keeps its value and its gradients, whatever is wrong with another query.

  The scores or the labels of the other query are NaN, infinite or huge, or all its items are
  masked. In a sweep over the numbers of the loss, the same is said of calls of which a number is
  NaN, infinite, huge, tiny, 0 or negative.
  """
  statement = "a query keeps its value and its gradients beside one that is not finite, or empty"
  with LossLaw("isolation", statement, loss, case, tolerance) as law:
    single = as_floats(law.case, np.float32)
    others = list(spoiled(single, "where" in law.takes))
    beside = law.both(pairs_of(single, others), "beside")
    ordinary = law.both(pairs_of(single, [single] * len(others)), "beside")
    for index, other in enumerate(others):

      def together(query: tuple[int, ...], other: Case = other) -> str:
        return f"{law.text(single, query)}\nin a batch with\n{law.text(other, query)}"

      both = beside.at(index).at(0)._replace(text=together)
      law.same(both, ordinary.at(index).at(0)._replace(text=lambda _: "the same beside itself"))
    alone, swept = (
      law.by_numbers(single, parameters, odd) for odd in ((1.0,) * len(ODD_NUMBERS), ODD_NUMBERS)
    )
    law.same(swept, alone._replace(text=lambda _: "the same beside ordinary numbers"))
  return law.compared


def check_vmap(loss: Metric, case: Case, *, tolerance: float = 1e-5) -> int:
  """`jax.vmap` of a batch is the loss of the batch."""
  with LossLaw("vmap", "jax.vmap maps over queries as a batch does", loss, case, tolerance) as law:
    batch = batch_of(law.case, "where" in law.takes)
    both = law.both(batch, "mapped", "under jax.vmap, one query of a batch, ")
    law.same(both, law.both(batch, prefix="without jax.vmap, "))
  return law.compared


def check_dtypes(loss: Metric, case: Case, *, tolerance: float = 1e-5) -> int:
  """Values have the precision of the scores, and float32 at least; gradients are rounded once.

  * bfloat16 and float16 scores have the values of the same scores in float32, and its gradients up
    to rounding: what is finite in float32 is finite, if the dtype can hold it.
  * Integer and boolean labels have the values and gradients of the same labels in float32.
  * float64 scores, where JAX has them, have float64 values.
  """
  statement = "values have the precision of the scores, and float32 at least"
  with LossLaw("dtypes", statement, loss, case, tolerance) as law:
    single = as_floats(law.case, np.float32)
    of_dtype(law, law.both(single).answer, np.float32)
    for dtype in (jnp.bfloat16, jnp.float16):
      with np.errstate(over="ignore"):
        half = single._replace(scores=single.scores.astype(dtype))
        both, image = law.both(half), law.both(as_floats(half, np.float32))
        image = image._replace(slopes=image.slopes.astype(dtype))
      of_dtype(law, both.answer, np.float32)
      law.equal(both.answer, image.answer)
      law.parallel(both, image, 4 * float(jnp.finfo(dtype).eps))
    grades = integers(single.labels)
    for kind in (grades, grades > 0):
      both = law.both(single._replace(labels=kind))
      law.same(both, law.both(single._replace(labels=kind.astype(np.float32))))
    with enable_x64():
      double = as_floats(law.case, np.float64)
      value, _ = jax.eval_shape(law.programs.run["direct"], *double[:3])
      of_dtype(law, Answer(value, lambda query: law.text(double, query)), np.float64)
  return law.compared


def check_finite(loss: Metric, case: Case, *, tolerance: float = 1e-5) -> int:
  """Values and gradients are finite at scores of any spread, and at infinite ones.

  The scores are those of the case, then all tied, and then in their order and 1, 30, 100, 1e4 and
  1e30 apart, and last the first of them is +inf. An item with score -inf has gradient 0.
  """
  statement = "values and gradients are finite at all scores, and 0 of items at -inf"
  with LossLaw("finite", statement, loss, case, tolerance) as law:
    place = untied(law.case, np.arange(law.case.scores.shape[-1]))
    middle = np.where(np.isfinite(place), place + (place.shape[-1] - 1) / 2, place)
    moving = law.case.valid & np.isfinite(middle)
    finite = np.where(moving, middle, 0)
    spread = [np.where(moving, x * finite, middle) for x in _SPREADS]
    first = moving & (finite == np.max(np.where(moving, finite, -np.inf), -1, keepdims=True))
    spread.append(np.where(first, np.inf, middle))
    for scores in (law.case.scores, *spread):
      both = law.both(law.case._replace(scores=scores.astype(law.case.scores.dtype)))
      law.finite(both)
      law.zero(both, ~law.case.valid | (scores == -np.inf))
  return law.compared


def check_alive(
  loss: Metric, case: Case, *, sizes: Iterable[int] = SIZES, tolerance: float = 1e-5
) -> int:
  """A gradient is there at tied scores: a scorer that starts from zero learns.

  The items of the case stand at the head of lists of `sizes` items, once and again and again up to
  half of the list; the other items have label 0, and all have score 0. If a label is positive, the
  norm of the gradient is above 1e-6.
  """
  statement = "the gradient at tied scores is not 0 if something is relevant"
  with LossLaw("alive", statement, loss, case, tolerance) as law:
    head = law.case.scores.shape[-1]
    relevant = (law.case.valid & (law.case.labels > 0)).any(-1)
    sizes = [size for size in sizes if size > head]
    # Lists of all lengths share a program if the loss can tell padding.
    width = max(sizes, default=0) if "where" in law.takes else 0
    for size in sizes if relevant.any() else ():
      counts = head, max(head, size // 2)
      both = law.both(stacked([_long(law.case, x, size, max(size, width)) for x in counts]))
      norms = np.sqrt(np.sum(both.slopes.astype(np.float64) ** 2, -1))
      law.compared += norms.size
      dead = np.argwhere(relevant & ~(norms > _LEAST_NORM))
      if len(dead):
        which, *query = map(int, dead[0])
        labels = array(law.case.labels[tuple(query)])
        again = ", again and again" if counts[which] > head else ""
        law.fail(
          f"At {size} items with score 0, of which the first {counts[which]} have the labels{again}"
          f"\n{labels}\nand the others label 0, the gradient of {law.programs.name} has the norm "
          f"{norms[which, *query]:.1e}."
        )
  return law.compared


def _long(case: Case, count: int, size: int, width: int) -> Case:
  """The labels of a case at the head of `size` items with score 0, repeated up to `count` items."""
  n = case.scores.shape[-1]
  labels = np.zeros((*case.scores.shape[:-1], width), case.labels.dtype)
  labels[..., :count] = np.where(case.valid, case.labels, 0)[..., np.arange(count) % n]
  where = np.broadcast_to(np.arange(width) < size, labels.shape)
  return case._replace(scores=np.zeros(labels.shape, np.float32), labels=labels, where=where)
