"""Names of measures: our own, and those of ir_measures, trec_eval, ndeval and ranx.

Every metric says beside its kernel what the dialects call it; this module reads names by these
descriptions. A name means what its dialect means. The names of jaxrank are the names of its
functions and have their defaults.
"""

import ast
import difflib
import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from jaxrank import metrics
from jaxrank._core.description import Description
from jaxrank._core.dialects import PIECES, Argument, Name
from jaxrank._core.parameters import Kind
from jaxrank.measures.measure import Measure, Measures, Metric, as_measures

Dialect = Literal["jaxrank", "ir_measures", "trec_eval", "ndeval", "ranx"]

# Without a dialect, names are looked up in those before the bar first.
_FIRST: tuple[Dialect, ...] = ("jaxrank", "ir_measures", "trec_eval", "ndeval")
_DIALECTS: tuple[Dialect, ...] = (*_FIRST, "ranx")
_HOW = (
  "Names look like ndcg, recall@10 or err(max_label=4) (jaxrank), nDCG@10 or AP(rel=2)@100 "
  "(ir_measures), map or ndcg_cut.5,10 (trec_eval), ERR-IA@20 (ndeval), mrr@10, map@100-l2 or "
  "rbp.95 (ranx)."
)


class _Entry(NamedTuple):
  """A way to write a metric."""

  name: Name
  metric: Metric
  description: Description


def parse(measures: Measures, dialect: Dialect | None = None) -> tuple[Measure, ...]:
  """Measures from names, metrics and measures.

  A name of ours, such as `ndcg`, `recall@10` or `err(max_label=4)`, is that function with its
  defaults. Names of ir_measures, trec_eval, ndeval and ranx mean what they mean there: `AP` finds
  labels of 1 and more relevant, `ERR@20` has a best grade of 4. Where ranx spells a name as we do
  and means another number, as in `precision`, it is ours unless the dialect says otherwise. A name
  that fits but for its case is taken if it can mean only one thing.

  >>> print(*parse("nDCG@10 AP(rel=2) P@5 recip_rank ERR-IA@20"))
  nDCG@10 AP(rel=2) P@5 recip_rank ERR-IA@20
  >>> print(dict(parse("precision")[0].parameters))
  {}
  >>> print(dict(parse("precision", dialect="ranx")[0].parameters))
  {'rel': 1, 'divisor': 'retrieved'}

  Args:
    measures: Names separated by spaces or commas, a metric, a `Measure`, or several of these.
    dialect: Whose names they are; None for all of them.

  Returns:
    Measures, hashable and in order, none twice.

  Raises:
    ValueError: for an unknown name, which suggests the nearest, a bad parameter, or two measures
      of one name.
    TypeError: for what is no measure.
  """
  if dialect is not None and dialect not in _DIALECTS:
    raise ValueError(f"dialect must be one of {', '.join(_DIALECTS)}, got {dialect!r}.")
  found: dict[Measure, None] = {}
  for item in as_measures(measures):
    if isinstance(item, Measure):
      found[item] = None
    else:
      found |= dict.fromkeys(_read(name, dialect) for name in _split(item))
  names: dict[str, Measure] = {}
  for measure in found:
    if names.setdefault(measure.name, measure) != measure:
      raise ValueError(
        f"two measures have the name {measure.name!r}: {_told(names[measure.name])} and "
        f"{_told(measure)}; give one another name, jaxrank.Measure(..., name=...)."
      )
  return tuple(found)


def one_measure(measure: Any, parameters: Mapping[str, Any]) -> Measure:
  """A metric with parameters, or one measure or name, which have their own.

  Raises:
    TypeError: for parameters next to a measure or a name, or what is no measure.
    ValueError: for several names, or an unknown one.
  """
  if not isinstance(measure, str | Measure):
    return Measure(measure, **parameters)
  if parameters:
    raise TypeError(
      f"{', '.join(parameters)}: parameters go with a metric such as jaxrank.ndcg; those of a "
      "measure or a name are part of it, as in nDCG@10."
    )
  found = parse(measure)
  if len(found) != 1:
    raise ValueError(f"expected one measure, got {' '.join(map(str, found))}.")
  return found[0]


def _told(measure: Measure) -> str:
  return str(Measure(measure.metric, **measure.parameters))


def _split(text: str) -> list[str]:
  names: list[str] = []
  # Not inside parentheses, and not at the comma of `P.5,10`, which is `P.5` and `P.10`.
  for name in filter(None, re.split(r"(?:\s|,(?![0-9]))+(?![^(]*\))", text)):
    listed = re.fullmatch(r"(.+[@._])([0-9,]+)", name)
    names += [listed[1] + k for k in listed[2].split(",")] if listed else [name]
  if not names:
    raise ValueError(f"{text!r} names no measure. {_HOW}")
  return names


@functools.cache
def _entries() -> dict[str, list[_Entry]]:
  """All ways to write a metric, by dialect."""
  entries: dict[str, list[_Entry]] = {dialect: [] for dialect in _DIALECTS}
  for metric, description in metrics.described():
    for name in (_own_name(description), *description.names):
      entries[name.dialect].append(_Entry(name, metric, description))
  return entries


def _own_name(description: Description) -> Name:
  parameters = description.signature.parameters
  form = "NAME [(...)] [@10]" if "k" in parameters else "NAME [(...)]"
  spelled = {name: Argument(name) for name in parameters if description.kind(name).spelled}
  return Name("jaxrank", (description.name,), form, spelled, {})


class _Match(NamedTuple):
  """A name that fits an entry, and the pieces of the name."""

  entry: _Entry
  pieces: dict[str, str | None]


def _matches(name: str, dialects: Iterable[str], *, fold: bool) -> Iterator[_Match]:
  """The entries that a name fits, but for its case if that is folded."""
  same = str.casefold if fold else str
  for dialect in dialects:
    for entry in _entries()[dialect]:
      pieces = re.fullmatch(_pattern(entry.name.form), name)
      if pieces and same(pieces["name"]) in map(same, entry.name.spellings):
        yield _Match(entry, pieces.groupdict())


@functools.cache
def _pattern(form: str) -> str:
  return "".join(PIECES[piece] for piece in form.split())


@functools.lru_cache(maxsize=1024)
def _read(name: str, dialect: Dialect | None) -> Measure:
  groups: list[tuple[Dialect, ...]] = [(dialect,)] if dialect else [_FIRST, ("ranx",)]
  exact = [match for dialects in groups for match in _matches(name, dialects, fold=False)]
  if exact:
    # `ndcg@10-l2` starts like a name of ours, but only ranx has such a cutoff.
    return _measure(name, min(exact, key=_has_bad_cutoff))
  folded = (list(_matches(name, dialects, fold=True)) for dialects in groups)
  found = next(filter(None, folded), None)
  if found is None:
    raise ValueError(f"{name!r} is no name of a measure: {_remedy(name)} {_HOW}")
  # Names of ir_measures come first, since they are printed in one spelling.
  found.sort(key=lambda match: match.entry.name.dialect != "ir_measures")
  measures: dict[Any, _Match] = {}
  for match in found:
    measures.setdefault(_meaning(name, match), match)
  if len(measures) > 1:
    ways = " or ".join(map(_way, measures.values()))
    raise ValueError(f"{name!r} may be {ways}, which differ: mind upper and lower case.")
  return _measure(name, found[0])


def _has_bad_cutoff(match: _Match) -> bool:
  return not (match.pieces.get("k") or "1").isdigit()


def _meaning(name: str, match: _Match) -> Any:
  """What a match means, to compare it with others; its entry if it is not complete."""
  try:
    measure = _measure(name, match)
  except ValueError:
    return id(match.entry)
  call = measure.call()
  return call.description, tuple(sorted((k, str(v)) for k, v in call.parameters.items()))


def _way(match: _Match) -> str:
  """How a name is written in the dialect of a match."""
  name, description = match.entry.name, match.entry.description
  missing = [
    key
    for key, p in description.signature.parameters.items()
    if p.default is p.empty and key not in name.fixed
  ]
  k, written = match.pieces.get("k"), match.pieces["name"] or ""
  spelled = next(x for x in name.spellings if x.casefold() == written.casefold())
  said = match.pieces.get("arguments") or ", ".join(f"{key}=4" for key in missing)
  return f"{spelled}{f'({said})' if said else ''}{f'@{k}' if k else ''} ({name.dialect})"


def _measure(name: str, match: _Match) -> Measure:
  """The measure that a name means."""
  entry, pieces = match
  changed: dict[str, Any] = {}
  said: list[str] = []
  for argument, value in _arguments(name, match).items():
    parameter, kind = entry.name.arguments[argument]
    kind = kind or entry.description.kind(parameter)
    if parameter in changed:
      ways = " or ".join(entry.name.arguments)
      raise ValueError(f"{name!r}: give {ways}, not both.")
    read = _value(name, argument, kind, value)
    if read != entry.name.fixed.get(parameter, _default(entry.description, parameter)):
      changed[parameter] = read
      said.append(f"{argument}={_shown(value)}")
  k = pieces.get("k")
  if k:
    if not re.fullmatch("[1-9][0-9]{0,8}", k):
      raise ValueError(f"{name!r}: a cutoff is a whole number from 1 to 999999999, got {k!r}.")
    if "k" in changed:
      raise ValueError(f"{name!r}: give the cutoff once, got k={changed['k']} and @{k}.")
    changed["k"] = int(k)
  if entry.name.dialect == "ir_measures":
    written = entry.name.spellings[0] + (f"({','.join(said)})" if said else "")
    name = written + (f"@{k}" if k else "")
  try:
    return Measure(entry.metric, name=name, **(dict(entry.name.fixed) | changed))
  except TypeError as error:
    reason = str(error).removeprefix("Measure: ")
    raise ValueError(f"{name!r}: {reason} {_instead(name, match)}") from None


def _shown(value: Any) -> str:
  """A literal in its canonical form, gains in the order of the labels."""
  if isinstance(value, dict):
    pairs = (f"{_shown(y)}:{_shown(g)}" for y, g in sorted(value.items()) if y != g)
    return f"{{{','.join(pairs)}}}"
  return repr(int(value) if type(value) is float and value % 1 == 0 else value)


def _instead(name: str, match: _Match) -> str:
  """Other dialects' ways to write a name that is not complete."""
  others = [other for other in _matches(name, _DIALECTS, fold=True) if other.entry != match.entry]
  ways = " or ".join(map(_way, (match, *others)))
  return f"Write {ways}."


def _default(description: Description, parameter: str) -> Any:
  return description.signature.parameters[parameter].default


def _value(name: str, argument: str, kind: Kind, said: Any) -> Any:
  """A literal as a value of the parameter."""
  if isinstance(kind.spelled, dict):
    allowed = " or ".join(map(repr, kind.spelled))
    if not isinstance(said, str) or said not in kind.spelled:
      raise ValueError(f"{name!r}: {argument} must be {allowed}, got {said!r}.")
    return kind.spelled[said]
  finite = not isinstance(said, float) or abs(said) < math.inf
  if type(said) not in kind.literals or not finite:
    raise ValueError(f"{name!r}: {argument} must be {kind.meaning}, got {said!r}.")
  value = int(said) if type(said) is float and said % 1 == 0 else said
  try:
    return kind.check(argument, value)
  except (TypeError, ValueError):
    raise ValueError(f"{name!r}: {argument} must be {kind.meaning}, got {said!r}.") from None


def _arguments(name: str, match: _Match) -> dict[str, Any]:
  """What the name says of parameters, in the order of the description."""
  takes, pieces = match.entry.name.arguments, match.pieces
  said = _literals(name, pieces.get("arguments") or "")
  if pieces.get("p"):
    said["p"] = float(f"0.{pieces['p']}")
  if pieces.get("rel"):
    # Graded measures of ranx drop the lower labels, which are whole numbers there.
    level = int(pieces["rel"] or 0)
    said |= {"gains": dict.fromkeys(range(1, level), 0)} if "gains" in takes else {"rel": level}
  unknown = [key for key in said if key not in takes]
  if unknown:
    allowed = " and ".join(takes) or "no parameters"
    raise ValueError(f"{name!r}: {pieces['name']} takes {allowed}, got {unknown[0]!r}.")
  return {key: said[key] for key in takes if key in said}


def _literals(name: str, text: str) -> dict[str, Any]:
  try:
    call: Any = ast.parse(f"_({text})", mode="eval").body
    said = {str(x.arg): ast.literal_eval(x.value) for x in call.keywords}
    if call.args or len(said) < len(call.keywords):
      raise SyntaxError
  except (SyntaxError, TypeError, ValueError):
    raise ValueError(f"{name!r}: parameters are written like (rel=2), got ({text}).") from None
  return said


def _remedy(name: str) -> str:
  head = re.split(r"[@(.]|_(?=[0-9])|-l(?=[0-9])", name)[0].casefold()
  if head in ("setf", "set_f", "f1"):
    return "f_measure divides by k, not by the number retrieved; give a cutoff, as in f1@10."
  ways: dict[str, list[str]] = {}
  for dialect in _DIALECTS:
    for entry in _entries()[dialect]:
      for spelling in entry.name.spellings:
        form = entry.name.form.replace(" ", "").replace("NAME", spelling)
        ways.setdefault(spelling.casefold(), []).append(f"{form} ({dialect})")
  if head in ways:
    return f"write {' or '.join(ways[head])}."
  near = [ways[x][0] for x in difflib.get_close_matches(head, ways)]
  return f"did you mean {' or '.join(near)}?" if near else "nothing is called so."
