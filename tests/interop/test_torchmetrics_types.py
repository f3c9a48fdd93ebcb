"""What editors, type checkers and pickle see of the adapter of torchmetrics."""

import ast
import inspect
import pickle
import textwrap
from pathlib import Path

import pytest

from jaxrank.interop import torchmetrics as tm
from tests.helpers.suites import thorough

PACKAGE = Path(tm.__file__).parent
ROOT = Path(__file__).parents[2]
NAMES = [name for name in tm.__all__ if name != "RetrievalMetric"]
CLASSES = [name for name in NAMES if inspect.isclass(getattr(tm, name))]
FUNCTIONS = [name for name in NAMES if name not in CLASSES]

# The parameters after `preds` and `target`, or of `__init__`, as torchmetrics 1.9.0 has them.
COMMON = {"empty_target_action": "neg", "ignore_index": None}
MEAN = {"aggregation": "mean"}
CURVE = {"max_k": None, "adaptive_k": False}
EXPECTED = {
  "RetrievalMAP": COMMON | {"top_k": None} | MEAN,
  "RetrievalMRR": COMMON | {"top_k": None} | MEAN,
  "RetrievalPrecision": COMMON | {"top_k": None, "adaptive_k": False} | MEAN,
  "RetrievalRecall": COMMON | {"top_k": None} | MEAN,
  "RetrievalHitRate": COMMON | {"top_k": None} | MEAN,
  "RetrievalFallOut": COMMON | {"empty_target_action": "pos", "top_k": None} | MEAN,
  "RetrievalNormalizedDCG": COMMON | {"top_k": None} | MEAN,
  "RetrievalRPrecision": COMMON | MEAN,
  "RetrievalAUROC": COMMON | {"top_k": None, "max_fpr": None} | MEAN,
  "RetrievalPrecisionRecallCurve": CURVE | COMMON | MEAN,
  "RetrievalRecallAtFixedPrecision": {"min_precision": 0.0} | CURVE | COMMON | MEAN,
  "retrieval_average_precision": {"top_k": None},
  "retrieval_reciprocal_rank": {"top_k": None},
  "retrieval_precision": {"top_k": None, "adaptive_k": False},
  "retrieval_recall": {"top_k": None},
  "retrieval_hit_rate": {"top_k": None},
  "retrieval_fall_out": {"top_k": None},
  "retrieval_normalized_dcg": {"top_k": None},
  "retrieval_r_precision": {},
  "retrieval_auroc": {"top_k": None, "max_fpr": None},
  "retrieval_precision_recall_curve": CURVE,
}


@pytest.mark.parametrize("name", NAMES)
def test_signatures_are_those_of_the_source(name):
  """That of a function, or of the `__init__` of a class or of the base class that has one."""
  value = getattr(tm, name)
  found = dict(inspect.signature(value).parameters)
  function = value.__init__ if inspect.isclass(value) else value
  (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
  args = node.args
  arguments = [x for x in args.args if x.arg != "self"]
  defaults = [ast.literal_eval(x) for x in args.defaults]
  kwargs = [args.kwarg] if args.kwarg else []
  assert [*args.posonlyargs, *args.kwonlyargs, args.vararg] == [None]
  assert [*found] == [x.arg for x in [*arguments, *kwargs]]
  positional = [found[x.arg] for x in arguments]
  assert all(x.kind is x.POSITIONAL_OR_KEYWORD for x in positional)
  assert [x.default for x in positional if x.default is not x.empty] == defaults
  names = vars(inspect.getmodule(function))
  for argument in [*arguments, *kwargs]:
    assert found[argument.arg].annotation == eval(ast.unparse(argument.annotation), names)


@pytest.mark.parametrize("name", NAMES)
def test_signatures_are_those_of_torchmetrics(name):
  found = inspect.signature(getattr(tm, name)).parameters
  required = [x.name for x in found.values() if x.default is x.empty]
  assert required == (["kwargs"] if name in CLASSES else ["preds", "target"])
  defaults = [(x.name, x.default) for x in found.values() if x.default is not x.empty]
  assert defaults == [*EXPECTED[name].items()]


def test_every_name_of_torchmetrics_is_there():
  assert {*NAMES} == {*EXPECTED}
  assert (len(CLASSES), len(FUNCTIONS)) == (11, 10)


@pytest.mark.parametrize("name", tm.__all__)
def test_names_are_pickled_by_reference(name):
  value = getattr(tm, name)
  assert value.__qualname__ == value.__name__ == name
  assert getattr(inspect.getmodule(value), name) is value
  assert pickle.loads(pickle.dumps(value)) is value


@pytest.mark.parametrize("name", CLASSES)
def test_instances_keep_their_options_and_rows_in_a_pickle(name):
  options = EXPECTED[name] | {"empty_target_action": "skip", "aggregation": "max"}
  metric = getattr(tm, name)(**options, sync_on_compute=False)
  metric.update([0.2, 0.3, 0.5], [1, 0, 1], indexes=[0, 0, 0])
  copied = pickle.loads(pickle.dumps(metric))
  assert type(copied) is type(metric)
  assert {key: getattr(copied, key) for key in options} == options
  assert str(copied.compute()) == str(metric.compute())


SNIPPET = """\
from typing import Any, assert_type

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from jaxrank.interop import torchmetrics as tm

rows = [0.2, 0.3], [1, 0], [0, 0]
metric = tm.RetrievalPrecision("skip", top_k=3, adaptive_k=True, sync_on_compute=False)
assert_type(metric(*rows), np.float32)
assert_type(metric.forward(jnp.ones(2), np.ones(2), indexes=[0, 0]), np.float32)
assert_type(metric.clone(), tm.RetrievalPrecision)
assert_type(metric.top_k, int | None)
assert_type(metric.adaptive_k, bool)
curve = tm.RetrievalPrecisionRecallCurve(4, aggregation=lambda values: values.max()).compute()
assert_type(curve, tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int_]])
at = tm.RetrievalRecallAtFixedPrecision(0.5)
assert_type(at.compute(), tuple[np.float32, np.integer[Any]])
assert_type(tm.retrieval_auroc([0.2, 0.3], [1, 0], max_fpr=0.5), np.float32)
assert_type(tm.retrieval_precision_recall_curve([0.2], [1])[2], NDArray[np.int_])

tm.RetrievalMAP("no")  # type: ignore[arg-type]
tm.RetrievalMAP(top_k="3")  # type: ignore[arg-type]
tm.RetrievalMAP(aggregation="sum")  # type: ignore[arg-type]
tm.RetrievalMAP("neg", None, None, "mean", 1)  # type: ignore[call-arg]
tm.retrieval_recall([0.2], [1], k=3)  # type: ignore[call-arg]
tm.retrieval_r_precision([0.2], [1], 3)  # type: ignore[call-arg]
"""


@thorough
def test_type_checkers_see_names_defaults_and_results(tmp_path):
  api = pytest.importorskip("mypy.api")
  pytest.importorskip("torchmetrics")
  snippet = tmp_path / "snippet.py"
  snippet.write_text(SNIPPET)
  output, errors, status = api.run(
    [
      "--config-file=",
      "--strict",
      "--allow-untyped-calls",
      "--follow-imports=silent",
      f"--cache-dir={ROOT / '.mypy_cache' / 'torchmetrics'}",
      str(PACKAGE),
      str(snippet),
    ]
  )
  assert status == 0, output + errors
