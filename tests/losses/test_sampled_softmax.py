"""`sampled_softmax` against its definition, and against the softmax of the whole catalogue."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrank import losses
from tests.helpers import loss_oracles as slow

same = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5)


def test_sampled_softmax_corrects_and_leaves_out():
  rng = np.random.default_rng(0)
  scores, q = np.float32(rng.standard_normal((5, 5))), rng.dirichlet(np.ones(5)).astype(np.float32)
  ids = np.array([3, 1, 3, 2, 1])
  same_item = ids[:, None] == ids
  forms = [
    losses.sampled_softmax(
      scores,
      np.eye(5),
      log_q=np.log(q),
      accidental_hits=same_item,
      correct_positives=form,
      temperature=np.float32(0.5),
    )
    for form in (None, False, True)
  ]
  np.testing.assert_array_equal(forms[0], forms[1])
  for i in range(5):
    kept = [j for j in range(5) if j == i or ids[j] != ids[i]]
    # The item itself is no draw. The others are four, with its copies.
    z = [scores[i, j] / 0.5 - (j != i) * math.log(4 * q[j]) for j in kept]
    same(forms[0][i], slow.log_sum_exp(z) - z[kept.index(i)])
    z = [scores[i, j] / 0.5 - math.log(q[j]) for j in kept]
    same(forms[2][i], slow.log_sum_exp(z) - z[kept.index(i)])
  padded = np.where(np.arange(5) < 4, np.log(q), np.float32(np.nan))
  where = np.broadcast_to(np.arange(5) < 4, (5, 5))
  slope = jax.grad(
    lambda t: jnp.sum(
      losses.sampled_softmax(scores, np.eye(5), where=where, log_q=padded, temperature=t)
    )
  )(jnp.float32(0.5))
  assert np.isfinite(slope)
  assert slope != 0
  with pytest.raises(TypeError, match=r"accidental_hits.*int"):
    losses.sampled_softmax(scores, np.eye(5), accidental_hits=same_item.astype(int))
  with pytest.raises(ValueError, match=r"log_q.*\(5, 4\).*\(5, 5\)"):
    losses.sampled_softmax(scores, np.eye(5), log_q=np.log(q)[:4])
  with pytest.raises(ValueError, match="sampled_softmax: correct_positives.*pass log_q"):
    losses.sampled_softmax(scores, np.eye(5), correct_positives=True)
  with pytest.raises(TypeError, match="sampled_softmax: correct_positives must be True or False"):
    losses.sampled_softmax(scores, np.eye(5), log_q=np.log(q), correct_positives=1)


def test_labels_may_be_boolean():
  scores, labels = jnp.array([[2.0, 1.0, 0.5]]), jnp.array([[1, 0, 0]])
  given = {"log_q": jnp.log(jnp.array([0.5, 0.3, 0.2])), "accidental_hits": labels == 1}
  expected = losses.sampled_softmax(scores, labels, **given)
  np.testing.assert_array_equal(losses.sampled_softmax(scores, labels > 0, **given), expected)


def test_negatives_are_those_of_the_mask():
  """Padding is no draw, and a score of -inf is one."""
  scores = np.array([1.0, 0.5, -np.inf, 0.2, 7.0], np.float32)
  labels, where = np.array([1, 0, 0, 0, 0]), np.arange(5) < 4
  log_q, hits = np.log(np.float32([0.1, 0.2, 0.3, 0.3, 0.1])), np.arange(5) == 3
  value = losses.sampled_softmax(scores, labels, where=where, log_q=log_q, accidental_hits=hits)
  same(value, slow.log_sum_exp([1.0, 0.5 - math.log(3 * 0.2)]) - 1.0)
  alone = losses.sampled_softmax(scores[:1], labels[:1], log_q=log_q[:1], accidental_hits=hits[:1])
  assert alone == 0


def test_an_item_that_is_never_drawn_is_refused():
  """Where it is a candidate, and known."""
  scores, never = np.zeros((2, 3), np.float32), np.array([0, -1, -np.inf], np.float32)
  told = "sampled_softmax: log_q must be finite.*item 2.*add one to all counts, or clip"
  for log_q in (never, jnp.asarray(never), never.tolist()):
    call = functools.partial(losses.sampled_softmax, labels=np.eye(2, 3), log_q=log_q)
    for function in (call, jax.jit(call)):
      with pytest.raises(ValueError, match=told):
        function(scores)
  where = np.broadcast_to(np.arange(3) < 2, (2, 3))
  padded = losses.sampled_softmax(scores, np.eye(2, 3), where=where, log_q=never)
  same(padded, losses.sampled_softmax(scores[:, :2], np.eye(2), log_q=never[:2]))


ITEMS, DRAWN = 60, 2**18
# The probability of the target, item 0, in the softmax of the whole catalogue.
POPULAR = np.array([0.87, 0.26, 0.001])
FORMS = {
  "hits kept": {},
  "hits removed": {"hits": True},
  "hits removed, positives corrected": {"hits": True, "correct_positives": True},
}


def relative_errors(negatives):
  """How far the mean gradient of samples is from that of the whole catalogue, by form."""
  rng = np.random.default_rng(0)
  scores = rng.normal(size=(len(POPULAR), ITEMS))
  rest = np.log(np.exp(scores[:, 1:]).sum(axis=1))
  scores[:, 0] = rest + np.log(POPULAR / (1 - POPULAR))
  share = np.exp(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))
  q = share**0.75 / (share**0.75).sum(axis=1, keepdims=True)
  shape = DRAWN // negatives, negatives
  drawn = np.stack([rng.choice(ITEMS, shape, p=each).astype(np.int32) for each in q])

  @jax.vmap
  def off(scores, log_q, right, drawn):
    ids = jnp.pad(drawn, ((0, 0), (1, 0)))
    labels = jnp.zeros(ids.shape).at[:, 0].set(1)

    def mean(scores, hits=False, **form):
      form |= {"accidental_hits": ids == 0} if hits else {}
      return jnp.mean(losses.sampled_softmax(scores[ids], labels, log_q=log_q[ids], **form))

    return [jax.grad(functools.partial(mean, **form))(scores) - right for form in FORMS.values()]

  right = share - np.eye(1, ITEMS)
  given = (np.asarray(x, np.float32) for x in (scores, np.log(q), right))
  found = [np.linalg.norm(x, axis=1) for x in jax.jit(off)(*given, drawn)]
  return dict(zip(FORMS, found / np.linalg.norm(right, axis=1), strict=True))


def test_gradients_approach_those_of_the_whole_catalogue():
  """For popular targets and for a rare one."""
  few, many = relative_errors(16), relative_errors(4096)
  assert np.all(few["hits removed"] < 0.05)
  assert np.all(many["hits removed"] < 0.01)
  assert np.all(many["hits kept"] < 0.01)
  # A positive of weight 1 / (m q) beside the others, who have weight 1.
  same(many["hits removed, positives corrected"][:2], [6.7, 0.35], rtol=0.05)
