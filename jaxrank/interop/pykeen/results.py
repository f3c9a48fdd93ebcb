"""`RankBasedMetricResults`: the results of PyKEEN's rank-based evaluators, by name."""

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxrank.interop.pykeen._metric import RANK_TYPES, RankBasedMetric, UnknownMetricError
from jaxrank.interop.pykeen.metrics import HITS_METRICS, rank_based_metric_resolver
from jaxrank.ranks.names import SIDES

RANK_TYPE_SYNONYMS = {
  "best": "optimistic",
  "worst": "pessimistic",
  "avg": "realistic",
  "average": "realistic",
}
_KINDS = {kind: kind for kind in RANK_TYPES} | RANK_TYPE_SYNONYMS


class RankBasedMetricKey(NamedTuple):
  """The key of a value: its side, type of rank and metric."""

  side: str
  rank_type: str
  metric: str


class RankBasedMetricResults:
  """Values of metrics by side, type of rank and metric."""

  def __init__(self, data: Mapping[Any, float]):
    if not isinstance(data, Mapping):
      raise TypeError(
        f"RankBasedMetricResults: data must be a dictionary of values by name or key, got {data!r}."
      )
    self.data = {self.string_or_key_to_key(key): value for key, value in data.items()}

  @classmethod
  def key_from_string(cls, s: str | None) -> RankBasedMetricKey:
    """Parses a name of the form `side.type.metric.k`, of which only the metric is required.

    >>> print(RankBasedMetricResults.key_from_string("tail.hits@3"))
    RankBasedMetricKey(side='tail', rank_type='realistic', metric='hits_at_3')
    """
    if s is not None and not isinstance(s, str):
      raise TypeError(f"the name of a metric must be a string, got {s!r}.")
    if s is None:
      return RankBasedMetricKey("both", "realistic", rank_based_metric_resolver.make(None).key)
    parts = s.split(".")
    side = parts.pop(0) if parts[0] in SIDES else "both"
    kind = _KINDS[parts.pop(0)] if parts and parts[0] in _KINDS else "realistic"
    if not parts or len(parts) > 2 or not all(x.isdecimal() for x in parts[1:]):
      raise ValueError(f"Invalid metric name: {s}")
    metric = _metric(*parts)
    if kind not in metric.supported_rank_types:
      raise ValueError(
        f"Invalid rank type for {metric}: {kind}. Allowed type: {metric.supported_rank_types}"
      )
    return RankBasedMetricKey(side, kind, metric.key)

  @classmethod
  def key_to_string(cls, s: Any) -> str:
    """The full name for a key or a shorter name."""
    return ".".join(cls.string_or_key_to_key(s))

  @classmethod
  def string_or_key_to_key(cls, s: Any) -> RankBasedMetricKey:
    """The key for a name; a key is returned as it is."""
    return cls.key_from_string(s) if s is None or isinstance(s, str) else RankBasedMetricKey(*s)

  def get_metric(self, name: Any) -> float:
    """The value for a name or a key."""
    return self.data[self.string_or_key_to_key(name)]

  def to_flat_dict(self) -> dict[str, float]:
    """Values by full name."""
    return {self.key_to_string(key): value for key, value in self.data.items()}

  def to_dict(self) -> dict[str, dict[str, dict[str, float]]]:
    """Values in nested dicts by side, type and metric."""
    nested: dict[str, Any] = {}
    for (side, kind, metric), value in self.data.items():
      nested.setdefault(side, {}).setdefault(kind, {})[metric] = value
    return nested

  def to_df(self) -> Any:
    """A pandas data frame with one row for each value."""
    try:
      pandas = importlib.import_module("pandas")
    except ImportError:
      raise ImportError("to_df needs pandas: install it, or use to_flat_dict.") from None
    rows = [(*key, value) for key, value in self.data.items()]
    return pandas.DataFrame(rows, columns=["Side", "Rank_type", "Metric", "Value"])


def _metric(name: str, k: str | None = None) -> RankBasedMetric:
  """The metric with a name; digits at the end of the name are its cut-off."""
  try:
    kind = rank_based_metric_resolver.lookup(name)
  except UnknownMetricError:
    family = name.rstrip("0123456789")
    # A minus is not a hyphen: `hits@-1` is not `hits@1`.
    if k is not None or family == name or family.endswith("@-"):
      raise
    kind, k = rank_based_metric_resolver.lookup(family), name.removeprefix(family)
  if k is not None and kind not in HITS_METRICS:
    raise UnknownMetricError(f"{name} has no cut-off, got {k}.")
  return rank_based_metric_resolver.make(kind, None if k is None else {"k": int(k)})
