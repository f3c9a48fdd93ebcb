"""Writes the files that follow from the public names and the descriptions of metrics.

Run `python -m tests.house` from a clone after a change of these that is meant. The files are
`public_api.txt`, the tables of `docs/metrics.md`, and the reference pages of metrics and losses.
"""

from tests.house import metric_table, public_api, reference

if __name__ == "__main__":
  public_api.FILE.write_text(public_api.text(), encoding="utf-8")
  metric_table.PAGE.write_text(metric_table.page(), encoding="utf-8")
  for page, package in reference.PAGES.items():
    page.write_text(reference.text(package), encoding="utf-8")
