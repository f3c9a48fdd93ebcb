"""Agreement with the libraries of the `peers` extra: trec_eval, ndeval, rax, ranx and others.

A peer that is not installed has nothing to be compared with, so its cases do not exist rather than
pass or skip one by one. The one skip below says so where no peer is installed at all; the values of
trec_eval are then still tested, through `test_goldens.py`.
"""

import functools
import importlib.util
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from tests.helpers import golden
from tests.helpers.peer_queries import Queries, draw
from tests.helpers.suites import thorough

Values = dict[str, Any]

pytestmark = thorough


INSTALLED = [
  name
  for name in ("pytrec_eval", "ir_measures", "pyndeval", "rax", "ranx", "torchmetrics")
  if importlib.util.find_spec(name) is not None
]
if not INSTALLED:
  pytest.skip("no peer is installed (extra: peers)", allow_module_level=True)

TREC = [
  "map", "recip_rank", "ndcg", "Rprec", "bpref",
  *(f"{name}_{k}" for name in ("P", "recall", "success", "ndcg_cut", "map_cut")
    for k in (1, 5, 10, 100)),
]  # fmt: skip
# nDCG takes no level.
TREC_LEVEL_2 = ["map", "recip_rank", "Rprec", "bpref", "P_5", "recall_5", "success_5",
                "ndcg_cut_5"]  # fmt: skip
LEVEL_2 = ["AP(rel=2)", "RR(rel=2)", "Rprec(rel=2)", "Bpref(rel=2)", "P(rel=2)@5", "R(rel=2)@5",
           "Success(rel=2)@5", "nDCG@5"]  # fmt: skip
JUDGED = ["Judged@1", "Judged@5", "Judged@100"]
# Of the cut-offs that ndeval itself prints, and others; see `test_ndeval_does_not_divide_at_1`.
NDEVAL = [
  "NRBP",
  "nNRBP",
  "MAP-IA",
  *(f"{name}@{k}" for name in ("ERR-IA", "nERR-IA", "alpha-DCG", "alpha-nDCG", "P-IA", "strec")
    for k in (2, 5, 10, 20)),
]  # fmt: skip
NDEVAL_NOVEL = ["nNRBP", "NRBP", "alpha-DCG@10", "alpha-nDCG@10"]
NDEVAL_OPTIONS = [
  "nNRBP(alpha=0.2,beta=0.7)",
  "NRBP(alpha=0.2,beta=0.7)",
  "alpha_DCG(alpha=0.2)@10",
  "alpha_nDCG(alpha=0.2)@10",
]
RANX = [
  "f1", "map", "mrr", "r-precision", "ndcg", "ndcg_burges",
  *(f"{name}@{k}" for k in (5, 100)
    for name in ("precision", "recall", "f1", "hit_rate", "map", "mrr", "ndcg", "ndcg_burges")),
  *(f"{name}-l2" for name in ("map", "mrr", "precision@5", "recall@5", "r-precision")),
]  # fmt: skip
RAX = {
  "ndcg": functools.partial(jr.ndcg, gain=jr.gains.exponential),
  "dcg": functools.partial(jr.dcg, gain=jr.gains.exponential),
  "mrr": jr.reciprocal_rank,
  "ap": jr.average_precision,
  "recall": jr.recall,
  # Rax divides by the items in the top k, of which a short list has fewer than k.
  "precision": functools.partial(jr.precision, divisor="retrieved"),
}
TORCHMETRICS: dict[str, Callable[..., jax.Array]] = {
  "normalized_dcg": functools.partial(jr.ndcg, gain=jr.gains.linear),
  "reciprocal_rank": jr.reciprocal_rank,
  # The mean over the relevant items found, although its documentation has no such divisor.
  "average_precision": functools.partial(jr.average_precision, normalizer="retrieved"),
  "precision": jr.precision,
  "recall": jr.recall,
  "hit_rate": jr.hit_rate,
  "fall_out": jr.fall_out,
}
CUTOFFS = (None, 5, 40)


class Peer(NamedTuple):
  """Values of the two sides by name; the names are known without computing anything."""

  names: list[str]
  ours: Callable[[], Values]
  theirs: Callable[[], Values]


def _named(
  names: list[str],
  queries: Queries,
  measures: list[str] | None = None,
  dialect: Any = None,
) -> Values:
  """Our values of the measures, which are parsed from the peer's own names unless given."""
  parsed = jr.parse(" ".join(measures or names), dialect)
  evaluate = jax.jit(functools.partial(jr.evaluate, parsed))
  values = evaluate(queries.scores, queries.labels, where=queries.where)
  # By name, because jit returns dictionaries with their keys sorted.
  return {name: values[str(measure)] for name, measure in zip(names, parsed, strict=True)}


def _cut(metrics: dict[str, Callable[..., jax.Array]], queries: Queries, **options: Any) -> Values:
  return {
    _label(name, k): queries.measure(metric, k=k, **options)
    for name, metric in metrics.items()
    for k in CUTOFFS
  }


def _label(name: str, k: int | None) -> str:
  return name if k is None else f"{name}, k={k}"


def _labels(names: Any) -> list[str]:
  return [_label(name, k) for name in names for k in CUTOFFS]


def _trec(queries: Queries) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
  """Judgements and run: no judgement for label -1, not in the run for score -inf."""
  qrels, run = {}, {}
  for query, (scores, labels) in enumerate(queries.lists()):
    # ranx gives queries back in the order of their names.
    name = f"q{query:06}"
    qrels[name] = {f"d{i}": int(label) for i, label in enumerate(labels) if label >= 0}
    run[name] = {f"d{i}": float(score) for i, score in enumerate(scores) if score > -np.inf}
  return qrels, run


def _trec_eval(names: list[str], queries: Queries, level: int = 1) -> Values:
  import pytrec_eval

  qrels, run = _trec(queries)
  found = pytrec_eval.RelevanceEvaluator(qrels, set(names), relevance_level=level).evaluate(run)
  return {name: [found[query][name] for query in qrels] for name in names}


def _judged(queries: Queries) -> Values:
  import ir_measures

  qrels, run = _trec(queries)
  measures = [ir_measures.parse_measure(name) for name in JUDGED]
  found = ir_measures.providers.registry["judged"].evaluator(measures, qrels).iter_calc(run)
  values = {(str(x.measure), x.query_id): x.value for x in found}
  return {name: [values[name, query] for query in qrels] for name in JUDGED}


def _ndeval(names: list[str], queries: Queries, **options: float) -> Values:
  """With documents named against the order of the input: of equals the ideal takes the last."""
  import pyndeval

  qrels, run = [], []
  for query, (scores, labels) in enumerate(queries.lists()):
    for i, (score, judged) in enumerate(zip(scores, labels, strict=True)):
      document = f"d{999 - i}"
      qrels += [
        (str(query), str(s), document, int(label)) for s, label in enumerate(judged) if label >= 0
      ]
      run += [(str(query), document, float(score))] if score > -np.inf else []
  found = pyndeval.ndeval(qrels, run, names, **options)
  # nNRBP is 0 / 0 for a query with nothing relevant.
  rows = [found[str(query)] for query in range(len(found))]
  return {name: np.nan_to_num([row[name] for row in rows]) for name in names}


def _as_ir_measures(name: str) -> str:
  """The name of a measure of ndeval in ir_measures."""
  return name.replace("MAP-IA", "AP_IA").replace("strec", "StRecall").replace("-", "_")


def _golden_queries(query: golden.Golden) -> Queries:
  rows = np.array([query.scores], np.float32), np.array([query.labels], np.float32)
  return Queries(*rows, np.ones_like(rows[0], bool))


def _goldens() -> Peer:
  values = {
    f"{query.name}, {value.measure}": (query, value)
    for query in golden.read_all()
    for value in query.values
    if value.trec != "-"
  }
  return Peer(
    list(values),
    lambda: {name: value.number for name, (_, value) in values.items()},
    lambda: {
      name: _trec_eval([value.trec], _golden_queries(query), value.level)[value.trec][0]
      for name, (query, value) in values.items()
    },
  )


def _rax(queries: Queries) -> Values:
  import rax

  arrays = [jnp.asarray(field) for field in queries]
  values = {}
  # It relies on promotions that our tests forbid.
  with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
    for name in RAX:
      for k in CUTOFFS:
        metric = functools.partial(getattr(rax, f"{name}_metric"), topn=k, reduce_fn=None)
        values[_label(name, k)] = jax.jit(lambda s, y, w, f=metric: f(s, y, where=w))(*arrays)
  return values


def _ranx(queries: Queries) -> Values:
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # It warns of its own integer casts while it compiles.
    import ranx

    qrels, run = _trec(queries)
    return ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), RANX, return_mean=False)


def _torchmetrics(queries: Queries) -> Values:
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Deprecations inside torch at import.
    import torch
    import torchmetrics.functional.retrieval as functional

  values: Values = {_label(name, k): [] for name in TORCHMETRICS for k in CUTOFFS}
  for scores, labels in queries.lists():
    # It does not retrieve items whose score is not positive.
    preds, graded = torch.from_numpy(np.exp(scores)), torch.from_numpy(labels)
    for name in TORCHMETRICS:
      target = graded if name == "normalized_dcg" else (graded > 0).int()
      for k in CUTOFFS:
        metric = getattr(functional, f"retrieval_{name}")
        values[_label(name, k)].append(float(metric(preds, target, top_k=k)))
  return values


HOLES = draw(11, queries=3000, longest=40, unjudged=0.2, missed=0.1)
MISSED = draw(12, missed=0.1)
FULL = draw(13)
TIED = draw(14, levels=6)
STABLE = jr.Exact(ties="stable")
DIVERSE = draw(15, queries=500, missed=0.1, unjudged=0.1, subtopics=4)

PEERS: dict[str, dict[str, Peer]] = {
  "pytrec_eval": {
    "trec_eval": Peer(TREC, lambda: _named(TREC, HOLES), lambda: _trec_eval(TREC, HOLES)),
    "trec_eval, level 2": Peer(
      TREC_LEVEL_2,
      lambda: _named(TREC_LEVEL_2, HOLES, LEVEL_2),
      lambda: _trec_eval(TREC_LEVEL_2, HOLES, level=2),
    ),
    "trec_eval, goldens": _goldens(),
  },
  "ir_measures": {
    "ir_measures": Peer(JUDGED, lambda: _named(JUDGED, HOLES), lambda: _judged(HOLES)),
  },
  "pyndeval": {
    "ndeval": Peer(NDEVAL, lambda: _named(NDEVAL, DIVERSE), lambda: _ndeval(NDEVAL, DIVERSE)),
    "ndeval, as ir_measures writes it": Peer(
      NDEVAL,
      lambda: _named(NDEVAL, DIVERSE, [_as_ir_measures(name) for name in NDEVAL]),
      lambda: _ndeval(NDEVAL, DIVERSE),
    ),
    "ndeval, alpha and beta": Peer(
      NDEVAL_NOVEL,
      lambda: _named(NDEVAL_NOVEL, DIVERSE, NDEVAL_OPTIONS),
      lambda: _ndeval(NDEVAL_NOVEL, DIVERSE, alpha=0.2, beta=0.7),
    ),
  },
  "rax": {
    "rax": Peer(_labels(RAX), lambda: _cut(RAX, MISSED), lambda: _rax(MISSED)),
    "rax, ties": Peer(_labels(RAX), lambda: _cut(RAX, TIED, ranking=STABLE), lambda: _rax(TIED)),
  },
  "ranx": {"ranx": Peer(RANX, lambda: _named(RANX, HOLES, dialect="ranx"), lambda: _ranx(HOLES))},
  "torchmetrics": {
    "torchmetrics": Peer(
      _labels(TORCHMETRICS), lambda: _cut(TORCHMETRICS, FULL), lambda: _torchmetrics(FULL)
    ),
  },
}
COMPARED = {name: peer for key in INSTALLED for name, peer in PEERS[key].items()}


@functools.cache
def both_sides(peer: str) -> tuple[Values, Values]:
  """All values of a peer and ours, computed once."""
  return COMPARED[peer].ours(), COMPARED[peer].theirs()


@pytest.mark.parametrize(
  ("peer", "name"), [(peer, name) for peer, sides in COMPARED.items() for name in sides.names]
)
def test_agrees_query_by_query(peer: str, name: str):
  """To 1e-5, which is what float32 sums and trec_eval's own arithmetic leave."""
  ours, theirs = both_sides(peer)
  np.testing.assert_allclose(np.asarray(ours[name]), np.asarray(theirs[name]), atol=1e-5, rtol=0)


def test_files_of_judgements_by_subtopic():
  """Of few subtopics, so that many documents gain equally in the greedy ideal."""
  pyndeval = pytest.importorskip("pyndeval")
  rng = np.random.default_rng(16)
  rows, run = [], {}
  for query in map(str, range(400)):
    ids = [f"d{i}" for i in rng.choice(200, rng.integers(3, 40), replace=False)]
    subtopics = rng.integers(1, 8)
    labels = rng.integers(1, 3, (len(ids), subtopics))
    labels[rng.random(labels.shape) > rng.choice([0.1, 0.3, 0.6])] = 0
    labels[0, 0] = 1
    rows += [(query, str(s), ids[i], int(label)) for (i, s), label in np.ndenumerate(labels)]
    retrieved = rng.permutation(ids)[: rng.integers(1, len(ids) + 1)].tolist()
    run[query] = {document: float(rng.integers(4)) for document in retrieved}
  names = [name for name in NDEVAL if "@2" not in name.replace("@20", "")]
  found = pyndeval.ndeval(
    [pyndeval.SubtopicQrel(*row) for row in rows],
    [pyndeval.ScoredDoc(q, d, score) for q, scores in run.items() for d, score in scores.items()],
    names,
  )
  ours = jr.trec.evaluate(names, rows, run)
  for name in names:
    theirs = [found[query][name] for query in ours.queries]
    np.testing.assert_allclose(ours.values[name], theirs, rtol=1e-9, atol=1e-12, err_msg=name)


def test_ndeval_does_not_divide_at_1():
  """It prints the cut-offs 5, 10 and 20 alone; pyndeval shows the number of subtopics at 1."""
  pytest.importorskip("pyndeval")
  names = ["ERR-IA@1", "alpha-DCG@1"]
  ours, theirs = _named(names, DIVERSE), _ndeval(names, DIVERSE)
  covered = np.sum(np.any((DIVERSE.labels > 0) & DIVERSE.where[..., None], axis=1), axis=1)
  for name in names:
    np.testing.assert_allclose(np.asarray(ours[name]) * covered, theirs[name], atol=1e-5)
