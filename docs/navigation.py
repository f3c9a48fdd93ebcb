"""The order of the pages in the sidebar: groups, their pages, and the pages below each of them.

`docs/conf.py` adds them to the pages as tables of contents, so that no page has directives that
GitHub would show as code.
"""

GROUPS: dict[str, dict[str, list[str]]] = {
  "Start": {
    "notebooks/quickstart": [],
    "which": [],
    "conventions": ["glossary", "contents"],
    "troubleshooting": [],
  },
  "Evaluate": {
    "metrics": ["curves", "chance"],
    "jitted_step": [],
    "trec": ["command", "comparison", "fusion", "judges"],
  },
  "Train": {
    "losses": [
      "temperature",
      "notebooks/learning_to_rank",
      "notebooks/retrieval_training",
      "preferences",
      "clicks",
      "fairness",
      "ranker",
      "boosting",
      "soft",
      "plackett_luce",
    ],
    "sweeps": ["notebooks/sweeps"],
  },
  "Data and scale": {
    "features": ["pipelines"],
    "scale": ["catalogues"],
  },
  "Background": {
    "extending": ["testing", "mathematics", "gallery", "internals"],
    "peers": ["interop"],
    "reference/index": [],
    "project": [
      "benchmarks",
      "training",
      "accelerators",
      "stability",
      "CHANGELOG",
      "CONTRIBUTING",
      "SECURITY",
    ],
  },
}


def contents(page: str) -> str:
  """What a page gets at its end: the pages below it, hidden from its text."""
  if page == "index":
    return "".join(_tree(list(pages), title) for title, pages in GROUPS.items())
  below = {page: pages for group in GROUPS.values() for page, pages in group.items()}
  return _tree(below[page]) if below.get(page) else ""


def _tree(pages: list[str], caption: str = "") -> str:
  options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
  lines = ["```{toctree}", *options, "", *(f"/{page}" for page in pages), "```"]
  return "\n\n" + "\n".join(lines) + "\n"
