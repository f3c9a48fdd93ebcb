"""The arguments of the command `jaxrank`, which are read before jax is imported."""

import argparse
from collections.abc import Sequence

import jaxrank

DESCRIPTION = """\
Evaluates runs against qrels: one table for all runs, the numbers of trec_eval.

QRELS and RUN are files of TREC, BEIR, MS MARCO, CSV, JSON or parquet, also packed, or - for the
standard input. What names no file is a measure: a name of jaxrank (ndcg@10), of ir_measures
(nDCG@10) or of trec_eval (ndcg_cut_10, also its families and nicknames: P, P.5,10, official,
all_trec), or several between commas. Without a measure, nDCG@10, AP, RR, P@10 and R@100 are
computed, and with --trec the official ones.

The first word fuse makes one run of several: jaxrank fuse --help.
"""
EPILOGUE = """\
examples:
  jaxrank qrels.txt bm25.run dense.run nDCG@10 AP
  jaxrank qrels.txt bm25.run dense.run nDCG@10 --compare --ranks --plot runs.svg
  jaxrank people.txt bm25.run dense.run nDCG@10 --judge model.txt
  jaxrank --trec -q qrels.txt bm25.run map ndcg_cut_10
  jaxrank --trec -c -l2 -m P.5,10 -m gm_map qrels.txt bm25.run

The status is 0 if all went well, 1 if something could not be evaluated or printed, such as a broken
file or an unknown measure, and 2 if the options are wrong whatever the files hold.
"""

# The forms that judgements of a model are printed in.
_JUDGED = ("table", "json", "tsv")


def parser() -> argparse.ArgumentParser:
  """The parser of the arguments."""
  made = argparse.ArgumentParser(
    "jaxrank",
    description=DESCRIPTION,
    epilog=EPILOGUE,
    formatter_class=argparse.RawDescriptionHelpFormatter,
    usage="jaxrank [options] QRELS RUN... [MEASURE...]",
  )
  made.add_argument("qrels", metavar="QRELS", help="the file of judgements")
  made.add_argument("inputs", metavar="RUN", nargs="+", help="files of runs, and measures")
  made.add_argument(
    "-m", "--measure", action="append", default=[], help="one more measure, as in trec_eval"
  )
  made.add_argument("-q", "--per-query", action="store_true", help="also print each query")
  made.add_argument(
    "--queries",
    choices=("judged", "both", "error"),
    help="which queries count: judged, all of the qrels, where those that a run lacks count as 0 "
    "(the default); both, those of the qrels and the run (the default with --trec); or error, an "
    "error if they differ",
  )
  made.add_argument(
    "-c",
    dest="queries",
    action="store_const",
    const="judged",
    help="the same as --queries judged, as in trec_eval",
  )
  made.add_argument(
    "--drop-self",
    action="store_true",
    help="leave out documents that have the id of their query, as BEIR does",
  )
  made.add_argument(
    "-l",
    dest="rel",
    metavar="LABEL",
    type=number,
    help="the smallest label that counts as relevant, for measures that do not name one",
  )
  made.add_argument(
    "-J",
    dest="judged_only",
    action="store_true",
    help="leave out documents that are not judged",
  )
  made.add_argument(
    "-M", dest="depth", metavar="N", type=count, help="only the first N documents of a query count"
  )
  made.add_argument(
    "-N",
    dest="collection",
    metavar="N",
    type=count,
    help="the number of documents of the collection, for the last coefficient of utility",
  )
  made.add_argument(
    "-n", dest="totals", action="store_false", help="with --trec -q: no lines for all queries"
  )
  made.add_argument(
    "--ties",
    choices=("document", "average"),
    default="document",
    help="the order of tied documents: by identifier, descending, as in trec_eval (document, the "
    "default), or the mean over all orders (average)",
  )

  form = made.add_argument_group("form of the output").add_mutually_exclusive_group()
  for name, text in (
    ("trec", "the lines of trec_eval 9, for one run"),
    ("trec10", "the lines of trec_eval 10, for one run"),
    ("json", "one JSON object"),
    ("tsv", "lines of run, query, measure and value, separated by tabs"),
    ("latex", "a table for LaTeX with the package booktabs"),
  ):
    form.add_argument(
      f"--{name}", dest="form", action="store_const", const=name, default="table", help=text
    )
  made.add_argument("--plot", metavar="FILE", help="draw the means with 95%% intervals")

  test = made.add_argument_group("comparison")
  test.add_argument(
    "--compare",
    action="store_true",
    help="test all pairs of runs by each measure, and mark what is significant",
  )
  test.add_argument(
    "--test",
    choices=("randomization", "t", "tukey"),
    help="randomization (the default), t (paired), or tukey (randomized Tukey HSD)",
  )
  test.add_argument(
    "--correction",
    choices=("holm", "bh", "none"),
    help="the correction for the number of pairs, for each measure by itself: holm (the default), "
    "bh (Benjamini and Hochberg), or none; not for tukey, which needs none",
  )
  test.add_argument(
    "--level", type=_level, default=0.05, help="the level of significance (default: 0.05)"
  )
  test.add_argument(
    "--ranks",
    action="store_true",
    help="with --compare: the ranks that the data allow, and groups of runs that do not differ",
  )
  test.add_argument(
    "--judge",
    metavar="QRELS",
    help="judgements of a model for these queries and more: intervals of the means by the "
    "judgements of QRELS with the help of these, and of differences to the first run",
  )
  test.add_argument("--seed", type=whole, default=0, help="the seed of the tests (default: 0)")

  made.add_argument("--no-cache", action="store_true", help="keep no compiled programs")
  made.add_argument("--version", action="version", version=f"jaxrank {jaxrank.__version__}")
  return made


def read(words: Sequence[str] | None) -> argparse.Namespace:
  """The arguments, which make sense together; otherwise the program ends with status 2."""
  made = parser()
  # Options may stand between runs and measures.
  args = made.parse_intermixed_args(words)
  if (args.test or args.correction) and not args.compare:
    made.error("--test and --correction need --compare")
  if args.ranks and not args.compare:
    made.error("--ranks needs --compare")
  if args.judge and (args.compare or args.plot or args.per_query or args.form not in _JUDGED):
    made.error(
      "--judge prints a table of its own, --json or --tsv, and has no place for --compare, --plot, "
      "-q or another form"
    )
  if args.test == "tukey" and args.correction not in (None, "none"):
    made.error("--test tukey needs no --correction; its p-values hold for all pairs together")
  if args.compare and args.form in ("trec", "trec10"):
    made.error("the form of trec_eval has no place for --compare; leave --trec or --compare out")
  args.dialect = "trec_eval10" if args.form == "trec10" else "trec_eval"
  args.form = args.form.removesuffix("10")
  if not args.totals and args.form != "trec":
    made.error("-n leaves out lines of --trec, and nothing of the other forms; leave it out")
  args.test = args.test or "randomization"
  args.correction = args.correction or ("none" if args.test == "tukey" else "holm")
  args.queries = args.queries or ("both" if args.form == "trec" else "judged")
  return args


def number(text: str) -> float:
  """A number."""
  try:
    return float(text)
  except ValueError:
    raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None


def count(text: str) -> int:
  """A whole number from 1."""
  if not text.isdecimal() or int(text) < 1:
    raise argparse.ArgumentTypeError(f"must be a whole number from 1, got {text!r}")
  return int(text)


def whole(text: str) -> int:
  """A whole number."""
  try:
    return int(text)
  except ValueError:
    raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}") from None


def _level(text: str) -> float:
  level = number(text)
  if not 0 < level < 1:
    raise argparse.ArgumentTypeError(f"must be between 0 and 1, got {text}")
  return level
