"""What the site adds to docstrings: the arguments that a package explains once for its functions.

A docstring says `See `jaxrank.metrics` for the arguments that metrics share.` The entry of the
function lists them all and what the package says of errors, with an example of those that every
metric and most losses have.
"""

import importlib
import inspect
import re
import textwrap
from collections.abc import Callable

import jax
import jax.numpy as jnp

import jaxrank
from jaxrank import losses, metrics

_POINTER = re.compile(r"^See `(jaxrank[\w.]*)` for (?:[^.`]|`[^`]*`)*\.\s*", re.M)
_SHARED = re.compile(r"^\* `(\w+)`: ((?:.*\n?)(?:  .*\n?)*)", re.M)
_EXAMPLE = """With {words}:

>>> scores = jnp.array([[3.0, 1.0, 2.0, 0.0], [0.1, 0.4, 0.3, 0.0]])
>>> labels = jnp.array({labels})
>>> where = jnp.array([[1, 1, 1, 1], [1, 1, 1, 0]], bool)  # False is padding
>>> values = {name}(scores, labels, where=where{arguments})
>>> print(*(f"{{value:.4f}}" for value in values))  # one value per query
"""
_DIVERSE = re.compile(r"Metrics of diversity take labels ([^`]*`[^`]*`[^`]*`s` subtopics\.)")
_RAISED = re.compile(r"raises `ValueError` ([^`]*), and `TypeError` ([^.`]*)\.")
_LOSSES = [getattr(losses, name) for name in losses.__all__]
_DESCRIBED = {id(metric): about for metric, about in metrics.described()}
_GRADES = [[0, 2, 1, 0], [1, 0, 0, 0]]
_SUBTOPICS = [[[0, 1], [1, 0], [1, 1], [0, 0]], [[1, 0], [0, 1], [0, 0], [0, 0]]]


def complete(function: Callable, lines: list[str], ranking: str = "") -> list[str]:
  """The lines of a docstring with the shared arguments of its signature, and with an example.

  `ranking` is that of the example, in code, which those of losses do without.
  """
  text = "\n".join(lines)
  pointer = _POINTER.search(text)
  taken = list(inspect.signature(function).parameters) if pointer else []
  shared = shared_arguments(pointer[1]) if pointer else {}
  if id(function) in _DESCRIBED and _DESCRIBED[id(function)].subtopics:
    shared["labels"] = _DIVERSE.search(_in_one_line(pointer[1]))[1]
  if not shared.keys() & set(taken):
    return lines
  own, rest = _own_arguments(_POINTER.sub("", text, count=1))
  entries = own | {name: shared[name] for name in taken if name in shared and name not in own}
  ordered = [f"{name}: {entries[name]}" for name in sorted(entries, key=_position(taken))]
  section = "Args:\n" + textwrap.indent("\n".join(ordered), "  ") + "\n\n"
  end = re.search(r"^(?:Returns|Raises|References|Warns|Yields):$|\Z", rest, re.M)
  described = rest[: end.start()].rstrip() + "\n\n" + example(function, ranking) + section
  return (described + with_errors(rest[end.start() :], pointer[1])).splitlines()


def with_errors(sections: str, package: str) -> str:
  """The last sections of a docstring, with the errors that a package names if there are none."""
  raised = _RAISED.search(_in_one_line(package))
  if raised is None or re.search("^Raises:$", sections, re.M):
    return sections
  errors = f"Raises:\n  ValueError: {raised[1]}.\n  TypeError: {raised[2]}.\n\n"
  end = re.search(r"^References:$|\Z", sections, re.M)
  return sections[: end.start()].rstrip() + "\n\n" + errors + sections[end.start() :]


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
  """A call with a mask, and a cut-off, a ranking and a temperature if the function has them."""
  taken = inspect.signature(function).parameters
  of_lists = list(taken)[:3] == ["scores", "labels", "where"] and "metric" not in taken
  if not of_lists or not (ranking or function in _LOSSES):
    return ""
  optional = {
    "k": ("a cut-off", "2"),
    "ranking": ("a ranking", ranking or "jr.Laplace(1.0)"),
    "temperature": ("a temperature", "0.5"),
  }
  shown = {name: optional[name] for name in optional if name in taken}
  words = ["a mask", *(word for word, _ in shown.values())]
  arguments = ["max_label=2"] * ("max_label" in taken)
  arguments += [f"{name}={value}" for name, (_, value) in shown.items()]
  package = "jr" if id(function) in _DESCRIBED else "jr.losses"
  text = _EXAMPLE.format(
    words=" and ".join(filter(None, [", ".join(words[:-1]), words[-1]])),
    labels=_labels(function),
    name=f"{package}.{function.__name__}",
    arguments="".join(f", {argument}" for argument in arguments),
  )
  names = {"jr": jaxrank, "jnp": jnp}
  for line in re.findall("^>>> (.* = .*)", text, re.M):
    exec(line, names)
  return text + " ".join(f"{value:.4f}" for value in names["values"]) + "\n\n"


def shared_arguments(package: str) -> dict[str, str]:
  """What the docstring of a package explains, by the names of the arguments."""
  return {name: " ".join(said.split()) for name, said in _SHARED.findall(_docstring(package))}


def _docstring(package: str) -> str:
  return inspect.getdoc(importlib.import_module(package)) or ""


def _in_one_line(package: str) -> str:
  return " ".join(_docstring(package).split())


def _labels(function: Callable) -> list:
  about = _DESCRIBED.get(id(function))
  return _SUBTOPICS if about is not None and about.subtopics else _GRADES


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
