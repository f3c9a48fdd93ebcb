"""`python -m tests.house.built_site docs/_build/html`: no link inside the built site is dead.

Links to other sites are not followed. Every notebook page must offer the notebook itself, run,
unless `--not-run` follows; and no table of Markdown may stand as text, with its bars.
"""

import html.parser
import json
import pathlib
import re
import sys
import urllib.parse

ANCHORS, LINKS = ("id", "name"), ("href", "src")
CODE = ("pre", "code", "math", "script", "style")


class Page(html.parser.HTMLParser):
  """The anchors of a page, and what it links to."""

  def __init__(self, path: pathlib.Path):
    super().__init__()
    self.anchors: set[str] = set()
    self.links: list[str] = []
    self.text: list[str] = []  # without code and formulas
    self._inside = 0
    self.feed(path.read_text(encoding="utf-8"))

  def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
    self.anchors |= {value for name, value in attrs if name in ANCHORS and value}
    self.links += [value for name, value in attrs if name in LINKS and value]
    self._inside += tag in CODE

  def handle_endtag(self, tag: str) -> None:
    self._inside -= tag in CODE

  def handle_data(self, data: str) -> None:
    if not self._inside:
      self.text.append(data)


def dead(pages: dict[pathlib.Path, Page]) -> list[str]:
  """The links whose file or anchor does not exist."""
  found = []
  for path, page in pages.items():
    for link in page.links:
      parts = urllib.parse.urlsplit(link)
      if parts.scheme or parts.netloc:
        continue
      target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
      anchors = pages[target].anchors if target in pages else {parts.fragment}
      anchor = urllib.parse.unquote(parts.fragment)
      if not target.exists() or (anchor and anchor not in anchors):
        found.append(f"{path}: {link}")
  return found


def without_results(pages: dict[pathlib.Path, Page]) -> list[str]:
  """The pages of notebooks that do not offer a notebook with results."""
  found = []
  for path, page in pages.items():
    if path.parent.name == "notebooks":
      links = [path.parent / link for link in page.links if link.endswith(f"{path.stem}.ipynb")]
      cells = [json.loads(link.read_text(encoding="utf-8"))["cells"] for link in links]
      if not any(cell.get("outputs") for notebook in cells for cell in notebook):
        found.append(str(path))
  return found


def with_bars(pages: dict[pathlib.Path, Page]) -> list[str]:
  """The pages that show a row of a table as text."""
  row = re.compile(r"^\s*\|.*\|\s*$", re.M)
  return [str(path) for path, page in pages.items() if row.search("".join(page.text))]


def main(folder: str, *options: str) -> None:
  """Prints what is wrong, and exits with 1 if anything is."""
  pages = {path.resolve(): Page(path) for path in pathlib.Path(folder).rglob("*.html")}
  wrong = [f"dead link: {x}" for x in dead(pages)]
  if options != ("--not-run",):
    wrong += [f"no notebook: {x}" for x in without_results(pages)]
  wrong += [f"a table as text: {x}" for x in with_bars(pages)]
  print("\n".join(wrong))
  print(f"{len(pages)} pages, {sum(len(page.links) for page in pages.values())} links")
  sys.exit(bool(wrong) or not pages)


if __name__ == "__main__":
  main(*sys.argv[1:])
