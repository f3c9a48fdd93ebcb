"""The metrics and losses of rax of one list, by their definitions, in plain Python.

Scores may hold -inf, which is unranked; labels are at least 0. Ties keep the order of the input.
"""

import math

INF = math.inf


def order(scores):
  return sorted(range(len(scores)), key=lambda i: (-scores[i], i))


def ranks(scores):
  return {item: place + 1 for place, item in enumerate(order(scores))}


def retrieved(scores, topn):
  rank = ranks(scores)
  return [i for i, s in enumerate(scores) if s > -INF and (topn is None or rank[i] <= topn)]


def mrr(scores, labels, weights, topn):
  rank = ranks(scores)
  return max((1 / rank[i] for i in retrieved(scores, topn) if labels[i] >= 1), default=0)


def recall(scores, labels, weights, topn):
  hits = sum(labels[i] >= 1 for i in retrieved(scores, topn))
  return hits / max(1, sum(y >= 1 for y in labels))


def precision(scores, labels, weights, topn):
  found = retrieved(scores, topn)
  return sum(labels[i] >= 1 for i in found) / max(1, len(found))


def ap(scores, labels, weights, topn):
  rank, total = ranks(scores), 0
  for i in retrieved(scores, topn):
    if labels[i] >= 1:
      total += sum(labels[j] >= 1 for j in rank if rank[j] <= rank[i]) / rank[i]
  return total / max(1, sum(y >= 1 for y in labels))


def opa(scores, labels, weights):
  pairs = better(labels)
  return sum(scores[i] > scores[j] for i, j in pairs) / max(1, len(pairs))


def gain(labels, weights):
  return [(2**y - 1) * w for y, w in zip(labels, weights, strict=True)]


def dcg(scores, labels, weights, topn):
  rank, g = ranks(scores), gain(labels, weights)
  return sum(g[i] / math.log2(1 + rank[i]) for i in retrieved(scores, topn))


def ndcg(scores, labels, weights, topn):
  ideal = dcg(gain(labels, weights), labels, weights, topn)
  return dcg(scores, labels, weights, topn) / ideal if ideal else 0


def better(labels):
  n = len(labels)
  return [(i, j) for i in range(n) for j in range(n) if labels[i] > labels[j]]


def log_sum(scores):
  return math.log(sum(math.exp(s) for s in scores))


def softmax(scores, labels, weights):
  total = log_sum(scores)
  return sum(w * y * (total - s) for s, y, w in zip(scores, labels, weights, strict=True))


def poly1_softmax(scores, labels, weights):
  worth = [y * w for y, w in zip(labels, weights, strict=True)]
  share = [x / sum(worth) for x in worth] if sum(worth) else [1 / len(worth)] * len(worth)
  total = log_sum(scores)
  chance = sum(p * math.exp(s - total) for p, s in zip(share, scores, strict=True))
  return softmax(scores, labels, weights) + 1 - chance


def unique_softmax(scores, labels, weights):
  g = gain(labels, weights)
  lower = [[s for s, x in zip(scores, labels, strict=True) if x < y] for y in labels]
  return sum(g[i] * (log_sum([s, *lower[i]]) - s) for i, s in enumerate(scores))


def listmle(scores, labels, weights):
  by_label = [scores[i] for i in order(labels)]
  return sum(log_sum(by_label[i:]) - by_label[i] for i in range(len(by_label)))


def of_pairs(link, all_pairs=False):
  """Sum and number of the losses of pairs."""

  def total(scores, labels, weights):
    n = len(labels)
    pairs = [(i, j) for i in range(n) for j in range(n)] if all_pairs else better(labels)
    losses = [weights[i] * link(scores[i] - scores[j], labels[i] - labels[j]) for i, j in pairs]
    return sum(losses), len(losses)

  return total


def of_points(link):
  """Sum and number of the losses of items."""

  def total(scores, labels, weights):
    items = zip(scores, labels, weights, strict=True)
    return sum(w * link(s, y) for s, y, w in items), len(labels)

  return total


def sigmoid(x):
  return 1 / (1 + math.exp(-x))


METRICS = {
  "mrr_metric": mrr,
  "recall_metric": recall,
  "precision_metric": precision,
  "ap_metric": ap,
  "dcg_metric": dcg,
  "ndcg_metric": ndcg,
}
LISTWISE = {
  "softmax_loss": softmax,
  "poly1_softmax_loss": poly1_softmax,
  "unique_softmax_loss": unique_softmax,
  "listmle_loss": listmle,
}
SUMS = {
  "pairwise_hinge_loss": of_pairs(lambda s, y: max(0, 1 - s)),
  "pairwise_logistic_loss": of_pairs(lambda s, y: math.log1p(math.exp(-s))),
  "pairwise_soft_zero_one_loss": of_pairs(lambda s, y: sigmoid(-s)),
  "pairwise_mse_loss": of_pairs(lambda s, y: (s - y) ** 2, all_pairs=True),
  "pairwise_qr_loss": of_pairs(lambda s, y: 0.5 * abs(y - s)),
  "pointwise_mse_loss": of_points(lambda s, y: (s - y) ** 2),
  "pointwise_sigmoid_loss": of_points(
    lambda s, y: -(min(y, 1) * math.log(sigmoid(s)) + (1 - min(y, 1)) * math.log(sigmoid(-s)))
  ),
}
