"""The command: its forms, what it says of queries and errors, and its comparisons."""

import json
import math
import os
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank.command import main, rendering
from jaxrank.measures import trec_families
from tests.helpers.suites import quick, thorough
from tests.trec import oracle

# Two documents are tied in b, and b lacks q3.
QRELS = "q1 0 d1 1\nq1 0 d2 0\nq2 0 d3 2\nq2 0 d4 1\nq3 0 d1 1\n"
RUNS = {
  "a": "q1 Q0 d2 1 0.9 a\nq1 Q0 d1 2 0.8 a\nq2 Q0 d4 1 3 a\nq2 Q0 d7 2 2 a\nq3 Q0 d1 1 1 a\n",
  "b": "q1 Q0 d1 1 0.5 b\nq1 Q0 d2 2 0.5 b\nq2 Q0 d3 1 3 b\nq9 Q0 d1 1 1 b\n",
}


@pytest.fixture
def files(tmp_path, monkeypatch):
  """A folder with the files, in which the command runs."""
  monkeypatch.chdir(tmp_path)
  (tmp_path / "qrels.txt").write_text(QRELS)
  (tmp_path / "one.txt").write_text(QRELS.splitlines()[0])
  (tmp_path / "folder").mkdir()
  (tmp_path / "empty.run").write_text("")
  (tmp_path / "blank.run").write_text("q1 Q0 my doc 1 0.5 r\n")
  for name, text in RUNS.items():
    (tmp_path / f"{name}.run").write_text(text)
  return tmp_path


@pytest.fixture
def run(files, capsys):
  """Runs the command in this process and returns what it prints; it must succeed."""

  def call(words):
    status = main([*words.split(), "--no-cache"])
    out, err = capsys.readouterr()
    assert status == 0, err
    return out, err

  return call


def test_a_table_of_runs(run):
  out, err = run("qrels.txt a.run b.run AP RR")
  assert out == (
    "Run       AP       RR\n"
    "─────────────────────\n"
    "a     0.6667   0.8333\n"
    "b     0.3333   0.5000\n"
    "3 queries of qrels.\n"
  )
  assert err == (
    "jaxrank: b: query of the qrels that is not in the run counts as 0: q3\n"
    "jaxrank: b: query of the run that is not in the qrels is left out: q9\n"
  )


def test_a_table_of_queries(run):
  out, _ = run("-q qrels.txt a.run b.run AP")
  rows = [line.split() for line in out.splitlines()]
  assert ["q1", "a", "0.5000"] in rows
  assert ["q3", "b", "0.0000"] in rows


def test_the_best_is_bold_in_a_terminal(run, monkeypatch):
  monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
  out, _ = run("qrels.txt a.run b.run AP")
  assert "\x1b[1m0.6667\x1b[0m" in out
  assert "\x1b[1m0.3333" not in out


def test_the_lines_of_trec_eval(run):
  out, err = run("--trec -q qrels.txt b.run map recip_rank")
  assert out == (
    "map                   \tq1\t0.5000\n"
    "recip_rank            \tq1\t0.5000\n"
    "map                   \tq2\t0.5000\n"
    "recip_rank            \tq2\t1.0000\n"
    "map                   \tall\t0.5000\n"
    "recip_rank            \tall\t0.7500\n"
  )
  assert "q3" in err
  assert "left out" in err
  assert run("--trec -c qrels.txt b.run -m map")[0] == "map                   \tall\t0.3333\n"


def test_zero_is_printed_without_a_sign():
  measure = jr.parse("AP")[0]
  assert rendering._number(measure, -1e-9) == "0.0000"


def test_ties_may_be_averaged(run):
  assert run("--trec --ties average qrels.txt b.run map")[0].split()[-1] == "0.6250"


def test_numbers_for_programs(run):
  found = json.loads(run("--json -q qrels.txt a.run b.run AP RR")[0])
  assert found["queries"] == {"a": 3, "b": 3}
  assert found["runs"]["b"] == {"AP": pytest.approx(1 / 3), "RR": 0.5}
  assert found["per_query"]["a"]["q2"] == {"AP": 0.5, "RR": 1.0}
  lines = run("--tsv -q qrels.txt a.run b.run AP RR")[0].splitlines()
  assert lines[0] == "run\tquery\tmeasure\tvalue"
  values = {(run, query, name): float(x) for run, query, name, x in map(str.split, lines[1:])}
  assert len(values) == 2 * 4 * 2
  assert values["b", "all", "AP"] == pytest.approx(1 / 3, abs=1e-6)
  assert values["a", "q2", "RR"] == 1


def test_a_table_for_latex(run):
  out, _ = run("--latex qrels.txt a.run b.run ndcg_cut_10")
  assert r"Run & ndcg\_cut\_10 \\" in out
  assert r"a & \textbf{" in out
  assert out.startswith("\\begin{tabular}{lr}\n\\toprule\n")
  assert out.endswith("\\bottomrule\n\\end{tabular}\n")


def test_runs_of_one_name_are_told_apart_by_their_files(run, files):
  (files / "c.run").write_text(RUNS["a"])
  out, _ = run("qrels.txt a.run c.run AP")
  assert [line.split()[0] for line in out.splitlines()[2:4]] == ["a.run", "c.run"]


@pytest.fixture
def three(files):
  """Three runs of 30 queries; each ranks by the label with more noise than the one before."""
  rng = np.random.default_rng(0)
  labels = rng.integers(0, 2, (30, 8))
  (files / "three.txt").write_text(
    "".join(f"{q} 0 d{d} {labels[q, d]}\n" for q, d in np.ndindex(labels.shape))
  )
  scores = labels + rng.normal(size=(3, 30, 8)) * np.array([0.5, 4, 4])[:, None, None]
  for name, of_run in zip("xyz", scores, strict=True):
    (files / f"{name}.run").write_text(
      "".join(f"{q} Q0 d{d} 1 {of_run[q, d]:.6f} {name}\n" for q, d in np.ndindex(labels.shape))
    )
  return jr.average_precision(scores.astype(np.float32), np.stack([labels] * 3))


TESTS = {
  "--test t": lambda x, y: jr.stats.paired_t(x, y).p_value,
  "": lambda x, y: jr.stats.randomization_test(x, y, key=jax.random.key(3)).p_value,
}


@quick("test", TESTS, ["--test t"])
@quick("correction", ["none", "holm", "bh"], ["holm"])
def test_p_values_are_those_of_the_tests(run, three, test, correction):
  words = f"--json --compare {test} --correction {correction} --seed 3 three.txt x.run y.run z.run"
  found = json.loads(run(f"{words} AP")[0])
  pairs = [(0, 1), (0, 2), (1, 2)]
  p = np.array([TESTS[test](three[i], three[j]) for i, j in pairs])
  adjust = {"none": np.asarray, "holm": jr.stats.holm, "bh": jr.stats.benjamini_hochberg}
  # The flips are not those of one pair alone.
  tolerance = 1e-5 if test else 5e-3
  got = [pair["p"] for pair in found["comparisons"]]
  np.testing.assert_allclose(got, adjust[correction](p), atol=tolerance)
  assert [pair["significant"] for pair in found["comparisons"]] == [True, True, False]


def test_significance_is_marked(run, three):
  out, _ = run("--compare --test tukey three.txt z.run x.run y.run AP")
  rows = [line.split() for line in out.splitlines()[2:5]]
  means = [f"{three[i].mean():.4f}" for i in (2, 0, 1)]
  assert rows == [["a", "z", means[0]], ["b", "x", means[1], "ac"], ["c", "y", means[2]]]
  assert "Tukey" in out
  assert r"b}$ x & \textbf{" in run("--latex --compare three.txt z.run x.run y.run AP")[0]
  tsv = run("--tsv --compare three.txt x.run y.run AP")[0].splitlines()
  assert tsv[-2] == "run\tother\tmeasure\tp"
  assert tsv[-1].split()[:3] == ["x", "y", "AP"]


def test_ranks_and_tiers(run, three):
  out, _ = run("--compare --test t --ranks three.txt z.run x.run y.run AP")
  rows = [line.split() for line in out.splitlines()]
  assert rows[0] == ["Run", "AP", "Rank", "Tier"]
  means = [f"{three[i].mean():.4f}" for i in (2, 0, 1)]
  assert rows[2] == ["a", "z", means[0], "2-3", "2"]
  assert rows[3] == ["b", "x", means[1], "ac", "1", "1"]
  assert "no two runs of a tier differ: confidence 0.95" in out
  found = json.loads(run("--json --compare --test t --ranks three.txt z.run x.run y.run AP")[0])
  assert found["ranks"]["x"]["AP"] == {"lowest": 1, "highest": 1, "tier": 1}
  expected = jr.stats.rank_intervals(three[jnp.array([2, 0, 1])], key=jax.random.key(9))
  assert [found["ranks"][name]["AP"]["highest"] for name in "zxy"] == expected.highest.tolist()
  tsv = run("--tsv --compare --test t --ranks three.txt z.run x.run y.run AP")[0]
  assert tsv.endswith(
    "\n\nrun\tmeasure\tlowest\thighest\ttier\nz\tAP\t2\t3\t2\nx\tAP\t1\t1\t1\ny\tAP\t2\t3\t2\n"
  )
  latex = run("--latex --compare --test t --ranks three.txt z.run x.run y.run AP")[0]
  assert "\\begin{tabular}{lrrr}" in latex
  assert "Run & AP & Rank & Tier" in latex
  assert "$^{ac}$ & 1 & 1 \\\\" in latex


@thorough
def test_ranks_where_less_is_better(run, three):
  out, _ = run("--compare --test t --ranks three.txt z.run x.run y.run fall_out@3")
  rows = [line.split() for line in out.splitlines()]
  # The run that ranks best has the fewest documents that are not relevant above the cut-off.
  assert rows[3][-2:] == ["1", "1"]


@pytest.fixture
def judged(files):
  """Judgements of people for 20 queries, of a model for 80, and two runs."""
  rng = np.random.default_rng(0)
  labels = rng.integers(0, 2, (80, 8))
  model = np.where(rng.random(labels.shape) < 0.1, 1 - labels, labels)
  for name, of, count in (("people", labels, 20), ("model", model, 80)):
    text = "".join(f"{q} 0 d{d} {of[q, d]}\n" for q, d in np.ndindex(count, 8))
    (files / f"{name}.txt").write_text(text)
  scores = labels + rng.normal(size=(2, 80, 8)) * np.array([0.4, 1])[:, None, None]
  for name, of_run in zip("xy", scores, strict=True):
    text = "".join(f"{q} Q0 d{d} 1 {of_run[q, d]:.6f} {name}\n" for q, d in np.ndindex(80, 8))
    (files / f"{name}.run").write_text(text)
  scores = scores.astype(np.float32)
  # Names of queries are sorted as text, which changes no mean.
  people = jr.average_precision(scores[:, :20], np.stack([labels[:20]] * 2))
  every = jr.average_precision(scores, np.stack([model] * 2))
  return people, every[:, :20], every[:, 20:]


def test_a_judge_helps(run, judged):
  words = "--judge model.txt people.txt x.run y.run AP"
  found = json.loads(run(f"--json {words}")[0])
  assert found["queries"] == {"labelled": 20, "others": 60}
  expected = jr.stats.prediction_powered(*judged)
  for i, name in enumerate("xy"):
    row = found["runs"][name]["AP"]
    np.testing.assert_allclose([*row.values()], [x[i] for x in expected], rtol=1e-3, atol=1e-5)
  paired = jr.stats.prediction_powered(*(x[1] - x[0] for x in judged))
  np.testing.assert_allclose(
    [*found["runs"]["y - x"]["AP"].values()], np.stack(paired), rtol=1e-3, atol=1e-5
  )
  out, err = run(words)
  assert "more of model" in out
  assert "its own weight" in out
  assert not err
  rows = [line.split() for line in out.splitlines()]
  assert rows[4][:4] == ["y", "-", "x", f"{paired.mean:.4f}"]
  assert "90% interval" in run(f"{words} --level 0.1")[0]
  lines = run(f"--tsv {words}")[0].splitlines()
  assert lines[0] == "run\tmeasure\tmean\tlow\thigh\tweight\tgain"
  assert len(lines) == 4


def test_a_run_of_the_labelled_queries_alone_is_no_sample(capsys, files, judged):
  lines = (files / "y.run").read_text().splitlines(keepends=True)
  (files / "few.run").write_text("".join(x for x in lines if int(x.split()[0]) < 20))
  words = "--no-cache --judge model.txt people.txt x.run few.run AP"
  assert main(words.split()) == 1
  out, err = capsys.readouterr()
  assert "queries of the model that are not in the run count as 0" in err
  assert "y lacks 60 of 60 of model" in err
  assert not out


@quick("name", ["runs.png", "runs.svg"], ["runs.svg"])
def test_a_picture(run, files, name):
  run(f"qrels.txt a.run b.run AP RR --plot {name}")
  assert (files / name).stat().st_size > 1000


def test_a_picture_of_an_unknown_form(files, capsys):
  assert main(["--no-cache", "qrels.txt", "a.run", "AP", "--plot", "x.xyz"]) == 1
  assert "pass the name of a file such as x.png" in capsys.readouterr().err


def test_a_picture_of_ranks(run, files, three):
  run("three.txt x.run y.run z.run AP --plot plain.svg")
  run("three.txt x.run y.run z.run AP --compare --test t --ranks --plot ranks.svg")
  assert "Ranks" in (files / "ranks.svg").read_text()
  assert "Ranks" not in (files / "plain.svg").read_text()


def fails(words, capsys, text, status=1):
  try:
    found = main([*words.split(), "--no-cache"])
  except SystemExit as end:
    found = end.code
  out, err = capsys.readouterr()
  assert found == status
  assert not out
  assert text in err
  assert "Traceback" not in err


@pytest.mark.parametrize(
  ("words", "text"),
  [
    ("qrels.txt missing.run AP", "there is no file 'missing.run'"),
    ("missing.txt a.run AP", "missing.txt: No such file or directory"),
    ("qrels.txt AP", "no argument after the qrels names a file of a run: AP"),
    ("qrels.txt a.run nDGC@10", "'nDGC@10' is no file and no name of a measure"),
    ("qrels.txt a.run alpha_ndcg AP", "AP takes one label for each document"),
    ("qrels.txt qrels.txt AP", "qrels.txt, line 1: a line of a run file has 6 columns"),
    ("qrels.txt blank.run AP", "blank.run, line 1: the document must be followed by its rank"),
    ("qrels.txt a.run b.run --trec map", "--trec prints the lines of one run, got 2 runs"),
    ("qrels.txt a.run AP --compare", "--compare needs two runs or more, got one"),
    ("one.txt a.run b.run AP --compare --queries both", "--compare needs two queries or more"),
    ("qrels.txt a.rum AP", "names a file of a run: a.rum AP (is it a.run?)"),
    (
      "qrels.txt a.run b.rn AP",
      "'b.rn' is no file (is it b.run?) and no name of a measure",
    ),
    ("qrels.txt folder/ AP", "there is no file 'folder/' (it is a folder"),
    ("qrels.txt empty.run AP --queries both", "no queries; use --queries judged for 0 for each"),
    ("qrels.txt b.run AP --queries error", "use --queries both to evaluate those in both, or --qu"),
    ("qrels.txt a.run P(judged_only=True)@5", "The option -J leaves out unjudged items"),
    ("qrels.txt a.run --trec -m P.5,x", "'x' is no file and no name"),
    ("qrels.txt a.run --trec -m P.x", "'P.x': P does not take 'x'; write P or P.5,10."),
    ("qrels.txt a.run --trec -m P.5.10", "'P.5.10': P does not take '5.10'; write P or P.5,10."),
    ("qrels.txt a.run --trec -m P.", "'P.': nothing follows the point; write P or P.5,10."),
    (
      "qrels.txt a.run --trec -m prefs_simp",
      "'prefs_simp' is no file and no name of a measure: trec_eval has it, and jaxrank has not",
    ),
    (
      "qrels.txt a.run --trec -m P.5 -m map -m P.10",
      "'P.5' and 'P.10': P is printed once; write P.5,10.",
    ),
    ("qrels.txt a.run --trec P.5,7,P.10", "'P.5,7' and 'P.10': P is printed once; write P.5,7,10."),
    (
      "qrels.txt a.run --trec -m set_F.2 -m set_F.3",
      "'set_F.2' and 'set_F.3': set_F is printed once; leave one out.",
    ),
    ("qrels.txt a.run --trec -m P.5,5", "'P.5,5': P_5 comes twice; drop one."),
    (
      "qrels.txt a.run --trec -m iprec_at_recall.0.1,.10",
      "'iprec_at_recall.0.1,.10': iprec_at_recall_0.10 comes twice; drop one.",
    ),
    ("qrels.txt a.run --trec -m P.0", "P does not take '0'; write P or P.5,10."),
    ("qrels.txt a.run --trec -m P.-5", "P does not take '-5'"),
    ("qrels.txt a.run --trec -m iprec_at_recall.x", "or iprec_at_recall.0.5,1."),
    ("qrels.txt a.run --trec -m iprec_at_recall.2", "level must be in [0, 1], got 2.0"),
    ("qrels.txt a.run --trec -m map.5", "'map.5': map has no parameters; write map."),
    ("qrels.txt a.run --trec -m official.5", "official has no parameters"),
    ("qrels.txt a.run --trec -m gm_map.x", "gm_map does not take 'x'; write gm_map."),
    ("qrels.txt a.run --trec -m set_F.", "nothing follows the point; write set_F or set_F.0.5."),
    ("qrels.txt a.run --trec -m set_F.1,2", "set_F does not take '1,2'; write set_F or set_F.0.5."),
    ("qrels.txt a.run --trec -m utility.1,2", "write utility or utility.1,-1,0,0."),
    ("qrels.txt a.run --trec -m ndcg.1=x", "ndcg does not take '1=x'; write ndcg or ndcg.1=3,2=9"),
    ("qrels.txt a.run --trec10 -m rbp.95", "rbp does not take '95'; write rbp or rbp.p=0.95."),
    ("qrels.txt a.run --trec10 -m rbp.x=3", "'rbp.x=3': rbp takes p and gains, got 'x'"),
    *(
      (f"qrels.txt a.run --trec -m {name}", f"'{name}' is a measure of trec_eval 10, and --trec ")
      for name in ("unj", "unj.5", "unj_10", "rbp", "rbp.p=0.95", "rbp_resid")
    ),
    ("qrels.txt a.run --trec -m unj", "prints the lines of version 9: write --trec10."),
    ("qrels.txt a.run --trec -m 11pt_avg..25,5", r"levels must be numbers from 0 to 1, got"),
    (
      "qrels.txt a.run --trec map -m relstring.x",
      "relstring does not take 'x'; write relstring or",
    ),
    ("qrels.txt a.run b.run --compare --queries both", "the same queries for all runs"),
    ("qrels.txt b.run AP --queries error", "q3"),
    (
      "qrels.txt a.run AP --judge one.txt",
      "--judge needs the judgements of the model for all queries of qrels, and one lacks q2, q3",
    ),
    ("qrels.txt a.run AP --judge qrels.txt", "two queries or more of qrels alone, got 0"),
    ("one.txt a.run AP --judge qrels.txt", "two queries or more of one, got 1"),
    ("qrels.txt a.run AP --judge none.txt", "none.txt: No such file"),
    ("qrels.txt a.run AP --judge qrel.txt", "No such file or directory (is it qrels.txt?)"),
    ("qrels.txt a.run AP --judge .", "(it is a folder: name the files in it)"),
    ("one.txt a.run num_ret --judge qrels.txt", "needs measures with means, which num_ret has not"),
  ],
)
def test_what_cannot_be_evaluated_is_told(files, capsys, words, text):
  fails(words, capsys, text)


@pytest.mark.parametrize(
  ("words", "text"),
  [
    ("qrels.txt", "RUN"),
    ("qrels.txt a.run --test t", "need --compare"),
    ("qrels.txt a.run b.run --compare --test tukey --correction holm", "needs no --correction"),
    ("qrels.txt a.run b.run --ranks", "--ranks needs --compare"),
    ("qrels.txt a.run b.run --judge qrels.txt --compare", "--judge prints a table of its own"),
    ("qrels.txt a.run b.run --judge qrels.txt --latex", "--judge prints a table of its own"),
    ("qrels.txt a.run --trec --compare", "has no place for --compare"),
    ("qrels.txt a.run --trec --json", "not allowed with"),
    ("qrels.txt a.run b.run --compare --level 2", "must be between 0 and 1, got 2"),
    ("qrels.txt a.run b.run --compare --level abc", "--level: must be a number, got 'abc'"),
    ("qrels.txt a.run --seed x", "must be a whole number, got 'x'"),
    ("qrels.txt a.run -M 0", "must be a whole number from 1, got '0'"),
    ("qrels.txt a.run -n", "-n leaves out lines of --trec"),
    ("qrels.txt a.run --frobnicate", "--frobnicate"),
  ],
)
def test_arguments_that_make_no_sense(files, capsys, words, text):
  fails(words, capsys, text, status=2)


def test_a_picture_that_fails_leaves_the_table(files, capsys):
  status = main(["qrels.txt", "a.run", "AP", "--plot", "runs.nonsense", "--no-cache"])
  out, err = capsys.readouterr()
  assert status == 1
  assert "0.6667" in out
  assert "nonsense" in err


@pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes")
def test_runs_in_pipes(run, files):
  """As `<(cat a.run)` of a shell gives them: by the number of a descriptor, or by a name."""
  read, write = os.pipe()
  os.write(write, RUNS["a"].encode())
  os.close(write)
  os.mkfifo(files / "pipe")
  writer = threading.Thread(target=lambda: (files / "pipe").write_text(RUNS["b"]))
  writer.start()
  piped = run(f"qrels.txt /dev/fd/{read} pipe AP RR")
  writer.join()
  os.close(read)
  assert piped == run("qrels.txt a.run b.run AP RR")


def test_measures_of_diversity_make_the_second_column_the_subtopic(run, files):
  """The values are those of pyndeval."""
  (files / "nd.txt").write_text("q1 1 d1 1\nq1 2 d1 1\nq1 2 d2 1\nq2 1 d3 1\nq2 3 d7 1\n")
  out, _ = run("nd.txt a.run alpha-nDCG@5 strec@1 --tsv")
  found = [line.split("\t")[1:] for line in out.splitlines()]
  assert ["all", "alpha-nDCG@5", "0.61373"] in found
  assert ["all", "strec@1", "0.25"] in found
  rows = [line.split() for line in (files / "nd.txt").read_text().splitlines()]
  (files / "nd.csv").write_text("qid,subtopic,docno,rel\n" + "\n".join(map(",".join, rows)))
  assert run("nd.csv a.run alpha-nDCG@5 strec@1 --tsv")[0] == out


def test_a_run_of_the_standard_input(files):
  words = [sys.executable, "-m", "jaxrank", "--trec", "--no-cache", "qrels.txt", "-", "map"]
  done = subprocess.run(words, input=RUNS["a"], capture_output=True, text=True, check=True)
  assert done.stdout == "map                   \tall\t0.6667\n"


def test_errors_do_not_name_functions_of_python(files, capsys):
  fails("qrels.txt qrels.txt AP", capsys, "jaxrank: error: qrels.txt, line 1: a line of a run")
  fails("qrels.txt a.run nDGC", capsys, "'nDGC' is no file and no name of a measure: did you mean")
  main(["qrels.txt", "a.run", "nDGC", "--no-cache"])
  assert "jaxrank.Measure" not in capsys.readouterr().err


def test_the_command_line_of_trec_eval(run, files):
  """Its options, and its names with parameters, in its order."""
  lines = run("--trec qrels.txt a.run")[0].splitlines()
  assert lines[0] == "runid                 \tall\ta"
  assert lines[1] == "num_q                 \tall\t3"
  assert len(lines) == 30
  words = (
    "--trec -m P.7,3 -m set_F.0.5 -m iprec_at_recall..5,0 -m utility.1,-1,0.5,0 -m ndcg.1=3,2=9 "
    "-m map_cut.2 -m gm_map.0.001 -m Rprec_mult.2,.5 qrels.txt a.run"
  )
  found = dict(line.split("\tall\t") for line in run(words)[0].splitlines())
  assert [name.strip() for name in found] == [
    "gm_map",
    "iprec_at_recall_0.00",
    "iprec_at_recall_0.50",
    "P_3",
    "P_7",
    "Rprec_mult_0.50",
    "Rprec_mult_2.00",
    "utility_1,-1,0.5,0",
    "ndcg_1=3,2=9",
    "map_cut_2",
    "set_F_0.5",
  ]
  # q1: 1 hit of 2; q2: 1 of 2, and one missed; q3: 1 of 1.
  assert found[f"{'utility_1,-1,0.5,0':<22}"] == f"{(0 + 0.5 + 1) / 3:.4f}"
  assert found[f"{'P_3':<22}"] == f"{1 / 3:.4f}"
  gains = (3 / np.log2(3) / 3 + 3 / (9 + 3 / np.log2(3)) + 1) / 3
  assert found[f"{'ndcg_1=3,2=9':<22}"] == f"{gains:.4f}"
  f = (1.5 * 0.5 / 1.25 + 1.5 * 0.25 / 0.75 + 1) / 3
  assert found[f"{'set_F_0.5':<22}"] == f"{f:.4f}"


def test_texts_of_trec_eval_alone(run):
  """As trec_eval prints them: `runid` for all queries, `relstring` for each."""
  assert run("--trec -m runid qrels.txt a.run")[0] == f"{'runid':<22}\tall\ta\n"
  assert run("--trec -m relstring qrels.txt a.run")[0] == ""
  lines = run("--trec -q -m runid -m relstring.1 qrels.txt a.run")[0].splitlines()
  assert [line.split("\t")[1] for line in lines] == ["q1", "q2", "q3", "all"]


def test_names_between_commas(run):
  """In one word, as in several; a comma among parameters ends no name."""
  several = run("--trec -m map -m P.5,10 -m ndcg.1=3,2=9 -m utility.1,-1,0,0 qrels.txt a.run")
  assert run("--trec -m map,P.5,10,ndcg.1=3,2=9,utility.1,-1,0,0 qrels.txt a.run") == several
  ours = run("qrels.txt a.run AP,nDCG(gains={1:2,2:5})@5,P@5 --tsv")[0].splitlines()
  assert [line.split("\t")[2] for line in ours[1:]] == ["AP", "nDCG(gains={1:2,2:5})@5", "P@5"]
  assert "rbp_1=3,p=0.95" in run("--trec10 -m rbp.1=3,p=0.95,map qrels.txt a.run")[0]


def test_options_of_trec_eval_choose_documents_and_labels(run):
  def total(words):
    return float(run(words)[0].split()[-1])

  assert total("--trec -l2 qrels.txt a.run num_rel") == 1
  assert total("--trec -l2 qrels.txt b.run map") == 0.5
  assert total("--trec -M1 qrels.txt a.run num_ret") == 3
  assert total("--trec -M1 qrels.txt a.run recip_rank") == pytest.approx(2 / 3, abs=1e-4)
  assert total("--trec -J qrels.txt a.run num_ret") == 4
  assert total("--trec -J -M1 qrels.txt a.run num_ret") == 3
  # Of 10 documents, 8 of q1, 7 of q2 and 9 of q3 are neither retrieved nor relevant.
  assert total("--trec -N10 -m utility.0,0,0,1 qrels.txt a.run") == 8
  assert total("--trec -c qrels.txt b.run num_rel") == 4
  out, _ = run("--trec -q -n qrels.txt a.run map")
  assert [line.split()[1] for line in out.splitlines()] == ["q1", "q2", "q3"]


def test_a_family_may_come_again_with_the_same_numbers(run):
  once = run("--trec -m P.5,10 qrels.txt a.run")
  for words in ("-m P.5,10 -m P.5,10", "-m P -m P.5,10", "-m P.5,10 -m P"):
    assert run(f"--trec {words} qrels.txt a.run") == once
  official = run("--trec -m official -m P.5 qrels.txt a.run")
  assert run("--trec -m P.5 -m official qrels.txt a.run") == official
  assert "P_10" not in official[0]
  assert "gm_map " in run("--trec -m gm_map.1 -m gm_map.2 qrels.txt a.run")[0]


def test_parameters_may_have_exponents(run):
  """They are printed as they were written, as trec_eval does, but for shares."""
  words = "utility.1e0,-1e-9,0,0 ndcg.1=1e2 set_F.5e-1 11pt_avg.25e-2 iprec_at_recall.5e-1,1"
  plain = "utility.1,-.000000001,0,0 ndcg.1=100 set_F.0.5 11pt_avg.0.25 iprec_at_recall.0.5,1"
  found, expected = (
    [line.split() for line in run(f"--trec qrels.txt a.run {x}")[0].splitlines()]
    for x in (words, plain)
  )
  assert [x[2] for x in found] == [x[2] for x in expected]
  names = {x[0] for x in found}
  assert {"set_F_5e-1", "ndcg_1=1e2", "utility_1e0,-1e-9,0,0", "iprec_at_recall_0.50"} <= names


LEVELS = {
  "AP": "AP(rel={})",
  "RR": "RR(rel={})",
  "P@2": "P(rel={})@2",
  "NumRel": "NumRel(rel={})",
  "average_precision": "average_precision(rel={})",
  "map@10": "map@10-l{}",
}


@pytest.mark.parametrize("name", LEVELS)
def test_a_level_is_for_measures_that_name_none(run, name):
  """One that names a level keeps it, also if it is the one that it has without a name."""

  def values(words):
    lines = run(f"--tsv -q qrels.txt a.run {words}")[0].splitlines()
    return [line.split("\t")[-1] for line in lines]

  one, two = (LEVELS[name].format(level) for level in (1, 2))
  assert values(one)[1:] == values(name)[1:] != values(two)[1:]
  assert values(f"-l 2 {one}") == values(one)
  assert values(f"-l 2 {name}")[1:] == values(f"-l 1 {two}")[1:] == values(two)[1:]


def test_a_collection_is_for_measures_that_name_none(run):
  def value(words):
    return run(f"--tsv qrels.txt a.run {words}")[0].split()[-1]

  named = "utility(hit=0,other=0,rest=1,collection=10)"
  assert value(f"-N20 {named}") == value(named) == value("-N10 utility(hit=0,other=0,rest=1)")
  assert value("-N20 utility(hit=0,other=0,rest=1)") != value(named)


def test_the_lines_of_trec_eval_10(run):
  names = [line.split()[0] for line in run("--trec10 qrels.txt a.run all_trec")[0].splitlines()]
  assert names[-5:] == ["rbp", "rbp_resid", "unj_5", "unj_10", "unj_20"]
  assert names[0] == "runid"
  out, _ = run("--trec10 -q qrels.txt a.run rbp rbp_resid unj.2")
  rows = dict(((name, query), float(x)) for name, query, x in map(str.split, out.splitlines()))
  assert rows["rbp", "q1"] == pytest.approx(0.09, abs=1e-4)
  # The label 1 is a half of the largest one.
  assert rows["rbp", "q2"] == pytest.approx(0.05, abs=1e-4)
  assert rows["rbp_resid", "q1"] == 0
  assert rows["rbp_resid", "q2"] == pytest.approx(0.9**2 + 0.1 * 0.9, abs=1e-4)
  assert rows["unj_2", "q2"] == 0.5
  assert rows["unj_2", "all"] == pytest.approx(1 / 6, abs=1e-4)


def test_queries_among_the_documents_may_be_dropped(run, files):
  (files / "self.run").write_text(
    "q1 Q0 q1 1 9 x\nq1 Q0 d1 2 1 x\nq2 Q0 d3 1 2 x\nq2 Q0 q1 2 1 x\n"
  )
  assert run("--trec qrels.txt self.run recip_rank")[0].split()[-1] == "0.7500"
  assert run("--trec --drop-self qrels.txt self.run recip_rank")[0].split()[-1] == "1.0000"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_plain_characters_where_there_are_no_others(files, encoding):
  (files / "é.run").write_text(RUNS["a"].replace(" a\n", " \N{SNOWMAN}\n"), encoding="utf-8")
  command = [sys.executable, "-m", "jaxrank", "qrels.txt", "é.run", "AP", "--no-cache"]
  environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
  done = subprocess.run(command, check=True, capture_output=True, env=environment)
  assert done.stdout.decode(encoding).splitlines()[1].strip("-") == ""
  assert "\\u2603" in done.stdout.decode(encoding)
  assert "0.6667" in done.stdout.decode(encoding)


def test_a_pipe_gets_no_progress(files):
  command = [sys.executable, "-m", "jaxrank", "qrels.txt", "a.run", "AP", "--no-cache"]
  # jaxlib 0.9 logs that it reads a compiled program.
  environment = {**os.environ, "FORCE_COLOR": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
  done = subprocess.run(command, check=True, capture_output=True, env=environment)
  assert not done.stderr
  assert b"\x1b" not in done.stdout


def test_a_failing_file_ends_the_process_with_status_1(files):
  (files / "broken.run").write_text("q1 Q0 d1 1 x a\n")
  command = [sys.executable, "-m", "jaxrank", "qrels.txt", "broken.run", "AP", "--no-cache"]
  done = subprocess.run(command, check=False, capture_output=True, text=True)
  assert done.returncode == 1
  assert done.stderr.startswith("jaxrank: error: broken.run, line 1")
  done = subprocess.run([*command, "--frobnicate"], check=False, capture_output=True, text=True)
  assert done.returncode == 2


def test_a_cache_folder_that_cannot_be_written_is_a_warning(files, capsys, monkeypatch):
  monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: files / "a.run" / "cache")
  assert main(["qrels.txt", "a.run", "AP"]) == 0
  out, err = capsys.readouterr()
  assert "0.6667" in out
  assert "jaxrank: warning: compiled programs are not kept in" in err


def test_many_runs_have_distinct_marks(run, files, three):
  (files / "best.run").write_text((files / "x.run").read_text().replace(" x\n", " best\n"))
  for i in range(27):
    (files / f"r{i}.run").write_text((files / "y.run").read_text().replace(" y\n", f" r{i}\n"))
  names = " ".join(f"r{i}.run" for i in range(27))
  out, _ = run(f"--compare --correction none --test t three.txt {names} best.run AP")
  rows = [line.split() for line in out.splitlines()[2:30]]
  assert [row[0] for row in rows] == [str(i + 1) for i in range(28)]
  assert rows[-1][-1] == ",".join(str(i + 1) for i in range(27))
  assert "A number says" in out


def test_the_same_file_twice_is_two_runs(run):
  found = json.loads(run("--json qrels.txt a.run a.run b.run AP")[0])
  assert list(found["runs"]) == ["a.run", "a.run (2)", "b"]


def test_what_is_not_installed_is_named(files, capsys, monkeypatch):
  monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "rich" else name)
  fails("qrels.txt a.run AP", capsys, "the command needs rich: pip install 'jaxrank[trec]'")


def test_help_does_not_import_jax():
  code = """
import sys
from jaxrank.command import main
try:
  main(["--help"])
finally:
  assert "jax" not in sys.modules
"""
  done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
  assert "usage: jaxrank [options] QRELS RUN... [MEASURE...]" in done.stdout


def relstring(qrels, ranking, option):
  """The labels of the first ten documents in trec_eval's order."""
  found = [qrels.get(document) for document in oracle.order(ranking)]
  if option == "-J":
    found = [label for label in found if label is not None and label >= 0]
  marks = ["-" if label is None else "." if label < 0 else str(label) for label in found]
  return f"'{''.join(marks[:10])}'"


@pytest.mark.thorough
@pytest.mark.parametrize("option", ["-q", "-c", "-l2", "-J"])
def test_every_line_of_trec_eval(files, run, option):
  """All measures, with the lines of the queries, in trec_eval's order and format."""
  pytrec_eval = pytest.importorskip("pytrec_eval")
  rng = np.random.default_rng(5)
  qrels, found = {}, {}
  for q in range(40):
    judged = rng.permutation(60)[:25]
    qrels[f"q{q}"] = {f"d{d}": int(rng.integers(-1, 3)) for d in judged} | {"d99": 1}
    found[f"q{q}"] = {f"d{d}": round(float(rng.normal()), 1) for d in rng.permutation(60)[:30]}
  missing = [f"q{q}" for q in (3, 17)]
  found = {query: scores for query, scores in found.items() if query not in missing}
  jr.trec.read_qrels(qrels).write("all.txt")
  jr.trec.read_run(found).write("all.run")
  complete, level = option == "-c", 2 if option == "-l2" else 1
  values = pytrec_eval.RelevanceEvaluator(
    qrels,
    pytrec_eval.supported_measures,
    relevance_level=level,
    judged_docs_only_flag=option == "-J",
  ).evaluate(found)
  names = [*trec_families("all_trec")]
  expected = []
  for query in sorted(values):
    for name in names:
      if name == "recall_5":
        expected.append(("relstring", query, relstring(qrels[query], found[query], option)))
      if name not in ("num_q", "gm_map", "gm_bpref"):
        expected.append((name, query, values[query][name]))
  expected.append(("runid", "all", "run"))
  for name in names:
    column = [values[query][name] for query in values]
    total = pytrec_eval.compute_aggregated_measure(name, column)
    if complete and name == "num_rel":
      column += [sum(label > 0 for label in qrels[query].values()) for query in missing]
      total = sum(column)
    elif complete and not name.startswith("num_"):
      column += [math.log(1e-5) if name.startswith("gm_") else 0.0] * len(missing)
      total = pytrec_eval.compute_aggregated_measure(name, column)
    expected.append((name, "all", len(qrels) if complete and name == "num_q" else total))
  lines = [
    f"{name:<22}\t{query}\t{value}"
    if name in ("runid", "relstring")
    else f"{name:<22}\t{query}\t{value:.0f}"
    if name.startswith("num_")
    else f"{name:<22}\t{query}\t{value:6.4f}"
    for name, query, value in expected
  ]
  words = f"--trec -q {option} all.txt all.run all_trec"
  got = run(words)[0].splitlines()
  different = [i for i, (a, b) in enumerate(zip(lines, got, strict=True)) if a != b]
  # A value halfway between two decimals is rounded as the last bit of its sum happens to be.
  for i in different:
    name, query, value = expected[i]
    assert query != "all"
    assert abs(value * 1e4 % 1 - 0.5) < 1e-9
    assert got[i].split()[:2] == [name, query]
  assert len(different) <= len(lines) / 1000


@pytest.mark.thorough
def test_a_second_run_finds_its_programs(files):
  """It compiles nothing: the programs are those of the first run, and `--no-cache` keeps none."""

  def programs(*words):
    command = [sys.executable, "-m", "jaxrank", "qrels.txt", "a.run", "AP", *words]
    environment = {**os.environ, "XDG_CACHE_HOME": str(files), "HOME": str(files)}
    subprocess.run(command, check=True, capture_output=True, env=environment)
    return {path: path.stat().st_mtime_ns for path in files.rglob("*-cache")}

  assert not programs("--no-cache")
  first = programs()
  assert first
  assert programs() == first
