"""`python -m tests.benchmarks.tolerance`: what a tolerance and a cut-off cost under Gumbel noise.

It times value and gradient of nDCG at tolerances of 1e-5 and 1e-3, for the whole list and at a
cut-off of 10, in turns in one process, and writes the table to docs/mathematics.md.
"""

import argparse
import itertools

import jax
import jax.numpy as jnp
import numpy as np

import jaxrank as jr

from .report import machine, milliseconds, write
from .timing import Contender, jitted, race

SHAPES = ((32, 100), (128, 200), (32, 1000))
WAYS = {"k=None": {}, "k=10": {"k": 10}}
TOLERANCES = (1e-5, 1e-3)


def main() -> None:
  """Prints the table and writes it."""
  argparse.ArgumentParser(prog="python -m tests.benchmarks.tolerance").parse_args()
  head = [f"{way}, {t:g}" for way, t in itertools.product(WAYS, TOLERANCES)]
  ratios = ["1e-3 / 1e-5", "k=10 / whole list", "the same at 1e-3"]
  lines = ["| nDCG, Gumbel(1) | " + " | ".join([*head, *ratios]) + " |"]
  lines.append("|" + " --- |" * (1 + len(head) + len(ratios)))
  for shape in SHAPES:
    rng = np.random.default_rng(0)
    scores = jnp.asarray(rng.normal(size=shape), jnp.float32)
    labels = jnp.asarray(rng.integers(0, 5, shape), jnp.float32)

    def timed(way, tolerance, scores=scores, labels=labels):
      def loss(scores, labels):
        ranking = jr.Gumbel(1.0, tolerance=tolerance)
        return jr.ndcg(scores, labels, ranking=ranking, **WAYS[way]).sum()

      call = jitted(jax.value_and_grad(loss), scores, labels)
      return Contender(lambda: call()[0], 7)

    sides = itertools.product(WAYS, TOLERANCES)
    times = race({f"{way}, {t:g}": timed(way, t) for way, t in sides})
    whole, loose, cut, loose_cut = (times[side].seconds for side in head)
    cells = [milliseconds(x) for x in (whole, loose, cut, loose_cut)]
    cells += [f"{x:.2f}" for x in (loose / whole, cut / whole, loose_cut / loose)]
    lines.append(f"| `[{shape[0]}, {shape[1]}]` | " + " | ".join(cells) + " |")
    print(lines[-1], flush=True)
  write("tolerance", f"{machine()}\n\n" + "\n".join(lines), "mathematics.md")


if __name__ == "__main__":
  main()
