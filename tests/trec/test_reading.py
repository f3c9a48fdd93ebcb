"""Readers and writers of qrels and runs: every format, and every input that is refused."""

import gzip
import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxrank as jr
from jaxrank import _files
from jaxrank.trec import _text
from jaxrank.trec._layouts import RUN as RUN_LAYOUT
from tests.helpers.suites import quick, thorough
from tests.trec import oracle

trec = jr.trec
QRELS = {"q2": {"d1": 2, "d2": 0, "d3": -1}, "q1": {"é": 1}}
RUN = {"q2": {"d1": 0.25, "d9": -3.0}, "q1": {"é": 1e-05, "d1": 12.0}}
QRELS_TEXT = "q2 0 d1 2\nq2 0 d2 0\nq2 0 d3 -1\nq1 0 é 1\n"
RUN_TEXT = "q2 Q0 d1 1 0.25 bm25\nq2 Q0 d9 2 -3 bm25\nq1 Q0 é 7 1e-5 bm25\nq1 Q0 d1 7 12.0 bm25\n"


@pytest.fixture
def write(tmp_path):
  """Writes a file into an empty folder and gives its path."""

  def write(name, text):
    data = text if isinstance(text, bytes) else text.encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path

  return write


def respaced(text):
  """Lines with tabs and several blanks between columns, and blanks and blank lines around them."""
  lines = [f" {line.replace(' ', chr(9) + ' ')}  \r" for line in text.splitlines()]
  return "\n\n".join(lines)


VARIANTS = {
  "plain": lambda text: text,
  "tabs": lambda text: text.replace(" ", "\t"),
  "windows": lambda text: text.replace("\n", "\r\n"),
  "bom": lambda text: "\ufeff" + text,
  "no last newline": lambda text: text.rstrip(),
  "any blanks": respaced,
  "one line with blanks": lambda text: text.replace("d1 ", "d1  ", 1),
  "blank lines": lambda text: f"\n \n{text}\n\n",
  "vertical": lambda text: text.replace(" ", "\v", 2).replace(" ", "\f", 1),
}


@pytest.mark.parametrize("end", ["txt", "txt.gz"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_files_of_trec(write, variant, end):
  qrels = trec.read_qrels(write(f"judged.{end}", VARIANTS[variant](QRELS_TEXT)))
  run = trec.read_run(str(write(f"run.{end}", VARIANTS[variant](RUN_TEXT))))
  assert (qrels.name, run.name) == ("judged", "bm25")
  assert qrels.to_dict() == QRELS
  assert run.to_dict() == RUN
  assert (qrels.queries, qrels.starts.tolist(), len(qrels)) == (("q2", "q1"), [0, 3, 4], 2)
  assert (qrels.labels.dtype, run.scores.dtype) == (np.int32, np.float64)


MAC = {
  "qrels": (trec.read_qrels, QRELS_TEXT.replace("\n", "\r"), 1),
  "run": (trec.read_run, RUN_TEXT.replace("\n", "\r"), 1),
  "a comment": (trec.read_run, "\n# bm25\r" + RUN_TEXT.replace("\n", "\r"), 2),
  "CSV": (trec.read_run, "qid,docno,score\rq1,d1,2\rq1,d2,1\r", 1),
  "rows of CSV": (trec.read_run, 'qid,docno,score\nq1,"d\r1",2\nq1,d2,1\rq1,d3,0\r', 3),
  # What follows the tag would be left out.
  "a row of many": (trec.read_run, RUN_TEXT + "q1 Q0 d7 9 1 t\rq1 Q0 d8 9 1 t\n" + RUN_TEXT, 5),
}


@pytest.mark.parametrize("kind", MAC)
def test_lines_that_end_with_cr_alone_are_refused(write, kind):
  read, text, line = MAC[kind]
  with pytest.raises(ValueError, match=rf"x, line {line}: a line ends with CR alone.* convert"):
    read(write("x", text))


def test_columns_between_quotes_may_have_cr(write):
  path = write("x.csv", 'qid,docno,score\nq1,"d\r1",2\nq1,"d,""2""",1\n')
  assert trec.read_run(path).to_dict() == {"q1": {"d\r1": 2, 'd,"2"': 1}}


@pytest.mark.parametrize(
  "form",
  [
    "q 0 {} 1\nq 0 d2 0\n",
    "qid,text,docno,label\nq,,{},1\nq,,d2,0\n",
    'qid,"{}",docno,label\nq,,{},1\nq,,d2,0\n',
    '{{"qid": "q", "docno": "{}", "rel": 1}}\n{{"qid": "q", "docno": "d2", "rel": 0}}\n',
    '\n\n{{"qid": "q", "docno": "{}", "rel": 1}}',
    '\ufeff {{"q": {{"{}": 1, "d2": 0}}}}',
    '{{\n"q": {{"{}": 1,\n "d2": 0}}}}',
    '[["q", "{}", 1], ["q", "d2", 0]]',
  ],
)
@quick("size", [10, 70_000, 140_000], [70_000])
def test_the_first_line_may_be_long(write, form, size):
  """Longer than the head by which a file is known, and than a column of Python's reader of CSV."""
  long, last = "d" * size, {} if "\n\n" in form else {"d2": 0}
  for name in ("x", "x.gz"):
    path = write(name, form.replace("{}", long).replace("{{", "{").replace("}}", "}"))
    assert trec.read_qrels(path).to_dict() == {"q": {long: 1} | last}


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_files_of_beir(write, ending):
  lines = [f"{q}\t{d}\t{label}" for q, documents in QRELS.items() for d, label in documents.items()]
  text = ending.join(["query-id\tcorpus-id\tscore", *lines, ""])
  assert trec.read_qrels(write("test.tsv", text)).to_dict() == QRELS


def test_ids_of_beir_may_have_blanks(write):
  path = write("test.tsv", "query-id\tcorpus-id\tscore\na b\tc d \t1\n")
  assert trec.read_qrels(path).to_dict() == {"a b": {"c d ": 1}}


@pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
def test_files_of_json(write, name):
  assert trec.read_qrels(write(name, json.dumps(QRELS, indent=1))).to_dict() == QRELS
  run = trec.read_run(write(name, json.dumps(RUN, ensure_ascii=False)), name="ours")
  assert (run.name, run.to_dict()) == ("ours", RUN)


def test_rows_of_a_query_need_not_follow_each_other(write):
  lines = RUN_TEXT.splitlines()
  run = trec.read_run(write("run", "\n".join([lines[0], lines[2], lines[3], lines[1]])))
  assert run.to_dict() == RUN
  assert [*run.to_dict()["q2"]] == ["d1", "d9"]


def test_files_of_several_blocks(write, monkeypatch):
  _, run = oracle.draw(0, queries=40)
  text = "".join(f"{q} Q0 {d} 1 {x!r} t\n" for q, y in run.items() for d, x in y.items())
  path = write("run", text)
  monkeypatch.setattr(_text.blocks, "__defaults__", (1000,))
  with _files.opened(path) as stream:
    assert sum(1 for _ in _text.blocks(stream, RUN_LAYOUT)) > 20
  assert trec.read_run(path).to_dict() == {q: y for q, y in run.items() if y}
  bad = write("bad", text + "q Q0 d 1 high t\n")
  with pytest.raises(
    ValueError, match=f"line {text.count(chr(10)) + 1}: the score must be a number"
  ):
    trec.read_run(bad)


def test_frames_of_pandas():
  pandas = pytest.importorskip("pandas")
  qrels = trec.read_qrels(QRELS)
  frame = qrels.to_frame()
  assert frame.columns.tolist() == ["query_id", "doc_id", "relevance"]
  assert trec.read_qrels(frame).to_dict() == QRELS
  assert trec.read_run(trec.read_run(RUN).to_frame()).to_dict() == RUN
  ranx = frame.set_axis(["q_id", "doc_id", "score"], axis=1)
  assert trec.read_qrels(ranx).to_dict() == QRELS
  terrier = pandas.DataFrame({"qid": [7, 7], "docno": ["a", "b"], "label": [1.0, 0.0], "x": 0})
  assert trec.read_qrels(terrier).to_dict() == {"7": {"a": 1, "b": 0}}


def test_frames_of_polars():
  pytest.importorskip("polars")
  frame = trec.read_run(RUN).to_frame("polars")
  assert frame.columns == ["query_id", "doc_id", "score"]
  assert trec.read_run(frame).to_dict() == RUN
  assert trec.read_qrels(trec.read_qrels(QRELS).to_frame("polars")).to_dict() == QRELS


def test_frames_of_arrow():
  import pyarrow

  frame = pyarrow.table({"query_id": ["a"], "doc_id": ["b"], "score": [1]})
  assert trec.read_run(frame).to_dict() == {"a": {"b": 1.0}}


def test_rows_as_ir_measures_has_them():
  rows = [("q2", "d1", 2, "0"), ("q2", "d2", 0, "0"), ("q2", "d3", -1, "0"), ("q1", "é", 1, "0")]
  assert trec.read_qrels(iter(rows)).to_dict() == QRELS


@thorough
def test_ir_measures_takes_what_is_converted_and_the_other_way_round():
  ir_measures = pytest.importorskip("ir_measures")
  pytest.importorskip("pytrec_eval")
  qrels, run = (
    reader(x) for reader, x in zip((trec.read_qrels, trec.read_run), oracle.draw(2), strict=True)
  )
  theirs = ir_measures.calc_aggregate([ir_measures.AP], qrels.to_frame(), run.to_frame())
  ours = trec.evaluate("AP", qrels, run, queries="judged").mean()["AP"]
  assert theirs[ir_measures.AP] == pytest.approx(ours, abs=5e-5)
  rows = [ir_measures.ScoredDoc(q, d, x) for q, y in run.to_dict().items() for d, x in y.items()]
  assert trec.read_run(rows).to_dict() == run.to_dict()


def test_tables_are_returned_as_they_are():
  qrels, run = trec.read_qrels(QRELS), trec.read_run(RUN)
  assert trec.read_qrels(qrels) is qrels
  assert trec.read_run(run) is run
  assert repr(run) == "<Run 'run': 2 queries, 4 documents>"


@pytest.mark.parametrize("end", ["txt", "gz"])
def test_what_is_written_is_read_again(tmp_path, end):
  qrels, run = (dict(x) for x in oracle.draw(1, queries=30))
  trec.read_qrels(qrels).write(tmp_path / f"qrels.{end}")
  trec.read_run(run, name="ours").write(tmp_path / f"run.{end}")
  assert trec.read_qrels(tmp_path / f"qrels.{end}").to_dict() == qrels
  again = trec.read_run(tmp_path / f"run.{end}")
  assert again.to_dict() == run
  assert again.name == "ours"
  first = (tmp_path / f"run.{end}").read_bytes()
  assert first.startswith(b"\x1f\x8b") == (end == "gz")


def test_runs_are_written_best_first(tmp_path):
  trec.read_run(RUN, name="ours").write(tmp_path / "run")
  assert (tmp_path / "run").read_text() == (
    "q2 Q0 d1 1 0.25 ours\nq2 Q0 d9 2 -3 ours\nq1 Q0 d1 1 12 ours\nq1 Q0 é 2 0.00001 ours\n"
  )


def test_a_remark_may_follow_the_tag_of_a_run(write):
  text = (
    "q Q0 a 1 0.5 t by hand\nq Q0 b 2.0 0.4 t\nq\tQ0\tc\t+3 .3 t 7\nq Q0 d -4 2 1 x\n"
    "q Q0 e 05 1 2 0.5\n"
  )
  found = {"q": {"a": 0.5, "b": 0.4, "c": 0.3, "d": 2.0, "e": 1.0}}
  assert trec.read_run(write("run", text)).to_dict() == found


BLANKS = {"json": '{"q": {"d": 1}}', "array": '[\n\n["q", "d", 1]]', "TREC": "q Q0 d 1 1 t"}
BLANKS |= {"JSON lines": '{"qid": "q", "docno": "d", "score": 1}\n', "lines": '{\n\n"q": {"d": 1}}'}


@pytest.mark.parametrize("form", BLANKS)
def test_any_blanks_may_stand_before_the_first_line(write, form):
  for blanks in (" " * 70_000, "\n" * 65_536, "\ufeff" + "\t\n" * 70_000):
    path = write("x", blanks + BLANKS[form])
    assert trec.read_run(path).to_dict() == {"q": {"d": 1}}
    path.write_text(blanks + BLANKS[form] + "]")
    if form not in ("TREC", "JSON lines"):
      line = (blanks + BLANKS[form]).count("\n") + 1
      with pytest.raises(ValueError, match=f"line {line}: broken JSON"):
        trec.read_run(path)


BEGINS = [
  "{",
  "{}",
  "{q",
  '{"',
  '{"q":{"d":1}}',
  "[",
  "[]",
  "[[",
  "[{",
  '[["q","d",1]]',
  "PAR1",
  "<a>",
]


@pytest.mark.parametrize("suffix", ["", ".tsv", ".csv", ".json", ".jsonl", ".parquet", ".gz"])
def test_ids_may_begin_like_another_format(tmp_path, suffix):
  path = tmp_path / f"x{suffix}"
  for begin in [*BEGINS, "%PDF", "\x01", "\ufeff"]:
    rows = {begin: {f"{begin}d": 1.0}, "q": {begin: 0.0, "e": 2.0}}
    for read in (trec.read_run, trec.read_qrels):
      table = read(rows, name="x")
      if begin == "\ufeff" and suffix in ("", ".gz"):
        with pytest.raises(ValueError, match=r"write: the id of a query .* begin with .* U\+FEFF"):
          table.write(path)
        continue
      table.write(path)
      assert read(path).to_dict() == rows, begin


def test_a_mark_at_the_begin_of_a_block_is_kept(write, monkeypatch):
  """A file of two parts with a byte order mark each."""
  part = "\ufeffq Q0 d 1 1 t\n"
  monkeypatch.setattr(_text.blocks, "__defaults__", (len(part.encode()) - 3,))
  expected = {"q": {"d": 1}, "\ufeffq": {"d": 1}}
  assert trec.read_run(write("run", part + part)).to_dict() == expected


def test_ids_with_blanks_are_not_written(tmp_path):
  with pytest.raises(ValueError, match=r"Run.write: the id of a document .* 'd\\u20031'|'d 1'"):
    trec.read_run({"q": {"d 1": 1.0}}).write(tmp_path / "run")
  with pytest.raises(ValueError, match="Qrels.write: the id of a query must have no blanks"):
    trec.read_qrels({"q\t1": {"d": 1}}).write(tmp_path / "qrels")
  with pytest.raises(ValueError, match="the name of the run must have no blanks"):
    trec.read_run(RUN, name="our run").write(tmp_path / "run")


@settings(max_examples=50, deadline=None)
@given(
  st.dictionaries(
    st.text("abcdé𝄞", min_size=1, max_size=20),
    st.dictionaries(
      st.text("xyé𝄞\x00", min_size=1, max_size=20),
      st.floats(allow_nan=False, allow_infinity=False),
      max_size=4,
    ),
    min_size=1,
    max_size=4,
  )
)
def test_any_dictionary_is_kept(run):
  assert trec.read_run(run).to_dict() == run


BAD_RUNS = {
  "a column too few": (
    "q Q0 d 1 0.5\n",
    r"line 1: a line of a run file has 6 columns .*, got 5: 'q Q0 d 1 0.5'",
  ),
  "a column too few after comments": (
    "# head\nq Q0 d 1 0.5 t\n\n# more\nq Q0 e 2 0.4\n",
    "line 5: .* has 6 columns .*, got 5",
  ),
  "a tab too few": (
    "q\tQ0\td\t1\t0.5\tt\n\nq\tQ0\te\t20.4\tt\n",
    "line 3: .* has 6 columns .*, got 5",
  ),
  "two blanks for a column": ("q Q0 d 1 1 t\nq Q0 e  0.5 t\n", "line 2: .*, got 5"),
  "no number": (
    "q Q0 d 1 0.5 t\nq Q0 e 2 best t\n",
    "line 2: the score must be a number, got 'best'",
  ),
  "a decimal comma": ("q Q0 d 1 0,5 t\n", "line 1: the score must be a number, got '0,5'"),
  "NaN": ("q Q0 d 1 0.5 t\nq Q0 e 2 nan t\n", "line 2: the score must be finite, got 'nan'"),
  "infinite": ("q Q0 d 1 -Infinity t\n", "line 1: the score must be finite, got '-Infinity'"),
  "overflow": ("q Q0 d 1 1e999 t\n", "line 1: the score must be finite, got '1e999'"),
  "an id with a blank": (
    "q Q0 d 1 0.5 t\nq Q0 my doc 2 0.4 t\n",
    "line 2: the document must be followed by its rank, .* doc 2 0.4 t'; mend the rank; an id with",
  ),
  "an id with a blank in the place of the tag": (
    "# one\nq Q0 d 1 0.5 t\nq Q0 my doc 1 0.5\n",
    "line 3: the document must be followed by its rank, .* got 'q Q0 my doc 1 0.5'",
  ),
  "an id with two blanks": ("q Q0 my old doc 1 0.5 t\n", "line 1: the document must be followed"),
  "an id with a blank and a number": (
    "q Q0 d 1 0.5 t\nq Q0 part 7 2 4e-1 t\n",
    "line 2: the document must be followed by its rank, .* got 'q Q0 part 7 2 4e-1 t'",
  ),
  "a query with a blank": ("my q Q0 d 1 0.5 t\n", "line 1: the document must be followed by"),
  "a query with a blank and no tag": ("my q Q0 d 1 0.5\n", "line 1: the document must be"),
  "a fraction for a rank": ("q Q0 d 1.5 0.5 t\n", "line 1: the document must be followed by its"),
  "NaN for a rank": ("q Q0 d nan 0.5 t\n", "line 1: the document must be followed by its rank"),
  "infinity for a rank": ("q Q0 d inf 0.5 t\n", "line 1: the document must be followed by its"),
  "twice": (
    "q Q0 d 1 3 t\np Q0 d 1 2 t\n\nq Q0 d 3 1 t\n",
    "line 4: query 'q' has document 'd' twice, first in line 1",
  ),
  "not UTF-8": (b"q Q0 d 1 0.5 t\nq Q0 \xe9 2 0.4 t\n", "line 2: the text is not UTF-8"),
  "binary": (b"\x7fELF\x00\x01", "is a binary file: pass a text file"),
  "a qrels file": (
    "q 0 d 1\n",
    "line 1: a line of a run file has 6 columns .*, got 4.*; the file seems to be qrels; ",
  ),
  "qrels of three columns": ("q d 2\n", "got 3: 'q d 2'.*begins with rank 1"),
  "qrels of three columns, rank 1": ("q d 1\nq e 1\n", "line 2: query 'q' has rank 1 twice"),
  "CSV without names": ("q,d,1\nq,e,0.5\n", "line 1: .* got 1.*seems to be CSV, whose first line"),
  "CSV with a rank": ("query_id,doc_id,rank\nq,d,1\n", "line 1: .* seems to be CSV"),
  "CSV, too few": (
    "query_id,doc_id,score\nq,d,1\n\nq,e\n",
    r"line 4: .* 3 columns separated by commas \(query, document, score\), got 2: 'q e'",
  ),
  "CSV, no number": (
    "qid,docno,score\nq,d,high\n",
    "line 2: the score must be a number, got 'high'",
  ),
  "CSV, twice": (
    "x,qid,docno,score\n,q,d,1\n,q,e,1\n,q,d,2\n",
    "line 4: query 'q' has document 'd' twice, first in line 2",
  ),
  "a rank that is a fraction": (
    "q d 1\nq e 1.5\n",
    "line 2: the rank must be a whole number, got '1.5'",
  ),
  "MS MARCO, no rank": ("q d 1 0.5\nq e f 0.4\n", "line 2: the document must be followed by"),
  "MS MARCO, a column too few": ("q d 1 0.5\nq e 2\n", "line 2: .* has 4 columns .*, got 3"),
  "JSON lines, broken": (
    '{"qid": "q", "docno": "d", "score": 1}\n\n{"qid": "q", }\n',
    "line 3: broken JSON",
  ),
  "JSON lines, no score": (
    '{"qid": "q", "docno": "d", "score": 1}\n{"qid": "q", "docno": "e"}\n',
    "line 2: there must be a column of the score, 'score', got 'qid', 'docno'",
  ),
  "JSON lines, twice": (
    '{"qid": "q", "docno": "d", "score": 1}\n\n{"qid": "q", "docno": "d", "score": 2}\n',
    "line 3: query 'q' has document 'd' twice, first in line 1",
  ),
  "JSON lines, null": (
    '{"qid": "q", "docno": null, "score": 1}\n',
    "ids must be strings or integers, got None",
  ),
  "JSON lines, a list": (
    '{"qid": "q", "docno": "d", "score": 1}\n["q", "e", 1]\n',
    "line 2: a line must be an object",
  ),
  "JSON lines, text": (
    '{"qid": "q", "docno": "d", "score": "x"}\n',
    "a score must be a number, got 'x'",
  ),
  "UTF-16": ("q Q0 d 1 1 t\n".encode("utf-16"), "seems to be text in UTF-16: convert it"),
  "zip": (b"PK\x03\x04\0\0", "seems to be a zip archive: unpack it; jaxrank reads TREC's"),
  "HTML": ("<!DOCTYPE html>\n<html>\n", "line 1: .* seems to be HTML or XML"),
  "Git LFS": ("version https://git-lfs.github.com/spec/v1\n", "seems to be a pointer of Git LFS"),
  "parquet": (b"PAR1\0\0\0\0PAR1", "broken parquet data"),
}
BAD_QRELS = {
  "a column too few": ("q 0 d\n", "line 1: a line of a qrels file has 4 columns .*, got 3"),
  "a fraction": (
    "q 0 d 1\nq 0 e 0.5\n",
    "line 2: the label must be a whole number, got '0.5'; round it, or write TSV, CSV or JSON",
  ),
  "too large": ("q 0 d 3e9\n", "line 1: the label must be less than .* in size, got '3e9'"),
  "no number": ("q 0 d good\n", "line 1: the label must be a number, got 'good'"),
  "twice": (
    "q 0 d 1\nq 0 d 1\n",
    "line 2: query 'q' has document 'd' twice, first in line 1; drop one",
  ),
  "a tab too few": (
    "query-id\tcorpus-id\tscore\nq\td 1\n",
    "line 2: a line of a qrels file has 3 columns separated by tabs .*, got 2",
  ),
  "an empty column": ("query-id\tcorpus-id\tscore\nq\t\t1\n", "line 2: a column is empty"),
  "an empty query": ("query-id\tcorpus-id\tscore\n\td\t1\n", "line 2: a column is empty"),
  "a run": ("q Q0 d 1 0.5 t\n", "line 1: .* 4 columns .*, got 6: .*; the file seems to be a run"),
  "empty": ("", "holds no rows: it should have lines of query, iteration, document, label"),
  "blank": ("\n \n\t\n", "holds no rows"),
  "comments": ("# nothing\n#\n", "holds no rows"),
  "three columns, no number": ("q d 1\nq e good\n", "line 2: the label must be a number"),
  "three columns, then four": ("q d 1\nq 0 e 1\n", "line 2: .* has 3 columns .*, got 4"),
  "too large, CSV": (
    "qid,docno,rel\nq,d,3e9\n",
    "line 2: the label must be less than 2\\*\\*31 in size, got '3e9'",
  ),
  "too large, JSON": ('{"q": {"d": 3e9}}', "document 'd': the label must be less than 2"),
  "twice, BEIR": (
    "query-id\tcorpus-id\tscore\nq\td\t1\nq\td\t0\n",
    "line 3: query 'q' has document 'd' twice, first in line 2",
  ),
  "a header only": ("query-id\tcorpus-id\tscore\n", "holds no rows"),
  "broken JSON": ('{"q":\n {"d": 1,}}', "line 2: broken JSON"),
  "JSON, twice": ('{"q": {"d": 1, "d": 2}}', "'d' comes twice in one object of JSON"),
  "JSON, NaN": ('{"q": {"d": NaN}}', "query 'q', document 'd': the label must be finite, got nan"),
  "JSON, list": (
    '{"q": ["d"]}',
    r"must be \{query: \{document: label\}\}, got \['d'\] for query 'q'",
  ),
  "JSON, text": ('{"q": {"d": "1"}}', "a label must be a number, got '1'"),
  "JSON, empty": ("{}", "holds no rows"),
}


@pytest.mark.parametrize("case", BAD_RUNS)
@pytest.mark.parametrize("end", ["txt", "gz"])
def test_runs_that_are_refused(write, case, end):
  text, message = BAD_RUNS[case]
  path = write(f"run.{end}", text)
  with pytest.raises(ValueError, match=message) as caught:
    trec.read_run(path)
  assert str(caught.value).startswith(f"trec.read_run: {path}")


@pytest.mark.parametrize("case", BAD_QRELS)
def test_qrels_that_are_refused(write, case):
  text, message = BAD_QRELS[case]
  path = write("qrels", text)
  with pytest.raises(ValueError, match=message) as caught:
    trec.read_qrels(path)
  assert str(caught.value).startswith(f"trec.read_qrels: {path}")


@pytest.mark.parametrize("keep", [5, 40, -4])
def test_a_truncated_gzip_is_refused(tmp_path, keep):
  path = tmp_path / "run.gz"
  path.write_bytes(gzip.compress((RUN_TEXT * 20).encode())[:keep])
  with pytest.raises(ValueError, match=f"trec.read_run: {path}: broken gzip data"):
    trec.read_run(path)


def test_no_such_file(tmp_path):
  with pytest.raises(FileNotFoundError, match="nowhere"):
    trec.read_run(tmp_path / "nowhere")


@pytest.mark.parametrize(
  ("source", "error", "message"),
  [
    ({1.5: {"d": 1.0}}, TypeError, "ids must be strings or integers, got 1.5"),
    ({"q": {True: 1.0}}, TypeError, "ids must be strings or integers, got True"),
    ({"q": {None: 1.0}}, TypeError, "ids must be strings or integers, got None"),
    ({"1": {"d": 1.0}, 1: {}}, ValueError, "query '1' comes twice, as a string and as an integer"),
    ({"q": {"1": 1.0, 1: 2.0}}, ValueError, "query 'q' has document '1' twice"),
    ({"q": {"d": None}}, TypeError, "a score must be a number, got None"),
    ({"q": {"d": "0.5"}}, TypeError, "a score must be a number, got '0.5'"),
    (
      {"q": {"d": np.nan}},
      ValueError,
      "query 'q', document 'd': the score must be finite, got nan",
    ),
    ({"q": {"": 1.0}}, ValueError, "query 'q': a document has an empty id"),
    ({"": {"d": 1.0}}, ValueError, "a query has an empty id"),
    ([("q", "d", 1.0), ("q", "d", 2.0)], ValueError, "query 'q' has document 'd' twice; drop one"),
    ([("q", "d")], TypeError, r"a row must be \(query, document, score\), got \('q', 'd'\)"),
    (["q Q0 d 1 1 t"], TypeError, "a row must be"),
    ({"q": [("d", 1.0)]}, TypeError, r"must be \{query: \{document: score\}\}"),
    (7, TypeError, "is read from a path, a dictionary of dictionaries, a pandas or polars frame"),
    (b"q", TypeError, "is read from a path"),
  ],
)
def test_sources_in_memory_that_are_refused(source, error, message):
  with pytest.raises(error, match=f"trec.read_run: .*{message}"):
    trec.read_run(source)


@pytest.mark.parametrize(
  ("columns", "error", "message"),
  [
    ({"query_id": ["q"], "score": [1.0]}, ValueError, "there must be a column of the document"),
    ({"query_id": ["q"], "doc_id": ["d"], "score": ["x"]}, TypeError, "'score' must hold"),
    ({"query_id": [1.0], "doc_id": ["d"], "score": [1.0]}, TypeError, "'query_id' must hold ids"),
    ({"query_id": ["q"], "doc_id": [None], "score": [1.0]}, ValueError, "'doc_id' has 1 missing"),
  ],
)
def test_frames_that_are_refused(columns, error, message):
  import pyarrow

  with pytest.raises(error, match=message):
    trec.read_run(pyarrow.table(columns))


@pytest.mark.parametrize(
  ("change", "error", "message"),
  [
    ({"where": [[1, 1]]}, TypeError, "where must be boolean"),
    ({"where": [[True]]}, ValueError, "where .* got shapes"),
    ({"documents": [["a", "b", "c"]]}, ValueError, r"documents must be \[q, n\] or \[n\]"),
    ({"documents": [["a", "a"]]}, ValueError, "query 'q' has document 'a' twice"),
    ({"documents": [["a", 2.5]]}, TypeError, "ids must be strings or integers, got 2.5"),
    ({"queries": [None]}, TypeError, "ids must be strings or integers, got None"),
    ({"queries": ["q", "p"]}, ValueError, r"queries must be \[q\]"),
    (
      {"queries": ["q", "q"], "documents": ["a", "b"], "scores": [[1.0, 2.0]] * 2},
      ValueError,
      "query 'q' comes twice",
    ),
    ({"scores": [[np.nan, 1.0]]}, ValueError, "the score must be finite, got nan"),
    ({"scores": [[np.inf, 1.0]]}, ValueError, "the score must be finite, got inf"),
  ],
)
def test_arrays_that_are_refused(change, error, message):
  given = {"queries": ["q"], "documents": [["a", "b"]], "scores": [[1.0, 2.0]]} | change
  with pytest.raises(error, match=f"Run.from_arrays: .*{message}"):
    trec.Run.from_arrays(**given)


def test_arrays_with_shared_documents():
  where = np.array([[True, True], [False, True]])
  run = trec.Run.from_arrays(
    ["p", "q"], ["a", "b"], np.array([[1.0, 2.0], [np.nan, 3.0]]), where=where
  )
  assert run.to_dict() == {"p": {"a": 1.0, "b": 2.0}, "q": {"b": 3.0}}


def test_the_parser_is_named_where_it_is_missing(monkeypatch):
  monkeypatch.setitem(sys.modules, "pyarrow", None)
  with pytest.raises(ModuleNotFoundError, match=r"needs pyarrow: .* 'jaxrank\[trec\]'"):
    trec.read_run(RUN)


def test_reading_does_not_import_pandas(tmp_path):
  """Its import takes longer than reading a million lines."""
  (tmp_path / "run").write_text(RUN_TEXT)
  (tmp_path / "qrels").write_text(QRELS_TEXT)
  code = "import sys, jaxrank as jr; jr.trec.evaluate('map', *sys.argv[1:]); print(*sys.modules)"
  files = [str(tmp_path / "qrels"), str(tmp_path / "run")]
  done = subprocess.run(
    [sys.executable, "-c", code, *files], capture_output=True, text=True, check=True
  )
  assert "pyarrow" in done.stdout.split()
  assert "pandas" not in done.stdout.split()
