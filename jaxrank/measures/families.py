"""The families and nicknames of trec_eval: `P` is `P_5`, `P_10` and so on."""

import re
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, get_args

from jaxrank._core import checks
from jaxrank._core.description import DECIMALS

_CUTOFFS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)

# Endings of the names of a family, by default.
_ENDINGS: Mapping[str, tuple[str, ...]] = {
  **dict.fromkeys(
    ("P", "recall", "ndcg_cut", "map_cut", "relative_P"), tuple(f"_{k}" for k in _CUTOFFS)
  ),
  "success": ("_1", "_5", "_10"),
  "unj": ("_5", "_10", "_20"),
  "iprec_at_recall": tuple(f"_{i / 10:.2f}" for i in range(11)),
  "Rprec_mult": tuple(f"_{i / 5:.2f}" for i in range(1, 11)),
}

# In the order in which trec_eval prints them.
_COUNTS = ("num_q", "num_ret", "num_rel", "num_rel_ret")
_SETS = ("set_P", "set_relative_P", "set_recall", "set_map", "set_F")
_RANKED = ("map", "gm_map", "Rprec", "bpref", "recip_rank", "iprec_at_recall", "P")
_OTHERS = ("recall", "infAP", "gm_bpref", "Rprec_mult", "utility", "11pt_avg", "binG", "G")
_GRADED = ("ndcg", "ndcg_rel", "Rndcg", "ndcg_cut")
_CUT = ("map_cut", "relative_P", "success")
_OFFICIAL = (*_COUNTS, *_RANKED)
_ALL = (*_OFFICIAL, *_OTHERS, *_GRADED, *_CUT, *_SETS, "num_nonrel_judged_ret")
_NEW = ("rbp", "rbp_resid", "unj")
_ALL_10 = (*_ALL, *_NEW)
# Lines that are texts, and no measures.
TEXTS = ("runid", "relstring")
_LINES = ("runid", *_OFFICIAL, "relstring", *_ALL_10[len(_OFFICIAL) :])
# Families whose numbers are shares, which trec_eval prints with two decimals.
_SHARES = ("iprec_at_recall", "Rprec_mult")
_PAIRS = rf"\w+={DECIMALS}(?:,\w+={DECIMALS})*"
# Measures with parameters, which trec_eval prints behind the name as they were written: how they
# are written, and an example.
_PARAMETERS: Mapping[str, tuple[str, str]] = {
  "relstring": ("[0-9]+", "10"),
  "utility": (rf"{DECIMALS}(?:,{DECIMALS}){{3}}", "1,-1,0,0"),
  "11pt_avg": (rf"{DECIMALS}(?:,{DECIMALS})*", ".25,.5,.75"),
  "set_F": (DECIMALS, "0.5"),
  **dict.fromkeys(("ndcg", "ndcg_rel", "Rndcg", "G"), (_PAIRS, "1=3,2=9")),
  "rbp": (_PAIRS, "p=0.95"),
}
# Measures without parameters, of which trec_eval ignores a number.
_IGNORING = ("gm_map", "gm_bpref")
NICKNAMES = ("official", "set", "all_trec")
Version = Literal["trec_eval", "trec_eval10"]


def words(text: str) -> list[str]:
  """The names of measures in a string, between blanks or commas.

  A comma inside parentheses, or among the parameters of `P.5,10`, `utility.1,-1,0,0` or
  `rbp.1=3,p=0.9`, ends no name.
  """
  return [x for x in re.split(r"(?:\s|,(?![-+.0-9]|\w+=))+(?![^(]*\))", text) if x]


def _nicknames(dialect: Version) -> Mapping[str, tuple[str, ...]]:
  every = _ALL if dialect == "trec_eval" else _ALL_10
  return dict(zip(NICKNAMES, (_OFFICIAL, (*_COUNTS, "utility", *_SETS), every), strict=True))


def trec_families(names: str | Iterable[str], dialect: Version = "trec_eval") -> tuple[str, ...]:
  """The names of single measures for families and nicknames of trec_eval.

  A family is a name without its numbers, such as `P` or `ndcg_cut`, and stands for the numbers that
  trec_eval prints by default. Nicknames are `official`, `set` and `all_trec`; their names are in
  the order in which trec_eval prints them. Other names stay as they are.

  >>> print(*trec_families("success map"))
  success_1 success_5 success_10 map

  Args:
    names: Names, or a string of names separated by spaces.
    dialect: "trec_eval" for version 9, or "trec_eval10", whose `all_trec` has more measures.

  Returns:
    Names for `jaxrank.parse` with the same dialect, without repetitions.
  """
  with checks.named("measures.trec_families"):
    checks.choice("dialect", dialect, get_args(Version))
    if not isinstance(names, Iterable) or isinstance(names, bytes):
      raise TypeError(f"names must be strings such as 'map', got {checks.told(names)}.")
    asked = names.split() if isinstance(names, str) else list(names)
    for name in asked:
      if not isinstance(name, str):
        raise TypeError(f"a name must be a string such as 'map', got {checks.told(name)}.")
  known = _nicknames(dialect)
  members = [member for name in asked for member in known.get(name, (name,))]
  return tuple(dict.fromkeys(x + end for x in members for end in _ENDINGS.get(x, ("",))))


class Line(NamedTuple):
  """A measure of the command line of trec_eval, or a text that it prints among them.

  Attributes:
    printed: The name that trec_eval prints.
    name: A name for `jaxrank.parse`, unless it is a text.
  """

  printed: str
  name: str

  @property
  def text(self) -> str | None:
    """The name of the text, without a parameter; None for a measure."""
    base = self.name.partition(".")[0]
    return base if base in TEXTS else None


def trec_lines(names: Iterable[str], dialect: Version = "trec_eval") -> tuple[Line, ...]:
  """The measures for names as trec_eval's option `-m` takes them, in the order of its lines.

  A family may have parameters, such as `P.5,10`, which take the place of its default numbers, also
  those of a nickname; a family has one list of them. They are sorted. Other names stay as they are,
  and come last.

  >>> print(*(line.printed for line in trec_lines(["map_cut.20,5", "map", "set_F.0.5", "RR@10"])))
  map map_cut_5 map_cut_20 set_F_0.5 RR@10
  """
  known = _nicknames(dialect)
  marked: dict[str, str] = {}
  lines: list[Line] = []
  for name in names:
    base, point, parameters = name.partition(".")
    if dialect == "trec_eval" and re.sub("_[0-9]+$", "", base) in _NEW:
      raise ValueError(
        f"{name!r} is a measure of trec_eval 10, and --trec prints the lines of version 9: write "
        "--trec10."
      )
    if base in known or base in _LINES:
      if point:
        _check_parameters(base, parameters)
      texts = TEXTS if base == "all_trec" else TEXTS[:1]
      for member in (*texts, *known[base]) if base in known else (base,):
        earlier = marked.get(member, "")
        if parameters and earlier not in ("", parameters) and base not in _IGNORING:
          both = f"write {base}.{earlier},{parameters}" if base in _ENDINGS else "leave one out"
          raise ValueError(f"'{base}.{earlier}' and {name!r}: {base} is printed once; {both}.")
        marked[member] = parameters or earlier
    else:
      lines.append(Line(name, name))
  lines += [line for base, parameters in marked.items() for line in _lines(base, parameters)]
  return tuple(sorted(dict.fromkeys(lines), key=lambda line: _place(line.printed)))


def _lines(base: str, parameters: str) -> list[Line]:
  """The lines of a family, or of a measure, with parameters or without."""
  if base not in _ENDINGS:
    kept = parameters if base in _PARAMETERS else ""
    return [Line(f"{base}_{kept}", f"{base}.{kept}") if kept else Line(base, base)]
  if not parameters:
    return [Line(base + end, base + end) for end in _ENDINGS[base]]
  lines: dict[str, Line] = {}
  for text in parameters.split(","):
    is_share = base in _SHARES
    printed = f"{base}_{float(text):.2f}" if is_share else f"{base}_{int(float(text))}"
    if printed in lines:
      raise ValueError(f"'{base}.{parameters}': {printed} comes twice; drop one.")
    lines[printed] = Line(printed, f"{base}_{text}" if is_share else printed)
  return [*lines.values()]


def _check_parameters(base: str, parameters: str) -> None:
  """Raises `ValueError` for parameters that the measure, family or nickname does not have."""
  if base in _ENDINGS:
    one, example = (DECIMALS, "0.5,1") if base in _SHARES else ("[0-9]*[1-9][0-9]*", "5,10")
    # As in its own tests, trec_eval cuts 23.4 in a list to 23; 5.10 alone is no list.
    pattern = f"{one}(?:,{DECIMALS})*"
  else:
    pattern, example = _PARAMETERS.get(base, (DECIMALS if base in _IGNORING else "", ""))
  written = f"'{base}.{parameters}'"
  if not pattern:
    raise ValueError(f"{written}: {base} has no parameters; write {base}.")
  if not re.fullmatch(pattern, parameters):
    example = f" or {base}.{example}" if example else ""
    fault = f"{base} does not take {parameters!r}" if parameters else "nothing follows the point"
    raise ValueError(f"{written}: {fault}; write {base}{example}.")


def _place(name: str) -> tuple[int, float]:
  """Where trec_eval prints a line: at the place of its family, by its number."""
  base, _, number = name.rpartition("_")
  if base in _LINES and re.fullmatch(r"[0-9]+\.?[0-9]*", number):
    return _LINES.index(base), float(number)
  family = max((x for x in _LINES if f"{name}_".startswith(f"{x}_")), key=len, default=None)
  return (len(_LINES) if family is None else _LINES.index(family)), 0.0
