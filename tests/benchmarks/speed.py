"""Exact measures against the peers, and against a bare sort."""

import functools
import gc
from collections.abc import Mapping

import jax.numpy as jnp

import jaxrank as jr

from . import peers
from .report import (
  NONE,
  Row,
  Section,
  Target,
  at_least,
  at_most,
  megabytes,
  milliseconds,
  ratio_row,
)
from .timing import Contender, Result, check_same, jitted, planned_bytes, race

_WORKLOADS = {
  "nDCG": "nDCG, whole list",
  "nDCG@10": "nDCG@10",
  "RR": "reciprocal rank",
  "AP": "average precision",
  "twenty": "twenty measures in one call",
}

# (workload, our tie mode, peer, side) and what is promised; peers without a promise are shown too.
_MATCHES: tuple[tuple[str, str, str, str, Target | None], ...] = (
  ("nDCG", "averaged", "rax", "rax", at_least(15)),
  ("nDCG", "averaged", "ranx", "ranx, sorted before", at_least(8)),
  ("nDCG", "averaged", "ranx", "ranx", None),
  ("nDCG", "stable", "scikit-learn", "scikit-learn, ignore_ties", at_least(5)),
  ("nDCG", "averaged", "scikit-learn", "scikit-learn", at_least(7)),
  ("nDCG", "averaged", "torchmetrics", "torchmetrics, class", at_least(40)),
  ("nDCG", "averaged", "torchmetrics", "torchmetrics, loop", None),
  ("nDCG", "averaged", "pytrec_eval", "pytrec_eval", None),
  ("nDCG@10", "averaged", "rax", "rax", at_least(80)),
  ("nDCG@10", "averaged", "ranx", "ranx, sorted before", at_least(14)),
  ("nDCG@10", "averaged", "ranx", "ranx", None),
  ("nDCG@10", "averaged", "scikit-learn", "scikit-learn", None),
  ("nDCG@10", "averaged", "torchmetrics", "torchmetrics, class", None),
  ("nDCG@10", "averaged", "pytrec_eval", "pytrec_eval", None),
  ("RR", "averaged", "rax", "rax", at_least(100)),
  ("RR", "averaged", "ranx", "ranx, sorted before", None),
  ("RR", "averaged", "torchmetrics", "torchmetrics, class", None),
  ("RR", "averaged", "pytrec_eval", "pytrec_eval", None),
  ("AP", "averaged", "rax", "rax", at_least(100)),
  ("AP", "averaged", "ranx", "ranx, sorted before", None),
  ("AP", "averaged", "torchmetrics", "torchmetrics, class", None),
  ("AP", "averaged", "pytrec_eval", "pytrec_eval", None),
  ("twenty", "averaged", "ranx", "ranx", None),
  ("twenty", "averaged", "pytrec_eval", "pytrec_eval", None),
)


def against_peers() -> Section:
  """Whole-list and cut-off measures on `[1000, 1000]` float32 scores."""
  data = peers.make_data()
  contenders = peers.jaxrank_contenders(data)
  missing = {}
  for name, make in peers.PEERS.items():
    try:
      contenders |= make(data)
    except ImportError:
      missing[name] = "not installed"
    except Exception as error:  # A peer that breaks on this machine must not end the run.
      missing[name] = f"fails: {type(error).__name__}: {error}"
  # Or the collector walks millions of the peers' dictionary entries in the middle of a call.
  gc.freeze()
  results = {}
  for workload in _WORKLOADS:
    results |= {
      (workload, side): result
      for side, result in race({s: c for (w, s), c in contenders.items() if w == workload}).items()
    }
  rows = [_match(results, missing, *match) for match in _MATCHES]
  return Section("Against other libraries", _NOTES, [*rows, *_within(results), _long_lists()])


def _match(
  results: Mapping[tuple[str, str], Result],
  missing: Mapping[str, str],
  workload: str,
  mode: str,
  peer: str,
  side: str,
  target: Target | None,
) -> Row:
  ours, what = results[workload, mode], f"{_WORKLOADS[workload]}, ties {mode}"
  theirs = results.get((workload, side))
  if theirs is None or theirs.failure:
    reason = theirs.failure if theirs else missing[peer]
    return Row(what, milliseconds(ours.seconds), side, reason, target=target)
  check_same(what, side, ours.mean, theirs.mean)
  ratio = theirs.seconds / ours.seconds
  return ratio_row(
    what, milliseconds(ours.seconds), side, milliseconds(theirs.seconds), ratio, target
  )


def _within(results: Mapping[tuple[str, str], Result]) -> list[Row]:
  def row(
    ours: tuple[str, str], theirs: tuple[str, str], against: str, target: Target | None
  ) -> Row:
    a, b = results[ours].seconds, results[theirs].seconds
    what = f"{_WORKLOADS[ours[0]]}, ties {ours[1]}"
    return ratio_row(what, milliseconds(a), against, milliseconds(b), a / b, target)

  sort = ("nDCG", "numpy.sort")
  return [
    row(("nDCG", "averaged"), sort, "numpy.sort (ours / theirs)", at_most(5)),
    row(("nDCG", "stable"), sort, "numpy.sort (ours / theirs)", None),
  ]


def _long_lists() -> Row:
  data = peers.make_data(100, 10_000)
  arrays = jnp.asarray(data.scores), jnp.asarray(data.labels, jnp.float32)
  seconds = race({"": Contender(jitted(jr.average_precision, *arrays), rounds=5)})[""].seconds
  ours = planned_bytes(jr.average_precision, *arrays)
  takes, ratio = "not installed", NONE
  try:
    import rax

    theirs = planned_bytes(functools.partial(rax.ap_metric, reduce_fn=None), *arrays)
    takes, ratio = f"{megabytes(theirs)} planned", f"{theirs / ours:.3g}"
  except ImportError:
    pass
  return Row(
    "average precision, [100, 10000], ties averaged",
    f"{milliseconds(seconds)}, {megabytes(ours)}",
    "rax (temporary memory, not run)",
    takes,
    judged=seconds,
    ratio=ratio,
    target=Target("works"),
  )


_NOTES = """Scores are `[1000, 1000]`, float32 and lognormal, labels are 0 to 4 with a tenth of the
items relevant, and the gain is linear in every library. The ratio is the time of the other side
over that of jaxrank; it is the inverse in rows marked "ours / theirs", "ours / this" or similar.

* "ties averaged" is the default of jaxrank. rax and trec_eval put tied items in a fixed order, and
  ranx in any order, which is less work. scikit-learn and torchmetrics average over ties in nDCG.
* ranx sorts a `Run` when it is built, so the time of "ranx, sorted before" includes no sorting;
  "ranx" sorts it again inside the call, as all other libraries do. The loops of ranx over its typed
  dictionaries, and of pytrec_eval over Python dictionaries, are timed because they are part of
  every call of their users.
* torchmetrics is timed in two ways: as a class with `indexes`, one `update` and one `compute`,
  which is how its users evaluate many queries; and as a loop over the function, one query per call.
* The "twenty measures" are those of the next table. ranx has 18 of them and pytrec_eval 14, and
  each is timed on those.
* rax runs AP only twice. For the long lists, its row has the memory that the compiled program
  plans.
"""
