"""Every notebook of the site runs, outside of Jupyter, without a warning."""

import re
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.helpers.suites import thorough

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.md"))
HEADER = """\
---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  name: python3
---

# """


def cells(path):
  """The code of each cell."""
  return re.findall(r"^```\{code-cell\}\n(.*?)^```", path.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_have_the_header_and_cells(path):
  text = path.read_text(encoding="utf-8")
  assert text.startswith(HEADER)
  assert text.count("```{") == len(cells(path)) >= 9
  # The width of a page: longer lines would be cut off.
  assert max(len(line) for code in cells(path) for line in code.splitlines()) <= 88


@pytest.fixture
def names():
  """What the cells of a notebook define, under the settings that users of JAX have."""
  pyplot = pytest.importorskip("matplotlib.pyplot")
  pyplot.switch_backend("Agg")
  with (
    pyplot.rc_context(),
    np.printoptions(),
    jax.numpy_dtype_promotion("standard"),
    jax.numpy_rank_promotion("allow"),
    warnings.catch_warnings(),
  ):
    warnings.simplefilter("error")
    yield {}
  pyplot.close("all")


# The site, which a workflow builds after each change, runs them too.
@thorough
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, names):
  pyplot = pytest.importorskip("matplotlib.pyplot")
  for module in ("optax", "pyarrow", "sklearn"):
    pytest.importorskip(module)
  for number, code in enumerate(cells(path)):
    exec(compile(code, f"{path.name}, cell {number}", "exec"), names)
  CLAIMS[path.stem](names)
  assert pyplot.get_fignums()


def quickstart(names):
  """The ranker ranks new queries well, and the loss pulls up what is relevant."""
  assert names["evaluator"].compute(names["state"])["nDCG@10"] > 0.9
  slope = jax.grad(names["loss"])(names["scores"])
  assert (np.where(names["labels"] > 0, slope, 0) <= 0).all()
  assert slope[1, 3] == 0


def learning_to_rank(names):
  """All losses come close to the ceiling, the softmax first, and cold rankings learn slowly."""
  last = {name: curve[:, -1].mean() for name, curve in names["curves"].items()}
  assert all(names["chance"] + 0.4 < value < names["ceiling"] for value in last.values())
  assert max(last.values()) - min(last.values()) < 0.02
  early = {name: curve[:, 4].mean() for name, curve in names["curves"].items()}
  assert early["softmax"] > early["lambda_rank"] > early["approx_ndcg"] + 0.03
  final = names["by_temperature"][..., -1].mean(1)
  assert final[0] < final[1] < final[2] < final[3]
  assert np.ptp(final[3:]) < 0.02


def retrieval_training(names):
  """Training helps new images, and the smooth precision stays below the exact one."""
  assert names["values"]["AP"] > 0.93
  assert names["precision"].mean() < 0.7
  assert (names["smooth"] <= names["exact"]).all()


def sweeps(names):
  """The best temperatures are in the middle; a low one costs the smooth nDCG little."""
  by_temperature = {name: x.mean(-1).max(-1) for name, x in names["means"].items()}
  assert all(2 <= x.argmax() <= 5 for x in by_temperature.values())
  smooth, softmax = by_temperature["smooth_ndcg"], by_temperature["softmax"]
  assert smooth.max() - smooth[0] < 0.03 < softmax.max() - softmax[0]
  assert all(x.max() - x[-1] > 0.05 for x in by_temperature.values())


CLAIMS = {f.__name__: f for f in (quickstart, learning_to_rank, retrieval_training, sweeps)}


def test_every_notebook_has_claims():
  assert [path.stem for path in NOTEBOOKS] == sorted(CLAIMS)
