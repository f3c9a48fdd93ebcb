"""The tables of fusion: methods and normalisations, and their names in ranx, from descriptions."""

import inspect
import re
from pathlib import Path

from jaxrank.fusion._define import METHODS, NORMALISATIONS, Method
from tests.house.metric_table import table, with_sections

DOCS = Path(__file__).parents[2] / "docs"
PAGE, NAMES = DOCS / "fusion.md", DOCS / "interop.md"

# Where a method of ranx is one of ours with an argument.
_WITH = {
  "w_bordafuse": "weights=w",
  "w_condorcet": "weights=w",
  "wmnz": "weights=w",
  "wsum": "weights=w",
  "mixed": "weights=w",
}
_NORMS = {
  "min-max": "min_max",
  "min-max-inverted": "min_max(jnp.where(scores > -jnp.inf, -scores, -jnp.inf))",
  "max": "max_norm",
  "sum": "sum_norm",
  "zmuv": "z_score",
  "rank": "rank_norm",
  "borda": "borda",
}


def _text(function: object) -> tuple[str, str, str]:
  """The title, the formula and the paper of a docstring."""
  text = inspect.getdoc(function) or ""
  title, _, rest = text.partition("\n\n")
  formula = re.search(r"`([^`]+)`", rest, re.S)
  shown = f"`{' '.join(formula[1].split())}`" if formula else ""
  paper = " ".join(text.partition("References:\n")[2].split())
  link = re.sub(r"`(.+?) <(\S+)>`_", r"[\1](\2)", paper)
  return title.replace("\n", " ").rstrip("."), shown, link.rstrip(".")


def _row(name: str, about: Method) -> list[str]:
  title, formula, paper = _text(about.function)
  own = ", ".join(f"`{x}`" for x in about.parameters if x not in ("trained", "ranking"))
  return [f"`{name}`", title, formula, own, paper]


def page() -> str:
  """The page of fusion, with the tables of methods and normalisations."""
  methods = [_row(name, about) for name, about in METHODS.items()]
  scales = [[f"`{name}`", *_text(function)] for name, function in NORMALISATIONS.items()]
  tables = {
    "methods": table(["method", "what it is", "score of an item", "parameters", "paper"], methods),
    "normalisations": table(["normalisation", "what it is", "formula", "paper"], scales),
  }
  return with_sections(PAGE.read_text(encoding="utf-8"), tables)


def names() -> str:
  """The page about other libraries, with the names of ranx."""
  rows = []
  for name, about in METHODS.items():
    for theirs in about.names:
      given = ["trained=t"] if about.kind == "trained" else []
      given += [_WITH[theirs]] if theirs in _WITH else []
      rows.append([f"`{theirs}`", f"`fusion.{name}({', '.join(['scores', *given])})`"])
  rows += [[f'`norm="{theirs}"`', f"`fusion.{ours}`"] for theirs, ours in _NORMS.items()]
  content = table(["ranx", "jaxrank"], sorted(rows))
  return with_sections(NAMES.read_text(encoding="utf-8"), {"ranx": content})
