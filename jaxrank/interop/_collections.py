"""Internals: how the arguments of `Evaluator.update` come out of the keywords of a collection."""

from collections.abc import Mapping
from typing import Any

from jaxrank._core import checks
from jaxrank.measures.measure import Measures
from jaxrank.streaming import Evaluator

_ARGUMENTS = ("scores", "labels", "where", "query_weights", "groups")

# Pairs of an argument of `Evaluator.update` and the keyword that holds it.
Keywords = tuple[tuple[str, str], ...]


def evaluator(measures: Measures | Evaluator, options: Mapping[str, Any]) -> Evaluator:
  """The evaluator of some measures, or the one that is given, which takes no options."""
  if not isinstance(measures, Evaluator):
    return Evaluator(measures, **options)
  if options:
    raise TypeError(f"an Evaluator has its own options, got {', '.join(options)} too; drop them.")
  return measures


def keywords(given: Mapping[str, str] | None) -> Keywords:
  """The keyword of each argument: its own name, unless another is given."""
  given = dict(given or {})
  for name in given:
    checks.choice("keywords", name, _ARGUMENTS)
  return tuple((name, given.get(name, name)) for name in _ARGUMENTS)


def arguments(keywords: Keywords, outputs: Mapping[str, Any]) -> dict[str, Any]:
  """The arguments of `Evaluator.update` among the keywords that a collection passes."""
  for name, keyword in keywords[:2]:
    if keyword not in outputs:
      raise TypeError(
        f"{name} must be passed as {keyword}=, got {', '.join(outputs) or 'nothing'}; "
        f"keywords={{{name!r}: ...}} gives it another name."
      )
  return {name: outputs[keyword] for name, keyword in keywords if keyword in outputs}
