"""How other libraries write the names of metrics: one `Name` a spelling, beside each metric."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxrank._core.parameters import Kind

# What stands in the form of a name, as regular expressions.
PIECES = {
  "NAME": r"(?P<name>[A-Za-z][\w-]*?)",
  "[(...)]": r"(?:\((?P<arguments>[^()]*)\))?",
  "@10": r"@(?P<k>.+?)",
  "[@10]": r"(?:@(?P<k>.+?))?",
  "_10": r"[._](?P<k>[0-9]+)",
  "[-l2]": r"(?:-l(?P<rel>[0-9]{1,2}))?",
  ".95": r"[.@](?P<p>[0-9]+)",
}


class Argument(NamedTuple):
  """What a dialect writes in parentheses.

  Attributes:
    parameter: The parameter of the metric that it gives.
    kind: How it is read, if not as the metric's own parameter.
  """

  parameter: str
  kind: Kind | None = None


class Name(NamedTuple):
  """A metric as a dialect calls it.

  Attributes:
    dialect: The dialect.
    spellings: What it is called; the first is how the dialect prints it.
    form: Pieces of `PIECES`, with spaces between.
    arguments: What may stand in parentheses, by the dialect's name for it.
    fixed: Parameters that the dialect sets where a name says nothing.
  """

  dialect: str
  spellings: tuple[str, ...]
  form: str
  arguments: Mapping[str, Argument]
  fixed: Mapping[str, Any]


def _arguments(words: str, given: Mapping[str, Argument]) -> dict[str, Argument]:
  """Arguments such as "rel p=persistence": by the same name as the parameter, or by another."""
  pairs = (word.partition("=") for word in words.split())
  return {name: Argument(parameter or name) for name, _, parameter in pairs} | dict(given)


def ir_measures(
  spellings: str,
  form: str = "[@10]",
  arguments: str = "",
  reads: Mapping[str, Argument] | None = None,
  **fixed: Any,
) -> Name:
  """A name of ir_measures, such as `nDCG(dcg='exp-log2')@10`."""
  taken = _arguments(arguments, reads or {})
  names = tuple(spellings.split())
  return Name("ir_measures", names, f"NAME [(...)] {form}".rstrip(), taken, fixed)


def trec_eval(spellings: str, form: str = "", **fixed: Any) -> Name:
  """A name of trec_eval, such as `ndcg_cut_10`."""
  return Name("trec_eval", tuple(spellings.split()), f"NAME {form}".rstrip(), {}, fixed)


def ndeval(spellings: str, form: str = "@10", **fixed: Any) -> Name:
  """A name of ndeval, TREC's program for diversity, such as `ERR-IA@20`."""
  return Name("ndeval", tuple(spellings.split()), f"NAME {form}".rstrip(), {}, fixed)


def ranx(
  spellings: str,
  form: str = "[@10] [-l2]",
  arguments: str = "",
  reads: Mapping[str, Argument] | None = None,
  **fixed: Any,
) -> Name:
  """A name of ranx, such as `map@100-l2`."""
  taken = _arguments(arguments, reads or {})
  return Name("ranx", tuple(spellings.split()), f"NAME {form}".rstrip(), taken, fixed)
