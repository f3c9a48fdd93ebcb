"""One collection has one value, however it is written; what cannot be read exactly is refused."""

import decimal
import fractions
import functools
import json

import numpy as np
import pyarrow as pa
import pytest

import jaxrank as jr
from jaxrank.command.main import main

trec = jr.trec
# Ids are numbers, as in MS MARCO.
JUDGED = [("1", "10", 1), ("1", "11", 0), ("2", "12", 2), ("2", "10", 1)]
RANKED = [("1", "11", 2.5), ("1", "10", 1.25), ("2", "10", 3.5), ("2", "13", 3.0)]
NAMES = "map ndcg recip_rank"


@functools.cache
def values():
  return trec.evaluate(NAMES, JUDGED, RANKED).values


def nested(rows, to=str):
  found = {}
  for query, document, value in rows:
    found.setdefault(to(query), {})[to(document)] = value
  return found


def lines(rows, line, header=""):
  return header + "".join(line.format(*row) + "\n" for row in rows)


def in_memory(rows, value):
  columns = ("qid", "docno", value)
  whole = [(int(q), np.int64(d), x) for q, d, x in rows]
  frame = {name: [*part] for name, part in zip(columns, zip(*rows, strict=True), strict=True)}
  return {
    "a dictionary": nested(rows),
    "a dictionary of integers": nested(rows, int),
    "rows": rows,
    "rows of integers": whole,
    "rows of both": [*whole[:2], *rows[2:]],
    "an array of rows": np.array(rows, object),
    "an array of records": np.array(rows, [("qid", "U9"), ("docno", "U9"), (value, float)]),
    "decimal numbers": [(q, d, decimal.Decimal(x)) for q, d, x in rows],
    "fractions": [(q, d, fractions.Fraction(x)) for q, d, x in rows],
    "numbers of NumPy": [(q, d, np.float32(x)) for q, d, x in rows],
    "rows by name": [dict(zip(columns, row, strict=True)) for row in rows],
    "rows of integers by name": [dict(zip(columns, row, strict=True)) for row in whole],
    "a frame": pa.table(frame),
    "a frame of integers": pa.table(frame | {x: pa.array(map(int, frame[x])) for x in columns[:2]}),
  }


def texts(rows, value):
  columns = ("qid", "docno", value)
  found = {
    "x.json": json.dumps(nested(rows)),
    "x.jsonl": "\n".join(json.dumps(dict(zip(columns, row, strict=True))) for row in rows),
    "rows.json": json.dumps([[int(q), d, x] for q, d, x in rows]),
    "x.csv": lines(rows, "{},{},{}", ",".join(columns) + "\n"),
    "x.tsv": lines(rows, "{}\t{}\t{}", "\t".join(columns) + "\n"),
    "any.tsv": lines(rows, "{}\t{}\t{}", "topic\tpassage id\thow good\n"),
  }
  if value == "score":
    return found | {"x.run": lines(rows, "{} Q0 {} 1 {} x")}
  return found | {"x.qrels": lines(rows, "{} 0 {} {}"), "three": lines(rows, "{} {} {}")}


def test_a_collection_has_one_value_from_every_source(tmp_path):
  qrels, runs = in_memory(JUDGED, "rel"), in_memory(RANKED, "score")
  for rows, value, sources in ((JUDGED, "rel", qrels), (RANKED, "score", runs)):
    for name, text in texts(rows, value).items():
      sources[name] = tmp_path / f"{value}-{name}"
      sources[name].write_text(text)
  assert len(qrels) == 22
  assert len(runs) == 21
  pairs = [(source, RANKED) for source in qrels.values()]
  pairs += [(JUDGED, source) for source in runs.values()]
  for judged, ranked in pairs:
    found = trec.evaluate(NAMES, judged, ranked)
    assert found.queries == ("1", "2")
    for name, value in values().items():
      np.testing.assert_array_equal(found.values[name], value, err_msg=name)
  arrays = trec.Run.from_arrays([1, 2], [[11, 10], [10, 13]], np.array([[2.5, 1.25], [3.5, 3.0]]))
  assert arrays.to_dict() == trec.read_run(RANKED).to_dict()


def test_the_command_reads_what_python_reads(tmp_path, capsys):
  (tmp_path / "qrels").write_text(lines(JUDGED, "{} 0 {} {}"))
  expected = None
  for name, text in texts(RANKED, "score").items():
    (tmp_path / name).write_text(text)
    words = ["--no-cache", "--trec", "-m", "map", str(tmp_path / "qrels"), str(tmp_path / name)]
    assert main(words) == 0
    out = capsys.readouterr().out
    expected = expected or out
    assert out == expected == f"{'map':<22}\tall\t{values()['map'].mean():.4f}\n"


LARGE = 2**53 + 1
LONG = "query 'q', document 'd': the {} must be a number of double precision, .* got {}; pass ranks"


@pytest.mark.parametrize("large", [LARGE, -LARGE, 2**63 - 1, 2**70 + 1, 10**400])
def test_integers_that_would_tie_are_refused(large, tmp_path):
  told = LONG.format("score", large if abs(large) < 1e30 else ".*")
  rows = [("q", "d", large), ("q", "e", large - 1)]
  (tmp_path / "x.json").write_text(json.dumps(nested(rows)))
  sources = [rows, nested(rows), [*rows, ("q", "f", 0.5)], tmp_path / "x.json"]
  if abs(large) < 2**63:
    column = pa.array([x for _, _, x in rows], pa.int64())
    sources.append(pa.table({"qid": ["q"] * 2, "docno": ["d", "e"], "score": column}))
    with pytest.raises(ValueError, match=told):
      trec.Run.from_arrays(["q"], [["d", "e"]], np.array([[large, large - 1]]))
  for source in sources:
    with pytest.raises(ValueError, match=told):
      trec.read_run(source)


def test_integers_of_double_precision_are_read():
  exact = [2**53, -(2**60), 2**63]
  rows = [("q", str(i), x) for i, x in enumerate(exact)]
  column = pa.array(exact[:2], pa.int64())
  frame = pa.table({"qid": ["q"] * 2, "docno": ["0", "1"], "score": column})
  for source, kept in ((rows, 3), (nested(rows), 3), (frame, 2)):
    assert trec.read_run(source).scores.tolist() == exact[:kept]


def test_an_open_file_is_no_source(tmp_path):
  (tmp_path / "x").write_text("q 0 d 1\n")
  for mode in ("r", "rb"):
    with (tmp_path / "x").open(mode) as file, pytest.raises(TypeError, match="pass its path"):
      trec.read_qrels(file)


SEEMS = {
  "q1;d1;3.5\n": "seems to be CSV with ';' between its columns: write commas",
  "query_id;doc_id;score\nq;d;1\n": "seems to be CSV with ';' between its columns",
  "q1|d1|3.5\n": "seems to be CSV with '|' between its columns",
  "q1,d1,3.5\n": "seems to be CSV, whose first line must name the columns",
}


@pytest.mark.parametrize("text", SEEMS)
@pytest.mark.parametrize("read", [trec.read_run, trec.read_qrels])
def test_errors_say_what_a_file_seems_to_be(read, text, tmp_path, capsys):
  (tmp_path / "x").write_text(text)
  with pytest.raises(ValueError, match=SEEMS[text].replace("|", r"\|")):
    read(tmp_path / "x")
  (tmp_path / "y").write_text("q1 0 d1 1\n")
  files = ("y", "x") if read is trec.read_run else ("x", "y")
  assert main(["--no-cache", *(str(tmp_path / x) for x in files), "AP"]) == 1
  assert SEEMS[text] in capsys.readouterr().err


@pytest.mark.parametrize("text", ["q d 2\nq e 1\n", "q d 1\nq e 1\n", "q\td\t1\nq\te\t1\n"])
def test_qrels_of_three_columns_are_no_run(text, tmp_path):
  (tmp_path / "x").write_text(text)
  with pytest.raises(ValueError, match="file seems to be qrels"):
    trec.read_run(tmp_path / "x")


def test_one_query_is_one(tmp_path, capsys):
  qrels, run = {"q": {"a": 1}}, {"q": {"a": 1.0}, "p": {"a": 1.0}}
  assert repr(trec.read_qrels(qrels)) == "<Qrels 'qrels': 1 query, 1 document>"
  assert repr(trec.read_run(run)) == "<Run 'run': 2 queries, 2 documents>"
  assert repr(trec.to_arrays(qrels, run)) == "<Arrays: 1 query of up to 1 document>"
  for name, table in (("qrels.json", qrels), ("run.json", run)):
    (tmp_path / name).write_text(json.dumps(table))
  assert main(["--no-cache", str(tmp_path / "qrels.json"), str(tmp_path / "run.json"), "AP"]) == 0
  out, err = capsys.readouterr()
  assert out.endswith("\n1 query of qrels.\n")
  assert err == "jaxrank: run: query of the run that is not in the qrels is left out: p\n"
