"""Ray Data: a dataset in tasks is one `Evaluator` over all rows, also when a worker dies."""

import os
import signal

import numpy as np
import pytest

ray = pytest.importorskip("ray")
pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq  # noqa: E402

import jaxrank as jr  # noqa: E402
from jaxrank.interop.ray import PerQuery, evaluate  # noqa: E402
from tests.helpers.suites import thorough  # noqa: E402

pytestmark = [
  pytest.mark.xdist_group("ray"),
  # Ray warns of its own settings, and of its sockets.
  pytest.mark.filterwarnings("ignore"),
]
MEASURES = "nDCG@5 AP RR"
ROWS, FILES = 600, 3


@pytest.fixture(scope="module")
def cluster():
  """A local cluster of two workers, without a dashboard."""
  environment = {"JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join([os.getcwd()])}
  ray.init(
    num_cpus=2,
    include_dashboard=False,
    log_to_driver=False,
    logging_level="error",
    runtime_env={"env_vars": environment},
  )
  ray.data.DataContext.get_current().enable_progress_bars = False
  yield
  ray.shutdown()


@pytest.fixture(scope="module")
def lists():
  """Ragged lists, with ties, empty lists, weights, and countries."""
  rng = np.random.default_rng(0)
  sizes = rng.integers(0, 21, ROWS)
  return {
    "scores": [np.round(rng.normal(size=n), 1).astype(np.float32) for n in sizes],
    "labels": [rng.integers(0, 3, n) for n in sizes],
    "weight": rng.random(ROWS).astype(np.float32),
    "country": rng.choice(["de", "fr", "it"], ROWS),
  }


def table(lists, **changed):
  return pa.table({name: list(column) for name, column in {**lists, **changed}.items()})


@pytest.fixture(scope="module")
def folder(lists, tmp_path_factory):
  """The lists in Parquet files."""
  path = tmp_path_factory.mktemp("lists")
  rows = table(lists)
  for i in range(FILES):
    part = rows.slice(i * ROWS // FILES, ROWS // FILES)
    pq.write_table(part, path / f"{i}.parquet")
  return str(path)


def expected(lists, chosen, weights=None):
  """The state of one evaluator over the chosen rows."""
  own = jr.Evaluator(MEASURES)
  length = max(map(len, lists["scores"]))
  where = np.array([np.arange(length) < len(x) for x in lists["scores"]])[chosen]
  padded = [np.zeros((chosen.sum(), length), np.float32) for _ in range(2)]
  for name, cells in zip(("scores", "labels"), padded, strict=True):
    cells[where] = np.concatenate([x for x, c in zip(lists[name], chosen, strict=True) if c])
  weights = None if weights is None else weights[chosen]
  return own, own.update(own.init(), *padded, where=where, query_weights=weights)


def check(frame, lists, weights=None):
  values = ["all"] if "by" not in frame else [*frame["by"].unique()]
  for value in values:
    chosen = np.full(ROWS, True) if value == "all" else lists["country"] == value
    own, state = expected(lists, chosen, weights)
    rows = frame if value == "all" else frame[frame["by"] == value]
    low, high = zip(*own.interval(state).values(), strict=True)
    for name, column in {
      "mean": own.compute(state).values(),
      "standard_error": own.standard_error(state).values(),
      "low": low,
      "high": high,
      "queries": np.asarray(state.count),
    }.items():
      np.testing.assert_allclose(rows[name], [*column], rtol=1e-5, atol=1e-6, err_msg=name)
    assert [*rows["measure"]] == MEASURES.split()


@thorough
@pytest.mark.parametrize("options", [{}, {"batch_size": 37, "buckets": [4, 9, 20]}], ids=str)
def test_a_dataset_is_evaluated_as_a_whole(cluster, lists, folder, options):
  check(evaluate(ray.data.read_parquet(folder), MEASURES, **options), lists)


@thorough
def test_values_of_a_column_are_evaluated_apart(cluster, lists, folder):
  frame = evaluate(
    ray.data.read_parquet(folder), MEASURES, by="country", query_weights="weight", batch_size=50
  )
  assert [*frame["by"].unique()] == ["de", "fr", "it"]
  check(frame, lists, lists["weight"])


class Killing:
  """Kills the worker that sees the first block, once."""

  def __init__(self, flag):
    self.flag = flag

  def __call__(self, part):
    if not os.path.exists(self.flag):
      with open(self.flag, "x"):
        os.kill(os.getpid(), signal.SIGKILL)
    return part


@pytest.mark.killed
def test_a_killed_worker_loses_and_repeats_no_query(cluster, lists, folder, tmp_path):
  flag = str(tmp_path / "killed")
  dataset = ray.data.read_parquet(folder, override_num_blocks=FILES)
  dataset = dataset.map_batches(Killing(flag), batch_format="pyarrow")
  check(evaluate(dataset, MEASURES, by="country", batch_size=50), lists)
  assert os.path.exists(flag)


@thorough
def test_values_of_rows_are_columns(cluster, lists, folder):
  dataset = ray.data.read_parquet(folder).map_batches(PerQuery("nDCG@5 RR"), batch_format="pyarrow")
  rows = dataset.take_all()
  assert len(rows) == ROWS
  for row in rows:
    scores, labels = np.array(row["scores"], np.float32), np.array(row["labels"], np.int32)
    if len(scores):
      np.testing.assert_allclose(row["nDCG@5"], jr.ndcg(scores, labels, k=5), rtol=1e-5)
      np.testing.assert_allclose(row["RR"], jr.reciprocal_rank(scores, labels), rtol=1e-5)
    else:
      assert row["nDCG@5"] == row["RR"] == 0


def with_row(lists, name, at, value):
  column = [*lists[name]]
  column[at] = value
  return {**lists, name: column}


@thorough
@pytest.mark.parametrize(
  ("changed", "options", "text"),
  [
    ({}, {"scores": "score"}, r"there is no column 'score'; the dataset has \['country'"),
    ({}, {"scores": "weight"}, "column 'weight' must have a list in each row, got float"),
    (("labels", 5, [1]), {}, "row 5 of a batch .*scores has .* items and labels 1"),
    (("scores", 7, None), {}, "row 7 of a batch .*scores is null"),
    (("country", 3, None), {"by": "country"}, "row 3 of .*country is null"),
    ({}, {"buckets": [4, 8]}, "a list has 20 items, and the last of the buckets is 8"),
    ({}, {"buckets": []}, "at least one length, got none"),
    ({}, {"batch_size": 0}, "batch_size must be at least 1"),
    ({}, {"empty": "neg"}, "empty must be one of"),
  ],
)
def test_what_cannot_be_evaluated_is_named(cluster, lists, changed, options, text):
  rows = with_row(lists, *changed) if changed else lists
  dataset = ray.data.from_arrow(table(rows))
  with pytest.raises(ValueError, match=f"interop.ray.evaluate: .*{text}"):
    evaluate(dataset, MEASURES, **options)


@thorough
def test_labels_beyond_the_scale_of_a_measure_are_named(cluster, lists):
  at = next(i for i, x in enumerate(lists["labels"]) if i > 10 and len(x) > 2)
  batch = table(with_row(lists, "labels", at, np.append(lists["labels"][at][:-1], 5)))
  item = len(lists["labels"][at]) - 1
  told = rf"ERR@10 has .* row {at} of a batch .*, item {item}, the label 5; write err\(max_label"
  with pytest.raises(ValueError, match=told):
    PerQuery("RR ERR@10")(batch)
  with pytest.raises(ValueError, match=told):
    evaluate(ray.data.from_arrow(batch), "ERR@10")
  assert PerQuery("RR err(max_label=5)@10")(batch).num_rows == ROWS


@thorough
@pytest.mark.parametrize("value", [np.nan, None])
def test_a_bad_score_is_named_with_its_file(cluster, lists, tmp_path, value):
  at = next(i for i, x in enumerate(lists["scores"]) if i > 10 and len(x) > 2)
  rows = with_row(lists, "scores", at, [value, *lists["scores"][at][1:].tolist()])
  pq.write_table(table(rows), tmp_path / "bad.parquet")
  dataset = ray.data.read_parquet(str(tmp_path), include_paths=True)
  with pytest.raises(ValueError, match=f"row {at} of a batch of .*bad.parquet: scores has a "):
    evaluate(dataset, MEASURES)
