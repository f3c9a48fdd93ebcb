"""Wrong values at every public door: an error that names the function and says what came.

Each door takes one value; the table crosses doors of arrays, and of options, with wrong values. The
error comes from the library, before JAX has seen the value.
"""

import datetime
import decimal
import re
import traceback

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import scipy.sparse

import jaxrank as jr
from jaxrank import (
  agreement,
  chance,
  class_labels,
  corpus,
  exposure,
  losses,
  plackett_luce,
  plot,
  ranks,
  soft,
  stats,
)

KEY = jax.random.key(0)
S, L = jnp.array([[0.3, 0.2, 0.1]]), jnp.array([[0, 1, 0]])
QUERIES, ITEMS, POSITIVES = jnp.ones((2, 3)), jnp.ones((5, 3)), jnp.array([[0], [1]])
RANKS = ranks.TargetRanks([1, 2], [1, 5], [9, 9])
EVALUATOR = jr.Evaluator("RR", groups=2)
STATE = EVALUATOR.init()
GROUPS = jnp.array([0])
TWO = {"a": [0.1, 0.2, 0.3], "b": [0.3, 0.2, 0.3]}
BATCH = jr.pad([0, 0, 1], [0.1, 0.2, 0.3], [1, 0, 1])


class Frame:
  columns, shape = ["score"], (1, 3)


class Tensor:
  """What torch does with a tensor that NumPy cannot read."""

  shape, ndim = (1, 3), 2

  def __init__(self, dtype="torch.float32", requires_grad=False, layout="torch.strided", **known):
    self.dtype, self.requires_grad, self.layout = dtype, requires_grad, layout
    vars(self).update(known)

  def __array__(self, dtype=None, copy=None):
    raise RuntimeError("Can't call numpy() on Tensor")


# Wrong wherever numbers belong.
NO_ARRAYS = {
  "text": "text",
  "bytes": b"text",
  "an object": object(),
  "a dict": {"d": 1.0},
  "a generator": (x for x in [1.0]),
  "a set": {1, 2},
  "a class": jr.Laplace,
  "a function": max,
  "a measure": jr.Measure(jr.ndcg),
  "a ranking": jr.Exact(),
  "a date": datetime.date(2020, 1, 1),
  "a decimal": decimal.Decimal("0.5"),
  "objects": np.array([[1, None, "a"]], object),
  "strings": [["a", "b", "c"]],
  "an array of strings": np.array([["a", "b", "c"]]),
  "dates": np.zeros((1, 3), "M8[s]"),
  "complex numbers": np.ones((1, 3), complex),
  "records": np.zeros((1, 3), [("a", int)]),
  "None in a list": [[1.0, None, 2.0]],
  "ragged rows": [[1.0, 2.0], [3.0]],
  "a frame": Frame(),
  "a sparse matrix": scipy.sparse.csr_matrix(np.eye(1, 3)),
  "bfloat16": Tensor("torch.bfloat16"),
  "a tensor with a gradient": Tensor(requires_grad=True),
  "a sparse tensor": Tensor(layout="torch.sparse_coo"),
  "a meta tensor": Tensor(is_meta=True),
  "a nested tensor": Tensor(is_nested=True),
  "rows of bfloat16": [Tensor("torch.bfloat16")],
  "rows with a gradient": [[0.1, 0.2, 0.3], Tensor(requires_grad=True)],
  "masked rows": [np.ma.masked_array([0.1, 0.2, 0.3], [True, False, False])],
  "a column of lists": pa.chunked_array([[[0.1, 0.2, 0.3]]]),
  "a column of arrays": np.array([np.ones(3), None], object)[:1],
  "a column of ragged lists": np.array([[0.1, 0.2], [0.3]], object),
  "a masked array": np.ma.masked_array(np.ones((1, 3)), [[True, False, False]]),
  "a key": KEY,
}
ARRAYS = {
  "ndcg": [lambda x: jr.ndcg(x, L), lambda x: jr.ndcg(S, x)],
  "alpha_ndcg": [lambda x: jr.alpha_ndcg(S, x), lambda x: jr.alpha_ndcg(x, L[..., None])],
  "ndcg(k=3)": [lambda x: jr.Measure(jr.ndcg, k=3)(S, x)],
  "evaluate": [lambda x: jr.evaluate("RR", x, L), lambda x: jr.evaluate("RR", S, x)],
  "Evaluator.update": [
    lambda x: EVALUATOR.update(STATE, x, L, groups=GROUPS),
    lambda x: EVALUATOR.update(STATE, S, x, groups=GROUPS),
    lambda x: EVALUATOR.update(STATE, S, L, groups=x),
  ],
  "Evaluator.add": [
    lambda x: EVALUATOR.add(STATE, {"RR": x}, groups=GROUPS),
    lambda x: EVALUATOR.add(STATE, {"RR": [0.5]}, groups=x),
  ],
  "softmax": [lambda x: losses.softmax(x, L)],
  "approx_ndcg": [lambda x: losses.approx_ndcg(S, x)],
  "lambda_rank": [lambda x: losses.lambda_rank(x, L), lambda x: losses.lambda_rank(S, x)],
  "kl": [lambda x: losses.kl(S, teacher=x)],
  "margin_mse": [lambda x: losses.margin_mse(S, L, teacher=x)],
  "soft.rank": [lambda x: soft.rank(x)],
  "soft.quantile": [lambda x: soft.quantile(x, 0.5)],
  "soft.top_k": [lambda x: soft.top_k(x, 2)],
  "stats.paired_t": [lambda x: stats.paired_t(x, S), lambda x: stats.paired_t(S, x)],
  "stats.tukey_hsd": [lambda x: stats.tukey_hsd(x, key=KEY)],
  "stats.holm": [lambda x: stats.holm(x)],
  "stats.compare": [lambda x: stats.compare({"a": x, "b": S[0]}, key=KEY)],
  "stats.confidence_sequence": [lambda x: stats.confidence_sequence(x)],
  "stats.prediction_powered": [
    lambda x: stats.prediction_powered(x, S, S),
    lambda x: stats.prediction_powered(S, x, S),
    lambda x: stats.prediction_powered(S, S, x),
  ],
  "stats.rank_intervals": [lambda x: stats.rank_intervals(x, key=KEY)],
  "corpus.evaluate": [
    lambda x: corpus.evaluate("RR", x, ITEMS, POSITIVES),
    lambda x: corpus.evaluate("RR", QUERIES, x, POSITIVES),
    lambda x: corpus.evaluate("RR", QUERIES, ITEMS, x),
  ],
  "corpus.target_ranks": [
    lambda x: corpus.target_ranks(QUERIES, ITEMS, x),
    lambda x: corpus.target_ranks(x, ITEMS, jnp.array([0, 1])),
  ],
  "corpus.top_items": [lambda x: corpus.top_items(x, ITEMS, 2)],
  "corpus.unsampled_rank": [lambda x: corpus.unsampled_rank(x, 4, 20)],
  "ranks.from_scores": [lambda x: ranks.from_scores(x, [0]), lambda x: ranks.from_scores(S, x)],
  "ranks.TargetRanks": [lambda x: ranks.TargetRanks(x, x, x)],
  "ranks.evaluate": [lambda x: ranks.evaluate("mrr", x)],
  "ranks.macro_weights": [lambda x: ranks.macro_weights(x)],
  "hits_at_10": [lambda x: ranks.hits_at_k(x)],
  "hits_at_10.std": [lambda x: ranks.hits_at_k.std(x)],
  "check_values": [lambda x: jr.check_values(x, L)],
  "aggregate": [lambda x: jr.aggregate(x)],
  "has_relevant": [lambda x: jr.has_relevant(x)],
  "agreement.tau_ap": [lambda x: agreement.tau_ap(x, S), lambda x: agreement.tau_ap(S, x)],
  "class_labels.mean": [lambda x: class_labels.mean(jr.ndcg, None, x, [0, 1])],
  "chance.expected": [lambda x: chance.expected("P@2", x)],
  "target": [lambda x: exposure.target(x)],
  "by_group": [lambda x: exposure.by_group(S, x, n_groups=2)],
  "plackett_luce.sample": [lambda x: plackett_luce.sample(KEY, x)],
  "plackett_luce.log_prob": [
    lambda x: plackett_luce.log_prob(S, x),
    lambda x: plackett_luce.log_prob(x, [[0]]),
  ],
  "plot.values": [lambda x: plot.values(x, name="nDCG")],
  "ensemble": [lambda x: jr.ensemble(x)],
  "letor.min_max": [lambda x: jr.letor.min_max(x)],
  "letor.ranks": [lambda x: jr.letor.ranks(x), lambda x: jr.letor.ranks(x, [0])],
  "letor.z_scores": [lambda x: jr.letor.z_scores(x)],
  "pad": [lambda x: jr.pad([0, 0, 1], x, [1, 0, 1])],
  "novelty": [lambda x: jr.novelty(S, x)],
  "discounts.table": [lambda x: jr.discounts.table(x)],
  "gains.table": [lambda x: jr.gains.table(x)],
}
# None stands for no mask, no weights, no excluded items.
OPTIONAL = {
  "by_group": [lambda x: exposure.by_group(S, L, n_groups=2, where=x)],
  "ndcg": [lambda x: jr.ndcg(S, L, where=x), lambda x: jr.ndcg(S, L, weights=x)],
  "evaluate": [lambda x: jr.evaluate("RR", S, L, where=x)],
  "Evaluator.update": [
    lambda x: EVALUATOR.update(STATE, S, L, where=x, groups=GROUPS),
    lambda x: EVALUATOR.update(STATE, S, L, groups=GROUPS, query_weights=x),
  ],
  "ensemble": [lambda x: jr.ensemble(S[None], where=x)],
  "letor.ranks": [lambda x: jr.letor.ranks(S[..., None], where=x)],
  "softmax": [lambda x: losses.softmax(S, L, where=x)],
  "soft.rank": [lambda x: soft.rank(S, where=x)],
  "corpus.evaluate": [
    lambda x: corpus.evaluate("RR", QUERIES, ITEMS, POSITIVES, labels=x),
    lambda x: corpus.evaluate("RR", QUERIES, ITEMS, POSITIVES, exclude=x),
  ],
  "ranks.from_scores": [lambda x: ranks.from_scores(S, [0], where=x)],
  "ranks.evaluate": [lambda x: ranks.evaluate("mrr", RANKS, head_query_weights=x)],
  "hits_at_10": [lambda x: ranks.hits_at_k(RANKS, x)],
  "check_values": [lambda x: jr.check_values(S, L, where=x)],
}

NO_OPTIONS = {
  "an object": object(),
  "a dict": {"a": 1},
  "a list": ["average"],
  "an array": np.ones((1, 3)),
  "a sparse matrix": scipy.sparse.csr_matrix(np.eye(1, 3)),
  "a class": jr.Laplace,
  "text": "nonsense",
  "complex": 1j,
  "a frame": Frame(),
  "a key": KEY,
}
OPTIONS = {
  "ndcg": [
    lambda x: jr.ndcg(S, L, k=x),
    lambda x: jr.ndcg(S, L, ranking=x),
    lambda x: jr.ndcg(S, L, gain=[x]),
    lambda x: jr.ndcg(S, L, discount=[x]),
  ],
  "rbp": [lambda x: jr.rbp(S, L, persistence=x)],
  "precision": [lambda x: jr.precision(S, L, divisor=x)],
  "err": [lambda x: jr.err(S, L, max_label=x)],
  "Exact": [lambda x: jr.Exact(x), lambda x: jr.Exact("random", [x])],
  "Gumbel": [lambda x: jr.Gumbel(1.0, x)],
  "Sharded": [lambda x: jr.Sharded([x])],
  "evaluate": [lambda x: jr.evaluate([x], S, L), lambda x: jr.evaluate("RR", S, L, ranking=x)],
  "Evaluator": [
    lambda x: jr.Evaluator("RR", empty=x),
    lambda x: jr.Evaluator("RR", invalid=x),
    lambda x: jr.Evaluator("RR", groups=x),
    lambda x: jr.Evaluator("RR", reservoir=x),
    lambda x: jr.Evaluator("RR", ranking=x),
  ],
  "Evaluator.init": [lambda x: jr.Evaluator("RR").init(axis_name=[x])],
  "Evaluator.merge": [lambda x: EVALUATOR.merge(STATE, x)],
  "Evaluator.compute": [lambda x: EVALUATOR.compute(x)],
  "Evaluator.interval": [lambda x: EVALUATOR.interval(STATE, confidence=x)],
  "Evaluator.group": [lambda x: EVALUATOR.group(STATE, x)],
  "Measure": [lambda x: jr.Measure(x), lambda x: jr.Measure(jr.ndcg, k=x)],
  "parse": [lambda x: jr.parse("RR", x)],
  "aggregate": [lambda x: jr.aggregate(S, how=[x])],
  "ensemble": [lambda x: jr.ensemble(S[None], by=x)],
  "softmax": [lambda x: losses.softmax(S, L, temperature=x)],
  "lambda_ndcg": [lambda x: losses.lambda_ndcg(S, L, scheme=x)],
  "lambda_rank": [lambda x: losses.lambda_rank(S, L, metric=x)],
  "perturbed": [
    lambda x: losses.perturbed([x], KEY),
    lambda x: losses.perturbed(losses.softmax, [x]),
    lambda x: losses.perturbed(losses.softmax, KEY, x),
  ],
  "soft.top_k": [lambda x: soft.top_k(S, x)],
  "metric": [
    lambda x: jr.metric(lambda ranked: 0, higher_is_better=x),
    lambda x: jr.metric(lambda ranked: 0, subtopics=x),
    lambda x: jr.metric(lambda ranked: 0, range=[x]),
    lambda x: jr.metric(lambda ranked: 0, best=x),
    lambda x: jr.metric(lambda ranked: 0, departs=[x]),
    lambda x: jr.metric(lambda ranked: 0, checks=[x]),
  ],
  "hits_at_10.expected": [
    lambda x: ranks.hits_at_k.expected([3], key=[x]),
    lambda x: ranks.hits_at_k.expected([3], samples=x),
  ],
  "Evaluator.per_group": [lambda x: EVALUATOR.per_group(x)],
  "aggregate_curve": [lambda x: jr.aggregate_curve((S[0], S[0], L[0]), how=[x])],
  "measures.trec_families": [lambda x: jr.measures.trec_families([[x]])],
  "resolve_metrics": [lambda x: jr.resolve_metrics([[x]])],
  "letor.concatenate": [lambda x: jr.letor.concatenate(x)],
  "letor.folds": [lambda x: jr.letor.folds([x])],
  "letor.read": [
    lambda x: jr.letor.read([[x]]),
    lambda x: jr.letor.read("x", group=[[x]]),
    lambda x: jr.letor.read("x", docids=x),
    lambda x: jr.letor.read("x", n_features=x),
  ],
  "chance.expected": [lambda x: chance.expected("P@2", L, key=[x])],
  "stats.bootstrap_interval": [
    lambda x: stats.bootstrap_interval([x], S, key=KEY),
    lambda x: stats.bootstrap_interval(jnp.mean, S, key=[x]),
    lambda x: stats.bootstrap_interval(jnp.mean, S, key=KEY, resamples=x),
    lambda x: stats.bootstrap_interval(jnp.mean, S, key=KEY, confidence=x),
    lambda x: stats.bootstrap_interval(jnp.mean, S, key=KEY, method=x),
  ],
  "stats.compare": [
    lambda x: stats.compare([x], key=KEY),
    lambda x: stats.compare(TWO, key=[x]),
    lambda x: stats.compare(TWO, key=KEY, baseline=[x]),
    lambda x: stats.compare(TWO, key=KEY, confidence=x),
    lambda x: stats.compare(TWO, key=KEY, test=x),
    lambda x: stats.compare(TWO, key=KEY, correction=x),
    lambda x: stats.compare(TWO, key=KEY, resamples=[x]),
  ],
  "stats.confidence_sequence": [
    lambda x: stats.confidence_sequence(S, bounds=x),
    lambda x: stats.confidence_sequence(S, bounds=(0, x)),
    lambda x: stats.confidence_sequence(S, confidence=x),
  ],
  "stats.prediction_powered": [lambda x: stats.prediction_powered(S, S, S, confidence=x)],
  "stats.randomization_test": [lambda x: stats.randomization_test(S, S, key=KEY, flips=x)],
  "stats.rank_intervals": [
    lambda x: stats.rank_intervals(jnp.ones((2, 3)), key=[x]),
    lambda x: stats.rank_intervals(jnp.ones((2, 3)), key=KEY, resamples=x),
    lambda x: stats.rank_intervals(jnp.ones((2, 3)), key=KEY, confidence=x),
    lambda x: stats.rank_intervals(jnp.ones((2, 3)), key=KEY, tasks=[x]),
  ],
  "corpus.evaluate": [
    lambda x: corpus.evaluate([x], QUERIES, ITEMS, POSITIVES),
    lambda x: corpus.evaluate("RR", QUERIES, ITEMS, POSITIVES, similarity=[x]),
    lambda x: corpus.evaluate("RR", QUERIES, ITEMS, POSITIVES, chunk=x),
    lambda x: corpus.evaluate("RR", QUERIES, ITEMS, POSITIVES, axis_name=[x]),
    lambda x: corpus.evaluate("RR", QUERIES, ITEMS, POSITIVES, progress=[x]),
  ],
  "corpus.top_items": [lambda x: corpus.top_items(QUERIES, ITEMS, x)],
  "corpus.unsampled_metric": [lambda x: corpus.unsampled_metric(lambda r: r, 4, 20, tradeoff=x)],
  "hits_at_k.at": [lambda x: ranks.hits_at_k.at(x)],
  "ranks.resolve": [lambda x: ranks.resolve(x)],
  "ranks.evaluate": [lambda x: ranks.evaluate(x, RANKS)],
  "median_rank.variance": [lambda x: ranks.median_rank.variance([3], [1], key=[x])],
  "plackett_luce.sample": [
    lambda x: plackett_luce.sample([x], S),
    lambda x: plackett_luce.sample(KEY, S, shape=[x]),
    lambda x: plackett_luce.sample(KEY, S, temperature=x),
  ],
  "batches": [lambda x: jr.batches(BATCH, cells=x), lambda x: jr.batches(BATCH, sharding=[x])],
  "pad": [lambda x: jr.pad([0], [1.0], [1], length=x)],
}

# What JAX, NumPy and Python say of values inside the library.
INTERNAL = re.compile(
  "valid JAX|interpreting argument|Tracer|has no attribute|not subscriptable|is not iterable|"
  "unhashable|not supported|unsupported operand|truth value|positional|unexpected keyword|ufunc|"
  "cannot be interpreted|could not convert|ScalarType"
)


def _faults(doors, values):
  """The calls that raise nothing, or another error than one of the library about its argument."""
  for name, calls in doors.items():
    for i, call in enumerate(calls):
      for kind, value in values.items():
        about = f"{name}[{i}] of {kind}"
        try:
          call(value)
        except (TypeError, ValueError) as error:
          text = str(error)
          raised = traceback.extract_tb(error.__traceback__)[-1].filename
          if not text.startswith(f"{name}: ") or INTERNAL.search(text) or "jaxrank" not in raised:
            yield f"{about}: {text}"
        except Exception as error:
          yield f"{about}: {error!r}"
        else:
          yield f"{about}: no error"


def test_what_is_no_array_of_numbers_is_refused_by_name():
  assert not list(_faults(ARRAYS, NO_ARRAYS | {"None": None}))
  assert not list(_faults(OPTIONAL, NO_ARRAYS))


def test_what_is_no_option_is_refused_by_name():
  assert not list(_faults(OPTIONS, NO_OPTIONS))
