"""A query keeps its values and gradients, whatever is wrong with another query of the batch."""

import jax
import numpy as np

from tests.helpers import public_calls
from tests.helpers.neighbours import QUERIES
from tests.helpers.public_calls import LABELS, SCORES, WHERE
from tests.helpers.suites import quick

# States and means over queries, whose results depend on all of them, as all statistics do.
OF_ALL_QUERIES = (
  "Catalogue",
  "Evaluator",
  "aggregate",
  "aggregate_curve",
  "class_labels.macro_mean",
  "class_labels.mean",
)
# Metrics meet this law one by one in tests/metrics/test_laws.py: all under `Laplace`, and the
# gradients of one of each kind under exact rankings. Rankings do with more that may be wrong in
# tests/rankings/test_isolation.py.
ELSEWHERE = ("metrics/evaluate", "metrics/Laplace", "Gaussian", "Gumbel", "Laplace", "Logistic")


def batches():
  """The queries of `public_calls`, of which the last is ordinary, or has something wrong."""
  ordinary = [3, 1, 0, 0, 2, 5], [0, 1, 0, 2, 0, 0]
  for score, label in [ordinary, *QUERIES.values()]:
    scores, labels, where = SCORES.copy(), LABELS.copy(), WHERE.copy()
    scores[-1] = SCORES[1] if score is None else score
    labels[-1] = LABELS[1] if label is None else label
    where[-1] = True
    yield scores, labels, where
  where = WHERE.copy()
  where[-1] = False
  yield SCORES, LABELS, where


def of_queries(found):
  """The arrays of a result that have a value for each query, without those of the last query."""
  arrays = map(np.asarray, jax.tree.leaves(found))
  axes = ((x, [i for i, size in enumerate(x.shape[:2]) if size == len(SCORES)]) for x in arrays)
  return [np.moveaxis(x, axis[0], 0)[:-1] for x, axis in axes if axis]


GROUPS = {
  module: [name for name in names if name not in (*OF_ALL_QUERIES, *ELSEWHERE)]
  for module, names in public_calls.groups().items()
  if module != "stats"
}
SOME = ("ndcg", "losses.softmax", "Gumbel")


@quick(("module", "names"), [("some", SOME), *GROUPS.items()], [("some", SOME)])
def test_a_query_is_the_same_beside_any_other(module, names):
  function = jax.jit(public_calls.together(names))
  ordinary, *others = (
    {name: of_queries(found) for name, found in function(*lists).items()} for lists in batches()
  )
  assert all(ordinary.values())
  for what, found in zip([*QUERIES, "masked"], others, strict=True):
    for name in names:
      for x, y in zip(found[name], ordinary[name], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6, err_msg=f"{name} beside {what}")
