"""Values that a reader can check by hand; all but those under ties are also trec_eval's."""

import golden
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr

GOLDENS = golden.read_all()
CASES = [pytest.param(g, v, id=f"{g.name}-{v.measure}") for g in GOLDENS for v in g.values]


def test_there_are_goldens():
  """A moved folder must not empty the tests below."""
  assert len(GOLDENS) == 5
  assert len(CASES) > 50


@pytest.mark.parametrize(("query", "value"), CASES)
def test_value(query: golden.Golden, value: golden.Value):
  """The measure gives the number in the file."""
  assert _evaluate(value.measure, query, columns=len(query.scores)) == pytest.approx(
    value.number, abs=1e-6
  )


@pytest.mark.parametrize(("query", "value"), CASES)
def test_padding_changes_nothing(query: golden.Golden, value: golden.Value):
  """Masked columns between 12 and the query's end hold NaN and huge labels."""
  assert _evaluate(value.measure, query, columns=12) == pytest.approx(value.number, abs=1e-6)


@pytest.mark.parametrize(
  ("query", "value"), [c for c in CASES if c.values[1].trec != "-" and c.values[1].level == 1]
)
def test_trec_eval_names_mean_the_same(query: golden.Golden, value: golden.Value):
  """trec_eval's own spelling of the measure gives the same number."""
  assert _evaluate(value.trec, query, columns=len(query.scores)) == pytest.approx(
    value.number, abs=1e-6
  )


def _evaluate(measure: str, query: golden.Golden, columns: int) -> float:
  spare = columns - len(query.scores)
  scores = jnp.asarray([query.scores + spare * [float("nan")]], jnp.float32)
  labels = jnp.asarray([query.labels + spare * [1000]], jnp.float32)
  where = jnp.asarray([[True] * len(query.scores) + spare * [False]])
  (values,) = jr.evaluate(jr.parse(measure), scores, labels, where=where).values()
  return float(np.asarray(values)[0])
