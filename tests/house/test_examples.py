"""The examples run, each in a process of its own, on little data."""

import contextlib
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import jaxrank as jr
from tests.helpers.suites import thorough

pytestmark = thorough


ROOT = Path(__file__).parents[2]


def run(name, *arguments, cwd, **variables):
  """The output of an example."""
  environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg", **variables}
  done = subprocess.run(
    [sys.executable, ROOT / "examples" / name, *map(str, arguments)],
    cwd=cwd,
    env=environment,
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stderr
  return done.stdout


@pytest.fixture
def letor(tmp_path):
  """Two folds of LETOR, whose labels follow the first of three features."""
  rng = np.random.default_rng(0)
  lines = []
  for row in range(500):
    x = rng.random(3)
    features = " ".join(f"{i + 1}:{value:.3f}" for i, value in enumerate(x))
    lines.append(f"{int(3 * x[0] + 0.3 * rng.normal())} qid:{row // 10} {features} #docid = d{row}")
  parts = [lines[i : i + 100] for i in range(0, 500, 100)]
  for fold in range(2):
    folder = tmp_path / "folds" / f"Fold{fold + 1}"
    folder.mkdir(parents=True)
    turned = parts[fold:] + parts[:fold]
    for name, chosen in (("train", sum(turned[:3], [])), ("vali", turned[3]), ("test", turned[4])):
      (folder / f"{name}.txt").write_text("\n".join(x.replace("-1 qid", "0 qid") for x in chosen))
  return tmp_path / "folds"


def test_train_ranker_draws_and_tells(tmp_path):
  told = run("train_ranker.py", "--steps", 3, "--out", "plot.png", cwd=tmp_path)
  assert "mAP" in told
  assert "after training" in told
  assert "random layer" in told.splitlines()[-3]
  assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def _means(told):
  """The tables of `train_letor.py`: the mean of each system by measure."""
  tables = [x.splitlines() for x in told.split("\n\n") if "interval" in x]
  return {t[0]: {row.split()[0]: float(row.split()[1]) for row in t[2:]} for t in tables}


def test_train_letor_takes_files_and_writes_runs(letor, tmp_path):
  one = letor / "Fold1"
  files = ["--train", one / "train.txt", "--valid", one / "vali.txt", "--test", one / "test.txt"]
  small = ["--joined", "--seeds", 2, "--epochs", 12, "--loss", "ndcg", "--runs", "runs"]
  told = run("train_letor.py", *files, *small, cwd=tmp_path)
  means = _means(told)
  assert list(means) == ["AP", "ERR@10", "ndcg_burges@10"]
  assert means["ndcg_burges@10"]["network"] > 0.9
  assert "standard errors of the paired difference" in told
  assert (tmp_path / "train_letor.png").read_bytes().startswith(b"\x89PNG")
  with contextlib.chdir(tmp_path):
    of_runs = jr.trec.evaluate("AP", "runs/qrels.txt", "runs/network.run")
  np.testing.assert_allclose(of_runs.mean()["AP"], means["AP"]["network"], atol=1e-4)


def test_train_letor_trains_all_folds_beside_trees(letor, tmp_path):
  pytest.importorskip("lightgbm")
  small = ["--folds", letor, "--lightgbm", "--no-joined", "--seeds", 2, "--epochs", 12]
  means = _means(run("train_letor.py", *small, cwd=tmp_path))["ndcg_burges@10"]
  assert list(means) == ["network", "LightGBM", "blend", "single-network"]
  assert min(means.values()) > 0.9


def test_trees_get_the_rows_of_a_query_side_by_side(monkeypatch):
  lightgbm = pytest.importorskip("lightgbm")
  monkeypatch.syspath_prepend(ROOT / "examples")
  example, sets, given = importlib.import_module("train_letor"), [], []
  monkeypatch.setattr(lightgbm, "Dataset", lambda *x, group, **_: sets.append((*x, group)))
  forest = SimpleNamespace(
    best_score={"valid_0": {"ndcg@10": 0.5}}, best_iteration=1, predict=lambda x: x[:, 0]
  )
  monkeypatch.setattr(lightgbm, "train", lambda *_, **__: forest)
  for ids in ([7, 7, 2, 2, 2], [5, 3, 5, 3, 3], [1, 1]):
    labels = np.float32(ids)
    given.append(jr.letor.Dataset(labels[:, None], labels, np.array(ids)))
  example.trees(*given, SimpleNamespace(joined=True, seeds=1))
  assert [x[1].tolist() for x in sets[::2]] == [[2, 2, 2, 7, 7], [2, 2, 2, 3, 3, 3, 5, 5, 7, 7]]
  assert [x[2].tolist() for x in sets] == [[3, 2], [3, 2], [3, 3, 2, 2]]


def test_sweep_draws_and_tells(tmp_path):
  small = ["--temperatures", 2, "--rates", 2, "--seeds", 1, "--steps", 10]
  told = run("sweep.py", *small, "--sequential", "--out", "plot.png", cwd=tmp_path)
  assert "times faster at once" in told
  assert "nDCG@10" in told
  assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_fairness_draws_a_frontier(tmp_path):
  small = ["--rankers", 3, "--queries", 60, "--steps", 60]
  told = run("fairness.py", *small, "--out", "plot.png", cwd=tmp_path)
  rows = [[float(x) for x in line.split()] for line in told.splitlines()[1:4]]
  ndcg, ratio = ([row[i] for row in rows] for i in (1, 3))
  assert ratio[0] > ratio[-1] > 0.9
  assert ndcg[0] > ndcg[-1]
  assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_fuse_tunes_and_draws(tmp_path):
  told = run("fuse.py", "--steps", 4, "--out", "plot.png", cwd=tmp_path).splitlines()
  values = {line[:26].strip(): line[26:].split() for line in told if " AP " in line[20:]}
  assert float(values["as recommended"][1]) > float(values["pixels alone"][1]) + 0.02
  assert len(values) == 15
  assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_clicks_learns_from_propensities(tmp_path):
  told = run("clicks.py", "--seeds", 2, "--queries", 200, "--steps", 200, cwd=tmp_path)
  ndcg = {line[:18].strip(): float(line[18:].split()[0]) for line in told.splitlines()[1:5]}
  assert ndcg["weighted"] > ndcg["naive"] + 0.02
  assert ndcg["known relevance"] > ndcg["naive"] + 0.02


def test_recommend_learns_with_each_loss(tmp_path):
  small = ["--users", 300, "--items", 400, "--each", 20, "--steps", 400]
  told = run("recommend.py", *small, cwd=tmp_path).splitlines()
  mrr = {line[:16].strip(): float(line[16:].split()[2]) for line in told[2:-1]}
  assert mrr["batch"] > mrr["batch, no log_q"]
  assert min(mrr["batch"], mrr["catalogue"], mrr["then nDCG"]) > mrr["popularity"]
  assert told[-1].startswith("The best nDCG@10 among all items is that of ")


def test_two_tower_is_the_same_on_one_and_on_four_devices(tmp_path):
  small = ["--users", 100, "--items", 203, "--each", 12, "--steps", 30, "--every", 5]
  told = {}
  for devices in ("1", "4"):
    variables = {"JAX_NUM_CPU_DEVICES": devices}
    told[devices] = run("two_tower.py", *small, cwd=tmp_path, **variables).splitlines()
    assert told[devices][0] == f"{devices} devices"
    assert (tmp_path / "two_tower.png").stat().st_size > 1000
  numbers = {
    d: [[float(x) for x in re.findall(r" ([\d.]+)", line)] for line in lines[1:7]]
    for d, lines in told.items()
  }
  np.testing.assert_allclose(numbers["4"], numbers["1"], rtol=0, atol=1e-5)
  losses = [row[1] for row in numbers["1"]]
  assert losses[-1] < losses[0]
  assert told["4"][8] == told["1"][8]


def test_link_prediction_learns_and_filters(tmp_path):
  small = ["--entities", 100, "--relations", 4, "--epochs", 100]
  told = run("link_prediction.py", *small, cwd=tmp_path)
  *lines, _, shown = told.splitlines()[2:]
  rows = [line.split() for line in lines]
  assert "Filtered ranks" in shown
  values = {name: (float(raw), float(filtered)) for name, raw, filtered in rows}
  assert values["adjusted_arithmetic_mean_rank_index"][1] > 0.3
  assert values["mrr"][1] > values["mrr"][0]


def test_boost_compares_and_draws(tmp_path):
  pytest.importorskip("lightgbm")
  told = run("boost.py", "--queries", 50, "--trees", 5, "--out", "plot.png", cwd=tmp_path)
  rows = [line.split(" | ") for line in told.splitlines() if line.startswith("|")][2:]
  assert len(rows) == 6
  assert all(0.4 < float(row[1].split()[0]) < 1 for row in rows)
  assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
