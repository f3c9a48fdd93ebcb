"""Exposure and its fairness by definition, for one query of few items, in plain Python.

A query is the scores of its valid items and lists beside them. Exposure is a sum over orders, each
with its probability, of the discount at the rank that an item has there.
"""

import itertools
import math

import numpy as np


def discount(rank):
  """The logarithmic discount."""
  return 1 / math.log2(1 + rank)


def retrieved(scores):
  """The places of the items that have a rank."""
  return [i for i, score in enumerate(scores) if score > -math.inf]


def tied_orders(scores):
  """All orders by score, each with its probability."""
  known = retrieved(scores)
  found = [
    order
    for order in itertools.permutations(known)
    if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order))
  ]
  return [(1 / len(found), order) for order in found]


def plackett_luce(scores, temperature):
  """All orders, each with its probability under the Plackett-Luce model."""
  found = []
  for order in itertools.permutations(retrieved(scores)):
    z = [scores[i] / temperature for i in order]
    rest = np.logaddexp.accumulate(z[::-1])[::-1] if z else []
    found.append((math.exp(sum(a - b for a, b in zip(z, rest, strict=True))), order))
  return found


def expected(scores, orders, k=None):
  """The exposure of each item."""
  exposure = [0.0] * len(scores)
  for chance, order in orders:
    for rank, item in enumerate(order, 1):
      if k is None or rank <= k:
        exposure[item] += chance * discount(rank)
  return exposure


def target(labels, k=None):
  """Each item gets the mean over the ranks of its grade in an order by label."""
  grades = [max(y, 0) for y in labels]
  worth = [discount(r) if k is None or r <= k else 0 for r in range(1, len(grades) + 1)]
  found = []
  for y in grades:
    better, same = sum(x > y for x in grades), sum(x == y for x in grades)
    found.append(sum(worth[better : better + same]) / same)
  return found


def by_group(exposure, members, n_groups):
  """The sum of the exposures of each group; `members` has the groups of each item by share."""
  return [sum(e * m[g] for e, m in zip(exposure, members, strict=True)) for g in range(n_groups)]


def divergence(p, q):
  """The Jensen-Shannon divergence in bits."""

  def against_mean(x, y):
    return sum(a * math.log2(2 * a / (a + b)) for a, b in zip(x, y, strict=True) if a > 0)

  return (against_mean(p, q) + against_mean(q, p)) / 2


def awrf(exposure, members, shares):
  """One minus the divergence of the shares of groups from what they should be."""
  found = by_group(exposure, members, len(shares))
  if sum(found) == 0:
    return 0.0
  p, q = ([x / sum(y) for x in y] for y in (found, shares))
  return 1 - divergence(p, q)


# The largest ratio of groups that can be compared.
MOST = 1e15


def ratio(exposure, members, clicks=None, utility=None):
  """Exposure, or clicks, per item, or per utility, of group 0 over that of group 1."""
  found = []
  for g in (0, 1):
    got = sum(e * (clicks[i] if clicks else 1) * members[i][g] for i, e in enumerate(exposure))
    due = sum((utility[i] if utility else 1) * members[i][g] for i in range(len(exposure)))
    if not due:
      return 0.0
    found.append(got / due)
  if not found[0]:
    return 1 / MOST
  return min(found[0] / found[1], MOST) if found[1] else MOST
