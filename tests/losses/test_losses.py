"""Every loss against its definition in plain Python, and the laws that all of them obey."""

import functools
import inspect
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxrank as jr
from jaxrank import losses
from jaxrank._core import all_pairs as sums_over_pairs
from tests.helpers import cases, oracles
from tests.helpers import loss_oracles as slow
from tests.helpers.suites import quick, thorough
from tests.helpers.together import Together, apart

QUERIES, N = 24, 7
T = 0.7


class Loss(NamedTuple):
  """A loss with parameters, and what is true of it."""

  public: Callable[..., Any]
  own: dict[str, Any]
  oracle: Callable[..., float] | None
  empty: float
  noisy: bool

  def __call__(self, scores, labels, where, **given):
    return self.public(scores, labels, where=where, **self.own, **given)

  def takes(self, parameter: str) -> bool:
    return parameter in inspect.signature(self.public).parameters


def row(public, oracle=None, *, empty=0.0, noisy=False, **own) -> Loss:
  """A row of the table; `empty` is the loss of a query with nothing relevant."""
  return Loss(public, own, oracle, empty, noisy)


def pairs(link, **own):
  return functools.partial(slow.mean_of_pairs, link=link, **own)


surrogate = functools.partial(row, empty=1.0)
LOSSES = {
  "softrank_ndcg": surrogate(losses.softrank_ndcg),
  "softrank_err": surrogate(losses.softrank_err, max_label=4),
  "softrank_ap": surrogate(losses.softrank_ap),
  "softrank_rr": surrogate(losses.softrank_rr),
  "approx_ndcg@3": surrogate(losses.approx_ndcg, k=3),
  "approx_err": surrogate(losses.approx_err, max_label=4),
  "approx_ap": surrogate(losses.approx_ap),
  "approx_mrr": surrogate(losses.approx_mrr),
  "smooth_ap": surrogate(losses.smooth_ap),
  "perturbed": row(losses.perturbed(losses.softmax, jax.random.key(3), samples=3), noisy=True),
  "softmax": row(losses.softmax, slow.softmax, temperature=T),
  "poly1": row(losses.poly1, slow.poly1, temperature=T, epsilon=0.5),
  "xe_ndcg": row(losses.xe_ndcg, slow.xe_ndcg, temperature=T),
  "xe_ndcg(key)": row(losses.xe_ndcg, key=jax.random.key(1), noisy=True),
  "sampled_softmax": row(losses.sampled_softmax, slow.softmax, temperature=T),
  "unique_softmax": row(losses.unique_softmax, slow.unique_softmax, temperature=T),
  "list_mle": row(losses.list_mle, slow.list_mle, temperature=T),
  "logistic": row(losses.pairwise_logistic, pairs(slow.softplus), temperature=T),
  "hinge": row(losses.pairwise_hinge, pairs(slow.relu), margin=T),
  "soft_zero_one": row(losses.pairwise_soft_zero_one, pairs(slow.sigmoid), temperature=T),
  "lambda_rank(err)": row(
    losses.lambda_rank,
    functools.partial(slow.lambda_rank, metric=oracles.err, max_label=4),
    metric=jr.err,
    max_label=4,
  ),
  **{
    f"lambda_ndcg({scheme})": row(
      losses.lambda_ndcg, functools.partial(slow.lambda_ndcg, scheme=scheme), scheme=scheme, k=3
    )
    for scheme in ("lambdarank", "ndcg2", "ndcg2++")
  },
}  # fmt: skip
# Losses that other tests compare with their definitions, and operators.
ELSEWHERE = (
  *("kl", "margin_mse", "rank_mse"),  # test_distillation.py
  *("neural_sort", "perturbed", "soft_sort"),
)
# All others, with their defaults and the oracles of their names.
LOSSES |= {
  name: row(getattr(losses, name), getattr(slow, name))
  for name in losses.__all__
  if getattr(losses, name) not in {loss.public for loss in LOSSES.values()}
  and name not in ELSEWHERE
  and hasattr(slow, name)
}
# Laws that need programs of their own hold for losses of each kind, some of them in quick tests.
CHEAP = ("softmax", "logistic", "list_mle", "lambda_ndcg(ndcg2)")
KINDS = (*CHEAP, "sampled_softmax", "unique_softmax", "lambda_rank(err)", "approx_ndcg@3")
OPERATORS = {"neural_sort": losses.neural_sort, "soft_sort": losses.soft_sort}
DEFINED = [name for name, loss in LOSSES.items() if loss.oracle]
WEIGHTED = [name for name in DEFINED if LOSSES[name].takes("weights")]

# Laws of arrays share one program of all losses.
every = pytest.mark.parametrize("name", LOSSES)
# Noise is drawn by the place of a query and of an item.
NOISY = [name for name, loss in LOSSES.items() if loss.noisy]


def tame(lists: cases.Cases) -> cases.Cases:
  """Finite scores of a size that plain Python can add, or -inf."""
  scores = np.where(lists.where & (lists.scores > 10), np.float32(4.5), lists.scores)
  return lists._replace(scores=scores)


def distinct(lists: cases.Cases, seed: int = 0) -> cases.Cases:
  """Scores without ties where items are retrieved."""
  scores = np.random.default_rng(seed).standard_normal(lists.scores.shape).astype(np.float32)
  return lists._replace(scores=np.where(np.isfinite(lists.scores), scores, lists.scores))


def frozen(lists: cases.Cases) -> cases.Cases:
  """The same, and no test can change it for the others."""
  for field in lists:
    field.flags.writeable = False
  return lists


LISTS = frozen(cases.draw(0, QUERIES, N, most_orders=10**6))
TAME = frozen(tame(LISTS))
DISTINCT = frozen(distinct(TAME))


def both(name: str, *lists):
  """Value and gradient of a loss of scores, labels and mask."""

  def total(scores, labels, where):
    value = LOSSES[name](scores, labels, where)
    return jnp.sum(jnp.where(jnp.isnan(value), 0, value)), value

  (_, value), slope = jax.value_and_grad(total, has_aux=True)(*lists)
  return value, slope


def by_name(names, function=both):
  return {name: functools.partial(function, name) for name in names}


of_all = Together(by_name(LOSSES))


def same(actual, expected, rtol=1e-5, atol=1e-6):
  np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)


def call(name: str, lists: cases.Cases):
  return of_all(name, *lists[:3])


# A surrogate is 1 less its metric, whose gradients have tests with those of the rankings.
OWN = [name for name, loss in LOSSES.items() if not loss.empty or name == "softrank_ndcg"]
in_float64 = Together(by_name(OWN))
of_own = pytest.mark.parametrize("name", OWN)


def widened(lists: cases.Cases, dtype=np.float64):
  """Four more columns of padding."""
  fills = np.nan, 9, False
  wide = [np.pad(x, ((0, 0), (0, 4)), constant_values=x.dtype.type(fill))
          for x, fill in zip(lists[:3], fills, strict=True)]  # fmt: skip
  return wide[0].astype(dtype), wide[1].astype(dtype), wide[2]


def call_wide(name: str, lists: cases.Cases):
  """In float64 and among more padding: of what is here, and of what is padding."""
  with jax.enable_x64(True):
    value, slope = in_float64(name, *widened(lists))
  assert value.dtype == slope.dtype == np.float64
  np.testing.assert_array_equal(slope[:, N:], 0)
  return value, slope[:, :N]


def test_every_public_loss_is_in_the_table():
  """One that is left out of the table above, and has no definition in `slow`, fails here."""
  tested = {loss.public for loss in LOSSES.values()}
  missing = {name for name in losses.__all__ if getattr(losses, name) not in tested}
  assert missing == set(ELSEWHERE)


@pytest.mark.parametrize("name", DEFINED)
def test_definition(name):
  for lists in (TAME, tame(cases.draw(7, QUERIES, N, most_orders=10**6))):
    expected = [LOSSES[name].oracle(items, **numbers(name)) for items in lists.queries()]
    same(call(name, lists)[0], expected, rtol=2e-5, atol=2e-6)


def numbers(name: str) -> dict[str, Any]:
  """The parameters that an oracle takes too."""
  own = LOSSES[name].own
  return {key: own[key] for key in ("temperature", "margin", "epsilon", "k") if key in own}


def with_weights(key, weights):
  name, gain = key
  own = {"gain": getattr(jr.gains, gain)} if gain else {}
  return LOSSES[name](*TAME[:3], weights=weights, **own)


GAINED = ("softmax", "poly1", "xe_ndcg", "unique_softmax")
WITH_WEIGHTS = [(name, "") for name in WEIGHTED]
WITH_WEIGHTS += itertools.product(GAINED, ("linear", "exponential"))
weighted = Together(by_name(WITH_WEIGHTS, with_weights))


@pytest.mark.parametrize(("name", "gain"), WITH_WEIGHTS)
def test_weights_of_items_and_gains(name, gain):
  own = {"gains": gain} if gain else {}
  queries = TAME.queries(weighted=True)
  expected = [LOSSES[name].oracle(items, **own, **numbers(name)) for items in queries]
  same(weighted((name, gain), TAME.weights), expected, rtol=2e-5, atol=2e-6)


@every
def test_values_and_gradients_are_finite(name):
  lists = LISTS
  for scores in hostile_scores():
    value, slope = call(name, lists._replace(scores=scores))
    assert np.all(np.isfinite(value))
    assert np.all(np.isfinite(slope))
    np.testing.assert_array_equal(slope[~lists.where | (scores == -np.inf)], 0)


def hostile_scores():
  """All tied, huge, infinite, not retrieved, and worse under the mask."""
  padding = np.where(np.arange(N) % 2, np.float32(np.nan), np.float32(np.inf))
  rng = np.random.default_rng(5)
  for levels in ((0.0,), (-1e30, 0.0, 1e30), (-np.inf, 0.5), (-np.inf,), (np.inf, 1.0), (3e38,)):
    yield np.where(LISTS.where, rng.choice(np.float32(levels), LISTS.where.shape), padding)
  yield LISTS.scores


def by_temperature(name, scores):
  def loss(temperature):
    own = {**LOSSES[name].own, "temperature": temperature}
    return LOSSES[name].public(scores, LISTS.labels, where=LISTS.where, **own)

  return jax.jvp(loss, (T,), (1.0,))[1]


TEMPERED = ("softmax", "poly1", "list_mle", "unique_softmax", "logistic")
tempered = Together(by_name(TEMPERED, by_temperature))


@pytest.mark.parametrize("name", TEMPERED)
def test_slopes_by_temperature_are_finite(name):
  for scores in hostile_scores():
    assert np.all(np.isfinite(tempered(name, scores)))


@pytest.mark.parametrize("name", DEFINED)
def test_huge_scores_keep_their_value(name):
  scores = TAME.scores * np.where(np.abs(TAME.scores) < 10, np.float32(2e37), np.float32(1))
  value, slope = call(name, TAME._replace(scores=scores))
  expected, wide = call_wide(name, TAME._replace(scores=scores))
  largest = np.finfo(np.float32).max
  same(value, np.minimum(expected, largest), atol=1e32)
  assert np.any((value > 1e37) & (value < 3e38)) or name in ("soft_zero_one", "lambda_rank(err)")
  held = value < largest
  same(slope[held], wide[held], rtol=1e-4)


@every
def test_nothing_relevant_has_no_gradient(name):
  value, slope = call(name, TAME)
  empty = ~(TAME.where & (TAME.labels > 0)).any(-1)
  assert empty.sum() > 2
  assert (~TAME.where.any(-1)).any()
  same(value[empty], LOSSES[name].empty)
  np.testing.assert_array_equal(slope[empty], 0)
  # The others have one, unless all items are equally good or lost.
  assert np.any(slope[~empty] != 0)


@every
def test_one_item(name):
  alone = np.arange(N) == 2
  lists = DISTINCT._replace(where=DISTINCT.where & alone)
  value, slope = call(name, lists)
  assert np.all(np.isfinite(value))
  same(slope, 0)


@every
def test_not_retrieved_items_are_left_out(name):
  labels = np.where(np.isfinite(TAME.labels), np.clip(TAME.labels, 0, 4), np.float32(1))
  lists = DISTINCT._replace(where=np.ones_like(LISTS.where), labels=labels)
  lost = lists.scores.copy()
  lost[:, [1, 4]] = -np.inf
  value, slope = call(name, lists._replace(scores=lost))
  np.testing.assert_array_equal(slope[:, [1, 4]], 0)
  if LOSSES[name].empty or "lambda" in name:
    return  # The ideal of a metric counts them.
  shown = lists.where.copy()
  shown[:, [1, 4]] = False
  other, other_slope = call(name, lists._replace(where=shown))
  same(value, other)
  same(slope, other_slope)


@pytest.mark.parametrize("name", [name for name in LOSSES if name not in NOISY])
def test_order_of_the_items_is_irrelevant(name):
  order = np.random.default_rng(0).random(DISTINCT.scores.shape).argsort(-1)
  for lists in (DISTINCT, TAME):
    shuffled = cases.Cases(*(np.take_along_axis(x, order, -1) for x in lists))
    value, slope = call(name, lists)
    other, moved = call(name, shuffled)
    same(other, value)
    if lists is DISTINCT:
      # Of items with equal scores and labels, a lambda loss puts the first column ahead.
      same(moved, np.take_along_axis(slope, order, -1), rtol=1e-4)


of_noisy = Together(by_name(NOISY))


@every
def test_what_stands_under_the_mask_is_irrelevant(name):
  scores = np.where(TAME.where, TAME.scores, np.float32(0.25))
  labels = np.where(TAME.where, TAME.labels, np.float32(3))
  other = call(name, TAME._replace(scores=scores, labels=labels))
  for found, expected in zip(other, call(name, TAME), strict=True):
    np.testing.assert_array_equal(found, expected)


@of_own
def test_padding_is_irrelevant(name):
  value, slope = call(name, TAME)
  if name in NOISY:
    # Its bits are others in float64.
    wide_value, wide_slope = of_noisy(name, *widened(TAME, np.float32))
    np.testing.assert_array_equal(wide_slope[:, N:], 0)
    wide_slope = wide_slope[:, :N]
  else:
    wide_value, wide_slope = call_wide(name, TAME)
  same(wide_value, value)
  same(wide_slope, slope, rtol=1e-4)


def alone_and_mapped(name, *lists):
  """The values of `jax.vmap`, and the value and the gradient of one query."""
  each = jax.vmap(lambda *lists: LOSSES[name](*lists))
  return each(*lists), both(name, *(x[5] for x in lists))


mapped = apart(by_name(KINDS, alone_and_mapped), CHEAP)


@quick("name", KINDS, CHEAP)
def test_jit_and_batch_change_nothing(name):
  value, slope = call(name, DISTINCT)
  same(LOSSES[name](*DISTINCT[:3]), value)
  each, (row_value, row_slope) = mapped(name, *DISTINCT[:3])
  same(each, value)
  assert row_value.shape == ()
  same(row_value, value[5])
  same(row_slope, slope[5], rtol=1e-4)


@every
def test_not_a_number_poisons_its_own_query(name):
  scores = np.where(np.isfinite(DISTINCT.scores), DISTINCT.scores, np.float32(0.125))
  labels = np.broadcast_to(np.float32([0, 1, 0, 2, 0, 1, 0]), scores.shape).copy()
  lists = DISTINCT._replace(scores=scores, labels=labels, where=np.ones_like(LISTS.where))
  clean, clean_slope = call(name, lists)
  lists.scores[2, 3] = lists.labels[5, 1] = np.nan
  value, slope = call(name, lists)
  np.testing.assert_array_equal(np.isnan(value), np.isin(np.arange(QUERIES), [2, 5]))
  kept = np.delete(np.arange(QUERIES), [2, 5])
  same(value[kept], clean[kept])
  same(slope[kept], clean_slope[kept])
  assert np.all(np.isfinite(slope))


def test_the_only_relevant_item_may_be_not_a_number():
  scores, labels = jnp.array([[jnp.nan, 0.0, 0.0], [0.0, jnp.nan, 0.0]]), jnp.array([1, 0, 0])
  value, slope = jax.vmap(jax.value_and_grad(losses.xe_ndcg), (0, None))(scores, labels)
  assert np.all(np.isnan(value))
  np.testing.assert_array_equal(slope, 0)


of_half = apart(by_name(KINDS), CHEAP)


@quick("name", KINDS, CHEAP)
def test_half_precision(name):
  half = DISTINCT.scores.astype(jnp.bfloat16)
  value, slope = of_half(name, half, *DISTINCT[1:3])
  expected, wide = call(name, DISTINCT._replace(scores=half.astype(np.float32)))
  assert value.dtype == jnp.float32
  assert slope.dtype == jnp.bfloat16
  same(value, expected)
  same(np.asarray(slope, np.float32), wide, rtol=2e-2, atol=1e-3)


@of_own
def test_gradients_are_slopes(name):
  rng = np.random.default_rng(0)
  scores, directions = DISTINCT.scores.astype(np.float64), rng.standard_normal((2, QUERIES, N))
  _, slope = call_wide(name, DISTINCT)
  for direction in directions:
    step = np.where(DISTINCT.where & np.isfinite(scores), 1e-6 * direction, 0)
    up, down = (
      call_wide(name, DISTINCT._replace(scores=s))[0] for s in (scores + step, scores - step)
    )
    rise = np.where(step, slope * direction, 0).sum(-1)
    same(rise, (up - down) / 2e-6, rtol=1e-6, atol=1e-7 * np.abs(slope).max())


def test_slopes_of_a_cross_entropy_by_weights_and_numbers():
  """Its rule is written by hand: `poly1` has every term of it, and each may move."""
  rng = np.random.default_rng(1)
  scores, labels, where = DISTINCT[:3]
  point = {
    "weights": rng.uniform(0.5, 2.0, scores.shape),
    "epsilon": np.float64(0.6),
    "temperature": np.float64(1.7),
  }

  @jax.jit
  def value(given):
    return losses.poly1(scores.astype(np.float64), labels, where=where, **given)

  with jax.enable_x64(True):
    for name, x in point.items():
      move = rng.normal(size=x.shape)
      up, down = (value({**point, name: x + step * move}) for step in (1e-6, -1e-6))
      along = {key: move if key == name else np.zeros_like(y) for key, y in point.items()}
      _, rise = jax.jvp(value, (point,), (along,))
      same(rise, (up - down) / 2e-6, rtol=1e-7, atol=1e-8)


def test_lambda_ndcg_orders_ties_by_label():
  """Unjudged items first: the gradient of the weights of pairs that the order gives."""
  order = [-1, 0, 1]
  discount = [1 / np.log2(1 + r) for r in (1, 2, 3)]
  expected = {-1: (discount[0] - discount[2]) / 2, 0: (discount[1] - discount[2]) / 2}
  expected[1] = -sum(expected.values())
  labels = np.array(list(itertools.permutations(order)))
  slope = jax.grad(lambda s: jnp.sum(losses.lambda_ndcg(s, labels)))(np.zeros(labels.shape))
  np.testing.assert_allclose(slope, np.vectorize(expected.get)(labels), rtol=1e-5)


def test_lambda_rank_is_lambda_ndcg():
  for k in (None, 3):
    one = losses.lambda_rank(*TAME[:2], where=TAME.where, k=k)
    other = losses.lambda_ndcg(*TAME[:2], where=TAME.where, k=k)
    same(one, other)


@thorough
def test_no_matrix_of_pairs_is_held():
  n = 8192
  scores, labels = (
    jax.ShapeDtypeStruct((2, n), jnp.float32),
    jax.ShapeDtypeStruct((2, n), jnp.int32),
  )
  for loss in (losses.pairwise_logistic,
               functools.partial(losses.lambda_rank, metric=jr.err, max_label=4),
               functools.partial(losses.lambda_ndcg, scheme="ndcg2++", k=10)):  # fmt: skip
    slope = jax.jit(jax.value_and_grad(lambda *lists, loss=loss: jnp.sum(loss(*lists))))
    memory = slope.lower(scores, labels).compile().memory_analysis().temp_size_in_bytes
    assert memory < 2 * n * n * 4 / 16, memory


SHARED = ["approx_ndcg@3", "xe_ndcg(key)", "perturbed", "sampled_softmax", "list_mle",
          "unique_softmax", "logistic", "lambda_rank(err)"]  # fmt: skip


# A program of those that are quick, and one of the others.
SPREAD = [["logistic"], [name for name in SHARED if name != "logistic"]]


@pytest.mark.parametrize(
  "names", [SPREAD[0], pytest.param(SPREAD[1], marks=thorough)], ids=["logistic", "others"]
)
def test_losses_train_on_many_devices(names, monkeypatch):
  # So that the seven rows of a query make three blocks.
  monkeypatch.setattr(sums_over_pairs, "_PAIRS", 3 * QUERIES * N)

  def slopes(*lists):
    return {name: both(name, *lists)[1] for name in names if name not in NOISY}

  mesh = jax.make_mesh((4,), ("q",), axis_types=(AxisType.Auto,))
  found = jax.jit(jax.shard_map(slopes, mesh=mesh, in_specs=P("q"), out_specs=P("q")))
  for name, slope in found(*DISTINCT[:3]).items():
    same(slope, call(name, DISTINCT)[1], rtol=1e-4)
  mesh = jax.make_mesh((4,), ("q",), axis_types=(jax.sharding.AxisType.Explicit,))
  with jax.set_mesh(mesh):
    lists = [jax.device_put(x, NamedSharding(mesh, P("q", None))) for x in DISTINCT[:3]]
    found = jax.jit(lambda *lists: {name: both(name, *lists) for name in names})(*lists)
  for name, (spread_value, spread_slope) in found.items():
    value, slope = call(name, DISTINCT)
    assert jax.typeof(spread_slope).sharding.spec == P("q", None), name
    same(spread_value, value)
    same(spread_slope, slope, rtol=1e-4)


def test_soft_zero_one_is_pair_accuracy_when_cold():
  scores, labels = (np.random.default_rng(seed).permuted(np.arange(20.0)[None]) for seed in (0, 1))
  value = losses.pairwise_soft_zero_one(np.float32(scores), labels // 4, temperature=1e-3)
  same(value, 1 - jr.ordered_pair_accuracy(np.float32(scores), labels // 4))


@quick("rows", [1, 3, 7, 9], [3])
def test_blocks_change_nothing(rows):
  rng = np.random.default_rng(0)
  z, w = np.float32(rng.standard_normal((2, 7)))

  def pair(upper, lower):
    (z, w, live), (other, v, other_live) = upper, lower
    both_live = live & other_live
    return jnp.where(both_live, w * v * jax.nn.softplus(z - other), 0), both_live.astype(z.dtype)

  def sums(z, w):
    items = z, w, jnp.ones(7, bool)
    return sums_over_pairs.total(pair, items, rows)

  expected = w[:, None] * w * np.log1p(np.exp(z[:, None] - z))
  value, count = sums(z, w)
  same(value, expected.sum())
  assert count == 49
  slope = jax.grad(lambda z: sums(z, w)[0])(z)
  chance = w[:, None] * w / (1 + np.exp(z - z[:, None]))
  same(slope, chance.sum(1) - chance.sum(0), atol=1e-5)


TWINS = {
  "softrank_ndcg": jr.ndcg,
  "softrank_ap": jr.average_precision,
  "softrank_rr": jr.reciprocal_rank,
  "softrank_err": jr.err,
  "approx_ndcg@3": jr.ndcg,
  "approx_err": jr.err,
  "approx_ap": jr.average_precision,
  "smooth_ap": jr.average_precision,
  "approx_mrr": jr.reciprocal_rank,
}


def cold_and_metric(name, scores, labels, where):
  """A surrogate in the cold, and its metric, exact and under the ranking of the surrogate."""
  loss, metric = LOSSES[name], TWINS[name]
  default = inspect.signature(loss.public).parameters["ranking"].default
  cold = loss(scores, labels, where, ranking=type(default)(jnp.float32(1e-6)))
  found = [metric(scores, labels, where=where, ranking=x, **loss.own)
           for x in (jr.Exact(), default)]  # fmt: skip
  return cold, *found


twins = apart(by_name(TWINS, cold_and_metric), ["softrank_ndcg"])


@quick("name", TWINS, ["softrank_ndcg"])
def test_surrogates_are_exact_when_cold(name):
  cold, exact, warm = twins(name, *DISTINCT[:3])
  same(cold, 1 - exact, rtol=1e-5, atol=2e-5)
  same(call(name, DISTINCT)[0], 1 - warm)


@quick("name", ["softrank_ndcg", "approx_ndcg@3"], ["softrank_ndcg"])
def test_surrogates_of_ndcg_pass_every_parameter(name):
  loss, lists = LOSSES[name], DISTINCT
  own = loss.own | {
    "gain": jr.gains.exponential, "discount": jr.discounts.reciprocal, "weights": lists.weights
  }  # fmt: skip
  default = inspect.signature(loss.public).parameters["ranking"].default
  value = loss.public(*lists[:2], where=lists.where, **own)
  same(value, 1 - jr.ndcg(*lists[:2], where=lists.where, ranking=default, **own))


@pytest.mark.parametrize("name", ["softrank_err", "approx_err"])
def test_surrogates_of_err_need_the_largest_label(name):
  with pytest.raises(TypeError, match="max_label"):
    LOSSES[name].public(*DISTINCT[:2])


def test_list_mle_bounds_the_mean_over_orders():
  queries = TAME.queries()
  chosen = np.array([len(slow.levels(items)) > 1 for items in queries])
  queries = [items for items, here in zip(queries, chosen, strict=True) if here]
  value = np.asarray(losses.list_mle(*TAME[:2], where=TAME.where))[chosen]
  mean = np.array([slow.likelihood_over_orders(items) for items in queries])
  assert np.all(value >= mean - 1e-5)
  assert np.any(value > mean + 1e-3)
  untied = np.array([
    all(len({item.score for item in group}) == 1 for group in slow.levels(items)[:-1])
    for items in queries
  ])  # fmt: skip
  assert untied.sum() > 2
  same(value[untied], mean[untied], rtol=1e-4)


@pytest.mark.parametrize("name", OPERATORS)
def test_soft_permutations(name):
  @jax.jit
  def call(scores, where, temperature):
    def total(scores):
      soft = OPERATORS[name](scores, where=where, temperature=temperature)
      return jnp.sum(soft @ jnp.arange(N, dtype=soft.dtype) ** 2), soft

    (_, soft), slope = jax.value_and_grad(total, has_aux=True)(scores)
    return soft, slope

  shown = DISTINCT.where & (DISTINCT.scores > -np.inf)
  ranks = np.arange(N) < shown.sum(-1, keepdims=True)
  soft, slope = map(np.asarray, call(*DISTINCT[::2][:2], np.float32(0.5)))
  same(soft.sum(-1), ranks)
  np.testing.assert_array_equal(soft.swapaxes(-1, -2)[~shown], 0)
  assert np.all(np.isfinite(slope))
  np.testing.assert_array_equal(slope[~shown], 0)
  assert np.any(slope != 0)
  cold, _ = call(DISTINCT.scores, DISTINCT.where, np.float32(1e-5))
  order = np.where(shown, -DISTINCT.scores, np.inf).argsort(-1, stable=True)
  same(np.asarray(cold), np.eye(N)[order] * ranks[..., None])
  for scores in hostile_scores():
    for x in call(scores, LISTS.where, np.float32(0.5)):
      assert np.all(np.isfinite(x))


def definition_of_neural_sort(s, temperature):
  n = len(s)
  spread = [sum(abs(a - b) for b in s) for a in s]
  rows = [[((n - 1 - 2 * r) * s[i] - spread[i]) / temperature for i in range(n)] for r in range(n)]
  return [[math.exp(x - slow.log_sum_exp(row)) for x in row] for row in rows]


def definition_of_soft_sort(s, temperature):
  rows = [[-abs(a - b) / temperature for b in s] for a in sorted(s, reverse=True)]
  return [[math.exp(x - slow.log_sum_exp(row)) for x in row] for row in rows]


def test_definitions_of_soft_permutations():
  s = [0.3, -1.0, 2.0, 0.25]
  same(losses.neural_sort(jnp.array(s), temperature=T), definition_of_neural_sort(s, T))
  same(losses.soft_sort(jnp.array(s), temperature=T), definition_of_soft_sort(s, T))


@thorough
def test_noise_is_by_column_and_sample():
  lists = DISTINCT
  for draw in (
    lambda key: losses.xe_ndcg(*lists[:2], where=lists.where, key=key),
    lambda key: losses.perturbed(losses.softmax, key)(*lists[:2], where=lists.where),
  ):
    one, again, other = (np.asarray(draw(jax.random.key(seed))) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert np.any(one != other)
  still = losses.perturbed(losses.softmax, jax.random.key(0), samples=3, scale=1e-9)
  same(still(*lists[:2], where=lists.where), losses.softmax(*lists[:2], where=lists.where))
  flat = jnp.zeros((1, 2000))
  labels = jnp.zeros((1, 2000)).at[0, 0].set(1)
  noisy = losses.perturbed(losses.softmax, jax.random.key(0), samples=300)(flat, labels)
  # E log sum exp G less E G_0; the sum of 2000 variables of infinite mean is not their number.
  sampled = np.random.default_rng(0).gumbel(size=(3000, 2000))
  expected = np.log(np.exp(sampled).sum(-1)) - sampled[:, 0]
  assert abs(noisy[0] - expected.mean()) < 5 * expected.std() / 300**0.5


def test_numbers_sweep():
  lists = TAME[:2]
  sweeps = {
    "temperature": (losses.softmax, np.float32([0.5, 2.0])),
    "margin": (losses.pairwise_hinge, np.float32([0.5, 2.0])),
    "k": (functools.partial(losses.lambda_ndcg, scheme="ndcg2"), np.int32([2, 4])),
    "mu": (functools.partial(losses.lambda_ndcg, scheme="ndcg2++"), np.float32([1.0, 9.0])),
    "persistence": (
      functools.partial(losses.lambda_rank, metric=jr.rbp), np.float32([0.3, 0.9])
    ),
  }  # fmt: skip
  for name, (loss, values) in sweeps.items():
    swept = jax.jit(
      jax.vmap(lambda x, loss=loss, name=name: loss(*lists, where=TAME.where, **{name: x}))
    )(values)
    for value, x in zip(swept, values, strict=True):
      same(value, loss(*lists, where=TAME.where, **{name: x.item()}))


def test_mistakes():
  lists = DISTINCT[:2]
  for temperature in (0, -1.0):
    with pytest.raises(ValueError, match="temperature"):
      losses.softmax(*lists, temperature=temperature)
  with pytest.raises(ValueError, match=r"^spearman: .*affine"):
    losses.lambda_rank(*lists, metric=jr.spearman)
  with pytest.raises(TypeError, match="topn"):
    losses.lambda_rank(*lists, topn=3)
  with pytest.raises(TypeError, match="ranking"):
    losses.lambda_rank(*lists, ranking=jr.Exact())
  for scheme in ("lambdarank", "ndcg2", "ndcg2++"):
    with pytest.raises(TypeError, match=r"^lambda_ndcg: mu must be a scalar.*use vmap"):
      losses.lambda_ndcg(*lists, scheme=scheme, mu=np.array([3.0, 1.0]))
    with pytest.raises(TypeError, match=r"^lambda_ndcg: mu must be a number, got \[3, 1\]"):
      losses.lambda_ndcg(*lists, scheme=scheme, mu=[3, 1])
  with pytest.raises(ValueError, match="'ndcg3'"):
    losses.lambda_ndcg(*lists, scheme="ndcg3")
  with pytest.raises(ValueError, match=r"^average_precision: .*affine"):
    losses.lambda_rank(*lists, metric=jr.average_precision, normalizer="retrieved")
  for k in (0, -1):
    with pytest.raises(ValueError, match=f"k.*{k}"):
      losses.lambda_ndcg(*lists, k=k)
  with pytest.raises(ValueError, match="samples"):
    losses.perturbed(losses.softmax, jax.random.key(0), samples=0)
  with pytest.raises(ValueError, match="scale"):
    losses.perturbed(losses.softmax, jax.random.key(0), scale=-1.0)
  with pytest.raises(ValueError, match=r"weights.*\(24, 6\)"):
    losses.pairwise_hinge(*lists, weights=np.ones((24, 6)))
  with pytest.raises(TypeError, match="where"):
    losses.list_mle(*lists, where=np.ones((24, 7)))


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "perturbed"])
def test_mistakes_name_the_loss(name):
  loss = LOSSES[name]
  with pytest.raises(ValueError, match=rf"^{loss.public.__name__}: .*\(24, 7\).*\(24, 6\)"):
    loss(TAME.scores, TAME.labels[:, 1:], None)
  with pytest.raises(ValueError, match=rf"^{loss.public.__name__}: scores must have rows of one"):
    loss([[1.0, 2.0], [3.0]], [1, 0], None)


def test_softmax_is_that_of_optax():
  import optax

  lists = DISTINCT.where & np.isfinite(DISTINCT.scores)
  shown = lists.any(-1)
  scores, labels = (np.where(lists, x, 0)[shown] for x in (DISTINCT.scores, DISTINCT.labels))
  labels, where, weights = np.maximum(labels, 0), lists[shown], np.ones_like(labels) + 0.5
  expected = optax.losses.ranking_softmax_loss(
    jnp.array(scores), jnp.array(labels), where=where, weights=weights, reduce_fn=None
  )
  same(losses.softmax(scores, labels, where=where, weights=weights), expected)
