"""Quick tests, which the README's command runs, and thorough ones, which `-m thorough` runs.

Every public function meets its oracle in the quick tests, values and gradients. The thorough ones
repeat that for more parameters and sizes, and hold the laws of all metrics, the peers, the
examples and the pages.
"""

from collections.abc import Callable, Container, Iterable
from typing import Any

import pytest

thorough = pytest.mark.thorough


def quick(
  names: str | tuple[str, ...], values: Iterable[Any], chosen: Container[Any] | Callable[..., bool]
) -> pytest.MarkDecorator:
  """`pytest.mark.parametrize` of some values, of which only those chosen are quick."""
  is_quick = chosen if callable(chosen) else lambda value: value in chosen
  marked = []
  for value in values:
    given = value if isinstance(names, tuple) else (value,)
    marked.append(pytest.param(*given, marks=() if is_quick(value) else thorough))
  return pytest.mark.parametrize(names, marked)
