"""A batch may be any axis of the arguments, and some arguments may lack it."""

import functools

import jax
import numpy as np
import pytest

import jaxrank as jr

METRICS = {
  "ndcg": jr.ndcg,
  "err": functools.partial(jr.err, max_label=4),
}


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("axes", [(1, 1), (1, None), (None, 1)])
def test_a_batch_along_any_axis(name, axes):
  rng = np.random.default_rng(0)
  # Quarters tie.
  arrays = [np.round(4 * draw(size=(5, 7))).clip(0, 4) / 4 for draw in (rng.normal, rng.poisson)]
  scores, labels, where = *(x.astype(np.float32) for x in arrays), rng.random((5, 7)) < 0.9
  given, lists = [], []
  for x, axis in zip((scores, labels, where), (*axes, axes[0]), strict=True):
    given.append(x.T if axis else x[0])
    lists.append(x if axis else np.tile(x[0], (5, 1)))

  def metric(scores, labels, where):
    return METRICS[name](scores, labels, where=where)

  found = jax.vmap(metric, in_axes=(*axes, axes[0]))(*given)
  np.testing.assert_allclose(found, metric(*lists), rtol=1e-6)
  assert len(set(np.asarray(found).tolist())) > 1
