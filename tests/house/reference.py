"""The reference pages of metrics and of losses, from the public names of their packages.

`python -m tests.house` writes them. The names of a module are together, in the order of the file.
"""

import functools
import inspect
import pathlib
from collections.abc import Iterator
from types import ModuleType

import jaxrank
from jaxrank import losses, metrics

FOLDER = pathlib.Path(__file__).parents[2] / "docs" / "reference"
# The modules of each section. One that is not here has a section of its own, at the end.
SECTIONS = {
  "metrics": {
    "Binary relevance": ("counts", "sets", "binary", "logarithms"),
    "Graded relevance": ("graded", "gain_curves", "user_models", "stopping", "overlap"),
    "Diversity and intents": ("diversity", "intent_aware"),
    "Order and correlation": ("concordance",),
    "Incomplete judgements": ("estimates",),
    "Curves": ("curves",),
    "Metrics of your own": ("custom", "apply", "description"),
  },
  "losses": {
    "Metrics under a smooth ranking": ("softrank", "approx", "perturbation"),
    "Listwise": ("listwise", "likelihood", "permutation"),
    "Pairwise": ("pairwise", "lambdas"),
    "From a teacher": ("distillation",),
  },
}


def home(value) -> str:
  """The name of the module of a public object, without its packages."""
  return value.__module__.rpartition(".")[2]


def sections(package: ModuleType) -> dict[str, tuple[str, ...]]:
  """The modules of each section of the page of a package."""
  known = SECTIONS[package.__name__.rpartition(".")[2]]
  listed = {module for modules in known.values() for module in modules}
  others = {
    home(value): inspect.getdoc(inspect.getmodule(value)).partition(":")[0].partition(".")[0]
    for value in (getattr(package, name) for name in package.__all__)
    if home(value) not in listed
  }
  return known | {title: (module,) for module, title in sorted(others.items())}


def in_order(package: ModuleType) -> dict[str, list[str]]:
  """The public names of a package by section, by module and then as in the file."""
  values = {name: getattr(package, name) for name in package.__all__}
  lines = {name: inspect.getsourcelines(value)[1] for name, value in values.items()}
  return {
    title: [
      name
      for module in modules
      for name in sorted(values, key=lines.__getitem__)
      if home(values[name]) == module
    ]
    for title, modules in sections(package).items()
  }


def text(package: ModuleType) -> str:
  """The page of a package."""
  name = package.__name__.rpartition(".")[2]

  def lines() -> Iterator[str]:
    yield from (name.capitalize(), "=" * len(name), "", f".. automodule:: {package.__name__}")
    yield from ("", ".. currentmodule:: jaxrank")
    for title, names in in_order(package).items():
      yield from ("", title, "-" * len(title), "", ".. autosummary::")
      yield from ("   :nosignatures:", "   :toctree: generated", "")
      for public in names:
        yield f"   {public if hasattr(jaxrank, public) else f'{name}.{public}'}"

  return "\n".join(lines()) + "\n"


PAGES = {
  FOLDER / "metrics.rst": functools.partial(text, metrics),
  FOLDER / "losses.rst": functools.partial(text, losses),
}
