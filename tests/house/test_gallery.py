"""Every picture of the gallery has the script that draws it, and the scripts run."""

import json
import re
import runpy
import sys
from pathlib import Path

import jax
import pytest

from tests.helpers.suites import thorough

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "gallery"
PAGE = (DOCS / "gallery.md").read_text(encoding="utf-8")
PANELS = sorted(re.findall(r"\]\(gallery/([\w-]+)\.svg\)", PAGE))
PICTURES = sorted({panel.rpartition("-")[0] for panel in PANELS})


def test_every_picture_has_a_script_and_a_command():
  assert sorted(path.stem for path in FOLDER.glob("*.svg")) == PANELS
  assert sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "style") == PICTURES
  assert sorted(re.findall(r"`python docs/gallery/(\w+)\.py`", PAGE)) == PICTURES
  assert all((FOLDER / f"{name}.svg").stat().st_size < 100_000 for name in PANELS)


@thorough
@pytest.mark.parametrize("name", PICTURES)
def test_scripts_draw(name, tmp_path, monkeypatch):
  pytest.importorskip("matplotlib")
  out = tmp_path / f"{name}.svg"
  monkeypatch.syspath_prepend(FOLDER)
  monkeypatch.setattr(sys, "argv", [f"{name}.py", "--out", str(out)])
  with jax.numpy_rank_promotion("allow"):
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
  panels = sorted(tmp_path.glob("*.svg"))
  assert [path.stem for path in panels] == [x for x in PANELS if x.rpartition("-")[0] == name]
  for path in panels:
    drawn, kept = (x.read_text(encoding="utf-8") for x in (path, FOLDER / path.name))
    # As many lines, names and maps as in the picture of the page.
    assert drawn.count("<g id=") == kept.count("<g id=")


@thorough
def test_the_costs_are_measured_anew(tmp_path, monkeypatch):
  """On short lists, with the peers that are installed."""
  from tests.benchmarks import scaling

  out = tmp_path / "cost.json"
  small = ["--lengths", "10", "30", "--rounds", "1", "--out", str(out)]
  monkeypatch.setattr(sys, "argv", ["scaling", *small])
  with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
    scaling.main()
  measured, kept = (json.loads(x.read_text()) for x in (out, FOLDER / "cost.json"))
  assert measured.keys() == kept.keys()
  for what, sides in measured["seconds"].items():
    assert sides.keys() <= kept["seconds"][what].keys()
    assert all(time > 0 for times in sides.values() for time in times)
