"""Fuses three retrieval systems, and says which weights hold on queries that did not choose them.

The data are the handwritten digits of scikit-learn, as image retrieval: an image is a query, and
other images are relevant if they show the same digit. Three systems rank them by different
features: the pixels, the sums of rows and columns, and a few principal components. Each retrieves
its first 100 of 1,397 images, so that the lists differ. `jaxrank.fusion.fit` tunes the weights by
half of the queries, and its recommendation is held against all methods on the other half.

Run `python examples/fuse.py`. It prints the fit and a table of methods, and draws `fuse.png`: the
measure for all weights. It needs the extra `examples`.
"""

import argparse
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from tqdm import tqdm

import jaxrank as jr

NAMES = ("pixels", "profiles", "components")
QUERIES, DEPTH = 400, 100


def cosine(features: np.ndarray, rows: np.ndarray) -> np.ndarray:
  """The cosines of the first rows with all others."""
  unit = features / np.linalg.norm(features, axis=1, keepdims=True)
  return (unit[rows[:QUERIES]] @ unit[rows[QUERIES:]].T).astype(np.float32)


def retrieve(seed: int = 0) -> tuple[Array, Array]:
  """Scores `[systems, queries, images]`, -inf where an image is not retrieved, and labels."""
  pixels, digits = load_digits(return_X_y=True)
  rows = np.random.default_rng(seed).permutation(len(digits))
  square = pixels.reshape(-1, 8, 8)
  centred = pixels - pixels.mean(axis=0)
  axes = np.linalg.svd(centred, full_matrices=False)[2][:6]
  features = [pixels, np.concatenate([square.sum(1), square.sum(2)], axis=1), centred @ axes.T]
  scores = np.stack([cosine(x, rows) for x in features])
  last = np.sort(scores, axis=-1)[..., -DEPTH, None]
  labels = digits[rows[:QUERIES], None] == digits[None, rows[QUERIES:]]
  return jnp.asarray(np.where(scores >= last, scores, -np.inf)), jnp.asarray(labels)


def methods(scores: Array) -> dict[str, Array]:
  """Fused scores of methods with equal weights."""
  unit = jr.fusion.min_max(scores)
  fused = {
    f"comb_sum of {scale.__name__}": jr.fusion.comb_sum(scale(scores, missing="min"))
    for scale in (jr.fusion.min_max, jr.fusion.z_score, jr.fusion.distribution)
  }
  for method in (jr.fusion.comb_max, jr.fusion.comb_anz, jr.fusion.comb_mnz):
    fused[f"{method.__name__} of min_max"] = method(unit)
  for by_rank in (jr.fusion.rrf, jr.fusion.isr, jr.fusion.borda_fuse, jr.fusion.condorcet_fuse):
    fused[by_rank.__name__] = by_rank(scores)
  return {f"{name} alone": x for name, x in zip(NAMES, scores, strict=True)} | fused


def table(fit: jr.fusion.Fit, scores: Array, labels: Array) -> dict[str, dict[str, float]]:
  """The measures of systems, of methods with equal weights, and of the fit."""
  fused = methods(scores)
  fused[f"{fit.method.__name__}, tuned weights"] = fit(scores, weights=fit.weights)
  fused["as recommended"] = fit(scores)
  values = {name: jr.evaluate("AP nDCG@10", x, labels) for name, x in fused.items()}
  return {
    name: {measure: float(x.mean()) for measure, x in of.items()} for name, of in values.items()
  }


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
  parser.add_argument("--method", default="comb_sum", help="a method of jaxrank.fusion")
  parser.add_argument("--measure", default="AP")
  parser.add_argument("--steps", type=int, help="weights are multiples of 1 / STEPS")
  parser.add_argument("--out", type=Path, default=Path("fuse.png"), help="the picture")
  args = parser.parse_args()
  scores, labels = retrieve()
  tuning, held = slice(QUERIES // 2), slice(QUERIES // 2, None)
  bar = tqdm(desc="weights", unit="point", file=sys.stderr)

  def progress(done: int, of: int) -> None:
    bar.total = of
    bar.update(done - bar.n)

  fit = jr.fusion.fit(
    args.method,
    scores[:, tuning],
    labels[tuning],
    args.measure,
    key=jax.random.key(0),
    names=NAMES,
    steps=args.steps,
    progress=progress,
  )
  bar.close()
  print(fit)
  print(f"\nOn {QUERIES - QUERIES // 2} other queries:")
  for name, values in table(fit, scores[:, held], labels[held]).items():
    print(f"{name:26}", *(f"{measure} {value:.4f}" for measure, value in values.items()))
  keep = jr.fusion.threshold(fit(scores[:, held]), labels[held], jr.hit_rate, level=0.99)
  print(f"\nResults to show, for a relevant one in 99 % of new queries: {keep.threshold:.0f}")
  figure = Figure(figsize=(6.4, 5.4), layout="constrained")
  jr.plot.weights(fit, ax=figure.subplots())
  figure.savefig(args.out, dpi=150)
  print(f"wrote {args.out}")


if __name__ == "__main__":
  main()
