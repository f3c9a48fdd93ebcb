"""What one part of jaxrank costs against another: shared rankings, ties, smooth ranks."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import jaxrank as jr

from . import noise, peers
from .report import Row, Section, Target, at_least, at_most, milliseconds, ratio_row
from .timing import Contender, check_same, jitted, race

# The gain of the losses that are written out below.
_NDCG = functools.partial(jr.ndcg, gain=jr.gains.exponential)

_EIGHTEEN = (
  "nDCG nDCG@5 nDCG@10 nDCG@20 nDCG@100 AP AP@10 RR RR@10 P@1 P@5 P@10 P@20 R@10 R@100 "
  "RBP(p=0.8) Rprec Success@5"
)


def one_ranking() -> Section:
  """Twenty measures against one, and averaged ties against a stable order."""
  data = peers.make_data()
  labels = jnp.asarray(data.labels, jnp.float32)
  kinds = {"few ties": jnp.asarray(data.scores), "many ties": jnp.round(data.scores, 1)}
  rows = [_twenty(kind, scores, labels) for kind, scores in kinds.items()]
  metrics: dict[str, tuple[Callable[..., Array], Target | None]] = {
    "nDCG, whole list": (_NDCG, at_most(1.5)),
    "nDCG@10": (functools.partial(_NDCG, k=10), at_most(1.5)),
    "average precision": (jr.average_precision, at_most(1.5)),
    "ERR, whole list": (functools.partial(jr.err, max_label=4), None),
  }
  for kind, scores in kinds.items():
    rows += [_ties(f"{name}, {kind}", m, scores, labels, t) for name, (m, t) in metrics.items()]
  rows += _one_sort(kinds["few ties"], labels)
  return Section("One ranking, many measures; ties", _RANKING_NOTES, rows)


def _twenty(kind: str, scores: Array, labels: Array) -> Row:
  names = {"all": peers.TWENTY, "one": "nDCG"}
  result = race({
    side: Contender(jitted(functools.partial(jr.evaluate, jr.parse(text)), scores, labels))
    .entry("nDCG")
    for side, text in names.items()
  })  # fmt: skip
  ours, alone = result["all"].seconds, result["one"].seconds
  what, against = f"twenty measures in one call, {kind}", "nDCG alone (ours / this)"
  return ratio_row(
    what, milliseconds(ours), against, milliseconds(alone), ours / alone, at_most(2.5)
  )


def _one_sort(scores: Array, labels: Array) -> list[Row]:
  """Calls against a sort of one int32 operand; heavily tied scores are normal ones in quarters."""
  heavy = jnp.round(4 * jnp.log(scores)) / 4
  rows = []
  for what, measures, given, most in (
    ("nDCG, no ties", "nDCG", scores, 0.6),
    (
      "twenty measures with ERR@10 and ERR@20, heavy ties",
      f"{_EIGHTEEN} ERR@10 ERR@20",
      heavy,
      3.0,
    ),
    ("twenty measures with R@5 and R@20, heavy ties", f"{_EIGHTEEN} R@5 R@20", heavy, 1.5),
  ):
    names = measures if measures == "nDCG" else f"{_EIGHTEEN} {measures}"
    call = functools.partial(jr.evaluate, jr.parse(names))
    result = race({
      "ours": Contender(jitted(call, given, labels)).entry("nDCG"),
      "sort": Contender(
        jitted(
          functools.partial(jax.lax.sort, is_stable=False),
          jax.lax.bitcast_convert_type(scores, jnp.int32),
        )
      ),
    })  # fmt: skip
    ours, sort = result["ours"].seconds, result["sort"].seconds
    against = "lax.sort of int32 (ours / this)"
    rows.append(
      ratio_row(what, milliseconds(ours), against, milliseconds(sort), ours / sort, at_most(most))
    )
  return rows


def _ties(
  what: str, metric: Callable[..., Array], scores: Array, labels: Array, target: Target | None
) -> Row:
  result = race({
    ties: Contender(jitted(functools.partial(metric, ranking=jr.Exact(ties=ties)), scores, labels))
    for ties in ("average", "stable")
  })  # fmt: skip
  ours, stable = result["average"].seconds, result["stable"].seconds
  ratio = ours / stable
  return ratio_row(
    what, milliseconds(ours), "stable (averaged / this)", milliseconds(stable), ratio, target
  )


def smooth() -> Section:
  """Value and gradient of nDCG on Laplace and logistic ranks and under Gumbel noise."""
  rows = [*_pairwise(), *_growth(), _logistic(), *_temperatures()]
  rows += [*noise.against_samples(training_data), *noise.long_list(training_data)]
  return Section("Training on nDCG: value and gradient", _SMOOTH_NOTES, rows)


def _pairwise() -> list[Row]:
  scores, labels = training_data(32, 1000)
  sides = {
    "ours": _laplace_loss,
    "pairwise, sigmoid (ApproxNDCG)": functools.partial(pairwise_loss, jax.nn.sigmoid),
    "pairwise, Laplace": functools.partial(pairwise_loss, _laplace_cdf),
  }
  contenders = {name: _gradient(loss, scores, labels) for name, loss in sides.items()}
  missing, rax = "", "rax.approx_t12n(rax.ndcg_metric)"
  try:
    contenders[rax] = _rax_contender(scores, labels)
  except ImportError:
    missing = "not installed"
  except AttributeError as error:  # The released 0.4.0 uses a module that current JAX has removed.
    missing = f"fails: {error}"
  result = race(contenders)
  check_same("the loss", "pairwise, Laplace", result["ours"].mean, result["pairwise, Laplace"].mean)
  ours = result.pop("ours").seconds
  rows = [
    ratio_row("nDCG, [32, 1000]", milliseconds(ours), name, milliseconds(other.seconds),
              other.seconds / ours, at_least(25) if "sigmoid" in name else None)
    for name, other in result.items()
  ]  # fmt: skip
  return rows + ([Row("nDCG, [32, 1000]", milliseconds(ours), rax, missing)] if missing else [])


def _rax_contender(scores: Array, labels: Array) -> Contender:
  import rax

  loss = rax.approx_t12n(rax.ndcg_metric)
  return _gradient(lambda s, y: -loss(s / 0.1, y), scores, labels)


def _growth() -> list[Row]:
  rows = []
  for queries in (1, 8):
    times = race({
      str(n): _gradient(_laplace_loss, *training_data(queries, n), rounds=9)
      for n in (10_000, 100_000)
    })  # fmt: skip
    short, long = times["10000"].seconds, times["100000"].seconds
    what, ours = f"nDCG, [{queries}, 100000]", milliseconds(long)
    if queries == 1:
      rows.append(Row(what, ours, judged=long, target=at_most(1, "second")))
    against = f"[{queries}, 10000] (ours / this)"
    rows.append(ratio_row(what, ours, against, milliseconds(short), long / short, at_most(13)))
  return rows


def _logistic() -> Row:
  lists = training_data(8, 4000)
  side = "pairwise, sigmoid (ApproxNDCG)"
  losses = {"ours": _logistic_loss, side: functools.partial(pairwise_loss, jax.nn.sigmoid)}
  calls = {name: jitted(jax.value_and_grad(loss), *lists) for name, loss in losses.items()}
  (value, slope), (expected, expected_slope) = (call() for call in calls.values())
  np.testing.assert_allclose(value, expected, rtol=1e-5)
  np.testing.assert_allclose(slope, expected_slope, rtol=0, atol=1e-5 * np.abs(slope).max())
  contenders = {name: Contender(lambda call=call: call()[0], 5) for name, call in calls.items()}
  ours, other = (x.seconds for x in race(contenders).values())
  what = "nDCG, Logistic, [8, 4000]"
  return ratio_row(what, milliseconds(ours), side, milliseconds(other), other / ours, at_least(10))


def _temperatures() -> list[Row]:
  scores, labels = training_data(32, 1000)
  temperatures = jnp.geomspace(0.05, 5, 16)

  def loss(temperature, scores, labels):
    return 1 - jnp.mean(_NDCG(scores, labels, ranking=jr.Laplace(temperature)))

  rows = []
  for what, one in {
    "value": loss,
    "value and gradient": jax.value_and_grad(loss, argnums=1),
  }.items():
    together = jitted(jax.vmap(one, (0, None, None)), temperatures, scores, labels)
    alone = [jitted(one, t, scores, labels) for t in temperatures]
    result = race({
      "ours": Contender(lambda call=together: jax.tree.leaves(call())[0], 9),
      "alone": Contender(lambda calls=alone: [jax.tree.leaves(call())[0] for call in calls], 9),
    })  # fmt: skip
    check_same(what, "separate calls", result["ours"].mean, result["alone"].mean)
    ours, other = result["ours"].seconds, result["alone"].seconds
    rows.append(
      ratio_row(f"nDCG at 16 temperatures, {what}, [32, 1000]", milliseconds(ours),
                "16 calls (ours / this)", milliseconds(other), ours / other,
                Target("at most a third", most=1 / 3))
    )  # fmt: skip
  return rows


def training_data(queries: int, candidates: int) -> tuple[Array, Array]:
  data = peers.make_data(queries, candidates)
  return jnp.log(jnp.asarray(data.scores)), jnp.asarray(data.labels, jnp.float32)


def _gradient(loss: Callable[..., Array], *arrays: Array, rounds: int = 9) -> Contender:
  call = jitted(jax.value_and_grad(loss), *arrays)
  return Contender(lambda: call()[0], rounds)


def _laplace_loss(scores: Array, labels: Array) -> Array:
  return 1 - jnp.mean(_NDCG(scores, labels, ranking=jr.Laplace(0.1)))


def _logistic_loss(scores: Array, labels: Array) -> Array:
  return 1 - jnp.mean(_NDCG(scores, labels, ranking=jr.Logistic(0.1)))


def pairwise_loss(precedes: Callable[[Any], Array], scores: Array, labels: Array) -> Array:
  """ApproxNDCG (Qin, Liu and Li 2010) at temperature 0.1 as it is usually written: n x n pairs."""
  gaps = (scores[..., None, :] - scores[..., :, None]) / 0.1
  # Every item precedes itself with probability one half, which is not a rank.
  rank = 0.5 + jnp.sum(precedes(gaps), axis=-1)
  gain = jnp.exp2(labels) - 1
  ideal = jnp.sort(gain, axis=-1, descending=True) / jnp.log2(np.arange(2, gain.shape[-1] + 2))
  return 1 - jnp.mean(jnp.sum(gain / jnp.log2(1 + rank), axis=-1) / jnp.sum(ideal, axis=-1))


def _laplace_cdf(z: Array) -> Array:
  tail = 0.5 * jnp.exp(-jnp.abs(z))
  return jnp.where(z < 0, tail, 1 - tail)


_RANKING_NOTES = f"""`[1000, 1000]` float32 scores as above ("few ties"), and the same rounded to
one decimal, where dozens of items tie with each other ("many ties"). The twenty measures, seven
over the whole list and thirteen with a cut-off, are `{peers.TWENTY}`.
"""

_SMOOTH_NOTES = """`1 - jr.ndcg(..., gain=jr.gains.exponential, ranking=jr.Laplace(0.1))` on
normal scores, averaged over queries, value and gradient together. The pairwise losses are plain JAX
in this benchmark: they compute ranks from an n x n matrix of sigmoids, as the paper and other
libraries do, or from one of Laplace distribution functions, whose loss must equal that of
`Laplace`. The approximate losses of the released rax 0.4.0 fail on current JAX, and their row shows
the error. `Logistic` must equal the sigmoids to 1e-5, in value and gradient. `Gumbel` is
at temperature 1. Its errors are those of the gradient, in norm, relative to the gradient of
`Gumbel` in float64. PL-Rank-3 (Oosterhuis, 2022) is implemented in this benchmark, without a
baseline or cut-off, and its sampling is timed. It is unbiased, and its noise decreases with the
square root of the number of samples. The last row adds the temporary memory of the compiled
program.
"""
