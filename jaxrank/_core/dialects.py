"""Names of metrics in other libraries, as data beside each metric, for `measures.grammar`."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxrank._core.parameters import Kind

# A number, as C reads it, and one that may be broken, for better messages.
NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_LIKE = r"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?"

# The pieces of the form of a name, with the regular expressions that they match.
PIECES = {
  "NAME": r"(?P<name>[A-Za-z0-9][\w-]*?)",
  "[(...)]": r"(?:\((?P<arguments>[^()]*)\))?",
  "@10": r"@(?P<k>.+?)",
  "[@10]": r"(?:@(?P<k>.+?))?",
  "_10": r"[._](?P<k>[0-9]+)",
  "@0.1": r"@(?P<x>[0-9]+(?:\.[0-9]+)?)",
  "_0.10": rf"[._](?P<x>{NUMBER})",
  "[_0.5]": rf"(?:[._](?P<number>{NUMBER}))?",
  "[_1=3,2=9]": rf"(?:[._](?P<pairs>\w+={_LIKE}(?:,\w+={_LIKE})*))?",
  "[_1,-1,0,0]": rf"(?:[._](?P<numbers>{_LIKE}(?:,{_LIKE})*))?",
  "[_.25,.5]": rf"(?:[._](?P<levels>{_LIKE}(?:,{_LIKE})*))?",
  "[-l2]": r"(?:-l(?P<rel>[0-9]{1,2}))?",
  ".95": r"[.@](?P<p>[0-9]+)",
}


class Argument(NamedTuple):
  """An argument that a dialect writes in parentheses.

  Attributes:
    parameter: The parameter of the metric that it sets.
    kind: The kind of its value; None for the kind of that parameter.
  """

  parameter: str
  kind: Kind | None = None


class Name(NamedTuple):
  """A name of a metric in a dialect.

  Attributes:
    dialect: The dialect.
    spellings: The spellings of the name; the first is the canonical one.
    form: Keys of `PIECES`, separated by spaces.
    arguments: The arguments that may be given in parentheses, by their names in the dialect.
    fixed: Values of parameters that the dialect implies, unless a name sets them.
  """

  dialect: str
  spellings: tuple[str, ...]
  form: str
  arguments: Mapping[str, Argument]
  fixed: Mapping[str, Any]


def _arguments(words: str, given: Mapping[str, Argument]) -> dict[str, Argument]:
  """Reads "rel p=persistence": `rel` has the name of its parameter, `p` sets `persistence`."""
  pairs = (word.partition("=") for word in words.split())
  return {name: Argument(parameter or name) for name, _, parameter in pairs} | dict(given)


def ir_measures(
  spellings: str,
  form: str = "[@10]",
  arguments: str = "",
  reads: Mapping[str, Argument] | None = None,
  **fixed: Any,
) -> Name:
  """A name in ir_measures, such as `nDCG(dcg='exp-log2')@10`."""
  taken = _arguments(arguments, reads or {})
  names = tuple(spellings.split())
  return Name("ir_measures", names, f"NAME [(...)] {form}".rstrip(), taken, fixed)


def trec_eval(
  spellings: str, form: str = "", reads: Mapping[str, Argument] | None = None, **fixed: Any
) -> Name:
  """A name in trec_eval, such as `ndcg_cut_10`."""
  taken = dict(reads or {})
  return Name("trec_eval", tuple(spellings.split()), f"NAME {form}".rstrip(), taken, fixed)


def trec_eval10(
  spellings: str, form: str = "", reads: Mapping[str, Argument] | None = None, **fixed: Any
) -> Name:
  """A name that version 10 of trec_eval added, or gave another meaning, such as `unj_10`."""
  return trec_eval(spellings, form, reads, **fixed)._replace(dialect="trec_eval10")


def ndeval(spellings: str, form: str = "@10", **fixed: Any) -> Name:
  """A name in ndeval, the program of TREC for diversity, such as `ERR-IA@20`."""
  return Name("ndeval", tuple(spellings.split()), f"NAME {form}".rstrip(), {}, fixed)


def recommenders(spellings: str, form: str = "[@10]", **fixed: Any) -> Name:
  """A name that libraries and papers on recommenders and link prediction use, such as `HR@10`."""
  return Name("recommenders", tuple(spellings.split()), f"NAME {form}".rstrip(), {}, fixed)


def ranx(
  spellings: str,
  form: str = "[@10] [-l2]",
  arguments: str = "",
  reads: Mapping[str, Argument] | None = None,
  **fixed: Any,
) -> Name:
  """A name in ranx, such as `map@100-l2`."""
  taken = _arguments(arguments, reads or {})
  return Name("ranx", tuple(spellings.split()), f"NAME {form}".rstrip(), taken, fixed)
