"""The blocks of `docs/peers.md`, which run wherever the libraries that they import are installed.

This file needs the standard library only, because TensorFlow Ranking cannot be installed beside
jaxrank: `python -m tests.helpers.peers_page`, by the Python of any environment, runs what it can.
"""

import doctest
import importlib.metadata
import importlib.util
import re
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[2] / "docs" / "peers.md"
TEXT = PAGE.read_text(encoding="utf-8")


class Block(NamedTuple):
  """A code block: its section, its source, and the modules that it imports."""

  section: str
  number: int
  source: str
  modules: tuple[str, ...]

  @property
  def missing(self) -> list[str]:
    """The modules that are not installed."""
    return [name for name in self.modules if importlib.util.find_spec(name) is None]


def blocks() -> list[Block]:
  """All blocks of the page in order."""
  found = []
  for part in re.split(r"^## ", TEXT, flags=re.M)[1:]:
    for number, source in enumerate(re.findall(r"^```python\n(.*?)^```", part, re.M | re.S)):
      modules = re.findall(r"^>>> (?:import|from) (\w+)", source, re.M)
      found.append(Block(part.partition("\n")[0], number, source, tuple(dict.fromkeys(modules))))
  return found


def run(block: Block) -> str:
  """The report of what differs from the page, empty if nothing does; the cases are there."""
  cases = next(x for x in blocks() if x.section == "One list in eight libraries")
  names: dict[str, object] = {}
  report: list[str] = []
  for source in (cases, block):
    test = doctest.DocTestParser().get_doctest(source.source, names, source.section, None, 0)
    doctest.DocTestRunner(verbose=False).run(test, out=report.append, clear_globs=False)
    names = test.globs
  return "".join(report)


def table(heading: str) -> dict[str, list[str]]:
  """The rows of the table under a heading, by their first cell."""
  lines = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0].splitlines()
  rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")]
  return {row[0]: row[1:] for row in rows[2:]}


def libraries() -> list[str]:
  """The libraries in the order of the page."""
  return list(table("What each is for"))


def versions() -> dict[str, str]:
  """The version of each library on the page, by the name of its package."""
  return {row[0].strip("`"): row[1] for row in table("What each is for").values()}


def values() -> dict[str, str]:
  """The row of values of each library, as its block prints them."""
  return {name: " ".join(row) for name, row in table("One list in eight libraries").items()}


def others() -> list[str]:
  """Packages whose installed version is not that of the page."""
  told = []
  for name, version in versions().items():
    try:
      installed = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
      continue
    if installed != version:
      told.append(f"{name} {installed} is installed, and the page is about {version}")
  return told


def main() -> None:
  """Runs the blocks and says what came of each."""
  for told in others():
    print(told)
  for block in blocks():
    missing = block.missing
    report = f"not installed: {', '.join(missing)}" if missing else run(block) or "as written"
    print(f"{block.section}, block {block.number + 1}: {report}")


if __name__ == "__main__":
  main()
