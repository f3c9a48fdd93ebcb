"""Calls, right and wrong, as mypy and pyright see them: `test_typing.py` checks this file.

A line that ends with `# wrong` must be reported by both checkers, and no other line by either. The
file is never run.
"""

from typing import Any, assert_type

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

import jaxrank as jr
from jaxrank.interop import autointent, rax
from jaxrank.interop import torchmetrics as tm

s, y = jnp.array([[3.0, 1.0, 2.0]]), jnp.array([[0, 2, 1]])
key = jax.random.key(0)

# Metrics: names, defaults, literals and results.
assert_type(jr.ndcg(s, y, where=y > 0, k=10, gain=jr.gains.exponential), Array)
assert_type(jr.ndcg(s, y, ranking=jr.Laplace(1.0), discount=jr.discounts.geometric(0.9)), Array)
assert_type(jr.precision(s, y, k=jnp.asarray(3), divisor="retrieved"), Array)
assert_type(jr.err(s, y, max_label=2), Array)
assert_type(jr.auc(s, y, rel=2), Array)
jr.ndcg(s)  # wrong
jr.ndcg(s, y, 10)  # wrong
jr.ndcg(s, y, kk=3)  # wrong
jr.ndcg(s, y, k="three")  # wrong
jr.ndcg(s, y, ranking=3)  # wrong
jr.ndcg(s, y, gain="linear")  # wrong
jr.precision(s, y, divisor="cutoff")  # wrong
jr.average_precision(s, y, normalizer="k")  # wrong
jr.err(s, y)  # wrong
jr.gap(s, y)  # wrong
jr.alpha_ndcg(s, y, alpha="half")  # wrong

# Curves and reductions.
curve = jr.precision_recall_curve(s, y, max_k=5)
assert_type(curve, jr.Curve)
assert_type(curve.recall, Array)
assert_type(jr.aggregate_curve(curve, how="median"), jr.Curve)
assert_type(jr.recall_at_fixed_precision(curve, 0.5), tuple[Array, Array])
assert_type(jr.aggregate(jr.ndcg(s, y), how="mean"), Array)
jr.aggregate(jr.ndcg(s, y), how="average")  # wrong
jr.aggregate(jr.ndcg(s, y), weights=s[0])  # wrong
jr.precision_recall_curve(s, y, k=5)  # wrong

# Rankings.
jr.ndcg(s, y, ranking=jr.Exact("random", key))
jr.Exact("best")  # wrong
jr.Laplace()  # wrong
jr.Gumbel("1")  # wrong

# Losses, gains and discounts.
assert_type(jr.losses.softmax(s, y, temperature=0.5), Array)
assert_type(jr.losses.lambda_rank(s, y, metric=jr.Measure(jr.ndcg, k=5)), Array)
assert_type(jr.losses.lambda_ndcg(s, y, scheme="ndcg2++", k=5), Array)
assert_type(jr.losses.perturbed(jr.losses.softmax, key)(s, y), Array)
assert_type(jr.gains.linear(s), Array)
assert_type(jr.gains.by_label({1: 0.5})(s), Array)
assert_type(jr.discounts.logarithmic(s), Array)
assert_type(jr.discounts.affine(1.0, -0.1)(s), Array)
jr.losses.softmax(s)  # wrong
jr.losses.approx_ndcg(s, y, temprature=0.1)  # wrong
jr.losses.lambda_ndcg(s, y, scheme="ndcg1")  # wrong
jr.losses.approx_ap(s, y, normalizer="retrieved")  # wrong
jr.gains.table()  # wrong
jr.gains.exponential(s, 4)  # wrong
jr.discounts.logarithmic("rank")  # wrong
jr.discounts.geometric()  # wrong


# A user's metric, measures, and what evaluates them.
@jr.metric
def reciprocal_sum(ranked: jr.Ranked, *, k: int | None = None) -> Array:
  """The sum of one over the rank of the relevant items."""
  return ranked.expect(ranked.relevant(), jr.discounts.reciprocal, k=k)


@jr.metric(higher_is_better=False)
def rank_sum(
  scores: jax.typing.ArrayLike,
  labels: jax.typing.ArrayLike,
  *,
  where: jax.typing.ArrayLike | None = None,
  k: int | None = None,
  ranking: jr.Ranking = jr.Exact(),
) -> Array:
  """The sum of the ranks of the relevant items, with the signature of a metric."""
  ranked = jr.ranked_query(scores, labels, where, ranking)
  return ranked.expect(ranked.relevant(), lambda rank: rank, k=k)


assert_type(rank_sum(s, y, k=3), Array)
assert_type(jr.metric(reciprocal_sum.description.kernel), jr.Metric)
rank_sum(s, y, kk=3)  # wrong
rank_sum(s, y, k="three")  # wrong
jr.metric(rank_sum, seek="relevant items")  # wrong
jr.metric(higher="lower")  # wrong


assert_type(reciprocal_sum, jr.Metric)
assert_type(reciprocal_sum(s, y, k=3), Array)
measure = jr.Measure(jr.ndcg, name="mine", k=10)
assert_type(measure(s, y), Array)
assert_type(jr.parse("nDCG@10 AP"), tuple[jr.Measure, ...])
assert_type(jr.evaluate(["AP", measure, jr.rbp, reciprocal_sum], s, y), dict[str, Array])
jr.Measure(3)  # wrong
jr.Measure(jr.ndcg, name=3)  # wrong
jr.metric(3)  # wrong
jr.metric(lambda ranked: ranked.n, depth="some")  # wrong
reciprocal_sum(s)  # wrong
measure(s, y, k=3)  # wrong
jr.parse("P@3", dialect="trec")  # wrong
jr.evaluate(3, s, y)  # wrong
jr.evaluate("AP", s, y, k=3)  # wrong

evaluator = jr.Evaluator("nDCG@10 AP", empty="skip", invalid="propagate")
state = evaluator.update(evaluator.init(), s, y, query_weights=jnp.ones(1))
assert_type(state, jr.State)
assert_type(evaluator.compute(state), dict[str, Any])
assert_type(evaluator.interval(state), dict[str, tuple[Any, Any]])
assert_type(evaluator.names, tuple[str, ...])
jr.Evaluator("AP", empty="drop")  # wrong
jr.Evaluator("AP", invalid="raise")  # wrong
evaluator.update(state, s)  # wrong
evaluator.compute({"AP": 1.0})  # wrong

# Chance, classes as labels, and whole corpora.
assert_type(jr.chance.expected(jr.ndcg, y, k=3), Array)
assert_type(jr.chance.adjusted(measure, s, y), Array)
assert_type(jr.chance.z_score("AP P@2", s, y), dict[str, Array])
assert_type(jr.chance.sampled([jr.auc], y, key=key), dict[str, jr.chance.Sampled])
assert_type(jr.chance.sampled(jr.auc, y, key=key).variance, Array)
assert_type(jr.class_labels.relevance(y[0], y[0]), Array)
assert_type(jr.corpus.top_items(s, s, 2, similarity="cosine"), tuple[Array, Array])
jr.chance.expected(3, y)  # wrong
jr.chance.expected("AP", y, k=3)  # wrong
jr.chance.sampled(jr.auc, y)  # wrong
jr.corpus.top_items(s, s, 2, similarity="cos")  # wrong

# Statistics of ranks.
ranks = jr.ranks.from_scores(s, jnp.array([1]))
assert_type(ranks, jr.ranks.TargetRanks)
assert_type(jr.ranks.hits_at_k.at(5)(ranks), Array)
assert_type(jr.ranks.hits_at_k.expected(jnp.array([3]), key=key), Array)
assert_type(jr.ranks.resolve("mrr"), jr.ranks.RankMetric)
assert_type(jr.ranks.hits_at_k(ranks, k=5), Array)
jr.ranks.hits_at_k.at("5")  # wrong
jr.ranks.hits_at_k.has_closed_form("mean")  # wrong
jr.ranks.from_scores(s)  # wrong

# Statistics of systems.
assert_type(jr.stats.paired_t(s[0], s[0]).p_value, Array)
assert_type(jr.stats.randomization_test(s[0], s[0], key=key), jr.stats.Comparison)
assert_type(jr.stats.bootstrap_interval(jr.ranks.median_rank, ranks, key=key).low, Array)
assert_type(jr.stats.tukey_hsd(s, key=key), Array)
assert_type(jr.stats.queries_needed(0.1, s[0], power=0.9), Array)
assert_type(jr.stats.rank_intervals(s, key=key, tasks=["a", "a", "b"]), jr.stats.RankIntervals)
assert_type(jr.stats.prediction_powered(s[0], s[0], s[0]).gain, Array)
assert_type(jr.stats.confidence_sequence(state), jr.stats.Bounds)
assert_type(jr.stats.confidence_sequence(s, bounds=(-1, 1)).low, Array)
assert_type(jr.stats.risk_control(s, s[0], level=0.1, bound=2).threshold, Array)
two = jnp.stack([s, s])
assert_type(jr.fusion.comb_sum(jr.fusion.min_max(two, missing="min"), weights=s[0]), Array)
assert_type(jr.fusion.rrf(two, k=10, weighs="rank", ranking=jr.Laplace(1.0)), Array)
assert_type(jr.fusion.train(jr.fusion.prob_fuse, two, y, n_segments=2), Array)
assert_type(jr.fusion.fit("rrf", two, y, "nDCG@10", key=key, names=["a", "b"]), jr.fusion.Fit)
assert_type(jr.fusion.threshold(s, y, "recall", level=0.9), jr.stats.Threshold)
jr.fusion.rrf(two, weighs="both")  # wrong
jr.fusion.comb_sum(two, k=3)  # wrong
jr.fusion.fit("rrf", two, y, "nDCG@10")  # wrong
jr.fusion.map_fuse(two)  # wrong
assert_type(jr.stats.compare({"a": s[0], "b": s[0]}, key=key).columns(), dict[str, Any])
assert_type(evaluator.interval(state, anytime=True), dict[str, tuple[Any, Any]])
jr.stats.rank_intervals(s)  # wrong
jr.stats.risk_control(s, s[0])  # wrong
jr.stats.compare({"a": s[0]}, key=key, test="wilcoxon")  # wrong
jr.stats.randomization_test(s[0], s[0])  # wrong
jr.stats.bootstrap_interval(jnp.mean, s, key=key, method="basic")  # wrong

# Agreement of two rankings.
assert_type(jr.agreement.rbo(s, s, p=0.9), Array)
assert_type(jr.agreement.tau_ap(s, s), Array)
jr.agreement.rbo(s, s)  # wrong

# Beyond accuracy.
catalogue = jr.Catalogue(3)
assert_type(catalogue.compute(catalogue.update(catalogue.init(), y)), dict[str, float])
assert_type(jr.novelty(s, s, k=2), Array)
jr.intra_list_distance(s, s[..., None], distance="dot")  # wrong

# Flat rows.
batch = jr.pad(["b", "a", "b"], [0.3, 0.2, 0.9], [0, 1, 2])
assert_type(batch, jr.Batch)
assert_type(jr.pad_buckets([1, 1], [0.1, 0.2], [0, 1]), list[jr.Batch])
jr.ndcg(batch.scores, batch.labels, where=batch.where)
jr.pad([1], [0.1], [0], length="long")  # wrong
assert_type(batch.gather(np.zeros((3, 2))), np.ndarray)
assert_type(jr.epoch(key, [3, 1], steps=2), tuple[Array, ...])
jr.epoch(key, [3, 1], 2)  # wrong
jr.epoch(key, 3, steps=2)  # wrong
assert_type(jr.ensemble(jnp.stack([s, s]), where=y > 0, by="ranks"), Array)
jr.ensemble(s, by="rank")  # wrong
rows = jr.letor.read(["a.txt", "b.txt"], docids=True)
assert_type(rows, jr.letor.Dataset)
assert_type(jr.letor.folds("MQ2008")[0].read(), jr.letor.Fold[jr.letor.Dataset])
jr.letor.ranks(rows.features, rows.query_ids)
jr.letor.z_scores(s[..., None], where=y > 0)
jr.letor.min_max(s[..., None], y > 0, 3)  # wrong

# Run files.
run = jr.trec.read_run({"q": {"d": 0.5}}, name="bm25")
assert_type(run, jr.trec.Run)
assert_type(jr.trec.to_arrays("qrels.txt", run, ties="average").documents, NDArray[Any])
assert_type(jr.trec.evaluate("map P_5", {"q": {"d": 1}}, run).mean(), dict[str, float])
jr.trec.evaluate("map", {"q": {"d": 1}}, run, ties="stable")  # wrong
jr.trec.evaluate("map", run)  # wrong
jr.trec.to_arrays("qrels.txt", run, queries="all")  # wrong
jr.trec.read_run("run.txt", "bm25")  # wrong

# The adapter of torchmetrics.
retriever = tm.RetrievalPrecision("skip", top_k=3, adaptive_k=True)
assert_type(retriever([0.2, 0.3], [1, 0], [0, 0]), np.float32)
assert_type(retriever.clone(), tm.RetrievalPrecision)
assert_type(tm.RetrievalRecallAtFixedPrecision(0.5).compute(), tuple[np.float32, np.integer[Any]])
assert_type(tm.retrieval_auroc([0.2, 0.3], [1, 0], max_fpr=0.5), np.float32)
assert_type(tm.retrieval_precision_recall_curve([0.2], [1])[2], NDArray[np.int_])
tm.RetrievalMAP("no")  # wrong
tm.RetrievalMAP(top_k="3")  # wrong
tm.RetrievalMAP(aggregation="sum")  # wrong
tm.retrieval_recall([0.2], [1], k=3)  # wrong
tm.retrieval_r_precision([0.2], [1], 3)  # wrong

# The adapters whose functions share their arguments.
assert_type(rax.mrr_metric(s, y, where=y > 0, topn=jnp.asarray(3)), Array)
assert_type(rax.ndcg_metric(s, labels=y, gain_fn=lambda labels: labels, reduce_fn=None), Array)
assert_type(rax.pairwise_hinge_loss(s, y, lambdaweight_fn=rax.labeldiff_lambdaweight), Array)
assert_type(rax.pointwise_mse_loss(s, y, weights=s, segments=y), Array)
assert_type(autointent.retrieval_map([1], [[1, 2]], 1), float)
assert_type(autointent.retrieval_map_macro([[1]], [[[1]]], k=1, joint_absence=True), float)
assert_type(autointent.retrieval_map.__name__, str)
rax.mrr_metric(s)  # wrong
rax.mrr_metric(s, y, y > 0)  # wrong
rax.ndcg_metric(s, y, topn="three")  # wrong
rax.pairwise_hinge_loss(s, y, topn=3)  # wrong
rax.pointwise_mse_loss(s, y, lambdaweight_fn=None)  # wrong
autointent.retrieval_map([1], [[1, 2]], "one")  # wrong
autointent.retrieval_map([1], [[1, 2]], joint_absence=True)  # wrong
autointent.retrieval_map_macro([1], [[1, 2]], 1, True)  # wrong
