"""Public objects pickle, copy and compare, and show what they are."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank import discounts, gains, losses, ranks

KEY = jax.random.key(0)
OLD_KEYS = pytest.mark.skipif(jax.__version_info__ < (0, 9), reason="keys of jax 0.8 do not pickle")
EVALUATOR = jr.Evaluator("nDCG@3 RR", groups=2, reservoir=4)
OBJECTS = {
  "a measure": jr.Measure(jr.ndcg, k=3),
  "a measure with a table": jr.Measure(jr.ndcg, gain=gains.table([0, 1, 3])),
  "a measure by label": jr.parse("nDCG(gains={0:0,2:5})@10")[0],
  "gains by label": gains.by_label({0: 0, 2: 5}),
  "a measure with a discount": jr.Measure(jr.dcg, discount=discounts.geometric(0.8)),
  "Exact": jr.Exact(),
  "Exact with a key": jr.Exact("random", KEY),
  "Laplace": jr.Laplace(1.0),
  "Laplace of several temperatures": jr.Laplace(jnp.array([1.0, 2.0])),
  "Gumbel": jr.Gumbel(1.0, 1e-4),
  "Sharded": jr.Sharded("items"),
  "an evaluator": EVALUATOR,
  "a state": EVALUATOR.init(KEY),
  "target ranks": ranks.TargetRanks([1, 2], [1, 5], [9, 9]),
  "a rank metric": ranks.hits_at_k.at(5),
  "a derived rank metric": ranks.adjusted(ranks.hits_at_k.at(3)),
  "a name of ranks": ranks.parse("head.mrr"),
  "a state of a catalogue": jr.Catalogue(4).init(),
}


@pytest.mark.parametrize(
  "name", [pytest.param(name, marks=OLD_KEYS if "a key" in name else ()) for name in OBJECTS]
)
def test_copies_are_equal(name):
  known = OBJECTS[name]
  for again in (pickle.loads(pickle.dumps(known)), copy.copy(known), copy.deepcopy(known)):
    assert again == known
    assert type(again) is type(known)


def test_what_differs_is_not_equal():
  state = EVALUATOR.init(KEY)
  assert state != EVALUATOR.init(jax.random.key(1))
  assert ranks.TargetRanks([1, 2], [1, 5], [9, 9]) != ranks.TargetRanks([1, 2], [1, 2], [9, 9])
  assert ranks.TargetRanks([1], [1], [9]) != ranks.TargetRanks([1, 1], [1, 1], [9, 9])
  assert jr.Laplace(jnp.array([1.0, 2.0])) != jr.Laplace(jnp.array([1.0, 3.0]))
  assert jr.Laplace(1.0) != jr.Logistic(1.0)
  assert jr.Exact("random", KEY) != jr.Exact("random", jax.random.key(1))
  assert gains.by_label({1: 2}) != gains.by_label({1: 3})


@OLD_KEYS
def test_batches_and_losses_pickle():
  batch = jr.pad([0, 0, 1], [0.1, 0.2, 0.3], [1, 0, 1])
  again = pickle.loads(pickle.dumps(batch))
  assert all(np.array_equal(a, b) for a, b in zip(again, batch, strict=True))
  scores, labels = jnp.array([0.3, 0.1]), jnp.array([0, 1])
  noisy = losses.perturbed(losses.softmax, KEY)
  assert pickle.loads(pickle.dumps(noisy))(scores, labels) == noisy(scores, labels)
  for made in (gains.table([0, 1, 3]), discounts.geometric(0.8), discounts.table([1, 0.5])):
    again = pickle.loads(pickle.dumps(made))
    assert again(jnp.arange(3.0)).tolist() == made(jnp.arange(3.0)).tolist()


def test_objects_show_what_they_are():
  shown = {name: repr(known) for name, known in OBJECTS.items()}
  assert not any(" at 0x" in text for text in shown.values())
  assert shown["a measure with a table"] == "Measure('ndcg(gain=table(float32[3]))')"
  assert shown["gains by label"] == "by_label({2: 5})"
  assert shown["a state"].startswith("<State of nDCG@3 RR: count=[[0, 0], [0, 0]], empty=")
  traced = []
  jax.eval_shape(lambda state: traced.append(repr(state)), OBJECTS["a state"])
  assert "count=a traced array uint32[2,2]" in traced[0]
