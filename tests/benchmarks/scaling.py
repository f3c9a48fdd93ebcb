"""`python -m tests.benchmarks.scaling`: time by the length of the lists, for `docs/gallery.md`.

It writes `docs/gallery/cost.json`, which `docs/gallery/cost.py` draws. All sides of a length take
turns, and the best of their times counts, because other programs may run on the machine. A peer
that is not installed is left out.
"""

import argparse
import functools
import json
import pathlib
from collections.abc import Callable, Sequence

import jax
import numpy as np

import jaxrank as jr

from . import cost, peers, report
from .timing import Contender, check_same, jitted, race

OUT = pathlib.Path(__file__).parents[2] / "docs" / "gallery" / "cost.json"
LENGTHS = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
QUERIES = {"nDCG": 16, "gradient": 4}

# The side of each peer in `peers`, and the longest lists that it gets: ranx and pytrec_eval build
# dictionaries of all items, and pairs of longer lists do not fit in memory.
SIDES = {
  "jaxrank": "averaged",
  "rax": "rax",
  "scikit-learn": "scikit-learn",
  "ranx": "ranx",
  "torchmetrics": "torchmetrics, class",
  "pytrec_eval": "pytrec_eval",
}
LONGEST = {"ranx": 10_000, "pytrec_eval": 30_000, "all pairs": 10_000, "allRank": 3_000}

Seconds = dict[str, list[float | None]]


def of_ndcg(n: int) -> dict[str, Contender]:
  """NDCG of whole lists, with linear gains, by library."""
  data = peers.make_data(QUERIES["nDCG"], n)
  found = {}
  for name, contenders in {"jaxrank": peers.jaxrank_contenders, **peers.PEERS}.items():
    if name in SIDES and n <= LONGEST.get(name, n):
      try:
        found[name] = contenders(data)["nDCG", SIDES[name]]
      except ImportError:
        print(f"{name} is not installed")
  return found


def of_gradients(n: int) -> dict[str, Contender]:
  """Value and gradient of smooth nDCG; `all pairs` and allRank compute that of `Logistic`."""
  scores, labels = cost.training_data(QUERIES["gradient"], n)
  # Without a relevant item the loss over all pairs is undefined.
  labels = labels.at[:, 0].set(4)

  def loss(ranking: jr.Ranking, scores: jax.Array, labels: jax.Array) -> jax.Array:
    return 1 - jr.ndcg(scores, labels, gain=jr.gains.exponential, ranking=ranking).mean()

  losses: dict[str, Callable[..., jax.Array]] = {
    "Laplace": functools.partial(loss, jr.Laplace(0.1)),
    "Logistic": functools.partial(loss, jr.Logistic(0.1)),
    "Gumbel": functools.partial(loss, jr.Gumbel(0.1)),
    "all pairs": functools.partial(cost.pairwise_loss, jax.nn.sigmoid),
  }
  found = {}
  for name, function in losses.items():
    if n <= LONGEST.get(name, n):
      call = jitted(jax.value_and_grad(function), scores, labels)
      found[name] = Contender(lambda call=call: call()[0])
  if n <= LONGEST["allRank"]:
    try:
      found["allRank"] = _allrank(np.array(scores), np.array(labels))
    except ImportError:
      print("allRank is not installed")
  return found


def _allrank(scores: np.ndarray, labels: np.ndarray) -> Contender:
  import torch
  from allrank.models.losses import approxNDCGLoss

  target = torch.from_numpy(labels)

  def call() -> float:
    leaf = torch.from_numpy(scores).requires_grad_()
    value = 1 + approxNDCGLoss(leaf, target, alpha=10.0)
    value.backward()
    return value.item()

  return Contender(call)


def measure(
  contenders: Callable[[int], dict[str, Contender]], lengths: Sequence[int], rounds: int
) -> Seconds:
  """Best seconds by side and length; None where a side did not run."""
  rows = []
  for n in lengths:
    turns = max(3, min(rounds, rounds * 3_000 // n))
    sides = {name: x._replace(rounds=turns) for name, x in contenders(n).items()}
    found = race(sides)
    same = {name: x for name, x in found.items() if name not in ("Laplace", "Gumbel")}
    first, *others = same
    for name in others:
      check_same(f"n = {n}", name, same[first].mean, same[name].mean)
    rows.append({name: x.best for name, x in found.items()})
    print(n, {name: report.milliseconds(x) for name, x in rows[-1].items()}, flush=True)
  return {name: [row.get(name) for row in rows] for name in rows[0]}


def main() -> None:
  """Measures both and writes the file."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
  parser.add_argument("--rounds", type=int, default=30)
  parser.add_argument("--out", type=pathlib.Path, default=OUT)
  arguments = parser.parse_args()
  facts = report.conditions()
  found = {
    name: measure(contenders, arguments.lengths, arguments.rounds)
    for name, contenders in {"nDCG": of_ndcg, "gradient": of_gradients}.items()
  }
  result = {
    "machine": facts.splitlines(),
    "queries": QUERIES,
    "lengths": list(arguments.lengths),
    "seconds": {
      name: {side: [x and float(f"{x:.3g}") for x in times] for side, times in sides.items()}
      for name, sides in found.items()
    },
  }
  arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
  print(f"wrote {arguments.out}")


if __name__ == "__main__":
  main()
