"""Fractional judgements: taken where the measure and the format can use them."""

import json

import numpy as np
import pyarrow as pa
import pytest

import jaxrank as jr

trec = jr.trec
QRELS = {"q1": {"a": 0.5, "b": 2.0, "c": 0.25, "d": -0.5}, "q2": {"a": 0.1}}
RUN = {"q1": {"c": 3.0, "b": 2.0, "a": 1.0, "x": 0.5}, "q2": {"b": 2.0, "a": 1.0}}
ROWS = [(q, d, x) for q, documents in QRELS.items() for d, x in documents.items()]


def text(form):
  return "".join(form.format(*row) + "\n" for row in ROWS)


@pytest.fixture
def sources(tmp_path):
  names = ("query_id", "doc_id", "relevance")
  frame = pa.table(dict(zip(names, zip(*ROWS, strict=True), strict=True)))
  texts = {
    "qrels.tsv": "query-id\tcorpus-id\tscore\n" + text("{}\t{}\t{}"),
    "qrels.csv": "qid,docno,rel\n" + text("{},{},{}"),
    "three.txt": text("{} {} {}"),
    "qrels.json": json.dumps(QRELS),
    "qrels.jsonl": "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in ROWS),
  }
  for name, content in texts.items():
    (tmp_path / name).write_text(content)
  trec.read_qrels(QRELS).write(tmp_path / "written.parquet")
  trec.read_qrels(QRELS).write(tmp_path / "written.tsv")
  trec.read_qrels(QRELS).write(tmp_path / "written.csv.gz")
  return [QRELS, ROWS, frame, *tmp_path.iterdir()]


def test_every_door_takes_them(sources):
  assert len(sources) == 11
  expected = {
    "q1": jr.ndcg(np.array([3.0, 2, 1, 0.5, -np.inf]), np.array([0.25, 2, 0.5, -1, -2])),
    "q2": jr.ndcg(np.array([2.0, 1]), np.array([-1, 0.1])),
  }
  for source in sources:
    qrels = trec.read_qrels(source)
    assert qrels.to_dict() == QRELS
    assert qrels.labels.dtype == np.float64
    arrays = trec.to_arrays(qrels, RUN)
    assert arrays.labels.dtype == np.float32
    np.testing.assert_array_equal(
      arrays.labels, np.array([[0.25, 2, 0.5, -1, -2], [-1, 0.1, 0, 0, 0]], np.float32)
    )
  found = trec.evaluate("ndcg", qrels, RUN)
  np.testing.assert_allclose(found.values["ndcg"], [*expected.values()], rtol=1e-6)
  # With the label 0.5 rounded the value is another one.
  assert (
    abs(found.values["ndcg"][0] - trec.evaluate("ndcg", {"q1": {"b": 2}}, RUN).mean()["ndcg"])
    > 0.01
  )


def test_whole_labels_are_integers():
  assert trec.read_qrels({"q": {"a": 1.0, "b": True}}).labels.dtype == np.int32


def test_formats_of_whole_labels_refuse_them(tmp_path):
  (tmp_path / "qrels").write_text("q1 0 b 2\nq1 0 a 0.5\n")
  with pytest.raises(
    ValueError, match=r"qrels, line 2: the label must be a whole number, got '0.5'"
  ):
    trec.read_qrels(tmp_path / "qrels")
  with pytest.raises(
    ValueError, match=r"Qrels.write: query 'q1', document 'a': .* got 0.5; write TSV"
  ):
    trec.read_qrels(QRELS).write(tmp_path / "written.txt")
  assert [path.name for path in tmp_path.iterdir()] == ["qrels"]


def test_gains_by_table_refuse_them():
  """A table would cut 0.5 to 0; the labels of a dictionary are compared as they are."""
  qrels, run = {"q0": {"z": 1.5}, "q1": {"a": 2, "b": 1, "c": -0.5}}, {"q1": {"b": 2.0, "a": 1.0}}
  table = jr.Measure(jr.dcg, gain=jr.gains.table([0.0, 1.0, 5.0]), name="table")
  # Labels of queries that are not evaluated, and negative ones, do not matter.
  value = trec.evaluate([table], qrels, run).values["table"]
  np.testing.assert_allclose(value, [1 + 5 / np.log2(3)], rtol=1e-12)
  told = r"table has gains of whole labels .*query 'q0', document 'z' the label 1.5; use gains.by"
  with pytest.raises(ValueError, match=told):
    trec.evaluate(["AP", table], qrels, run, queries="judged")
  labels = jr.Measure(jr.dcg, gain=jr.gains.by_label({0.1: 7, 0.5: 3}), name="labels")
  qrels = {"q1": {"a": 0.1, "b": 0.5, "c": 0.25}}
  value = trec.evaluate([labels], qrels, {"q1": {"a": 3.0, "b": 2.0, "c": 1.0}}).values["labels"]
  np.testing.assert_allclose(value, [7 + 3 / np.log2(3) + 0.25 / 2], rtol=1e-12)
