"""`resolve_metrics`: measures from the plain names of LlamaIndex's retrieval metrics."""

from collections.abc import Iterable

from jaxrank import metrics
from jaxrank._core import checks
from jaxrank.interop import _lists
from jaxrank.measures import Measure

__all__ = ["resolve_metrics"]

_MEASURES = {
  "hit_rate": Measure(metrics.hit_rate, name="hit_rate", rel=1),
  "mrr": Measure(metrics.reciprocal_rank, name="mrr", rel=1),
  "precision": Measure(metrics.precision, name="precision", rel=1, divisor="retrieved"),
  "recall": Measure(metrics.recall, name="recall", rel=1),
  "ap": Measure(metrics.average_precision, name="ap", rel=1),
  "ndcg": Measure(metrics.ndcg, name="ndcg"),
}


def resolve_metrics(names: str | Iterable[str]) -> tuple[Measure, ...]:
  """Measures from the plain names of LlamaIndex, such as `mrr` and `hit_rate`.

  >>> print(*resolve_metrics(["mrr", "hit_rate"]))
  mrr hit_rate

  Args:
    names: One name, or several: `hit_rate`, `mrr`, `precision`, `recall`, `ap` or `ndcg`.

  Returns:
    The measures in order, without repeats.

  Raises:
    ValueError: if a name is unknown.
    TypeError: if `names` is not a name or a list of names.
  """
  with checks.named("resolve_metrics"):
    names = [names] if isinstance(names, str) else list(_lists.items("names", names))
    for name in names:
      if not isinstance(name, str) or name not in _MEASURES:
        raise ValueError(
          f"names must be of {', '.join(_MEASURES)}, got {name!r}; jaxrank.parse reads other names."
        )
  return tuple(_MEASURES[name] for name in dict.fromkeys(names))
