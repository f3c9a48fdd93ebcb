"""Derivatives of public functions by every numeric parameter, against float64 differences.

In float64 to 1e-7 of the largest slope by a parameter, forwards and backwards; in float32 to 1e-4.
"""

import inspect

import pytest

from jaxrank import catalogue, exposure, losses, plackett_luce, soft
from jaxrank.metrics import described
from tests.derivatives import subjects
from tests.derivatives.differences import faults

CLASSICAL = [
  name
  for name in losses.__all__
  if name not in ("perturbed", "xe_ndcg", "lambda_rank")
  and "ranking" not in inspect.signature(getattr(losses, name)).parameters
]
# Distances of scores, and weights of pairs by rank, have kinks and jumps at ties.
KINKED = ("neural_sort", "soft_sort", "lambda_ndcg")
PUBLIC = [
  *(getattr(losses, name) for name in losses.__all__ if name != "perturbed"),
  *(getattr(soft, name) for name in soft.__all__),
  *(
    function
    for module in (exposure, catalogue)
    for function in vars(module).values()
    if inspect.isfunction(function) and "ranking" in inspect.signature(function).parameters
  ),
  plackett_luce.log_prob,
  plackett_luce.rank_probabilities,
  *(metric for metric, _ in described()),
]


def test_every_parameter_has_values_or_a_reason():
  for function in PUBLIC:
    subjects.parameters(function)


def test_values_are_not_defaults():
  for function in PUBLIC:
    for name, parameter in inspect.signature(function).parameters.items():
      values = subjects.VALUES.get(name)
      if values is not None and isinstance(parameter.default, (int, float)):
        assert parameter.default not in values, f"{function.__name__}, {name}"


@pytest.mark.parametrize("name", CLASSICAL)
def test_classical_losses(name):
  ties = name not in KINKED
  found = faults(*subjects.subject(getattr(losses, name), ties=ties))
  assert not found, "\n".join(found)


@pytest.mark.thorough
@pytest.mark.parametrize("ranking", [*subjects.RANKINGS, "Exact"])
def test_metrics(ranking):
  found = [
    f"{name}: {line}"
    for name, call, cases in subjects.metric_subjects()
    if name.endswith(ranking)
    for line in faults(call, cases)
  ]
  assert not found, "\n".join(found)


@pytest.mark.thorough
def test_operators():
  found = [
    f"{name}: {line}"
    for name, call, cases in subjects.operator_subjects()
    for line in faults(call, cases)
  ]
  assert not found, "\n".join(found)
