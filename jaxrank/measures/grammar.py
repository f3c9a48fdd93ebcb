"""Names of measures: ir_measures, trec_eval, ranx, LlamaIndex and our own, read as calls.

A name means what its dialect means: `nDCG@10` has linear gain, `ERR@20` a highest grade of 4, and
`AP` finds labels of 1 and more relevant. The functions of jaxrank are read last and mean what they
do when called: `precision` is ranx's, over the number retrieved, and `precision()` is ours.
"""

import ast
import difflib
import functools
import math
import re
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Spec:
  """A measure as a call: `metric(scores, labels, **dict(parameters))`.

  Attributes:
    name: the key of its values: as ir_measures prints it, with the parameters that are not
      defaults, or in another dialect as it was written.
    metric: the name of a function of jaxrank.
    parameters: pairs, sorted; what is missing is the function's default. A `gain` is "linear",
      "exponential", or pairs of a label and its gain: labels not among them keep linear gain.
  """

  name: str
  metric: str
  parameters: tuple[tuple[str, Hashable], ...] = ()


class _Parameter(NamedTuple):
  field: str
  read: Callable[[Any], Any]
  allowed: str


class _Meaning(NamedTuple):
  metric: str
  takes: tuple[str, ...]
  fixed: dict[str, Any]


class _Form(NamedTuple):
  dialect: str
  template: str
  pattern: str
  names: dict[str, str]


def _number(low: float = -math.inf, high: float = math.inf) -> Callable[[Any], Any]:
  def read(value: Any) -> float | None:
    if type(value) not in (int, float) or not low <= value <= high or abs(value) == math.inf:
      return None
    return int(value) if value % 1 == 0 else value

  return read


def _choice(field: str, choices: dict[str, str]) -> _Parameter:
  allowed = " or ".join(map(repr, choices))
  return _Parameter(field, lambda x: choices.get(x) if isinstance(x, str) else None, allowed)


def _gains(table: Any) -> Any:
  """Pairs of label and gain; as in ir_measures, a label that is not named keeps its own."""
  read = _number(low=0)
  pairs = [(read(x), read(y)) for x, y in table.items()] if isinstance(table, dict) else [(None,)]
  if any(None in pair for pair in pairs):
    return None
  return tuple(sorted(pair for pair in pairs if len(set(pair)) > 1)) or "linear"


_PARAMETERS = {
  "rel": _Parameter("rel", _number(), "a number"),
  "dcg": _choice("gain", {"log2": "linear", "exp-log2": "exponential"}),
  "gains": _Parameter("gain", _gains, "labels with gains from 0, like {0: 0, 1: 1, 2: 5}"),
  "p": _Parameter("persistence", _number(0, 1), "a number from 0 to 1"),
  "persistence": _Parameter("persistence", _number(0, 1), "a number from 0 to 1"),
  "beta": _Parameter("beta", _number(low=0), "a number from 0"),
  "level": _Parameter("level", _number(0, 1), "a number from 0 to 1"),
  "max_label": _Parameter("max_label", _number(low=0), "a number from 0"),
  "divisor": _choice("divisor", {x: x for x in ("k", "retrieved")}),
  "normalizer": _choice("normalizer", {x: x for x in ("relevant", "cutoff", "retrieved")}),
}


def _means(metric: str, takes: str = "", **fixed: Any) -> _Meaning:
  return _Meaning(metric, tuple(takes.split()), fixed)


_binary = functools.partial(_means, takes="rel", rel=1)

_MEANINGS = {
  "AP": _binary("average_precision"),
  "DCG": _means("dcg", "gains", gain="linear"),
  "DCG_burges": _means("dcg", gain="exponential"),
  "ERR": _means("err", max_label=4),
  "F": _binary("f_measure"),
  "P": _binary("precision"),
  "R": _binary("recall"),
  "RBP": _means("rbp", "p rel", persistence=0.8),
  "RBP.95": _means("rbp", "p rel", rel=1),
  "RR": _binary("reciprocal_rank"),
  "Rprec": _binary("r_precision"),
  "SetP": _binary("precision", divisor="retrieved"),
  "SetR": _binary("recall"),
  "Success": _binary("hit_rate"),
  "nDCG": _means("ndcg", "dcg gains", gain="linear"),
  "nDCG_burges": _means("ndcg", gain="exponential"),
}
_OURS = {
  "": "kendall_tau ordered_pair_accuracy spearman",
  "max_label": "err nerr",
  "rel": "auc eleven_point_average fall_out hit_rate r_precision recall reciprocal_rank",
  "rel beta": "f_measure",
  "rel divisor": "precision",
  "rel level": "interpolated_precision",
  "rel normalizer": "average_precision",
  "rel persistence": "rbp",
}
_MEANINGS |= {name: _means(name, takes) for takes, x in _OURS.items() for name in x.split()}

_PIECES = {
  "NAME": r"(?P<name>[A-Za-z][\w-]*?)",
  "[(...)]": r"(?:\((?P<arguments>[^()]*)\))?",
  "@10": r"@(?P<k>.+?)",
  "[@10]": r"(?:@(?P<k>.+?))?",
  "_10": r"[._](?P<k>[0-9]+)",
  "[-l2]": r"(?:-l(?P<rel>[0-9]{1,2}))?",
  ".95": r"[.@](?P<p>[0-9]+)",
}


def _form(dialect: str, template: str, names: str) -> _Form:
  """A way to write names; each is a key of `_MEANINGS`, or is followed by `=` and one."""
  pattern = "".join(_PIECES[piece] for piece in template.split())
  keys = {name.split("=")[0]: name.split("=")[-1] for name in names.split()}
  return _Form(dialect, template.replace(" ", ""), pattern, keys)


_DIALECTS = (
  _form("ir_measures", "NAME [(...)] [@10]", "nDCG AP MAP=AP RR MRR=RR RBP ERR"),
  _form("ir_measures", "NAME [(...)] @10", "P Precision=P R Recall=R Success"),
  _form("ir_measures", "NAME [(...)]", "Rprec SetP SetR"),
  _form("trec_eval", "NAME", "map=AP recip_rank=RR Rprec ndcg=nDCG set_P=SetP set_recall=SetR"),
  _form("trec_eval", "NAME _10", "P recall=R map_cut=AP ndcg_cut=nDCG success=Success"),
  _form("ranx", "NAME [@10] [-l2]", "map=AP mrr=RR recall=R hit_rate=Success dcg=DCG ndcg=nDCG"),
  _form("ranx", "NAME [@10]", "dcg_burges=DCG_burges ndcg_burges=nDCG_burges"),
  _form("ranx", "NAME @10 [-l2]", "precision=P f1=F"),
  _form("ranx", "NAME [-l2]", "precision=SetP r-precision=Rprec"),
  _form("ranx", "NAME .95 [-l2]", "rbp=RBP.95"),
  _form("LlamaIndex", "NAME", "hit_rate=Success mrr=RR precision=SetP recall=R ap=AP ndcg=nDCG"),
)
# Not dcg and ndcg: `ndcg(...)` is nDCG, lest two spellings of a name differ in gain.
_OWN = (
  _form("jaxrank", "NAME [(...)] [@10]", "precision recall f_measure hit_rate reciprocal_rank"),
  _form("jaxrank", "NAME [(...)] [@10]", "average_precision fall_out err nerr rbp"),
  _form("jaxrank", "NAME [(...)]", "r_precision auc kendall_tau spearman ordered_pair_accuracy"),
  _form("jaxrank", "NAME [(...)]", "interpolated_precision eleven_point_average"),
)
_HOW = (
  "Names look like nDCG@10 or AP(rel=2)@100 (ir_measures), map or ndcg_cut.5,10 (trec_eval), "
  "mrr@10, map@100-l2 or rbp.95 (ranx), fall_out@10 or f_measure(beta=2)@10 (jaxrank)."
)


def parse_names(names: str | Iterable[str]) -> list[Spec]:
  """Reads names of measures, in any dialect and any mixture of them.

  A name that fits but for its case is taken if it can mean only one thing.

  >>> for spec in parse_names("NDCG@10 P.5,10 rbp.95 f_measure(beta=2)@5"):
  ...   print(spec.name, "is", spec.metric, dict(spec.parameters))
  nDCG@10 is ndcg {'gain': 'linear', 'k': 10}
  P.5 is precision {'k': 5, 'rel': 1}
  P.10 is precision {'k': 10, 'rel': 1}
  rbp.95 is rbp {'persistence': 0.95, 'rel': 1}
  f_measure(beta=2)@5 is f_measure {'beta': 2, 'k': 5}

  Args:
    names: a string of names between spaces or commas, or several such strings.

  Returns:
    One `Spec` per measure in the order of the names, none twice.

  Raises:
    TypeError: if a name is not a string.
    ValueError: if a string names nothing, or a name is unknown, ambiguous or badly written.
  """
  if isinstance(names, bytes) or not isinstance(names, str | Iterable):
    raise TypeError(f"Measures are named by one string or several, got {names!r}.")
  texts = [names] if isinstance(names, str) else names
  return list(dict.fromkeys(_read(name) for text in texts for name in _split(text)))


def _split(text: str) -> list[str]:
  if not isinstance(text, str):
    raise TypeError(f"A measure is named by a string, got {text!r}.")
  names = []
  # Not inside parentheses, and not at the comma of `P.5,10`, which is `P.5` and `P.10`.
  for name in filter(None, re.split(r"(?:\s|,(?![0-9]))+(?![^(]*\))", text)):
    listed = re.fullmatch(r"(.+[@._])([0-9,]+)", name)
    names += [listed[1] + k for k in listed[2].split(",")] if listed else [name]
  if not names:
    raise ValueError(f"{text!r} names no measure. {_HOW}")
  return names


@functools.lru_cache(maxsize=1024)
def _read(name: str) -> Spec:
  for fold in (str, str.casefold):
    for forms in (_DIALECTS, _OWN):
      found = [
        (form.dialect, _spec(name, form, key, parts))
        for form in forms
        if (parts := re.fullmatch(form.pattern, name))
        for spelling, key in form.names.items()
        if fold(parts["name"]) == fold(spelling)
      ]
      if len({(spec.metric, spec.parameters) for _, spec in found}) > 1:
        dialects = " or ".join(dialect for dialect, _ in found)
        raise ValueError(f"{name!r} may be {dialects}, which differ: mind upper and lower case.")
      if found:
        return found[0][1]
  raise ValueError(f"{name!r} is no name of a measure: {_remedy(name)} {_HOW}")


def _spec(name: str, form: _Form, key: str, parts: re.Match[str]) -> Spec:
  metric, takes, fixed = _MEANINGS[key]
  changed: dict[str, Any] = {}
  texts = []
  for argument, said in _arguments(name, takes, parts.groupdict("")).items():
    field, read, allowed = _PARAMETERS[argument]
    value = read(said)
    if value is None:
      raise ValueError(f"{name!r}: {argument} must be {allowed}, got {said!r}.")
    if field in changed:
      raise ValueError(f"{name!r}: give {' or '.join(takes)}, not both.")
    if value != fixed.get(field):
      changed[field] = value
      shown = dict(value) if isinstance(value, tuple) else said if isinstance(said, str) else value
      texts.append(f"{argument}={shown!r}".replace(" ", ""))
  k = parts.groupdict().get("k")
  if k:
    if not re.fullmatch("[1-9][0-9]{0,8}", k):
      raise ValueError(f"{name!r}: a cutoff is a whole number from 1 to 999999999, got {k!r}.")
    changed["k"] = int(k)
  if form.dialect == "ir_measures":
    name = key + (f"({','.join(texts)})" if texts else "") + (f"@{k}" if k else "")
  return Spec(name, metric, tuple(sorted((fixed | changed).items())))


def _arguments(name: str, takes: tuple[str, ...], parts: dict[str, str]) -> dict[str, Any]:
  """What the name says of parameters, in the order of `takes`."""
  said = _literals(name, parts.get("arguments", ""))
  if "p" in parts:
    said["p"] = float(f"0.{parts['p']}")
  if parts.get("rel"):
    # Graded measures of ranx drop the lower labels, which are whole numbers there.
    level = int(parts["rel"])
    said |= {"gains": dict.fromkeys(range(1, level), 0)} if "gains" in takes else {"rel": level}
  unknown = [key for key in said if key not in takes]
  if unknown:
    allowed = " and ".join(takes) or "no parameters"
    raise ValueError(f"{name!r}: {parts['name']} takes {allowed}, got {unknown[0]!r}.")
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
  for form in (*_DIALECTS, *_OWN):
    for spelling in form.names:
      way = f"{form.template.replace('NAME', spelling)} ({form.dialect})"
      ways.setdefault(spelling.casefold(), []).append(way)
  if head in ways:
    return f"write {' or '.join(ways[head])}."
  near = [ways[x][0] for x in difflib.get_close_matches(head, ways)]
  return f"did you mean {' or '.join(near)}?" if near else "nothing is called so."


# The names of LlamaIndex, which has no cutoffs and no parameters.
ALIASES = {
  name: _read(name) for form in _DIALECTS if form.dialect == "LlamaIndex" for name in form.names
}
