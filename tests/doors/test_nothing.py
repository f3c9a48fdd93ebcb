"""Nothing retrieved is 0 for means and log 1e-5 for logarithms, as in trec_eval, by every door."""

import inspect
import json

import jax
import numpy as np
import pytest

import jaxrank as jr
from jaxrank import metrics
from jaxrank.command.main import main
from tests.helpers import traits
from tests.helpers.suites import quick

FLOOR = traits.LEAST_LOGARITHM
NAMES = (
  "map gm_map gm_bpref num_q num_ret ndcg utility.1,-1,2,-2 rbp_resid auc log_average_precision"
)
NOTHING = {"map": 0, "gm_map": FLOOR, "gm_bpref": FLOOR, "num_q": 1, "num_ret": 0, "ndcg": 0}
NOTHING |= {"utility.1,-1,2,-2": 0, "rbp_resid": 0, "auc": 0, "log_average_precision": FLOOR}

# The values of a query without items, which is none itself, if they are not 0.
OTHERS = {name: x for name, x in traits.UNRETRIEVED.items() if name != "query_count"}


def every_metric():
  for metric, about in metrics.described():
    grade = about.signature.parameters.get("max_label")
    given = {"max_label": 4} if grade and grade.default is inspect.Parameter.empty else {}
    yield jr.Measure(metric, name=about.name, **given)


@quick("subtopics", [False, True], [False])
def test_the_values_of_a_query_without_items(subtopics):
  measures = [x for x in every_metric() if x.description.subtopics == subtopics]
  end = (2,) if subtopics else ()
  masked = np.ones((1, 3)), np.ones((1, 3, *end)), np.zeros((1, 3), bool)
  none = np.ones((1, 0)), np.ones((1, 0, *end)), np.ones((1, 0), bool)
  evaluate = lambda s, y, w: jr.evaluate(measures, s, y, where=w)  # noqa: E731
  for door, arrays in ((evaluate, masked), (jax.jit(evaluate), none)):
    for name, value in door(*arrays).items():
      assert value == pytest.approx(OTHERS.get(name, 0)), name
  one_by_one = [x for x in measures if x.name in OTHERS]
  for measure in one_by_one:
    assert measure(*masked[:2], where=masked[2]) == pytest.approx(OTHERS[measure.name])
    assert measure.metric(*masked[:2], where=masked[2]) == pytest.approx(OTHERS[measure.name])
  assert len(one_by_one) == (0 if subtopics else len(OTHERS))


SITUATIONS = {
  "no document on either side": ({"q": {}}, {"q": {}}, {}),
  "nothing retrieved": ({"q": {"a": 1, "b": 0}}, {"q": {}}, {}),
  "not in the run": ({"q": {"a": 1, "b": 0}}, {}, {}),
  "no judgement, and no document of the run": ({"q": {}}, {}, {}),
  "no judged document": ({"q": {"a": 1}}, {"q": {"x": 1.0}}, {"judged_only": True}),
  "no judged document at all": ({"q": {}}, {"q": {"x": 1.0}}, {"judged_only": True}),
  "only itself": ({"q": {"a": 1}}, {"q": {"q": 1.0}}, {"drop_self": True}),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_runs_that_retrieve_nothing(situation, tmp_path, capsys):
  qrels, run, options = SITUATIONS[situation]
  # Another query, so that the qrels are some.
  qrels, run = qrels | {"r": {"a": 1}}, run | {"r": {"a": 1.0}}
  paths = [tmp_path / "qrels.json", tmp_path / "run.json"]
  for path, table in zip(paths, (qrels, run), strict=True):
    path.write_text(json.dumps(table))
  for ties in ("document", "average"):
    for source in ((qrels, run), paths):
      found = jr.trec.evaluate(NAMES, *source, queries="judged", ties=ties, **options)
      assert found.queries == ("q", "r")
      for name, value in NOTHING.items():
        assert found.values[name][0] == pytest.approx(value), name
      assert found.mean()["gm_map"] == pytest.approx(1e-5**0.5)
  switches = {"judged_only": ["-J"], "drop_self": ["--drop-self"]}
  words = [x for option in options for x in switches[option]]
  names = [x for name in ("gm_map", "num_q", "map") for x in ("-m", name)]
  assert main(["--no-cache", "--trec", "-c", *words, *names, *map(str, paths)]) == 0
  lines = [line.split() for line in capsys.readouterr().out.splitlines()]
  assert {x[0]: x[2] for x in lines} == {"num_q": "2", "map": "0.5000", "gm_map": "0.0032"}
