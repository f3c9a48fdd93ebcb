"""`jaxrank fuse`: fused runs, tuned weights, and how many results to keep."""

import gzip
import json
import os
import re
import subprocess
import sys
import threading

import jax
import numpy as np
import pytest

from jaxrank import fusion, trec
from jaxrank.command import fusing_arguments, main
from jaxrank.fusion import _define
from tests.helpers.suites import quick

QUERIES, DOCUMENTS = 24, 10


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
  """Judgements and runs: x is good, y and z are noise, and w turns x around.

  q00 has ties, y lacks q01, no run has q02, and q99 is not judged. No run has d9.
  """
  folder, rng = tmp_path_factory.mktemp("fuse"), np.random.default_rng(0)
  labels = rng.choice(3, (QUERIES, DOCUMENTS), p=[0.7, 0.2, 0.1])
  labels[:, 9] = np.arange(QUERIES) % 3 == 0
  qrels = {
    f"q{q:02}": {f"d{d}": int(labels[q, d]) for d in range(DOCUMENTS)} for q in range(QUERIES)
  }
  runs = {}
  for name, noise, scale in (("x", 0.1, 1), ("y", 9, 30), ("z", 9, 1)):
    scores = scale * (labels + noise * rng.normal(size=labels.shape))
    runs[name] = {
      query: {f"d{d}": round(float(scores[q, d]), 4) for d in rng.permutation(9)[:7]}
      for q, query in enumerate([*qrels][:23] + ["q99"])
      if query != "q02" and (name, query) != ("y", "q01")
    }
  runs["x"]["q00"] = {"d1": 2.0, "d2": 2.0, "d3": 1.0, "d4": 0.5}
  runs["y"]["q00"] = {"d2": 5.0, "d1": 5.0, "d5": 1.0, "d10": 1.0}
  runs["w"] = {
    q: {d: round(rng.normal() - s, 4) for d, s in x.items()} for q, x in runs["x"].items()
  }
  trec.read_qrels(qrels).write(folder / "qrels.txt")
  for name, run in runs.items():
    trec.read_run(run, name=name).write(folder / f"{name}.run")
  return folder, qrels, runs


@pytest.fixture
def files(collection, monkeypatch, tmp_path):
  """The folder of the collection, in which the command runs."""
  for path in collection[0].iterdir():
    (tmp_path / path.name).write_bytes(path.read_bytes())
  monkeypatch.chdir(tmp_path)
  return tmp_path


@pytest.fixture
def fuse(files, capsys):
  """Runs `jaxrank fuse` in this process and returns what it prints; it must succeed."""

  def call(words):
    status = main(["fuse", *words.split(), "--no-cache"])
    out, err = capsys.readouterr()
    assert status == 0, err
    return out, err

  return call


def arrays(runs, qrels, queries):
  """Scores, labels and mask of some queries, by dictionaries."""
  names = [
    sorted({d for of in [*runs, qrels or {}] for d in of.get(query, ())}, reverse=True)
    for query in queries
  ]
  shape = len(queries), max(map(len, names))
  scores = np.full((len(runs), *shape), -np.inf, np.float32)
  labels, where = np.zeros(shape, np.int32), np.zeros(shape, bool)
  for q, (query, documents) in enumerate(zip(queries, names, strict=True)):
    for i, document in enumerate(documents):
      where[q, i] = True
      labels[q, i] = (qrels or {}).get(query, {}).get(document, -1)
      for s, run in enumerate(runs):
        scores[s, q, i] = run.get(query, {}).get(document, -np.inf)
  return scores, labels, where, names


def as_run(fused, names, queries):
  return {
    query: {d: float(x) for d, x in zip(documents, of_query, strict=False) if x > -np.inf}
    for query, documents, of_query in zip(queries, names, np.asarray(fused), strict=True)
  }


def reciprocal_ranks(runs, k=60):
  """RRF of dictionaries; tied documents get the mean of their ranks' points."""
  fused = {}
  for run in runs:
    for query, scores in run.items():
      of_query = fused.setdefault(query, {})
      for document, score in scores.items():
        ahead, tied = (
          sum(x > score for x in scores.values()),
          sum(x == score for x in scores.values()),
        )
        points = [1 / (k + rank) for rank in range(ahead + 1, ahead + tied + 1)]
        of_query[document] = of_query.get(document, 0) + sum(points) / tied
  return fused


def sums_of_unit_scores(runs, weights, missing=None):
  """CombSUM of min-max-normalised dictionaries."""
  fused = {}
  for run, weight in zip(runs, weights, strict=True):
    for query in {query for run in runs for query in run}:
      of_query, scores = fused.setdefault(query, {}), run.get(query, {})
      low, high = min(scores.values(), default=0), max(scores.values(), default=1)
      for document in {d for run in runs for d in run.get(query, ())}:
        x = 0 if missing is None else missing
        if document in scores:
          x = (scores[document] - low) / (high - low)
        of_query[document] = of_query.get(document, 0) + weight * x
  return fused


def same(found, expected):
  """Two runs with the same documents, of nearly the same scores."""
  assert {query: sorted(x) for query, x in found.items()} == {
    query: sorted(x) for query, x in expected.items()
  }
  for query, scores in expected.items():
    assert found[query] == pytest.approx(scores, rel=2e-6, abs=1e-7)


def read(path):
  return trec.read_run(str(path)).to_dict()


def test_reciprocal_ranks_are_the_default(fuse, collection):
  _, _, runs = collection
  out, err = fuse("x.run y.run -o fused.run")
  assert not out
  assert (
    err == "jaxrank: y: query of the other runs that is not in this one, fused without it: q01\n"
  )
  same(read("fused.run"), reciprocal_ranks([runs["x"], runs["y"]]))
  assert trec.read_run("fused.run").name == "rrf"
  fuse("x.run y.run --set k=1 --weights 1,1 --name mine -o fused.run")
  same(read("fused.run"), reciprocal_ranks([runs["x"], runs["y"]], 1))
  assert trec.read_run("fused.run").name == "mine"


def test_weighted_sums_of_scores(fuse, collection):
  _, _, runs = collection
  two = [runs["x"], runs["y"]]
  fuse("x.run y.run --method comb_sum --weights .6,.4 -o fused.run")
  same(read("fused.run"), sums_of_unit_scores(two, [0.6, 0.4]))
  fuse("x.run y.run --method sum --normalize min_max --weights .6,.4 --missing .5 -o fused.run")
  same(read("fused.run"), sums_of_unit_scores(two, [0.6, 0.4], 0.5))


METHODS = {
  "comb-mnz --normalize zmuv --missing min": lambda s, w: fusion.comb_mnz(
    fusion.z_score(s, where=w, missing="min"), where=w
  ),
  "max --normalize theoretical-min-max --set lower=-300": lambda s, w: fusion.comb_max(
    fusion.theoretical_min_max(s, where=w, lower=-300.0), where=w
  ),
  "comb_gmnz --normalize none --set gamma=.5": lambda s, w: fusion.comb_gmnz(s, where=w, gamma=0.5),
  "comb-sum --normalize borda": lambda s, w: fusion.comb_sum(fusion.borda(s, where=w), where=w),
  "rrf --set k=1 --set weighs=rank --weights 3,1": lambda s, w: fusion.rrf(
    s, where=w, k=1.0, weighs="rank", weights=np.array([3.0, 1.0], np.float32)
  ),
  "condorcet": lambda s, w: fusion.condorcet_fuse(s, where=w),
  "borda": lambda s, w: fusion.borda_fuse(s, where=w),
}


@quick("words", METHODS, list(METHODS)[:2])
def test_a_method_has_the_values_of_its_function(fuse, collection, words):
  _, _, runs = collection
  queries = sorted(runs["x"])
  scores, _, where, names = arrays([runs["x"], runs["y"]], None, queries)
  fuse(f"x.run y.run --method {words} -o fused.run")
  expected = as_run(np.where(where, METHODS[words](scores, where), -np.inf), names, queries)
  # All digits are written.
  assert {q: {d: np.float32(x) for d, x in of.items()} for q, of in read("fused.run").items()} == {
    q: {d: np.float32(x) for d, x in of.items()} for q, of in expected.items()
  }


def test_tied_documents_stay_tied_and_come_as_trec_eval_orders_them(fuse, files):
  fuse("x.run y.run -o fused.run")
  rows = [line.split() for line in (files / "fused.run").read_text().splitlines()]
  first = [(row[2], row[3], row[4]) for row in rows if row[0] == "q00"]
  assert [document for document, *_ in first[:2]] == ["d2", "d1"]
  assert first[0][2] == first[1][2]
  # d5 and d10 of y are tied, and "d5" is the larger one.
  assert [document for document, *_ in first[2:]] == ["d3", "d5", "d10", "d4"]
  assert [rank for _, rank, _ in first] == [str(i + 1) for i in range(6)]
  fuse("x.run y.run -o fused.run --depth 1")
  assert read("fused.run")["q00"].keys() == {"d2"}
  assert set(map(len, read("fused.run").values())) == {1}


def test_every_format_that_is_read(fuse, files):
  fuse("x.run y.run -o fused.run")
  expected = read("fused.run")
  for name in ("f.json.gz", "f.tsv", "f.csv.xz", "f.jsonl", "f.parquet", "f.txt.bz2"):
    fuse(f"x.run y.run -o {name}")
    assert read(name) == expected
  assert gzip.decompress((files / "f.json.gz").read_bytes()).startswith(b"{")
  out, _ = fuse("x.run y.run -o -")
  assert out == (files / "fused.run").read_text()
  # What is read may have any format, too.
  trec.read_run("x.run").write("x.json.gz")
  trec.read_run("y.run").write("y.tsv")
  assert fuse("x.json.gz y.tsv -o -")[0] == out


@pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes")
def test_runs_in_pipes(fuse, files):
  expected = fuse("x.run y.run -o -")
  os.mkfifo(files / "pipe")
  text = (files / "x.run").read_text()
  writer = threading.Thread(target=lambda: (files / "pipe").write_text(text))
  writer.start()
  assert fuse("pipe y.run -o -") == expected
  writer.join()


def test_standard_input_and_output(files):
  words = [sys.executable, "-m", "jaxrank", "fuse", "--no-cache", "-", "y.run", "-o", "-"]
  given = (files / "x.run").read_bytes()
  done = subprocess.run(words, input=given, capture_output=True, check=True)
  rows = [line.split() for line in done.stdout.decode().splitlines()]
  assert rows[0][:4] == ["q00", "Q0", "d2", "1"]
  assert {row[-1] for row in rows} == {"rrf"}


def test_runs_of_one_name_and_one_run_twice(fuse, files):
  """Runs with the same tag are named by their files, and a file that comes again by a number."""
  (files / "other").mkdir()
  (files / "other" / "x.run").write_text((files / "x.run").read_text().replace("q03 ", "q98 "))
  _, err = fuse("x.run other/x.run x.run -o fused.run")
  assert [line.partition(": query")[0] for line in err.splitlines()] == [
    "jaxrank: x.run",
    "jaxrank: other/x.run",
    "jaxrank: x.run (2)",
  ]
  found = read("fused.run")
  assert found["q98"] == pytest.approx(reciprocal_ranks([{"q98": read("x.run")["q03"]}])["q98"])


def test_scores_that_single_precision_does_not_tell_apart_have_their_ranks(fuse, files):
  text = "".join(f"q Q0 d{i} {i + 1} {1 - i * 2.0**-40!r} near\n" for i in range(7))
  (files / "near.run").write_text(text)
  (files / "large.run").write_text(text.replace(" 1.0 near", " 1e300 near"))
  fuse("near.run large.run -o fused.run")
  assert [*read("fused.run")["q"]] == [f"d{i}" for i in range(7)]
  assert len(set(read("fused.run")["q"].values())) == 7


def fit_of(collection, names, **given):
  """What `fusion.fit` finds for the judged queries."""
  _, qrels, runs = collection
  scores, labels, where, _ = arrays([runs[name] for name in names], qrels, sorted(qrels))
  settings = {"normalize": "min_max", "names": names, "key": jax.random.key(0), "steps": 4}
  return fusion.fit("comb_sum", scores, labels, "AP", where=where, **settings | given)


def test_tuned_weights(fuse, files, collection):
  fit = fit_of(collection, ["y", "z"])
  out, err = fuse("--tune AP qrels.txt y.run z.run --steps 4 -o fused.run --plot two.svg")
  assert out == f"{fit}\n"
  assert err == (
    "jaxrank: y: query of the other runs that is not in this one, fused without it: q01\n"
    "jaxrank: queries of the qrels that are in no run, with the value 0: q02, q23\n"
    "jaxrank: query of the runs that is not in the qrels, left out of the measure: q99\n"
  )
  assert fit.recommendation == "equal"
  _, _, runs = collection
  same(read("fused.run"), sums_of_unit_scores([runs["y"], runs["z"]], [0.5, 0.5]))
  picture = (files / "two.svg").read_text()
  tuned = f"tuned weights ({fit.weights[0]:.2f} : {fit.weights[1]:.2f}): {fit.value:.4f}"
  equal = f"equal weights: {fit.grid_values[0]:.4f}"
  for text in ("weight of y;", "the rest is that of z", tuned, equal):
    assert f"<!-- {text} -->" in picture

  found = json.loads(fuse("--tune AP qrels.txt y.run z.run --steps 4 --json")[0])
  assert found["queries"] == QUERIES
  assert found["method"] == "comb_sum"
  assert found["normalize"] == "min_max"
  assert [x["tuned_weight"] for x in found["runs"].values()] == pytest.approx(fit.weights)
  assert [x["value"] for x in found["runs"].values()] == pytest.approx(fit.system_values)
  assert found["values"]["tuned"]["held_out"] == pytest.approx(fit.values["tuned"].mean())
  assert found["values"]["tuned"]["value"] == pytest.approx(fit.value)
  first = found["gains"][0]
  assert (first["of"], first["over"]) == ("tuned", "equal")
  assert first["p_value"] == fit.gains["tuned", "equal"].p_value
  assert found["recommendation"] == "equal"
  assert found["advice"] == fit.advice


def test_a_run_that_is_recommended_alone_is_written(fuse, collection):
  """Without the documents of the other runs."""
  fit = fit_of(collection, ["x", "w"])
  assert fit.recommendation == "single"
  out, _ = fuse("--tune AP qrels.txt x.run w.run --steps 4 -o fused.run")
  assert out == f"{fit}\n"
  same(read("fused.run"), collection[2]["x"])
  assert fuse("--tune AP qrels.txt x.run w.run --steps 4 -o -")[1].endswith(out)


def test_what_is_tried_and_how_queries_are_divided(fuse, files, collection):
  _, qrels, _ = collection
  lines = [f"{query} {int(query[1:]) // 2}\n" for query in qrels]
  (files / "groups.txt").write_text("".join(lines))

  def mm(scores, *, where=None):
    return fusion.min_max(scores, where=where, missing=0.25)

  def zs(scores, *, where=None):
    return fusion.z_score(scores, where=where, missing=0.25)

  mm.__name__, zs.__name__ = "min_max(missing=0.25)", "z_score(missing=0.25)"
  fit = fit_of(
    collection,
    ["y", "z"],
    normalize=[mm, zs],
    key=jax.random.key(3),
    groups=[f"{int(query[1:]) // 2}" for query in qrels],
    folds=3,
    repeats=2,
  )
  words = (
    "--tune AP qrels.txt y.run z.run --steps 4 --normalize min-max,zmuv --missing .25 --seed 3 "
    "--groups groups.txt --folds 3 --repeats 2"
  )
  assert fuse(words)[0] == f"{fit}\n"
  assert "missing=0.25" in f"{fit}"


def test_the_queries_that_choose(fuse, files, collection, capsys):
  _, qrels, runs = collection
  queries = sorted(qrels.keys() & runs["x"].keys())
  scores, labels, where, _ = arrays([runs["y"], runs["z"]], qrels, queries)
  fit = fusion.fit(
    "comb_sum", scores, labels, "AP", where=where, names=["y", "z"], key=jax.random.key(0), steps=4
  )
  out, err = fuse("--tune AP qrels.txt y.run z.run --steps 4 --queries both")
  assert out == f"{fit}\n"
  assert "jaxrank: queries of the qrels that are in no run, left out: q02, q23\n" in err
  fails("--tune AP qrels.txt y.run z.run --queries error", capsys, "y lacks q01; --queries judged")
  fails("--tune AP qrels.txt x.run z.run --queries error", capsys, "such as q02, q23, q99; --quer")


def test_three_runs_are_a_triangle(fuse, files, collection):
  fuse("--tune AP qrels.txt x.run y.run z.run --steps 4 --plot three.svg")
  picture = (files / "three.svg").read_text()
  for text in ("x", "y", "z", "AP", "AP of the 24 queries that chose the weights"):
    assert f"<!-- {text} -->" in picture
  assert re.search(r"<!-- tuned weights \(0\.\d\d : 0\.\d\d : 0\.\d\d\): 0\.\d{4} -->", picture)


def test_progress_in_a_terminal(fuse, monkeypatch):
  monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
  _, err = fuse("--tune AP qrels.txt y.run z.run --steps 4")
  assert "weights" in err
  assert "5/5" in err


def recall(found, qrels, count):
  """The mean recall of the first results, over judged queries."""
  values = []
  for query, labels in qrels.items():
    relevant = {d for d, label in labels.items() if label > 0}
    scores = found.get(query, {})
    first = sorted(scores, key=lambda d: (scores[d], d), reverse=True)[:count]
    values.append(len(relevant.intersection(first)) / max(len(relevant), 1))
  return np.mean(values)


def test_how_many_results_to_keep(fuse, collection):
  _, qrels, _ = collection
  fuse("x.run y.run -o whole.run")
  whole = read("whole.run")
  out, _ = fuse("--keep R>=0.4 qrels.txt x.run y.run -o fused.run")
  # The new query counts as one that misses all.
  needed = (QUERIES + 1) / QUERIES * 0.4
  count = next(i for i in range(1, 20) if recall(whole, qrels, i) >= needed)
  assert 1 < count < 7
  assert out == (
    f"Keep {count} results: on a new query that is drawn as these 24 were, R is at least 0.4 in "
    f"expectation. Its mean over these is {recall(whole, qrels, count):.4f}.\n"
  )
  cut = {
    query: dict(sorted(x.items(), key=lambda y: (y[1], y[0]), reverse=True)[:count])
    for query, x in whole.items()
  }
  assert read("fused.run") == cut
  found = json.loads(fuse("--keep recall>=0.4 qrels.txt x.run y.run --json")[0])
  mean = pytest.approx(recall(whole, qrels, count))
  assert found == {"measure": "recall", "level": 0.4, "queries": 24, "keep": count, "mean": mean}


def test_no_more_is_kept_than_is_written(fuse, capsys):
  """Results beyond the depth promise nothing."""
  words = "--keep R>=0.4 qrels.txt x.run y.run"
  count = int(fuse(words)[0].split()[1])
  assert fuse(f"{words} --depth {count} -o fused.run") == fuse(words)
  assert max(map(len, read("fused.run").values())) == count
  assert main(["fuse", *words.split(), "--depth", f"{count - 1}", "--no-cache"]) == 1
  assert f"with the first {count - 1}, so that 0." in capsys.readouterr().err


def fails(words, capsys, text, status=1):
  try:
    found = main(["fuse", *words.split(), "--no-cache"])
  except SystemExit as end:
    found = end.code
  out, err = capsys.readouterr()
  assert found == status
  assert not out
  assert text in err
  assert "Traceback" not in err


BROKEN = {
  "twice.run": "q1 Q0 d1 1 2 t\nq1 Q0 d1 2 1 t\n",
  "nan.run": "q1 Q0 d1 1 nan t\n",
  "large.run": "q00 Q0 d1 1 1e300 large\n",
  "other.run": "p1 Q0 d1 1 1 other\n",
  "empty.run": "",
  "groups.txt": "q00 1\nq01 2\n",
  "broken.txt": "q00 1\nq01\n",
}
TUNE = "--tune AP qrels.txt x.run y.run"


@pytest.mark.parametrize(
  ("words", "text"),
  [
    ("x.run missing.run -o f.run", "missing.run: No such file or directory"),
    ("x.run x.rum -o f.run", "x.rum: No such file or directory (is it x.run?)"),
    ("x.run . -o f.run", "(it is a folder: name the files in it)"),
    ("x.run twice.run -o f.run", "twice.run, line 2: query 'q1' has document 'd1' twice, first in"),
    ("x.run nan.run -o f.run", "nan.run, line 1: the score must be finite, got 'nan'"),
    ("x.run qrels.txt -o f.run", "qrels.txt, line 1: a line of a run file has 6 columns"),
    ("--keep R>=.5 x.run y.run z.run", "x.run, line 1: a line of a qrels file has 4 columns"),
    ("empty.run empty.run -o f.run", "no run has a query, so that there is nothing to fuse"),
    ("- - -o f.run", "only one of the files can be the standard input"),
    ("x.run y.run -o x.run", "-o x.run is a file that is read; write to another one"),
    ("x.run y.run -o f.xyz", "the suffix '.xyz' of 'f.xyz' is not known"),
    ("x.run y.run -o none/f.run", "there is no folder 'none' for -o none/f.run"),
    (
      "x.run large.run --method comb-sum -o f.run",
      "run 'large', query 'q00', document 'd1': the score 1e+300 is too large for single precision",
    ),
    ("x.run y.run --set x=1 -o f.run", "--set x: rrf takes k, weighs; theoretical-min-max one"),
    ("x.run y.run --set ranking=1 -o f.run", "--set ranking: rrf takes k, weighs"),
    ("x.run y.run --set k=1 --set k=2 -o f.run", "--set k comes twice; write the values between"),
    ("x.run y.run --set k=-1 -o f.run", "k must be at least 0, got -1.0"),
    ("x.run y.run --set weighs=no -o f.run", "weighs must be one of 'score', 'rank', got 'no'"),
    (
      "x.run y.run --method sum --normalize none --missing 0 -o f.run",
      "--missing is a normalised score, and has no place with --normalize none",
    ),
    ("x.run y.run --method sum --normalize borda --missing 0 -o f.run", "--missing: borda gives"),
    (f"{TUNE} --tune nDGC", "--tune: 'nDGC' is no name of a measure: did you mean"),
    (f"{TUNE} --tune P@1,P@2", "--tune: expected one measure, got P@1 P@2"),
    (f"{TUNE} --tune alpha_ndcg", "--tune: alpha_ndcg is a measure of diversity"),
    (f"{TUNE} --tune num_ret", "measure must have a mean of which more, or less, is better"),
    (f"{TUNE} --folds 30", "folds must be from 2 to 24, the number of queries or groups"),
    (f"{TUNE} --groups groups.txt", "groups.txt: there is no group of q02, q03, q04, ... (22 in"),
    (f"{TUNE} --groups broken.txt", "broken.txt, line 2: a line must be a query and its only grou"),
    ("--tune AP qrels.txt other.run other.run", "no run has a query of the qrels"),
    ("--keep R>=.95 qrels.txt x.run y.run", "--keep R>=0.95: no number of results is enough. The "),
    ("--keep R@5>=.5 qrels.txt x.run y.run", "measure must have no cut-off, which is sought"),
    ("--keep P>=.5 qrels.txt x.run y.run", "measure must be one that more results never make"),
    ("--keep foo>=.5 qrels.txt x.run y.run", "--keep: 'foo' is no name of a measure"),
  ],
)
def test_what_cannot_be_fused_is_told(files, capsys, words, text):
  for name, content in BROKEN.items():
    (files / name).write_text(content)
  fails(words, capsys, text)


@pytest.mark.parametrize(
  ("words", "text"),
  [
    ("x.run -o f.run", "fuse needs two runs or more, got 1"),
    ("--tune AP qrels.txt x.run", "fuse needs two runs or more, got 1 and QRELS"),
    ("x.run y.run", "-o must name the file of the fused run"),
    ("x.run y.run --method map_fuse -o f", "--method: must be one of rrf, isr,"),
    ("x.run y.run --method combsum -o f", "got 'combsum'; did you mean comb-sum?"),
    ("x.run y.run --normalize minmax -o f", "got 'minmax'; did you mean min-max?"),
    ("x.run y.run --weights 1 -o f", "--weights must have a number for each run, 2, got 1"),
    ("x.run y.run --weights 1,x -o f", "--weights: must be a number, got 'x'"),
    ("x.run y.run --weights 1,-1 -o f", "at least 0, and one more than 0, got 1,-1"),
    ("x.run y.run --weights 0,0 -o f", "at least 0, and one more than 0, got 0,0"),
    ("x.run y.run --weights nan,1 -o f", "at least 0, and one more than 0, got nan,1"),
    ("x.run y.run --missing x -o f", "--missing: must be a number, got 'x'"),
    ("x.run y.run --missing 0 -o f", "--missing is a score, and rrf takes ranks; leave it out"),
    ("x.run y.run --set k -o f", "--set: must be NAME=VALUE, such as k=60, got 'k'"),
    ("x.run y.run --set k=1,2 -o f", "--set k must have one value; --tune tries several"),
    (
      "x.run y.run --method sum --normalize min-max,z-score -o f",
      "--normalize must have one value; --tune tries several",
    ),
    ("x.run y.run --depth 0 -o f", "--depth: must be a whole number from 1"),
    ("x.run y.run --folds 3 -o f", "--folds needs --tune"),
    ("x.run y.run --plot f.svg -o f", "--plot needs --tune"),
    ("x.run y.run --json -o f", "--queries and --json need --tune or --keep"),
    (f"{TUNE} --weights 1,1", "--tune looks for weights; leave --weights out"),
    (f"{TUNE} --keep R>=.5", "tune first, and pass --weights with --keep and other judgements"),
    (f"{TUNE} z.run x.run --plot f.svg", "--plot draws the weights of two or three runs, got 4"),
    ("--keep R qrels.txt x.run y.run", "must be MEASURE>=VALUE in quotes, such as 'R>=0.9'"),
    ("--keep R>=1 qrels.txt x.run y.run", "must have a value between 0 and 1, got 1"),
  ],
)
def test_arguments_that_make_no_sense(files, capsys, words, text):
  fails(words, capsys, text, status=2)


def test_a_tag_has_no_blanks(files, capsys):
  with pytest.raises(SystemExit):
    main(["fuse", "x.run", "y.run", "-o", "f", "--name", "a b"])
  assert "--name: must have no blanks, got 'a b'" in capsys.readouterr().err


def test_a_normalisation_of_ranks_is_told_and_ignored(fuse):
  expected, _ = fuse("x.run z.run -o -")
  out, err = fuse("x.run z.run --normalize z-score -o -")
  assert out == expected
  assert err == (
    "jaxrank: rrf takes ranks, which no normalisation changes: --normalize counts for nothing\n"
  )


def test_an_output_that_exists_is_overwritten(fuse, files):
  (files / "fused.run").write_text("old\n" * 1000)
  fuse("x.run y.run -o fused.run")
  assert "old" not in (files / "fused.run").read_text()


def test_the_names_are_those_of_the_package():
  kinds = {name: x.kind for name, x in _define.METHODS.items()}
  assert {*fusing_arguments.OF_SCORES} == {x for x in kinds if kinds[x] == "scores"}
  assert {*fusing_arguments.OF_RANKS} == {x for x in kinds if kinds[x] == "ranks"}
  assert {*fusing_arguments.NORMALISATIONS} == {*_define.NORMALISATIONS}
  assert {*fusing_arguments._OTHER_NAMES.values()} <= {*_define.NORMALISATIONS}
  assert all(_define.METHODS[x].weighted for x in kinds if kinds[x] != "trained")


def test_help_does_not_import_jax():
  code = """
import sys
from jaxrank.command import main
try:
  main(["fuse", "--help"])
finally:
  assert "jax" not in sys.modules
"""
  done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
  assert "usage: jaxrank fuse [options] [QRELS] RUN RUN... -o FUSED" in done.stdout
