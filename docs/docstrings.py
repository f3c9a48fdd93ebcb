"""What the site adds to docstrings: the arguments that a package explains once for its functions.

A docstring says `See `jaxrank.metrics` for the arguments that metrics share.` The entry of the
function lists them all, with an example of those that every metric has.
"""

import importlib
import inspect
import re
import textwrap
from collections.abc import Callable

import jax
import jax.numpy as jnp

import jaxrank
from jaxrank import metrics

_POINTER = re.compile(r"^See `(jaxrank[\w.]*)` for (?:[^.`]|`[^`]*`)*\.\s*", re.M)
_SHARED = re.compile(r"^\* `(\w+)`: ((?:.*\n?)(?:  .*\n?)*)", re.M)
_EXAMPLE = """With a mask, {words}:

>>> scores = jnp.array([[3.0, 1.0, 2.0, 0.0], [0.1, 0.4, 0.3, 0.0]])
>>> labels = jnp.array({labels})
>>> where = jnp.array([[1, 1, 1, 1], [1, 1, 1, 0]], bool)  # False is padding
>>> values = jr.{name}(scores, labels, where=where{arguments})
>>> values.shape  # one value per query
(2,)

"""
_DESCRIBED = {id(metric): about for metric, about in metrics.described()}
_GRADES = [[0, 2, 1, 0], [1, 0, 0, 0]]
_SUBTOPICS = [[[0, 1], [1, 0], [1, 1], [0, 0]], [[1, 0], [0, 1], [0, 0], [0, 0]]]


def complete(function: Callable, lines: list[str], ranking: str = "") -> list[str]:
  """The lines of a docstring with the shared arguments of its signature, and with an example.

  `ranking` is that of the example, in code; without one there is no example.
  """
  text = "\n".join(lines)
  pointer = _POINTER.search(text)
  taken = list(inspect.signature(function).parameters) if pointer else []
  shared = shared_arguments(pointer[1]) if pointer else {}
  if not shared.keys() & set(taken):
    return lines
  own, rest = _own_arguments(_POINTER.sub("", text, count=1))
  entries = own | {name: shared[name] for name in taken if name in shared and name not in own}
  ordered = [f"{name}: {entries[name]}" for name in sorted(entries, key=_position(taken))]
  section = "Args:\n" + textwrap.indent("\n".join(ordered), "  ") + "\n\n"
  end = re.search(r"^(?:Returns|Raises|References|Warns|Yields):$|\Z", rest, re.M)
  shown = example(function, ranking) if ranking else ""
  return (
    rest[: end.start()].rstrip() + "\n\n" + shown + section + rest[end.start() :]
  ).splitlines()


def ranking_of(function: Callable) -> str:
  """The ranking of the example of a metric: a smooth one, if it answers what the metric asks."""
  if id(function) not in _DESCRIBED:
    return ""
  labels = jnp.array(_labels(function))
  scores = jnp.zeros((2, 4))
  options = {"max_label": 2} if "max_label" in inspect.signature(function).parameters else {}
  try:
    jax.eval_shape(lambda: function(scores, labels, ranking=jaxrank.Laplace(1.0), **options))
  except jaxrank.UnansweredError:
    return 'jr.Exact("stable")'
  return "jr.Laplace(1.0)"


def example(function: Callable, ranking: str) -> str:
  """A call with a mask, a cut-off and a ranking, as far as the function has them."""
  taken = inspect.signature(function).parameters
  cut_off = "k" in taken
  grades = ", max_label=2" if "max_label" in taken else ""
  arguments = grades + (", k=2" if cut_off else "") + f", ranking={ranking}"
  return _EXAMPLE.format(
    words="a cut-off and a ranking" if cut_off else "and a ranking",
    labels=_labels(function),
    name=function.__name__,
    arguments=arguments,
  )


def shared_arguments(package: str) -> dict[str, str]:
  """What the docstring of a package explains, by the names of the arguments."""
  text = inspect.getdoc(importlib.import_module(package)) or ""
  return {name: " ".join(said.split()) for name, said in _SHARED.findall(text)}


def _labels(function: Callable) -> list:
  return _SUBTOPICS if _DESCRIBED[id(function)].subtopics else _GRADES


def _own_arguments(text: str) -> tuple[dict[str, str], str]:
  """The entries of a docstring, and the docstring without them."""
  section = re.search(r"^Args:\n((?:  .*\n?)+)\n?", text, re.M)
  if not section:
    return {}, text
  entries = re.findall(r"^  (\*{0,2}\w+): (.*(?:\n    .*)*)", section[1], re.M)
  rest = text[: section.start()] + text[section.end() :]
  return {name: " ".join(said.split()) for name, said in entries}, rest


def _position(taken: list[str]) -> Callable[[str], int]:
  return lambda name: taken.index(name.lstrip("*")) if name.lstrip("*") in taken else len(taken)
