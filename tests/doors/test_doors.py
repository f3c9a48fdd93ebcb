"""One situation has one value, whichever door it comes in by.

Some 200 random queries, with ties, NaN, scores of -inf, masks, queries without a candidate and
queries of which nothing is retrieved, go through every door that takes them.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr

Q, N = 200, 12
METRICS = {
  "nDCG@5": functools.partial(jr.ndcg, k=5),
  "AP": jr.average_precision,
  "RR": jr.reciprocal_rank,
  "P@5": functools.partial(jr.precision, k=5),
  "Rprec": jr.r_precision,
  "RBP@4": functools.partial(jr.rbp, k=4, persistence=0.8),
  "err(max_label=3)@5": functools.partial(jr.err, k=5, max_label=3),
}
NAMES = " ".join(METRICS)


def draw():
  """Scores, labels and mask: whole numbers, which every dtype and every file holds exactly."""
  rng = np.random.default_rng(47)
  scores = rng.integers(-2, 4, (Q, N)).astype(np.float32)
  scores[rng.random((Q, N)) < 0.15] = -np.inf
  scores[rng.random((Q, N)) < 0.05] = np.inf
  labels = rng.choice([-1, 0, 0, 0, 1, 2, 3], (Q, N))
  where = rng.random((Q, N)) < 0.8
  scores[10:20] = -np.inf  # Nothing is retrieved.
  labels[20:30] = np.minimum(labels[20:30], 0)  # Nothing is relevant.
  where[30:40] = False  # There is no candidate.
  scores[40:60][rng.random((20, N)) < 0.2] = np.nan
  scores[~where] = rng.choice([np.nan, 7, np.inf], np.count_nonzero(~where))
  return scores, labels, where


SCORES, LABELS, WHERE = draw()
SPOILED = (np.isnan(SCORES) & WHERE).any(-1)


@functools.cache
def expected_values():
  values = jr.evaluate(NAMES, SCORES, LABELS, where=WHERE)
  return {name: np.asarray(x) for name, x in values.items()}


def of_functions(scores, labels, where):
  return {name: metric(scores, labels, where=where) for name, metric in METRICS.items()}


def streamed(update):
  """The values of an evaluator that sees one query, for each query."""
  return jr.Evaluator(NAMES, invalid="propagate").compute(update)


def by_update(scores, labels, where):
  evaluator = jr.Evaluator(NAMES)
  one = lambda s, y, w: evaluator.update(evaluator.init(), s, y, where=w)  # noqa: E731
  return streamed(jax.jit(jax.vmap(one))(scores, labels, where))


def by_adding(scores, labels, where):
  evaluator = jr.Evaluator(NAMES)
  values = jr.evaluate(NAMES, scores, labels, where=where)
  return streamed(jax.vmap(lambda x: evaluator.add(evaluator.init(), x))(values))


def table(queries, items):
  """A similarity that reads scores: queries are rows of scores, and items are columns."""
  return queries[:, items]


def of_corpus(scores, labels, where, host):
  column = np.arange(N)
  positives = np.where(where & (labels != 0), column, -1)
  excluded = np.where(where, -1, column)
  items = column if host else jnp.asarray(column)
  return jr.corpus.evaluate(
    NAMES,
    jnp.asarray(scores),
    items,
    positives,
    labels=labels,
    exclude=excluded,
    similarity=table,
  )


def as_dicts(scores, labels, where):
  """Judgements and a run; unjudged documents are not in one, and lost ones not in the other."""
  qrels, run = {}, {}
  for q in range(Q):
    cells = np.flatnonzero(where[q])
    qrels[f"q{q:03}"] = {f"d{i}": int(labels[q, i]) for i in cells if labels[q, i] >= 0}
    run[f"q{q:03}"] = {f"d{i}": float(scores[q, i]) for i in cells if scores[q, i] != -np.inf}
  kept = [q for q, judged in qrels.items() if judged]
  return {q: qrels[q] for q in kept}, {q: run[q] for q in kept if run[q]}


DOORS = {
  "functions": of_functions,
  "jitted functions": jax.jit(of_functions),
  "lists": lambda *x: of_functions(*(y.tolist() for y in x)),
  "float64 and int64": lambda s, y, w: of_functions(s.astype(np.float64), y.astype(np.int64), w),
  "one query at a time": lambda *x: jax.jit(jax.vmap(of_functions))(*map(jnp.asarray, x)),
  "measures": lambda s, y, w: {m.name: m(s, y, where=w) for m in jr.parse(NAMES)},
  "evaluate, jitted": lambda s, y, w: jax.jit(lambda *x: jr.evaluate(NAMES, *x[:2], where=x[2]))(
    s, y, w
  ),
  "Evaluator.update": by_update,
  "Evaluator.add": by_adding,
  "corpus.evaluate": functools.partial(of_corpus, host=False),
  "corpus.evaluate of the host": functools.partial(of_corpus, host=True),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_has_the_value_of_evaluate(door):
  found = DOORS[door](SCORES, LABELS, WHERE)
  assert set(found) == set(expected_values())
  for name, expected in expected_values().items():
    np.testing.assert_allclose(found[name], expected, rtol=2e-6, atol=1e-7, err_msg=name)


def test_the_cases_hold_what_they_are_drawn_for():
  """And the value of each is the one that the conventions say."""
  for values in expected_values().values():
    np.testing.assert_array_equal(np.isnan(values), SPOILED)
    assert (values[10:40] == 0).all()
    assert np.count_nonzero(values[60:]) > 50
  assert 5 < SPOILED.sum() <= 20
  ranked = np.where(WHERE, SCORES, -np.inf)
  tied = [np.unique(row[row > -np.inf]).size < (row > -np.inf).sum() for row in ranked]
  assert sum(tied) > 100


@pytest.mark.parametrize("arrays", [False, True])
def test_judgements_and_runs_have_the_same_value(arrays):
  """Queries that a file can hold: with a judgement, and finite scores."""
  scores = np.where(SPOILED[:, None], 0, np.minimum(SCORES, 9))
  expected = jr.evaluate(NAMES, scores, LABELS, where=WHERE)
  qrels, run = as_dicts(scores, LABELS, WHERE)
  rows = [int(q[1:]) for q in sorted(qrels)]
  assert len(run) < len(qrels) > 150
  if arrays:
    padded = jr.trec.to_arrays(qrels, run, ties="average", queries="judged")
    found = jr.evaluate(NAMES, padded.scores, padded.labels, where=padded.where)
  else:
    found = jr.trec.evaluate(NAMES, qrels, run, ties="average", queries="judged").values
  for name, value in expected.items():
    np.testing.assert_allclose(
      found[name], value[np.array(rows)], rtol=2e-6, atol=1e-7, err_msg=name
    )


def test_single_targets_have_the_value_of_their_ranks():
  """A target that is retrieved; in `ranks`, a score of -inf is the lowest one."""
  rng = np.random.default_rng(5)
  retrieved = WHERE & ~np.isneginf(SCORES)
  some = retrieved.any(-1)
  targets = np.array([rng.choice(np.flatnonzero(row)) if row.any() else 0 for row in retrieved])
  labels = (np.arange(N) == targets[:, None]).astype(int)
  ours = jr.evaluate("RR Success@1 Success@3", SCORES, labels, where=WHERE)
  names = "mrr hits@1 hits@3"
  excluded = np.where(WHERE, -1, np.arange(N))
  column = jnp.arange(N)
  scores, where = jnp.asarray(SCORES[some]), WHERE[some]
  doors = [
    jr.ranks.from_scores(scores, targets[some], where=where),
    jax.vmap(lambda s, t, w: jr.ranks.from_scores(s, t, where=w))(
      scores, jnp.asarray(targets[some]), jnp.asarray(where)
    ),
    jr.corpus.target_ranks(scores, column, targets[some], exclude=excluded[some], similarity=table),
    jr.corpus.target_ranks(
      scores, np.arange(N), targets[some], exclude=excluded[some], similarity=table
    ),
  ]
  for ranks in doors:
    found = jr.ranks.evaluate(names, jax.tree.map(lambda x: x[:, None], ranks))
    for theirs, value in zip(found.values(), ours.values(), strict=True):
      np.testing.assert_allclose(theirs, value[some], rtol=2e-6, atol=1e-7)
    np.testing.assert_array_equal(ranks.candidates, where.sum(-1))
  assert np.isnan(ours["RR"]).any()


def test_invalid_queries_are_counted_wherever_they_come_from():
  evaluator = jr.Evaluator(NAMES)
  updated = evaluator.update(evaluator.init(), SCORES, LABELS, where=WHERE)
  added = evaluator.add(evaluator.init(), of_corpus(SCORES, LABELS, WHERE, host=False))
  assert int(updated.invalid) == int(added.invalid) == SPOILED.sum()
  with pytest.warns(UserWarning, match="not finite|invalid"):
    means = evaluator.compute(updated)
  live = ~SPOILED & WHERE.any(-1)
  for name, value in means.items():
    assert value == pytest.approx(float(expected_values()[name][live].mean()), rel=1e-5)


def test_top_items_and_rankings_are_spoiled_by_the_same_queries():
  scores, ids = jr.corpus.top_items(
    jnp.asarray(SCORES),
    jnp.arange(N),
    3,
    exclude=np.where(WHERE, -1, np.arange(N)),
    similarity=table,
  )
  np.testing.assert_array_equal(np.isnan(scores).all(-1), SPOILED)
  np.testing.assert_array_equal(np.isnan(scores).any(-1), SPOILED)
  assert (np.asarray(ids)[SPOILED] == -1).all()
