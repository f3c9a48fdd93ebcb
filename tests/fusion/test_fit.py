"""What `fit` chooses, what it says that it is worth, and how many results `threshold` keeps."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank import fusion
from jaxrank.fusion import fitting, held_out

QUERIES, N = 40, 12
KEY = jax.random.key(0)
NAMES = ["first", "second"]


@functools.cache
def systems(*qualities, queries=QUERIES):
  """Scores of systems, with items that are not retrieved, and labels."""
  rng = np.random.default_rng(0)
  labels = (rng.random((queries, N)) < 0.25).astype(np.float32)
  labels[:, 0] = 1
  scores = labels * np.array(qualities)[:, None, None] + rng.normal(
    size=(len(qualities), *labels.shape)
  )
  scores[rng.random(scores.shape) < 0.15] = -np.inf
  return scores.astype(np.float32), labels


@functools.cache
def fitted(*qualities, **options):
  options = {"refine": False, "steps": 10, "key": KEY} | options
  return fusion.fit("comb_sum", *systems(*qualities), "nDCG@5", names=NAMES, **options)


def values(weights, scores, labels):
  fused = fusion.comb_sum(fusion.min_max(scores), weights=jnp.float32(weights))
  return np.asarray(jr.ndcg(fused, labels, k=5))


def test_the_grid_is_that_of_all_weights_with_the_sum_1():
  for n, steps in itertools.product((2, 3, 4), (1, 2, 5)):
    grid = fitting._grid(n, steps)
    wanted = {p for p in itertools.product(range(steps + 1), repeat=n) if sum(p) == steps}
    found = {tuple(np.round(row * steps, 6)) for row in grid}
    assert {tuple(map(float, p)) for p in wanted} <= found
    assert len(grid) == len(wanted | ({(steps / n,) * n} if steps % n else set()))
    np.testing.assert_allclose(grid[0], 1 / n)
    distance = np.sum((grid - 1 / n) ** 2, axis=1)
    assert (np.diff(distance) > -1e-9).all()
  assert [len(fitting._grid(n, None)) for n in (2, 3, 4)] == [101, 232, 287]


def test_the_weights_are_those_of_the_best_point():
  scores, labels = systems(2.0, 1.0)
  found = fitted(2.0, 1.0)
  of_all = np.array([values(w, scores, labels).mean() for w in found.grid])
  np.testing.assert_allclose(found.grid_values, of_all, atol=1e-6)
  assert found.value == pytest.approx(of_all.max(), abs=1e-6)
  assert of_all[np.argmin(np.abs(found.grid - found.weights).sum(axis=1))] == pytest.approx(
    found.value
  )
  alone = [jr.ndcg(x, labels, k=5).mean() for x in scores]
  np.testing.assert_allclose(found.system_values, alone, atol=1e-6)
  np.testing.assert_allclose(found.values["equal"], values([1, 1], scores, labels), atol=1e-6)
  assert found.best_system == "first"


def test_values_are_held_out():
  """A plain loop over divisions, folds and points."""
  scores, labels = systems(2.0, 1.0)
  found = fitted(2.0, 1.0)
  of_points = np.stack([values(w, scores, labels) for w in found.grid])
  folds = held_out.divided(KEY, 5, 10, np.arange(QUERIES))
  assert all(np.bincount(row).tolist() == [QUERIES // 5] * 5 for row in folds)
  assert len({tuple(row) for row in folds}) == 10
  held = np.zeros(QUERIES)
  for row in folds:
    for query in range(QUERIES):
      others = [i for i in range(QUERIES) if row[i] != row[query]]
      means = [sum(x[i] for i in others) / len(others) for x in of_points]
      best = next(i for i, x in enumerate(means) if x > max(means) - 1e-6)
      held[query] += of_points[best, query] / 10
  np.testing.assert_allclose(found.values["tuned"], held, atol=1e-5)


def test_gains_are_those_of_nadeau_and_bengio():
  scipy = pytest.importorskip("scipy.stats")
  found = fitted(2.0, 1.0)
  for (first, second), gain in found.gains.items():
    difference = found.values[first] - found.values[second]
    error = np.std(difference, ddof=1) / QUERIES**0.5 * (1 + 5 / 4) ** 0.5
    wide = scipy.t.ppf(1 - 0.05 / 6, QUERIES - 1) * error
    np.testing.assert_allclose(
      gain[:3], [difference.mean(), difference.mean() - wide, difference.mean() + wide], atol=1e-5
    )
    p_value = 2 * scipy.t.sf(abs(difference.mean()) / error, QUERIES - 1)
    assert gain.p_value == pytest.approx(min(1, 3 * p_value), abs=1e-4)


def test_groups_stay_together_and_are_one_observation():
  group = np.repeat(np.arange(QUERIES // 4), 4)
  folds = held_out.divided(KEY, 5, 3, group)
  assert all(len(set(row[group == g])) == 1 for row in folds for g in range(QUERIES // 4))
  scores, labels = (np.repeat(x, 4, axis=-2) for x in systems(2.0, 1.0))
  ids = np.repeat([f"q{i}" for i in range(QUERIES)], 4)
  options = {"refine": False, "steps": 10, "key": KEY}
  copied = fusion.fit("comb_sum", scores, labels, "nDCG@5", groups=ids, **options)
  # Copies of a query say nothing new: only the division into folds differs, by the order of ids.
  plain, gain = fitted(2.0, 1.0).gains["tuned", "equal"], copied.gains["tuned", "equal"]
  assert gain.mean == pytest.approx(plain.mean, abs=0.02)
  assert gain.high - gain.low == pytest.approx(plain.high - plain.low, rel=0.25)
  assert copied.count == QUERIES


@pytest.mark.parametrize(
  ("qualities", "recommendation"),
  [((4.0, 0.0), ("tuned", "single")), ((2.0, 2.0), ("equal",)), ((0.0, 4.0), ("tuned", "single"))],
)
def test_what_is_recommended(qualities, recommendation):
  found = fitted(*qualities)
  assert found.recommendation in recommendation
  assert {"equal": "equal weights", "single": found.best_system, "tuned": "tuned weights"}[
    found.recommendation
  ] in found.advice
  assert found.advice in str(found)
  assert found.recommended_weights.sum() == pytest.approx(1)


def test_the_rule_of_the_recommendation():
  def gain(mean, p_value):
    return fusion.Gain(mean, mean - 1, mean + 1, p_value)

  sure, unsure, loss = gain(0.1, 0.01), gain(0.1, 0.2), gain(-0.1, 0.01)
  wanted = {
    (sure, unsure, unsure): "tuned",
    (sure, unsure, sure): "single",
    (sure, sure, sure): "tuned",
    (unsure, sure, unsure): "equal",
    (unsure, unsure, sure): "single",
    (loss, loss, loss): "equal",
  }
  for gains, choice in wanted.items():
    found = dict(zip(held_out.PAIRS, gains, strict=True))
    assert held_out.recommended(found, 20, 0.05) == choice
    assert held_out.recommended(found, 19, 0.05) == "equal"


def test_little_is_learnt_from_few_queries():
  scores, labels = systems(4.0, 0.0)
  found = fusion.fit("rrf", scores[:, :19], labels[:19], "RR", key=KEY, refine=False, steps=4)
  assert found.recommendation == "equal"
  assert "fewer than 20" in found.advice


def test_a_fit_fuses_other_scores():
  found, (scores, _) = fitted(2.0, 1.0), systems(1.0, 2.0)
  unit = fusion.min_max(scores)
  fused = found(scores, weights=found.weights)
  np.testing.assert_array_equal(fused, fusion.comb_sum(unit, weights=jnp.float32(found.weights)))
  single = dataclasses.replace(found, recommendation="single")
  np.testing.assert_array_equal(single(scores), scores[0])


def test_weights_between_the_points_are_better():
  scores, labels = systems(2.0, 1.0)
  coarse = fitted(2.0, 1.0, steps=2)
  fine = fitted(2.0, 1.0, steps=2, refine=True)
  assert fine.refined
  assert fine.value > coarse.value
  assert fine.value == pytest.approx(values(fine.weights, scores, labels).mean(), abs=1e-6)
  assert fine.weights.sum() == pytest.approx(1)
  np.testing.assert_array_equal(fine.values["tuned"], coarse.values["tuned"])


def test_normalisations_and_parameters_are_tried():
  scores, labels = systems(2.0, 1.0)
  seen = []
  found = fusion.fit(
    "comb_gmnz", scores, labels, "AP", key=KEY, normalize=["min_max", "rank_norm", None],
    parameters={"gamma": [0.0, 2.0]}, steps=4, refine=False, progress=lambda *x: seen.append(x),
  )  # fmt: skip
  means = [
    jr.average_precision(
      fusion.comb_gmnz(scale(scores), weights=jnp.float32(w), gamma=gamma), labels
    ).mean()
    for w in found.grid
    for scale in (fusion.min_max, fusion.rank_norm, jnp.asarray)
    for gamma in (0.0, 2.0)
  ]
  assert found.value == pytest.approx(float(max(means)), abs=1e-5)
  assert seen[-1] == (6 * len(found.grid),) * 2
  # Equal weights are tried with all settings, too, and are fused with the best of them.
  of_equal = means[:6]
  assert found.equal_value == pytest.approx(float(max(of_equal)), abs=1e-5)
  equal = dataclasses.replace(found, recommendation="equal")
  value = jr.average_precision(equal(scores), labels).mean()
  assert found.equal_value == pytest.approx(float(value), abs=1e-5)
  assert found.tuned.parameters["gamma"] in (0.0, 2.0)


def test_a_method_of_ones_own_and_a_measure_of_which_less_is_better():
  scores, labels = systems(2.0, 1.0)

  def own(scores, *, where, weights, power):
    return fusion.comb_sum(scores, where=where, weights=weights**power)

  found = fusion.fit(
    own, scores, labels, jr.Measure(jr.hole, k=3), key=KEY, normalize="min_max",
    parameters={"power": 2.0}, steps=4, refine=False,
  )  # fmt: skip
  assert found.value <= found.grid_values[0] + 1e-6
  assert found.method is own
  assert "own(normalize=min_max, power=2)" in str(found)


BROKEN = {
  "of two systems or more": ("rrf", systems(1.0, 1.0)[0][:1], {}),
  "labels and the scores of a system": ("rrf", systems(1.0, 1.0)[0][..., :5], {}),
  "method must be": ("best", None, {}),
  "has no weights; jaxrank.fusion.train": ("map_fuse", None, {}),
  "parameters has 'phi', but rrf takes k": ("rrf", None, {"parameters": {"phi": 0.5}}),
  "k must be at least 0": ("rrf", None, {"parameters": {"k": [1.0, -5.0]}}),
  "normalize must be": ("rrf", None, {"normalize": "zmuv2"}),
  "folds must be from 2 to 40, the number": ("rrf", None, {"folds": 41}),
  "names must be 2 different": ("rrf", None, {"names": ["a", "a"]}),
  "groups must have shape (40,)": ("rrf", None, {"groups": [1, 2]}),
  "steps must be": ("rrf", None, {"steps": 0}),
  "method must return fused scores of shape (40, 12)": (lambda s, **_: s[0, 0], None, {}),
  "method must compute with jax.numpy": (
    lambda scores, weights, **_: float(weights[0]) * scores[0],
    None,
    {},
  ),
  "did you mean 'min_max'?": ("comb_sum", None, {"normalize": "minmax"}),
  "ids of one type": ("rrf", None, {"groups": [None, *"a" * 39]}),
  "empty list": ("rrf", None, {"parameters": {"k": []}}),
  "query 3 is NaN": (
    "rrf",
    np.where(np.arange(40)[:, None] == 3, np.nan, systems(1.0, 1.0)[0]),
    {},
  ),
}


@pytest.mark.parametrize("message", BROKEN)
def test_what_cannot_be_fitted_is_told(message):
  method, scores, options = BROKEN[message]
  given, labels = systems(1.0, 1.0)
  with pytest.raises((TypeError, ValueError), match="^fusion.fit: ") as error:
    fusion.fit(method, given if scores is None else scores, labels, "nDCG@5", key=KEY, **options)
  assert message in str(error.value)


def test_traced_scores_are_refused():
  with pytest.raises(TypeError, match=r"fusion.fit: scores must be known"):
    jax.jit(lambda x: fusion.fit("rrf", x, systems(1.0, 1.0)[1], "AP", key=KEY).weights)(
      systems(1.0, 1.0)[0]
    )
  with pytest.raises(TypeError, match=r"write fusion.fit\('rrf'"):
    fusion.fit("rrf", *systems(1.0, 1.0), "AP")


def test_the_fewest_results():
  scores, labels = systems(2.0, 1.0)[0][0], systems(2.0, 1.0)[1]
  for level in (0.3, 0.6, 0.8):
    found = fusion.threshold(scores, labels, "recall", level=level)
    losses = [1 - np.asarray(jr.recall(scores, labels, k=k)) for k in range(1, N + 1)]
    enough = [(QUERIES * x.mean() + 1) / (QUERIES + 1) <= 1 - level + 1e-6 for x in losses]
    if not any(enough):
      assert np.isnan(found.threshold)
      continue
    assert found.threshold == 1 + enough.index(True)
    assert found.risk == pytest.approx(losses[enough.index(True)].mean(), abs=1e-6)
  assert np.isnan(fusion.threshold(scores, labels, "recall", level=0.99).threshold)


def test_the_score_from_which_on_results_are_shown():
  scores, labels = systems(2.0, 1.0)[0][0], systems(2.0, 1.0)[1]
  tried = [2.0, 1.0, 0.0, -1.0, -3.0]
  found = fusion.threshold(scores, labels, "recall", level=0.7, by="score", thresholds=tried)
  losses = [
    1 - np.asarray(jr.recall(np.where(scores >= t, scores, -np.inf), labels)) for t in tried
  ]
  enough = [(QUERIES * x.mean() + 1) / (QUERIES + 1) <= 0.3 + 1e-6 for x in losses]
  assert found.position == enough.index(True)
  free = fusion.threshold(scores, labels, "recall", level=0.7, by="score")
  assert free.threshold >= found.threshold


def test_a_name_that_needs_a_cutoff_needs_none_here():
  scores, labels = systems(2.0, 1.0)[0][0], systems(2.0, 1.0)[1]
  for name, same in (("R", "recall"), ("Success", "hit_rate")):
    found = fusion.threshold(scores, labels, name, level=0.5)
    assert found.threshold == fusion.threshold(scores, labels, same, level=0.5).threshold


@pytest.mark.parametrize(
  ("message", "options"),
  [
    ("falls with them", {"measure": "precision"}),
    ("must be from 0 to 1", {"measure": "dcg"}),
    ("must have no cut-off", {"measure": "recall@3"}),
    ("write R@10", {"measure": "R AP"}),
    ("did you mean Success@10", {"measure": "Succes"}),
    ("must be ascending counts", {"thresholds": [3, 2]}),
    ("must be descending scores", {"thresholds": [1.0, 2.0], "by": "score"}),
    ("whole numbers", {"thresholds": [0.5, 2.0]}),
    ("by must be", {"by": "rank"}),
    ("level must be", {"level": 1.5}),
    ("level must be less than 1", {"level": 1.0}),
  ],
)
def test_what_has_no_threshold_is_told(message, options):
  scores, labels = systems(2.0, 1.0)[0][0], systems(2.0, 1.0)[1]
  options = {"measure": "recall", "level": 0.5} | options
  with pytest.raises(ValueError, match="^fusion.threshold: ") as error:
    fusion.threshold(scores, labels, options.pop("measure"), **options)
  assert message in str(error.value)
