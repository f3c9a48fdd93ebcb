"""Formulas of docstrings, which are plain text for `help()`, as LaTeX for the site."""

import re

_COMMANDS = {
  **{
    x: rf"\{x}"
    for x in ["sum", "prod", "max", "min", "log", "exp", "cos", "alpha", "beta", "tau", "rho", "pi"]
  },
  **{
    "log2": r"\log_{2}",
    "log10": r"\log_{10}",
    "psi1": r"\psi_{1}",
    "integral": r"\int",
    "Im": r"\text{Im}",
    "<-": r"\leftarrow",
    "<=": r"\leq",
    ">=": r"\geq",
    "!=": r"\neq",
    "...": r"\dots",
    "&": r"\cap",
  },
  **{"{": r"\{", "}": r"\}", "%": r"\%", "**": "^"},
}
_TOKEN = re.compile(
  r"""
  (?P<braces>[_^]\{)            # an index or exponent in braces, as in sum_{r_i <= k}
  |(?P<power>(\^|\ ?\*\*\ ?)\()  # an exponent in parentheses, which LaTeX does not need
  |(?P<order>_\()               # the index of an order statistic, as in z_(r)
  |(?P<root>sqrt\()
  |(?P<index>[_^]-?[A-Za-z0-9]+(_\w+)?)
  |(?P<at>[A-Za-z0-9-]+@)       # the name of a metric with a cut-off, as in ERR-IA@k
  |(?P<word>(?:[A-Za-z0-9]+-)*[A-Za-z0-9]*[A-Za-z][A-Za-z0-9]*)
  |(?P<sign><=|>=|!=|<-(?=\ )|\.\.\.|.)
  """,
  re.VERBOSE,
)
_CODE = re.compile(r"==|\w\.\w|\[:|\*\*\w| @ |\"")

# Names of the code among the formulas: calls without arguments, attributes, files and options.
_NAME = re.compile(
  r"[A-Za-z_]\.[A-Za-z_]|\(\)|^_|\.py| -m |\"|^\[[\d ]|<<|\w=\w|^[A-Za-z]+/[a-z_]+$"
)


def is_formula(text: str) -> bool:
  """Whether code is an equation of mathematics: `y = f(x)` with a sign, an index or a call."""
  return " = " in text and bool(re.search(r"[_^/(]| [-+] ", text)) and not _CODE.search(text)


def is_mathematics(text: str) -> bool:
  """Whether code on the page of the mathematics is a symbol or a formula, not a name."""
  symbol = re.fullmatch(r"(?:[A-Za-z]|[A-Za-z]+_[A-Za-z0-9]|d[wz]|[A-Z]_[a-z]{2})'?", text)
  return bool(symbol) or not (_NAME.search(text) or re.fullmatch(r"[~\w.-]+", text))


def block(text: str) -> str:
  """A displayed formula in LaTeX: its lines are aligned at their relations, or at their starts."""
  rows = [_row(line.strip()) for line in text.strip("\n").splitlines()]
  at = [re.search(r" ?(=|\\leftarrow) ", row.partition(r"\quad")[0]) for row in rows]
  if len(rows) == 1:
    return rows[0]
  if all(at):
    rows = [f"{row[: x.start()]} &{row[x.start() :]}" for row, x in zip(rows, at, strict=True) if x]
  else:
    rows = [f"& {row}" for row in rows]
  return r"\begin{split} " + r" \\ ".join(rows) + r" \end{split}"


def _row(line: str) -> str:
  """A line, in which three spaces or more stand between formulas and words about them."""
  parts = re.split(r"\s{3,}", re.sub(r"\s+(=|<-) ", r" \1 ", line))
  return r" \quad ".join(
    latex(part) if re.search(r"[=+*/^({]", part) else rf"\text{{{part}}}" for part in parts
  )


def latex(text: str) -> str:
  """The formula in LaTeX."""
  return _converted(" ".join(text.split()))


def _converted(text: str) -> str:
  out, at = [], 0
  while at < len(text):
    token = _TOKEN.match(text, at)
    kind, found, at = token.lastgroup, token[0], token.end()
    if kind in ("braces", "power", "order", "root"):
      end = _closing(text, at)
      inner = _converted(text[at:end])
      start = {"braces": found[0], "power": "^", "order": "_", "root": r"\sqrt"}[kind]
      out.append(f"{start}{{({inner})}}" if kind == "order" else f"{start}{{{inner}}}")
      at = end + 1
    elif kind == "index":
      out.append(f"{found[0]}{{{_index(found[1:])}}}")
    else:
      word = rf"\text{{{found}}}" if kind == "at" else _word(found) if kind == "word" else found
      out.append(_COMMANDS.get(word, word))
      if len(out) > 2 and out[-2] == " " and out[-3] not in "=/+-,<>":
        out[-2] = _space(out[-3], found, word)
  return "".join(out)


def _space(before: str, found: str, word: str) -> str:
  """The space between two tokens: wide beside words, and thin between factors."""
  operator = not re.match(r"[\w(\[|]", found)
  if r"\text" in before + word:
    return "" if operator else r"\ "
  return " " if operator or before.startswith("\\") or not re.search(r"[\w})]$", before) else r"\,"


def _word(word: str) -> str:
  """A variable of one letter, a command, a number, or else upright text."""
  if word in _COMMANDS:
    return _COMMANDS[word] + " "
  if re.fullmatch(r"\w(-\w)*", word):  # A difference of variables, as in i-r.
    return word
  return rf"\text{{{word}}}"


def _index(text: str) -> str:
  """An index or exponent: letters, a number, or a variable with an index of its own."""
  name, _, sub = text.partition("_")
  if len(name) > 1 and sub:
    return rf"\text{{{name}\_{sub}}}"
  name = name if len(name) < 3 else rf"\text{{{name}}}"
  return f"{name}_{{{sub}}}" if sub else name


def _closing(text: str, at: int) -> int:
  """The index of the bracket that closes the one before `at`."""
  depth = 1
  while depth:
    depth += (text[at] in "({[") - (text[at] in ")}]")
    at += 1
  return at - 1
