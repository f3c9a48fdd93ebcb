"""Writes the files that follow from the public names and the descriptions of metrics.

Run `python -m tests.house` from a clone after a change of these that is meant. The files are
`public_api.txt`, tables of `docs/metrics.md`, `docs/losses.md` and `docs/internals.md`, the
reference pages of metrics and losses, and the numbers that several pages repeat.
"""

from tests.house import derived

if __name__ == "__main__":
  for path, text in derived.FILES.items():
    path.write_text(text(), encoding="utf-8")
