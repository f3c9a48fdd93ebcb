"""Laws of all methods of fusion and normalisations: order, isolation, types, slopes, bad input."""

import functools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import jaxrank as jr
from jaxrank import fusion
from tests.derivatives import differences
from tests.fusion import cases, oracles
from tests.fusion.cases import QUERIES, SYSTEMS, N
from tests.helpers.suites import quick

FUNCTIONS = [*cases.METHODS, *cases.NORMALISATIONS]
# Of which the quick tests compile further programs.
SOME = [
  *("comb_max", "comb_med", "comb_anz", "comb_gmnz", "weighted_mnz", "rrf, weights of ranks"),
  *("seg_fuse", "theoretical_min_max", "sum_norm"),
]
ROUNDING = {"rtol": 3e-6, "atol": 3e-5}


def drawn(name):
  """What the function makes of the drawn queries."""
  return np.asarray(cases.call(name, *cases.queries()))


def without_nan():
  x, where, weights = cases.queries()
  return np.where(np.isnan(x), np.float32(0.5), x), where, weights


@pytest.mark.parametrize("name", FUNCTIONS)
def test_items_and_padding_may_stand_anywhere(name):
  """Each query has an order of its own, so that padding moves to other places."""
  x, where, weights = cases.queries()
  order = np.argsort(np.random.default_rng(1).random((QUERIES, N)), axis=1)
  moved = np.take_along_axis(x, order[None], axis=2)
  found = cases.call(name, moved, np.take_along_axis(where, order, axis=1), weights)
  given = drawn(name)
  right = np.take_along_axis(given, np.broadcast_to(order, given.shape), axis=-1)
  np.testing.assert_allclose(found, right, **ROUNDING)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_under_the_mask_does_not_matter(name):
  x, where, weights = cases.queries()
  given = drawn(name)
  for junk in (np.nan, np.inf, -np.inf, 3):
    found = cases.call(name, np.where(where, x, np.float32(junk)), where, weights)
    np.testing.assert_array_equal(found, given)
  np.testing.assert_array_equal(given[..., ~where], 0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_systems_may_come_in_any_order(name):
  x, where, weights = cases.queries()
  order = [2, 0, 1]
  table = cases.tables()[name][order] if name in cases.tables() else None
  found = cases.call(name, x[order], where, weights[:, order], table)
  given = drawn(name)
  right = given[order] if name in cases.NORMALISATIONS else given
  np.testing.assert_allclose(found, right, **ROUNDING)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_query_does_not_depend_on_others(name):
  x, where, weights = cases.queries()
  odd = np.arange(QUERIES) % 2 == 1
  x = np.where(odd[:, None], x, -x[:, ::-1])
  where = np.where(odd[:, None], where, where[::-1])
  weights = np.where(odd[:, None], weights, weights[::-1] + 1)
  found = np.asarray(cases.call(name, x, where, weights))
  np.testing.assert_array_equal(found[..., odd, :], drawn(name)[..., odd, :])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nan_makes_its_query_or_list_nan_alone(name):
  x, where, weights = without_nan()
  given = np.asarray(cases.call(name, x, where, weights))
  assert not np.isnan(given).any()
  query = np.flatnonzero(where.any(axis=1))[::3]
  item = where[query].argmax(axis=1)
  x = x.copy()
  x[1, query, item] = np.nan
  found = np.asarray(cases.call(name, x, where, weights))
  others = np.setdiff1d(np.arange(QUERIES), query)
  np.testing.assert_array_equal(found[..., others, :], given[..., others, :])
  if name in cases.METHODS:
    assert np.isnan(found[query][where[query]]).all()
    return
  retrieved = where[query] & (x[1, query] > -np.inf)
  assert np.isnan(found[1, query][retrieved]).all()
  if name != "borda":
    # The candidates are more, where nobody had the item.
    lists = [0, 2]
    new = ~(x[lists][:, query, item] > -np.inf).any(axis=0)
    np.testing.assert_array_equal(found[lists][:, query[~new]], given[lists][:, query[~new]])


@pytest.mark.parametrize("name", cases.METHODS)
def test_a_system_without_items_counts_where_it_gives_points(name):
  """Borda-fuse and BayesFuse give points for what a system lacks; for others it is not there."""
  x, where, weights = without_nan()
  x = x.copy()
  x[1] = -np.inf
  found = np.asarray(cases.call(name, x, where, weights))
  rest, table = [0, 2], cases.tables().get(name)
  others = {} if table is None else {"trained": table[rest]}
  values = [
    oracles.fused(name.partition(",")[0], s, w, **others, **cases.METHODS[name])
    for s, w in zip(cases.valid(x[rest], where), weights[:, rest], strict=True)
  ]
  right = cases.padded(values, where)
  same = np.isclose(found, right, **ROUNDING)
  assert np.all(same) == (name not in cases.WITH_POINTS_FOR_OTHERS)
  other = None if table is None else np.where(np.arange(SYSTEMS) == 1, 0.5, table.T).T
  changed = np.where(np.arange(SYSTEMS) == 1, weights + 1, weights)
  again = cases.call(name, x, where, changed, other)
  if name != "borda_fuse":
    np.testing.assert_array_equal(again, found)


@quick("names", [SOME, FUNCTIONS], lambda names: names is SOME)
def test_queries_may_be_mapped(names):
  """In one program, which is also `jit` of what is compiled by itself elsewhere."""

  @jax.jit
  def mapped(*arrays):
    calls = {name: functools.partial(cases.call, name) for name in names}
    return {name: jax.vmap(call, in_axes=(1, 0, 0))(*arrays) for name, call in calls.items()}

  for name, found in mapped(*cases.queries()).items():
    found = jnp.moveaxis(found, 1, 0) if name in cases.NORMALISATIONS else found
    np.testing.assert_allclose(found, drawn(name), err_msg=name, **ROUNDING)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_narrow_scores_have_wide_results(name):
  _, where, weights = cases.queries()
  x = np.random.default_rng(3).integers(-1, 5, (SYSTEMS, QUERIES, N))
  given = cases.call(name, x.astype(np.float32), where, weights)
  for dtype in (ml_dtypes.bfloat16, np.float16, np.int32):
    found = cases.call(name, x.astype(dtype), where, weights)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, given)


@pytest.mark.parametrize("name", [n for n in cases.METHODS if cases.METHODS[n]])
def test_numbers_may_be_arrays_of_any_type(name):
  x, where, weights = cases.queries()
  numbers = {key: 1 for key, value in cases.METHODS[name].items() if not isinstance(value, str)}
  given = cases.call(name, x, where, weights, **{key: 1.0 for key in numbers})
  for of_type in (np.int64, np.float64, jnp.bfloat16, jnp.int32):
    found = cases.call(name, x, where, weights, **{key: of_type(1) for key in numbers})
    np.testing.assert_array_equal(found, given)


def total(fused):
  """A sum in which no two values are alike."""
  factor = 1 + 0.5 * jnp.sin(1.0 + jnp.arange(fused.size, dtype=fused.dtype))
  return jnp.sum(jnp.where(jnp.isfinite(fused), fused, 0) * factor.reshape(fused.shape))


@functools.cache
def slopes(name):
  """The function under `Laplace`, if it takes a ranking, and the slopes of a sum of its values."""

  def of(given, where):
    numbers = given["numbers"] | cases.smooth(name, given["temperature"])
    fused = cases.call(name, given["scores"], where, given["weights"], given["trained"], **numbers)
    return total(fused), fused

  return jax.jit(jax.grad(of, has_aux=True))


def differentiable(name, x, weights, temperature=0.5):
  numbers = cases.METHODS.get(name, cases.NORMALISATIONS.get(name))
  return {
    "scores": x,
    "weights": weights,
    "temperature": np.float32(temperature),
    "trained": cases.tables().get(name),
    "numbers": {key: np.float32(v) for key, v in numbers.items() if not isinstance(v, str)},
  }


@pytest.mark.parametrize("name", FUNCTIONS)
def test_slopes_are_finite_and_zero_where_nothing_depends(name):
  x, where, weights = cases.queries()
  found, fused = jax.device_get(slopes(name)(differentiable(name, x, weights), where))
  for leaf in jax.tree.leaves(found):
    assert np.isfinite(leaf).all()
  by_score = found["scores"]
  np.testing.assert_array_equal(by_score[:, ~where], 0)
  np.testing.assert_array_equal(by_score[np.isneginf(x)], 0)
  lists = np.isnan(x) & where
  unknown = np.any(lists, axis=-1)
  if name in cases.METHODS:
    unknown = np.any(unknown, axis=0, keepdims=True)
    np.testing.assert_array_equal(found["weights"][unknown[0]], 0)
  np.testing.assert_array_equal(np.where(unknown[..., None], by_score, 0), 0)
  steps = name in ("condorcet_fuse", "prob_fuse", "bayes_fuse")
  assert np.any(by_score) != steps
  weighted = name in cases.METHODS and name not in cases.tables() and name != "condorcet_fuse"
  assert np.any(found["weights"]) == weighted
  if name in cases.tables():
    assert np.any(found["trained"])


@pytest.mark.parametrize("name", cases.RANKED)
def test_smooth_values_lead_to_the_exact_ones(name):
  """As the temperature goes to 0, without ties."""
  _, where, weights = cases.queries()
  rng = np.random.default_rng(4)
  x = np.argsort(rng.random((SYSTEMS, QUERIES, N)), axis=-1).astype(np.float32)
  x = np.where(rng.random(x.shape) < 0.3, np.float32(-np.inf), x)
  exact = np.asarray(cases.call(name, x, where, weights))
  errors = []
  for temperature in (0.5, 0.1, 0.01):
    _, found = slopes(name)(differentiable(name, x, weights, temperature), where)
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(np.isfinite(found), finite)
    errors.append(np.abs(np.asarray(found)[finite] - exact[finite]).max())
  assert errors[0] > errors[1] > errors[2]
  assert errors[2] < 1e-4


def test_a_weight_of_0_has_the_slope_to_its_right():
  """Also where the rank is divided by it."""
  slope = jax.grad(lambda w: fusion.rrf([[2.0, 1.0], [1.0, 3.0]], weights=w, weighs="rank")[1])
  np.testing.assert_allclose(slope(jnp.array([0.0, 1.0])), [1 / 2, 1 / 61**2], rtol=1e-4)


def test_exact_ranks_have_no_slope():
  x, where, weights = cases.queries()

  @jax.jit
  @jax.grad
  def slope(x):
    return total(fusion.rrf(x, where=where)) + total(fusion.borda(x, where=where))

  np.testing.assert_array_equal(slope(x), 0)


def number(name):
  """The number of a function; it has one at most."""
  own = (cases.METHODS | cases.NORMALISATIONS)[name]
  return next((key for key, value in own.items() if not isinstance(value, str)), None)


@functools.cache
def separated():
  """Three cases of scores, weights and other inputs, whose products are no neighbours."""
  rng = np.random.default_rng(5)
  cases_, items = 3, 5
  inputs = {"scores": [], "weights": []}
  while len(inputs["scores"]) < cases_:
    x, w = rng.normal(size=(SYSTEMS, items)) * 2, rng.random(SYSTEMS) + 0.2
    products = np.sort(w[:, None] * x, axis=0)
    gaps = min(np.diff(products, axis=0).min(), np.diff(np.sort(x, axis=1)).min())
    x[rng.integers(SYSTEMS), rng.integers(items)] = -np.inf
    if gaps > 0.02 and np.abs(x).min() > 0.02:
      inputs["scores"].append(x)
      inputs["weights"].append(w)
  given = {key: {differences.SHARED: np.array(value)} for key, value in inputs.items()}
  given["temperature"] = {name: np.array([0.5, 1.0, 0.3]) for name in cases.RANKED}
  given["trained"] = {
    name: rng.normal(size=(cases_, *table.shape)) for name, table in cases.tables().items()
  }
  given["number"] = {name: rng.random(cases_) * 0.5 + 0.3 for name in FUNCTIONS if number(name)}
  given["number"]["theoretical_min_max"] -= 3
  return given


def of_inputs(name):
  def of(own):
    own = dict(own)
    x, weights, trained = own.pop("scores"), own.pop("weights"), own.pop("trained", None)
    ranking = cases.smooth(name, own.pop("temperature")) if "temperature" in own else {}
    numbers = {number(name): own["number"]} if "number" in own else {}
    fused = cases.call(name, x, None, weights, trained, **numbers, **ranking)
    return jnp.where(jnp.isfinite(fused), fused, 0)

  return of


@quick("names", [SOME, FUNCTIONS], lambda names: names is SOME)
def test_slopes_are_those_of_differences(names):
  """By scores, weights, temperatures, what was learnt, and the numbers of each function."""
  inputs = {
    key: {name: value for name, value in leaves.items() if name in (differences.SHARED, *names)}
    for key, leaves in separated().items()
  }
  lines, constant = differences.faults({name: of_inputs(name) for name in names}, inputs)
  assert not lines, "\n".join(lines)
  steps = {"condorcet_fuse", "prob_fuse", "bayes_fuse"}
  without_weights = {*cases.tables(), *cases.NORMALISATIONS, "condorcet_fuse"}
  assert set(constant) == {
    *((name, "scores") for name in steps.intersection(names)),
    *((name, "weights") for name in without_weights.intersection(names)),
  }


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nothing(name):
  for shape in ((SYSTEMS, 2, 0), (1, 2, 0, 3)):
    table = cases.tables()[name][: shape[0]] if name in cases.tables() else None
    found = jax.eval_shape(
      lambda x, table=table: cases.call(name, x, trained=table), jnp.zeros(shape)
    )
    assert found.shape == (shape if name in cases.NORMALISATIONS else shape[1:])


@pytest.mark.parametrize("missing", ["min", 0.5])
def test_nothing_is_missing(missing):
  for shape in ((SYSTEMS, 0), (SYSTEMS, 0, 3)):
    found = jax.eval_shape(functools.partial(fusion.max_norm, missing=missing), jnp.zeros(shape))
    assert found.shape == shape


@pytest.mark.parametrize("name", cases.tables())
def test_train_of_nothing(name):
  table = cases.tables()[name]
  for shape in ((SYSTEMS, 0), (SYSTEMS, 0, 3)):
    learnt = jax.eval_shape(
      functools.partial(fusion.train, name), jnp.zeros(shape), jnp.zeros(shape[1:])
    )
    assert learnt.shape[0] == SYSTEMS
    assert learnt.ndim == table.ndim


SCORES = [[3.0, 1.0], [2.0, -np.inf]]
TABLE = [[0.5, 0.2], [0.4, 0.1]]


@pytest.mark.parametrize(
  ("name", "args", "options", "error", "message"),
  [
    ("comb_sum", ([1.0, 2.0],), {}, ValueError, r"scores must have .* got \(2,\); stack"),
    ("min_max", ([1.0, 2.0],), {}, ValueError, r"scores must have .* got \(2,\); stack"),
    ("rrf", (np.zeros((0, 3)),), {}, ValueError, r"one system or more, got \(0, 3\); stack"),
    ("isr", ([["a", "b"]],), {}, TypeError, "scores must be an array of numbers"),
    ("rrf", (SCORES,), {"where": [1, 0]}, TypeError, "where must be boolean, .* pass `where > 0`"),
    (
      "borda",
      (SCORES,),
      {"where": [1, 0]},
      TypeError,
      "where must be boolean, .* pass `where > 0`",
    ),
    ("rbc", (SCORES,), {"where": [True]}, ValueError, r"where and the values must have one shape"),
    (
      "comb_sum",
      (SCORES,),
      {"weights": [1.0]},
      ValueError,
      r"weights must have shape \(2,\), one for each system, or \(2,\), for each query, got \(1,\)",
    ),
    ("comb_max", (SCORES,), {"weights": [[1.0], [1.0]]}, ValueError, "weights must have shape"),
    ("comb_max", (SCORES,), {"weights": [1, -1]}, ValueError, "finite and at least 0, got .*-1"),
    ("isr", (SCORES,), {"weights": [1, np.nan]}, ValueError, "finite and at least 0, got .*nan"),
    ("isr", (SCORES,), {"weights": [1, np.inf]}, ValueError, "finite and at least 0, got .*inf"),
    ("rrf", (SCORES,), {"weights": "equal"}, TypeError, "weights must be an array of numbers"),
    ("rrf", (SCORES,), {"k": -1}, ValueError, "k must be at least 0, got -1"),
    ("rrf", (SCORES,), {"k": "60"}, TypeError, "k must be a number"),
    ("rrf", (SCORES,), {"k": np.ones(2)}, TypeError, "k must be a scalar, .* use vmap"),
    (
      "rrf",
      (SCORES,),
      {"weighs": "both"},
      ValueError,
      "weighs must be one of 'score', 'rank', got 'both'",
    ),
    ("rbc", (SCORES,), {"phi": 1.5}, ValueError, r"phi must be in \[0, 1\], got 1.5"),
    ("logn_isr", (SCORES,), {"sigma": -0.1}, ValueError, r"sigma must be in \[0, 1\], got -0.1"),
    ("comb_gmnz", (SCORES,), {"gamma": None}, TypeError, "gamma must be a number"),
    ("slide_fuse", (SCORES,), {"trained": TABLE, "w": -1}, ValueError, "w must be at least 0"),
    ("min_max", (SCORES,), {"missing": "max"}, ValueError, "missing must be one of 'min', got"),
    ("z_score", (SCORES,), {"missing": [1, 2]}, TypeError, "missing must be a number"),
    ("theoretical_min_max", (SCORES,), {"lower": "0"}, TypeError, "lower must be a number"),
    ("comb_sum", (SCORES,), {"weight": 1}, TypeError, "unexpected keyword argument 'weight'"),
    ("pos_fuse", (SCORES,), {}, TypeError, "missing a required .*argument: 'trained'"),
    (
      "pos_fuse",
      (SCORES,),
      {"trained": [0.5, 0.2]},
      ValueError,
      r"trained must have shape \[2, ranks or segments\], got \(2,\); pass what jaxrank",
    ),
    ("map_fuse", (SCORES,), {"trained": TABLE}, ValueError, r"trained must have shape \[2\], got"),
    ("prob_fuse", (SCORES,), {"trained": TABLE[:1]}, ValueError, r"shape \[2, .* got \(1, 2\)"),
    ("seg_fuse", (SCORES,), {"trained": TABLE}, ValueError, r"\[2, 10\], got \(2, 2\); pass what"),
    ("bayes_fuse", (SCORES,), {"trained": TABLE}, ValueError, r"\[2, 9\], got \(2, 2\); pass what"),
    ("train", ("rrf", SCORES, [1, 0]), {}, ValueError, "method must be one of .*map_fuse.*'rrf'"),
    ("train", (fusion.rrf, SCORES, [1, 0]), {}, ValueError, "method must be one of .*map_fuse"),
    ("train", (["map_fuse"], SCORES, [1, 0]), {}, ValueError, "method must be one of .*map_fuse"),
    ("train", ("pos_fuse", [1.0], [1]), {}, ValueError, "scores must have shape .*; stack"),
    ("train", ("pos_fuse", SCORES, [1]), {}, ValueError, "labels and the scores of a system must"),
    ("train", ("pos_fuse", SCORES, [1, 0]), {"rel": "1"}, TypeError, "rel must be a number"),
    ("train", ("pos_fuse", SCORES, [1, 0]), {"where": [1, 1]}, TypeError, "where must be boolean"),
    (
      "train",
      ("seg_fuse", SCORES, [1, 0]),
      {"n_segments": 4},
      TypeError,
      "seg_fuse is trained with no parameters, got `n_segments`; leave it out",
    ),
    ("train", ("prob_fuse", SCORES, [1, 0]), {"n_segments": 0}, ValueError, "n_segments must be"),
    (
      "train",
      ("prob_fuse", SCORES, [1, 0]),
      {"n": 4},
      TypeError,
      "with n_segments, got `n`; leave",
    ),
  ],
)
def test_bad_arguments(name, args, options, error, message):
  with pytest.raises(error, match=f"^fusion.{name}: .*{message}"):
    getattr(fusion, name)(*args, **options)


def test_a_ranking_that_is_none_is_refused():
  with pytest.raises(TypeError, match="ranking"):
    fusion.rrf(SCORES, ranking="exact")


def test_rankings_with_noise_have_the_mean_of_points():
  """Of two items one system retrieves both, and one the first alone."""
  ahead = 1 / (1 + np.exp(-2 / 0.5))
  points = np.array([1 / 2, 1 / 3])
  found = fusion.rrf(SCORES, k=1.0, ranking=jr.Gumbel(0.5))
  first = ahead * points[0] + (1 - ahead) * points[1]
  np.testing.assert_allclose(found, [first + points[0], points.sum() - first], rtol=1e-4)
