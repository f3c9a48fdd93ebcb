"""Nothing retrieved counts 0 at every door; what a file of rows would lose is refused by name."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import jaxrank as jr

trec = jr.trec
QRELS = {"q1": {"a": 1, "b": 0}, "q2": {"b": 1}}
NO_ROWS = {"query_id": pa.array([], pa.string()), "doc_id": pa.array([], pa.string())}


@pytest.fixture
def sources(tmp_path):
  """Runs without any query, by what they are."""
  texts = {"empty": "", "blank": "\n \n", "comments.run": "# nothing was found\n", "x.json": "{}"}
  texts |= {"x.jsonl": "", "x.csv": "query_id,doc_id,score\n", "x.tsv": "qid\tdocno\tscore\n"}
  texts |= {"list.json": "[]", "spaced.json": "\n [ ]\n"}
  for name, text in texts.items():
    (tmp_path / name).write_text(text)
  frame = pa.table(NO_ROWS | {"score": pa.array([], pa.float64())})
  trec.read_run(frame).write(tmp_path / "x.parquet")
  trec.read_run(frame).write(tmp_path / "x.run.gz")
  pyarrow.parquet.write_table(pa.table({}), tmp_path / "nothing.parquet")
  arrays = trec.Run.from_arrays([], np.zeros((0, 3), object), np.zeros((0, 3)))
  columns = ("qid", "docno", "score")
  without_types = pa.table({name: pa.nulls(0) for name in columns})
  numbers = pa.table({name: pa.array([], pa.float64()) for name in columns})
  return {
    **{path.name: path for path in tmp_path.iterdir()},
    **{"dict": {}, "rows": [], "frame": frame, "frame without types": without_types},
    "frame of numbers": numbers,
    "frame without columns": pa.table({}),
    "from_arrays": arrays,
  }


def test_rows_without_columns_are_refused(tmp_path):
  (tmp_path / "x.json").write_text("[{}]")
  for source in (tmp_path / "x.json", [{}]):
    for read in (trec.read_run, trec.read_qrels):
      with pytest.raises(ValueError, match="column of the query, 'query_id'.* there are none"):
        read(source)


def test_a_run_without_queries(sources):
  assert len(sources) == 19
  for what, source in sources.items():
    assert trec.read_run(source).to_dict() == {}, what
    arrays = trec.to_arrays(QRELS, source, queries="judged")
    assert arrays.scores.tolist() == [[-np.inf] * 2] * 2, what
    with pytest.raises(ValueError, match="has no queries; pass queries='judged' for 0"):
      trec.to_arrays(QRELS, source)
    with pytest.raises(ValueError, match=r"lacks 2 queries \('q1', 'q2'\) of the qrels"):
      trec.to_arrays(QRELS, source, queries="error")
  found = trec.evaluate("map ndcg P_5", QRELS, sources["x.run.gz"], queries="judged")
  assert found.mean() == {"map": 0.0, "ndcg": 0.0, "P_5": 0.0}
  assert found.only_in_qrels == ("q1", "q2")


def test_a_query_that_retrieved_nothing(tmp_path):
  """It counts 0 from a dictionary, JSON and arrays, as one that the run lacks if it is listed."""
  run = {"q2": {"b": 1.0}, "q1": {}}
  padded = trec.Run.from_arrays(["q2", "q1"], [["b"], ["x"]], np.array([[1.0], [-np.inf]]))
  trec.read_run(run).write(tmp_path / "run.json")
  for source in (run, tmp_path / "run.json", padded):
    for queries in ("both", "judged", "error"):
      found = trec.evaluate("map", QRELS, source, queries=queries)
      assert found.values["map"].tolist() == [0.0, 1.0]
  left_out = {"q2": {"b": 1.0}}
  assert trec.evaluate("map", QRELS, left_out, queries="judged").mean() == {"map": 0.5}
  assert trec.evaluate("map", QRELS, {"q1": {}}).values["map"].tolist() == [0.0]


@pytest.mark.parametrize("suffix", ["", ".tsv", ".csv", ".jsonl", ".parquet"])
def test_what_files_of_rows_would_lose_is_refused(tmp_path, suffix):
  run, qrels = trec.read_run({"q2": {"b": 1.0}, "q1": {}}), trec.read_qrels({"q1": {}} | QRELS)
  empty = trec.read_qrels({"q7": {}, "q2": {"b": 1}})
  with pytest.raises(
    ValueError, match=r"Run.write: query 'q1' has no documents, and a file of rows"
  ):
    run.write(tmp_path / f"run{suffix}")
  with pytest.raises(ValueError, match=r"Qrels.write: query 'q7' has no documents.* write JSON"):
    empty.write(tmp_path / f"qrels{suffix}")
  assert not [*tmp_path.iterdir()]
  qrels.write(tmp_path / f"qrels{suffix}")


def test_what_frames_would_lose_is_refused():
  with pytest.raises(ValueError, match="Run.to_frame: query 'q1' has no documents, and a frame"):
    trec.read_run({"q2": {"b": 1.0}, "q1": {}}).to_frame("polars")
  with pytest.raises(ValueError, match="Qrels.to_frame: query 'q7' has no documents"):
    trec.read_qrels({"q7": {}, "q2": {"b": 1}}).to_frame()


def test_a_query_without_judgements_has_one_value(tmp_path):
  qrels, run = {"q1": {}, "q2": {"b": 1}}, {"q1": {"b": 1.0}, "q2": {"b": 1.0}}
  trec.read_qrels(qrels).write(tmp_path / "qrels.json")
  for source in (qrels, trec.read_qrels(qrels).to_dict(), tmp_path / "qrels.json"):
    found = trec.evaluate("map", source, run)
    assert found.values["map"].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("source", [{}, [], pa.table(NO_ROWS | {"rel": pa.array([], pa.int8())})])
def test_qrels_without_queries_judge_nothing(source):
  with pytest.raises(ValueError, match="trec.read_qrels: the qrels holds no rows"):
    trec.read_qrels(source)
