"""The tables of `docs/metrics.md` and `docs/losses.md`.

They follow from the descriptions and the docstrings; `python -m tests.house` writes them.
"""

import functools
import inspect
import itertools
import pathlib
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import jaxrank
from jaxrank import chance, losses, metrics
from jaxrank._core.description import Name
from tests.helpers import traits
from tests.helpers.parameters import required
from tests.house import reference, uses

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "metrics.md"
LOSSES = PAGE.with_name("losses.md")
DIALECTS = ("ir_measures", "trec_eval", "trec_eval10", "ndeval", "recommenders", "ranx")


def described() -> list[tuple[Callable, metrics.Description]]:
  """All metrics with their descriptions, ordered by module and then as in the file."""
  abouts = {about.name: (metric, about) for metric, about in metrics.described()}
  names = itertools.chain(*reference.in_order(metrics).values())
  return [abouts[name] for name in names if name in abouts]


def formula(metric: Callable) -> str:
  """The formula of a docstring: the first code span that starts a paragraph."""
  found = re.search(r"\n\n`([^`]+)`", inspect.getdoc(metric) or "")
  if not found:
    raise ValueError(f"the docstring of {metric.__name__} has no formula after its first line.")
  return " ".join(found[1].split())


def query(about: metrics.Description) -> tuple[jax.Array, jax.Array]:
  """Scores and labels of one query."""
  scores, labels = jnp.array([4.0, 3.0, 2.0, 1.0]), jnp.array([2.0, 0.0, 1.0, -1.0])
  return scores, jnp.stack([labels, labels[::-1]], axis=1) if about.subtopics else labels


def questions(about: metrics.Description) -> list[str]:
  """The kinds of questions that the kernel asks the ranking, without repeats."""
  return list(dict.fromkeys(question.kind for question in traits.recorded(about).questions))


def answered(function: Callable, *arguments: Any) -> bool:
  """Whether a call raises no `UnansweredError`; the call is traced, not run."""
  try:
    jax.eval_shape(lambda: function(*arguments))
  except jaxrank.UnansweredError:
    return False
  return True


MOMENTS = {"mean": chance.expected, "variance": chance.variance}


def has_swaps(metric: Callable, about: metrics.Description) -> bool:
  """Whether `lambda_rank` takes a metric with its defaults."""
  scores, labels = query(about)
  measure = jaxrank.Measure(metric, **required(about))
  return answered(lambda: jaxrank.losses.lambda_rank(scores, labels, metric=measure))


def closed_forms(metric: Callable, about: metrics.Description) -> list[str]:
  """The moments by chance of a metric with its defaults that need no samples."""
  _, labels = query(about)
  measure = jaxrank.Measure(metric, **required(about))
  return [name for name, moment in MOMENTS.items() if answered(moment, measure, labels)]


SMOOTH = (jaxrank.Laplace, jaxrank.Logistic, jaxrank.Gumbel, jaxrank.Gaussian)


@functools.cache
def exact_only() -> tuple[str, ...]:
  """The metrics that need `Exact`: with their defaults a smooth ranking cannot answer them."""
  return tuple(about.name for metric, about in described() if not is_smooth(metric, about))


def is_smooth(metric: Callable, about: metrics.Description) -> bool:
  """Whether every smooth ranking answers a metric with its defaults."""
  scores, labels = query(about)
  kinds = [functools.partial(metric, ranking=kind(1.0), **required(about)) for kind in SMOOTH]
  return all(answered(kind, scores, labels) for kind in kinds)


def entry(metric: Callable, about: metrics.Description) -> list[str]:
  """The row of one metric in the table of metrics."""
  first = (inspect.getdoc(metric) or "").splitlines()[0].rstrip(".")
  written = formula(metric).replace("|", chr(92) + "|")
  return [f"`{about.name}`", uses.USES.get(about.name, first), f"`{written}`"]


def row(metric: Callable, about: metrics.Description) -> list[str]:
  """The row of one metric in the table of properties."""
  low, high = (f"{x:g}" for x in about.range)
  seeks = about.seeks if isinstance(about.seeks, str) else inspect.getdoc(about.seeks)
  return [
    f"`{about.name}`",
    f"{low} to {high}",
    about.aggregation.replace("exp_mean", "exp of mean"),
    better(about),
    seeks,
    ", ".join(f"`{kind}`" for kind in questions(about)),
    "yes" if has_swaps(metric, about) else "no",
    ", ".join(closed_forms(metric, about)) or "by sampling",
  ]


def better(about: metrics.Description) -> str:
  """Which values are better."""
  if about.best is not None:
    return f"nearer to {about.best:g}"
  return "higher" if about.higher_is_better else "lower"


def spelling(name: Name) -> str:
  """The spellings of a name in its dialect, with the parameters that it implies."""
  form = name.form.replace(" ", "")
  written = [f"`{form.replace('NAME', said)}`" for said in name.spellings]
  fixed = [f"{key}={getattr(value, '__name__', repr(value))}" for key, value in name.fixed.items()]
  return ", ".join(written) + (f" ({', '.join(fixed)})" if fixed else "")


def names(about: metrics.Description) -> list[str]:
  """The row of one metric in the table of names."""
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
  """The tables, by the names of their markers in the page."""
  head = [
    "metric",
    "range",
    "over queries",
    "better",
    "seeks",
    "asks",
    "LambdaRank",
    "by chance",
  ]
  pairs = described()
  return {
    "metrics": table(["metric", "use it when", "formula"], [entry(*pair) for pair in pairs]),
    "properties": table(head, [row(*pair) for pair in pairs]),
    "names": table(["metric", *DIALECTS], [names(about) for _, about in pairs if about.names]),
  }


def page() -> str:
  """The text of the page with regenerated tables."""
  return with_sections(PAGE.read_text(encoding="utf-8"), sections())


def of_losses() -> str:
  """The text of the page of losses with a regenerated table."""
  rows = []
  for name in itertools.chain(*reference.in_order(losses).values()):
    first = inspect.getdoc(getattr(losses, name)).splitlines()[0].rstrip(".")
    rows.append([f"`{name}`", first])
  content = table(["loss", "what it is"], rows)
  return with_sections(LOSSES.read_text(encoding="utf-8"), {"losses": content})


def with_sections(text: str, sections: dict[str, str]) -> str:
  """A text with other tables between its markers."""
  for name, content in sections.items():
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    before, rest = text.split(begin)
    text = f"{before}{begin}{content}\n{end}{rest.split(end)[1]}"
  return text
