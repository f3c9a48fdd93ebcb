"""Derivatives of public functions by every numeric parameter, against float64 differences.

By `vjp` in float64 to 1e-7 of the largest slope by a parameter, at three values that are not the
default; by `jvp` in float32 to 1e-4. A group of functions is two programs.

Each number of a metric is differentiated under the exact ranking, in one of the metrics that have
it in the same place of the library, and under a ranking by expected ranks and one of noise those of
a metric for each question: a metric does not know what answers it. The slopes of all metrics in the
scores are in `tests/metrics/test_laws.py`, second derivatives in
`tests/rankings/test_second_derivatives.py` and `tests/losses`.
"""

import inspect

import jax
import jax.numpy as jnp
import pytest

import jaxrank as jr
from jaxrank import exposure, losses
from jaxrank.metrics import described
from tests.derivatives import subjects
from tests.derivatives.differences import faults, number, second_faults
from tests.derivatives.subjects import EXACT, RANKINGS, numeric, subject, together
from tests.helpers import public_calls, traits
from tests.helpers.suites import quick, thorough

pytestmark = pytest.mark.any_platform

# Metrics that ask what only an exact ranking answers.
EXACT_ONLY = {
  "bpm",
  "compatibility",
  "eleven_point_average",
  "inferred_average_precision",
  "inst",
  "interpolated_precision",
  "kendall_tau",
  "ndcg_at_levels",
  "ndcg_at_relevant",
  "normalized_gain",
  "ordered_pair_accuracy",
  "retrieved_auc",
}
# These are constant.
CONSTANT = ("item_count", "query_count", "set_average_precision")
# These are constant unless there is a cut-off.
SETS = (
  *("precision_ia", "subtopic_recall"),
  *(about.name for _, about in described() if traits.only_counts(about)),
)
# So are these functions of lists.
LISTS = ("novelty", "intra_list_distance")
# Metrics whose numbers are those of another one, by that one: weights and persistences of items,
# parameters of stops and of subtopics, floors of logarithms.
NUMBERS_OF = {
  "ndcg": ("dcg", "precision", "recall"),
  "alpha_ndcg": ("alpha_dcg",),
  "nnrbp": ("nrbp",),
  "nerr": ("err",),
  "nerr_ia": ("average_precision_ia", "err_ia", "precision_ia", "subtopic_recall"),
  "log_bpref": ("log_average_precision",),
}
ELSEWHERE = {name for names in NUMBERS_OF.values() for name in names}
# Metrics that are also called with a cut-off. The slopes of a metric for each question at a cut-off
# are in `tests/rankings/test_smooth_cutoff.py`.
CUT = ("ndcg", "precision")
METRICS = {about.name: metric for metric, about in described()}
# Mean ranks and probabilities of ranks under noise, whose second derivatives are refused.
MEANS = (
  *((name, ranking) for ranking in ("Gumbel", "Gaussian") for name in ("auc", "spearman")),
  *(("soft.top_k", "Gumbel"), ("soft.top_k", "Gaussian"), ("soft.rank", "Gaussian")),
  ("plackett_luce.rank_probabilities", None),
)
# Groups of what is no metric.
OTHERS = ("losses", "ranked losses", "operators", "makers")
MAKERS = ("geometric", "inverse_square", "affine", "table")
# What is not differentiated here, by the reason; a name ending in a dot is a module.
OUTSIDE = {
  "classes, whose methods call what is here": (
    "Catalogue",
    "Evaluator",
    "Exact",
    "Gaussian",
    "Gumbel",
    "Laplace",
    "Logistic",
    "Measure",
    "Metric",
    "discounts.Affine",
    "discounts.Geometric",
    "discounts.InverseSquare",
    "discounts.Table",
  ),
  "means and lists of the values of metrics": (
    "aggregate",
    "aggregate_curve",
    "class_labels.",
    "evaluate",
    "metric",
  ),
  "statistics of values, which nothing is trained on": ("chance.", "ranks.", "stats."),
  "exact orders, constant between ties": (
    "agreement.tau_ap",
    "corpus.",
    "exposure.target",
    "precision_recall_curve",
    "recall_at_fixed_precision",
  ),
  "fused scores, of which tests/fusion/test_laws.py has the differences": ("fusion.",),
  "random orders": ("plackett_luce.sample",),
  "metrics under a ranking; tests/testing/test_check_loss.py has their slopes": (
    "losses.approx_ap",
    "losses.approx_err",
    "losses.approx_mrr",
    "losses.softrank_ap",
    "losses.softrank_err",
    "losses.softrank_rr",
  ),
  "arithmetic with exposures of items, of which `tests/exposure` has the slopes": (
    "exposure.by_group",
    "exposure.demographic_parity",
    "exposure.disparate_impact",
    "exposure.ee_d",
    "exposure.ee_r",
    "exposure.expected",
  ),
  "operators of which `tests/soft` and `tests/rankings/test_smooth_cutoff.py` have all slopes": (
    "soft.",
  ),
  "scales of a query; `tests/padding/test_scales.py` and `tests/measures/test_ensemble.py`": (
    "ensemble",
    "letor.",
  ),
  "functions of labels alone, or a dictionary of numbers": (
    "discounts.constant",
    "gains.binary",
    "gains.by_label",
    "gains.exponential",
    "gains.linear",
    "has_both_classes",
    "has_relevant",
  ),
}


def signature(name):
  return inspect.signature(public_calls.public()[name]).parameters


def default(name):
  """The name of the ranking of a loss, None if it takes none."""
  ranking = signature(name).get("ranking")
  return ranking and type(ranking.default).__name__


def is_outside(name):
  return any(
    name == entry or (entry.endswith(".") and name.startswith(entry))
    for entries in OUTSIDE.values()
    for entry in entries
  )


def members():
  """For each group, functions by name with the rankings and the cut-offs they are called with."""
  found = {group: {} for group in OTHERS}
  for name in (f"losses.{name}" for name in losses.__all__ if not is_outside(f"losses.{name}")):
    found["ranked losses" if default(name) else "losses"][name] = (name, default(name), {})
  for ranking in ("Laplace", "Gumbel", EXACT):
    group = found.setdefault(f"metrics/{ranking}", {})
    for name in METRICS:
      if ranking == EXACT:
        if set(numeric(name, METRICS[name])) - {"scores"} and name not in ELSEWHERE:
          group[name] = (name, ranking, {})
      else:
        if name in traits.SMOOTHLY:
          group[name] = (name, ranking, {})
        if name in CUT and ranking == "Laplace":
          group[f"{name}@3"] = (name, ranking, {"k": 3})
  for name in (f"exposure.{name}" for name in exposure.__all__):
    if "ranking" in signature(name) and not is_outside(name):
      found["operators"][name] = (name, "Laplace", {})
  for name in LISTS:
    found["operators"][f"{name}@3"] = (name, "Laplace", {"k": 3})
  for name in ("plackett_luce.log_prob", "plackett_luce.rank_probabilities"):
    found["operators"][name] = (name, None, {})
  for name in (
    *(f"discounts.{name}" for name in (*MAKERS, "logarithmic", "reciprocal")),
    *("gains.table", "gains.stop_probability", "agreement.rbo", "agreement.rbo_residual"),
    *("exposure.jensen_shannon", "exposure.squared_log"),
  ):
    found["makers"][name] = (name, None, {})
  return found


def parts(groups):
  """The same groups, of which large ones are cut: XLA takes long for a program of them all."""
  for group, functions in groups.items():
    names = [*functions]
    starts = range(0, len(names), AT_ONCE)
    for start in starts:
      name = group if len(starts) == 1 else f"{group}, {start // AT_ONCE + 1}"
      yield name, {name: functions[name] for name in names[start : start + AT_ONCE]}


AT_ONCE = 16
GROUPS = dict(parts(members()))


def test_every_public_function_is_covered_or_said_not_to_be():
  covered = {name for group in GROUPS.values() for name, _, _ in group.values()}
  public = set(public_calls.public()) - public_calls.ON_THE_HOST - public_calls.SPREAD
  # Metrics are in a group if they have numbers of their own, or stand for a question.
  assert {name for name in public if not is_outside(name)} | {*METRICS} == covered | {*METRICS}


def test_every_parameter_has_values_or_a_reason():
  for group in GROUPS.values():
    for name, _, _ in group.values():
      numeric(name, public_calls.public()[name])


def test_values_are_not_defaults():
  for group in GROUPS.values():
    for name, _, _ in group.values():
      for parameter in numeric(name, public_calls.public()[name]):
        default = signature(name)[parameter].default
        values = subjects.looked_up(subjects.VALUES, name, parameter)
        assert not (isinstance(default, int | float) and default in values), f"{name}, {parameter}"


@pytest.mark.parametrize("kind", RANKINGS)
def test_exact_only(kind):
  for name in EXACT_ONLY:
    of, cases = subject(name, kind)
    inputs = {p: jnp.asarray(next(iter(x.values()))[0], jnp.float32) for p, x in cases.items()}
    with pytest.raises(jr.UnansweredError):
      jax.eval_shape(of, inputs)


@thorough
@pytest.mark.parametrize("group", GROUPS)
def test_derivatives(group):
  found = {
    name: subject(public, ranking, **fixed)
    for name, (public, ranking, fixed) in GROUPS[group].items()
  }
  lines, constant = faults(*together(found))
  lines += [
    f"d {name} / d {parameter} is 0 in all cases"
    for name, parameter in constant
    if name not in (*SETS, *LISTS, *CONSTANT)
  ]
  assert not lines, "\n".join(lines)


@thorough
def test_second_derivatives_of_makers():
  """One function at a time: a group would move each of them along the parameters of all."""
  lines = []
  for name, (public, ranking, fixed) in GROUPS["makers"].items():
    lines += second_faults(*together({name: subject(public, ranking, **fixed)}))
  assert not lines, "\n".join(lines)


@quick(("name", "ranking"), MEANS, [("soft.rank", "Gaussian")])
def test_second_derivatives_of_means_under_noise_are_refused(name, ranking):
  """A value that is wrong would be worse."""
  of, cases = subject(name, ranking)
  first = {p: next(iter(owners.values()))[0] for p, owners in cases.items()}

  def total(scores):
    return number(of(first | {"scores": scores}))

  with pytest.raises(NotImplementedError, match="take one derivative less"):
    jax.eval_shape(jax.hessian(total), jnp.asarray(first["scores"], jnp.float32))
