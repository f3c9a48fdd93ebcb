"""What holds for every described metric, and what a metric of a user's has to be."""

import contextlib
import functools
import inspect
import pickle
from typing import Literal, get_args  # noqa: F401, a type in quotes

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

import jaxrank as jr
from jaxrank._core import description
from jaxrank._core.apply import metric as described_metric
from jaxrank._core.description import RESERVED, SHARE
from jaxrank._core.ranked import Name, Ranked, deepest, depth_of
from jaxrank.metrics import described
from tests.helpers import traits
from tests.helpers.suites import thorough

METRICS = {about.name: (metric, about) for metric, about in described()}
every = pytest.mark.parametrize("name", METRICS)

SCORES = np.float32([[0.1, 0.9, 0.5, 0.3], [2.0, 1.0, 1.0, -np.inf]])
LABELS = np.float32([[1, 0, 2, 0], [0, 1, 0, 3]])
WEIGHTS = np.float32([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
E = jr.Exact()
RANKINGS = (
  jr.Exact(),
  jr.Exact("optimistic"),
  jr.Laplace(0.5),
  jr.Logistic(0.5),
  jr.Gumbel(0.5),
  jr.Gaussian(0.5),
)


@every
def test_the_body_of_the_function_is_the_kernel(name):
  """It computes the metric of one query, with the arguments of the function."""
  metric, about = METRICS[name]
  assert metric.__name__ == about.kernel.__name__ == name
  assert about.kernel.__module__ == metric.__module__
  assert about.public is metric
  assert about is description.of_metric(metric)
  assert pickle.loads(pickle.dumps(about.kernel)) is about.kernel
  own = {p: 2 for p in ("max_label",) if p in about.signature.parameters}
  labels = LABELS[1][:, None] if about.subtopics else LABELS[1]
  alone = metric.__wrapped__(SCORES[1], labels, **own)
  np.testing.assert_allclose(metric(SCORES[1], labels, **own), alone, rtol=1e-6)


@every
def test_the_signature_says_every_type(name):
  metric, about = METRICS[name]
  signature = inspect.signature(metric)
  assert signature.return_annotation is Array
  scores, labels, *others = signature.parameters.values()
  assert (scores.name, labels.name) == ("scores", "labels")
  assert {p.kind for p in others} == {inspect.Parameter.KEYWORD_ONLY}
  assert {"where", "ranking"} < {*signature.parameters}
  assert signature.parameters["ranking"].default == jr.Exact()
  for parameter in signature.parameters.values():
    assert parameter.annotation is not parameter.empty, parameter.name
  for given in about.parameters:
    assert given in signature.parameters


@every
def test_a_metric_pickles_as_itself(name):
  metric, _ = METRICS[name]
  assert getattr(jr, name) is getattr(jr.metrics, name) is metric
  assert pickle.loads(pickle.dumps(metric)) is metric


@every
def test_mistakes_name_the_function(name):
  metric, about = METRICS[name]
  labels = LABELS[..., None] if about.subtopics else LABELS
  own = {p: 2 for p in ("max_label",) if p in about.signature.parameters}
  with pytest.raises(ValueError, match=rf"^{name}: .*\(2, 4\).*\(2, 3"):
    metric(SCORES, labels[:, 1:], **own)
  with pytest.raises(TypeError, match=rf"^{name}: where"):
    metric(SCORES, labels, where=np.ones_like(SCORES), **own)
  with pytest.raises(TypeError, match=rf"^{name}: ranking must be a jaxrank.Ranking"):
    metric(SCORES, labels, ranking="exact", **own)
  for parameter in ("name", "topn"):
    with pytest.raises(TypeError, match=rf"{name}.*{parameter}"):
      metric(SCORES, labels, **own, **{parameter: 3})


@thorough
@every
def test_the_range_holds_what_the_metric_gives(name):
  metric, about = METRICS[name]
  low, high = about.range
  labels = LABELS[..., None] if about.subtopics else LABELS
  own = {p: 3 for p in ("max_label",) if p in about.signature.parameters}
  value = metric(SCORES, labels, **own)
  assert value.shape == (2,)
  assert np.all((low <= value) & (value <= high))


DEPTHS = [
  (jr.ndcg, {"k": 10}, 10),
  (jr.ndcg, {}, None),
  (jr.ndcg, {"k": 10, "weights": WEIGHTS[0]}, 10),
  (jr.dcg, {"k": 2}, 2),
  (jr.precision, {"k": 3}, 3),
  (jr.precision, {"k": 3, "divisor": "retrieved"}, 3),
  (jr.judged, {"k": 2}, 2),
  (jr.rbp, {"k": 5}, 5),
  (jr.average_precision, {"k": 7}, 7),
  (jr.average_precision, {"k": 7, "normalizer": "retrieved"}, 7),
  (jr.gap, {"k": 4, "max_label": 2}, 4),
  (jr.gap, {"max_label": 2}, None),
  (jr.hit_rate, {}, 0),
  (jr.hit_rate, {"k": 5}, 0),
  (jr.err, {"k": 10, "max_label": 4}, None),
  (jr.nerr, {"k": 10, "max_label": 4}, None),
  (jr.r_precision, {}, None),
  (jr.bpref, {}, None),
  (jr.auc, {}, None),
  (jr.kendall_tau, {}, 0),
  (jr.precision, {}, 0),
  (jr.recall, {}, 0),
  (jr.spearman, {}, None),
  (jr.interpolated_precision, {}, None),
  (jr.alpha_ndcg, {"k": 5}, None),
  (jr.nrbp, {}, None),
]


@pytest.mark.parametrize(
  ("metric", "own", "expected"),
  DEPTHS,
  ids=[f"{metric.__name__}-{'-'.join(own)}" for metric, own, _ in DEPTHS],
)
def test_the_depth_follows_from_the_questions(metric, own, expected):
  assert depth(metric, own) == expected
  about = description.of_metric(metric)
  assert about.depth_for(about.bind(own), 4) == expected


def depth(metric, own):
  """How deep a metric with some parameters looks into a query: as described, and as it asks."""
  about = description.of_metric(metric)
  own = about.bind(own)
  labels = LABELS[0][:, None] if about.subtopics else LABELS[0]
  lists = jnp.asarray(SCORES[0]), jnp.asarray(labels), jnp.ones(4, bool)
  asked = depth_of(functools.partial(about.kernel, **own), *lists)
  # A word may make a metric look less deep.
  assert deepest([about.depth_for(own, 4), asked]) == about.depth_for(own, 4)
  return asked


@every
def test_every_word_of_a_metric_looks_as_deep_as_described(name):
  metric, about = METRICS[name]
  own = {p: 3 for p in ("max_label",) if p in about.signature.parameters}
  words = {p: kind.spelled for p, kind in about.parameters.items() if kind.spelled not in (0, 1)}
  for parameter, value in [("k", 2), *((p, word) for p in words for word in words[p].values())]:
    if parameter in about.signature.parameters:
      depth(metric, own | {parameter: value})
      if "k" in about.signature.parameters:
        depth(metric, own | {"k": 2, parameter: value})


@pytest.mark.parametrize(("metric", "expected"), [(jr.ndcg, None), (jr.reciprocal_rank, 0)])
def test_the_depth_at_a_traced_cutoff(metric, expected):
  found = []
  jax.eval_shape(lambda k: found.append(depth(metric, {"k": k})), np.int32(3))
  assert found == [expected]


def test_what_a_kernel_reads_itself_is_stated():
  def kernel(ranked):
    return ranked.total(jnp.where(ranked.where, ranked.keys, 0)).astype(ranked.dtype)

  assert jr.metric(kernel, depth="all").description.depth == "all"
  with pytest.raises(ValueError, match="depth.*'some'"):
    jr.metric(kernel, depth="some")
  with pytest.raises(ValueError, match="seeks.*'gold'"):
    jr.metric(kernel, seeks="gold")


@pytest.mark.parametrize(
  "kernel",
  [
    lambda ranked, *, scores=None: 0,
    lambda ranked, *, labels=None: 0,
    lambda ranked, *, where=None: 0,
    lambda ranked, *, ranking=None: 0,
    lambda ranked, *, name=None: 0,
  ],
  ids=RESERVED,
)
def test_a_kernel_may_not_take_what_every_metric_takes(kernel):
  (parameter,) = (p for p in inspect.signature(kernel).parameters if p != "ranked")
  with pytest.raises(TypeError, match=f"metric: .*'{parameter}'"):
    jr.metric(kernel)


def test_a_kernel_is_a_function():
  for kernel in (3, "ndcg"):
    with pytest.raises(TypeError, match=f"metric: kernel.*{kernel!r}"):
      jr.metric(kernel)


def _share(value):
  if not 0 <= value <= 1:
    raise ValueError(f"share must be from 0 to 1, got {value!r}.")


@jr.metric(checks={"share": _share})
def blend(ranked, *, k=None, share=0.5, weights=None):
  """Hits and inverse ranks, mixed."""
  b = ranked.weighted(ranked.relevant(), weights)
  hits = ranked.expect(b, jr.discounts.constant, k=k)
  return share * hits + (1 - share) * ranked.expect(b, jr.discounts.reciprocal, k=k)


def _first_label(ranked, *, k):
  return ranked.expect(ranked.labels, jr.discounts.constant, k=k)


first_label = jr.metric(_first_label)


def test_a_metric_by_decorator():
  assert isinstance(blend, jr.Metric)
  assert (blend.__name__, blend.__doc__) == ("blend", "Hits and inverse ranks, mixed.")
  value = blend(SCORES, LABELS, k=2, share=0.25)
  hits = jr.precision(SCORES, LABELS, k=2) * 2
  inverse = jr.dcg(SCORES, LABELS > 0, k=2, discount=jr.discounts.reciprocal)
  np.testing.assert_allclose(value, 0.25 * hits + 0.75 * inverse, rtol=1e-6)
  assert blend(SCORES[0], LABELS[0]).shape == ()
  assert {"blend", "ndcg"} == {*jr.evaluate([blend, jr.ndcg], SCORES, LABELS)}


def test_a_metric_pickles_if_its_kernel_does():
  assert pickle.loads(pickle.dumps(blend)) is blend
  again = pickle.loads(pickle.dumps(first_label))
  assert again.description.kernel is _first_label
  np.testing.assert_array_equal(again(SCORES, LABELS, k=2), first_label(SCORES, LABELS, k=2))
  with pytest.raises((pickle.PicklingError, AttributeError)):
    pickle.dumps(jr.metric(lambda ranked: ranked.count(ranked.where)))


@jr.metric(checks={"share": _share})
def written_out(
  scores, labels, *, where=None, k=None, share=0.5, weights=None, ranking=jr.Exact()
) -> Array:
  """`blend`, as a function of all arguments."""
  ranked = jr.ranked_query(scores, labels, where, ranking)
  return blend.description.kernel(ranked, k=k, share=share, weights=weights)


@jr.metric
def product(scores, labels, *, where=None, k=None, weights=None, ranking=jr.Exact()):
  """Two metrics of the same lists, one of them with the weights of the call."""
  given = {"where": where, "k": k, "ranking": ranking}
  return blend(scores, labels, **given, weights=weights) * jr.ndcg(scores, labels, **given)


@pytest.mark.parametrize("ranking", RANKINGS, ids=lambda ranking: type(ranking).__name__)
def test_a_metric_of_all_arguments(ranking):
  given = {"k": 2, "weights": WEIGHTS, "ranking": ranking}
  short = blend(SCORES, LABELS, share=0.25, **given)
  np.testing.assert_array_equal(written_out(SCORES, LABELS, share=0.25, **given), short)
  value = jr.evaluate(jr.Measure(written_out, name="ours", k=2), SCORES, LABELS, ranking=ranking)
  np.testing.assert_allclose(value["ours"], blend(SCORES, LABELS, k=2, ranking=ranking), rtol=1e-6)
  both = blend(SCORES, LABELS, **given) * jr.ndcg(SCORES, LABELS, k=2, ranking=ranking)
  np.testing.assert_allclose(product(SCORES, LABELS, **given), both, rtol=1e-6)


def test_a_metric_of_all_arguments_is_the_function_that_was_written():
  assert inspect.isfunction(written_out)
  assert (written_out.__name__, written_out.__module__) == ("written_out", __name__)
  assert [*inspect.signature(written_out).parameters][-3:] == ["share", "weights", "ranking"]
  assert pickle.loads(pickle.dumps(written_out)) is written_out
  assert pickle.loads(pickle.dumps(jr.Measure(written_out, k=2))) == jr.Measure(written_out, k=2)
  half = functools.partial(written_out, share=0.25)
  np.testing.assert_array_equal(half(SCORES, LABELS), blend(SCORES, LABELS, share=0.25))
  assert description.of_metric(half) is None


def test_a_function_that_wraps_a_metric_is_another_function():
  for metric in (jr.ndcg, blend, written_out):
    twice = functools.wraps(metric)(lambda *args, _of=metric, **given: 2 * _of(*args, **given))
    assert twice.description is metric.description
    assert description.of_metric(twice) is None
    with pytest.raises(TypeError, match="a measure is made of"):
      jr.Measure(twice)


def test_mistakes_in_calls_of_metrics():
  with pytest.raises(TypeError, match=r"^written_out does not take 'kk'; it takes k, share, weig"):
    written_out(SCORES, LABELS, kk=2)
  with pytest.raises(TypeError, match=r"^written_out: too many.*write written_out\(scores, labels"):
    written_out(SCORES, LABELS, None)
  with pytest.raises(TypeError, match=r"^ndcg: missing a required argument: 'labels'"):
    jr.ndcg(SCORES)
  with pytest.raises(TypeError, match=r"^ndcg: multiple values for argument 'scores'"):
    jr.ndcg(SCORES, LABELS, scores=SCORES)
  with pytest.raises(TypeError, match=r"^err needs max_label, .* write err\(scores, labels, max_l"):
    jr.err(SCORES, LABELS)
  with pytest.raises(TypeError, match=r"margin_mse needs teacher, .*, teacher=teacher\)"):
    jr.losses.margin_mse(SCORES, LABELS)
  with pytest.raises(ValueError, match=r"^written_out: share must be from 0 to 1"):
    written_out(SCORES, LABELS, share=2.0)


def test_the_body_of_a_metric_computes_with_the_ranked_query():
  @jr.metric
  def reads(scores, labels, *, where=None, ranking=jr.Exact()):
    return jnp.sum(scores)

  @jr.metric
  def ranks(scores, labels, *, where=None, ranking=jr.Exact()):
    return jr.ranked_query(scores, labels, where, jr.Exact()).n

  with pytest.raises(TypeError, match=r"^reads: the body of reads .* ranked = jaxrank.ranked_qu"):
    reads(SCORES, LABELS)

  @jr.metric
  def asks_another(scores, labels, *, where=None, ranking=jr.Exact()):
    return jr.ndcg(scores, labels, where=where)

  for metric in (ranks, asks_another):
    with pytest.raises(TypeError, match=rf"^{metric.__name__}: .*pass on scores, labels, where=w"):
      metric(SCORES, LABELS)
  for lists, error in (
    ((SCORES, LABELS, None, jr.Exact()), "^ranked_query: scores must be those of one query"),
    ((SCORES[0], LABELS[0], None, None), "^ranked_query: ranking must be a jaxrank.Ranking"),
    ((SCORES[0], LABELS[0, :2], None, jr.Exact()), "^ranked_query: .*shape"),
  ):
    with pytest.raises((TypeError, ValueError), match=error):
      jr.ranked_query(*lists)


def test_a_metric_of_scores_takes_all_lists():
  for lacking, function in {
    "labels": lambda scores, *, where=None, ranking=None: 0,
    "where": lambda scores, labels, *, ranking=None: 0,
    "ranking": lambda scores, labels, *, where=None: 0,
  }.items():
    with pytest.raises(TypeError, match=f"^metric: the function .* has no parameter '{lacking}'"):
      jr.metric(function)


def test_parameters_of_a_metric_are_those_of_its_kernel():
  assert first_label.__name__ == "first_label"
  with pytest.raises(TypeError, match="^first_label needs k, a whole number"):
    first_label(SCORES, LABELS)
  with pytest.raises(TypeError, match=r"^blend does not take 'kk'; it takes k, share, weights"):
    blend(SCORES, LABELS, kk=2)
  with pytest.raises(ValueError, match=r"^blend: k must be.*0"):
    blend(SCORES, LABELS, k=0)
  with pytest.raises(TypeError, match=r"^blend: k must be.*'three'"):
    blend(SCORES, LABELS, k="three")
  with pytest.raises(ValueError, match=r"blend: weights.*\(2, 3\).*\(2, 4\)"):
    blend(SCORES, LABELS, weights=WEIGHTS[:, 1:])


def test_parameters_are_checked_as_the_user_says():
  with pytest.raises(ValueError, match=r"^blend: share must be from 0 to 1, got 2\.0"):
    blend(SCORES, LABELS, share=2.0)
  with pytest.raises(ValueError, match=r"^Measure: share must be from 0 to 1, got 2\.0"):
    jr.Measure(blend, share=2.0)


def test_a_description_of_an_unknown_parameter_is_refused():
  with pytest.raises(TypeError, match="description of first_label names 'shares'.*it takes k"):
    jr.metric(_first_label, checks={"shares": _share})

  def unknown(scores, labels, *, where=None, ranking=None, k=None):
    raise NotImplementedError

  before = [*described()]
  with pytest.raises(TypeError, match="description of unknown names 'beta'.*it takes k"):
    described_metric(beta=SHARE)(unknown)
  assert before == [*described()]


@jr.metric
def given_weights(ranked, *, weights):
  return ranked.in_input_order(weights), ranked.total(ranked.weighted(ranked.labels, weights))


@pytest.mark.parametrize("ranking", RANKINGS, ids=lambda ranking: type(ranking).__name__)
def test_weights_of_items_stand_in_the_order_of_the_ranked_query(ranking):

  @jax.jit
  def both(scores, labels, weights):
    given = {"weights": weights, "ranking": ranking}
    weighted = blend(scores, labels, share=1.0, **given)
    return given_weights(scores, labels, **given), weighted, jr.precision(scores, labels, **given)

  (back, total), weighted, ours = both(SCORES, LABELS, WEIGHTS)
  np.testing.assert_array_equal(back, WEIGHTS)
  np.testing.assert_allclose(total, np.sum(LABELS * WEIGHTS, axis=1), rtol=1e-6)
  # As metrics of ours have it.
  np.testing.assert_allclose(weighted, 4 * ours, rtol=1e-5)


def test_two_measures_of_one_name_are_refused():
  other = [jr.Measure(jr.ndcg, name="ours", k=2), jr.Measure(jr.ndcg, name="ours", k=3)]
  with pytest.raises(ValueError, match="^evaluate: .*'?ours"):
    jr.evaluate(other, SCORES, LABELS)
  same = jr.Measure(jr.ndcg, k=2)
  assert [*jr.evaluate([same, same], SCORES, LABELS)] == [same.name]


def test_metrics_of_diversity_are_not_evaluated_with_others():
  measures = [jr.Measure(jr.err_ia, max_label=1), "nDCG@2"]
  for some in (measures, measures[::-1]):
    with pytest.raises(ValueError, match=r"err_ia takes labels.*ndcg takes labels.*separate"):
      jr.evaluate(some, SCORES, LABELS[..., None])


def test_a_metric_of_many_values_is_called_alone():
  assert given_weights(SCORES, LABELS, weights=WEIGHTS)[0].shape == (2, 4)
  measures = [jr.Measure(given_weights, weights=WEIGHTS), jr.ndcg]
  with pytest.raises(ValueError, match="given_weights must have one value per query.*alone"):
    jr.evaluate(measures, SCORES, LABELS)


def test_each_question_has_a_metric():
  """Tests of what all metrics share take these, and not every metric."""
  methods = {name for name, x in vars(Ranked).items() if inspect.isfunction(x) and x.__doc__}
  assert set(get_args(Name)) == set(traits.QUESTIONS) <= methods
  for question, name in traits.QUESTIONS.items():
    about = description.of_metric(getattr(jr, name))
    asked = traits.recorded(about).questions
    assert {x.kind for x in asked} == {question}, name
  rows, three = traits.rows(), jnp.arange(3.0)

  def is_answered(name):
    with contextlib.suppress(jr.UnansweredError):
      jax.eval_shape(lambda: rows[name](three, three, ranking=jr.Laplace(1.0)))
      return True
    return False

  assert {x for x in traits.ASKING if is_answered(x)} == set(traits.SMOOTHLY)


@pytest.mark.parametrize(
  "body",
  [
    lambda lists: jnp.where(lists[1] == 2, 1.0, 0.0),
    lambda lists: 1.0 if lists[0] else 0.0,
    lambda lists: lists[0].sum(),
    lambda lists: np.asarray(lists[1]) == 2,
    lambda lists: 1 - lists[1],
    lambda lists: lists[2].temperature,
  ],
)
def test_nothing_is_computed_with_the_arguments_of_a_body(body):
  @jr.metric
  def wrong(scores, labels, *, where=None, ranking=jr.Exact()):
    return body((scores, labels, ranking))

  with pytest.raises(TypeError, match=r"^wrong: the body of wrong .* ranked = jaxrank.ranked_q"):
    wrong(SCORES, LABELS)


def test_a_metric_of_metrics_is_affine_if_they_are():
  @jr.metric
  def twice(scores, labels, *, where=None, k=None, ranking=jr.Exact()):
    return 2 * jr.ndcg(scores, labels, where=where, k=k, ranking=ranking)

  key = {"labels": LABELS, "k": 2}
  np.testing.assert_allclose(
    jr.chance.expected(twice, **key), 2 * jr.chance.expected(jr.ndcg, **key), rtol=1e-5
  )
  swapped = jr.losses.lambda_rank(SCORES, LABELS, metric=twice, k=2)
  np.testing.assert_allclose(
    swapped, 2 * jr.losses.lambda_rank(SCORES, LABELS, metric=jr.ndcg, k=2), rtol=1e-5
  )


def test_metrics_of_subtopics_are_not_called_with_flat_labels():
  @jr.metric
  def covered(scores, labels, *, where=None, k=None, ranking=jr.Exact()):
    return jr.subtopic_recall(scores, labels, where=where, k=k, ranking=ranking)

  with pytest.raises(ValueError, match=r"^covered: subtopic_recall.* takes labels \[..., n, subt"):
    covered(SCORES, LABELS, k=1)


def returning(value):
  """A metric whose body returns a function of the ranked query."""

  def returned(scores, labels, *, where=None, k=None, ranking=E):
    return value(jr.ranked_query(scores, labels, where, ranking))

  return jr.metric(returned)


def test_what_a_body_returns_becomes_floats():
  bodies = [
    lambda ranked: jnp.sum(ranked.relevant()),
    lambda ranked: jnp.any(ranked.relevant()),
    lambda ranked: 2,
    lambda ranked: np.float64(0.5),
  ]
  measures = [jr.Measure(returning(body), name=str(i)) for i, body in enumerate(bodies)]
  values = jr.evaluate(measures, SCORES + np.float32([[0], [np.nan]]), LABELS)
  for value, expected in zip(values.values(), (2, 1, 2, 0.5), strict=True):
    assert value.dtype == np.float32
    np.testing.assert_array_equal(value, [expected, np.nan])
  for other in (None, "one", (1.0, None), {1}):
    with pytest.raises(TypeError, match=r"^returned: returned must return .* a number, got "):
      returning(lambda _, other=other: other)(SCORES, LABELS)


def test_calls_in_a_body_check_their_arrays():
  @jr.metric
  def inside(scores, labels, *, where=None, ranking=E):
    return jr.ndcg(scores, labels, where=where, ranking=ranking, weights=jnp.ones(1))

  with pytest.raises(ValueError, match=r"^inside: ndcg: weights and scores must have one shape"):
    inside(SCORES, LABELS)


def test_losses_in_a_body_order_items_by_their_own_rules():
  losses = [jr.losses.lambda_ndcg, jr.losses.lambda_rank, jr.losses.xe_ndcg]

  @jr.metric
  def several(scores, labels, *, where=None, weights=None, ranking=E):
    given = {"where": where, "weights": weights}
    found = [loss(scores, labels, **given) for loss in losses]
    return jnp.stack([*found, jr.ndcg(scores, labels, **given, ranking=ranking)])

  values = several(SCORES, LABELS, weights=WEIGHTS).T
  for value, function in zip(values, [*losses, jr.ndcg], strict=True):
    np.testing.assert_allclose(value, function(SCORES, LABELS, weights=WEIGHTS), rtol=1e-6)


def test_a_parameter_takes_its_default_of_none():
  def kept(scores, labels, *, where=None, gain=None, max_label=None, groups=None, ranking=E):
    return jr.ranked_query(scores, labels, where, ranking).n if gain is None else max_label

  np.testing.assert_array_equal(jr.metric(kept)(SCORES, LABELS, groups=None), [4, 4])
  with pytest.raises(TypeError, match=r"^kept: gain must be a function of labels"):
    jr.metric(kept)(SCORES, LABELS, gain=3)
  with pytest.raises(TypeError, match="^capped: max_label must be the best grade"):
    jr.metric(capped)(SCORES, LABELS, max_label=None)


def capped(scores, labels, *, where=None, max_label=4, ranking=E):
  return max_label


@pytest.mark.parametrize(
  ("allowed", "ok", "wrong"),
  [
    (Literal["a", "b"] | None, ("a", None), "c"),
    (Literal["a", None], (None,), "c"),
    (Literal["a"] | Literal["b"], ("b",), None),
    (Literal["a"] | int, ("b", 1), ()),
  ],
)
def test_words_of_a_type_with_none_are_checked(allowed, ok, wrong):
  def worded(scores, labels, *, where=None, mode: allowed = "a", ranking=E):
    return 1

  about = jr.metric(worded).description
  for value in ok:
    assert about.bind({"mode": value}) == {"mode": value}
  if wrong != ():
    with pytest.raises(ValueError, match=r"^mode must be one of 'a', "):
      about.bind({"mode": wrong})


def test_functions_of_scores_that_are_no_metrics():
  def later(labels, scores, *, where=None, ranking=jr.Exact()):
    return 0

  def other_ranking(scores, labels, *, where=None, ranking=jr.Laplace(1.0)):
    return 0

  def by_position(scores, labels, /, *, where=None, ranking=jr.Exact()):
    return 0

  for function, message in (
    (later, "begins with 'labels'"),
    (other_ranking, "another default of ranking"),
    (by_position, "by position alone"),
    (functools.partial(written_out, k=1), "no plain function"),
    (jr.ndcg, "ndcg is a metric already"),
    (blend, "blend is a metric already"),
  ):
    with pytest.raises(TypeError, match=f"^metric: .*{message}"):
      jr.metric(function)


def test_types_in_quotes_are_read_one_by_one():
  @jr.metric
  def _quoted(
    scores,
    labels,
    *,
    where=None,
    mode: "Literal['a', 'b']" = "a",
    x: "np.Unknown" = 0,
    ranking=E,
  ):
    return jr.ranked_query(scores, labels, where, ranking).labels[0] * 0 + x

  assert _quoted.description.name == "quoted"
  np.testing.assert_array_equal(_quoted(SCORES, LABELS, mode="b", x=2), [2, 2])
  with pytest.raises(ValueError, match=r"^quoted: mode must be"):
    _quoted(SCORES, LABELS, mode="c")
