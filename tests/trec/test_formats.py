"""The same rows through every format and door give the same judgements and the same run."""

import bz2
import gzip
import json
import lzma
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import jaxrank as jr
from jaxrank import _files
from jaxrank.trec import _text
from tests.helpers.suites import thorough
from tests.trec import oracle

trec = jr.trec
QRELS = {"q2": {"d1": 2, "d2": 0, "d3": -1}, "q1": {"é,1": 1}}
RUN = {"q2": {"d1": 3.0, "d9": 2.0}, "q1": {"é,1": 7.0, "d1": 0.5}}
# Ranks in place of scores.
RANKED = {"q2": {"d1": -1.0, "d9": -2.0}, "q1": {"é,1": -1.0, "d1": -2.0}}


def rows(table):
  return [(q, d, x) for q, documents in table.items() for d, x in documents.items()]


def lines(table, form):
  """A line for each row, of its query, document and value and the number of the row."""
  return "".join(form.format(q, d, x, i) + "\n" for i, (q, d, x) in enumerate(rows(table), 1))


def quoted(table, header):
  return header + "".join(f'{q},"{d}",{x}\n' for q, d, x in rows(table))


def json_lines(table, *names):
  return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows(table))


QRELS_TEXTS = {
  "TREC": lines(QRELS, "{0} 0 {1} {2}"),
  "three columns": lines(QRELS, "{0} {1} {2}"),
  "three columns, tabs": lines(QRELS, "{0}\t{1}\t{2}"),
  "comments": "# one\n\n#two\n" + lines(QRELS, "{0} 0 {1} {2}\n# q9 0 d 1") + "  # end",
  "BEIR": "query-id\tcorpus-id\tscore\n" + lines(QRELS, "{0}\t{1}\t{2}"),
  "BEIR, other names": "topic\tarticle\tgrade\n" + lines(QRELS, "{0}\t{1}\t{2}"),
  "TSV": "rel\tx\tdocno\tqid\n" + lines(QRELS, "{2}\t\t{1}\t{0}"),
  "CSV": quoted(QRELS, "query_id,doc_id,relevance\n"),
  "CSV, other names": quoted(QRELS, '"qid",docno,label\r\n').replace("\n", "\r\n"),
  "CSV after a comment": quoted(QRELS, "# from a sheet\n\nquery_id,doc_id,relevance\n"),
  "CSV, names of ours that mean another thing": (
    "query,document,query_id,doc_id,relevance\n"
    + "".join(f'what?,text,{q},"{d}",{x}\n' for q, d, x in rows(QRELS))
  ),
  "JSON": json.dumps(QRELS, indent=1),
  "JSON, a list": json.dumps(rows(QRELS)),
  "JSON, a list of objects": json.dumps(
    [dict(zip(("qid", "docno", "rel"), row, strict=True)) for row in rows(QRELS)]
  ),
  "JSON lines": json_lines(QRELS, "query-id", "corpus-id", "score"),
}
RUN_TEXTS = {
  "TREC": lines(RUN, "{0} Q0 {1} {3} {2} ours"),
  "seven columns": lines(RUN, "{0} Q0 {1} {3} {2} ours and more # than that"),
  "seven columns at times": lines(RUN, "{0} Q0 {1} {3} {2} ours").replace("ours", "ours x", 1),
  "comments": "# made by hand\n" + lines(RUN, "\t# no row\n{0} Q0 {1} {3} {2} ours"),
  "MS MARCO, four columns": lines(RUN, "{0}\t{1}\t{3}\t{2}"),
  "TSV": "query-id\tcorpus-id\tscore\n" + lines(RUN, "{0}\t{1}\t{2}"),
  "CSV": quoted(RUN, "query_id,doc_id,score\n"),
  "JSON": json.dumps(RUN),
  "JSON lines": json_lines(RUN, "q_id", "doc_id", "score"),
}


def same(table, expected):
  return table.to_dict() == expected and [*table.to_dict()] == [*expected]


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "bom"])
def test_texts(tmp_path, mark):
  path = tmp_path / "file"
  for what, text in QRELS_TEXTS.items():
    path.write_text(mark + text, newline="")
    assert same(trec.read_qrels(path), QRELS), what
    path.write_text(mark + text.rstrip("\n"), newline="")
    assert same(trec.read_qrels(path), QRELS), what
  for what, text in RUN_TEXTS.items():
    path.write_text(mark + text)
    assert same(trec.read_run(path), RUN), what
  path.write_text(mark + "".join(f"{q} {d} {int(-x)}\n" for q, d, x in rows(RANKED)))
  assert same(trec.read_run(path), RANKED)


def test_ids_with_blanks_between_tabs(tmp_path):
  (tmp_path / "qrels").write_text("a b\tc d\t1\na b\te\t0.5\n")
  assert trec.read_qrels(tmp_path / "qrels").to_dict() == {"a b": {"c d": 1.0, "e": 0.5}}
  (tmp_path / "qrels").write_text("a 0\tc\t1\n")
  assert trec.read_qrels(tmp_path / "qrels").to_dict() == {"a": {"c": 1}}


def test_long_lines_of_json(tmp_path):
  """As those with the text of a passage."""
  text = "".join(
    json.dumps({"text": "word " * 10000, "qid": i, "docno": "d", "score": i}) + "\n"
    for i in range(60)
  )
  (tmp_path / "run").write_text(text)
  assert trec.read_run(tmp_path / "run").to_dict() == {str(i): {"d": float(i)} for i in range(60)}


def test_names_between_blanks_are_none(tmp_path):
  """Ids would begin with blanks and meet no judgement."""
  (tmp_path / "run").write_text("qid, docno, score\nq, d, 1\n")
  with pytest.raises(ValueError, match=r"line 1: .*seems to be CSV, whose first line must name"):
    trec.read_run(tmp_path / "run")


def test_ranks_may_begin_with_0(tmp_path):
  (tmp_path / "run").write_text("q\ta\t0\nq\tb\t1\np\tb\t3\n")
  assert trec.read_run(tmp_path / "run").to_dict() == {"q": {"a": 0.0, "b": -1.0}, "p": {"b": -3.0}}


PACKED = {
  "gz": gzip.compress,
  "bz2": bz2.compress,
  "xz": lzma.compress,
  "zst": lambda data: pa.compress(data, "zstd", asbytes=True),
  "lz4": lambda data: pa.compress(data, "lz4", asbytes=True),
}


@pytest.mark.parametrize("kind", PACKED)
def test_packed_files_are_known_by_their_content(tmp_path, kind):
  qrels, run = oracle.draw(0, queries=60)
  run = {q: y for q, y in run.items() if y}
  path = tmp_path / "file"
  pack = PACKED[kind]
  data = lines(run, "{0} Q0 {1} {3} {2!r} t").encode()
  half = data.index(b"\n", len(data) // 2) - 3
  # Two members, as parts that were packed one by one and then joined.
  path.write_bytes(pack(data[:half]) + pack(data[half:]))
  assert same(trec.read_run(path), run)
  path.write_bytes(pack(json.dumps(qrels).encode()))
  assert same(trec.read_qrels(path), qrels)
  whole = pack(data)
  for broken in (whole[: len(whole) // 2], whole[:-3], whole[:12]):
    path.write_bytes(broken)
    with pytest.raises(ValueError, match=f"^trec.read_run: {path}: broken .* data: .*; copy or"):
      trec.read_run(path)


PACKED_ROWS = {
  "qrels": (trec.read_qrels, b"q 0 a 1\n", b"q 0 b 2\n"),
  "run": (trec.read_run, b"q Q0 a 1 1 t\n", b"q Q0 b 1 2 t\n"),
  "features": (jr.letor.read, b"1 qid:1 1:1\n", b"2 qid:1 1:1\n"),
}


@pytest.mark.parametrize("size", [1 << 16, 11])
@pytest.mark.parametrize("kind", PACKED)
def test_what_follows_a_packed_stream_is_another_or_refused(tmp_path, monkeypatch, kind, size):
  monkeypatch.setattr(_files, "_HEAD", size)
  path, pack = tmp_path / "file", PACKED[kind]
  for name, (read, first, second) in PACKED_ROWS.items():
    path.write_bytes(first + second)
    expected, stream, other = str(read(path)), pack(first), pack(second)
    whole = [stream + other, pack(b"") + stream + pack(b"") + other]
    if kind in ("gz", "bz2", "xz"):
      whole.append(stream + bytes(12) + other + bytes(9))
    for text in whole:
      path.write_bytes(text)
      assert str(read(path)) == expected, name
    cut = (other[:-1], other[:5], other + b"x")
    for rest in (b"x", b"B", b"\xfd", second, bytes(4) + second, *cut):
      path.write_bytes(stream + rest)
      with pytest.raises(ValueError, match=r"broken \w+ data: .*; copy or download .* appended to"):
        read(path)
  path.write_bytes(pack(b"") + pack(b""))
  assert len(trec.read_run(path)) == len(jr.letor.read(path).labels) == 0


@pytest.mark.parametrize("kind", PACKED)
def test_packed_files_that_grow_without_end_are_refused(tmp_path, monkeypatch, kind):
  monkeypatch.setattr(_files, "_LARGE", 1 << 22)
  path = tmp_path / "bomb"
  path.write_bytes(PACKED[kind](b"# nothing\n" * (1 << 20)))
  with pytest.raises(ValueError, match=r"bomb: \d+ bytes of \w+ data became more than \d{7} bytes"):
    trec.read_run(path)


def test_lines_without_end_are_refused(tmp_path, monkeypatch):
  monkeypatch.setattr(_files, "LONGEST", 1 << 21)
  (tmp_path / "run").write_text("q Q0 d 1 1 t\n" + "x" * (1 << 22))
  with pytest.raises(ValueError, match="run: a line is longer than 2 MiB; pass a file of text"):
    trec.read_run(tmp_path / "run")


@pytest.mark.parametrize("text", ["TREC", "JSON", "CSV", "JSON lines"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gz"])
def test_pipes_lose_no_rows(tmp_path, text, pack):
  """The head of a pipe can be read once only."""
  qrels = {f"query{i}": {f"document{j}": j % 2 for j in range(3)} for i in range(2000)}
  texts = {
    "TREC": lines(qrels, "{0} 0 {1} {2}"),
    "JSON": json.dumps(qrels),
    "CSV": quoted(qrels, "qid,docid,rel\n"),
    "JSON lines": json_lines(qrels, "qid", "docid", "rel"),
  }
  data = pack(texts[text].encode())
  pipe = tmp_path / "pipe"
  code = "import os, sys; os.mkfifo(sys.argv[1])"
  subprocess.run([sys.executable, "-c", code, str(pipe)], check=True)
  writer = threading.Thread(target=lambda: pipe.write_bytes(data))
  writer.start()
  found = trec.read_qrels(pipe)
  writer.join()
  assert found.to_dict() == qrels
  # A pipe has no name that says anything.
  assert found.name == "qrels"


def test_the_standard_input():
  code = "import jaxrank as jr; x = jr.trec.read_run('-'); print(x, *x.to_dict()['q0'])"
  text = "".join(f"q{i // 10} Q0 d{i} 1 {i} t\n" for i in range(20000))
  done = subprocess.run(
    [sys.executable, "-c", code], input=text, capture_output=True, text=True, check=True
  )
  assert done.stdout.split()[:6] == ["<Run", "'t':", "2000", "queries,", "20000", "documents>"]
  assert done.stdout.split()[6:] == [f"d{i}" for i in range(10)]


def test_a_file_that_fails_in_a_pipe_is_named_with_its_line(tmp_path):
  code = "import jaxrank as jr; jr.trec.read_run('/dev/stdin')"
  text = "".join(f"q{i} Q0 d 1 {i} t\n\n" for i in range(90000)) + "q7 Q0 d 1 2 t\n"
  done = subprocess.run(
    [sys.executable, "-c", code], input=text, capture_output=True, text=True, check=False
  )
  assert done.returncode == 1
  assert done.stderr.splitlines()[-1] == (
    "ValueError: trec.read_run: /dev/stdin, line 180001: query 'q7' has document 'd' twice, first "
    "in line 15; drop one of the rows."
  )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are counted in /proc")
def test_a_file_that_fails_leaves_no_thread_of_the_parser(tmp_path):
  """Such a thread may abort the process when it ends with an error."""
  path = tmp_path / "run"
  path.write_text(
    "".join(f"q{i // 100} Q0 d{i} 1 {i} t\n" for i in range(300000)) + "q Q0 d 1 x t\n"
  )
  code = """
import os, sys
def threads():
  return len(os.listdir("/proc/self/task"))
import jaxrank as jr, pyarrow, pyarrow.csv, pyarrow.compute
before = threads()
try:
  jr.trec.read_run(sys.argv[1])
except ValueError as error:
  assert "line 300001" in str(error)
print(threads() - before)
"""
  done = subprocess.run(
    [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
  )
  # One remains, that of all input.
  assert int(done.stdout) <= 1


def table(rows_of, *names, kind=None):
  columns = [*zip(*rows(rows_of), strict=True)]
  types = (kind, kind, None)
  return pa.table(
    {name: pa.array(x, type_) for name, x, type_ in zip(names, columns, types, strict=True)}
  )


CODED = pa.dictionary(pa.int8(), pa.string())


@pytest.mark.parametrize("kind", [None, pa.large_string(), pa.string_view(), CODED])
@pytest.mark.parametrize(
  "names",
  [
    ("query_id", "doc_id", "score"),
    ("q_id", "doc_id", "score"),
    ("query-id", "corpus-id", "score"),
  ],
)
def test_frames(tmp_path, names, kind):
  frame = table(QRELS, *names, kind=kind)
  assert same(trec.read_qrels(frame), QRELS)
  assert same(trec.read_run(table(RUN, *names, kind=kind)), RUN)
  if kind != pa.string_view():
    pa.parquet.write_table(frame, tmp_path / "qrels.parquet")
    found = trec.read_qrels(tmp_path / "qrels.parquet")
    assert same(found, QRELS)
    assert found.name == "qrels"


class HuggingFace:
  """A data set: a table, of which it has the rows that are selected."""

  def __init__(self, data, rows=None):
    self.data, self.rows = data, rows

  def with_format(self, kind):
    assert kind == "arrow"
    return self

  def __getitem__(self, key):
    assert key == slice(None)
    return self.data if self.rows is None else self.data.take(self.rows)

  def __len__(self):
    return len(self[:])

  def __iter__(self):
    raise AssertionError("rows one by one take minutes")


class HuggingFaceStream:
  """A data set without a length, which has its rows one by one."""

  def __init__(self, dicts):
    self.dicts = dicts

  def with_format(self, kind):
    raise AssertionError(kind)

  def __getitem__(self, key):
    raise AssertionError(key)

  def __iter__(self):
    return iter(self.dicts)


class Lazy:
  """A lazy frame."""

  def __init__(self, frame):
    self.frame = frame

  def collect(self):
    return self.frame


def test_lazy_frames_and_data_sets():
  frame = table(RUN, "query-id", "corpus-id", "score")
  assert same(trec.read_run(Lazy(frame)), RUN)
  assert same(trec.read_run(HuggingFace(frame)), RUN)
  assert trec.read_run(HuggingFace(frame, [0])).to_dict() == {"q2": {"d1": 3.0}}
  dicts = [dict(zip(("qid", "docid", "score"), row, strict=True)) for row in rows(RUN)]
  assert same(trec.read_run(iter(dicts)), RUN)
  assert same(trec.read_run(HuggingFaceStream(dicts)), RUN)
  with pytest.raises(TypeError, match=r"must be \{query: .*<.*HuggingFace object.* query 'test'"):
    trec.read_run({"test": HuggingFace(frame)})


@thorough
def test_frames_of_libraries():
  for library in ("pandas", "polars", "datasets"):
    pytest.importorskip(library)
  import datasets
  import pandas
  import polars

  columns = dict(zip(("qid", "docno", "score"), zip(*rows(RUN), strict=True), strict=True))
  columns = {name: [*x] for name, x in columns.items()}
  eager = polars.DataFrame(columns)
  coded = eager.with_columns(polars.col("qid", "docno").cast(polars.Categorical))
  frame = pandas.DataFrame(columns)
  data = datasets.Dataset.from_dict(columns)
  for source in (
    *(eager, eager.lazy(), coded, coded.lazy()),
    *(
      frame,
      frame.astype({"qid": "category", "docno": "category"}),
      frame.set_index("qid", drop=False),
    ),
    *(data, data.to_iterable_dataset(), data.with_format("numpy")),
  ):
    assert same(trec.read_run(source), RUN)
  assert trec.read_run(data.select([1])).to_dict() == {"q2": {"d9": 2.0}}


SUFFIXES = ["", ".txt", ".trec", ".res", ".tsv", ".csv", ".json", ".jsonl", ".ndjson", ".parquet"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_written_has_the_format_of_its_suffix(tmp_path, suffix):
  qrels, run = oracle.draw(1, queries=15)
  tables = {"qrels": trec.read_qrels(qrels), "run": trec.read_run(run, name="run")}
  expected = {"qrels": qrels, "run": run}
  signs = {".json": b"{\n", ".jsonl": b'{"', ".ndjson": b'{"', ".parquet": b"PAR1"}
  signs |= {".tsv": b"query-id\t", ".csv": b'"query_id",'}
  for name, written in tables.items():
    for packed in ("", ".gz", ".BZ2", ".xz", ".zst", ".lz4"):
      path = tmp_path / f"{name}{suffix}{packed}"
      written.write(path)
      with _files.opened(path) as stream:
        assert stream.head.startswith(signs.get(suffix, b"q"))
      assert path.read_bytes()[:2] != b"q" or not packed
      again = (trec.read_qrels if name == "qrels" else trec.read_run)(path)
      assert (again.name, again.to_dict()) == (name, expected[name])
      assert again.to_dict()["q0"] == expected[name]["q0"]


@pytest.mark.parametrize("name", ["run.xlsx", "run.pkl", "run.zip", "run.gz.old", "run.feather.gz"])
def test_unknown_suffixes_are_refused(tmp_path, name):
  for written, what in ((trec.read_run(RUN), "Run"), (trec.read_qrels(QRELS), "Qrels")):
    with pytest.raises(
      ValueError, match=rf"^{what}.write: the suffix '\..*\.csv .*\.parquet.*\.zst"
    ):
      written.write(tmp_path / name)
  assert not [*tmp_path.iterdir()]


def test_ids_that_a_format_cannot_hold(tmp_path):
  odd = {"#1": {"a b": 1.0}, 'q"2': {"c,d": 2.0}}
  run = trec.read_run(odd)
  for suffix in (".csv", ".json", ".jsonl", ".parquet", ".tsv"):
    run.write(tmp_path / f"run{suffix}")
    assert same(trec.read_run(tmp_path / f"run{suffix}"), odd), suffix
  with pytest.raises(ValueError, match="the id of a query must have no blanks, nor begin with '#'"):
    trec.read_run({"#1": {"a": 1.0}}).write(tmp_path / "run")
  tabs, ends = trec.read_run({"q": {"a\tb": 1.0}}), trec.read_run({"q": {"a\nb": 1.0}})
  with pytest.raises(
    ValueError, match=r"must have no tabs or ends of lines in a file of TSV, got 'a"
  ):
    tabs.write(tmp_path / "run.tsv")
  with pytest.raises(ValueError, match="must have no ends of lines in a file of CSV"):
    ends.write(tmp_path / "run.csv")
  for suffix in (".json", ".jsonl", ".parquet"):
    ends.write(tmp_path / f"run{suffix}")
    assert same(trec.read_run(tmp_path / f"run{suffix}"), {"q": {"a\nb": 1.0}}), suffix


def test_scores_are_written_in_full(tmp_path):
  scores = np.random.default_rng(0).normal(size=50) * 10.0 ** np.arange(-25, 25)
  run = {"q": {f"d{i}": x for i, x in enumerate(scores.tolist())}}
  for suffix in SUFFIXES:
    trec.read_run(run).write(tmp_path / f"run{suffix}")
    assert trec.read_run(tmp_path / f"run{suffix}").to_dict() == run, suffix


def test_the_tag_is_that_of_the_last_line(tmp_path, monkeypatch):
  """As in trec_eval, also where blocks of lines are read one by one."""
  monkeypatch.setattr(_text.blocks, "__defaults__", (64,))
  rows = "".join(f"q Q0 d{i} 1 {i} first\n" for i in range(20))
  (tmp_path / "a.run").write_text(rows + "q Q0 d 1 -1 last\n\n# a comment\n")
  assert trec.read_run(tmp_path / "a.run").name == "last"
  (tmp_path / "a.run").write_text("q Q0 d 1 -1 first\n" + rows.replace("first", "last"))
  assert trec.read_run(tmp_path / "a.run").name == "last"
