"""Objectives and metrics inside LightGBM and XGBoost."""

import copy
import functools
import pickle
import re
import subprocess
import sys
import warnings
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank import losses
from jaxrank.interop import lightgbm as for_lightgbm
from jaxrank.interop import xgboost as for_xgboost
from tests.helpers.suites import thorough

# Some queries that are drawn have equal labels.
pytestmark = [thorough, pytest.mark.filterwarnings("ignore:.*queries have no gradient")]

ROOT = Path(__file__).parents[2]
QUIET = {"verbose": -1, "num_threads": 1, "deterministic": True, "seed": 0}


def smooth_ndcg(scores, labels, where):
  return 1 - jr.ndcg(scores, labels, where=where, ranking=jr.Laplace(1.0))


LOSSES = {
  "smooth nDCG": smooth_ndcg,
  "lambda_rank": losses.lambda_rank,
  "softmax": functools.partial(losses.softmax, gain=jr.gains.exponential),
  "pairwise_logistic": losses.pairwise_logistic,
}


def queries(seed, count=80):
  """Features, labels that follow two of them, and the sizes of queries."""
  rng = np.random.default_rng(seed)
  sizes = rng.integers(2, 9, count)
  x = rng.normal(size=(sizes.sum(), 5))
  noise = rng.normal(size=len(x)) / 2
  return x, np.clip(np.floor(x[:, 0] + np.abs(x[:, 1]) + noise + 1), 0, 4), sizes


def mean_ndcg(scores, labels, sizes):
  batch = jr.pad(np.repeat(np.arange(sizes.size), sizes), scores, labels)
  return float(jr.ndcg(*batch[:2], where=batch.where, k=5).mean())


X, Y, SIZES = queries(0)
NEW = queries(1)


@pytest.fixture
def lightgbm():
  return pytest.importorskip("lightgbm")


@pytest.fixture
def xgboost():
  return pytest.importorskip("xgboost")


@pytest.mark.parametrize("name", LOSSES)
def test_trees_learn_by_default_parameters(lightgbm, xgboost, name):
  ours = for_lightgbm.objective(LOSSES[name])
  data = lightgbm.Dataset(X, Y, group=SIZES)
  forest = lightgbm.train({"objective": ours, "verbose": -1, "num_threads": 1}, data, 30)
  ours = for_xgboost.objective(LOSSES[name])
  other = xgboost.train({"nthread": 1}, xgboost.DMatrix(X, Y, group=SIZES), 30, obj=ours)
  chance = mean_ndcg(np.zeros(len(NEW[1])), *NEW[1:])
  for scores in (forest.predict(NEW[0]), other.predict(xgboost.DMatrix(NEW[0]))):
    assert mean_ndcg(scores, *NEW[1:]) > chance + 0.1


def test_the_step_of_a_leaf_is_that_of_the_sums(lightgbm, xgboost):
  """One tree whose leaves are the two values of the only feature."""
  x = np.array([0.0, 1.0, 0.0, 1.0, 1.0])[:, None]
  y, sizes = np.array([2.0, 0.0, 1.0, 0.0, 3.0]), np.array([2, 3])
  ours = for_lightgbm.objective(losses.softmax)
  slope, curvature = ours(y, np.zeros(5), None, sizes)
  steps = [-slope[x[:, 0] == v].sum() / curvature[x[:, 0] == v].sum() for v in (0, 1)]
  loose = {"min_data_in_leaf": 1, "min_data_in_bin": 1, "learning_rate": 1.0, **QUIET}
  data = lightgbm.Dataset(x, y, group=sizes, params=loose)
  forest = lightgbm.train({"objective": ours, **loose}, data, 1)
  np.testing.assert_allclose(forest.predict([[0], [1]]), steps, rtol=1e-5)
  data = xgboost.DMatrix(x, y, group=sizes, base_margin=np.zeros(5))
  parameters = {"eta": 1.0, "lambda": 0.0, "min_child_weight": 0.0, "nthread": 1}
  tree = xgboost.train(parameters, data, 1, obj=for_xgboost.objective(losses.softmax))
  np.testing.assert_allclose(tree.predict(data)[:2], steps, rtol=1e-5)


def test_weights_stand_for_copies(lightgbm, xgboost):
  """A query of weight 2 trains as the query twice, up to the factor, which divides out."""
  twice = np.arange(SIZES.size) % 3 == 0
  rows = np.repeat(np.arange(SIZES.size), SIZES)
  more = np.concatenate([np.arange(len(X)), np.flatnonzero(twice[rows])])
  weights = 1.0 + twice
  sizes = np.concatenate([SIZES, SIZES[twice]])
  free = {**QUIET, "min_sum_hessian_in_leaf": 0.0, "min_data_in_leaf": 1, "max_bin": 15}
  free |= {"bin_construct_sample_cnt": 10**6, "num_leaves": 4, "learning_rate": 0.3}
  ours = for_lightgbm.objective(losses.pairwise_logistic)
  # The bins of the features are those of the data without copies.
  weighted = lightgbm.Dataset(X, Y, group=SIZES, weight=weights[rows], params=free)
  copies = lightgbm.Dataset(X[more], Y[more], group=sizes, reference=weighted)
  one, two = (lightgbm.train({**free, "objective": ours}, d, 3) for d in (weighted, copies))
  np.testing.assert_allclose(one.predict(X), two.predict(X), atol=1e-4)

  free = {"min_child_weight": 0.0, "lambda": 0.0, "max_depth": 2, "tree_method": "exact"}
  ours = for_xgboost.objective(losses.pairwise_logistic)
  weighted = xgboost.DMatrix(X, Y, group=SIZES, weight=weights)
  copies = xgboost.DMatrix(X[more], Y[more], group=sizes)
  margins = [np.zeros(len(X)), np.zeros(len(more))]
  weighted.set_base_margin(margins[0])
  copies.set_base_margin(margins[1])
  one, two = (xgboost.train(free, d, 3, obj=ours).predict(weighted) for d in (weighted, copies))
  np.testing.assert_allclose(one, two, atol=1e-4)


# A measure that rises as the trees learn, and one that falls.
RISES, FALLS = "nDCG@5", "fall_out@2"


@pytest.mark.parametrize("name", [RISES, "RR(rel=3)", "AP", "ERR@5", FALLS])
def test_early_stopping_goes_the_right_way(lightgbm, xgboost, name):
  best, worst = (np.argmin, np.argmax) if name == FALLS else (np.argmax, np.argmin)
  record = {}
  data = lightgbm.Dataset(X, Y, group=SIZES)
  forest = lightgbm.train(
    {"objective": for_lightgbm.objective(losses.softmax), **QUIET},
    data,
    60,
    [lightgbm.Dataset(NEW[0], NEW[1], group=NEW[2], reference=data)],
    feval=for_lightgbm.metrics(name),
    callbacks=[lightgbm.early_stopping(8, verbose=False), lightgbm.record_evaluation(record)],
  )
  (history,) = record["valid_0"].values()
  assert forest.best_iteration == 1 + best(history) != 1 + worst(history)

  record = {}
  forest = xgboost.train(
    {"nthread": 1},
    xgboost.DMatrix(X, Y, group=SIZES),
    60,
    obj=for_xgboost.objective(losses.softmax),
    custom_metric=for_xgboost.metrics(name),
    evals=[(xgboost.DMatrix(NEW[0], NEW[1], group=NEW[2]), "new")],
    early_stopping_rounds=8,
    verbose_eval=False,
    evals_result=record,
  )
  *_, history = record["new"].values()
  assert forest.best_iteration == best(history) != worst(history)


def test_the_ranker_of_lightgbm(lightgbm):
  pytest.importorskip("sklearn")
  from sklearn.base import clone

  ours, means = for_lightgbm.objective(losses.softmax), for_lightgbm.metrics("nDCG@5 fall_out@2")
  ranker = lightgbm.LGBMRanker(objective=ours, n_estimators=20, **QUIET)
  weight = np.random.default_rng(0).random(len(X))
  watch = {"eval_set": [(NEW[0], NEW[1])], "eval_group": [NEW[2]], "eval_metric": means}
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # LightGBM 4.7 has other names for the data to evaluate.
    ranker.fit(X, Y, group=SIZES, sample_weight=weight, **watch)
  data = lightgbm.Dataset(X, Y, group=SIZES, weight=weight)
  forest = lightgbm.train({"objective": ours, **QUIET}, data, 20)
  np.testing.assert_allclose(ranker.predict(NEW[0]), forest.predict(NEW[0]), rtol=1e-6)
  found = ranker.evals_result_["valid_0"]
  assert found["nDCG@5"][-1] == pytest.approx(mean_ndcg(ranker.predict(NEW[0]), *NEW[1:]), abs=1e-5)
  assert clone(ranker).objective is ours
  again = pickle.loads(pickle.dumps(ranker))
  np.testing.assert_array_equal(again.predict(NEW[0]), ranker.predict(NEW[0]))


def test_cross_validation(lightgbm, xgboost):
  ours = for_lightgbm.objective(losses.softmax)
  found = lightgbm.cv(
    {"objective": ours, **QUIET},
    lightgbm.Dataset(X, Y, group=SIZES),
    15,
    nfold=3,
    stratified=False,
    feval=for_lightgbm.metrics(RISES),
  )
  history = found[f"valid {RISES}-mean"]
  assert history[-1] > history[0]
  found = xgboost.cv(
    {"nthread": 1},
    xgboost.DMatrix(X, Y, group=SIZES),
    15,
    nfold=3,
    obj=for_xgboost.objective(losses.softmax),
    custom_metric=for_xgboost.metrics(RISES),
    as_pandas=False,
  )
  history = found["test-ndcg@5-mean"]
  assert history[-1] > history[0]


def test_bad_data_stop_before_the_first_tree(lightgbm, xgboost):
  ours = for_lightgbm.objective(losses.softmax)
  with pytest.raises(ValueError, match="lightgbm.objective: the data have no groups"):
    lightgbm.train({"objective": ours, **QUIET}, lightgbm.Dataset(X, Y), 2)
  with pytest.raises(ValueError, match="xgboost.objective: the data have no groups"):
    xgboost.train({}, xgboost.DMatrix(X, Y), 2, obj=for_xgboost.objective(losses.softmax))
  # LightGBM takes an initial score of NaN as 0.
  start = np.zeros(len(X))
  start[SIZES[0] + 1] = np.nan
  data = xgboost.DMatrix(X, Y, group=SIZES, base_margin=start)
  with pytest.raises(ValueError, match=f"the score of row {SIZES[0] + 1}, in query 1, is nan"):
    xgboost.train({}, data, 2, obj=for_xgboost.objective(losses.softmax))


def test_the_page_trains_xgboost_with_weights_of_queries(xgboost):
  """In a process of its own, which XGBoost's default metric would end."""
  page = (ROOT / "docs" / "boosting.md").read_text(encoding="utf-8")
  (block,) = (x for x in re.findall(r"```python\n(.*?)```", page, re.S) if "xgboost.train" in x)
  code = f"""
import numpy as np
import jaxrank as jr
rng = np.random.default_rng(0)
sizes = more_sizes = np.full(8, 6)
features = more_features = rng.normal(size=(48, 3))
labels = more_labels = rng.integers(0, 3, 48)
query_weights = more_weights = rng.random(8)
{block}
"""
  done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
  assert done.returncode == 0, done.stderr
  shown = done.stdout.splitlines()[-1].split("\t")
  assert [x.partition(":")[0] for x in shown[1:]] == ["valid-map", "valid-ndcg@10"]


def test_objectives_of_ones_own_with_bagging_by_query(lightgbm):
  """The page says that they grow no tree; when this fails, it must not."""
  bagging = {"bagging_by_query": True, "bagging_fraction": 0.5, "bagging_freq": 1, **QUIET}
  for ours, grows in ((for_lightgbm.objective(losses.softmax), False), ("lambdarank", True)):
    for parameters in (bagging, bagging | {"bagging_by_query": False}):
      data = lightgbm.Dataset(X, Y, group=SIZES)
      trees = lightgbm.train({"objective": ours, **parameters}, data, 2).dump_model()["tree_info"]
      grown = trees[0]["num_leaves"] > 1
      assert grown == (grows or not parameters["bagging_by_query"])


def test_a_ranker_of_xgboost_takes_no_callable(xgboost):
  """The page says so; when this fails, it must not."""
  pytest.importorskip("sklearn")
  with pytest.raises(ValueError, match="callable|custom|objective"):
    xgboost.XGBRanker(objective=for_xgboost.objective(losses.softmax)).fit(X, Y, group=SIZES)


def test_the_copy_of_lightgbm_keeps_the_programs(lightgbm):
  calls = []

  def loss(scores, labels, where):
    calls.append(scores.shape)
    return jnp.sum(jnp.where(where, (scores - labels) ** 2, 0), axis=-1)

  ours = for_lightgbm.objective(loss, curvature=lambda s, y, where: s * 0 + 2.0)
  assert copy.deepcopy(ours) is ours
  lightgbm.train({"objective": ours, **QUIET}, lightgbm.Dataset(X, Y, group=SIZES), 3)
  calls.clear()
  lightgbm.train({"objective": ours, **QUIET}, lightgbm.Dataset(X, Y, group=SIZES), 3)
  assert not calls
