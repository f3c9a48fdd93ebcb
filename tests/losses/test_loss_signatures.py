"""Signatures of the losses, their defaults, and that they pickle."""

import dataclasses
import inspect
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrank as jr
from jaxrank import losses
from jaxrank.losses import perturbation


@pytest.mark.parametrize("name", [*losses.__all__, "Perturbed"])
def test_signatures_are_written_and_typed(name):
  function = perturbation.Perturbed.__call__ if name == "Perturbed" else getattr(losses, name)
  signature = inspect.signature(function)
  assert "__signature__" not in vars(function)
  # The signature is that of the function whose body is the loss.
  assert inspect.signature(inspect.unwrap(function)) == signature
  parameters = [p for p in signature.parameters.values() if p.name != "self"]
  assert all(p.annotation is not p.empty for p in parameters)
  assert signature.return_annotation is (
    perturbation.Perturbed if name == "perturbed" else jax.Array
  )


@pytest.mark.parametrize("name", losses.__all__)
def test_gains_are_linear_by_default(name):
  parameters = inspect.signature(getattr(losses, name)).parameters
  assert "gain" not in parameters or parameters["gain"].default is jr.gains.linear


@pytest.mark.parametrize("name", losses.__all__)
def test_losses_pickle_by_name(name):
  loss = getattr(losses, name)
  assert pickle.loads(pickle.dumps(loss)) is loss
  assert loss.__qualname__ == name


@pytest.mark.parametrize("name", losses.__all__)
def test_losses_of_a_smooth_ranking_refuse_exact_ones(name):
  loss, x = getattr(losses, name), jnp.arange(3.0)
  takes = inspect.signature(loss).parameters
  if "ranking" in takes:
    given = {p: x if p == "teacher" else 2 for p in ("teacher", "max_label") if p in takes}
    lists = (x,) if name == "rank_mse" else (x, x)
    for ranking in (jr.Exact(), jr.Sharded("items")):
      with pytest.raises(ValueError, match=f"^{name}: .* 0 under ranking={type(ranking).__name__}"):
        loss(*lists, ranking=ranking, **given)


@pytest.mark.skipif(jax.__version_info__ < (0, 9), reason="keys of jax 0.8 do not pickle")
def test_perturbed_losses_pickle():
  loss = losses.perturbed(losses.softmax, jax.random.key(3), samples=3, scale=0.5)
  copy = pickle.loads(pickle.dumps(loss))
  assert isinstance(copy, perturbation.Perturbed)
  assert (copy.loss, copy.samples, copy.scale) == (losses.softmax, 3, 0.5)
  lists = jnp.array([2.0, 1.0, 3.0]), jnp.array([2, 0, 1])
  np.testing.assert_array_equal(copy(*lists), loss(*lists))
  with pytest.raises(dataclasses.FrozenInstanceError):
    copy.samples = 4
