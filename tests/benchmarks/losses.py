"""`python -m tests.benchmarks.losses --data DIR`: trains with every loss and writes the table.

`DIR` holds `rank.train`, `rank.test` and their `.query` files, the learning-to-rank example of
LightGBM. The table replaces the text between two marker comments in `docs/losses.md`.

This is a nested cross-validation with five folds over all queries. One network is trained without
each pair of folds, and one network per seed without each fold. The latter are tested on that fold,
after the number of steps that is best for the networks of its pairs on the other fold of the pair.
The number of LightGBM's trees is chosen in the same way.
"""

import argparse
import itertools
import pathlib
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

import jaxrank as jr
from jaxrank import gains, losses

from . import report

_PAGE = pathlib.Path(__file__).parents[2] / "docs" / "losses.md"
_BEGIN, _END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"

MEASURES = jr.parse("ndcg_burges@5 ndcg_burges@10 ERR AP")
HEADINGS = ("nDCG@5", "nDCG@10", "ERR", "AP")
CHOSEN_BY = HEADINGS.index("nDCG@10")
FOLDS = 5

# The settings of the network and its optimiser, the same for every loss.
HIDDEN, RATE, DECAY, DROPPED = 16, 3e-3, 3.0, 0.5
QUERIES, EVERY, CHECKPOINTS = 64, 25, 12

# The parameters of LightGBM's example, except those that are chosen here.
FOREST = {
  "objective": "lambdarank",
  "learning_rate": 0.1,
  "bagging_freq": 1,
  "bagging_fraction": 0.9,
  "min_data_in_leaf": 50,
  "min_sum_hessian_in_leaf": 5.0,
  "verbose": -1,
}
LEAVES = (31, 7)
TREES = (10, 20, 30, 40, 50, 60, 80, 100, 150, 200)
EXAMPLE = TREES.index(100)

Loss = Callable[[Array, Array, Array, Array], Array]
Params = dict[str, Array]


class Data(NamedTuple):
  """Queries padded to one length, `[queries, n]`, over rows of features."""

  features: np.ndarray
  labels: np.ndarray
  where: np.ndarray
  rows: np.ndarray

  @property
  def query(self) -> np.ndarray:
    """The query of each row."""
    found = np.empty(len(self.features), int)
    found[self.rows[self.where]] = np.nonzero(self.where)[0]
    return found


class Plan(NamedTuple):
  """Which queries train which network.

  Attributes:
    fold: `[queries]`, the fold of each query.
    left_out: `[networks, 2]`, the two folds that a network is not trained on, or one fold twice.
    trains: `[networks, queries]`, whether a network is trained on a query.
  """

  fold: np.ndarray
  left_out: np.ndarray
  trains: np.ndarray


class Row(NamedTuple):
  """Test values `[measures, queries]` of a loss or LightGBM, and the seconds of training."""

  values: np.ndarray
  seconds: float


def load(folder: pathlib.Path) -> Data:
  """The queries of both files, with the features and the ranks of the features within a query."""
  parts = [jr.letor.read(folder / name, n_features=301) for name in ("rank.train", "rank.test")]
  ids = np.concatenate([parts[0].query_ids, parts[1].query_ids + len(parts[0].labels)])
  labels, features = (
    np.concatenate([getattr(p, x) for p in parts]) for x in ("labels", "features")
  )
  batch = jr.pad(ids, np.zeros_like(labels), labels)
  features = np.sign(features) * np.log1p(np.abs(features))
  features = features[:, features.std(axis=0) > 0]
  ranks = np.empty_like(features)
  for rows, where in zip(batch.rows, batch.where, strict=True):
    x = features[rows[where]]
    ahead = (x[:, None] > x[None]).mean(axis=1) + (x[:, None] == x[None]).mean(axis=1) / 2
    ranks[rows[where]] = ahead - 0.5
  return Data(np.concatenate([features, ranks], 1), batch.labels, batch.where, batch.rows)


def plan(data: Data, seeds: int) -> Plan:
  """Folds of equal size, one network for every pair of folds and `seeds` for every fold."""
  fold = np.random.default_rng(0).permutation(len(data.labels)) % FOLDS
  pairs = list(itertools.combinations(range(FOLDS), 2))
  left_out = np.array(pairs + [(i, i) for i in range(FOLDS)] * seeds)
  return Plan(fold, left_out, (fold[None, :, None] != left_out[:, None]).all(axis=-1))


def chosen(values: np.ndarray, plan: Plan) -> np.ndarray:
  """Test values `[measures, queries]` of values `[measures, settings, networks, queries]`.

  The setting of a fold is the one that is best on the other folds, each held out in turn.
  """
  result = np.empty((len(values), len(plan.fold)))
  one = plan.left_out[:, 0] == plan.left_out[:, 1]
  for fold in range(FOLDS):
    inner = [
      values[CHOSEN_BY, :, network][:, plan.fold == sum(plan.left_out[network]) - fold]
      for network in np.flatnonzero(~one & (plan.left_out == fold).any(axis=1))
    ]
    setting = np.argmax(np.concatenate(inner, axis=-1).mean(axis=-1))
    mean = values[:, setting, one & (plan.left_out[:, 0] == fold)].mean(axis=1)
    result[:, plan.fold == fold] = mean[:, plan.fold == fold]
  return result


def padded(scores: Array | np.ndarray, data: Data) -> Array:
  """`[rows]` to `[queries, n]`."""
  return jnp.where(data.where, scores[np.maximum(data.rows, 0)], 0)


def evaluate(scores: Array, data: Data) -> Array:
  """`[queries, n]` to `[measures, queries]`."""
  values = jr.evaluate(MEASURES, scores, data.labels, where=data.where)
  return jnp.stack([values[measure.name] for measure in MEASURES])


def init(key: Array, width: int) -> Params:
  """The parameters of a network with one hidden layer."""
  first, second = jax.random.split(key)
  return {
    "hidden": jax.random.normal(first, (width, HIDDEN)) * (2 / width) ** 0.5,
    "bias": jnp.zeros(HIDDEN),
    "out": jax.random.normal(second, (HIDDEN,)) * 0.3 / HIDDEN**0.5,
  }


def network(params: Params, features: Array, mean: Array, scale: Array) -> Array:
  """Scores `[rows]`; standardising the weights lets all networks share one matrix product."""
  weights = params["hidden"] * scale[:, None]
  hidden = jax.nn.relu(features @ weights + (params["bias"] - mean @ weights))
  return jnp.sum(hidden * params["out"], axis=-1)


def train(loss: Loss, data: Data, plan: Plan) -> np.ndarray:
  """Values `[measures, checkpoints, networks, queries]`."""
  rows = [data.features[trains[data.query]] for trains in plan.trains]
  mean, std = (jnp.stack([f(x, axis=0) for x in rows]) for f in (np.mean, np.std))
  features = jnp.asarray(data.features)
  lists = [jnp.asarray(x) for x in (data.labels, data.where, data.rows)]
  optimizer = optax.adamw(RATE, weight_decay=DECAY)

  rng = np.random.default_rng(0)
  batches = [
    rng.choice(len(data.labels), QUERIES, replace=False) for _ in range(EVERY * CHECKPOINTS)
  ]
  batches = np.array(batches).reshape(CHECKPOINTS, EVERY, QUERIES)

  def objective(params, mean, scale, trains, batch, key):
    labels, where, rows = (x[batch] for x in lists)
    dropout = jax.random.bernoulli(key, 1 - DROPPED, scale.shape) / (1 - DROPPED)
    items = features[rows.reshape(-1)]
    scores = network(params, items, mean, scale * dropout).reshape(rows.shape)
    values = loss(scores, labels, where, key)
    return jnp.sum(jnp.where(trains[batch], values, 0)) / QUERIES

  def run(mean, scale, trains, key):
    def step(carry, now):
      (params, state), (i, batch) = carry, now
      key_now = jax.random.fold_in(key, i)
      grads = jax.grad(objective)(params, mean, scale, trains, batch, key_now)
      updates, state = optimizer.update(grads, state, params)
      return (optax.apply_updates(params, updates), state), None

    def stretch(carry, now):
      carry, _ = jax.lax.scan(step, carry, now)
      return carry, evaluate(padded(network(carry[0], features, mean, scale), data), data)

    params = init(key, features.shape[1])
    steps = np.arange(batches[..., 0].size).reshape(batches.shape[:2]), batches
    return jax.lax.scan(stretch, (params, optimizer.init(params)), steps)[1]

  keys = jax.random.split(jax.random.key(0), len(plan.trains))
  values = jax.jit(jax.vmap(run))(mean, 1 / (std + 1e-2), plan.trains, keys)
  return np.asarray(values).transpose(2, 1, 0, 3)


def forests(data: Data, plan: Plan, width: int) -> np.ndarray:
  """Values `[measures, settings, networks, queries]` of LightGBM on the first features."""
  # Imported here because the tests import every module and do not need LightGBM.
  import lightgbm

  features = data.features[:, :width]
  values = jax.jit(lambda scores: evaluate(padded(scores, data), data))

  def grow(seed, trains, leaves):
    # LightGBM needs the rows of a query next to each other, as they are in `data.rows`.
    rows = data.rows[trains][data.where[trains]]
    labels, sizes = data.labels[trains][data.where[trains]], data.where[trains].sum(axis=1)
    table = lightgbm.Dataset(features[rows], labels, group=sizes)
    own = {"seed": seed, "num_leaves": leaves, "num_threads": 1}
    forest = lightgbm.train(FOREST | own, table, max(TREES))
    scores = (forest.predict(features, num_iteration=trees) for trees in TREES)
    return [np.asarray(values(s.astype(np.float32))) for s in scores]

  found = [[grow(*network, leaves) for network in enumerate(plan.trains)] for leaves in LEAVES]
  leaves_first = np.array(found).transpose(3, 0, 2, 1, 4)
  return leaves_first.reshape(len(MEASURES), -1, *leaves_first.shape[3:])


def _plain(loss: Callable[..., Array], **parameters) -> Loss:
  return lambda scores, labels, where, key: loss(scores, labels, where=where, **parameters)


def _less(metric: Callable[..., Array], **parameters) -> Loss:
  return lambda scores, labels, where, key: 1 - metric(scores, labels, where=where, **parameters)


def _perturbed(scores: Array, labels: Array, where: Array, key: Array) -> Array:
  return losses.perturbed(losses.approx_ndcg, key, samples=1)(
    scores, labels, where=where, gain=gains.exponential
  )


def _xe_ndcg(scores: Array, labels: Array, where: Array, key: Array) -> Array:
  return losses.xe_ndcg(scores, labels, where=where, key=key, gain=gains.exponential)


LOSSES: dict[str, Loss] = {
  "lambda_rank": _plain(losses.lambda_rank, gain=gains.exponential),
  "lambda_rank, metric=err": _plain(losses.lambda_rank, metric=jr.err, max_label=4),
  "lambda_rank, metric=average_precision": _plain(losses.lambda_rank, metric=jr.average_precision),
  "lambda_ndcg, k=10": _plain(losses.lambda_ndcg, k=10, gain=gains.exponential),
  "lambda_ndcg, ndcg2": _plain(losses.lambda_ndcg, scheme="ndcg2", gain=gains.exponential),
  "lambda_ndcg, ndcg2++": _plain(losses.lambda_ndcg, scheme="ndcg2++", gain=gains.exponential),
  "pairwise_logistic": _plain(losses.pairwise_logistic),
  "pairwise_hinge": _plain(losses.pairwise_hinge),
  "pairwise_soft_zero_one": _plain(losses.pairwise_soft_zero_one),
  "softmax": _plain(losses.softmax),
  "softmax, gain=exponential": _plain(losses.softmax, gain=gains.exponential),
  "poly1": _plain(losses.poly1),
  "xe_ndcg, a new key each step": _xe_ndcg,
  "unique_softmax": _plain(losses.unique_softmax, gain=gains.exponential),
  "list_mle": _plain(losses.list_mle),
  "approx_ndcg": _plain(losses.approx_ndcg, gain=gains.exponential),
  "approx_err": _plain(losses.approx_err, max_label=4),
  "approx_ap": _plain(losses.approx_ap),
  "smooth_ap": _plain(losses.smooth_ap),
  "perturbed(approx_ndcg), a new draw each step": _perturbed,
  "1 - ndcg, Laplace(1)": _less(jr.ndcg, gain=gains.exponential, ranking=jr.Laplace(1.0)),
  "1 - ndcg, Gumbel(1)": _less(jr.ndcg, gain=gains.exponential, ranking=jr.Gumbel(1.0)),
  "1 - err, Gumbel(1)": _less(jr.err, max_label=4, ranking=jr.Gumbel(1.0)),
  "1 - average_precision, Gumbel(1)": _less(jr.average_precision, ranking=jr.Gumbel(1.0)),
  "approx_mrr": _plain(losses.approx_mrr),
  "softrank_ndcg": _plain(losses.softrank_ndcg, gain=gains.exponential),
  "softrank_err": _plain(losses.softrank_err, max_label=4),
  "softrank_ap": _plain(losses.softrank_ap),
  "softrank_rr": _plain(losses.softrank_rr),
}


def of_forests(data: Data, plan: Plan) -> dict[str, Row]:
  """Rows of LightGBM with the parameters of its example, and with leaves and trees chosen."""
  rows = {}
  width = data.features.shape[1] // 2
  for name, used in {"": width, ", with rank features": 2 * width}.items():
    start = time.perf_counter()
    values = forests(data, plan, used)
    seconds = time.perf_counter() - start
    if not name:
      example = chosen(values[:, EXAMPLE : EXAMPLE + 1], plan)
      rows["LightGBM, its example (31 leaves, 100 trees)"] = Row(example, seconds / len(LEAVES))
    rows[f"LightGBM, leaves and trees chosen{name}"] = Row(chosen(values, plan), seconds)
  return rows


def of_loss(loss: Loss, data: Data, plan: Plan) -> Row:
  """The row of a loss, after training with it."""
  start = time.perf_counter()
  values = train(loss, data, plan)
  return Row(chosen(values, plan), time.perf_counter() - start)


def error(values: np.ndarray) -> np.ndarray:
  """The standard error of the mean over queries."""
  return values.std(axis=-1, ddof=1) / values.shape[-1] ** 0.5


def line(name: str, row: Row, reference: Row) -> str:
  """A row of the table, with the mean difference to the reference, query by query."""
  cells = [name if name.startswith("LightGBM") else f"`{name}`"]
  cells += [
    f"{m:.4f} ± {e:.4f}" for m, e in zip(row.values.mean(1), error(row.values), strict=True)
  ]
  difference = row.values[CHOSEN_BY] - reference.values[CHOSEN_BY]
  cells.append("-" if row is reference else f"{difference.mean():+.4f} ± {error(difference):.4f}")
  return "| " + " | ".join([*cells, f"{row.seconds:.0f}"]) + " |"


def table(rows: dict[str, Row]) -> str:
  """All rows, best nDCG@10 first, compared with the best LightGBM."""
  ordered = sorted(rows.items(), key=lambda item: -item[1].values[CHOSEN_BY].mean())
  reference = next(row for name, row in ordered if name.startswith("LightGBM"))
  header = ["trained on", *HEADINGS, "nDCG@10 minus the best LightGBM", "seconds"]
  rule = ["---"] * len(header)
  lines = ["| " + " | ".join(cells) + " |" for cells in (header, rule)]
  return "\n".join([*lines, *(line(name, row, reference) for name, row in ordered)])


def main() -> None:
  """Trains the chosen losses; the page is written only when all of them ran."""
  parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.benchmarks.losses")
  parser.add_argument("--data", type=pathlib.Path, required=True, help="the folder of the files")
  parser.add_argument("--seeds", type=int, default=2, help="networks for each fold")
  parser.add_argument("--only", nargs="+", choices=LOSSES, help="losses to print, no page")
  parser.add_argument("--output", type=pathlib.Path, default=_PAGE, help="the page to change")
  arguments = parser.parse_args()
  data = load(arguments.data)
  plan_ = plan(data, arguments.seeds)
  rows = of_forests(data, plan_)
  reference = max(rows.values(), key=lambda row: row.values[CHOSEN_BY].mean())
  for name in rows:
    print(line(name, rows[name], reference), flush=True)
  for name in arguments.only or LOSSES:
    rows[name] = of_loss(LOSSES[name], data, plan_)
    print(line(name, rows[name], reference), flush=True)
  if arguments.only:
    return
  text = arguments.output.read_text(encoding="utf-8")
  before, _, rest = text.partition(_BEGIN)
  _, _, after = rest.partition(_END)
  section = f"{_SET_UP.format(facts=report.machine())}\n{table(rows)}\n\n"
  arguments.output.write_text(before + _BEGIN + section + _END + after, encoding="utf-8")
  print(f"wrote {arguments.output}")


_SET_UP = """The table is of a network that is trained with each loss on the
learning-to-rank example of LightGBM: 251 queries of at most 27 documents, labels 0 to 4, about 300
sparse features and their ranks within the query. The network has one hidden layer. Its size, AdamW
and the settings of AdamW are the same for all losses. There are five folds over all queries and two
seeds per fold. The number of training steps is chosen for each fold on the other four, and so are
the numbers of leaves and trees of LightGBM's lambdarank. Standard errors are over queries, and the
difference to LightGBM is taken query by query. AP counts every label above 0 as relevant, which is
three quarters of the documents. Seconds are those of the whole run, with compilation, the network
and its evaluations, on a machine with other work. They do not compare the steps of losses, as the
column `time` of [Which loss?](#which-loss) does.

The features, width, dropout, rates and batch size were tuned by hand in about 18 trials, by the
nDCG@10 of `lambda_rank` on the same test folds; LightGBM had four trials. This favours the network
over LightGBM, and `lambda_rank` and similar losses over the other losses.

{facts}

"""


if __name__ == "__main__":
  main()
