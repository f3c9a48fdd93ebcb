"""Metrics that a user writes: kernels and their metrics, outside the package."""

import jax
import jax.numpy as jnp

import jaxrank as jr


def bpref(ranked, *, rel=1):
  """Binary preference with a discount that knows the numbers of the query."""
  relevant = ranked.relevant(rel)
  others = ranked.judged & ~relevant
  found, missed = ranked.count(relevant), ranked.count(others)

  def credit(rank):
    return 1 - jnp.minimum(rank - 1, found) / jnp.maximum(jnp.minimum(found, missed), 1)

  return ranked.expect(relevant, credit, among=others) / jnp.maximum(found, 1)


def mixture(ranked, *, k=None, weights=None):
  """Three questions of different kinds."""
  b = ranked.relevant(2)
  gained = ranked.expect(ranked.gain(jr.gains.linear, weights), jr.discounts.logarithmic, k=k)
  stopped = ranked.cascade(ranked.stop_probability(4), jr.discounts.reciprocal, k=k)
  return 0.25 * gained + 2 * ranked.precision(b, k=k) - 3 * stopped + 1


def overtaken(ranked, *, weights=None):
  """The weight of items ahead of each item, weighed by the labels."""
  w = ranked.weighted(jnp.ones_like(ranked.labels), weights)
  return ranked.total(ranked.weighted(ranked.labels) * ranked.before(w))


def depths(ranked, *, weights=None):
  """The weight at the first ranks, averaged over depths that count unequally."""
  w = ranked.gain(jr.gains.exponential, weights)
  share = 1 / jnp.arange(1, ranked.n + 1, dtype=ranked.dtype)
  return jnp.sum(share * ranked.cumulative(w))


def among_judged(ranked, *, k=None, weights=None):
  """Ranks among the judged items, of items inside and outside of them."""
  w = ranked.weighted(jnp.abs(ranked.labels), weights)
  return ranked.expect(w, jr.discounts.logarithmic, k=k, among=ranked.judged)


def by_size(ranked, *, k=None):
  """A discount that is a closure over a fact."""
  size = ranked.count(ranked.where)
  return ranked.expect(ranked.relevant(), lambda rank: jnp.exp(-rank / size), k=k)


def three_users(ranked, *, k=None):
  """Users who stop at different labels, on the one ranking."""
  stop = jnp.stack([ranked.relevant(rel) for rel in (1, 2, 4)], axis=1).astype(ranked.dtype)
  share = jnp.array([0.5, 0.3, 0.2], ranked.dtype)
  return jnp.sum(share * ranked.cascade(0.6 * stop, jr.discounts.reciprocal, k=k))


def three_thresholds(ranked, *, k=None):
  """Users whose thresholds differ, each with a question of its own, and a question for all."""
  b = jnp.stack([ranked.relevant(rel) for rel in (1, 2, 4)], axis=1)
  found = ranked.each_user(ranked.precision, b, k=k)
  return jnp.sum(found) - ranked.precision(ranked.relevant(3), k=k)


def first_good(ranked, *, k=None, rel=2):
  """How far down the first good item is."""
  return ranked.first(ranked.relevant(rel), jr.discounts.geometric(0.7), k=k)


def wasted(ranked, *, k=3):
  """Items that are not relevant among the first."""
  return ranked.expect(ranked.where & ~ranked.relevant(), jr.discounts.constant, k=k)


def constant(ranked):
  """No question at all."""
  return ranked.count(ranked.relevant())


AFFINE = {
  kernel.__name__: jr.metric(kernel)
  for kernel in (
    bpref, mixture, overtaken, depths, among_judged, by_size, three_users, three_thresholds,
    first_good, constant,
  )
}  # fmt: skip
AFFINE["wasted"] = jr.metric(wasted, higher_is_better=False)


def _hits(ranked, k=3):
  return ranked.expect(ranked.relevant(), jr.discounts.constant, k=k)


def ratio(ranked):
  """A ratio of two answers."""
  found = ranked.expect(ranked.judged, jr.discounts.constant, k=3)
  return _hits(ranked) / jnp.maximum(found, 1)


def quotient(ranked):
  """A ratio of two answers without a bound."""
  return _hits(ranked) / (1 + ranked.expect(ranked.judged, jr.discounts.constant, k=3))


def product(ranked):
  """A product of two answers."""
  return _hits(ranked) * ranked.first(ranked.relevant(), jr.discounts.reciprocal)


def bent(ranked):
  """The squares of the answers to one question."""
  return jnp.sum(jnp.square(ranked.before(ranked.relevant())))


def chained(ranked):
  """An answer is the weight of a second question."""
  ahead = ranked.before(ranked.relevant())
  return ranked.expect(ahead, jr.discounts.logarithmic)


def discounted_by_an_answer(ranked):
  """An answer in the closure of a discount."""
  hits = _hits(ranked)
  return ranked.expect(ranked.relevant(), lambda rank: jnp.exp(-rank * hits))


def cut_by_an_answer(ranked):
  """An answer is the cut-off of a second question."""
  k = 1 + _hits(ranked).astype(jnp.int32)
  return ranked.expect(ranked.relevant(), jr.discounts.logarithmic, k=k)


def any_hit(ranked):
  """A truth value of an answer, whose derivative is 0 everywhere."""
  return (_hits(ranked) > 0).astype(ranked.dtype)


def chosen_by_an_answer(ranked):
  """An answer chooses between two numbers."""
  return jnp.where(_hits(ranked) >= 2, 1.0, 0.25).astype(ranked.dtype)


def whole_part(ranked):
  """An answer is rounded, beside another that is not."""
  gained = ranked.expect(ranked.gain(jr.gains.linear), jr.discounts.logarithmic)
  return jnp.floor(gained) + _hits(ranked)


def frozen(ranked):
  """An answer that gradients do not see."""
  return jnp.square(jax.lax.stop_gradient(_hits(ranked))) + _hits(ranked)


BENT = {
  kernel.__name__: jr.metric(kernel)
  for kernel in (
    ratio, quotient, product, bent, chained, discounted_by_an_answer, cut_by_an_answer, any_hit,
    chosen_by_an_answer, whole_part, frozen,
  )
}  # fmt: skip
