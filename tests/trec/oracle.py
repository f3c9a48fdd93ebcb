"""Random judgements and runs, and trec_eval's order, one query at a time in plain Python."""

import numpy as np


def draw(seed, queries=200, longest=40):
  """A qrels and a run as dictionaries: ties, negative and missing judgements, queries on one side.

  Ids have several lengths, and bytes above those of ASCII.
  """
  rng = np.random.default_rng(seed)
  names = [f"doc{'é' * int(i % 2)}{i * 37}{'x' * int(i % 12)}" for i in range(3 * longest)]
  qrels, run = {}, {}
  for i in range(queries):
    judged = rng.choice(names, rng.integers(1, longest), replace=False).tolist()
    labels = rng.choice([-2, -1, 0, 0, 0, 1, 2, 3], len(judged)).tolist()
    if i % 10 == 0:
      labels = [min(label, 0) for label in labels]
    # trec_eval crashes if a query has only labels below -1.
    labels[0] = max(labels[0], 0)
    if i % 20 != 1:
      qrels[f"q{i}"] = dict(zip(judged, labels, strict=True))
    # Most documents come from those judged, so that the two meet.
    pool = [*judged, *rng.choice(names, longest, replace=False).tolist()]
    retrieved = list(dict.fromkeys(rng.permutation(pool).tolist()))[: rng.integers(1, longest)]
    # Some scores differ in double precision only.
    scores = rng.integers(0, 12, len(retrieved)) / 4 - 1 + rng.choice([0, 1e-9], len(retrieved))
    if i % 20 != 2:
      run[f"q{i}"] = dict(zip(retrieved, scores.tolist(), strict=True))
  return qrels, run


def order(ranking):
  """The documents in the order of trec_eval 9.0.8 and 10: scores and then ids, both descending."""
  return sorted(ranking, key=lambda x: (ranking[x], x.encode()), reverse=True)


def average_precision(qrels, ranking):
  """The average precision of one query, by its definition."""
  relevant = {x for x, label in qrels.items() if label > 0}
  hits, total = 0, 0.0
  for rank, document in enumerate(order(ranking), 1):
    if document in relevant:
      hits += 1
      total += hits / rank
  return total / max(len(relevant), 1)
