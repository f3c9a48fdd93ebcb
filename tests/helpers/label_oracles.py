"""Class-labelled retrieval in plain Python, over relevances in ranked order."""

import math


def average_precision(b, k=None):
  """Over the relevant items of the first `k`."""
  found = [rank for rank, relevant in enumerate(b[:k], start=1) if relevant]
  return sum(i / rank for i, rank in enumerate(found, start=1)) / max(len(found), 1)


def hit_rate(b, k=None):
  return float(any(b[:k]))


def precision(b, k=None):
  return sum(b[:k]) / (k or max(len(b), 1))


def ndcg(b, k=None):
  def dcg(b):
    return sum(relevant / math.log2(i + 2) for i, relevant in enumerate(b[:k]))

  return dcg(b) / (dcg(sorted(b, reverse=True)) or 1.0)


def mrr(b, k=None):
  return next((1 / rank for rank, relevant in enumerate(b[:k], start=1) if relevant), 0.0)


METRICS = {
  "map": average_precision,
  "hit_rate": hit_rate,
  "precision": precision,
  "ndcg": ndcg,
  "mrr": mrr,
}


def mean(values):
  values = list(values)
  return sum(values) / len(values) if values else 0.0


def plain(metric, queries, lists, k=None):
  """The mean over the queries with a class."""
  pairs = [(q, c) for q, c in zip(queries, lists, strict=True) if q is not None]
  return mean(metric([label == q for label in c], k) for q, c in pairs)


def intersecting(metric, queries, lists, k=None):
  """The mean over the queries with a row, of candidates that share a class."""
  pairs = [(q, c) for q, c in zip(queries, lists, strict=True) if q is not None]
  return mean(metric([any(x * y for x, y in zip(q, r, strict=True)) for r in c], k)
              for q, c in pairs)  # fmt: skip


def macro(metric, queries, lists, k=None, joint_absence=False):
  """The mean over classes, each over the queries that have it; or over all, as they have it."""
  pairs = [(q, c) for q, c in zip(queries, lists, strict=True) if q is not None]
  means = []
  for i in range(len(pairs[0][0])):
    columns = [(q[i], [row[i] for row in c]) for q, c in pairs]
    values = [metric([x == q for x in column], k) for q, column in columns if q or joint_absence]
    if values:
      means.append(mean(values))
  return mean(means)
