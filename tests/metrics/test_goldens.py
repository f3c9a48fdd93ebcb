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
  """The measure gives the number in the file, beside NaN and huge labels under the mask."""
  assert _together()[value.measure][name] == pytest.approx(value.number, abs=1e-6)


@thorough
@pytest.mark.parametrize(("name", "value"), CASES)
def test_value_without_padding(name: str, value: golden.Value):
  """So it does for the query alone."""
  assert _alone(name)[value.measure] == pytest.approx(value.number, abs=1e-6)


@pytest.mark.parametrize(
  ("name", "value"), [c for c in CASES if c.values[1].trec != "-" and c.values[1].level == 1]
)
def test_trec_eval_names_mean_the_same(name: str, value: golden.Value):
  """trec_eval's own spelling of the measure gives the same number."""
  assert _together()[value.trec][name] == pytest.approx(value.number, abs=1e-6)


def _padded(query: golden.Golden, columns: int) -> list[jnp.ndarray]:
  """Scores, labels and mask `[1, columns]`, with NaN and huge labels under the mask."""
  spare = columns - len(query.scores)
  scores = jnp.asarray([query.scores + spare * [float("nan")]], jnp.float32)
  labels = jnp.asarray([query.labels + spare * [1000]], jnp.float32)
  return [scores, labels, jnp.asarray([[True] * len(query.scores) + spare * [False]])]


@functools.cache
def _together() -> dict[str, dict[str, float]]:
  """The values of all measures, by either spelling and the name of the file, in one program."""
  lists = [_padded(query, 12) for query in GOLDENS.values()]
  scores, labels, where = (jnp.concatenate(x) for x in zip(*lists, strict=True))
  values = [v for query in GOLDENS.values() for v in query.values]
  names = [*(v.measure for v in values), *(v.trec for v in values if v.trec != "-")]
  found = jr.evaluate([*dict.fromkeys(names)], scores, labels, where=where)
  return {
    name: {query: float(x) for query, x in zip(GOLDENS, value, strict=True)}
    for name, value in found.items()
  }


@functools.cache
def _alone(name: str) -> dict[str, float]:
  """All measures of a file in one program."""
  query = GOLDENS[name]
  scores, labels, _ = _padded(query, len(query.scores))
  values = jr.evaluate([v.measure for v in query.values], scores, labels)
  return {name: float(value[0]) for name, value in values.items()}
