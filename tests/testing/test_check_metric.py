"""`check_metric` finds planted bugs, names the law that they break, and shows a small case."""

import functools
import importlib
import re
import sys

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

import jaxrank as jr
from jaxrank import testing
from tests.helpers import cases, traits, user_metrics
from tests.helpers.suites import quick, thorough


def share(scores, labels, *, where=None, k=None, bug=None):
  """The share of the gain that is at the first `k` ranks, on average over the orders of ties."""
  dtype = jnp.float64 if scores.dtype == jnp.float64 else jnp.float32
  where = jnp.ones(scores.shape, bool) if where is None else where
  scores = scores.astype(jnp.bfloat16 if bug == "dtype loss" else dtype)
  labels = labels.astype(dtype)
  unknown = jnp.isnan(scores) | jnp.isnan(labels)
  poisoned = jnp.any(unknown if bug == "NaN leak" else where & unknown, axis=-1)

  retrieved = where & (scores > -jnp.inf)
  pairs = retrieved[..., None, :] & retrieved[..., :, None]
  better = pairs & (scores[..., None, :] > scores[..., :, None])
  tied = pairs & (scores[..., None, :] == scores[..., :, None])
  if bug == "order dependence":
    better, tied = better | jnp.tril(tied, -1), pairs & jnp.eye(scores.shape[-1], dtype=bool)
  ahead, size = (jnp.sum(x.astype(dtype), axis=-1) for x in (better, tied))
  wrong = 0 if k is None else {"one too deep": 1, "one too high": -1}.get(bug, 0)
  k = jnp.asarray(scores.shape[-1] if k is None else k).astype(dtype)
  room = k + wrong - ahead
  inside = jnp.clip(room / jnp.maximum(size, 1), 0, 1)
  if bug == "wrong tie":
    inside = jnp.floor(inside)

  counted = jnp.ones_like(where) if bug == "mask leak" else where
  gains = jnp.where(counted & ~jnp.isnan(labels), jnp.maximum(labels, 0), 0)
  total = jnp.sum(gains, axis=-1)
  if bug == "padding dependence":
    total = total * (scores.shape[-1] / jnp.maximum(jnp.sum(where.astype(dtype), axis=-1), 1))
  found = jnp.sum(jnp.where(retrieved, gains * inside, 0), axis=-1)
  value = found / jnp.where(total > 0, total, 1)
  if bug == "batch dependence":
    value = value / jnp.maximum(jnp.max(total), 1)
  if bug == "infinity of a neighbour":
    value = value + 0 * jnp.max(gains)
  if bug == "jit difference" and not isinstance(scores, jax.core.Tracer):
    value = jnp.round(value, 1)
  if bug == "vmap difference":
    value = mapped_wrongly(value)
  if bug == "wrong gradient":
    value = value + straight_through(jnp.sum(jnp.where(retrieved, scores, 0), axis=-1))
  return jnp.where(poisoned, jnp.nan, value)


@jax.custom_batching.custom_vmap
def mapped_wrongly(value):
  return value


@mapped_wrongly.def_vmap
def _(axis_size, in_batched, value):
  return 2 * value, True


def straight_through(x):
  """0, with the gradient of something else."""
  return jnp.where(jnp.isfinite(x), x - jax.lax.stop_gradient(x), 0)


BUGS = {
  "wrong tie": "ties",
  "mask leak": "mask",
  "NaN leak": "nan",
  "one too deep": "cutoff",
  "one too high": "cutoff",
  "wrong gradient": "gradients",
  "order dependence": "permutation",
  "padding dependence": "padding",
  "dtype loss": "dtypes",
  "vmap difference": "vmap",
  "jit difference": "jit",
  "batch dependence": "batch",
  "infinity of a neighbour": "isolation",
}
# What somebody may do to a metric of the library, and the law that finds it among some laws.
SPOILT = {
  "shifted": (lambda ndcg, scores: ndcg(scores + 1), "order", testing.LAWS),
  "scaled and shifted": (
    lambda ndcg, scores: ndcg(scores * scores.dtype.type(1e-3) + 1),
    "order",
    testing.LAWS.keys() - {"dtypes"},
  ),
  "square root": (
    lambda ndcg, scores: jnp.sqrt(ndcg(scores)),
    "gradients",
    # The mean of roots is not the root of the mean.
    testing.LAWS.keys() - {"ties"},
  ),
}


def broken(metric, **options):
  """The message about a metric that breaks a law."""
  with pytest.raises(AssertionError) as raised:
    testing.check_metric(metric, **options)
  return str(raised.value)


@quick("bug", BUGS, ["mask leak", "NaN leak", "order dependence"])
def test_a_planted_bug_is_found(bug):
  text = broken(functools.partial(share, bug=bug))
  assert text.startswith(f"share breaks the law of {BUGS[bug]}: ")
  # The first of the two calls is a small case: padding adds three columns.
  scores, *_ = re.findall(r"jnp\.array\(\[(.*?)\]", text)
  assert scores.count(",") < 3 + 3 * (BUGS[bug] == "padding")


@quick("name", SPOILT, ["shifted"])
def test_what_spoils_a_metric_is_found(name):
  spoil, law, laws = SPOILT[name]

  def spoilt(scores, labels, *, where=None):
    return spoil(lambda scores: jr.ndcg(scores, labels, where=where), scores)

  assert broken(spoilt, laws=laws).startswith(f"spoilt breaks the law of {law}: ")


@thorough
def test_a_metric_without_a_bug_passes():
  testing.check_metric(share)
  for law in testing.LAWS.keys() - {"limit", "range"}:
    assert testing.LAWS[law](share, CASE)


CASE = testing.Case(
  np.float32([1.0, 1.0, 0.5]), np.float32([0.0, 2.0, 1.0]), np.array([True, True, False]), k=1
)


def test_the_message_shows_two_calls_that_can_be_pasted():
  text = broken(functools.partial(share, bug="mask leak"), laws=["mask"])
  first, second = re.findall(r"^share\((.*?)^\)\nis (\d+\.\d+)", text, re.M | re.S)
  names = {"jnp": jnp, "jaxrank": jr, "share": functools.partial(share, bug="mask leak")}
  for call, value in (first, second):
    assert eval(f"share({call})", names) == pytest.approx(float(value))
  assert first[1] != second[1]


def test_a_run_with_the_same_seed_is_the_same():
  metric = functools.partial(share, bug="order dependence")
  assert broken(metric, laws=["permutation"]) == broken(metric, laws=["permutation"])


def test_the_first_law_that_is_broken_is_named():
  both = broken(functools.partial(share, bug="NaN leak"), laws=["batch", "nan"])
  assert both.startswith("share breaks the law of nan: ")


def test_a_metric_need_not_have_every_argument():
  def best(scores, labels):
    return jnp.max(jnp.where(jnp.isnan(scores), jnp.nan, labels), axis=-1)

  testing.check_metric(best, laws=["nan", "mask", "padding", "empty", "cutoff", "permutation"])
  for law in ("mask", "padding", "empty", "cutoff", "limit"):
    assert testing.LAWS[law](best, CASE._replace(where=None)) == 0
  assert testing.check_permutation(best, CASE._replace(where=None)) == 2
  with pytest.raises(ValueError, match="best does not take where"):
    testing.check_permutation(best, CASE)


@thorough
@pytest.mark.parametrize("dtype", ["bool", "uint8", "bfloat16"])
def test_labels_may_have_any_dtype(dtype):
  labels = testing.labels(3, values=(0, 1), dtype=jnp.dtype(dtype))
  assert testing.check_metric(share, labels=labels, n=3, max_examples=10) is None
  case = CASE._replace(scores=np.array([4, 4, 1], "uint8"), labels=np.array([True, False, True]))
  for law in testing.LAWS.keys() - {"limit", "range"}:
    assert testing.LAWS[law](share, case)


def test_a_smooth_ranking_without_an_answer_is_left_out():
  assert testing.check_permutation(jr.kendall_tau, CASE._replace(ranking=jr.Laplace(1.0))) == 0
  assert testing.check_permutation(jr.kendall_tau, CASE._replace(ranking=jr.Exact())) == 2


def test_an_error_of_the_metric_names_the_law():
  def failing(scores, labels):
    raise RuntimeError("no")

  with pytest.raises(
    AssertionError, match=r"(?s)^failing breaks .* nan.*raises RuntimeError: no"
  ) as e:
    testing.check_metric(failing, laws=["nan"])
  assert isinstance(e.value.__cause__, RuntimeError)


def test_values_of_another_shape_are_a_broken_law():
  text = broken(lambda scores, labels: scores, laws=["permutation"])
  assert "must have shape () for scores of shape" in text


def test_mistakes_of_arguments():
  with pytest.raises(ValueError, match="laws.*'tie'"):
    testing.check_metric(share, laws=["tie"])
  with pytest.raises(TypeError, match="metric"):
    testing.check_metric("ndcg")
  with pytest.raises(ValueError, match="n must be at least 1"):
    testing.check_metric(share, n=0)
  for name, given in (("laws", "nan"), ("cutoffs", 3), ("rankings", jr.Exact())):
    with pytest.raises(TypeError, match=f"check_metric: {name} must be a collection, such as"):
      testing.check_metric(share, **{name: given})
  with pytest.raises(TypeError, match="check_metric: scores must be a strategy of hypothesis"):
    testing.check_metric(share, scores=np.zeros(5))
  with pytest.raises(ValueError, match="at most 6 items, got 7 items"):
    testing.check_ties(share, testing.Case(np.zeros(7, np.float32), np.zeros(7, np.float32)))
  random = jr.Exact(ties="random", key=jax.random.key(0))
  with pytest.raises(ValueError, match="random"):
    testing.check_order(jr.ndcg, CASE._replace(ranking=random))


def test_the_package_says_what_it_needs(monkeypatch):
  for name in [name for name in sys.modules if name.startswith("jaxrank.testing")]:
    monkeypatch.delitem(sys.modules, name)
  monkeypatch.setitem(sys.modules, "hypothesis", None)
  with pytest.raises(ModuleNotFoundError, match=r"jaxrank\[testing\]"):
    importlib.import_module("jaxrank.testing")


@hypothesis.given(st.data(), st.integers(1, 6))
@hypothesis.settings(max_examples=30, deadline=None, database=None)
def test_strategies_draw_what_they_say(data, n):
  case = data.draw(testing.cases(n, cutoffs=(2, None), rankings=(jr.Exact(),)))
  assert case.scores.shape == case.labels.shape == case.where.shape == (n,)
  assert case.scores.dtype == case.labels.dtype == np.float32
  assert case.where.dtype == bool
  assert case.k in (2, None)
  dtype = data.draw(testing.dtypes())
  assert data.draw(testing.scores(n, dtype=dtype, levels=(0, 1))).dtype == dtype
  assert set(data.draw(testing.labels(n, values=(0, 1))).tolist()) <= {0, 1}
  assert 1 <= data.draw(testing.cutoffs(n)) <= n + 3


# What a metric of the helpers does otherwise, on purpose.
OWN = {
  "mixture": {"empty"},
  "depths": {"padding"},
  **dict.fromkeys(("overtaken", *user_metrics.BENT), {"ties"}),
  "chosen_by_an_answer": {"empty", "ties"},
}
# Laws that share one compiled program.
SHARED = {"mask", "nan", "permutation", "empty", "order"}


OF_USERS = [*user_metrics.AFFINE, *user_metrics.BENT]


@quick("name", OF_USERS, ())
def test_metrics_of_a_users_obey_the_laws(name):
  metric = (user_metrics.AFFINE | user_metrics.BENT)[name]
  laws = SHARED | {"padding", "batch", "ties", "gradients"}
  options = {"rankings": [jr.Exact()], "cutoffs": (None,)}
  assert testing.check_metric(metric, laws=laws - OWN.get(name, set()), **options) is None


def test_a_public_metric_obeys_the_laws():
  """In the queries of hypothesis; `tests/metrics/test_laws.py` has all metrics."""
  row = traits.rows()["kendall_tau"]
  options = {"rankings": [jr.Exact()], "cutoffs": (None,)}
  assert testing.check_metric(row, laws=testing.LAWS.keys() - row.about.departs, **options) is None


ONE = {"rankings": [jr.Exact()], "n": 3, "max_examples": 5}


@thorough
def test_a_description_says_which_laws_a_metric_departs_from():
  assert testing.check_metric(jr.precision, **ONE) is None
  text = broken(jr.precision, laws=["long_cutoff"], **ONE)
  assert text.startswith("precision breaks the law of long_cutoff")
  with pytest.raises(ValueError, match="departs of precision_like must be one of .*, got 'long'"):
    testing.check_metric(jr.metric(precision_like, departs={"long": "it divides by k"}), **ONE)


def precision_like(ranked, *, k=None):
  """Relevant items at the first `k` ranks, over `k`."""
  hits = ranked.expect(ranked.relevant(), jr.discounts.constant, k=k)
  return hits / jnp.maximum(ranked.cutoff(k), 1)


@thorough
def test_a_metric_of_ones_own_departs_from_a_law():
  assert broken(jr.metric(precision_like), **ONE).startswith(
    "precision_like breaks the law of long"
  )
  metric = jr.metric(precision_like, departs={"long_cutoff": "it divides by k"})
  for given in (metric, functools.partial(metric, k=2), jr.Measure(metric, k=2)):
    assert testing.check_metric(given, cutoffs=(None,), **ONE) is None


@thorough
@pytest.mark.parametrize(
  ("law", "name"),
  [(law, name) for law in ("ties", "long_cutoff", "empty") for name in traits.EXCEPTIONS[law]],
)
def test_a_metric_that_departs_from_a_law_does(law, name):
  row = traits.rows()[name]
  ranking = jr.Exact() if row.takes("ranking") else None
  lists = cases.draw(0, 512, 5, most_orders=10**9)
  k = 2 if law == "ties" and row.takes("k") else None
  with pytest.raises(AssertionError, match=f"{name} breaks the law of {law}"):
    testing.LAWS[law](row, testing.Case(*lists[:3], k=k, ranking=ranking))


EXACT = jr.Exact()


@jax.custom_vjp
def steeper(x):
  """`x`, with twice its slope."""
  return x


steeper.defvjp(lambda x: (x, None), lambda _, slope: (2 * slope,))


@thorough
def test_a_wrong_gradient_under_a_smooth_ranking_is_found():
  def recall(scores, labels, *, where=None, ranking=EXACT):
    return jr.recall(steeper(scores), labels, where=where, k=2, ranking=ranking)

  text = broken(recall, laws=["gradients"])
  assert text.startswith("recall breaks the law of gradients: ")
  assert "ranking=jaxrank.Laplace(temperature=1.0)" in text


@thorough
def test_a_metric_of_ours_obeys_all_laws():
  assert testing.check_metric(jr.recall) is None
