"""`check_loss` finds planted faults and names their laws; the losses of the library obey them."""

import dataclasses
import functools
import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

import jaxrank as jr
from jaxrank import losses, testing
from jaxrank.testing import asking_losses, sharing
from tests.helpers import traits
from tests.helpers.suites import quick, thorough

LARGEST = 1e30


@jax.custom_jvp
def steeper(x):
  """`x`, with a slope that is wrong where it is large."""
  return x


@steeper.defjvp
def _(primals, tangents):
  return primals[0], 1.01 * tangents[0]


@jax.custom_batching.custom_vmap
def mapped_wrongly(value):
  return value


@mapped_wrongly.def_vmap
def _(axis_size, in_batched, value):
  return 2 * value, True


def entropy(scores, labels, *, where=None, temperature=1.0, weights=None, bug=None):
  """The cross entropy of a softmax, with one of the faults of `BUGS`."""
  where = jnp.ones(scores.shape, bool) if where is None else where
  live = where & (scores > -jnp.inf)
  if bug != "half precision":
    scores = scores.astype(np.promote_types(scores.dtype, np.float32))
  labels = labels.astype(scores.dtype)
  if bug == "NaN is hidden":
    labels = jnp.where(jnp.isnan(labels), 0, labels)
  z = jnp.where(live, scores, 0)
  if bug != "infinite scores":
    z = jnp.clip(z, -LARGEST, LARGEST)
  if bug == "wrong slope of the temperature":
    temperature = jax.lax.stop_gradient(temperature)
  z = (steeper(z) if bug == "wrong slope" else z) / temperature
  counted = jnp.ones_like(where) if bug == "mask leak" else where
  gain = jnp.where(counted, jnp.maximum(labels, 0), 0)
  gain = jnp.where(live, gain if weights is None else gain * weights, 0 * gain)
  top = jax.lax.stop_gradient(jnp.max(jnp.where(live, z, -jnp.inf), -1))
  top = jnp.where(jnp.any(live, -1), top, 0)
  total = jnp.sum(jnp.where(live, jnp.exp(z - top[..., None]), 0), -1)
  drop = jnp.where(live, (top + jnp.log(jnp.where(total > 0, total, 1)))[..., None] - z, 0)
  if bug == "order dependence":
    drop = drop / (1 + jnp.cumsum(where, -1).astype(drop.dtype))
  if bug == "mask leak":
    drop = drop * jnp.maximum(jnp.sum(labels, -1, keepdims=True), 1)
  value = jnp.sum(gain * drop, -1)
  count = jnp.sum(where, -1).astype(value.dtype)
  value = jnp.where(jnp.any(where & jnp.isnan(scores), -1), jnp.nan, value)
  if bug == "0 / 0":
    value = value + count / count
  if bug == "a prior of the temperature":
    value = value + jnp.square(temperature)
  if bug == "columns counted":
    value = value / scores.shape[-1]
  if bug == "batch dependence":
    value = value / jnp.maximum(jnp.max(count), 1)
  if bug == "infinity of a neighbour":
    value = value + 0 * jnp.max(gain)
  if bug == "Python's if" and jnp.sum(count) > 3:
    value = 2 * value
  if bug == "side effect":
    io_callback(lambda: np.float32(0), jax.ShapeDtypeStruct((), np.float32), ordered=True)
  if bug == "vmap difference":
    value = value * mapped_wrongly(0 * count + 1)
  if bug == "product that vanishes":
    value = value * jnp.prod(jnp.where(live, 0.5, 1), -1)
  return value


BUGS = {
  "Python's if": "jit",
  "side effect": "remat",
  "mask leak": "mask",
  "NaN is hidden": "nan",
  "columns counted": "padding",
  "order dependence": "permutation",
  "0 / 0": "empty",
  "a prior of the temperature": "empty",
  "batch dependence": "batch",
  "infinity of a neighbour": "isolation",
  "vmap difference": "vmap",
  "half precision": "dtypes",
  "infinite scores": "finite",
  "wrong slope": "derivatives",
  "wrong slope of the temperature": "derivatives",
  "product that vanishes": "alive",
}


def broken(loss, **options):
  """The message about a loss that breaks a law."""
  with pytest.raises(AssertionError) as raised:
    testing.check_loss(loss, **options)
  return str(raised.value)


def test_every_law_has_a_planted_fault():
  assert set(BUGS.values()) == set(testing.LOSS_LAWS)


def test_a_loss_without_a_fault_passes():
  assert testing.check_loss(entropy, max_examples=10) is None


@quick("bug", BUGS, ["columns counted"])
def test_a_planted_fault_is_found(bug):
  text = broken(functools.partial(entropy, bug=bug))
  assert text.startswith(f"entropy breaks the law of {BUGS[bug]}: ")
  # Some array of a small case.
  shown = re.findall(r"jnp\.array\(\[(.*?)\]", text)
  assert min(scores.count(",") for scores in shown) < 3


@thorough
def test_the_message_can_be_pasted_and_says_what_to_do():
  text = broken(functools.partial(entropy, bug="columns counted"), laws=["padding"])
  first, second = re.findall(r"^entropy\((.*?)^\)\nis (\d+\.\d+)", text, re.M | re.S)
  for call, value in (first, second):
    assert eval(f"entropy({call})", {"jnp": jnp, "entropy": entropy}) == pytest.approx(float(value))
  assert "bug='columns counted'" in first[0]
  assert text.endswith("jnp.where(where, x, 0).")
  text = broken(functools.partial(entropy, bug="wrong slope of the temperature"))
  assert "The derivative in temperature at temperature=0.8, by jax.jvp, of" in text


def test_a_loss_of_ones_own_in_one_line():
  found = testing.check_loss(
    lambda scores, labels, *, where=None: 1 - jr.ndcg(
      scores, labels, where=where, ranking=jr.Laplace(1.0)
    ),
    laws=["padding", "alive"],
    max_examples=5,
  )  # fmt: skip
  assert found is None


def test_a_cut_off_under_an_exact_ranking_is_dead():
  text = broken(functools.partial(jr.ndcg, k=10), laws=["alive"], max_examples=5)
  assert text.startswith("ndcg breaks the law of alive")
  assert "has the norm 0.0e+00" in text


def test_a_loss_need_not_take_where():
  def squares(scores, labels):
    dtype = np.promote_types(scores.dtype, np.float32)
    return jnp.sum(jnp.square(jnp.clip(scores.astype(dtype), -1e9, 1e9) - labels.astype(dtype)), -1)

  laws = testing.LOSS_LAWS.keys() - {"nan"}
  assert testing.check_loss(squares, laws=laws, max_examples=5) is None


def test_lists_may_be_known_to_be_short():
  loss = functools.partial(entropy, bug="product that vanishes")
  assert testing.check_loss(loss, laws=["alive"], sizes=(10,)) is None
  assert "breaks the law of alive" in broken(loss, laws=["alive"], sizes=(1000,))


def test_mistakes_of_arguments():
  with pytest.raises(TypeError, match=r"check_loss: loss needs max_label.*functools\.partial"):
    testing.check_loss(losses.approx_err)
  with pytest.raises(TypeError, match="loss must take scores and labels"):
    testing.check_loss(lambda scores, *, where=None: scores)
  with pytest.raises(ValueError, match="laws must be one of 'jit'.*'limit'"):
    testing.check_loss(losses.softmax, laws=["limit"])
  with pytest.raises(ValueError, match="parameters must be one of 'weights', 'temperature'"):
    testing.check_loss(losses.softmax, parameters=["margin"])
  with pytest.raises(ValueError, match="got 'scale', but it has none: give scale a default"):
    testing.check_loss(lambda scores, labels: scores, parameters=("scale",))
  for name, given in (("laws", "nan"), ("parameters", "temperature"), ("sizes", 10)):
    text = rf"check_loss: {name} must be a collection, such as \({given!r},\), got {given!r}"
    with pytest.raises(TypeError, match=text):
      testing.check_loss(losses.softmax, **{name: given})
  with pytest.raises(TypeError, match=r"labels must be a strategy.*testing\.labels\(5\).*ndarray"):
    testing.check_loss(losses.softmax, labels=np.zeros(5))
  with pytest.raises(ValueError, match="sizes must be at least 1"):
    testing.check_loss(losses.softmax, sizes=(0,))
  with pytest.raises(AssertionError, match=r"must have shape \(\), one per query"):
    testing.check_loss(lambda scores, labels: scores, laws=["jit"])


def counted(scores, labels):
  return jnp.sum(scores > labels, axis=-1)


def with_more(scores, labels):
  return jnp.sum(scores, axis=-1), labels


def test_the_call_that_raises_is_shown():
  def loss(scores, labels):
    if scores.dtype == jnp.bfloat16:
      raise NotImplementedError("half of it")
    return jnp.sum(scores - labels, axis=-1)

  text = broken(loss, laws=["dtypes"], max_examples=1)
  assert "jnp.array([0], jnp.bfloat16)" in text
  assert "raises NotImplementedError: half of it" in text


def test_what_a_loss_returns():
  with pytest.raises(AssertionError, match=r"^check_loss: counted must return floats, got int32"):
    testing.check_loss(counted)
  with pytest.raises(
    AssertionError, match=r"^check_loss: with_more .*one array.* got a tuple\. If"
  ):
    testing.check_loss(with_more)


def reverse_only(slope):
  """A logarithm of a sum with a rule of `custom_vjp` alone, and that slope in the temperature."""

  def value(scores, labels, temperature):
    best = jnp.max(labels, axis=-1)
    return best * jax.nn.logsumexp(scores / temperature, axis=-1)

  rule = jax.custom_vjp(value)

  def forward(*arguments):
    found, pull = jax.vjp(value, *arguments)
    return found, (pull, arguments[2])

  def backward(residuals, cotangent):
    pull, temperature = residuals
    *rest, number = pull(cotangent)
    return *rest, slope(number, temperature)

  rule.defvjp(forward, backward)

  @jax.jit
  def fused(scores, labels, *, temperature=2.0):
    return rule(scores, labels.astype(scores.dtype), jnp.asarray(temperature, scores.dtype))

  return fused


DERIVED = ("remat", "vmap", "derivatives")


@thorough
def test_a_loss_with_a_rule_for_reverse_mode_alone():
  right = reverse_only(lambda slope, temperature: slope)
  with pytest.raises(TypeError, match="custom_vjp"):
    jax.jvp(lambda s: right(s, s), (jnp.ones(3),), (jnp.ones(3),))
  assert testing.check_loss(right, laws=DERIVED, max_examples=3) is None
  wrong = reverse_only(lambda slope, temperature: slope / temperature)
  text = broken(wrong, laws=DERIVED, max_examples=3)
  assert "fused breaks the law of derivatives" in text
  assert "The derivative in temperature at temperature=1.6, by jax.vjp, of" in text


@dataclasses.dataclass(frozen=True)
class Scaled:
  """A loss whose numbers are ints, with no slope in some of them."""

  still: str

  def __call__(
    self,
    scores,
    labels,
    *,
    where=None,
    scale: float = 1,
    margin=0,
    power: int = 2,
    k=3,
    axis: "int" = -1,
  ):
    given = {"scale": scale, "margin": margin, "power": power, "k": k}
    scale, margin, power, k = (
      jax.lax.stop_gradient(x) if name == self.still else x for name, x in given.items()
    )
    where = jnp.ones(scores.shape, bool) if where is None else where
    gap = jnp.where(where, scores - labels, 0)
    return jnp.sum(jnp.where(where, scale * gap + margin, 0) ** power, axis=axis) * k


@thorough
def test_a_number_whose_default_is_an_int():
  assert asking_losses.numbers_of(Scaled("")) == {
    "scale": 1, "margin": 0, "power": 2, "k": 3, "axis": -1,
  }  # fmt: skip
  assert asking_losses.counts_of(Scaled("")) == {"power", "k", "axis"}
  assert asking_losses.counts_of(functools.partial(jr.ndcg, k=3, ranking=jr.Laplace(1))) == {"k"}
  options = {"laws": ["derivatives"], "max_examples": 3}
  assert testing.check_loss(Scaled("power"), **options) is None
  for name, at in (("scale", "margin=0.2, scale=0.8"), ("margin", "margin=0.2, scale=0.8")):
    assert f"The derivative in {name} at {at}, by jax.jvp, of" in broken(Scaled(name), **options)
  # What is declared is held to the law, whatever its annotation says.
  text = broken(Scaled("k"), parameters=("k",), **options)
  assert "The derivative in k at k=2.4, by jax.jvp, of" in text


@thorough
def test_a_number_that_cannot_be_traced():
  def checked(scores, labels, *, where=None, margin=1.0):
    if margin < 0:
      raise ValueError(margin)
    return losses.pairwise_hinge(scores, labels, where=where, margin=margin)

  options = {"laws": ["derivatives"], "max_examples": 1}
  text = broken(checked, **options)
  assert text.startswith("check_loss: checked must take traced numbers for margin, to be")
  assert "the loss raised TracerBoolConversionError: " in text
  assert testing.check_loss(checked, parameters=(), **options) is None


@thorough
def test_the_message_about_a_gradient_in_a_number_names_it():
  text = broken(functools.partial(entropy, bug="a prior of the temperature"), laws=["empty"])
  assert "the gradient in temperature and weights, which should be 0 of all that does not" in text
  assert "is jnp.array([2.0, 0.0], jnp.float32)." in text
  loss = functools.partial(entropy, bug="a prior of the temperature")
  assert testing.check_loss(loss, laws=["empty"], parameters=("weights",)) is None


def test_the_gradient_in_a_number_does_not_depend_on_what_is_hidden():
  @jax.custom_vjp
  def divided(x, temperature):
    return x / temperature

  def backward(residuals, cotangent):
    x, temperature = residuals
    return cotangent / temperature, -jnp.sum(cotangent * x) / temperature**2

  divided.defvjp(lambda *given: (divided(*given), given), backward)

  def loss(scores, labels, *, where=None, temperature=1.0):
    where = jnp.ones(scores.shape, bool) if where is None else where
    labels = jnp.where(where, labels, 0)
    z = jnp.where(where, divided(scores, jnp.asarray(temperature, scores.dtype)), 0)
    return jnp.sum((z - labels) ** 2, -1)

  text = broken(loss, laws=["nan"], max_examples=5)
  assert "the gradient in temperature of\n" in text


# The losses of the library.

# Laws that share one program, and those of derivatives; the others are about what all share.
OWN_LAWS = ("mask", "nan", "permutation", "empty", "finite", "derivatives")


def subject(name):
  """A loss of the library as a function of scores, labels, `where` and its numbers."""
  public = getattr(losses, name)
  signature = inspect.signature(public)
  if signature.return_annotation is losses.perturbation.Perturbed:
    return public(losses.softmax, jax.random.key(3), samples=3)
  if "max_label" in signature.parameters:
    return functools.partial(public, max_label=4)
  if {"labels", "teacher"} & signature.parameters.keys() == {"labels"}:
    return public

  def found(scores, labels, **given):
    if "teacher" in signature.parameters:
      taught = {"labels": labels} if "labels" in signature.parameters else {}
      return public(scores, teacher=labels, **taught, **given)
    order = public(scores, **given)
    gain = jnp.maximum(labels.astype(order.dtype), 0)
    gain = jnp.where(given["where"], gain, 0) if "where" in given else gain
    return jnp.sum((order @ gain[..., None])[..., :2, 0], -1)

  own = [p for p in signature.parameters.values() if p.name not in ("labels", "teacher")]
  labels = own[0].replace(name="labels")
  found.__signature__ = signature.replace(parameters=[own[0], labels, *own[1:]])
  found.__name__ = name
  return found


def departs(name):
  """The laws that a loss says it differs from on purpose, and why."""
  loss = subject(name)
  return getattr(loss.func if isinstance(loss, functools.partial) else loss, "departs", {})


DEPARTS = {name: laws for name in losses.__all__ if (laws := departs(name))}

CASES = testing.Case(
  np.float32(
    [
      [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
      [1.0, 3.0, -2.0, 0.5, 0.25, 7.0],
      [2.0, 1.0, -np.inf, 2.0, 2.0, -1.0],
      [np.inf, 1e9, -np.inf, -1e30, 0.5, 1e30],
      [-np.inf, -np.inf, -np.inf, -np.inf, 1.0, 2.0],
      [1.0, 1.0 + 2.0**-23, 1.0, 0.0, -0.0, 3e38],
    ]
  ),
  np.float32(
    [
      [1, 0, 0, 0, 0, 0],
      [0, 2, 4, -1, 1, 3],
      [0, 1, 3, 1, 0, 4],
      [1, 0, 2, 4, 0, 1],
      [3, 0, 1, 0, 2, 0],
      [1, 0, 0, 4, 1, -1],
    ]
  ),
  np.array(
    [
      [1, 1, 1, 1, 1, 1],
      [1, 1, 1, 1, 1, 0],
      [1, 1, 1, 1, 1, 1],
      [1, 0, 1, 1, 1, 0],
      [1, 1, 1, 1, 1, 0],
      [1, 1, 0, 1, 1, 1],
    ],
    bool,
  ),
)


def held(loss, laws):
  """Asserts that a loss obeys some laws, in queries enough to say something."""
  shared = sharing.loss_subject(loss)
  for law in laws:
    assert testing.LOSS_LAWS[law](shared, CASES), law


def test_every_loss_is_a_subject():
  taken = {name: asking_losses.numbers_of(subject(name)) for name in losses.__all__}
  assert taken["kl"] == {"temperature": 1.0}
  assert taken["poly1"] == {"epsilon": 1.0, "weights": None, "temperature": 1.0}
  assert taken["rank_mse"] == {"ranking": jr.Logistic(1.0)}


# One loss of each kind. `tests/losses` has the laws of data for all losses, and `tests/derivatives`
# their slopes.
KINDS = (
  *("softmax", "list_mle", "pairwise_logistic", "lambda_ndcg", "approx_ndcg", "kl"),
  *("neural_sort", "perturbed"),
)


@quick("name", losses.__all__, ["softmax"])
def test_public_losses_obey_the_laws(name):
  loss = subject(name)
  # The slopes of a metric under a ranking by its numbers, which no other test has.
  surrogate = name.startswith(("approx_", "softrank_"))
  laws = testing.LOSS_LAWS if name in KINDS else ("alive", *["derivatives"] * surrogate)
  if "ranking" in inspect.signature(loss).parameters:
    # `tests/metrics` has metrics under a ranking inside `jax.vmap` and `jax.jit`.
    laws = [law for law in laws if law not in ("jit", "remat", "batch", "vmap")]
  held(loss, [law for law in laws if law not in DEPARTS.get(name, ())])


@thorough
@pytest.mark.parametrize("name", losses.__all__)
def test_losses_at_a_cut_off_are_alive(name):
  parameters = inspect.signature(getattr(losses, name)).parameters
  # The rankings with noise take the exact probability of a cut-off.
  if "k" in parameters and "softrank" not in name and name != "approx_mrr":
    held(functools.partial(subject(name), k=10), ["alive"])


@thorough
def test_a_loss_of_a_user_says_what_it_departs_from():
  loss = functools.partial(entropy, bug="columns counted")
  entropy.departs = {"padding": "it divides by the number of columns"}
  try:
    assert testing.check_loss(loss, max_examples=5) is None
    assert "law of padding" in broken(loss, laws=["padding"])
    entropy.departs = {"paddings": ""}
    with pytest.raises(ValueError, match="departs of entropy must be one of.*'paddings'"):
      testing.check_loss(loss)
  finally:
    del entropy.departs


@thorough
def test_weights_of_pairs_count_as_constants():
  check = testing.LOSS_LAWS["derivatives"]
  assert check(losses.lambda_ndcg, CASES, parameters=("temperature",))


@thorough
@pytest.mark.parametrize(("name", "law"), [(n, law) for n, laws in DEPARTS.items() for law in laws])
def test_a_loss_that_departs_from_a_law_does(name, law):
  with pytest.raises(AssertionError, match=f"breaks the law of {law}"):
    testing.LOSS_LAWS[law](subject(name), CASES)


# The metrics of the library under smooth rankings, which are losses but for the sign.

RANKINGS = {"Laplace": jr.Laplace(0.9), "Gumbel": jr.Gumbel(0.9)}
# Metrics that are constant around tied scores, by their definition.
FLAT = {
  "bpref": "it counts R of the other items at most, and tied scores put more of them ahead",
  "log_bpref": "it is the logarithm of bpref",
  "nnrbp": "it has no cut-off, and its weights decay with the rank",
  "set_average_precision": "it is that of the whole list, whatever its order",
}
# Metrics that are so without a cut-off, under the rankings of expected ranks.
FLAT_OF_THE_WHOLE_LIST = {
  **dict.fromkeys(
    ("fall_out", "f_measure", "hit_rate", "precision", "precision_ia", "recall", "subtopic_recall"),
    "the order of the whole list does not matter",
  ),
  **dict.fromkeys(("nrbp", "rbp"), "weights decay with the rank"),
  **dict.fromkeys(
    (
      "alpha_dcg",
      "alpha_ndcg",
      "err",
      "err_ia",
      "nearly_err",
      "nerr",
      "nerr_ia",
      "reciprocal_rank",
    ),
    "a product over the relevant items vanishes",
  ),
}


def is_answered(metric):
  """Whether a smooth ranking answers what a metric asks."""
  try:
    metric = functools.partial(metric, ranking=RANKINGS["Laplace"])
    jax.eval_shape(metric, CASES.scores, CASES.labels)
  except jr.UnansweredError:
    return False
  return True


@functools.cache
def smooth_rows():
  """The rows of the metrics that a smooth ranking answers."""
  return {
    name: row for name, row in traits.rows().items() if row.takes("ranking") and is_answered(row)
  }


def all_values(names, k=None):
  """Names, and a function to the values `[..., m]` of these metrics, some at a cut-off."""
  kinds = {
    several: [name for name in names if smooth_rows()[name].about.subtopics == several]
    for several in (False, True)
  }
  names = [*kinds[False], *kinds[True]]

  def measure(name):
    cut = {"k": k} if k is not None and smooth_rows()[name].takes("k") else {}
    return jr.Measure(smooth_rows()[name].public, name=name, **smooth_rows()[name].own, **cut)

  def values(scores, labels, *, where=None, ranking):
    found = {}
    for several, chosen in kinds.items():
      if chosen:
        given = traits.subtopics(labels) if several else labels
        measures = list(map(measure, chosen))
        found |= jr.evaluate(measures, scores, given, where=where, ranking=ranking)
    return jnp.stack([found[name] for name in names], axis=-1)

  return names, values


# One for each question, and one of subtopics: `tests/metrics` has the laws of all metrics.
SOME = (*traits.SMOOTHLY, "alpha_dcg")


def in_one(names, ranking):
  """A loss that holds all of some metrics, with weights in which no errors cancel."""
  names, values = all_values(names)
  weights = np.cos(1 + np.arange(len(names)))

  def loss(scores, labels, *, where=None, ranking=ranking):
    found = values(scores, labels, where=where, ranking=ranking)
    return found @ jnp.asarray(weights, found.dtype)

  return loss


@thorough
@pytest.mark.parametrize("ranking", RANKINGS)
def test_smooth_metrics_obey_the_laws(ranking):
  kinds = {}
  for name in SOME:
    obeyed = tuple(law for law in OWN_LAWS if law not in smooth_rows()[name].about.departs)
    kinds.setdefault(obeyed, []).append(name)
  for obeyed, names in kinds.items():
    try:
      held(in_one(names, RANKINGS[ranking]), obeyed)
    except AssertionError:
      # Which metric it is.
      for name in names:
        held(functools.partial(smooth_rows()[name], ranking=RANKINGS[ranking]), obeyed)
      raise


@functools.cache
def steepness(k):
  """The least norm of the gradients under `Laplace` at tied scores of some lists, by metric."""
  labels = np.zeros((2, len(SIZES), SIZES[-1]), np.float32)
  for i, size in enumerate(SIZES):
    for row, count in zip(labels, (5, size // 2), strict=True):
      row[i, :count] = CASES.labels[1, np.arange(count) % 5]
  where = np.arange(SIZES[-1]) < np.array(SIZES)[:, None]

  def one(lists):
    labels, where = lists

    def of_scores(scores):
      return values(scores, labels, where=where, ranking=RANKINGS["Laplace"])

    return jnp.linalg.norm(jax.jacrev(of_scores)(jnp.zeros_like(labels)), axis=-1)

  names, values = all_values(smooth_rows(), k)
  flat = labels.reshape(-1, SIZES[-1]), np.tile(where, (2, 1))
  norms = jax.jit(lambda lists: jax.lax.map(one, lists))(flat)
  return dict(zip(names, np.min(norms, axis=0).tolist(), strict=True))


SIZES = (10, 200, 1000)
LEAST = 1e-6


@thorough
def test_smooth_metrics_at_a_cut_off_are_alive():
  # Less than the length of the shortest lists, whose set of the first ten is constant.
  dead = {name for name, norm in steepness(3).items() if not norm > LEAST}
  # Counts of items and of judgements do not ask for something relevant.
  assert dead <= {
    name for name in smooth_rows() if name in FLAT or smooth_rows()[name].about.seeks == "any items"
  }


@thorough
def test_smooth_metrics_of_the_whole_list_are_alive():
  dead = {name for name, norm in steepness(None).items() if not norm > LEAST}
  counts = {name for name in smooth_rows() if smooth_rows()[name].about.seeks == "any items"}
  assert dead - counts == {*FLAT, *FLAT_OF_THE_WHOLE_LIST} & smooth_rows().keys() - counts


@thorough
def test_the_laws_of_all_metrics_together_find_the_faults_of_one():
  # One that hides a NaN is not seen beside others: the law of `tests/metrics` is about each.
  for bug in ("mask leak", "order dependence", "0 / 0", "wrong slope"):
    others = in_one(SOME, RANKINGS["Laplace"])

    def loss(scores, labels, *, where=None, bug=bug, others=others):
      own = entropy(scores, labels, where=where, bug=bug)
      return others(scores, labels, where=where) + 0.5 * own

    with pytest.raises(AssertionError, match=f"breaks the law of {BUGS[bug]}") as raised:
      held(loss, [BUGS[bug]])
    assert "raises" not in str(raised.value)


@thorough
def test_a_smooth_metric_obeys_all_laws():
  held(
    functools.partial(smooth_rows()["ndcg"], ranking=RANKINGS["Laplace"], k=3), testing.LOSS_LAWS
  )
