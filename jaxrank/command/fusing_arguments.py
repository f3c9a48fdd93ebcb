"""The arguments of `jaxrank fuse`, which are read before jax is imported."""

import argparse
import difflib
import math
from collections.abc import Callable, Iterable, Sequence

from jaxrank.command.arguments import count, number, whole

# The methods of jaxrank.fusion that need no training, and its normalisations.
OF_SCORES = (
  "comb_sum",
  "comb_mnz",
  "comb_anz",
  "comb_max",
  "comb_min",
  "comb_med",
  "comb_gmnz",
  "weighted_mnz",
  "mixed",
)
OF_RANKS = ("rrf", "isr", "log_isr", "logn_isr", "rbc", "borda_fuse", "condorcet_fuse")
NORMALISATIONS = (
  "min_max",
  "theoretical_min_max",
  "max_norm",
  "sum_norm",
  "z_score",
  "distribution",
  "rank_norm",
  "borda",
)
# Of ranx, and for scores as they are.
_OTHER_NAMES = {"zmuv": "z_score", "sum": "sum_norm", "max": "max_norm", "rank": "rank_norm"}
NONE = "none"

DESCRIPTION = """\
Fuses runs: makes one ranking of each query of those of several systems, and writes it as a run.

RUN and QRELS are files as elsewhere in the command, also packed, or - for the standard input. A
document that a run lacks gets nothing from it. A query that a run lacks is fused without it, and
named on the standard error. FUSED is written in the format that its ending says, .csv, .json,
.jsonl, .parquet, .tsv (BEIR) or TREC's for others, and packed if .gz, .bz2, .xz, .zst or .lz4
follows; - is the standard output. A file of this name is overwritten.

With --tune or --keep the first file holds judgements. --tune looks for the weights that are best by
a measure, and says whether they are better than equal weights and than the best run alone on
queries that did not choose them; -o then writes what is recommended. --keep says how many results
to show for a value of a measure on new queries, and cuts FUSED there.
"""
EPILOGUE = """\
examples:
  jaxrank fuse bm25.run dense.run -o fused.run
  jaxrank fuse bm25.run dense.run --method comb-sum --weights .4,.6 -o fused.json.gz
  jaxrank fuse --tune nDCG@10 qrels.txt bm25.run dense.run --plot weights.svg -o fused.run
  jaxrank fuse --tune AP qrels.txt bm25.run dense.run --normalize min-max,z-score --missing min
  jaxrank fuse --tune AP qrels.txt bm25.run dense.run --method rrf --set k=10,60
  jaxrank fuse --keep "R>=0.9" qrels.txt bm25.run dense.run -o short.run

A file of the name fuse that is to be evaluated is written ./fuse. The status is that of jaxrank.
"""

# Options that mean something with another one only.
_OF_TUNING = ("folds", "repeats", "steps", "groups", "plot", "seed")


def parser() -> argparse.ArgumentParser:
  """The parser of the arguments."""
  made = argparse.ArgumentParser(
    "jaxrank fuse",
    description=DESCRIPTION,
    epilog=EPILOGUE,
    formatter_class=argparse.RawDescriptionHelpFormatter,
    usage="jaxrank fuse [options] [QRELS] RUN RUN... -o FUSED",
  )
  made.add_argument("files", metavar="RUN", nargs="+", help="files of runs, two or more")
  made.add_argument("-o", "--out", metavar="FUSED", help="the file of the run that is written")
  made.add_argument(
    "--method",
    type=_one_of((*OF_RANKS, *OF_SCORES), lambda name: (name, f"comb_{name}", f"{name}_fuse")),
    help=f"of ranks: {_listed(OF_RANKS)}; of scores: {_listed(OF_SCORES)} (default: rrf, and with "
    "--tune comb-sum)",
  )
  made.add_argument(
    "--normalize",
    metavar="NAME",
    type=_several(_one_of((*NORMALISATIONS, NONE), lambda name: (_OTHER_NAMES.get(name, name),))),
    help="what puts scores on one scale, for methods of scores: "
    f"{_listed((*NORMALISATIONS, NONE))} (default: min-max); with --tune, several between commas "
    "are tried",
  )
  made.add_argument(
    "--missing",
    metavar="SCORE",
    type=_missing,
    help="the normalised score of documents that a run lacks: a number, or min for the smallest "
    "one of the run (default: they are not counted)",
  )
  made.add_argument(
    "--set",
    dest="parameters",
    metavar="NAME=VALUE",
    action="append",
    type=_parameter,
    default=[],
    help="a parameter of the method or of the normalisation, such as k=60 of rrf, may be repeated; "
    "with --tune, several values between commas are tried",
  )
  made.add_argument(
    "--weights",
    metavar="W,W...",
    type=_several(number),
    help="a weight of each run, between commas (default: 1)",
  )
  made.add_argument(
    "--depth",
    metavar="N",
    type=count,
    default=1000,
    help="how many documents of a query are written, tied ones by their ids, descending, as in "
    "trec_eval (default: 1000)",
  )
  made.add_argument("--name", type=_tag, help="the name of the fused run (default: the method)")

  judged = made.add_argument_group("with judgements")
  judged.add_argument("--tune", metavar="MEASURE", help="look for the best weights by a measure")
  judged.add_argument(
    "--keep",
    metavar='"MEASURE>=VALUE"',
    type=_kept,
    help="keep as few results as have this value of the measure in expectation on a new query; the "
    "measure grows with the results, as R or Success; not with --tune, because weights that these "
    "queries chose would make the promise too good",
  )
  judged.add_argument(
    "--queries",
    choices=("judged", "both", "error"),
    help="which queries count: judged, all of the qrels, where those that no run has count as 0 "
    "(the default); both, those of the qrels and of some run; or error, an error if they differ",
  )
  judged.add_argument("--json", action="store_true", help="print one JSON object")
  tuned = made.add_argument_group("with --tune")
  tuned.add_argument("--folds", metavar="N", type=count, help="parts of the queries (default: 5)")
  tuned.add_argument(
    "--repeats", metavar="N", type=count, help="how often they are divided (default: 10)"
  )
  tuned.add_argument(
    "--steps",
    metavar="N",
    type=count,
    help="weights are multiples of 1/N (default: 100 for two runs, 20 for three, fewer for more)",
  )
  tuned.add_argument(
    "--groups",
    metavar="FILE",
    help="lines of a query and its group, such as variants of one question, which is not divided",
  )
  tuned.add_argument(
    "--plot", metavar="FILE", help="draw the measure over the weights of two or three runs"
  )
  tuned.add_argument("--seed", type=whole, help="the seed of the division (default: 0)")
  made.add_argument("--no-cache", action="store_true", help="keep no compiled programs")
  return made


def read(words: Sequence[str]) -> argparse.Namespace:
  """The arguments, which make sense together; otherwise the program ends with status 2."""
  made = parser()
  args = made.parse_intermixed_args(words)
  args.qrels = args.files.pop(0) if args.tune or args.keep else None
  runs = len(args.files)
  if runs < 2:
    made.error(f"fuse needs two runs or more, got {runs}{' and QRELS' * bool(args.qrels)}")
  if not (args.out or args.qrels):
    made.error("-o must name the file of the fused run, or - for the standard output")
  if args.tune and args.keep:
    made.error(
      "--keep promises something of new queries, which holds for weights that its queries did not "
      "choose: tune first, and pass --weights with --keep and other judgements"
    )
  if args.tune and args.weights:
    made.error("--tune looks for weights; leave --weights out")
  if args.weights and len(args.weights) != runs:
    made.error(f"--weights must have a number for each run, {runs}, got {len(args.weights)}")
  if args.weights and not (
    all(0 <= x < math.inf for x in args.weights) and any(x > 0 for x in args.weights)
  ):
    made.error(f"--weights must be at least 0, and one more than 0, got {_numbers(args.weights)}")
  for name in _OF_TUNING:
    if getattr(args, name) is not None and not args.tune:
      made.error(f"--{name} needs --tune")
  if (args.queries or args.json) and not args.qrels:
    made.error("--queries and --json need --tune or --keep")
  if args.plot and runs > 3:
    made.error(f"--plot draws the weights of two or three runs, got {runs}; leave it out")
  args.method = args.method or ("comb_sum" if args.tune else "rrf")
  if args.missing is not None and args.method in OF_RANKS:
    made.error(f"--missing is a score, and {_shown(args.method)} takes ranks; leave it out")
  several = next((name for name, values in args.parameters if len(values) > 1), None)
  if not args.tune and (several or len(args.normalize or ()) > 1):
    option = f"--set {several}" if several else "--normalize"
    made.error(f"{option} must have one value; --tune tries several")
  args.queries = args.queries or "judged"
  return args


def _shown(name: str) -> str:
  return name.replace("_", "-")


def _listed(names: Iterable[str]) -> str:
  return ", ".join(map(_shown, names))


def _numbers(values: Iterable[float]) -> str:
  return ",".join(f"{x:g}" for x in values)


def _one_of(names: Sequence[str], meant: Callable[[str], Sequence[str]]) -> Callable[[str], str]:
  """Reads a name, with - or _, or what may be meant by it."""

  def read(text: str) -> str:
    given = text.lower().replace("-", "_")
    found = next((name for name in meant(given) if name in names), None)
    if found is None:
      near = difflib.get_close_matches(given, names, 1)
      advice = f"; did you mean {_shown(near[0])}?" if near else ""
      raise argparse.ArgumentTypeError(f"must be one of {_listed(names)}, got {text!r}{advice}")
    return found

  return read


def _several(read: Callable[[str], object]) -> Callable[[str], list[object]]:
  return lambda text: [read(part) for part in text.split(",")]


def _missing(text: str) -> float | str:
  return text if text == "min" else number(text)


def _parameter(text: str) -> tuple[str, list[float | str]]:
  name, equals, values = text.partition("=")
  if not (name and equals and all(values.split(","))):
    raise argparse.ArgumentTypeError(f"must be NAME=VALUE, such as k=60, got {text!r}")
  return name.replace("-", "_"), [_value(part) for part in values.split(",")]


def _value(text: str) -> float | str:
  try:
    return float(text)
  except ValueError:
    return text


def _tag(text: str) -> str:
  if not text or any(x.isspace() for x in text):
    raise argparse.ArgumentTypeError(f"must have no blanks, got {text!r}")
  return text


def _kept(text: str) -> tuple[str, float]:
  measure, reaches, level = text.partition(">=")
  if not (measure.strip() and reaches):
    raise argparse.ArgumentTypeError(
      f"must be MEASURE>=VALUE in quotes, such as 'R>=0.9', got {text!r}"
    )
  value = number(level)
  if not 0 < value < 1:
    raise argparse.ArgumentTypeError(f"must have a value between 0 and 1, got {value:g}")
  return measure.strip(), value
