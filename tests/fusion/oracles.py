"""Fusion as its documentation defines it, one query and one item at a time, in double precision.

A query is `[systems, items]` without padding, -inf where a system does not retrieve an item. The
expectation over the orders of tied items is the mean over the ranks that they share.
"""

import itertools
import math

import numpy as np

LOG_ODDS_OF_OTHERS = math.log(0.001 / 0.999)
SEGMENTS = [5, 15, 35, 75, 155, 315, 635, 1275, 2555, 5115]
RANGES = [5, 10, 15, 20, 30, 100, 200, 500, 1000]


def ranks(scores, item):
  """The ranks that an item shares with those of its score, in the list of one system."""
  first = 1 + sum(other > scores[item] for other in scores)
  return [first + tied for tied in range(sum(other == scores[item] for other in scores))]


def mean(values):
  return math.fsum(values) / len(values)


def length(scores):
  return sum(score > -np.inf for score in scores)


def times(weight, value):
  """A weight of 0 takes away an infinite score as well."""
  return 0 if weight == 0 else weight * value


def part(ends, rank):
  """The index of the part of a list, by the ranks at which parts end; None behind all of them."""
  return next((index for index, end in enumerate(ends) if rank <= end), None)


def by_score(rule):
  """A method of the scores of an item and the weights of the systems that retrieve it."""

  def fuse(scores, weights, item, **parameters):
    found = [s for s, x in enumerate(scores) if x[item] > -np.inf]
    x, w = [float(scores[s][item]) for s in found], [float(weights[s]) for s in found]
    return rule(x, w, [times(*pair) for pair in zip(w, x, strict=True)], **parameters)

  return fuse


def by_rank(points, rule=lambda total, systems: total):
  """A method of the sum of weighted points, and of how many systems retrieve the item."""

  def fuse(scores, weights, item, **parameters):
    own = {key: parameters.pop(key) for key in ("sigma",) if key in parameters}
    found = [s for s, x in enumerate(scores) if x[item] > -np.inf]
    total = sum(
      weights[s] * mean([points(rank, **parameters) for rank in ranks(scores[s], item)])
      for s in found
    )
    return rule(total, len(found), **own)

  return fuse


def rrf(scores, weights, item, *, k=60.0, weighs="score"):
  if weighs == "score":
    return by_rank(lambda rank: 1 / (k + rank))(scores, weights, item)
  return sum(
    1 / (k + mean(ranks(x, item)) / w)
    for x, w in zip(scores, weights, strict=True)
    if x[item] > -np.inf and w > 0
  )


def borda_points(scores, system, item):
  """What a system gives to an item that some system retrieves."""
  candidates = sum(max(column) > -np.inf for column in zip(*scores, strict=True))
  x = scores[system]
  if x[item] > -np.inf:
    return mean([candidates + 1 - rank for rank in ranks(x, item)])
  left = [candidates + 1 - rank for rank in range(length(x) + 1, candidates + 1)]
  return mean(left)


def borda_fuse(scores, weights, item):
  return sum(w * borda_points(scores, s, item) for s, w in enumerate(weights))


def majority(scores, weights, item, other):
  """The weight of the systems with an item ahead of another one, less that of the others."""
  return sum(
    w * (int(x[item] > x[other]) - int(x[item] < x[other]))
    for x, w in zip(scores, weights, strict=True)
  )


def condorcet_fuse(scores, weights, item):
  wins = 1.0
  for other, column in enumerate(zip(*scores, strict=True)):
    if other != item and max(column) > -np.inf:
      margin = majority(scores, weights, item, other)
      wins += 0.5 if abs(margin) < 1e-5 else float(margin > 0)
  return wins


def from_table(value, lacking=0.0):
  """A method of what a table says of ranks: `value(rank, row, list, item)`."""

  def fuse(scores, _, item, *, trained, **parameters):
    return sum(
      mean([value(rank, row, x, item, **parameters) for rank in ranks(x, item)])
      if x[item] > -np.inf
      else lacking
      for x, row in zip(scores, trained, strict=True)
    )

  return fuse


def pos_fuse(rank, row, *_):
  return row[rank - 1] if rank <= len(row) else 0.0


def slide_fuse(rank, row, x, _, *, w=5):
  window = range(max(rank - int(w), 1), min(rank + int(w), length(x)) + 1)
  return mean([pos_fuse(near, row) for near in window])


def prob_fuse(rank, row, x, _):
  segment = (rank - 1) // math.ceil(length(x) / len(row))
  return row[segment] / (segment + 1)


def seg_fuse(rank, row, x, item):
  segment = part(SEGMENTS, rank)
  return 0.0 if segment is None else times(row[segment], float(x[item]) + 1)


def bayes_fuse(rank, row, *_):
  found = part(RANGES, rank)
  return LOG_ODDS_OF_OTHERS if found is None else row[found]


def anz(_, w, weighted):
  return sum(weighted) / sum(w) if sum(w) else 0.0


def inverse_square(rank):
  return 1 / rank**2


METHODS = {
  "comb_sum": by_score(lambda x, w, weighted: sum(weighted)),
  "comb_max": by_score(lambda x, w, weighted: max(weighted)),
  "comb_min": by_score(lambda x, w, weighted: min(weighted)),
  "comb_med": by_score(lambda x, w, weighted: np.median(weighted)),
  "comb_anz": by_score(anz),
  "comb_mnz": by_score(lambda x, w, weighted: len(x) * sum(weighted)),
  "comb_gmnz": by_score(lambda x, w, weighted, gamma=2.0: len(x) ** gamma * sum(weighted)),
  "weighted_mnz": by_score(lambda x, w, weighted: times(sum(w), sum(x))),
  "mixed": by_score(lambda x, w, weighted: math.sqrt(len(x)) * sum(weighted)),
  "rrf": rrf,
  "isr": by_rank(inverse_square, lambda total, systems: systems * total),
  "log_isr": by_rank(inverse_square, lambda total, systems: math.log(systems) * total),
  "logn_isr": by_rank(
    inverse_square, lambda total, systems, sigma=0.01: math.log(systems + sigma) * total
  ),
  "rbc": by_rank(lambda rank, phi=0.9: (1 - phi) * phi ** (rank - 1)),
  "borda_fuse": borda_fuse,
  "condorcet_fuse": condorcet_fuse,
  "map_fuse": from_table(lambda rank, row, x, item: row / rank),
  "pos_fuse": from_table(pos_fuse),
  "slide_fuse": from_table(slide_fuse),
  "prob_fuse": from_table(prob_fuse),
  "seg_fuse": from_table(seg_fuse),
  "bayes_fuse": from_table(bayes_fuse, lacking=LOG_ODDS_OF_OTHERS),
}


def fused(name, scores, weights, **parameters):
  """The fused scores `[items]` of a query."""
  scores = np.asarray(scores, float)
  if np.isnan(scores).any():
    return np.full(scores.shape[1], np.nan)
  lists, weights = scores.tolist(), np.asarray(weights, float).tolist()
  return np.array([
    METHODS[name](lists, weights, item, **parameters) if column.max() > -np.inf else -np.inf
    for item, column in enumerate(scores.T)
  ])  # fmt: skip


def centred(x, finite):
  """The z-score of each finite score of a list; +inf stays."""
  spread = finite.std() if finite.size and finite.min() < finite.max() else 0
  return [s if s == np.inf else (s - finite.mean()) / spread if spread else 0.0 for s in x]


def scaled(name, x, lower=0.0):
  """The scores of the items that a system retrieves, normalised; +inf counts as the largest."""
  finite = x[np.isfinite(x)]
  low, high = (finite.min(), finite.max()) if finite.size else (0, 0)
  if name in ("z_score", "distribution"):
    z = np.array(centred(x, finite))
    return z if name == "z_score" else np.clip(0.5 + z / 6, 0, 1)
  if name == "rank_norm":
    return np.array([1 - mean([rank - 1 for rank in ranks(x, item)]) / len(x)
                     for item in range(len(x))])  # fmt: skip
  start, end = {
    "min_max": (low, high),
    "sum_norm": (low, high),
    "theoretical_min_max": (lower, max(high, lower)),
    "max_norm": (0, abs(high) or 1),
  }[name]
  y = np.array([1 if s == np.inf else (s - start) / (end - start) if end > start else 0 for s in x])
  return y / y.sum() if name == "sum_norm" and y.sum() else y


def normalised(name, scores, missing=None, **parameters):
  """The normalised scores `[systems, items]` of a query."""
  scores = np.asarray(scores, float)
  known = np.where(np.isnan(scores), 0, scores)
  found = known > -np.inf
  candidates = found.any(axis=0)
  out = np.full(scores.shape, -np.inf)
  for system, (x, has) in enumerate(zip(known, found, strict=True)):
    unknown = np.isnan(scores[system]).any()
    if name == "borda":
      for item in np.flatnonzero(candidates):
        points = borda_points(known.tolist(), system, item) / candidates.sum()
        out[system, item] = np.nan if unknown else points
      continue
    out[system, has] = np.nan if unknown else scaled(name, x[has], **parameters)
    least = out[system, has].min() if has.any() else 0
    filler = -np.inf if missing is None else least if missing == "min" else missing
    out[system, candidates & ~has] = filler
  return out


def expected_hits(scores, relevant):
  """The share of relevant items at each rank of a list, over the orders of tied items."""
  retrieved = [item for item, score in enumerate(scores) if score > -np.inf]
  hits = np.zeros(len(retrieved))
  for item in retrieved:
    shared = ranks(scores, item)
    for rank in shared:
      hits[rank - 1] += relevant[item] / len(shared)
  return hits


def average_precision(scores, relevant):
  """The mean over all the ranks at which the relevant items of each tie may stand."""
  blocks = []
  for value in sorted({s for s in scores if s > -np.inf}, reverse=True):
    hits = [bool(r) for s, r in zip(scores, relevant, strict=True) if s == value]
    blocks.append([
      [place in chosen for place in range(len(hits))]
      for chosen in itertools.combinations(range(len(hits)), sum(hits))
    ])  # fmt: skip
  values = []
  for orders in itertools.product(*blocks):
    order = [hit for block in orders for hit in block]
    found = [sum(order[: place + 1]) / (place + 1) for place, hit in enumerate(order) if hit]
    values.append(sum(found) / max(sum(relevant), 1))
  return mean(values)


def train(name, scores, relevant, where, n_segments=10):
  """What a method learns of `scores` `[systems, queries, n]` with padding."""
  learnt = []
  for system in np.asarray(scores, float):
    queries = [(x[w], r[w]) for x, r, w in zip(system, relevant, where, strict=True) if w.any()]
    if name == "map_fuse":
      learnt.append(mean([average_precision(x.tolist(), r.tolist()) for x, r in queries]))
      continue
    hits = [expected_hits(x.tolist(), r.tolist()) for x, r in queries]
    if name in ("pos_fuse", "slide_fuse"):
      at = [[h[rank] for h in hits if len(h) > rank] for rank in range(scores.shape[-1])]
      learnt.append([mean(values) if values else 0 for values in at])
    elif name == "prob_fuse":
      sizes = [math.ceil(len(h) / n_segments) for h in hits]
      parts = [
        [h[k * size : (k + 1) * size] for h, size in zip(hits, sizes, strict=True)]
        for k in range(n_segments)
      ]
      learnt.append([mean([p.mean() if p.size else 0 for p in of_part]) for of_part in parts])
    else:
      ends = [0, *(RANGES if name == "bayes_fuse" else SEGMENTS)]
      shares = [
        mean([h[start:end].sum() / (end - start) for h in hits])
        for start, end in itertools.pairwise(ends)
      ]
      learnt.append([log_odds(p) for p in shares] if name == "bayes_fuse" else shares)
  return np.array(learnt)


def log_odds(share):
  """Of 1/1,000 where nothing was relevant, and where everything was with 1/1,000 for the rest."""
  share = share or 0.001
  rest = 0.001 if math.isclose(share, 1) else 1 - share
  return math.log(share / rest)
