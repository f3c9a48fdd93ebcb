"""Quick tests, which the README's command runs; thorough and weekly ones, which `-m` selects.

The value of every public function meets its oracle in the quick tests, as do the gradients of
losses and of one metric for each question. The thorough ones repeat that for more parameters and
sizes, and hold the gradients and laws of all metrics, the peers, the examples and the pages. Where
a test compiles for seconds, the thorough ones take one metric, loss or ranking of each kind, and
the weekly ones, which a workflow runs, take the others.
"""

from collections.abc import Callable, Container, Iterable
from typing import Any

import pytest

thorough = pytest.mark.thorough


def quick(
  names: str | tuple[str, ...],
  values: Iterable[Any],
  chosen: Container[Any] | Callable[..., bool],
  weekly: Container[Any] = (),
) -> pytest.MarkDecorator:
  """`pytest.mark.parametrize` of some values, of which only those chosen are quick."""
  is_quick = chosen if callable(chosen) else lambda value: value in chosen
  marked = []
  for value in values:
    given = value if isinstance(names, tuple) else (value,)
    mark = () if is_quick(value) else pytest.mark.weekly if value in weekly else thorough
    marked.append(pytest.param(*given, marks=mark))
  return pytest.mark.parametrize(names, marked)
