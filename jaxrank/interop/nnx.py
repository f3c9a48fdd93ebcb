"""`Ranking`, a metric of flax.nnx that computes the means of measures.

It is a thin class around `jaxrank.Evaluator`, for `nnx.MultiMetric` or alone. It needs flax.
"""

from collections.abc import Mapping
from typing import Any

from flax import nnx
from jax import Array

from jaxrank._core import checks
from jaxrank.interop import _collections
from jaxrank.measures.measure import Measures
from jaxrank.streaming import Evaluator, State

__all__ = ["Ranking"]


class Ranking(nnx.Metric):
  """The means of measures as a metric of flax.nnx.

  In an `nnx.MultiMetric`, `update` takes the keywords of all metrics and leaves those of the others
  alone. `compute` returns the means by name, outside `jit`.

  >>> from flax import nnx
  >>> import jax.numpy as jnp
  >>> metrics = nnx.MultiMetric(ranking=Ranking("nDCG@2 RR"), loss=nnx.metrics.Average("loss"))
  >>> metrics.update(scores=jnp.array([[1.0, 2.0]]), labels=jnp.array([[1, 0]]), loss=jnp.ones(1))
  >>> print({name: f"{value:.4f}" for name, value in metrics.compute()["ranking"].items()})
  {'nDCG@2': '0.6309', 'RR': '0.5000'}

  Args:
    measures: Names, metrics and measures, as `jaxrank.evaluate` takes them; or a
      `jaxrank.Evaluator`, which has its own options.
    key: PRNG key of the reservoir; None without a reservoir.
    keywords: The names under which `update` gets the arguments of `Evaluator.update`, where they
      differ: `{"scores": "logits"}`.
    **options: Options of `jaxrank.Evaluator`.

  Attributes:
    evaluator: The evaluator.
    state: The variable with the `jaxrank.State`.

  Raises:
    ValueError: if the evaluator refuses an option, or there is no such argument.
    TypeError: if there are an `Evaluator` and options.
  """

  def __init__(
    self,
    measures: Measures | Evaluator,
    *,
    key: Array | None = None,
    keywords: Mapping[str, str] | None = None,
    **options: Any,
  ):
    with checks.named("nnx.Ranking"):
      self.evaluator = _collections.evaluator(measures, options)
      self.keywords = _collections.keywords(keywords)
    first = self.evaluator.init(key)
    self.first = nnx.metrics.MetricState(first)
    self.state = nnx.metrics.MetricState(first)

  def reset(self) -> None:
    """Forgets all queries."""
    self.state.set_value(self.first.get_value())

  def update(self, **outputs: Any) -> None:
    """Adds a batch of queries.

    Args:
      **outputs: The arguments of `Evaluator.update` by their keywords; others are ignored.

    Raises:
      ValueError: if shapes differ.
      TypeError: if scores or labels are missing, or a dtype cannot be ranked.
    """
    with checks.named("nnx.Ranking.update"):
      given = _collections.arguments(self.keywords, outputs)
    state: State = self.state.get_value()
    self.state.set_value(self.evaluator.update(state, **given))

  def compute(self) -> dict[str, float]:
    """The mean of each measure by name; 0.0 without queries."""
    return self.evaluator.compute(self.state.get_value())
