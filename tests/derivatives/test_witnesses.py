"""Derivatives of public functions by every numeric parameter, against float64 differences.

In float64 to 1e-7 of the largest slope by a parameter, by `jvp` and by `vjp`, at three values that
are not the default; in float32 to 1e-4. A group of functions is one program.
"""

import inspect

import jax
import jax.numpy as jnp
import pytest

import jaxrank as jr
from jaxrank import exposure, losses, soft
from jaxrank.metrics import described
from tests.derivatives import subjects
from tests.derivatives.differences import SHARED, faults, second_faults
from tests.derivatives.subjects import (
  EXACT,
  KINKED,
  RANKINGS,
  distinct,
  numeric,
  subject,
  together,
)
from tests.helpers import public_calls, traits
from tests.helpers.suites import quick

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
# Metrics that are also called with a cut-off: one for each question, and those of sets.
CUT = {"average_precision", "err", "ndcg", "rbp", "reciprocal_rank", *SETS}.difference(CONSTANT)
METRICS = {about.name: metric for metric, about in described()}
# Mean ranks and probabilities of ranks under noise, whose second derivatives are refused.
MEANS = (
  *((name, ranking) for ranking in ("Gumbel", "Gaussian") for name in ("auc", "spearman")),
  *(("soft.top_k", "Gumbel"), ("soft.top_k", "Gaussian"), ("soft.rank", "Gaussian")),
  ("plackett_luce.rank_probabilities", None),
)
# Groups of what is no metric.
OTHERS = ("losses", "ranked losses", "operators", "operators, rest", "makers")
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
  "random orders": ("plackett_luce.sample",),
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


def members():
  """For each group, functions by name with the rankings and the cut-offs they are called with."""
  found = {group: {} for group in OTHERS}
  for name in (f"losses.{name}" for name in losses.__all__):
    found["ranked losses" if default(name) else "losses"][name] = (name, default(name), {})
  for ranking in (*RANKINGS, EXACT):
    some, rest = (found.setdefault(f"metrics/{ranking}{part}", {}) for part in ("", ", rest"))
    for name in METRICS:
      if ranking == EXACT:
        if set(numeric(name, METRICS[name])) - {"scores"}:
          some[name] = (name, ranking, {})
      elif name not in EXACT_ONLY:
        group = some if name in (*traits.SMOOTHLY, "precision") else rest
        group[name] = (name, ranking, {})
        if name in CUT and ranking in ("Laplace", "Logistic"):
          group[f"{name}@3"] = (name, ranking, {"k": 3})
  for ranking in RANKINGS:
    for name in soft.__all__:
      if ranking in ("Laplace", "Logistic") or name in ("rank", "top_k"):
        group = found["operators" if ranking == "Laplace" else "operators, rest"]
        group[f"soft.{name}/{ranking}"] = (f"soft.{name}", ranking, {})
  others = [f"exposure.{name}" for name in exposure.__all__]
  others = [name for name in others if "ranking" in signature(name)]
  for name in (*others, *LISTS):
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
# Each of these compiles for minutes. Thorough are all losses, and under Laplace one metric for each
# question.
OTHER = [f"metrics/{name}" for name in RANKINGS if name != "Laplace"]
LATER = (", rest", "operators", "metrics/Exact", *OTHER)
WEEKLY = [group for group in GROUPS if any(part in group for part in LATER)]


def is_outside(name):
  return any(
    name == entry or (entry.endswith(".") and name.startswith(entry))
    for entries in OUTSIDE.values()
    for entry in entries
  )


def test_every_public_function_is_covered_or_said_not_to_be():
  covered = {name for group in GROUPS.values() for name, _, _ in group.values()}
  public = set(public_calls.public()) - public_calls.ON_THE_HOST - public_calls.SPREAD
  # Those that only an exact ranking answers are in a group if they have numbers of their own.
  assert {name for name in public if not is_outside(name)} | EXACT_ONLY == covered | EXACT_ONLY


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


@quick("group", GROUPS, (), weekly=WEEKLY)
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


@pytest.mark.weekly
@pytest.mark.parametrize("group", GROUPS)
def test_second_derivatives(group):
  """One function at a time: a group would move each of them along the parameters of all."""
  lines, refused = [], []
  for name, (public, ranking, fixed) in GROUPS[group].items():
    if public in (*KINKED, "losses.perturbed"):
      continue
    functions, inputs = together({name: subject(public, ranking, **fixed)})
    if SHARED in inputs.get("scores", {}):
      # The density of the noise of `Laplace` has a kink at ties.
      inputs["scores"][SHARED] = distinct()
    # XLA takes minutes for what `Laplace` and `Logistic` compute without a loop. Eager calls take
    # seconds, because the functions have operations in common. The loops over nodes need `jit`.
    without_jit = ranking in ("Laplace", "Logistic")
    try:
      with jax.disable_jit(without_jit):
        lines += second_faults(functions, inputs)
    except NotImplementedError as error:
      if "take one derivative less" not in str(error):
        raise
      refused.append((public, ranking))
  assert not lines, "\n".join(lines)
  assert set(refused) == {x for x in MEANS if x in {(p, r) for p, r, _ in GROUPS[group].values()}}
