"""A query keeps its values and gradients, whatever is wrong with another query of the batch."""

import jax
import numpy as np

from tests.helpers.public_calls import CALLS, LABELS, QUERIES, SCORES, WHERE, value_and_slope
from tests.helpers.suites import quick

# States and means over queries, whose results depend on all of them, as all statistics do.
OF_ALL_QUERIES = (
  "Catalogue",
  "Evaluator",
  "aggregate",
  "aggregate_curve",
  "class_labels.macro_mean",
  "class_labels.mean",
  *(name for name in CALLS if name.startswith("stats.")),
)
# Scores and labels of the last query; the first pair is that of an ordinary query.
OTHERS = {
  "ordinary": ([3, 1, 0, 0, 2, 5], [0, 1, 0, 2, 0, 0]),
  "NaN scores": (np.nan, LABELS[1]),
  "one NaN score": ([np.nan, 1, 0, 0, 2, 5], LABELS[1]),
  "infinite scores": (np.inf, LABELS[1]),
  "nothing retrieved": (-np.inf, LABELS[1]),
  "huge scores": ([3e38, -3e38, 3e38, -3e38, 3e38, -3e38], LABELS[1]),
  "all kinds of scores": ([np.inf, -np.inf, np.nan, 3e38, 0, 1], LABELS[1]),
  "NaN labels": (SCORES[1], np.nan),
  "infinite labels": (SCORES[1], np.inf),
  "labels of minus infinity": (SCORES[1], -np.inf),
  "huge labels": (SCORES[1], 3e38),
}


def batches():
  """The queries of `public_calls`, of which the last is replaced by each of `OTHERS`, or masked."""
  for score, label in OTHERS.values():
    scores, labels, where = SCORES.copy(), LABELS.copy(), WHERE.copy()
    scores[-1], labels[-1], where[-1] = score, label, True
    yield scores, labels, where
  where = WHERE.copy()
  where[-1] = False
  yield SCORES, LABELS, where


def of_queries(found):
  """The arrays of a result that have a value for each query, without those of the last query."""
  arrays = map(np.asarray, jax.tree.leaves(found))
  axes = ((x, [i for i, size in enumerate(x.shape[:2]) if size == QUERIES]) for x in arrays)
  return [np.moveaxis(x, axis[0], 0)[:-1] for x, axis in axes if axis]


QUICK = ("ndcg", "losses.softmax", "Gumbel")


@quick("name", [name for name in CALLS if name not in OF_ALL_QUERIES], QUICK)
def test_a_query_is_the_same_beside_any_other(name):
  function = jax.jit(value_and_slope(name))
  ordinary, *others = (of_queries(function(*lists)) for lists in batches())
  assert ordinary
  for what, found in zip([*list(OTHERS)[1:], "masked"], others, strict=True):
    for x, y in zip(found, ordinary, strict=True):
      np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6, err_msg=what)
