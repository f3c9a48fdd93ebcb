"""The mean of any loss over scores with Gumbel noise."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from jaxrank._core import arithmetic, batching, checks
from jaxrank._core.ranked import by_column
from jaxrank.losses._loss import saturated


@dataclasses.dataclass(frozen=True, eq=False)
class Perturbed:
  """The loss that `perturbed` returns; it pickles if the loss inside it does.

  Attributes:
    loss: Function `loss(scores, labels, *, where=None, ...)` from `[..., n]` to `[...]`.
    key: PRNG key of the noise.
    samples: Number of noise samples.
    scale: Scale of the noise.
    departs: The laws of losses that it does not obey on purpose.
  """

  departs: ClassVar[Mapping[str, str]] = {
    **dict.fromkeys(("padding", "permutation", "batch", "vmap"), "noise is drawn by the column"),
    "derivatives": "noise in float64 is another",
  }
  loss: Callable[..., Array]
  key: Array
  samples: int
  scale: ArrayLike

  def __post_init__(self) -> None:
    with checks.named("perturbed"):
      checks.function("loss", self.loss, "a loss such as jaxrank.losses.softmax")
      checks.prng_key(self.key)
      checks.count("samples", self.samples)
      checks.positive_number("scale", self.scale)

  def __call__(self, scores: ArrayLike, labels: ArrayLike, **parameters: Any) -> Array:
    """Computes the mean of `loss(noisy_scores, labels, **parameters)` over the samples."""
    with checks.named("perturbed"):
      scores = arithmetic.floating(checks.array("scores", scores))
      # Noise on NaN under the mask is a false alarm under `jax.debug_nans`.
      scores = jnp.where(checks.mask(parameters.get("where"), scores), scores, 0)
    scale = jnp.asarray(self.scale).astype(scores.dtype)

    def sample(key: Array) -> Array:
      return self.loss(scores + scale * _gumbel(key, scores), labels, **parameters)

    values = jax.vmap(sample)(jax.random.split(self.key, self.samples))
    # The sum of huge values is infinite where their mean is not.
    return saturated(jnp.sum(values / self.samples, axis=0))


def perturbed(
  loss: Callable[..., Array], key: Array, samples: int = 8, scale: ArrayLike = 1.0
) -> Perturbed:
  """Makes a loss that is the mean of another loss over scores with Gumbel noise.

  `(1 / S) sum_s loss(scores + scale * G_s)`, where the components of the `S` samples `G_s` are
  independent standard Gumbel variables. A metric does not need samples: `ranking=Gumbel(scale)`
  computes its expectation under this noise exactly. `perturbed` applies to every other function
  of scores and labels.

  >>> from jaxrank.losses import approx_ndcg
  >>> scores, labels = jnp.array([2.0, 1.0, 3.0]), jnp.array([2, 0, 1])
  >>> noisy = perturbed(approx_ndcg, jax.random.key(0))
  >>> print(f"{noisy(scores, labels):.2f}")
  0.22

  Args:
    loss: Function `loss(scores, labels, *, where=None, ...)` from `[..., n]` to `[...]`.
    key: PRNG key. The noise of an item depends only on the position of its query in the batch and
      on its column, so that more padding does not change it.
    samples: Number of noise samples, at least 1; the loss is computed for all of them at once.
    scale: Scale of the noise, a positive number in units of the scores; may be traced.

  Returns:
    A callable that takes the arguments of `loss` and returns `[...]`.

  Raises:
    ValueError: if `samples` or `scale` is not positive.
    TypeError: if an argument has a wrong type.

  References:
    Bruch et al., `A stochastic treatment of learning to rank scoring functions
    <https://doi.org/10.1145/3336191.3371844>`_, 2020.
  """
  return Perturbed(loss, key, samples, scale)


def _gumbel(key: Array, like: Array) -> Array:
  draw = functools.partial(jax.random.gumbel, dtype=like.dtype)
  noise = batching.over_queries(lambda x, key: by_column(draw, key, x), like.ndim - 1)
  sample: Array = noise(like, batching.key_of_each_query(key, like))
  return sample
