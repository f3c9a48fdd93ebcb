"""What each program may cost. `python -m tests.benchmarks.devices` exits with 1 above it.

A budget holds for all programs of a group at some shapes. Launches are held on an H100, where each
costs time of its own, and cycles on a TPU, where the compiler estimates them; loops, conditionals
and memory are held on both.
"""

import fnmatch
from collections.abc import Mapping
from typing import NamedTuple

from .programs import ALL_PAIRS, FEW, LONG, MANY, SHORT, TWO_SORTS, Program


class Budget(NamedTuple):
  """The most that a program may cost; what is None is not held.

  Attributes:
    launches: Kernels on an H100, with the turns of loops.
    loops: Loops whose length only the data knows.
    conditionals: Branches that the data decides.
    cycles: Estimated cycles on a TPU, as a multiple of those of a formula by hand at that shape.
    formula: The title of that formula.
    memory: Temporary memory, as a multiple of the scores counted as float32.
  """

  launches: int | None = None
  loops: int | None = None
  conditionals: int | None = None
  cycles: float | None = None
  formula: str = ""
  memory: float | None = None


class Exemption(NamedTuple):
  """A budget of its own for the programs whose title matches a pattern, and why."""

  pattern: str
  reason: str
  changes: Mapping[str, float | None]

  def covers(self, program: Program) -> bool:
    """Whether it holds for a program."""
    return fnmatch.fnmatch(program.title, self.pattern)


# Of every program beyond this many items, by its smooth ranking.
SHORT_LIST = 256
MEMORY = {"": 30, "Laplace": 30, "Logistic": 80, "Gumbel": 100, "Gaussian": 100}


def _sorts(launches: int, cycles: float) -> Budget:
  return Budget(launches, 0, 0, cycles, TWO_SORTS)


def _twenty(launches: int, cycles: float) -> Budget:
  return Budget(launches, 1, None, cycles, TWO_SORTS)


def _pairs(launches: int, cycles: float, loops: int = 0) -> Budget:
  return Budget(launches, loops, None, cycles, ALL_PAIRS)


HEADLINE = {
  ("exact", SHORT): _sorts(16, 3),
  ("exact", MANY): _sorts(16, 2),
  ("exact", LONG): _sorts(28, 2),
  ("twenty measures", SHORT): _twenty(70, 14),
  ("twenty measures", MANY): _twenty(70, 14),
  ("twenty measures", LONG): _twenty(100, 6),
  **{
    (f"gradient of {name}, {kind}", FEW): _pairs(20, 3)
    for name in ("ndcg", "average_precision", "err")
    for kind in ("Laplace", "Logistic")
  },
  # A smooth cut-off solves an equation for its threshold, between the ranks of all items and those
  # of the kept ones. That takes as long for short lists as for long ones.
  **{(f"gradient of ndcg, k=10, {kind}", FEW): _pairs(32, 6) for kind in ("Laplace", "Logistic")},
  ("gradient of ndcg, Laplace", SHORT): _pairs(30, 0.5),
  ("gradient of ndcg, Laplace", LONG): _pairs(60, 0.06),
  ("gradient of average_precision, Laplace", SHORT): _pairs(50, 1.2),
  ("gradient of average_precision, Laplace", LONG): _pairs(100, 0.15),
  ("gradient of err, Laplace", SHORT): _pairs(50, 1.2),
  ("gradient of err, Laplace", LONG): _pairs(100, 0.15),
  ("gradient of ndcg, Logistic", SHORT): _pairs(40, 1),
  ("gradient of ndcg, Logistic", LONG): _pairs(80, 0.15),
  ("gradient of average_precision, Logistic", SHORT): _pairs(80, 2.5),
  ("gradient of average_precision, Logistic", LONG): _pairs(160, 0.4),
  ("gradient of err, Logistic", SHORT): _pairs(80, 2.5),
  ("gradient of err, Logistic", LONG): _pairs(160, 0.4),
  ("gradient of ndcg, k=10, Laplace", SHORT): _pairs(40, 0.75),
  ("gradient of ndcg, k=10, Laplace", LONG): _pairs(80, 0.1),
  ("gradient of ndcg, k=10, Logistic", SHORT): _pairs(80, 2),
  ("gradient of ndcg, k=10, Logistic", LONG): _pairs(160, 0.3),
  ("gradient of ndcg, Gumbel", SHORT): _pairs(100, 4, loops=1),
  ("gradient of ndcg, Gaussian", SHORT): _pairs(200, 10, loops=1),
  ("gradient of ndcg, k=10, Gumbel", SHORT): _pairs(700, 80, loops=1),
  ("gradient of ndcg, k=10, Gaussian", SHORT): _pairs(1500, 200, loops=1),
}
GENERAL = {
  ("metrics", SHORT): Budget(40, 0, 0),
  ("metrics", MANY): Budget(40, 0, 0),
  ("metrics", LONG): Budget(60, 0, 0),
  ("values under Laplace", SHORT): Budget(50, 0),
  ("values under Logistic", SHORT): Budget(80, 0),
  ("values under Gumbel", SHORT): Budget(100, 1),
  ("values under Gaussian", SHORT): Budget(200, 1),
  ("gradients under Laplace", SHORT): Budget(80, 0),
  ("gradients under Laplace", LONG): Budget(160, 0),
  ("gradients under Logistic", SHORT): Budget(120, 0),
  ("gradients under Logistic", LONG): Budget(240, 0),
  ("gradients under Gumbel", SHORT): Budget(200, 2),
  ("gradients under Gaussian", SHORT): Budget(400, 2),
  ("losses", SHORT): Budget(80, 1),
  ("gradients of losses", SHORT): Budget(200, 2),
  ("gradients of losses", LONG): Budget(240, 2),
}
_RECURSION = "the exact recursion over tied items turns as often as the longest tie is long"
_MATRIX = "the loss of the caller takes the matrix of all pairs that it returns"
_SUBTOPICS = "each subtopic has labels, and sums, of its own"
_GREEDY = "the ideal order is found greedily, one item after the other"
_INVERSIONS = "inversions are counted while halves of the list are merged"
_GRADES = "each grade has sums, or an integral, of its own"
_IDEAL = "its overlap with an ideal ranking takes a second order"
_GAUSSIAN = "its ranking is Gaussian"
_TWICE = "it is a quotient of two expectations"
_ANY_RANK = "a cut-off at any rank takes as many points as there are ranks, eight at a time"
# Metrics of subtopics: `labels` are `[queries, items, subtopics]`.
_OF_SUBTOPICS = (
  "alpha_dcg",
  "alpha_ndcg",
  "nrbp",
  "nnrbp",
  "err_ia",
  "nerr_ia",
  "average_precision_ia",
  "subtopic_recall",
)
_RECURSIVE = (
  "err",
  "nerr",
  "nearly_err",
  "err_ia",
  "nerr_ia",
  "alpha_dcg",
  "nrbp",
  "subtopic_recall",
)
EXEMPTIONS = (
  *(Exemption(f"{name}, [kmn]*", _RECURSION, {"loops": 1}) for name in _RECURSIVE),
  *(
    Exemption(pattern, _SUBTOPICS, changes)
    for name in _OF_SUBTOPICS
    for pattern, changes in (
      (f"*{name}, Laplace*", {"launches": 260}),
      (f"*{name}, Logistic*", {"launches": 310}),
      (f"*{name}, G*", {"launches": 450}),
    )
  ),
  *(
    Exemption(f"*{name}*", _GREEDY, {"launches": 4000, "loops": 2})
    for name in ("alpha_ndcg", "nnrbp", "nerr_ia")
  ),
  *(
    Exemption(f"{name}, *", _INVERSIONS, {"launches": 200})
    for name in ("kendall_tau", "ordered_pair_accuracy")
  ),
  *(
    Exemption(f"*{name}, G*", _ANY_RANK, {"launches": None})
    for name in ("r_precision", "bpref", "insq")
  ),
  Exemption("*nearly_err, G*", _TWICE, {"loops": 2}),
  Exemption("nearly_err, [mk]*", _TWICE, {"launches": 100, "loops": 2}),
  Exemption("gap, Laplace*", _GRADES, {"launches": 60}),
  Exemption("gradient of gap, Laplace*", _GRADES, {"launches": 130}),
  Exemption("*gap, Logistic*", _GRADES, {"launches": 240}),
  Exemption("*gap, G*", _GRADES, {"launches": 550}),
  Exemption("compatibility, *", _IDEAL, {"launches": 70}),
  Exemption("softrank_*", _GAUSSIAN, {"launches": 200}),
  Exemption("gradient of neural_sort*", _MATRIX, {"memory": None}),
  Exemption("gradient of soft_sort*", _MATRIX, {"memory": None}),
)


def of(program: Program) -> Budget:
  """The budget of a program; a formula by hand has none.

  Raises:
    KeyError: if there is no budget for the group of the program at its shape.
  """
  if program.group == "by hand":
    return Budget()
  budget = (HEADLINE | GENERAL)[program.group, program.shape]
  if program.shape[1] > SHORT_LIST:
    budget = budget._replace(memory=MEMORY[program.ranking])
  for exemption in EXEMPTIONS:
    if exemption.covers(program):
      budget = budget._replace(**exemption.changes)
  return budget
