"""Measures over many batches: what counts, what is exact, and what can be interrupted."""

import dataclasses
import functools
import math
import pickle
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxrank as jr
from jaxrank._core.description import SEEKS
from jaxrank.streaming import moments, reservoir
from jaxrank.streaming.batch import Queries
from tests.helpers.streams import (
  BATCHES,
  DATA,
  GROUPS,
  MEASURES,
  PLAIN,
  QUERIES,
  RELEVANT,
  N,
  batch,
  close,
  evaluator,
  run,
  trees_equal,
  updating,
)


@functools.cache
def rows():
  """All queries in plain numpy: values, whether there is something to find, and any item."""
  lists = [PLAIN[name].reshape(-1, N) for name in PLAIN]
  values = jr.evaluate(MEASURES, *lists[:2], where=lists[2])
  found = [(lists[2] & (lists[1] >= rel)).any(-1) for rel in RELEVANT]
  return (
    np.stack(list(values.values()), -1).astype(np.float64),
    np.stack(found, -1),
    lists[2].any(-1),
  )


def expected(data, policy, group=None):
  """Mean, variance and standard error by measure, from their definitions."""
  values, found, live = rows()
  weights = data.get("query_weights", np.ones((BATCHES, QUERIES))).reshape(-1).astype(np.float64)
  live = live & (weights > 0)
  if group is not None:
    live = live & (data["groups"].reshape(-1) == group)
  for x, some in zip(values.T, found.T, strict=True):
    x = np.where(some, x, policy == "one")
    kept = live & some if policy == "skip" else live
    x, w = x[kept], weights[kept]
    mean = np.sum(w * x) / np.sum(w)
    variance = np.sum(w * (x - mean) ** 2) / (np.sum(w) - np.sum(w**2) / np.sum(w))
    yield mean, variance, math.sqrt(variance * np.sum(w**2) / np.sum(w) ** 2), kept.sum()


@pytest.mark.parametrize("policy", ["zero", "one", "skip"])
def test_statistics_are_those_of_all_queries(policy):
  plain, own = run(empty=policy), evaluator(empty=policy)
  means, variances, errors, counts = zip(*expected(PLAIN, policy), strict=True)
  close(own.compute(plain), means)
  close(own.variance(plain), variances, 1e-5)
  close(own.standard_error(plain), errors, 1e-5)
  np.testing.assert_array_equal(plain.count, counts)
  _, found, live = rows()
  np.testing.assert_array_equal(plain.empty, (live[:, None] & ~found).sum(0))
  assert 0 < np.asarray(plain.empty).max() < live.sum() < live.size


def test_an_unweighted_standard_error_is_that_of_the_textbook():
  values, _, live = rows()
  x = values[live]
  close(evaluator().standard_error(run()), x.std(0, ddof=1) / math.sqrt(len(x)), 1e-5)


@pytest.mark.parametrize("policy", ["zero", "skip"])
def test_weights_and_groups(policy):
  own, state = evaluator(empty=policy, groups=GROUPS), run(DATA, empty=policy, groups=GROUPS)
  means, variances, errors, _ = zip(*expected(DATA, policy), strict=True)
  close(own.compute(state), means)
  close(own.variance(state), variances, 1e-5)
  close(own.standard_error(state), errors, 1e-5)
  for g in range(GROUPS):
    means, _, errors, counts = zip(*expected(DATA, policy, g), strict=True)
    alone = own.group(state, g)
    close(own.compute(alone), means)
    close(own.standard_error(alone), errors, 1e-5)
    np.testing.assert_array_equal(alone.count, counts)
    close({name: x[g] for name, x in own.per_group(state).items()}, means)


def test_a_scale_of_the_weights_changes_nothing():
  heavy = {**DATA, "query_weights": 7 * DATA["query_weights"]}
  own = evaluator(groups=GROUPS)
  a, b = run(DATA, groups=GROUPS), run(heavy, groups=GROUPS)
  close(own.standard_error(a), own.standard_error(b).values())


def test_a_confidence_interval():
  own, state = evaluator(), run()
  means, errors = own.compute(state), own.standard_error(state)
  for name, (low, high) in own.interval(state).items():
    assert low == pytest.approx(means[name] - 1.959964 * errors[name])
    assert high == pytest.approx(means[name] + 1.959964 * errors[name])
  with pytest.raises(ValueError, match="between 0 and 1, got 95"):
    own.interval(state, confidence=95)


def of_logs(ranked, *, k=None):
  """The logarithm of one more than the number of relevant items among the first `k`."""
  return jnp.log1p(ranked.expect(ranked.relevant(), jr.discounts.constant, k=k))


@pytest.mark.parametrize("policy", ["zero", "one", "skip"])
def test_aggregations(policy):
  options = {"empty": policy, "groups": GROUPS}
  measures = [
    jr.Measure(jr.metric(of_logs, aggregation=how), k=2, name=how)
    for how in ("mean", "sum", "exp_mean")
  ]
  own = jr.Evaluator(measures, **options)
  state = own.init()
  for i in range(BATCHES):
    state = own.update(state, **batch(i, DATA))
  lists = [x.reshape(-1, N) for x in PLAIN.values()]
  x = np.asarray(measures[0](*lists[:2], where=lists[2]), np.float64)
  found = ((lists[1] > 0) & lists[2]).any(-1)
  weights = DATA["query_weights"].reshape(-1) * lists[2].any(-1)
  assert np.any(weights[~found] > 0)
  if policy == "skip":
    weights = weights * found
  logs = np.where(found, x, 0)
  x = np.where(found, x, policy == "one")
  total, mean, log = weights.sum(), weights @ x / weights.sum(), weights @ logs / weights.sum()
  close(own.compute(state), [mean, total * mean, np.exp(log)])
  error = own.standard_error(state)
  assert error["sum"] == pytest.approx(total * error["mean"])
  ends = own.interval(state)
  deviation = 1.959964 * error["exp_mean"] / np.exp(log)
  assert ends["exp_mean"] == pytest.approx(np.exp([log - deviation, log + deviation]))
  assert ends["sum"] == pytest.approx([total * end for end in ends["mean"]])
  for g in range(GROUPS):
    part = weights * (DATA["groups"].reshape(-1) == g)
    expected = [part @ x / part.sum(), part @ x, np.exp(part @ logs / part.sum())]
    close({name: of[g] for name, of in own.per_group(state).items()}, expected)
  assert own.compute(own.init()) == dict.fromkeys(own.names, 0.0)


def test_no_query_is_zero():
  own, state = evaluator(), evaluator().init()
  padding = {**batch(0), "where": np.zeros((QUERIES, N), bool)}
  padding["scores"] = np.full((QUERIES, N), np.nan, np.float32)
  for nothing in (state, updating()(state, padding), own.merge(state, state)):
    assert own.compute(nothing) == dict.fromkeys(MEASURES.split(), 0.0)
    assert all(map(math.isnan, own.standard_error(nothing).values()))
    assert not nothing.count.any()
    assert nothing.invalid == 0
  one = own.update(state, [3.0, 2.0, 1.0], [0, 2, 1])
  assert own.compute(one)["RR"] == 0.5
  assert math.isnan(own.variance(one)["RR"])


def test_empty_queries_are_an_error_if_asked():
  own, state = evaluator(empty="error"), run()
  one, two, _ = state.empty.tolist()
  assert one < two
  with pytest.raises(ValueError, match=rf"{one} for RR, {two} for RR\(rel=2\)@2, {one} for S"):
    own.compute(state)
  assert own.compute(own.init())["RR"] == 0


# Labels of three queries of three, two and three items: all relevant, mixed, none relevant.
KINDS = jnp.array([[1, 1, 1], [0, 1, 5], [0, 0, 0]], jnp.float32)
KINDS_WHERE = jnp.array([[True] * 3, [True, True, False], [True] * 3])


def emptiness(measure, labels=KINDS, where=KINDS_WHERE):
  """How many queries an evaluator takes for empty, one by one."""
  own = jr.Evaluator(measure)
  scores = jnp.ones(where.shape[-1:])
  return [
    int(own.update(own.init(), scores, y, where=w).empty[0])
    for y, w in zip(labels, where, strict=True)
  ]


@jr.metric
def hits(ranked, *, k=None, rel=None):
  """The share of relevant items at the first ranks."""
  return ranked.expect(ranked.relevant(rel), jr.discounts.constant, k=k) / ranked.n


def sought(seeks):
  """The same metric, which seeks something else."""
  return jr.metric(hits.description.kernel, seeks=seeks)


@pytest.mark.parametrize(
  ("measure", "empty"),
  [
    ("fall_out", [1, 0, 0]),
    ("auc", [1, 0, 1]),
    ("kendall_tau", [1, 0, 1]),
    ("spearman", [1, 0, 1]),
    ("ordered_pair_accuracy", [1, 0, 1]),
    ("hit_rate", [0, 0, 1]),
    ("AP(rel=2)", [1, 1, 1]),
    ("judged", [0, 0, 0]),
    ("bpref", [0, 0, 1]),
    ("ndcg", [0, 0, 1]),
    (jr.Measure(jr.precision, rel=0.5), [0, 0, 1]),
    (hits, [0, 0, 1]),
    (jr.Measure(hits, rel=2), [1, 1, 1]),
    (sought("relevant items"), [0, 0, 1]),
    (sought("other items"), [1, 0, 0]),
    (jr.Measure(sought("other items"), rel=2.0), [0, 0, 0]),
    (sought("relevant and other items"), [1, 0, 1]),
    (sought("different labels"), [1, 0, 1]),
    (sought("any items"), [0, 0, 0]),
    (sought(lambda ranked, *, k, rel: ranked.count(ranked.where) > 2), [0, 1, 0]),
  ],
  ids=str,
)
def test_each_measure_knows_what_it_looks_for(measure, empty):
  assert emptiness(measure) == empty


def test_every_word_for_what_is_sought_is_tested_above():
  words = ("relevant items", "other items", "relevant and other items", "different labels")
  assert set(SEEKS) == {*words, "any items"}
  with pytest.raises(ValueError, match="seeks must be one of 'relevant items', .*got 'gold'"):
    sought("gold")


def test_diversity_streams_with_labels_of_subtopics():
  rng = np.random.default_rng(0)
  scores = rng.normal(size=(5, 6)).astype(np.float32)
  labels = rng.integers(0, 2, (5, 6, 3)).astype(np.float32)
  labels[1], labels[2] = 0, -1
  where = rng.random((5, 6)) < 0.8
  where[3] = False
  names = "alpha_nDCG@5 ERR-IA@5 NRBP"
  values = jr.evaluate(names, scores, labels, where=where)
  for policy, kept in (("zero", [0, 1, 2, 4]), ("skip", [0, 4])):
    own = jr.Evaluator(names, empty=policy)
    state = own.init()
    for i in range(5):
      state = own.update(state, scores[i], labels[i], where=where[i])
    np.testing.assert_array_equal(state.empty, [2, 2, 2])
    close(own.compute(state), [x[np.array(kept)].mean() for x in values.values()])
  with pytest.raises(ValueError, match=r"Evaluator.update: .*labels"):
    own.update(state, scores, labels[..., 0])
  mixed = jr.Evaluator([jr.ndcg, "NRBP"])
  with pytest.raises(ValueError, match=r"Evaluator.update: .*separate calls"):
    mixed.update(mixed.init(), scores, labels)


def test_empty_queries_under_every_policy_for_a_users_metric():
  users = sought("other items")
  measures = [jr.Measure(users, name="mine"), jr.Measure(jr.fall_out, k=2), "RR"]
  values = jr.evaluate(measures, KINDS, KINDS, where=KINDS_WHERE)
  mine, fall_out, first = (np.asarray(x) for x in values.values())
  assert list(values) == ["mine", "fall_out(k=2)", "RR"]
  wanted = {
    "zero": (mine.mean(), fall_out.mean(), first.mean()),
    "one": ((1 + mine[1:].sum()) / 3, (1 + fall_out[1:].sum()) / 3, (first[:2].sum() + 1) / 3),
    "skip": (mine[1:].mean(), fall_out[1:].mean(), first[:2].mean()),
  }
  for policy, means in wanted.items():
    own = jr.Evaluator(measures, empty=policy)
    state = own.update(own.init(), KINDS, KINDS, where=KINDS_WHERE)
    close(own.compute(state), means)
    np.testing.assert_array_equal(state.empty, [1, 1, 1])
  own = jr.Evaluator(measures, empty="error")
  state = own.update(own.init(), KINDS, KINDS, where=KINDS_WHERE)
  with pytest.raises(ValueError, match=r"1 for mine, 1 for fall_out\(k=2\), 1 for RR"):
    own.compute(state)


def test_queries_that_are_not_finite_count_apart():
  bad = {name: x.copy() for name, x in PLAIN.items()}
  bad["where"][0, :2] = True
  bad["scores"][0, 0, 3] = np.nan
  bad["labels"][0, 1] = [np.nan, 0, 0, 0, 0, 0, 0]
  kept = {name: x.copy() for name, x in bad.items()}
  kept["where"][0, :2] = False
  for policy in ("zero", "one", "skip"):
    state, without = run(bad, empty=policy), run(kept, empty=policy)
    assert state.invalid == 2
    trees_equal(state.moments, without.moments)
    with pytest.warns(UserWarning, match="2 queries"):
      means = evaluator(empty=policy).compute(state)
    assert means == evaluator(empty=policy).compute(without)
  own = evaluator(empty="skip", invalid="propagate")
  assert all(map(math.isnan, own.compute(state).values()))
  assert own.compute(without) == evaluator(empty="skip").compute(without)


def test_bad_weights_and_groups_are_invalid_unless_left_out():
  own, arrays = evaluator(groups=GROUPS), {name: x.copy() for name, x in batch(0, DATA).items()}
  arrays["where"][:] = True
  arrays["query_weights"][:] = [1, -1, np.nan, np.inf, 1, 1, 0, 0]
  arrays["groups"][:] = [0, 0, 1, 1, GROUPS, -1, 0, -7]
  arrays["scores"][6] = np.nan
  state = updating(groups=GROUPS)(own.init(), arrays)
  np.testing.assert_array_equal(state.invalid, [2, 2, 1])
  np.testing.assert_array_equal(state.count[:, 0], [1, 0, 0])


def test_two_to_the_25_additions_of_a_constant():
  """A running float32 sum of 0.3 stops at 2^23."""
  one = moments.of(jnp.full((1, 1), 0.3, jnp.float32), jnp.ones((1, 1), jnp.float32))

  @jax.jit
  def stream():
    add = lambda _, state: moments.merge(state, one)  # noqa: E731
    return lax.fori_loop(0, 2**25, add, moments.zeros((1,)))

  total = stream()
  assert total.weight.high == 2**25
  assert total.mean.high + total.mean.low == np.float32(0.3)
  assert total.spread.high == 0


def test_the_spread_of_equal_values_is_not_negative():
  """Where its two terms are rounded apart, as those of some weights are."""
  rng = np.random.default_rng(0)
  sizes = np.arange(2, 40)
  values = np.broadcast_to(rng.random((len(sizes), 1, 50), np.float32), (len(sizes), 40, 50))
  weights = rng.random(values.shape, np.float32) * (np.arange(40) < sizes[:, None])[..., None]
  spread = jax.jit(jax.vmap(moments.of))(values, weights.astype(np.float32)).spread
  assert np.all(spread.high + spread.low >= 0)


def test_single_queries_still_move_the_mean_of_a_billion():
  """What each adds to the mean is far below the rounding of the mean."""
  ones = lambda value, n: moments.of(  # noqa: E731
    jnp.full((1, 1), value, jnp.float32), jnp.full((1, 1), n, jnp.float32)
  )
  new, count = ones(1.0, 1.0), 2**16

  @jax.jit
  def stream(state):
    return lax.fori_loop(0, count, lambda _, state: moments.merge(state, new), state)

  state = stream(ones(0.7, 2.0**30))
  mean = np.float64(state.mean.high[0]) + np.float64(state.mean.low[0])
  weight = np.float64(state.weight.high[0]) + np.float64(state.weight.low[0])
  exact = (np.float64(np.float32(0.7)) * 2**30 + count) / (2**30 + count)
  assert weight == 2**30 + count
  assert abs(mean - exact) < 1e-3 * (exact - np.float32(0.7))
  spread = 2**30 * (np.float32(0.7) - exact) ** 2 + count * (1 - exact) ** 2
  np.testing.assert_allclose(state.spread.high[0], spread, rtol=1e-5)


@functools.cache
def synthetic():
  """States of 10^8 queries in all, 4,096 of very different sizes and means, and the truth."""
  rng = np.random.default_rng(0)
  n = rng.pareto(1.0, 4096) + 1
  n = np.round(n / n.sum() * 1e8)
  mean, variance = rng.random(4096), rng.random(4096) / 12
  n, mean, spread = (np.float32(x) for x in (n, mean, n * variance))
  weight, x, s = (y.astype(np.float64) for y in (n, mean, spread))
  overall = np.sum(weight * x) / weight.sum()
  truth = weight.sum(), overall, np.sum(s + weight * (x - overall) ** 2)
  pair = lambda x: moments.Pair(jnp.array(x), jnp.zeros_like(x))  # noqa: E731
  return moments.Moments(pair(n), pair(n), pair(mean), pair(spread)), truth


def one_by_one(states):
  first = lambda i: jax.tree.map(lambda x: x[i], states)  # noqa: E731
  add = lambda state, new: (moments.merge(state, new), None)  # noqa: E731
  return lax.scan(add, first(0), jax.tree.map(lambda x: x[1:], states))[0]


def by_halves(states):
  n = states.weight.high.size

  def double(i, states):
    other = (jnp.arange(n, dtype=jnp.int32) + (1 << i)) % n
    return moments.merge(states, jax.tree.map(lambda x: x[other], states))

  states = lax.fori_loop(0, n.bit_length() - 1, double, states)
  return jax.tree.map(lambda x: x[0], states)


def by_chunks(states):
  chunks = jax.tree.map(lambda x: x.reshape(64, 64), states)
  return by_halves(jax.vmap(one_by_one)(chunks))


@pytest.mark.parametrize("merged", [one_by_one, by_halves, by_chunks])
def test_merging_in_any_order_and_grouping(merged):
  states, (weight, mean, spread) = synthetic()
  rng = np.random.default_rng(1)
  sizes = np.argsort(states.weight.high)
  orders = jnp.stack([sizes, sizes[::-1], *(rng.permutation(4096) for _ in range(6))])
  shuffled = jax.tree.map(lambda x: x[orders], states)
  total = jax.jit(jax.vmap(merged))(shuffled)
  number = lambda pair: np.asarray(pair.high, np.float64) + np.asarray(pair.low)  # noqa: E731
  np.testing.assert_array_equal(number(total.weight), weight)
  np.testing.assert_allclose(number(total.mean), mean, rtol=1e-6)
  np.testing.assert_allclose(number(total.spread), spread, rtol=1e-5)


def test_merging_states_is_one_state():
  own, whole = evaluator(), run()
  half = {name: x[:3] for name, x in PLAIN.items()}, {name: x[3:] for name, x in PLAIN.items()}
  a, b = map(run, half)
  for merged in (own.merge(a, b), own.merge(b, a), jax.jit(own.merge)(a, b)):
    np.testing.assert_array_equal(merged.count, whole.count)
    close(own.compute(merged), own.compute(whole).values(), 1e-6)
    close(own.variance(merged), own.variance(whole).values(), 1e-5)
  trees_equal(own.merge(own.init(), a), a)
  trees_equal(own.merge(a, own.init()), a)


def test_in_a_scan_and_with_donated_buffers():
  own, whole = evaluator(), run()
  step = lambda state, arrays: (own.update(state, **arrays), None)  # noqa: E731
  scanned, _ = jax.jit(lambda data: lax.scan(step, own.init(), data))(PLAIN)
  donated = jax.jit(lambda state, arrays: own.update(state, **arrays), donate_argnums=0)
  state = own.init()
  for i in range(BATCHES):
    state = donated(state, batch(i))
  for other in (scanned, state):
    np.testing.assert_array_equal(other.count, whole.count)
    close(own.compute(other), own.compute(whole).values())


def test_any_leading_axes():
  own, whole = evaluator(groups=GROUPS), run(DATA, groups=GROUPS)
  at_once = own.update(own.init(), **DATA)
  np.testing.assert_array_equal(at_once.count, whole.count)
  close(own.compute(at_once), own.compute(whole).values())


def test_a_batch_of_another_shape_compiles_again_and_a_padded_one_does_not():
  own, update, whole = evaluator(), updating(), run({name: x[:1] for name, x in PLAIN.items()})
  programs = update._cache_size()
  first = {name: x.copy() for name, x in batch(0).items()}
  first["where"][5:] = False
  state = update(own.init(), first)
  assert update._cache_size() == programs
  state = update(state, {name: x[5:] for name, x in batch(0).items()})
  assert update._cache_size() == programs + 1
  np.testing.assert_array_equal(state.count, whole.count)
  close(own.compute(state), own.compute(whole).values())


def save_npz(path, state):
  np.savez(path, *jax.tree.leaves(state))


def load_npz(path, like):
  with np.load(path) as file:
    return jax.tree.unflatten(jax.tree.structure(like), [file[name] for name in file.files])


def save_pickle(path, state):
  path.write_bytes(pickle.dumps(state))


def load_pickle(path, like):
  return pickle.loads(path.read_bytes())


@pytest.mark.parametrize(
  ("save", "load"), [(save_npz, load_npz), (save_pickle, load_pickle)], ids=["npz", "pickle"]
)
def test_an_interrupted_evaluation_resumes(tmp_path, save, load):
  options = {"empty": "skip", "groups": GROUPS, "reservoir": 40}
  own, key = evaluator(**options), jax.random.key(0)
  whole = run(DATA, key, **options)
  state = run({name: x[:2] for name, x in DATA.items()}, key, **options)
  save(tmp_path / "state.npz", state)
  del state
  state = load(tmp_path / "state.npz", own.init(key))
  for i in range(2, BATCHES):
    state = updating(**options)(state, batch(i, DATA))
  trees_equal(state, whole)
  assert own.compute(state) == own.compute(whole)


@pytest.mark.parametrize("q", [0, 0.25, 0.5, 0.75, 1])
def test_quantiles_are_exact_while_the_reservoir_holds_all(q):
  state = run(key=jax.random.key(0), reservoir=BATCHES * QUERIES)
  values, _, live = rows()
  exact = np.quantile(values[live], q, axis=0, method="averaged_inverted_cdf")
  close(evaluator(reservoir=BATCHES * QUERIES).quantile(state, q), exact)
  if q == 0.5:
    for x, name in zip(values.T, MEASURES.split(), strict=True):
      median = jr.aggregate(x.astype(np.float32), where=live, how="median")
      assert evaluator(reservoir=BATCHES * QUERIES).quantile(state)[name] == pytest.approx(median)


def test_quantiles_leave_out_as_the_means_do():
  options = {"empty": "skip", "groups": GROUPS, "reservoir": 40}
  own, state = evaluator(**options), run(DATA, jax.random.key(0), **options)
  values, found, live = rows()
  weights, groups = DATA["query_weights"].reshape(-1), DATA["groups"].reshape(-1)
  assert np.sum(live & (weights > 0)) < 40
  for g in range(GROUPS):
    medians = own.quantile(own.group(state, g))
    for x, some, median in zip(values.T, found.T, medians.values(), strict=True):
      kept = live & some & (groups == g)
      repeated = np.repeat(x[kept], (2 * weights[kept]).astype(int))
      assert median == pytest.approx(np.quantile(repeated, 0.5, method="averaged_inverted_cdf"))


def test_every_query_is_as_likely_to_stay():
  """In streams, in parts that are merged, and early as late."""
  draws, total, size = 3000, 24, 6

  def stream(sample, items):
    for some in items.reshape(-1, 4):
      true = jnp.ones((4, 1), bool)
      new = Queries(some[:, None], jnp.ones(4), jnp.zeros(4, jnp.int32), true, ~true, ~true)
      sample = reservoir.add(sample, new)
    return sample

  def once(key):
    keys = jax.random.split(key)
    first, second = jnp.split(jnp.arange(total, dtype=jnp.float32), [8])
    a, b = (
      stream(reservoir.new(size, 1, k), x) for k, x in zip(keys, (first, second), strict=True)
    )
    return reservoir.merge(a, b).values[:, 0]

  kept = np.asarray(jax.jit(jax.vmap(once))(jax.random.split(jax.random.key(0), draws)))
  counts = np.bincount(kept.astype(int).ravel(), minlength=total)
  assert all(len(set(row)) == size for row in kept.tolist())
  share = size / total
  assert np.abs(counts - draws * share).max() < 5 * math.sqrt(draws * share * (1 - share))


def test_evaluators_are_equal_by_what_they_are_made_of():
  """A fresh one, in a static argument or in the state of `flax.nnx`, is not traced for again."""
  temperature, key = jnp.float32(0.5), jax.random.key(0)
  traced = []

  @functools.partial(jax.jit, static_argnums=0)
  def step(own, scores):
    traced.append(own)
    return own.update(own.init(), scores, scores)

  made = {
    "names": lambda: jr.Evaluator("nDCG@3 RR"),
    "measures": lambda: jr.Evaluator([jr.Measure(jr.err, max_label=4, k=3), jr.ndcg]),
    "policy": lambda: jr.Evaluator("nDCG@3 RR", empty="skip"),
    "invalid": lambda: jr.Evaluator("nDCG@3 RR", invalid="propagate"),
    "groups": lambda: jr.Evaluator("nDCG@3 RR", groups=2),
    "ranking": lambda: jr.Evaluator("nDCG@3 RR", ranking=jr.Laplace(1.0)),
    "an array": lambda: jr.Evaluator("nDCG@3 RR", ranking=jr.Laplace(temperature)),
    "a gain": lambda: jr.Evaluator(jr.Measure(jr.ndcg, gain=jr.gains.table([0.0, 1.0, 3.0]))),
    "another gain": lambda: jr.Evaluator(jr.Measure(jr.ndcg, gain=jr.gains.table([0.0, 2.0]))),
    "discount": lambda: jr.Evaluator(jr.Measure(jr.dcg, discount=jr.discounts.geometric(0.5))),
    "persistence": lambda: jr.Evaluator(jr.Measure(jr.rbp, persistence=jnp.float32(0.5))),
    "key": lambda: jr.Evaluator("RR", ranking=jr.Exact("random", key)),
  }
  known = [make() for make in made.values()]
  assert len({*known}) == len(known)
  for own, make in zip(known, made.values(), strict=True):
    fresh = make()
    assert (fresh, hash(fresh)) == (own, hash(own))
  assert jr.Evaluator("RR") != "RR"
  for own in (known[0], made["names"](), jr.Evaluator(["nDCG@3", "RR"]), known[2]):
    step(own, jnp.ones((1, 3)))
  assert traced == [known[0], known[2]]


def test_with_64_bits():
  with jax.enable_x64(True):
    own = evaluator()
    state = own.update(
      own.init(),
      PLAIN["scores"].astype(np.float64),
      *list(PLAIN.values())[1:2],
      where=PLAIN["where"],
    )
    state = own.merge(own.init(), state)
  assert {x.dtype for x in jax.tree.leaves(state)} == {np.dtype("float32"), np.dtype("uint32")}
  close(own.compute(state), own.compute(run()).values())
  close(own.compute(state), [mean for mean, *_ in expected(PLAIN, "zero")], 1e-7)


def test_other_rankings_stream():
  own = jr.Evaluator("RR", ranking=jr.Exact("optimistic"))
  state = own.update(own.init(), **batch(0))
  values = jr.evaluate("RR", **batch(0), ranking=jr.Exact("optimistic"))["RR"]
  live = batch(0)["where"].any(-1)
  mean = own.compute(state)["RR"]
  assert mean == pytest.approx(np.mean(np.asarray(values)[live]), rel=1e-6)
  plain = updating()(evaluator().init(), batch(0))
  assert mean > evaluator().compute(plain)["RR"]


def test_a_warning_points_at_the_caller():
  own = evaluator()
  state = dataclasses.replace(own.init(), invalid=jnp.uint32(1))
  with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    own.compute(state)
  assert len(caught) == 1
  assert caught[0].filename == __file__


def test_mistakes():
  with pytest.raises(ValueError, match="at least one measure"):
    jr.Evaluator([])
  with pytest.raises(ValueError, match="empty must be one of .*'error', got 'neg'"):
    jr.Evaluator("RR", empty="neg")
  with pytest.raises(ValueError, match="invalid must be one of"):
    jr.Evaluator("RR", invalid="skip")
  with pytest.raises(ValueError, match="groups must be at least 1"):
    jr.Evaluator("RR", groups=0)
  with pytest.raises(ValueError, match="ndgc"):
    jr.Evaluator("ndgc@10")
  own, grouped = evaluator(), evaluator(groups=GROUPS)
  state, lists = own.init(), (batch(0)["scores"], batch(0)["labels"])
  with pytest.raises(ValueError, match="groups=None, and groups= here are some"):
    own.update(state, *lists, groups=DATA["groups"][0])
  with pytest.raises(ValueError, match="groups=3, and groups= here are none"):
    grouped.update(grouped.init(), *lists)
  for names in (["en", "de"], np.array(["en", "de"])):
    with pytest.raises(TypeError, match=r"'en'; number .*np.unique\(groups, return_inverse=True\)"):
      grouped.add(grouped.init(), {name: np.zeros(2) for name in grouped.names}, groups=names)
  with pytest.raises(TypeError, match="groups must be integers"):
    grouped.update(grouped.init(), *lists, groups=DATA["query_weights"][0])
  with pytest.raises(ValueError, match=r"query_weights.*\(1,\).*\(8,\)"):
    own.update(state, *lists, query_weights=np.ones(1, np.float32))
  with pytest.raises(ValueError, match="another evaluator"):
    own.merge(state, grouped.init())
  with pytest.raises(ValueError, match="another evaluator"):
    own.update(jr.Evaluator("RR").init(), *lists)
  with pytest.raises(ValueError, match="needs a key"):
    jr.Evaluator("RR", reservoir=4).init()
  with pytest.raises(ValueError, match="needs a key"):
    own.init(jax.random.key(0))
  with pytest.raises(ValueError, match="reservoir=1024"):
    own.quantile(state)
  with pytest.raises(ValueError, match="3 groups, got 3"):
    grouped.group(grouped.init(), 3)
  with pytest.raises(TypeError, match="inside jit"):
    jax.jit(own.compute)(state)
  with pytest.raises(TypeError, match="measures must be a metric"):
    jr.Evaluator(None)
  for name in ("groups", "reservoir"):
    with pytest.raises(TypeError, match=f"{name} must be an int"):
      jr.Evaluator("RR", **{name: 2.5})
  for ranking in ("exact", jr.Exact):
    with pytest.raises(TypeError, match=r"ranking must be a .*Exact\(\)"):
      jr.Evaluator("RR", ranking=ranking)
  for key in (0, jax.random.split(jax.random.key(0))):
    with pytest.raises(TypeError, match="one PRNG key"):
      jr.Evaluator("RR", reservoir=4).init(key)
  for call in (own.compute, own.variance, own.interval, lambda x: own.merge(x, state)):
    with pytest.raises(TypeError, match="state must be a State.* got "):
      call(lists)
  with pytest.raises(TypeError, match="state must be a State.* got an array"):
    own.update(*lists, state)
  for compute in (own.compute, own.standard_error, own.interval):
    with pytest.raises(ValueError, match="another evaluator"):
      compute(jr.Evaluator("RR").init())
  pair = jax.tree.map(lambda x: jnp.stack([x, x]), state)
  for call in (lambda: own.update(pair, *lists), lambda: own.add(pair, {"RR": jnp.ones(2)})):
    with pytest.raises(ValueError, match=r"the state has leading axes \(2,\).*inside jax.vmap"):
      call()
  with pytest.raises(ValueError, match=r"different leading axes: \(2,\) and \(\)"):
    own.merge(pair, state)
  with pytest.raises(ValueError, match="there are no groups"):
    own.per_group(state)
  with pytest.raises(TypeError, match="group must be an int"):
    grouped.group(grouped.init(), 0.5)
  with pytest.raises(ValueError, match="q must be a number between 0 and 1"):
    own.quantile(state, [0.1, 0.9])
  for call in (lambda: own.all_reduce(state, "q"), lambda: own.init(axis_name="q")):
    with pytest.raises(ValueError, match="'q' is no mesh axis here"):
      call()


def test_known_values_stream_as_evaluated_ones():
  """The statistics of differences of two scorers are those of their values."""
  rng = np.random.default_rng(0)
  values = {name: rng.normal(size=(3, 40)).astype(np.float32) for name in ("RR", "AP")}
  weights, groups = rng.integers(0, 3, (3, 40)).astype(np.float32), rng.integers(0, 2, (3, 40))
  own = jr.Evaluator("RR AP", empty="skip", groups=2)
  add = jax.jit(lambda state, x, w, g: own.add(state, x, query_weights=w, groups=g))
  state = own.init()
  for i in range(3):
    state = add(state, {name: x[i] for name, x in values.items()}, weights[i], groups[i])
  for g in range(2):
    w = np.where(groups == g, weights, 0)
    means = [np.average(values[name], weights=w) for name in own.names]
    close(own.compute(own.group(state, g)), means, 1e-6)
  plain = jr.Evaluator("RR AP")
  state = plain.add(plain.init(), {name: x.ravel() for name, x in values.items()})
  errors = [values[name].std(ddof=1) / math.sqrt(120) for name in plain.names]
  close(plain.standard_error(state), errors, 1e-6)
  spoiled = plain.add(state, {"RR": [np.nan, 1.0], "AP": [0.0, 1.0]})
  assert spoiled.invalid == 1
  for wrong in ({"RR": [1.0]}, [1.0]):
    with pytest.raises(ValueError, match=r"Evaluator.add: values must be a dict .*\['AP', 'RR'\]"):
      plain.add(state, wrong)
  with pytest.raises(ValueError, match="RR and AP must have one shape"):
    plain.add(state, {"RR": [1.0], "AP": [1.0, 2.0]})
