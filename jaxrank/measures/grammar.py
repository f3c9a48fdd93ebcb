"""Reads names of measures: those of jaxrank and of the libraries of search and recommenders.

The description of each metric lists its names in the other libraries, which are called dialects
here. A name has the meaning that it has in its dialect; a name of jaxrank is a function with its
defaults.
"""

import ast
import decimal
import difflib
import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from jaxrank import metrics
from jaxrank._core import checks, description
from jaxrank._core.description import PIECES, Argument, Description, Kind, Name
from jaxrank._errors import AdvisedError
from jaxrank.measures.families import NICKNAMES, trec_families, words
from jaxrank.measures.measure import Measure, Measures, Metric, as_measures

Dialect = Literal[
  "jaxrank", "ir_measures", "trec_eval", "ndeval", "trec_eval10", "recommenders", "ranx"
]

# Without a dialect, names are looked up in these first, and in the others one after the other.
_FIRST: tuple[Dialect, ...] = ("jaxrank", "ir_measures", "trec_eval", "ndeval")
_OTHERS: tuple[Dialect, ...] = ("trec_eval10", "recommenders", "ranx")
_DIALECTS: tuple[Dialect, ...] = (*_FIRST, *_OTHERS)
# Version 10 of trec_eval has the other names of version 9.
_LIKE: Mapping[Dialect, tuple[Dialect, ...]] = {"trec_eval10": ("trec_eval",)}
_EXAMPLES = (
  "Names look like ndcg, recall@10 or err(max_label=4) (jaxrank), nDCG@10 or AP(rel=2)@100 "
  "(ir_measures), map or ndcg_cut.5,10 (trec_eval), ERR-IA@20 (ndeval), HR@10 (recommenders), "
  "mrr@10, map@100-l2 or rbp.95 (ranx)."
)
# Of no use in a shell.
OF_YOUR_OWN = " A metric of your own has no name: pass jaxrank.Measure(metric, k=10)."


# Names of trec_eval whose numbers belong to one measure.
_WHOLE = ("utility", "11pt")


# Names of trec_eval that are not read.
_NOT_READ = r"yaap|ndcg_p|prefs_\w+|\w+_avgjg"

# A number in a list of them.
_LISTED = r"[0-9.]+(?:[eE][-+]?[0-9]+)?"


class _Entry(NamedTuple):
  """A name of a metric in a dialect, and the metric."""

  name: Name
  metric: Metric
  description: Description


def parse(measures: Measures, dialect: Dialect | None = None) -> tuple[Measure, ...]:
  """Parses names of measures; metrics and instances of `Measure` are accepted too.

  A name of jaxrank, such as `ndcg`, `recall@10` or `err(max_label=4)`, is that function with its
  defaults. Names of ir_measures, trec_eval (version 9, and as the dialect `trec_eval10` version
  10), ndeval, recommenders (`HR@10`, `hits@10`) and ranx have their meaning there: for `AP`,
  labels of at least 1 are relevant, and `ERR@20` has a best grade of 4. A name that jaxrank and
  ranx share with different meanings, such as `precision`, is that of jaxrank, unless the dialect is
  given. A name that differs from a known one in case only is accepted if it is not ambiguous. The
  nicknames `official`, `set` and `all_trec` of trec_eval are all their measures. The name of a
  measure, which is the key of its values, is what was written.

  >>> print(*parse("nDCG@10 AP(rel=2) P@5 recip_rank ERR-IA@20"))
  nDCG@10 AP(rel=2) P@5 recip_rank ERR-IA@20
  >>> print(dict(parse("precision")[0].parameters))
  {}
  >>> print(dict(parse("precision", dialect="ranx")[0].parameters))
  {'rel': 1, 'divisor': 'retrieved'}

  Args:
    measures: A string of names separated by spaces or commas; a metric; a `Measure`; or an iterable
      of these.
    dialect: The library whose names they are; None for all of them.

  Returns:
    Measures, hashable, in the order given, without repetitions.

  Raises:
    ValueError: if a name is unknown, with a suggestion, a parameter in it is not allowed, or two
      measures have the same name.
    TypeError: if an item is no measure.
  """
  with checks.named("parse"):
    return read_measures(measures, dialect)


def read_measures(measures: Measures, dialect: Dialect | None = None) -> tuple[Measure, ...]:
  """`parse` for other functions, which put their own names in front of messages."""
  if dialect is not None:
    checks.choice("dialect", dialect, _DIALECTS)
  distinct: dict[Measure, None] = {}
  for item in as_measures(measures):
    if isinstance(item, Measure):
      distinct[item] = None
    else:
      distinct |= dict.fromkeys(_read(name, dialect) for name in _split(item, dialect))
  names: dict[str, Measure] = {}
  for measure in distinct:
    if names.setdefault(measure.name, measure) != measure:
      raise ValueError(
        f"two measures have the name {measure.name!r}: {_unnamed(names[measure.name])} and "
        f"{_unnamed(measure)}; give one another name, jaxrank.Measure(..., name=...)."
      )
  return tuple(distinct)


def one_measure(measure: Any, parameters: Mapping[str, Any]) -> Measure:
  """The measure of a metric with parameters, or of a measure or name without any.

  Raises:
    TypeError: if there are parameters beside a measure or a name, or `measure` is none.
    ValueError: if there are several names, or the name is unknown.
  """
  if not isinstance(measure, str | Measure):
    about = description.of_metric(measure)
    if about is None:
      raise TypeError(
        "metric must be a metric such as jaxrank.ndcg, a jaxrank.Measure, or a name such as "
        f"'nDCG@10', got {checks.told(measure)}."
      )
    # The errors of `Measure` would put its name behind that of the caller.
    about.bind(parameters)
    return Measure(measure, **parameters)
  if parameters:
    raise TypeError(
      f"{', '.join(parameters)}: parameters go with a metric such as jaxrank.ndcg; those of a "
      "measure or a name are part of it, as in nDCG@10."
    )
  return only_measure(measure)


def only_measure(measures: Measures) -> Measure:
  """The measure of what should hold one; raises `ValueError` if there are several."""
  parsed = read_measures(measures)
  if len(parsed) != 1:
    raise ValueError(f"expected one measure, got {' '.join(map(str, parsed))}.")
  return parsed[0]


def _unnamed(measure: Measure) -> str:
  """The name that a measure would have by default."""
  return str(Measure(measure.metric, **measure.parameters))


def _split(text: str, dialect: Dialect | None) -> list[str]:
  """The names in a string; `P.5,10` is `P.5` and `P.10`, and `all_trec` many."""
  names: list[str] = []
  for name in words(text):
    if name in NICKNAMES and dialect in (None, "trec_eval", "trec_eval10"):
      names += trec_families([name], dialect or "trec_eval")
      continue
    listed = re.fullmatch(rf"(.+?[@._])({_LISTED}(?:,{_LISTED})+)", name)
    whole = re.split("[._]", name)[0] in _WHOLE
    names += [listed[1] + k for k in listed[2].split(",")] if listed and not whole else [name]
  if not names:
    raise ValueError(f"{text!r} names no measure. {_EXAMPLES}")
  return names


@functools.cache
def _entries() -> dict[str, list[_Entry]]:
  """The names of all metrics, by dialect."""
  entries: dict[str, list[_Entry]] = {dialect: [] for dialect in _DIALECTS}
  for metric, about in metrics.described():
    for name in (_own_name(about), *about.names):
      entries[name.dialect].append(_Entry(name, metric, about))
  return entries


def _own_name(description: Description) -> Name:
  """The name of a metric in jaxrank: that of its function, with its parameters."""
  parameters = description.signature.parameters
  form = "NAME [(...)] [@10]" if "k" in parameters else "NAME [(...)]"
  spelled = {name: Argument(name) for name in parameters if description.kind(name).spelled}
  return Name("jaxrank", (description.name,), form, spelled, {})


class _Match(NamedTuple):
  """An entry that a name fits, and the pieces of the name."""

  entry: _Entry
  pieces: dict[str, str | None]


def _matches(name: str, dialects: Iterable[str], *, fold: bool) -> Iterator[_Match]:
  """The entries that a name fits; `fold` ignores case."""
  same = str.casefold if fold else str
  for dialect in dialects:
    for entry in _entries()[dialect]:
      pieces = re.fullmatch(_pattern(entry.name.form), name)
      if pieces and same(pieces["name"]) in map(same, entry.name.spellings):
        yield _Match(entry, pieces.groupdict())


@functools.cache
def _pattern(form: str) -> str:
  """The regular expression for the form of a name."""
  return "".join(PIECES[piece] for piece in form.split())


@functools.lru_cache(maxsize=1024)
def _read(name: str, dialect: Dialect | None) -> Measure:
  """The measure of one name."""
  groups: list[tuple[Dialect, ...]] = [_FIRST, *((other,) for other in _OTHERS)]
  if dialect:
    groups = [(dialect,), _LIKE.get(dialect, ())]
  exact = [match for dialects in groups for match in _matches(name, dialects, fold=False)]
  if exact:
    best = min(exact, key=_misfit)
    if dialect or best.entry.name.dialect != "recommenders":
      return _measure(name, best)
  folded = [list(_matches(name, dialects, fold=True)) for dialects in groups]
  matches = next(filter(None, folded), [])
  if not dialect:
    # But for its case `accuracy@1`, which is a hit rate there, is a name of ir_measures.
    matches += _matches(name, ("recommenders",), fold=True)
  if not matches:
    advice = f"{_suggestion(name)} {_EXAMPLES}{OF_YOUR_OWN}"
    raise AdvisedError(f"{name!r} is no name of a measure:", advice, "name")
  measures: dict[Any, _Match] = {}
  for match in matches:
    measures.setdefault(_meaning(name, match), match)
  if len(measures) > 1:
    spellings = " or ".join(map(_spelling, measures.values()))
    raise ValueError(f"{name!r} may be {spellings}, which differ: mind upper and lower case.")
  return _measure(name, matches[0])


def _misfit(match: _Match) -> tuple[bool, bool]:
  """A key that is largest for what a match does not allow, if a name has several meanings.

  `ndcg@10-l2` also fits the form of jaxrank, with the cut-off `10-l2`, which only ranx allows, and
  `NumRet(rel=2)` is not `NumRet` with a parameter.
  """
  given = re.findall(r"(\w+)\s*=", match.pieces.get("arguments") or "")
  k = match.pieces.get("k") or "1"
  return not k.isdigit(), not set(given) <= set(match.entry.name.arguments)


def _meaning(name: str, match: _Match) -> Any:
  """A key for the meaning of a match: metric and parameters, or the entry if some are missing."""
  try:
    measure = _measure(name, match)
  except ValueError:
    return id(match.entry)
  call = measure.call()
  return call.description, tuple(sorted((k, str(v)) for k, v in call.parameters.items()))


def _spelling(match: _Match) -> str:
  """The complete name of a match in its dialect, for messages."""
  name, description = match.entry.name, match.entry.description
  missing = [
    key
    for key, p in description.signature.parameters.items()
    if p.default is p.empty and key not in name.fixed
  ]
  k, written = match.pieces.get("k"), match.pieces["name"] or ""
  spelled = next(x for x in name.spellings if x.casefold() == written.casefold())
  dialect = name.dialect
  if dialect == "recommenders":
    spelled, dialect = description.name, "jaxrank"
  given = match.pieces.get("arguments") or ", ".join(f"{key}=4" for key in missing)
  return f"{spelled}{f'({given})' if given else ''}{f'@{k}' if k else ''} ({dialect})"


def _measure(name: str, match: _Match) -> Measure:
  """The measure of a name that fits an entry."""
  entry, pieces = match
  changed: dict[str, Any] = {}
  parameters = entry.description.signature.parameters
  for argument, value in _arguments(name, match).items():
    parameter, kind = entry.name.arguments[argument]
    kind = kind or entry.description.kind(parameter)
    if parameter in changed:
      names = " or ".join(entry.name.arguments)
      raise ValueError(f"{name!r}: give {names}, not both.")
    read = _value(name, argument, kind, value)
    if read != entry.name.fixed.get(parameter, parameters[parameter].default):
      changed[parameter] = read
  k = pieces.get("k")
  if k:
    if not re.fullmatch("[1-9][0-9]{0,8}", k):
      raise ValueError(f"{name!r}: a cutoff is a whole number from 1 to 999999999, got {k!r}.")
    if "k" in changed:
      raise ValueError(f"{name!r}: give the cutoff once, got k={changed['k']} and @{k}.")
    changed["k"] = int(k)
  try:
    return Measure(entry.metric, name=name, **(dict(entry.name.fixed) | changed))
  except ValueError as error:
    raise ValueError(f"{name!r}: {str(error).removeprefix('Measure: ')}") from None
  except TypeError as error:
    reason = str(error).removeprefix("Measure: ")
    raise ValueError(f"{name!r}: {reason} {_complete_spellings(name, match)}") from None


def _complete_spellings(name: str, match: _Match) -> str:
  """Names with the parameters that a name lacks, in all dialects that it fits."""
  others = [other for other in _matches(name, _DIALECTS, fold=True) if other.entry != match.entry]
  return f"Write {' or '.join(map(_spelling, (match, *others)))}."


def _value(name: str, argument: str, kind: Kind, literal: Any) -> Any:
  """The value of a parameter that a literal stands for."""
  if isinstance(kind.spelled, dict):
    allowed = " or ".join(map(repr, kind.spelled))
    if not isinstance(literal, str) or literal not in kind.spelled:
      raise ValueError(f"{name!r}: {argument} must be {allowed}, got {literal!r}.")
    return kind.spelled[literal]
  finite = not isinstance(literal, float) or abs(literal) < math.inf
  if type(literal) not in kind.literals or not finite:
    raise ValueError(f"{name!r}: {argument} must be {kind.meaning}, got {literal!r}.")
  value = int(literal) if type(literal) is float and literal % 1 == 0 else literal
  try:
    return kind.check(argument, value)
  except (TypeError, ValueError):
    raise ValueError(f"{name!r}: {argument} must be {kind.meaning}, got {literal!r}.") from None


def _arguments(name: str, match: _Match) -> dict[str, Any]:
  """The arguments in a name as literals, in the order of the entry."""
  takes, pieces = match.entry.name.arguments, match.pieces
  given = _literals(name, pieces.get("arguments") or "")
  if pieces.get("p"):
    given["p"] = float(f"0.{pieces['p']}")
  if pieces.get("x"):
    given["x"] = decimal.Decimal(pieces["x"] or 0)
  if pieces.get("number"):
    given["number"] = float(pieces["number"] or 0)
  if pieces.get("pairs"):
    given |= _pairs(name, pieces["pairs"] or "")
  if pieces.get("numbers"):
    given |= _numbers(name, pieces["numbers"] or "", takes)
  if pieces.get("levels"):
    given["levels"] = _floats(name, pieces["levels"] or "", ".25,.5,.75")
  if pieces.get("rel"):
    # Graded measures of ranx set the gains of lower labels, which are integers there, to 0.
    level = int(pieces["rel"] or 0)
    given |= {"gains": dict.fromkeys(range(1, level), 0)} if "gains" in takes else {"rel": level}
  unknown = [key for key in given if key not in takes]
  if unknown:
    allowed = " and ".join(takes) or "no parameters"
    fault = f"{name!r}: {pieces['name']} takes {allowed}, got {unknown[0]!r}."
    if unknown[0] == "judged_only":
      advice = "Pass where=labels >= 0 to leave out unjudged items."
      raise AdvisedError(fault, advice, "unjudged")
    raise ValueError(fault)
  return {key: given[key] for key in takes if key in given}


def _pairs(name: str, text: str) -> dict[str, Any]:
  """The arguments in `1=3,2=9.5` or `p=0.95`: gains by label, and others by their names."""
  try:
    values = {key: float(x) for key, x in (pair.split("=") for pair in text.split(","))}
  except ValueError:
    raise ValueError(f"{name!r}: parameters are written like 1=3,2=9.5, got {text}.") from None
  if len(values) <= text.count(","):
    raise ValueError(f"{name!r}: {text} has a name twice; give each once.")
  gains = {int(key): x for key, x in values.items() if key.isdecimal()}
  others = {key: x for key, x in values.items() if not key.isdecimal()}
  return others | ({"gains": gains} if gains else {})


def _numbers(name: str, text: str, takes: Iterable[str]) -> dict[str, Any]:
  """The arguments in `1,-1,0,0`: one number for each that the name takes, in their order."""
  values, names = text.split(","), [*takes]
  if len(values) != len(names):
    raise ValueError(
      f"{name!r}: {len(names)} numbers are needed, {', '.join(names)}, got {len(values)}."
    )
  return dict(zip(names, _floats(name, text, "1,-1,0,0"), strict=True))


def _floats(name: str, text: str, example: str) -> tuple[float, ...]:
  """The numbers in a text such as the example."""
  try:
    return tuple(map(float, text.split(",")))
  except ValueError:
    raise ValueError(f"{name!r}: parameters are written like {example}, got {text}.") from None


def _literals(name: str, text: str) -> dict[str, Any]:
  """The literals in a text such as `rel=2, k=5`, by name."""
  try:
    call: Any = ast.parse(f"_({text})", mode="eval").body
    literals = {str(x.arg): ast.literal_eval(x.value) for x in call.keywords}
    if call.args or len(literals) < len(call.keywords):
      raise SyntaxError
  except (SyntaxError, TypeError, ValueError):
    raise ValueError(f"{name!r}: parameters are written like (rel=2), got ({text}).") from None
  return literals


def _suggestion(name: str) -> str:
  """What to write instead of an unknown name."""
  if re.fullmatch(_NOT_READ, name.partition(".")[0]):
    return "trec_eval has it, and jaxrank has not; docs/metrics.md says what is not read."
  head = re.split(r"[@(.]|_at_(?=[0-9])|_(?=[0-9])|-l(?=[0-9])", name)[0].casefold()
  forms: dict[str, dict[str, None]] = {}
  for dialect in _DIALECTS:
    for entry in _entries()[dialect]:
      for spelling in entry.name.spellings:
        form = f"{_example(entry.name, spelling, name)} ({dialect})"
        forms.setdefault(spelling.casefold(), {})[form] = None
  if head in forms:
    return f"write {' or '.join(forms[head])}."
  near = [next(iter(forms[x])) for x in difflib.get_close_matches(head, forms)]
  return f"did you mean {' or '.join(near)}?" if near else "there is no similar name."


def _example(name: Name, spelling: str, written: str) -> str:
  """A name as an example, with those of its optional pieces that were written, like `ndcg@10`."""
  shown = []
  for piece in name.form.split():
    mark = next(x for x in ("(", "@", "=", "-l", "_", "") if x in piece)
    if piece == "NAME":
      shown.append(spelling)
    elif piece == "[(...)]":
      first = next(iter(name.arguments), None)
      shown += [f"({first}=...)"] * (first is not None and "(" in written)
    elif piece.startswith("["):
      is_asked = mark in written or (mark in "@_" and "." in written)
      shown += [re.sub("^_", ".", piece[1:-1])] * is_asked
    else:
      shown.append(piece)
  return "".join(shown)
