"""Counts what an optimised program starts: kernels, loops, conditionals, sorts; and its cycles."""

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping

from . import hlo, turns

# What starts a kernel. The compilers fuse all else, or it needs no kernel.
_STARTS = {
  "all-gather", "all-reduce", "concatenate", "convolution", "copy", "custom-call", "dot",
  "dynamic-slice", "dynamic-update-slice", "fusion", "gather", "pad", "reduce", "reduce-window",
  "rng-bit-generator", "scatter", "select-and-scatter", "transpose",
}  # fmt: skip
# What a fusion may hold that costs more than an element-wise operation.
_WITHIN_FUSIONS = ("sort", "gather", "scatter")
# A TPU takes the elements of a gather or a scatter one by one. Fitted, as is the rule of sorts, to
# the instructions that its compiler schedules; the compiler itself estimates neither.
_CYCLES_OF_ONE_PICK = 15


@dataclasses.dataclass(frozen=True)
class Cost:
  """What a program starts; the fields add up.

  Attributes:
    launches: Kernels; those in loops count at every turn.
    loops: Loops whose length only the data knows; the host waits for each turn of one.
    conditionals: Branches that the data decides; the costliest one is counted.
    sorts: Sorts, whatever number of kernels they take.
    cycles: On a TPU, the estimate of the compiler, with fitted ones where it gives none.
  """

  launches: int = 0
  loops: int = 0
  conditionals: int = 0
  sorts: int = 0
  cycles: int = 0

  def __add__(self, other: "Cost") -> "Cost":
    return _by_field(sum, (self, other))

  def turned(self, count: int) -> "Cost":
    """The cost of so many turns; loops and conditionals within count once."""
    many = {name: count * getattr(self, name) for name in ("launches", "sorts", "cycles")}
    return dataclasses.replace(self, **many)


def _by_field(function: Callable[[Iterable[int]], int], costs: Iterable[Cost]) -> Cost:
  columns = zip(*map(dataclasses.astuple, costs), strict=True)
  return Cost(*(function(column) for column in columns))


def cost(text: str, measured: Mapping[str, int] | None = None) -> Cost:
  """The cost of the text of an optimised program.

  Args:
    text: The text, of a GPU or a TPU.
    measured: How often loops turn whose length only the data knows, by label (see `turns`); 1
      for a loop that is not there.
  """
  program = hlo.parse(text)
  tpu = program.tiled

  @functools.cache
  def whole(name: str) -> Cost:
    computation = program.computations[name]
    parts = (_own(x, computation, program, tpu) + called(x) for x in computation.values())
    return _by_field(sum, (Cost(), *parts))

  def called(x: hlo.Operation) -> Cost:
    """The cost of the computations that an operation runs; fusions and sorts count as one."""
    if x.opcode == "while":
      known = hlo.length(x, program)
      each = _by_field(sum, map(whole, x.computations("condition", "body")))
      count = max((measured or {}).get(turns.label(x.attributes), 1), 1) if known is None else known
      return each.turned(count) + Cost(loops=int(known is None))
    if x.opcode == "conditional":
      names = ("branch_computations", "true_computation", "false_computation")
      return _by_field(max, map(whole, x.computations(*names))) + Cost(conditionals=1)
    if x.opcode in ("call", "async-start"):
      return _by_field(sum, (Cost(), *map(whole, x.computations("to_apply", "calls"))))
    return Cost()

  return whole(program.entry)


def _own(x: hlo.Operation, around: hlo.Computation, program: hlo.Program, tpu: bool) -> Cost:
  """The cost of one operation, apart from loops, branches and calls."""
  estimate = x.number("estimated_cycles")
  if x.opcode == "sort":
    return _sort(x.shapes, x.number("dimensions") or 0, tpu)
  if x.opcode == "fusion" and estimate is None:
    inside = program.computations[x.computations("calls")[0]]
    parts = [_own(y, inside, program, tpu) for y in inside.values() if y.opcode in _WITHIN_FUSIONS]
    total = _by_field(sum, (Cost(), *parts))
    return dataclasses.replace(total, launches=max(total.launches, 1))
  cycles = estimate or 0
  if tpu and x.opcode in ("gather", "scatter"):
    cycles = _CYCLES_OF_ONE_PICK * _picks(x, around)
  if tpu and 'custom_call_target="TopK"' in x.attributes:
    cycles = _sort(2 * around[x.operands[0]].shapes, -1, tpu).cycles
  sorts = int(bool(re.search(r'custom_call_target="[^"]*RadixSort', x.attributes)))
  return Cost(launches=int(x.opcode in _STARTS), sorts=sorts, cycles=cycles)


def _picks(x: hlo.Operation, around: hlo.Computation) -> int:
  """How many places a gather or a scatter visits: the size of its indices, less their axis."""
  sizes, axis = around[x.operands[1]].shapes[0].dimensions, x.number("index_vector_dim")
  axis = len(sizes) if axis is None else axis
  return math.prod(sizes[:axis] + sizes[axis + 1 :])


def _sort(shapes: tuple[hlo.Shape, ...], along: int, tpu: bool) -> Cost:
  """The cost of a bitonic network, of `L (L + 1) / 2` steps for `2 ** L` items.

  An H100 runs the steps within a tile of 4096 items, fewer if they are wide, in one kernel, and
  every step between tiles in its own. A TPU takes about 2 cycles a step for each vector register of
  each operand, and 2 more.
  """
  sizes = shapes[0].dimensions
  levels = max(sizes[along] - 1, 1).bit_length()
  if tpu:
    lists = math.prod(sizes) // sizes[along]
    registers = math.ceil(lists / 8) * math.ceil(2**levels / 128)
    steps = levels * (levels + 1) // 2
    return Cost(launches=1, sorts=1, cycles=registers * steps * (2 * len(shapes) + 2))
  tile = (49152 // sum(shape.bytes for shape in shapes)).bit_length() - 1
  between = max(0, levels - min(12, tile))
  return Cost(launches=(between + 1) * (between + 2) // 2, sorts=1)
