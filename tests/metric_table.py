"""Writes the tables of `docs/metrics.md` from the descriptions of the metrics.

Run `python -m tests.metric_table` from a clone; `tests/test_docs.py` checks that the page is up to
date. Formulas are those of the docstrings.
"""

import functools
import inspect
import pathlib
import re
from collections.abc import Callable

import jax.numpy as jnp

from jaxrank import metrics
from jaxrank._core import recorder
from jaxrank._core.dialects import Name

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "metrics.md"
DIALECTS = ("ir_measures", "trec_eval", "ndeval", "ranx")
MODULES = ("counts", "binary", "graded", "diversity", "intents", "concordance", "curves")

# What the tables need to run a kernel: parameters without a default, and one query.
REQUIRED = {"max_label": 2}
QUERY = (jnp.array([4.0, 3.0, 2.0, 1.0]), jnp.array([2.0, 0.0, 1.0, -1.0]), jnp.ones(4, bool))


def described() -> list[tuple[Callable, metrics.Description]]:
  """The metrics by subject, those of a file in its order."""
  found = list(metrics.described())
  return sorted(found, key=lambda pair: MODULES.index(pair[0].__module__.rpartition(".")[2]))


def formula(metric: Callable) -> str:
  """The code that starts a paragraph of the docstring after the first line."""
  found = re.search(r"\n\n`([^`]+)`", inspect.getdoc(metric) or "")
  if not found:
    raise ValueError(f"the docstring of {metric.__name__} has no formula after its first line.")
  return " ".join(found[1].split())


def questions(about: metrics.Description) -> tuple[list[str], bool]:
  """What the kernel asks the ranking, each once, and whether it is affine in the answers."""
  needed = [name for name, p in about.signature.parameters.items() if p.default is p.empty]
  parameters = about.bind({name: REQUIRED[name] for name in needed})
  kernel = functools.partial(about.kernel, **parameters)
  scores, labels, where = QUERY
  labels = jnp.stack([labels, labels[::-1]], axis=1) if about.subtopics else labels
  asked = recorder.Recorder(scores, labels, where, None)
  kernel(asked)
  kinds = list(dict.fromkeys(question.kind for question in asked.questions))
  slopes = recorder.slopes(kernel, recorder.Recorder(scores, labels, where, None))
  return kinds, slopes is not None


def row(metric: Callable, about: metrics.Description) -> list[str]:
  """What is known of one metric."""
  low, high = (f"{x:g}" for x in about.range)
  seeks = about.seeks if isinstance(about.seeks, str) else inspect.getdoc(about.seeks)
  asks, affine = questions(about)
  return [
    f"`{about.name}`",
    f"`{formula(metric).replace('|', chr(92) + '|')}`",
    f"{low} to {high}",
    "higher" if about.higher_is_better else "lower",
    seeks,
    ", ".join(f"`{kind}`" for kind in asks),
    "yes" if affine else "no",
  ]


def spelling(name: Name) -> str:
  """How a dialect writes a metric, with what it fixes."""
  form = name.form.replace(" ", "")
  written = [f"`{form.replace('NAME', said)}`" for said in name.spellings]
  fixed = [f"{key}={getattr(value, '__name__', repr(value))}" for key, value in name.fixed.items()]
  return ", ".join(written) + (f" ({', '.join(fixed)})" if fixed else "")


def names(about: metrics.Description) -> list[str]:
  """What each dialect calls one metric."""
  said = {
    dialect: [spelling(name) for name in about.names if name.dialect == dialect]
    for dialect in DIALECTS
  }
  return [f"`{about.name}`", *("; ".join(said[dialect]) for dialect in DIALECTS)]


def table(head: list[str], rows: list[list[str]]) -> str:
  """A table in Markdown."""
  lines = [head, ["---"] * len(head), *rows]
  return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def sections() -> dict[str, str]:
  """The tables by the names of their markers."""
  head = ["metric", "formula", "range", "better", "seeks", "asks", "affine"]
  pairs = described()
  return {
    "metrics": table(head, [row(*pair) for pair in pairs]),
    "names": table(["metric", *DIALECTS], [names(about) for _, about in pairs if about.names]),
  }


def page() -> str:
  """The page with new tables."""
  text = PAGE.read_text(encoding="utf-8")
  for name, content in sections().items():
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    before, rest = text.split(begin)
    text = f"{before}{begin}{content}\n{end}{rest.split(end)[1]}"
  return text


if __name__ == "__main__":
  PAGE.write_text(page(), encoding="utf-8")
