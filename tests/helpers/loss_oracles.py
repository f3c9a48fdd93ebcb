"""The definitions of the losses for one query, slow and obvious, in plain Python.

A query is the list of its valid items, as in `oracles`. An item that was not retrieved is in no
sum and no pair. Nothing here knows how jaxrank computes anything.
"""

import math
from itertools import combinations, groupby, permutations

from tests.helpers import oracles
from tests.helpers.oracles import gain, ratio, retrieved


def log_sum_exp(z):
  """The logarithm of a sum of exponentials."""
  largest = max(z)
  return largest + math.log(sum(math.exp(x - largest) for x in z))


def logits(items, temperature):
  """The scores that softmax sees."""
  return [item.score / temperature for item in items]


def softmax(items, gains="linear", temperature=1.0):
  """ListNet (Cao et al. 2007), labels as they are."""
  live = retrieved(items)
  z = logits(live, temperature)
  return sum(
    item.weight * gain(item.label, gains) * (log_sum_exp(z) - z[i]) for i, item in enumerate(live)
  )


def poly1(items, epsilon=1.0, gains="linear", temperature=1.0):
  """Cross entropy and one term more (Leng et al. 2022)."""
  live = retrieved(items)
  z, worth = logits(live, temperature), [i.weight * gain(i.label, gains) for i in live]
  if not sum(worth):
    return 0.0
  chances = [math.exp(x - log_sum_exp(z)) for x in z]
  hit = sum(w * p for w, p in zip(worth, chances, strict=True)) / sum(worth)
  return softmax(items, gains, temperature) + epsilon * (1 - hit)


def xe_ndcg(items, gains="linear", temperature=1.0):
  """Cross entropy of softened gains (Bruch 2021), each softened by one half."""
  live = retrieved(items)
  if not any(item.label > 0 for item in live):
    return 0.0
  z = logits(live, temperature)
  worth = [item.weight * (gain(item.label, gains) + 0.5) for item in live]
  return ratio(sum(w * (log_sum_exp(z) - x) for w, x in zip(worth, z, strict=True)), sum(worth))


def unique_softmax(items, gains="linear", temperature=1.0):
  """Each item and those with smaller labels (Zhu and Klabjan 2020)."""
  total, live = 0.0, retrieved(items)
  for item in live:
    lower = [other for other in live if max(other.label, 0) < max(item.label, 0)]
    z = logits([item, *lower], temperature)
    total += item.weight * gain(item.label, gains) * (log_sum_exp(z) - z[0])
  return total


def levels(items):
  """The retrieved items by label, best first, those of equal label together."""

  def label(item):
    return -max(item.label, 0)

  live = sorted(retrieved(items), key=label)
  return [list(group) for _, group in groupby(live, key=label)]


def list_mle(items, temperature=1.0):
  """Plackett-Luce (Xia et al. 2008), with Efron's rule for ties of the labels."""
  total, groups = 0.0, levels(items)
  for g, group in enumerate(groups[:-1]):
    top = [math.exp(z) for z in logits(group, temperature)]
    rest = sum(math.exp(z) for later in groups[g + 1 :] for z in logits(later, temperature))
    weight = sum(item.weight for item in group) / len(group)
    for place in range(len(group)):
      total += weight * math.log((1 - place / len(group)) * sum(top) + rest)
    total -= sum(item.weight * item.score / temperature for item in group)
  return total


def likelihood_over_orders(items):
  """The mean negative log likelihood over the orders of the tied items above the lowest label."""
  *above, lowest = levels(items)
  total = 0.0
  for g, group in enumerate(above):
    later = [item.score for other in [*above[g + 1 :], lowest] for item in other]
    orders = list(permutations(item.score for item in group))
    for order in orders:
      left = [log_sum_exp([*order[i:], *later]) - order[i] for i in range(len(order))]
      total += sum(left) / len(orders)
  return total


def mean_of_pairs(items, link, margin=0.0, temperature=1.0):
  """The mean of a function of `margin - (s_i - s_j)` over the pairs with different labels."""
  live = retrieved(items)
  losses = [
    a.weight * link(margin - (a.score - b.score) / temperature)
    for a in live
    for b in live
    if max(a.label, 0) > max(b.label, 0)
  ]
  return ratio(sum(losses), len(losses))


def softplus(x):
  """log(1 + exp(x))."""
  return max(x, 0) + math.log1p(math.exp(-abs(x)))


def relu(x):
  """max(0, x)."""
  return max(x, 0)


def sigmoid(x):
  """1 / (1 + exp(-x))."""
  return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def worst_first(items):
  """The retrieved items by score, ties by label, worst first."""
  return sorted(retrieved(items), key=lambda item: (-item.score, item.label))


def swapped(order, a, b):
  """An order with two of its ranks exchanged."""
  order = list(order)
  order[a], order[b] = order[b], order[a]
  return tuple(order)


def change(metric, items, a, b, **parameters):
  """By how much a metric of the order changes when two ranks are exchanged."""
  order = tuple(worst_first(items))
  before = metric(order, items, **parameters)
  return metric(swapped(order, a, b), items, **parameters) - before


def weighted_pairs(items, delta, temperature=1.0):
  """The logistic loss of every pair of ranks, weighed by `delta(a, b)`, positive to swap them."""
  order, total = worst_first(items), 0.0
  for a, b in combinations(range(len(order)), 2):
    weight = delta(a, b)
    wrong = (order[a].score - order[b].score) / temperature
    total += abs(weight) * softplus(wrong if weight > 0 else -wrong)
  return total


def ndcg(order, items, k=None):
  """nDCG of an order, with linear gain."""
  return oracles.ndcg(order, items, k, gains="linear")


def lambda_rank(items, metric=ndcg, temperature=1.0, **parameters):
  """Any metric: pairs weighed by the change of the metric (Burges 2010)."""
  swap = lambda a, b: change(metric, items, a, b, **parameters)  # noqa: E731
  return weighted_pairs(items, swap, temperature)


def lambda_ndcg(items, scheme, k=None, mu=10.0, temperature=1.0):
  """LambdaLoss (Wang et al. 2018, Jagerman et al. 2022)."""
  order, ideal = worst_first(items), oracles.ideal_dcg(items, k, gains="linear")
  worth = [ratio(item.weight * gain(item.label, "linear"), ideal) for item in order]

  def broad(a, b):
    delta = oracles.discount(b - a) - oracles.discount(b - a + 1)
    if k is not None and b + 1 > k:
      delta /= 1 - oracles.discount(b + 1)
    return (worth[b] - worth[a]) * delta

  def sharp(a, b):
    return change(ndcg, items, a, b, k=k)

  delta = {
    "lambdarank": sharp,
    "ndcg2": broad,
    "ndcg2++": lambda a, b: mu * broad(a, b) + sharp(a, b),
  }[scheme]
  return weighted_pairs(items, delta, temperature)
