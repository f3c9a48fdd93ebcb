"""The definitions of every metric for one query, slow and obvious, in plain Python.

A query is the list of its valid items; padding is dropped before anything is defined. A metric is
a function of one definite order of the retrieved items, and a tie mode is a set of orders with
their probabilities, so that ties are defined once, for all metrics, by enumeration. Nothing here
knows how jaxrank computes anything.
"""

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable
from decimal import Decimal
from itertools import combinations, groupby, permutations, product
from typing import NamedTuple

TIES = ("average", "stable", "optimistic", "pessimistic")


class Item(NamedTuple):
  """One valid candidate."""

  score: float
  label: float
  weight: float = 1.0


Items = tuple[Item, ...]
Orders = list[tuple[float, tuple[Item, ...]]]


def query(
  scores: Iterable[float],
  labels: Iterable[float],
  where: Iterable[bool] | None = None,
  weights: Iterable[float] | None = None,
) -> Items:
  """The valid items of one padded row, in column order."""
  scores = [float(score) for score in scores]
  where = [True] * len(scores) if where is None else where
  weights = [1.0] * len(scores) if weights is None else weights
  cells = zip(scores, labels, weights, where, strict=True)
  return tuple(Item(s, float(label), float(weight)) for s, label, weight, valid in cells if valid)


def poisoned(items: Items) -> bool:
  """Whether a NaN makes every value of the query NaN."""
  return any(math.isnan(item.score) or math.isnan(item.label) for item in items)


def retrieved(items: Items) -> list[Item]:
  """The items that have a rank: a score of -inf means known, but not retrieved."""
  return [item for item in items if item.score > -math.inf]


def tie_groups(items: Items) -> list[list[Item]]:
  """Retrieved items, best score first, those of equal score together in column order."""
  ordered = sorted(retrieved(items), key=lambda item: -item.score)
  return [list(group) for _, group in groupby(ordered, key=lambda item: item.score)]


def order_count(items: Items) -> int:
  """How many orders of the retrieved items the scores allow."""
  return math.prod(math.factorial(len(group)) for group in tie_groups(items))


def orders(items: Items, ties: str = "average") -> Orders:
  """The orders that a tie mode allows, each with its probability.

  Equal items of a tie group are interchangeable, so equal orders are counted and not repeated.
  """
  groups = tie_groups(items)
  if ties == "average":
    choices = [list(Counter(permutations(group)).items()) for group in groups]
  elif ties == "stable":
    choices = [[(tuple(group), 1)] for group in groups]
  elif ties in ("optimistic", "pessimistic"):
    sign = -1 if ties == "optimistic" else 1
    by_label = [sorted(group, key=lambda item: sign * item.label) for group in groups]
    choices = [[(tuple(group), 1)] for group in by_label]
  else:
    raise ValueError(f"no such tie mode: {ties!r}")
  total = math.prod(sum(count for _, count in choice) for choice in choices)
  return [
    (
      math.prod(count for _, count in parts) / total,
      tuple(item for group, _ in parts for item in group),
    )
    for parts in product(*choices)
  ]


def expectation(
  metric: Callable[..., float], items: Items, ties: str | Orders = "average", **parameters
) -> float:
  """The mean of a metric over the orders of the query (a tie mode, or the orders themselves)."""
  if poisoned(items):
    return math.nan
  ranked = orders(items, ties) if isinstance(ties, str) else ties
  return sum(probability * metric(order, items, **parameters) for probability, order in ranked)


def is_relevant(item: Item, rel: float | None = None) -> bool:
  """Relevance of one item: a positive label, or one that reaches `rel`; never an unjudged one."""
  return item.label > 0 if rel is None else item.label >= max(rel, 0)


def relevant_count(items: Items, rel: float | None = None) -> int:
  """R, or the hits of an order."""
  return sum(is_relevant(item, rel) for item in items)


def relevant_weight(items: Items, rel: float | None = None) -> float:
  """The weight of the relevant items; their number where every weight is 1."""
  return sum(item.weight for item in items if is_relevant(item, rel))


def is_judged(item: Item) -> bool:
  """Whether an assessor has seen the item: a negative label stands for "not judged"."""
  return item.label >= 0


def cutoff(items: Items, k: int | None) -> int:
  """The cut-off k; None stands for all valid items, retrieved or not."""
  return len(items) if k is None else k


def ratio(numerator: float, denominator: float) -> float:
  """The quotient, or 0 where there is nothing to divide by."""
  return numerator / denominator if denominator else 0.0


def precision(order, items, k=None, rel=None, divisor="k"):
  """The weight of the hits in the top k, divided by k or by as many as there can be."""
  k = cutoff(items, k)
  hits, retrieved, relevant = (
    relevant_weight(order[:k], rel),
    len(order),
    relevant_count(items, rel),
  )
  limits = {"k": k, "retrieved": retrieved, "relevant": relevant}
  limits["attainable"] = min(retrieved, relevant)
  return ratio(hits, min(k, limits[divisor]))


def recall(order, items, k=None, rel=None):
  """The weight of the hits in the top k, divided by that of all relevant items."""
  k = cutoff(items, k)
  return ratio(relevant_weight(order[:k], rel), relevant_weight(items, rel))


def f_measure(order, items, k=None, rel=None, beta=1.0, divisor="k"):
  """The weighted harmonic mean of precision and recall (van Rijsbergen 1979)."""
  p, r = precision(order, items, k, rel, divisor), recall(order, items, k, rel)
  return ratio((1 + beta**2) * p * r, beta**2 * p + r)


def hit_rate(order, items, k=None, rel=None):
  """Whether any of the top k is relevant."""
  return float(any(is_relevant(item, rel) for item in order[: cutoff(items, k)]))


def reciprocal_rank(order, items, k=None, rel=None):
  """One over the rank of the first relevant item of the top k."""
  for rank, item in enumerate(order[: cutoff(items, k)], start=1):
    if is_relevant(item, rel):
      return 1 / rank
  return 0.0


def precision_sum(order, items, k=None, rel=None):
  """The sum of the precision at the rank of every relevant item of the top k."""
  total, hits = 0.0, 0
  for rank, item in enumerate(order[: cutoff(items, k)], start=1):
    if is_relevant(item, rel):
      hits += 1
      total += hits / rank
  return total


def hit_count(order, items, k=None, rel=None):
  """The number of relevant items in the top k."""
  return relevant_count(order[: cutoff(items, k)], rel)


def average_precision(items, ties="average", k=None, rel=None, normalizer="relevant"):
  """Average precision of a query, over its orders.

  Of the three divisors only the number of hits depends on the order; the value is then the ratio
  of the two expectations, which is why this one takes the query and not one order.
  """
  if poisoned(items):
    return math.nan
  ranked = orders(items, ties) if isinstance(ties, str) else ties
  total = expectation(precision_sum, items, ranked, k=k, rel=rel)
  count = relevant_count(items, rel)
  if normalizer == "cutoff":
    count = min(cutoff(items, k), count)
  elif normalizer == "retrieved":
    count = expectation(hit_count, items, ranked, k=k, rel=rel)
  elif normalizer != "relevant":
    raise ValueError(f"no such normalizer: {normalizer!r}")
  return ratio(total, count)


def share_of(level, count):
  """The share of a count rounded up, or as trec_eval rounds for a `Decimal`."""
  if isinstance(level, Decimal):
    return int(float(level) * count + 0.9)
  return math.ceil(level * count - 1e-9)


def q_measure(order, items, k=None, rel=None, beta=1.0, gains="linear", normalizer="relevant"):
  """The blended ratio at each relevant item (Sakai 2004), over the number of relevant items."""
  total, count, cumulative, best = 0.0, 0, 0.0, 0.0
  ideal = sorted((gain(item.label, gains) for item in items), reverse=True)
  for rank, item in enumerate(order[: cutoff(items, k)], start=1):
    count += is_relevant(item, rel)
    cumulative += gain(item.label, gains)
    best += ideal[rank - 1]
    if is_relevant(item, rel):
      total += (count + beta * cumulative) / (rank + beta * best)
  limit = cutoff(items, k if normalizer == "cutoff" else None)
  return ratio(total, min(limit, relevant_count(items, rel)))


def r_precision(order, items, rel=None, multiple=1):
  """Precision at R, or at a multiple of it."""
  count = share_of(multiple, relevant_count(items, rel))
  return precision(order, items, count, rel) if count else 0.0


def fall_out(order, items, k=None, rel=None):
  """Non-relevant items retrieved in the top k, divided by all non-relevant items."""
  top = order[: cutoff(items, k)]
  misses = sum(not is_relevant(item, rel) for item in top)
  return ratio(misses, sum(not is_relevant(item, rel) for item in items))


def judged(order, items, k=None, of="judged", divisor="retrieved"):
  """Items of the kind in the top k, divided by k or the number of items retrieved in the top k."""
  top = order[: cutoff(items, k)]
  kinds = {
    "judged": is_judged,
    "pooled": lambda item: is_judged(item) or item.label < -1,
    "unjudged": lambda item: not is_judged(item),
  }
  return ratio(sum(map(kinds[of], top)), cutoff(items, k) if divisor == "k" else len(top))


def hole(order, items, k=None):
  """The share of the top k that no assessor has seen."""
  first = order[: cutoff(items, k)]
  return ratio(sum(not is_judged(item) for item in first), len(first))


def bpref(order, items, rel=None):
  """Binary preference as trec_eval computes it, in one pass down the ranking.

  Buckley and Voorhees (2004), with the divisor min(R, N) of trec_eval; N counts judged
  non-relevant items whether they are retrieved or not.
  """
  relevant = relevant_count(items, rel)
  others = sum(is_judged(item) and not is_relevant(item, rel) for item in items)
  total, others_so_far = 0.0, 0
  for item in order:
    if is_relevant(item, rel):
      if others_so_far:
        total += 1 - min(others_so_far, relevant) / min(others, relevant)
      else:
        total += 1
    elif is_judged(item):
      others_so_far += 1
  return ratio(total, relevant)


def gap(order, items, k=None, max_label=None, chances=None):
  """Graded average precision (Robertson, Kanoulas and Yilmaz 2010).

  A user takes labels from a threshold c on as relevant, with probability `chances[c - 1]`.
  """
  chances = [1 / max_label] * max_label if chances is None else chances
  found = best = 0.0
  for threshold, chance in enumerate(chances, start=1):
    found += chance * precision_sum(order, items, k, threshold)
    best += chance * relevant_count(items, threshold)
  return ratio(found, best)


def gain(label, name="linear"):
  """The gain of a label: a name, or a table of the gains of labels 0, 1, ...; none if unjudged."""
  if label < 0:
    return 0.0
  if not isinstance(name, str):
    return float(name[int(label)])
  return {"exponential": 2.0**label - 1, "linear": label, "binary": float(label > 0)}[name]


def discount(rank, name="logarithmic"):
  """The discount at a rank: a name, or the ratio of a geometric one."""
  if not isinstance(name, str):
    return name ** (rank - 1)
  return {
    "logarithmic": 1 / math.log2(1 + rank),
    "reciprocal": 1 / rank,
    "constant": 1.0,
    # For a target of 1.5.
    "inverse_square": (3 / (2 + rank)) ** 2,
  }[name]


def dcg(order, items, k=None, gains="linear", discounts="logarithmic"):
  """Discounted cumulative gain (Jarvelin and Kekalainen 2002)."""
  return sum(
    item.weight * gain(item.label, gains) * discount(rank, discounts)
    for rank, item in enumerate(order[: cutoff(items, k)], start=1)
  )


@functools.lru_cache(maxsize=16)
def ideal_dcg(items, k=None, gains="linear", discounts="logarithmic"):
  """The largest DCG that any ranking of the query's items has."""
  best = sorted(items, key=lambda item: -item.weight * gain(item.label, gains))
  return dcg(best, items, k, gains, discounts)


def ndcg(order, items, k=None, gains="linear", discounts="logarithmic"):
  """DCG divided by the ideal DCG."""
  value = dcg(order, items, k, gains, discounts)
  return ratio(value, ideal_dcg(items, k, gains, discounts))


def stop_probability(label, max_label):
  """The probability that an item satisfies the user; labels above the best grade count as it."""
  return gain(min(label, max_label), "exponential") / 2**max_label


def err(order, items, k=None, max_label=None):
  """Expected reciprocal rank (Chapelle et al. 2009)."""
  total, reaches = 0.0, 1.0
  for rank, item in enumerate(order[: cutoff(items, k)], start=1):
    stop = stop_probability(item.label, max_label)
    total += reaches * stop / rank
    reaches *= 1 - stop
  return total


@functools.lru_cache(maxsize=16)
def ideal_err(items, k=None, max_label=None):
  """ERR of the items in descending order of label."""
  return err(sorted(items, key=lambda item: -item.label), items, k, max_label)


def nerr(order, items, k=None, max_label=None):
  """ERR divided by the ideal ERR."""
  return ratio(err(order, items, k, max_label), ideal_err(items, k, max_label))


def rbp(order, items, k=None, rel=None, persistence=0.8, gain=None, normalizer="none"):
  """Rank-biased precision (Moffat and Zobel 2008)."""

  def worth(item):
    return float(is_relevant(item, rel)) if gain is None else max(item.label, 0.0)

  largest = max([1.0, *map(worth, items)]) if normalizer == "largest" else 1.0
  return (1 - persistence) * sum(
    worth(item) / largest * item.weight * persistence ** (rank - 1)
    for rank, item in enumerate(order[: cutoff(items, k)], start=1)
  )


def curve(items, ties="average", max_k=None, adaptive_k=False):
  """Precision, recall and the divisor of precision at every cut-off up to `max_k`."""
  max_k = cutoff(items, max_k)
  ranked = ties if poisoned(items) or not isinstance(ties, str) else orders(items, ties)
  ks = [min(k, len(items)) if adaptive_k else k for k in range(1, max_k + 1)]
  recalls = [expectation(recall, items, ranked, k=k) for k in range(1, max_k + 1)]
  hits = [expectation(hit_count, items, ranked, k=k) for k in range(1, max_k + 1)]
  return [ratio(h, k) for h, k in zip(hits, ks, strict=True)], recalls, ks


def interpolated_precision(items, ties="average", level=0.0, rel=None, rounding="up"):
  """The best precision at a cut-off whose recall reaches the level, on the curve of the query."""
  if poisoned(items):
    return math.nan
  ranked = orders(items, ties) if isinstance(ties, str) else ties
  best = 0.0
  count = relevant_count(items, rel)
  for k in range(1, len(items) + 1):
    hits = expectation(hit_count, items, ranked, k=k, rel=rel)
    wanted = share_of(level, count) if isinstance(level, Decimal) else level * count
    if rounding == "nearest":
      wanted = math.floor(float(level) * count + 0.5)
    if count and hits >= wanted - 1e-9:
      best = max(best, hits / k)
  return best


def eleven_point_average(items, ties="average", rel=None, levels=None, rounding="up"):
  """The mean of the interpolated precision at the levels 0, 0.1, ..., 1, or at others."""
  read = Decimal if rounding == "trec_eval" else float
  levels = [read(level) for level in levels or [i / 10 for i in range(11)]]
  values = [interpolated_precision(items, ties, level, rel, rounding) for level in levels]
  return sum(values) / len(values)


def set_average_precision(items, ties="average", k=None, rel=None):
  """Precision among the retrieved items times recall, of the expected number of hits."""
  if poisoned(items):
    return math.nan
  ranked = orders(items, ties) if isinstance(ties, str) else ties
  hits = expectation(hit_count, items, ranked, k=k, rel=rel)
  found = min(cutoff(items, k), len(retrieved(items)))
  return ratio(hits, found) * ratio(hits, relevant_count(items, rel))


def utility(order, items, k=None, rel=None, hit=1.0, other=-1.0, miss=0.0, rest=0.0, collection=0):
  """The utilities of the items in the top k, and of those of the collection that are not there."""
  top = order[: cutoff(items, k)]
  hits = relevant_count(top, rel)
  others, relevant = len(top) - hits, relevant_count(items, rel)
  left_out = rest * (collection - relevant - others) if items else 0
  return hit * hits + other * others + miss * (relevant - hits) + left_out


def item_count(order, items, k=None, rel=None, of="relevant_retrieved"):
  """The items of a kind in the top k."""
  top = order[: cutoff(items, k)]
  if of == "retrieved":
    return len(top)
  if of == "judged_others_retrieved":
    return sum(is_judged(item) and not is_relevant(item, rel) for item in top)
  return relevant_count(items if of == "relevant" else top, rel)


def query_count(order, items):
  """One for a query with items."""
  return float(len(items) > 0)


def logarithm(value, floor):
  """The logarithm of a value that is not less than the floor."""
  return value if math.isnan(value) else math.log(max(value, floor))


def log_average_precision(items, ties="average", k=None, rel=None, floor=1e-5):
  """The logarithm of average precision."""
  return logarithm(average_precision(items, ties, k, rel), floor)


def log_bpref(items, ties="average", rel=None, floor=1e-5):
  """The logarithm of bpref."""
  return logarithm(expectation(bpref, items, ties, rel=rel), floor)


def rbp_residual(order, items, k=None, persistence=0.8, tail="always"):
  """The RBP of a list that goes on for ever, of which each unjudged item is relevant."""
  if tail == "unjudged" and all(map(is_judged, order)):
    return 0.0
  top = order[: cutoff(items, k)]
  unknown = [rank for rank, item in enumerate(top, start=1) if not is_judged(item)]
  found = (1 - persistence) * sum(persistence ** (rank - 1) for rank in unknown)
  return found + persistence ** len(top)


def binary_normalized_gain(order, items, rel=None):
  """binG of trec_eval, in one pass down the ranking."""
  total, others = 0.0, 0
  for item in order:
    if is_relevant(item, rel):
      total += 1 / math.log2(2 + others)
    others += not is_relevant(item, rel)
  return ratio(total, relevant_count(items, rel))


def grade(label, max_label, min_label=0):
  """The gain of a label between the two grades, from 0 to 1."""
  return min(max(label - min_label, 0), max_label - min_label) / (max_label - min_label)


@functools.lru_cache(maxsize=16)
def insq_weights(patience, target):
  """The weights of the ranks to the last one of a user, or far down, and the sum of all."""
  last = patience or 300
  weights = [(2 * target / (2 * target + rank - 1)) ** 2 for rank in range(1, last + 1)]
  # The rest of the sum by the formula of Euler and Maclaurin.
  return weights, sum(weights) + (0 if patience else (2 * target) ** 2 / (2 * target + last - 0.5))


def insq(order, items, patience=None, target=1.0, max_label=None, min_label=0):
  """INSQ of cwl_eval, to the last rank of a user, of a list that goes on; far down if none."""
  weights, total = insq_weights(patience, target)
  found = [grade(item.label, max_label, min_label) for item in order]
  return sum(g * w for g, w in zip(found, weights, strict=False)) / total


def sdcg(order, items, k=None, max_label=None, min_label=0, discounts="logarithmic"):
  """DCG over that of k items of the best grade."""
  shares = [discount(rank, discounts) for rank in range(1, cutoff(items, k) + 1)]
  found = [grade(item.label, max_label, min_label) for item in order]
  return ratio(sum(g * d for g, d in zip(found, shares, strict=False)), sum(shares))


def at_each_rank(items, ties, worth):
  """The expected worth of the item at each rank, 0 where there is none."""
  ranked = orders(items, ties) if isinstance(ties, str) else ties
  return [
    sum(p * worth(order[rank]) for p, order in ranked if rank < len(order))
    for rank in range(len(items))
  ]


def inferred_average_precision(items, ties="average", rel=None):
  """infAP of trec_eval, in one pass down the expected numbers at the ranks."""
  if poisoned(items):
    return math.nan
  hits = at_each_rank(items, ties, lambda item: is_relevant(item, rel))
  misses = at_each_rank(items, ties, lambda item: is_judged(item) and not is_relevant(item, rel))
  waiting = at_each_rank(items, ties, lambda item: item.label < -1)
  total = h = m = p = 0.0
  for rank, (hit, miss, wait) in enumerate(zip(hits, misses, waiting, strict=True), start=1):
    m, p = m + miss, p + wait
    precision = (h + 1e-5) / (h + m + 2e-5)
    total += hit * (1 / rank + (h + m + p) / rank * precision)
    h += hit
  return ratio(total, relevant_count(items, rel))


def best_gains(items, gains="linear"):
  """The gains of the items that have one, largest first."""
  return sorted((g for item in items if (g := gain(item.label, gains)) > 0), reverse=True)


def normalized_gain(items, ties="average", gains="linear"):
  """G of trec_eval, in one pass down the expected gains at the ranks."""
  if poisoned(items):
    return math.nan
  best, total, behind = best_gains(items, gains), 0.0, 0.0
  for rank, found in enumerate(at_each_rank(items, ties, lambda item: gain(item.label, gains))):
    behind += (best[rank] if rank < len(best) else 1) - found
    total += found / math.log2(2 + behind)
  return ratio(total, sum(best))


def ndcg_curve(items, ties, gains, discounts):
  """nDCG at each rank."""
  best, values, dcg, ideal = best_gains(items, gains), [], 0.0, 0.0
  for rank, found in enumerate(at_each_rank(items, ties, lambda item: gain(item.label, gains))):
    share = discount(rank + 1, discounts)
    dcg, ideal = dcg + found * share, ideal + (best[rank] * share if rank < len(best) else 0)
    values.append(ratio(dcg, ideal))
  return values


def ndcg_at_relevant(items, ties="average", gains="linear", discounts="logarithmic"):
  """ndcg_rel of trec_eval: the mean over the items with a gain, the last value if not retrieved."""
  if poisoned(items):
    return math.nan
  hits = at_each_rank(items, ties, lambda item: gain(item.label, gains) > 0)
  values, count = ndcg_curve(items, ties, gains, discounts), len(best_gains(items, gains))
  found = sum(hit * value for hit, value in zip(hits, values, strict=True))
  return ratio(found + (count - sum(hits)) * values[-1], count) if items else 0.0


def ndcg_at_levels(items, ties="average", gains="linear", discounts="logarithmic", rel=None):
  """Rndcg of trec_eval: the mean over the ranks of the last item of each gain, and of the list."""
  if poisoned(items):
    return math.nan
  best, values = best_gains(items, gains), ndcg_curve(items, ties, gains, discounts)
  found = [values[sum(g >= level for g in best) - 1] for level in set(best)]
  if len(retrieved(items)) > len(best) + 1:
    found.append(values[-1])
  return ratio(sum(found), len(found)) if best and relevant_count(items, rel) else 0.0


def expected_gains(items, ties, max_label, min_label):
  """The expected gains at the ranks for models of users."""
  return at_each_rank(items, ties, lambda item: grade(item.label, max_label, min_label))


def inst(items, ties="average", patience=None, target=1.0, max_label=None, min_label=0):
  """INST of cwl_eval, to the last rank of a user, of a list that goes on; far down if none."""
  if poisoned(items):
    return math.nan
  gains = expected_gains(items, ties, max_label, min_label)
  reach, total, value, length = 1.0, 0.0, 0.0, 0.0
  for rank in range(1, (patience or 300) + 1):
    found = gains[rank - 1] if rank <= len(gains) else 0.0
    value, length, total = value + reach * found, length + reach, total + found
    wanted = rank + 2 * target - total
    reach *= ((wanted - 1) / wanted) ** 2
  # The rest of the sum by the formula of Euler and Maclaurin.
  return value / (length + (0 if patience else reach * (wanted + 0.5)))


def bpm(items, ties="average", k=None, target=1.0, max_label=None, min_label=0):
  """The static BPM of cwl_eval: down to the rank at which the target or the cut-off is reached."""
  if poisoned(items):
    return math.nan
  total = 0.0
  gains = expected_gains(items, ties, max_label, min_label)
  for rank in range(1, cutoff(items, k) + 1):
    total += gains[rank - 1] if rank <= len(gains) else 0.0
    if total >= target - 1e-9 or rank == cutoff(items, k):
      return total / rank
  return 0.0


def nearly_err(items, ties="average", k=None, max_label=None, min_label=0, discounts="constant"):
  """NERR of cwl_eval: the gain and the ranks seen, in one pass down each order of a padded list."""
  if poisoned(items):
    return math.nan
  last, value, length = cutoff(items, k), 0.0, 0.0
  for probability, order in orders(items, ties) if isinstance(ties, str) else ties:
    going = probability
    for rank in range(1, last + 1):
      label = order[rank - 1].label if rank <= len(order) else min_label
      found, weight = grade(label, max_label, min_label), going * discount(rank, discounts)
      value, length, going = value + weight * found, length + weight, going * (1 - found)
  return ratio(value, length)


def retrieved_auc(items, ties="average", k=None, rel=None):
  """`Accuracy` of ir_measures: the share of pairs at the first ranks in the right order.

  Of expected numbers at the ranks, those at one rank are in the right order half of the time.
  """
  if poisoned(items):
    return math.nan
  at = at_each_rank(items, ties, lambda item: is_relevant(item, rel))[: cutoff(items, k)]
  filled = at_each_rank(items, ties, lambda item: True)
  others = [there - hit for there, hit in zip(filled, at, strict=False)]
  right = sum(hit * (other / 2 + sum(others[rank + 1 :])) for rank, (hit, other) in
              enumerate(zip(at, others, strict=True)))  # fmt: skip
  return ratio(right, sum(at) * sum(others))


def compatibility(items, ties="average", persistence=0.95, normalizer="ideal"):
  """Compat of ir_measures; at each depth, the smaller number of each label in both lists."""
  if poisoned(items):
    return math.nan
  grades = sorted({item.label for item in items if item.label > 0}, reverse=True)
  shown = {y: at_each_rank(items, ties, lambda item, y=y: item.label == y) for y in grades}
  counts = [sum(item.label == y for item in items) for y in grades]
  value = best = weights = 0.0
  for depth in range(1, max(len(retrieved(items)), sum(counts)) + 1):
    weight, left, common = persistence ** (depth - 1), depth, 0.0
    for label, count in zip(grades, counts, strict=True):
      common += min(sum(shown[label][:depth]), left, count)
      left = max(left - count, 0)
    value += weight * common / depth
    best, weights = best + weight * min(depth, sum(counts)) / depth, weights + weight
  return ratio(value, best if normalizer == "ideal" else weights)


def auc(items, rel=None):
  """The probability that a relevant item stands above a non-relevant one, ties counting half.

  A score of -inf is the lowest score here, not an absence.
  """
  if poisoned(items):
    return math.nan
  above = [item for item in items if is_relevant(item, rel)]
  below = [item for item in items if not is_relevant(item, rel)]
  wins = sum((a.score > b.score) + 0.5 * (a.score == b.score) for a in above for b in below)
  return ratio(wins, len(above) * len(below))


def ordered_pair_accuracy(items):
  """The fraction of the pairs with different labels that the scores order alike, ties half."""
  if poisoned(items):
    return math.nan
  pairs = [(a, b) for a in items for b in items if a.label > b.label]
  wins = sum((a.score > b.score) + 0.5 * (a.score == b.score) for a, b in pairs)
  return ratio(wins, len(pairs))


def kendall_tau(items):
  """Kendall's tau-b."""
  if poisoned(items):
    return math.nan
  balance = untied_scores = untied_labels = 0
  for a, b in combinations(items, 2):
    by_score = (a.score > b.score) - (a.score < b.score)
    by_label = (a.label > b.label) - (a.label < b.label)
    balance += by_score * by_label
    untied_scores += by_score != 0
    untied_labels += by_label != 0
  return ratio(balance, math.sqrt(untied_scores * untied_labels))


def midranks(values):
  """The rank of each value in ascending order; equal values share the mean of their ranks."""
  return [sum(u < v for u in values) + (1 + sum(u == v for u in values)) / 2 for v in values]


def spearman(items):
  """Pearson's correlation of the midranks."""
  if poisoned(items):
    return math.nan
  x, y = midranks([item.score for item in items]), midranks([item.label for item in items])
  middle = (len(items) + 1) / 2
  covariance = sum((a - middle) * (b - middle) for a, b in zip(x, y, strict=True))
  squares = sum((a - middle) ** 2 for a in x) * sum((b - middle) ** 2 for b in y)
  return ratio(covariance, math.sqrt(squares))


LARGEST = 3.4028234663852886e38


def ahead(items: Items, temperature: float) -> list[list[float]]:
  """The Laplace probability that item j precedes item i, in row i and column j; 0 for itself.

  Items that are not retrieved precede nothing.
  """

  def probability(i: int, j: int) -> float:
    if i == j or -math.inf in (items[i].score, items[j].score):
      return 0.0
    gap = max(min(items[j].score, LARGEST), -LARGEST) - max(min(items[i].score, LARGEST), -LARGEST)
    half = math.exp(-abs(gap) / temperature) / 2
    return half if gap < 0 else 1 - half

  return [[probability(i, j) for j in range(len(items))] for i in range(len(items))]


def smooth_sum(items, temperature, worth, discounts, stop=None):
  """The sum of worth times the discount of the soft rank times the chance to get there."""
  if poisoned(items):
    return math.nan
  stop = [0.0] * len(items) if stop is None else stop
  total = 0.0
  for item, value, row in zip(items, worth, ahead(items, temperature), strict=True):
    if item.score > -math.inf:
      # An item that always stops is passed if it stands behind; others are passed in part.
      passes = [(1 - p) ** f if p < 1 else 1 - f for p, f in zip(stop, row, strict=True)]
      total += value * discount(1 + sum(row), discounts) * math.prod(passes)
  return total


def smooth_dcg(items, temperature, gains="linear", discounts="logarithmic"):
  """DCG of soft ranks (Qin, Liu and Li 2010, with the Laplace distribution)."""
  worth = [item.weight * gain(item.label, gains) for item in items]
  return smooth_sum(items, temperature, worth, discounts)


def smooth_ndcg(items, temperature, gains="linear", discounts="logarithmic"):
  """Soft DCG divided by the exact ideal."""
  value = smooth_dcg(items, temperature, gains, discounts)
  return ratio(value, ideal_dcg(items, None, gains, discounts))


def smooth_rbp(items, temperature, persistence=0.8):
  """RBP of soft ranks."""
  worth = [(1 - persistence) * is_relevant(item) for item in items]
  return smooth_sum(items, temperature, worth, persistence)


def smooth_err(items, temperature, max_label=None):
  """ERR of soft ranks."""
  stop = [stop_probability(item.label, max_label) for item in items]
  return smooth_sum(items, temperature, stop, "reciprocal", stop)


def smooth_nerr(items, temperature, max_label=None):
  """Soft ERR divided by the exact ideal."""
  return ratio(smooth_err(items, temperature, max_label), ideal_err(items, None, max_label))


def smooth_reciprocal_rank(items, temperature):
  """ERR where every relevant item stops."""
  stop = [float(is_relevant(item)) for item in items]
  return smooth_sum(items, temperature, stop, "reciprocal", stop)


def smooth_average_precision(items, temperature):
  """The mean over relevant items of the soft hits up to them divided by their soft rank."""
  if poisoned(items):
    return math.nan
  hits = [is_relevant(item) for item in items]
  total = sum(
    (1 + sum(f for f, hit in zip(row, hits, strict=True) if hit)) / (1 + sum(row))
    for item, hit, row in zip(items, hits, ahead(items, temperature), strict=True)
    if hit and item.score > -math.inf
  )
  return ratio(total, sum(hits))


def smooth_gap(items, temperature, max_label=None, chances=None):
  """The sums of soft precisions of every threshold over the numbers of relevant items."""
  if poisoned(items):
    return math.nan
  chances = [1 / max_label] * max_label if chances is None else chances
  found = best = 0.0
  for threshold, chance in enumerate(chances, start=1):
    grades = tuple(item._replace(label=float(is_relevant(item, threshold))) for item in items)
    count = relevant_count(grades)
    found += chance * smooth_average_precision(grades, temperature) * count
    best += chance * count
  return ratio(found, best)


def smooth_bpref(items, temperature, rel=None):
  """The credit of trec_eval of the soft number of judged non-relevant items ahead."""
  if poisoned(items):
    return math.nan
  relevant = relevant_count(items, rel)
  other = [is_judged(item) and not is_relevant(item, rel) for item in items]
  total = 0.0
  for item, row in zip(items, ahead(items, temperature), strict=True):
    if is_relevant(item, rel) and item.score > -math.inf:
      others_ahead = sum(f for f, counts in zip(row, other, strict=True) if counts)
      total += 1 - min(others_ahead, relevant) / max(min(sum(other), relevant), 1)
  return ratio(total, relevant)


# Metrics of diversity take the labels of items in rank order, one list of subtopics for each item.


def novelty(rows, k, alpha, rel, weights, discounts):
  """What each item adds: the weights of its subtopics, less for each time one was covered."""
  total, covered = 0.0, [0] * len(weights)
  for rank, row in enumerate(rows[:k], start=1):
    for s, (label, weight) in enumerate(zip(row, weights, strict=True)):
      if label >= max(rel, 0):
        total += weight * (1 - alpha) ** covered[s] * discount(rank, discounts)
        covered[s] += 1
  return total


def alpha_dcg(rows, k, alpha, rel, weights, discounts="logarithmic"):
  """Alpha-DCG (Clarke et al. 2008)."""
  return novelty(rows, k, alpha, rel, weights, discounts)


def nrbp(rows, k, alpha, rel, weights, beta=0.5):
  """Novelty- and rank-biased precision (Clarke, Kolla and Vechtomova 2009)."""
  return (1 - (1 - alpha) * beta) * novelty(rows, k, alpha, rel, weights, beta)


def nnrbp(rows, alpha, rel, weights, beta, everything):
  """NRBP divided by that of the greedy order of all rows of the query, a tuple of tuples."""
  best = novel_first(everything, alpha, rel, weights)
  return ratio(
    nrbp(rows, None, alpha, rel, weights, beta), nrbp(best, None, alpha, rel, weights, beta)
  )


def precision_ia(rows, k, rel, weights):
  """The mean over the subtopics of precision."""
  hits = [sum(row[s] >= max(rel, 0) for row in rows[:k]) for s in range(len(weights))]
  return sum(w * h for w, h in zip(weights, hits, strict=True)) / k


def average_precision_ia(rows, k, rel, weights, everything):
  """The mean over the subtopics of average precision."""
  total = 0.0
  for s, weight in enumerate(weights):
    hits, found = 0, 0.0
    for rank, row in enumerate(rows[:k], start=1):
      if row[s] >= max(rel, 0):
        hits += 1
        found += hits / rank
    total += weight * ratio(found, sum(row[s] >= max(rel, 0) for row in everything))
  return total


def subtopic_recall(rows, k, rel, weights):
  """The weights of the subtopics of the first k rows."""
  return sum(w for s, w in enumerate(weights) if any(row[s] >= max(rel, 0) for row in rows[:k]))


def err_ia(rows, k, max_label, weights, discounts="reciprocal"):
  """The mean over the subtopics of ERR (Chapelle et al. 2011)."""
  total = 0.0
  for s, weight in enumerate(weights):
    reach = 1.0
    for rank, row in enumerate(rows[:k], start=1):
      stop = stop_probability(row[s], max_label)
      total += weight * reach * stop * discount(rank, discounts)
      reach *= 1 - stop
  return total


def greedy(rows, value):
  """The rows in greedy order: each adds most to the value so far, the first of equals."""
  ordered, left = [], list(rows)
  while left:
    added = [value([*ordered, row]) for row in left]
    ordered.append(left.pop(next(i for i, x in enumerate(added) if x > max(added) - 1e-9)))
  return ordered


@functools.lru_cache(maxsize=64)
def novel_first(rows, alpha, rel, weights):
  """The greedy order of alpha-DCG."""
  return greedy(rows, lambda rows: alpha_dcg(rows, None, alpha, rel, weights, "constant"))


def alpha_ndcg(rows, k, alpha, rel, weights, everything):
  """Alpha-DCG divided by that of the greedy order of all rows of the query, a tuple of tuples."""
  best = novel_first(everything, alpha, rel, weights)
  value = alpha_dcg(rows, k, alpha, rel, weights)
  return ratio(value, alpha_dcg(best, k, alpha, rel, weights))


@functools.lru_cache(maxsize=64)
def likely_first(rows, max_label, weights):
  """The greedy order of ERR-IA."""
  return greedy(rows, lambda rows: err_ia(rows, None, max_label, weights, "constant"))


def nerr_ia(rows, k, max_label, weights, everything):
  """ERR-IA divided by that of the greedy order of all rows of the query, a tuple of tuples."""
  best = likely_first(everything, max_label, weights)
  return ratio(err_ia(rows, k, max_label, weights), err_ia(best, k, max_label, weights))
