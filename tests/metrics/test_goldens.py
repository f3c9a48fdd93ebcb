"""Values that a reader can check by hand; all but those under ties are also trec_eval's."""

import functools

import jax.numpy as jnp
import pytest

import jaxrank as jr
from tests.helpers import golden
from tests.helpers.suites import thorough

GOLDENS = {g.name: g for g in golden.read_all()}
CASES = [
  pytest.param(name, v, id=f"{name}-{v.measure}") for name, g in GOLDENS.items() for v in g.values
]


def test_there_are_goldens():
  """A moved folder must not empty the tests below."""
  assert len(GOLDENS) == 5
  assert len(CASES) > 50


@pytest.mark.parametrize(("name", "value"), CASES)
def test_value(name: str, value: golden.Value):
  """The measure gives the number in the file."""
  assert _values(name, padded=False)[value.measure] == pytest.approx(value.number, abs=1e-6)


@thorough
@pytest.mark.parametrize(("name", "value"), CASES)
def test_padding_changes_nothing(name: str, value: golden.Value):
  """Masked columns between 12 and the query's end hold NaN and huge labels."""
  assert _values(name, padded=True)[value.measure] == pytest.approx(value.number, abs=1e-6)


@pytest.mark.parametrize(
  ("name", "value"), [c for c in CASES if c.values[1].trec != "-" and c.values[1].level == 1]
)
def test_trec_eval_names_mean_the_same(name: str, value: golden.Value):
  """trec_eval's own spelling of the measure gives the same number."""
  assert _values(name, padded=False)[value.trec] == pytest.approx(value.number, abs=1e-6)


@functools.cache
def _values(name: str, *, padded: bool) -> dict[str, float]:
  """All measures of a file in one program, by either spelling."""
  query = GOLDENS[name]
  spare = 12 - len(query.scores) if padded else 0
  scores = jnp.asarray([query.scores + spare * [float("nan")]], jnp.float32)
  labels = jnp.asarray([query.labels + spare * [1000]], jnp.float32)
  where = jnp.asarray([[True] * len(query.scores) + spare * [False]])
  names = [v.measure for v in query.values]
  if not padded:
    names += [v.trec for v in query.values if v.trec != "-"]
  values = jr.evaluate(names, scores, labels, where=where)
  return {name: float(value[0]) for name, value in values.items()}
