"""Judgements by subtopic, and measures of diversity of files, as by pyndeval 0.0.8."""

import collections
import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import jaxrank as jr

trec = jr.trec
# A document is in several subtopics, one is judged and irrelevant, and the numbers have gaps.
QRELS = """\
q1 1 b 1
q1 1 a 2
q1 2 a 1
q1 2 c 1
q1 3 e 1
q1 3 a 0
q2 1 b 1
q2 4 c 1
q2 4 b 1
q2 2 d 0
"""
# Documents are tied in both queries; ndeval has the smaller id first.
RUN = """\
q1 Q0 c 1 3 t
q1 Q0 x 2 2 t
q1 Q0 b 3 2 t
q1 Q0 a 4 1 t
q2 Q0 d 1 2 t
q2 Q0 c 2 1 t
q2 Q0 b 3 1 t
"""
VALUES = {
  "ERR-IA@3": (0.375, 0.43750000000000006),
  "nERR-IA@3": (0.5625, 0.5185185185185186),
  "alpha-DCG@3": (0.3774081964452879, 0.5247818018709686),
  "alpha-nDCG@3": (0.566112294667932, 0.6529399440693053),
  "P-IA@3": (0.2222222222222222, 0.5),
  "strec@3": (0.6666666666666666, 1.0),
  "NRBP": (0.40625, 0.421875),
  "nNRBP": (0.6046511627906976, 0.5),
  "MAP-IA": (0.4166666666666667, 0.5416666666666666),
}
ROWS = [(q, s, d, int(x)) for q, s, d, x in map(str.split, QRELS.splitlines())]


# ir_datasets' names, in its order, and those of other libraries and of the pages of ndeval.
NAMES = [
  ("query_id", "doc_id", "relevance", "subtopic_id"),
  ("qid", "docno", "label", "iteration"),
  ("query", "document", "judgement", "subtopic"),
  ("topic", "docno", "judgment", "subtopic"),
]


def columns(names):
  query, subtopic, document, label = zip(*ROWS, strict=True)
  return dict(zip(names, (query, document, label, subtopic), strict=True))


def dicts(names):
  return [dict(zip(names, (q, d, x, s), strict=True)) for q, s, d, x in ROWS]


def separated(names, separator):
  rows = [names, *(map(str, row.values()) for row in dicts(names))]
  return "".join(f"{separator.join(row)}\n" for row in rows)


TEXTS = {
  "TREC": lambda names: QRELS,
  "CSV": lambda names: separated(names, ","),
  "TSV": lambda names: separated(names, "\t"),
  "JSON lines": lambda names: "".join(f"{json.dumps(row)}\n" for row in dicts(names)),
  "JSON, a list of objects": lambda names: json.dumps(dicts(names)),
  "JSON, a list": lambda names: json.dumps(ROWS),
}


@pytest.fixture
def folder(tmp_path):
  (tmp_path / "qrels").write_text(QRELS)
  (tmp_path / "mixed.gz").write_bytes(
    gzip.compress("".join(f"{line}\r\n" for line in QRELS.splitlines()[::-1]).encode())
  )
  (tmp_path / "run").write_text(RUN)
  return tmp_path


@pytest.mark.parametrize("source", ["qrels", "mixed.gz", "rows"])
def test_the_values_are_those_of_ndeval(folder, source):
  qrels = ROWS if source == "rows" else folder / source
  found = trec.evaluate([*VALUES], qrels, folder / "run")
  assert found.queries == ("q1", "q2")
  for name, values in VALUES.items():
    np.testing.assert_allclose(found.values[name], values, rtol=1e-12, err_msg=name)


# All three documents gain 2 at the first rank, and pyndeval's ideal begins with the largest id.
TIED = [("q", s, d, 1) for d, two in {"d39": "24", "d23": "12", "d28": "51"}.items() for s in two]
IDEAL = ("nERR-IA@20", "alpha-nDCG@20", "nNRBP")
OF_TIED = {
  ("d23",): (0.6, 0.5316519652587917, 0.6153846153846154),
  ("d28", "d23"): (0.825, 0.7832282478286746, 0.8461538461538461),
}


@pytest.mark.parametrize("ranked", OF_TIED, ids=str)
@pytest.mark.parametrize("ties", ["document", "average"])
def test_equal_gains_of_the_ideal_are_those_of_ndeval(ranked, ties):
  run = {"q": {document: -float(i) for i, document in enumerate(ranked)}}
  found = trec.evaluate([*IDEAL], TIED, run, ties=ties)
  np.testing.assert_allclose([found.values[x][0] for x in IDEAL], OF_TIED[ranked], rtol=1e-12)


def test_the_ideal_does_not_depend_on_the_run():
  """A run and its reverse have one ideal, so that the ratio of normalised values is that of others.

  Seven subtopics of weight 1/7, so that sums of weights are rounded.
  """
  rng = np.random.default_rng(0)
  covered = rng.random((40, 12, 7)) < 0.3
  rows = [(f"q{q}", str(s), f"d{d}", 1) for q, d, s in np.argwhere(covered).tolist()]
  ideals = []
  for _ in range(3):
    order = rng.permuted(np.tile(np.arange(12), (40, 1)), axis=1)
    run = {f"q{q}": {f"d{d}": -float(i) for i, d in enumerate(x)} for q, x in enumerate(order)}
    found = trec.evaluate("alpha-DCG@5 alpha-nDCG@5 ERR-IA@5 nERR-IA@5 NRBP nNRBP", rows, run)
    pairs = [*found.values.values()]
    ideals.append([x / y for x, y in zip(pairs[::2], pairs[1::2], strict=True)])
  np.testing.assert_allclose(ideals[1:], [ideals[0]] * 2, rtol=1e-12)


def test_labels_have_a_column_for_each_subtopic(folder):
  qrels = trec.read_qrels(folder / "qrels", subtopics=True)
  assert qrels.queries == ("q1", "q2")
  assert qrels.documents.to_pylist() == ["b", "a", "c", "e", "b", "c", "d"]
  right = [[1, 0, 0], [2, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [0, 0, 1], [0, 0, 0]]
  assert qrels.labels.tolist() == right
  for way in (qrels.to_dict, qrels.to_frame, lambda: qrels.write(folder / "written")):
    with pytest.raises(ValueError, match="labels by subtopic are not written"):
      way()


def same(qrels, folder):
  right = trec.read_qrels(folder / "qrels", subtopics=True)
  assert qrels.queries == right.queries
  assert qrels.documents.to_pylist() == right.documents.to_pylist()
  assert qrels.labels.tolist() == right.labels.tolist()


@pytest.mark.parametrize("names", NAMES, ids=" ".join)
def test_files_of_all_formats_hold_the_same(folder, names):
  path = folder / "file"
  for text in TEXTS.values():
    for pack in (bytes, gzip.compress):
      path.write_bytes(pack(text(names).encode()))
      same(trec.read_qrels(path, subtopics=True), folder)
  pa.parquet.write_table(pa.table(columns(names)), path)
  same(trec.read_qrels(path, subtopics=True), folder)


@pytest.mark.parametrize("names", NAMES, ids=" ".join)
def test_what_is_in_memory_holds_the_same(folder, names):
  table = pa.table(columns(names) | {"text": ["that is not read"] * len(ROWS)})
  row = collections.namedtuple("Qrel", names)
  for source in (table, dicts(names), iter(dicts(names)), [row(**x) for x in dicts(names)]):
    same(trec.read_qrels(source, subtopics=True), folder)
  numbered = table.set_column(3, names[3], pa.array([int(s) for _, s, _, _ in ROWS]))
  same(trec.read_qrels(numbered, subtopics=True), folder)


def test_a_file_without_subtopics_may_have_their_column(folder):
  (folder / "csv").write_text("query_id,subtopic,doc_id,relevance\nq1,x,d,2\n")
  assert trec.read_qrels(folder / "csv").to_dict() == {"q1": {"d": 2}}


@pytest.mark.parametrize("ties", ["document", "average"])
def test_padded_arrays_have_the_values(folder, ties):
  qrels = trec.read_qrels(folder / "qrels", subtopics=True)
  arrays = trec.to_arrays(qrels, folder / "run", ties=ties)
  assert arrays.labels.shape == (*arrays.where.shape, 3)
  # In descending order of ids, in which the greedy order takes documents of equal gains.
  assert arrays.documents.tolist() == [["x", "e", "c", "b", "a"], ["d", "c", "b", "", ""]]
  if ties == "document":
    # Ties of equal scores have the smaller id first.
    right = [[-3, -np.inf, -1, -2, -4], [-1, -3, -2, -np.inf, -np.inf]]
    assert arrays.scores.tolist() == right
  assert arrays.labels[arrays.documents == "x"].tolist() == [[-1, -1, -1]]
  found = trec.evaluate([*VALUES], qrels, folder / "run", ties=ties)
  for name, values in jr.evaluate(
    [*VALUES], arrays.scores, arrays.labels, where=arrays.where
  ).items():
    np.testing.assert_allclose(values, found.values[name], rtol=1e-6, err_msg=name)


def test_a_query_that_the_run_lacks_counts_as_0():
  qrels = [*ROWS, ("q3", "1", "z", 1)]
  run = {"q1": {"c": 3.0, "x": 2.0, "b": 2.0, "a": 1.0}}
  found = trec.evaluate("alpha-nDCG@3", qrels, run, queries="judged")
  right = [VALUES["alpha-nDCG@3"][0], 0, 0]
  np.testing.assert_allclose(found.values["alpha-nDCG@3"], right, rtol=1e-12)


@pytest.mark.parametrize("second", [1, "1", "0"])
def test_rows_of_four_are_no_rows_of_three(second):
  rows, run = [("q", second, "moth", 1)], {"q": {"moth": 1.0}}
  told = r"a row must be \(query, document, label\), got .*'moth', 1[)\]].*subtopics=True"
  for qrels in (rows, [list(row) for row in rows]):
    with pytest.raises(TypeError, match=told):
      trec.evaluate("nDCG@10", qrels, run)
    assert trec.evaluate("alpha_nDCG@10", qrels, run).mean() == {"alpha_nDCG@10": 1}
  # What follows the label is ignored.
  assert trec.evaluate("nDCG@10", [("q", "moth", 1, "by hand")], run).mean() == {"nDCG@10": 1}


def test_what_is_refused(folder):
  with pytest.raises(ValueError, match=r"NRBP needs labels by subtopic.*subtopics=True"):
    trec.evaluate("NRBP", trec.read_qrels({"q1": {"a": 1}}), folder / "run")
  with pytest.raises(ValueError, match="AP takes one label for each document"):
    trec.evaluate("NRBP AP", ROWS, folder / "run")
  with pytest.raises(TypeError, match=r"rows \(query, subtopic, document, label\)"):
    trec.evaluate("NRBP", {"q1": {"a": 1}}, folder / "run")
  with pytest.raises(TypeError, match=r"no dictionary of dictionaries; pass rows \(query, subt"):
    trec.read_qrels({"q1": {"1": {"a": 1}}}, subtopics=True)
  (folder / "twice").write_text(QRELS + "q1 3 a 1\n")
  told = "twice, line 11: query 'q1', subtopic '3' has document 'a' twice"
  with pytest.raises(ValueError, match=told):
    trec.read_qrels(folder / "twice", subtopics=True)


MISTAKES = {
  "q1 b 1\n": r"line 1: a line of a qrels file has 4 columns .*\(query, subtopic, docum",
  "q1,1,b,1\n": r"must name the columns \(query_id, subtopic_id, doc_id, relevance\)",
  "query_id,doc_id,relevance\nq1,b,1\n": "line 1: .* has 4 columns",
  "qid,iteration,docno,rel\nq1,1,b,1\nq1,,c,1\n": "line 3: a column is empty: 'q1  c 1'",
  "q1 1 b x\n": "line 1: the label must be a number, got 'x'",
  "q1 1 b 0.5\n": "line 1: the label must be a whole number",
  '{"qid": "q1", "docno": "b", "rel": 1}\n': "by subtopic are no dictionary of dictionaries",
  '[["q1", "b", 1]]': r"a row must be \(query, subtopic, document, label\), got \['q1', 'b', 1\]",
  "": r"holds no rows: it should have lines of query, subtopic, document, label",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_broken_files_are_told(tmp_path, text):
  (tmp_path / "qrels").write_text(text)
  with pytest.raises(ValueError, match=f"^trec.read_qrels: .*qrels[,:] .*(?:{MISTAKES[text]})"):
    trec.read_qrels(tmp_path / "qrels", subtopics=True)


def test_sources_in_memory_that_are_wrong_are_told():
  for source, error, told in (
    (pa.table({"qid": ["q"], "docno": ["d"], "rel": [1]}), ValueError, "column of the subtopic"),
    ([("q", "1", "", 1)], ValueError, "query 'q': a document has an empty id"),
    ([("q", "", "d", 1)], ValueError, "query 'q': a subtopic has an empty id"),
    ([("q", 1.5, "d", 1)], TypeError, "ids must be strings or integers, got 1.5"),
    ([("q", "1", "d", "x")], TypeError, "a label must be a number, got 'x'"),
    (5, TypeError, r"a pandas or polars frame, or rows \(query, subtopic, document, label\)"),
  ):
    with pytest.raises(error, match=told):
      trec.read_qrels(source, subtopics=True)
