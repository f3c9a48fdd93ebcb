"""Judgements by subtopic, and measures of diversity of files, as by pyndeval 0.0.8."""

import gzip

import numpy as np
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


def test_labels_have_a_column_for_each_subtopic(folder):
  qrels = trec.read_qrels(folder / "qrels", subtopics=True)
  assert qrels.queries == ("q1", "q2")
  assert qrels.documents.to_pylist() == ["b", "a", "c", "e", "b", "c", "d"]
  right = [[1, 0, 0], [2, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [0, 0, 1], [0, 0, 0]]
  assert qrels.labels.tolist() == right
  for way in (qrels.to_dict, qrels.to_frame, lambda: qrels.write(folder / "written")):
    with pytest.raises(ValueError, match="labels by subtopic are not written"):
      way()


def test_a_query_that_the_run_lacks_counts_as_0():
  qrels = [*ROWS, ("q3", "1", "z", 1)]
  run = {"q1": {"c": 3.0, "x": 2.0, "b": 2.0, "a": 1.0}}
  found = trec.evaluate("alpha-nDCG@3", qrels, run, queries="judged")
  right = [VALUES["alpha-nDCG@3"][0], 0, 0]
  np.testing.assert_allclose(found.values["alpha-nDCG@3"], right, rtol=1e-12)


def test_what_is_refused(folder):
  with pytest.raises(ValueError, match=r"NRBP needs labels by subtopic.*subtopics=True"):
    trec.evaluate("NRBP", trec.read_qrels({"q1": {"a": 1}}), folder / "run")
  with pytest.raises(ValueError, match="AP takes one label for each document"):
    trec.evaluate("NRBP AP", ROWS, folder / "run")
  with pytest.raises(TypeError, match=r"rows \(query, subtopic, document, label\)"):
    trec.evaluate("NRBP", {"q1": {"a": 1}}, folder / "run")
  (folder / "twice").write_text(QRELS + "q1 3 a 1\n")
  told = "twice, line 11: query 'q1', subtopic '3' has document 'a' twice"
  with pytest.raises(ValueError, match=told):
    trec.read_qrels(folder / "twice", subtopics=True)
