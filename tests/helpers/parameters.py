"""Parameters to try with a metric, from the kinds in its description.

Tests have tables of parameters for metrics whose oracles ask for more; every other metric is called
with these. docs/extending.md says what a new metric needs.
"""

from typing import Any

import jaxrank as jr
from jaxrank._core import description
from jaxrank._core.description import Description

# Values of the parameters that have no default; the labels of the tests are at most 4.
REQUIRED: dict[str, Any] = {"max_label": 4}
# Values away from the defaults, by the kind of the parameter.
_VALUES: tuple[tuple[description.Kind, tuple[Any, ...]], ...] = (
  (description.THRESHOLD, (2, 0.5)),
  (description.NONNEGATIVE, (0.5, 2.0)),
  (description.NUMBER, (0.5, -0.25)),
  (description.POSITIVE, (0.5, 2.0)),
  (description.SHARE, (0.3, 0.9)),
  (description.LEVEL, (0.3, 0.6)),
  (description.MULTIPLE, (0.5, 2.0)),
  (description.GRADE, (2, 4)),
  (description.GAIN, (jr.gains.exponential, jr.gains.binary)),
  (description.DISCOUNT, (jr.discounts.reciprocal,)),
)


def required(about: Description) -> dict[str, Any]:
  """Values of the parameters that have no default."""
  taken = about.signature.parameters
  return {name: REQUIRED[name] for name, p in taken.items() if p.default is p.empty}


def choices(about: Description) -> list[dict[str, Any]]:
  """The defaults, and then each parameter away from its default, one at a time.

  The cut-off and the weights of items, which all metrics have in common, keep their defaults.
  """
  given = required(about)
  found = [given]
  for name, parameter in about.signature.parameters.items():
    if name not in ("k", "weights"):
      values = _away(about.kind(name), parameter.default)
      if not values:
        raise ValueError(f"{about.name} takes {name!r}, of whose kind there are no values here.")
      found += [given | {name: value} for value in values]
  return found


def _away(kind: description.Kind, default: Any) -> tuple[Any, ...]:
  """Values of a kind, without the default."""
  known = next((values for other, values in _VALUES if other is kind), None)
  words = kind.spelled if isinstance(kind.spelled, dict) else {}
  return tuple(x for x in (tuple(words.values()) if known is None else known) if x is not default)
