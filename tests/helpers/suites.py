"""Quick tests, which the README's command runs, and thorough ones, which `-m thorough` selects.

The value of every public function meets its oracle in the quick tests, as do the gradients of
losses and of one metric for each question, and the laws that change arrays and no program. The
thorough ones repeat that for more parameters, sizes and rankings, and hold the laws that compile
programs of their own for one metric of each kind, the peers, the examples and the pages.
"""

from collections.abc import Callable, Container, Iterable
from typing import Any

import pytest

thorough = pytest.mark.thorough


def quick(
  names: str | tuple[str, ...],
  values: Iterable[Any],
  chosen: Container[Any] | Callable[..., bool],
) -> pytest.MarkDecorator:
  """`pytest.mark.parametrize` of some values, of which only those chosen are quick."""
  is_quick = chosen if callable(chosen) else lambda value: value in chosen
  marked = []
  for value in values:
    given = value if isinstance(names, tuple) else (value,)
    mark = () if is_quick(value) else thorough
    marked.append(pytest.param(*given, marks=mark))
  return pytest.mark.parametrize(names, marked)
