"""The questions of a ranked query, asked by small kernels, against brute force."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank._core import platforms
from jaxrank._core.ranked import ALL_PAIRS
from jaxrank.rankings import pairs
from tests.helpers import cases, oracles, smooth_oracles
from tests.helpers.suites import quick

QUERIES, N = 300, 8
TEMPERATURE = 0.7
SMOOTH = ("Laplace", "Logistic", "Gumbel", "Gaussian")
# Items with a label from here on are those that ranks are counted among.
AMONG = 2


@jr.metric
def weight_ahead(ranked, *, weights):
  return ranked.in_input_order(ranked.before(weights))


@jr.metric
def weight_down_to(ranked, *, weights):
  return ranked.cumulative(weights)


@jr.metric
def among(ranked, *, weights, k=None, discount=jr.discounts.reciprocal):
  return ranked.expect(weights, discount, k=k, among=ranked.relevant(AMONG))


@jr.metric
def through(ranked, *, weights, k=None, discount=jr.discounts.reciprocal):
  return ranked.precision(ranked.relevant(AMONG), k=k, weights=weights, discount=discount)


@jr.metric
def concordant(ranked):
  return ranked.pairs().concordant


@jr.metric
def cascade(ranked):
  return ranked.cascade(ranked.stop_probability(4), jr.discounts.reciprocal, k=3)


def halving(rank):
  """A discount that is a plain function."""
  return 1 / (1 + jnp.square(rank - 1))


DISCOUNTS = {
  jr.discounts.reciprocal: lambda rank: 1 / rank,
  jr.discounts.logarithmic: lambda rank: 1 / math.log2(1 + rank),
  jr.discounts.affine(3.0, -0.5): lambda rank: 3 - 0.5 * (rank - 1),
  halving: lambda rank: 1 / (1 + (rank - 1) ** 2),
}


def of_ties(ties):
  """Queries whose weights follow from their labels where a rule for ties looks at labels alone."""
  drawn = cases.draw(7, QUERIES, N)
  if ties in ("optimistic", "pessimistic"):
    drawn = drawn._replace(weights=np.where(drawn.where, 1 + np.abs(drawn.labels), np.nan))
  return drawn


def noisy():
  """Queries that noise reorders: close scores, ties, items not retrieved, unjudged items."""
  rng = np.random.default_rng(3)
  shape = (12, 6)
  scores = rng.choice(np.float32([-1.0, 0.0, 0.0, 0.25, 1.0, -np.inf]), shape)
  where = rng.random(shape) < 0.9
  where[0] = False
  return cases.Cases(
    np.where(where, scores, np.float32(np.nan)),
    np.where(where, rng.choice(np.float32([-1, 0, 1, 2, 3]), shape), np.float32(9)),
    where,
    np.where(where, rng.choice(np.float32(cases.WEIGHTS), shape), np.float32(np.nan)),
  )


def ask(metric, drawn, ranking, **own):
  """The answers for all queries."""
  call = functools.partial(metric, ranking=ranking, **own)
  return np.asarray(jax.jit(call)(*drawn[:2], where=drawn.where, weights=drawn.weights))


def same(actual, expected, rtol=2e-6, atol=2e-6):
  np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)


def ahead_of_each(row, chance):
  """The weight ahead of each item of one padded row, from the chance that an item is ahead."""
  scores, _, where, weights = row
  expected = np.zeros(len(scores))
  found = [i for i in range(len(scores)) if where[i] and scores[i] > -np.inf]
  for i in range(len(scores)):
    if where[i]:
      lost = i not in found
      ahead = [j for j in found if j != i]
      expected[i] = sum(
        weights[j] * (1 if lost else chance(float(scores[j]), float(scores[i]))) for j in ahead
      )
  return expected


def exactly(one, other):
  """Whether an item of one score stands ahead of one of another; tied items half."""
  return (one > other) + (one == other) / 2


@pytest.mark.parametrize("ties", oracles.TIES)
def test_before_is_the_weight_above_and_half_of_that_of_the_tie(ties):
  drawn = of_ties(ties)
  expected = [ahead_of_each(row, exactly) for row in zip(*drawn, strict=True)]
  same(ask(weight_ahead, drawn, jr.Exact(ties)), expected)


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
@quick("n", [1, 2, 9, 32, 33, 128, 530, ALL_PAIRS], [1, 33])
def test_pairs_of_short_lists_are_those_of_sorts(n, platform):
  rng = np.random.default_rng(n)
  scores = rng.choice(np.float32([-np.inf, -1, 0, 0.5, 2]), size=(20, n))
  scores[10:] = rng.standard_normal((10, n))
  labels = rng.integers(-1, 3, size=(20, n)).astype(np.float32)
  where = rng.random((20, n)) < 0.8
  labels[-1] = scores[-1]
  where[[0, -1]] = True

  def both(*query):
    return pairs._compared(jr.Exact()(*query, k=0)), pairs._by_sorts(jr.Exact()(*query))

  labels[11], scores[11], where[11] = np.arange(n), np.arange(n), True
  labels[12], scores[12], where[12] = np.arange(n), -np.arange(n), True
  with platforms.forced(platform):
    compared, by_sorts = jax.jit(jax.vmap(both))(scores, labels, where)
  jax.tree.map(np.testing.assert_array_equal, compared, by_sorts)
  assert np.all(compared.different_scores >= compared.concordant + compared.discordant)


def test_before_is_blind_to_how_ties_are_drawn():
  drawn = of_ties("random")
  value = ask(weight_ahead, drawn, jr.Exact("random", key=jax.random.key(0)))
  np.testing.assert_array_equal(value, ask(weight_ahead, drawn, jr.Exact("stable")))


def smooth_chance(kind):
  """The closed form of the chance that noise, or the ranking itself, puts one item ahead."""

  def normal(z):
    return math.erfc(-z / 2) / 2

  def logistic(z):
    return 1 / (1 + math.exp(-z))

  def laplace(z):
    return math.exp(z) / 2 if z < 0 else 1 - math.exp(-z) / 2

  forms = {"Laplace": laplace, "Logistic": logistic, "Gumbel": logistic, "Gaussian": normal}
  # The difference of two normal numbers has the variance of both.
  return lambda one, other: forms[kind]((one - other) / TEMPERATURE)


def test_before_of_a_smooth_ranking_is_a_sum_over_pairs():
  drawn = noisy()

  @jax.jit
  def at(scores, labels, where, weights, temperature):
    rankings = [getattr(jr, kind)(temperature) for kind in SMOOTH]
    call = functools.partial(weight_ahead, scores, labels, where=where, weights=weights)
    return call(), [call(ranking=ranking) for ranking in rankings]

  _, warm = at(*drawn, np.float32(TEMPERATURE))
  exact, cold = at(*drawn, np.float32(1e-6))
  for kind, value, limit in zip(SMOOTH, warm, cold, strict=True):
    expected = [ahead_of_each(row, smooth_chance(kind)) for row in zip(*drawn, strict=True)]
    same(value, expected, rtol=1e-5)
    # In the cold it is that of the exact ranking, under whatever rule for ties.
    same(limit, exact, rtol=2e-5, atol=1e-5)


def rank_among(order, items, k, discount):
  """The weights of an order, discounted by ranks among the items of the mask."""
  total, ahead = 0.0, 0
  for item in order:
    if k is None or ahead < k:
      total += item.weight * discount(1 + ahead)
    ahead += item.label >= AMONG
  return total


def weight_through(order, items, k, discount):
  """The discounted weights from the head of an order through each item of the mask."""
  total, weight = 0.0, 0.0
  for rank, item in enumerate(order[:k], 1):
    weight += item.weight
    total += weight * discount(rank) * (item.label >= AMONG)
  return total


# Questions about an order, beside what they are of one order.
OF_ORDER = {"among": (among, rank_among), "through": (through, weight_through)}
of_order = quick("question", OF_ORDER, OF_ORDER)


def mean_over_orders(value, drawn, ties, k, discount):
  """By all orders of every query; one cut-off for all, or one for each."""
  ks = k if isinstance(k, np.ndarray) else [k] * len(drawn.scores)
  return [
    oracles.expectation(value, items, ties, k=k, discount=discount)
    for items, k in zip(drawn.queries(weighted=True), ks, strict=True)
  ]


def answers(question, drawn, ranking, cuts, discounts):
  """The answers at all cut-offs and with all discounts, from one program."""
  asked = list(itertools.product(cuts, discounts))
  measures = []
  for i, (k, discount) in enumerate(asked):
    given = {"weights": drawn.weights, "k": k, "discount": discount}
    measures.append(jr.Measure(OF_ORDER[question][0], name=str(i), **given))

  @jax.jit
  def each(scores, labels, where):
    return jr.evaluate(measures, scores, labels, where=where, ranking=ranking)

  values = each(*drawn[:3])
  return [(pair, values[str(i)]) for i, pair in enumerate(asked)]


@of_order
@quick("ties", oracles.TIES, ["average"])
def test_the_answer_is_the_mean_over_all_orders(question, ties):
  drawn = of_ties(ties)
  # Down to rank 2 of 8, items are selected and not sorted.
  found = answers(question, drawn, jr.Exact(ties), (None, 1, 2, 3, 99), DISCOUNTS)
  for (k, discount), value in found:
    expected = mean_over_orders(OF_ORDER[question][1], drawn, ties, k, DISCOUNTS[discount])
    same(value, expected, rtol=5e-6, atol=5e-6)


@of_order
def test_an_answer_at_a_cutoff_of_each_query(question):
  (metric, of_one), drawn = OF_ORDER[question], of_ties("average")
  ks = np.random.default_rng(0).integers(1, N + 3, QUERIES).astype(np.int32)

  @jax.jit
  @jax.vmap
  def at(scores, labels, where, weights, k):
    return metric(scores, labels, where=where, weights=weights, k=k)

  expected = mean_over_orders(of_one, drawn, "average", ks, lambda rank: 1 / rank)
  same(at(*drawn, ks), expected)


def test_random_ties_give_one_order_to_every_question():
  drawn = of_ties("random")
  ranking = jr.Exact("random", key=jax.random.key(1))
  by_column = drawn._replace(weights=np.tile(np.float32(2.0) ** np.arange(N), (QUERIES, 1)))
  columns = np.log2(np.diff(ask(weight_down_to, by_column, ranking), prepend=0).clip(1e-9))
  value = ask(among, drawn, ranking, k=2)
  differs = 0
  for i, row in enumerate(zip(*drawn, strict=True)):
    items = [oracles.Item(*map(float, x)) for x in zip(row[0], row[1], row[3], strict=True)]
    found = int(np.sum(row[2] & (row[0] > -np.inf)))
    order = [int(column) for column in columns[i, :found]]
    assert sorted(order) == np.flatnonzero(row[2] & (row[0] > -np.inf)).tolist()
    scores = row[0][order]
    assert np.all(scores[:-1] >= scores[1:])
    differs += order != sorted(sorted(order), key=lambda j: -row[0][j])
    expected = rank_among([items[j] for j in order], items, 2, lambda rank: 1 / rank)
    same(value[i], expected)
  assert differs > QUERIES / 10


@pytest.mark.parametrize("ties", oracles.TIES)
def test_cumulative_is_the_weight_at_the_first_ranks(ties):
  drawn = of_ties(ties)

  def down_to(order, items, rank):
    return sum(item.weight for item in order[:rank])

  expected = []
  for items in drawn.queries(weighted=True):
    orders = oracles.orders(items, ties)
    ranks = range(1, N + 1)
    expected.append([oracles.expectation(down_to, items, orders, rank=rank) for rank in ranks])
  same(ask(weight_down_to, drawn, jr.Exact(ties)), expected)


@pytest.mark.parametrize("k", [2, np.int32(2)])
def test_an_infinite_gain_beyond_the_cutoff_adds_nothing(k):
  scores, labels = np.float32([3, 2, 1, -np.inf]), np.float32([1, 0, np.inf, np.inf])
  assert jr.dcg(scores, labels, k=k, gain=jr.gains.linear) == 1
  assert jr.dcg(scores, labels, gain=jr.gains.linear) == np.inf
  assert jr.dcg(scores[[0, 1, 3]], labels[[0, 1, 3]], gain=jr.gains.linear) == 1


def test_cumulative_is_infinite_from_an_infinite_weight_on():
  found = weight_down_to(np.float32([3, 2, 1]), np.ones(3), weights=np.float32([1, np.inf, 1]))
  np.testing.assert_array_equal(found, [1, np.inf, np.inf])


def valid(row):
  """The retrieved items of a padded row, as the oracles take them."""
  scores, labels, where, weights = row
  return oracles.retrieved(oracles.query(scores, labels, where, weights))


def pairwise_among(row, kind, k, discount):
  """The definition of the rankings by expected ranks, with the smooth cut-off."""
  items = valid(row)
  if not items:
    return 0.0
  s = np.array([item.score for item in items], float)
  members = np.array([item.label >= AMONG for item in items])
  inside, kept = np.ones(len(s)), members.astype(float)
  if k is not None:
    mine, others = (smooth_oracles.largest(kind, s, TEMPERATURE, c, members) for c in (k, k - 0.5))
    inside = np.where(members, mine, others)
    kept = kept * inside
  rank = 1 + smooth_oracles.ahead(kind, s, TEMPERATURE) @ kept
  weights = np.array([item.weight for item in items])
  return sum(weights * inside * np.array([discount(r) for r in rank]))


def pairwise_through(row, kind, k, discount):
  """The definition of the rankings by expected ranks, with the smooth cut-off."""
  items = valid(row)
  if not items:
    return 0.0
  s = np.array([item.score for item in items], float)
  every = np.ones(len(s), bool)
  kept = np.ones(len(s)) if k is None else smooth_oracles.largest(kind, s, TEMPERATURE, k, every)
  ahead = smooth_oracles.ahead(kind, s, TEMPERATURE)
  weights = np.array([item.weight for item in items])
  at_rank = kept * np.array([discount(r) for r in 1 + ahead @ kept])
  chosen = np.array([item.label >= AMONG for item in items])
  return sum(chosen * at_rank * (weights + ahead @ (kept * weights)))


def gumbel_order(value, row, kind, k, discount):
  """All orders with their chances under the model of Plackett and Luce."""
  items, total = valid(row), 0.0
  odds = [math.exp(item.score / TEMPERATURE) for item in items]
  for order in itertools.permutations(range(len(items))):
    left = [sum(odds[j] for j in order[rank:]) for rank in range(len(order))]
    chance = math.prod(odds[j] / rest for j, rest in zip(order, left, strict=True))
    total += chance * value([items[j] for j in order], items, k, discount)
  return total


def gaussian_among(row, kind, k, discount):
  """Given the noise of an item, the others are ahead of it independently: a sum over a grid."""
  items, total = valid(row), 0.0
  z = np.linspace(-9, 9, 1201)
  density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
  erfc = np.vectorize(math.erfc)
  for i, item in enumerate(items):
    numbers = [np.ones_like(z)]
    for j, other in enumerate(items):
      if j != i and other.label >= AMONG:
        chance = erfc((z + (item.score - other.score) / TEMPERATURE) / math.sqrt(2)) / 2
        longer = [*numbers, np.zeros_like(z)]
        before = [np.zeros_like(z), *numbers]
        numbers = [a * (1 - chance) + b * chance for a, b in zip(longer, before, strict=True)]
    for ahead, probability in enumerate(numbers):
      if k is None or ahead < k:
        total += item.weight * discount(1 + ahead) * float(probability @ density)
  return total


def gaussian_through(row, kind, k, discount):
  """As `gaussian_among`, with the expected weight ahead at each number of items ahead."""
  items, total = valid(row), 0.0
  z = np.linspace(-9, 9, 1201)
  density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
  erfc = np.vectorize(math.erfc)
  for i, item in enumerate(items):
    chances, weights = np.ones((1, z.size)), np.full((1, z.size), item.weight)
    for j, other in enumerate(items):
      if j != i and item.label >= AMONG:
        chance = erfc((z + (item.score - other.score) / TEMPERATURE) / math.sqrt(2)) / 2
        nothing = np.zeros((1, z.size))
        heavier = weights + other.weight * chances
        weights = np.r_[weights * (1 - chance), nothing] + np.r_[nothing, heavier * chance]
        chances = np.r_[chances * (1 - chance), nothing] + np.r_[nothing, chances * chance]
    for rank, weight in enumerate(weights, 1):
      if item.label >= AMONG and (k is None or rank <= k):
        total += discount(rank) * float(weight @ density)
  return total


DEFINITIONS = {
  ("among", "Laplace"): pairwise_among,
  ("among", "Logistic"): pairwise_among,
  ("among", "Gumbel"): functools.partial(gumbel_order, rank_among),
  ("among", "Gaussian"): gaussian_among,
  ("through", "Laplace"): pairwise_through,
  ("through", "Logistic"): pairwise_through,
  ("through", "Gumbel"): functools.partial(gumbel_order, weight_through),
  ("through", "Gaussian"): gaussian_through,
}


def of_definition(question, kind, drawn, k, discount):
  rows = zip(*drawn, strict=True)
  return [DEFINITIONS[question, kind](row, kind, k, DISCOUNTS[discount]) for row in rows]


@of_order
@quick("kind", SMOOTH, ["Laplace"])
def test_an_answer_of_a_smooth_ranking(question, kind):
  drawn, ranking = noisy(), getattr(jr, kind)(TEMPERATURE)
  for (k, discount), value in answers(question, drawn, ranking, (None, 2), DISCOUNTS):
    same(value, of_definition(question, kind, drawn, k, discount), rtol=2e-5, atol=1e-5)


@quick("kind", SMOOTH, ["Laplace"])
def test_a_traced_cutoff_of_expect_among_is_the_static_one(kind):
  drawn, ranking = noisy(), getattr(jr, kind)(TEMPERATURE)
  given = {"where": drawn.where, "weights": drawn.weights, "ranking": ranking}
  at = jax.jit(lambda k: among(*drawn[:2], k=k, **given))
  expected = of_definition("among", kind, drawn, 2, jr.discounts.reciprocal)
  same(at(np.int32(2)), expected, rtol=2e-5, atol=1e-5)


@quick("kind", SMOOTH, ["Laplace"])
def test_questions_have_finite_slopes_that_are_0_under_the_mask(kind):
  drawn = noisy()

  def total(scores, weights):
    given = {"where": drawn.where, "weights": weights, "ranking": getattr(jr, kind)(TEMPERATURE)}
    ranks = weight_ahead(scores, drawn.labels, **given)
    answers = [metric(scores, drawn.labels, **given) for metric, _ in OF_ORDER.values()]
    return jnp.sum(jnp.square(ranks)) + sum(map(jnp.sum, answers))

  by_score, by_weight = jax.jit(jax.grad(total, argnums=(0, 1)))(drawn.scores, drawn.weights)
  hidden = ~drawn.where | (drawn.scores == -np.inf)
  for slope in map(np.asarray, (by_score, by_weight)):
    assert np.all(np.isfinite(slope))
    np.testing.assert_array_equal(slope[hidden], 0)
    assert np.any(slope != 0)


REFUSED = {
  "concordant": (concordant, {}, "pairs"),
  "weight_down_to": (weight_down_to, {"weights": np.ones(4, np.float32)}, "cumulative"),
}
SHARDED = {
  **REFUSED,
  "weight_ahead": (weight_ahead, {"weights": np.ones(4, np.float32)}, "before"),
  "among": (among, {"weights": np.ones(4, np.float32), "k": 2}, "expect among"),
  "cascade": (cascade, {}, "cascade"),
  "ndcg": (jr.ndcg, {}, "a question without a static k"),
  "kendall_tau": (jr.kendall_tau, {}, "pairs"),
  "auc": (jr.auc, {}, "before"),
  "bpref": (jr.bpref, {}, "a question without a static k"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("kind", SMOOTH)
def test_a_smooth_ranking_names_what_it_cannot_answer(kind, name):
  metric, own, what = REFUSED[name]
  lists = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
  with pytest.raises(
    jr.UnansweredError, match=rf"^{name}: ranking={kind} does not answer {what}"
  ) as error:
    metric(*lists, ranking=getattr(jr, kind)(1.0), **own)
  assert isinstance(error.value, ValueError)


@pytest.mark.parametrize("name", SHARDED)
def test_a_sharded_ranking_names_what_it_cannot_answer(name):
  metric, own, what = SHARDED[name]
  mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
  arrays = {key: value for key, value in own.items() if isinstance(value, np.ndarray)}
  static = {key: value for key, value in own.items() if key not in arrays}

  @jax.shard_map(mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P())
  def call(scores, labels, arrays):
    return metric(scores, labels, ranking=jr.Sharded("i"), **static, **arrays)

  with pytest.raises(jr.UnansweredError, match=rf"^{name}: ranking=Sharded does not answer {what}"):
    call(np.arange(4, dtype=np.float32), np.ones(4, np.float32), arrays)
