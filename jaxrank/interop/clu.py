"""`Ranking`, a metric of clu that computes the means of measures.

`Ranking.of` makes classes around `jaxrank.Evaluator`, for a `clu.metrics.Collection`. It needs clu
and flax.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import flax
from clu import metrics

from jaxrank._core import checks
from jaxrank.interop import _collections
from jaxrank.measures.measure import Measures
from jaxrank.streaming import Evaluator, State

__all__ = ["Ranking"]


@flax.struct.dataclass
class Ranking(metrics.Metric):
  """The means of measures as a metric of clu; `of` makes the class for some measures.

  Attributes:
    state: The state of the queries so far.
    evaluator: The evaluator, of the class.
  """

  state: State
  evaluator: ClassVar[Evaluator]
  keywords: ClassVar[_collections.Keywords]

  @classmethod
  def of(
    cls,
    measures: Measures | Evaluator,
    *,
    keywords: Mapping[str, str] | None = None,
    **options: Any,
  ) -> type["Ranking"]:
    """A class of metrics with the given measures.

    >>> import flax, jax.numpy as jnp
    >>> from clu import metrics
    >>> @flax.struct.dataclass
    ... class Metrics(metrics.Collection):
    ...   ranking: Ranking.of("nDCG@2 RR")
    ...   loss: metrics.Average.from_output("loss")
    >>> arrays = {"scores": jnp.array([[1.0, 2.0]]), "labels": jnp.array([[1, 0]])}
    >>> collection = Metrics.single_from_model_output(**arrays, loss=jnp.ones(1))
    >>> print({name: f"{value:.4f}" for name, value in collection.compute()["ranking"].items()})
    {'nDCG@2': '0.6309', 'RR': '0.5000'}

    Args:
      measures: Names, metrics and measures, as `jaxrank.evaluate` takes them; or a
        `jaxrank.Evaluator`, which has its own options.
      keywords: The names under which model outputs hold the arguments of `Evaluator.update`, where
        they differ: `{"scores": "logits"}`.
      **options: Options of `jaxrank.Evaluator`, except `reservoir`, whose states each need a key.

    Returns:
      The class.

    Raises:
      ValueError: if the evaluator refuses an option, or there is no such argument.
      TypeError: if there are an `Evaluator` and options.
    """
    with checks.named("clu.Ranking.of"):
      evaluator = _collections.evaluator(measures, options)
      if evaluator.reservoir is not None:
        raise ValueError("reservoir must be None, because each state would need a key of its own.")
      names = _collections.keywords(keywords)
    members = {"evaluator": evaluator, "keywords": names, "__module__": cls.__module__}
    made: type[Ranking] = flax.struct.dataclass(type("Ranking", (cls,), members))
    return made

  @classmethod
  def empty(cls) -> Self:
    """The metric of no query."""
    return cls(cls.evaluator.init())

  @classmethod
  def from_model_output(cls, **outputs: Any) -> Self:
    """The metric of a batch of queries.

    Args:
      **outputs: The arguments of `Evaluator.update` by their keywords; others are ignored.

    Raises:
      ValueError: if shapes differ.
      TypeError: if scores or labels are missing, or a dtype cannot be ranked.
    """
    with checks.named("clu.Ranking.from_model_output"):
      given = _collections.arguments(cls.keywords, outputs)
    return cls(cls.evaluator.update(cls.evaluator.init(), **given))

  def merge(self, other: "Ranking") -> Self:
    """The metric of the queries of two metrics."""
    return type(self)(self.evaluator.merge(self.state, other.state))

  def compute(self) -> dict[str, float]:
    """The mean of each measure by name; 0.0 without queries."""
    return self.evaluator.compute(self.state)
