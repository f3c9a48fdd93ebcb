"""What every library is asked to do, on the same arrays.

Each function returns contenders by workload and side. Importing a peer happens inside, so that one
that is not installed costs its rows only. Inputs are converted here, outside all timing.
"""

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import jaxrank as jr

from .timing import Contender, jitted

Contenders = dict[tuple[str, str], Contender]

# Seven look at the whole list, thirteen at its head. The names are those of ir_measures.
TWENTY = (
  "nDCG nDCG(dcg='exp-log2') AP RR Rprec ERR RBP(p=0.8) "
  "nDCG@5 nDCG@10 nDCG@100 nDCG(dcg='exp-log2')@10 AP@10 AP@100 RR@10 P@5 P@10 P@100 "
  "R@10 R@100 ERR@20"
)
# Those of the twenty that the peer has.
TREC_EVAL_HAS = {
  "ndcg", "map", "recip_rank", "Rprec", "recall.10,100", "P.5,10,100", "map_cut.10,100",
  "ndcg_cut.5,10,100",
}  # fmt: skip
RANX_HAS = [
  "ndcg", "ndcg_burges", "map", "mrr", "r-precision", "rbp.80", "ndcg@5", "ndcg@10", "ndcg@100",
  "ndcg_burges@10", "map@10", "map@100", "mrr@10", "precision@5", "precision@10", "precision@100",
  "recall@10", "recall@100",
]  # fmt: skip


class Data(NamedTuple):
  """Scores without a sign, because torchmetrics does not retrieve scores of 0 or less."""

  scores: np.ndarray
  labels: np.ndarray


def make_data(queries: int = 1000, candidates: int = 1000) -> Data:
  """Lognormal float32 scores, and labels 0 to 4 of which a tenth are above 0."""
  generator = np.random.default_rng(2024)
  shape = (queries, candidates)
  labels = generator.choice(5, size=shape, p=[0.9, 0.05, 0.03, 0.015, 0.005])
  return Data(np.exp(generator.standard_normal(shape)).astype(np.float32), labels)


def jaxrank_contenders(data: Data) -> Contenders:
  """Our side, under the tie modes that the peers have."""
  scores, labels = jnp.asarray(data.scores), jnp.asarray(data.labels, jnp.float32)
  stable = jr.Exact(ties="stable")
  linear = functools.partial(jr.ndcg, gain=jr.gains.linear)
  calls: dict[tuple[str, str], Callable[..., Any]] = {
    ("nDCG", "averaged"): linear,
    ("nDCG", "stable"): functools.partial(linear, ranking=stable),
    ("nDCG@10", "averaged"): functools.partial(linear, k=10),
    ("RR", "averaged"): jr.reciprocal_rank,
    ("AP", "averaged"): jr.average_precision,
    ("AP", "stable"): functools.partial(jr.average_precision, ranking=stable),
    ("twenty", "averaged"): functools.partial(jr.evaluate, jr.parse(TWENTY)),
  }
  found = {key: Contender(jitted(call, scores, labels)) for key, call in calls.items()}
  found["twenty", "averaged"] = found["twenty", "averaged"].entry("nDCG")
  return found


def rax_contenders(data: Data) -> Contenders:
  """Rax ranks stably. Its AP takes seconds, so it runs twice and is not warmed up."""
  import rax

  scores, labels = jnp.asarray(data.scores), jnp.asarray(data.labels, jnp.float32)
  ndcg = functools.partial(rax.ndcg_metric, gain_fn=lambda label: label, reduce_fn=None)
  calls = {
    "nDCG": ndcg,
    "nDCG@10": functools.partial(ndcg, topn=10),
    "RR": functools.partial(rax.mrr_metric, reduce_fn=None),
    "AP": functools.partial(rax.ap_metric, reduce_fn=None),
  }
  return {
    (workload, "rax"): Contender(jitted(call, scores, labels), rounds=2 if workload == "AP" else 5,
                                 warm_ups=int(workload != "AP"))
    for workload, call in calls.items()
  }  # fmt: skip


def torchmetrics_contenders(data: Data) -> Contenders:
  """The classes, which take one flat array and query ids, and for nDCG a loop of the functional."""
  import torch
  import torchmetrics.functional.retrieval as functional
  import torchmetrics.retrieval as retrieval

  scores, labels = torch.from_numpy(data.scores), torch.from_numpy(data.labels)
  flat, ids = scores.flatten(), torch.arange(len(scores)).repeat_interleave(scores.shape[1])

  def classes(metric: Any, target: Any) -> Contender:
    def call() -> float:
      metric.reset()
      metric.update(flat, target, indexes=ids)
      return float(metric.compute())

    return Contender(call, rounds=5)

  def loop() -> float:
    rows = zip(scores, labels, strict=True)
    return float(torch.stack([functional.retrieval_normalized_dcg(*row) for row in rows]).mean())

  graded, relevant = labels.flatten(), (labels > 0).flatten()
  return {
    ("nDCG", "torchmetrics, class"): classes(retrieval.RetrievalNormalizedDCG(), graded),
    ("nDCG", "torchmetrics, loop"): Contender(loop, rounds=5),
    ("nDCG@10", "torchmetrics, class"): classes(retrieval.RetrievalNormalizedDCG(top_k=10), graded),
    ("RR", "torchmetrics, class"): classes(retrieval.RetrievalMRR(), relevant),
    ("AP", "torchmetrics, class"): classes(retrieval.RetrievalMAP(), relevant),
  }


def ranx_contenders(data: Data) -> Contenders:
  """Ranx sorts a run when it is built; marking it unsorted lets `evaluate` rank, as others do."""
  import ranx

  # It warns of its own integer casts while it compiles.
  warnings.filterwarnings("ignore", module="ranx")
  qrels, run = ranx.Qrels(_trec(data.labels, int)), ranx.Run(_trec(data.scores, float))

  def contender(names: str | list[str], in_order: bool, rounds: int = 5) -> Contender:
    def call() -> Any:
      run.sorted = in_order
      return ranx.evaluate(qrels, run, names, save_results_in_run=False)

    return Contender(call, rounds)

  names = {"nDCG": "ndcg", "nDCG@10": "ndcg@10", "RR": "mrr", "AP": "map"}
  found = {(key, "ranx, sorted before"): contender(name, True) for key, name in names.items()}
  found |= {(key, "ranx"): contender(name, False) for key, name in names.items()}
  twenty = contender(RANX_HAS, False, rounds=2)
  return {**found, ("twenty", "ranx"): twenty.entry("ndcg")}


def pytrec_eval_contenders(data: Data) -> Contenders:
  """The C code of trec_eval; the walk through the run's dictionaries is part of every call."""
  import pytrec_eval

  qrels, run = _trec(data.labels, int), _trec(data.scores, float)

  def contender(names: set[str], value: str) -> Contender:
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, names)
    return Contender(lambda: [q[value] for q in evaluator.evaluate(run).values()], rounds=5)

  return {
    ("nDCG", "pytrec_eval"): contender({"ndcg"}, "ndcg"),
    ("nDCG@10", "pytrec_eval"): contender({"ndcg_cut.10"}, "ndcg_cut_10"),
    ("RR", "pytrec_eval"): contender({"recip_rank"}, "recip_rank"),
    ("AP", "pytrec_eval"): contender({"map"}, "map"),
    ("twenty", "pytrec_eval"): contender(TREC_EVAL_HAS, "ndcg"),
  }


def sklearn_contenders(data: Data) -> Contenders:
  """Scikit-learn has nDCG with ties averaged, and with ties in any order."""
  from sklearn.metrics import ndcg_score

  def contender(**options: Any) -> Contender:
    return Contender(lambda: ndcg_score(data.labels, data.scores, **options), rounds=5)

  return {
    ("nDCG", "scikit-learn, ignore_ties"): contender(ignore_ties=True),
    ("nDCG", "scikit-learn"): contender(),
    ("nDCG@10", "scikit-learn"): contender(k=10),
  }


def numpy_contenders(data: Data) -> Contenders:
  """A bare sort, the mark to approach."""
  return {("nDCG", "numpy.sort"): Contender(lambda: np.sort(data.scores, axis=-1))}


PEERS: dict[str, Callable[[Data], Contenders]] = {
  "numpy": numpy_contenders,
  "rax": rax_contenders,
  "scikit-learn": sklearn_contenders,
  "ranx": ranx_contenders,
  "torchmetrics": torchmetrics_contenders,
  "pytrec_eval": pytrec_eval_contenders,
}


def _trec(rows: np.ndarray, number: Callable[[Any], Any]) -> dict[str, dict[str, Any]]:
  names = [f"d{i}" for i in range(rows.shape[1])]
  return {
    f"q{i}": dict(zip(names, map(number, row), strict=True)) for i, row in enumerate(rows.tolist())
  }
