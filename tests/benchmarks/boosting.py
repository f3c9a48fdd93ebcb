"""Small trainings of LightGBM one after another, with the metrics of jaxrank and without.

Run `python -m tests.benchmarks.boosting`. Each training has a data set of its own, as in the folds
of a cross-validation or a search, and a new call of `metrics`.
"""

import time

import lightgbm
import numpy as np

from jaxrank.interop import lightgbm as ours

TRAININGS, TREES, FEATURES = 45, 100, 10
PARAMETERS = {
  "objective": "lambdarank",
  "metric": "None",
  "num_leaves": 15,
  "num_threads": 1,
  "verbose": -1,
}


def dataset(rng: np.random.Generator, reference: lightgbm.Dataset | None = None):
  """Some 100 queries of at most 30 items, of which the first feature tells the label."""
  sizes = rng.integers(5, 30, rng.integers(80, 120))
  features = rng.normal(size=(sizes.sum(), FEATURES))
  labels = np.clip(np.round(features[:, 0] + rng.normal(size=len(features))), 0, 4)
  return lightgbm.Dataset(features, labels, group=sizes, reference=reference)


def seconds(with_metrics: bool) -> list[float]:
  """How long each training takes."""
  found = []
  for seed in range(TRAININGS):
    rng = np.random.default_rng(seed)
    train = dataset(rng)
    valid = dataset(rng, train)
    start = time.perf_counter()
    lightgbm.train(
      PARAMETERS,
      train,
      TREES,
      valid_sets=[valid],
      feval=ours.metrics("nDCG@10 AP") if with_metrics else None,
    )
    found.append(time.perf_counter() - start)
  return found


if __name__ == "__main__":
  for with_metrics in (False, True):
    times = seconds(with_metrics)
    how = "with metrics" if with_metrics else "without"
    print(
      f"{how}: {sum(times):.1f} s, the first {times[0]:.2f} s, the median {np.median(times):.2f} s"
    )
