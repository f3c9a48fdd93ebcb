"""Reads the text of an optimised program of XLA: computations, operations and their attributes."""

import re
from collections.abc import Mapping
from typing import NamedTuple

_HEAD = re.compile(r"(ENTRY )?%?([\w.\-<>]+) *[({].*\{\s*$")
_ASSIGNMENT = re.compile(r"\s+(ROOT )?%?([\w.\-]+) = (.*)$")
_OPCODE = re.compile(r"(?:^|[\]})] )([a-z][a-z0-9\-]*)\(")
_SHAPE = re.compile(r"\b([a-z]+\d*)\[([\d,]*)\]")


class Shape(NamedTuple):
  """An array: the name of its type, such as f32, and its dimensions."""

  kind: str
  dimensions: tuple[int, ...]

  @property
  def bytes(self) -> int:
    """The bytes of an element; a boolean takes one."""
    bits = re.sub(r"\D", "", self.kind)
    return max(int(bits) // 8, 1) if bits else 1


class Operation(NamedTuple):
  """One line of a program.

  Attributes:
    opcode: What it does, such as fusion or while.
    operands: The names of what it reads; of a constant, its value.
    shapes: The arrays that it computes.
    root: Whether it is the result of its computation.
    attributes: The rest of the line.
  """

  opcode: str
  operands: tuple[str, ...]
  shapes: tuple[Shape, ...]
  root: bool
  attributes: str

  def computations(self, *names: str) -> list[str]:
    """The computations that the attributes of these names call, in order."""
    found = []
    for name in names:
      match = re.search(rf"\b{name}=(?:\{{([^}}]*)\}}|%?([\w.\-]+))", self.attributes)
      if match:
        found += [x.strip(" %") for x in (match[1] or match[2]).split(",")]
    return found

  def number(self, name: str) -> int | None:
    """The first whole number of an attribute, which may be quoted or in braces."""
    match = re.search(rf'\b{name}"?[=:{{"n]+(\d+)', self.attributes)
    return int(match[1]) if match else None


Computation = Mapping[str, Operation]


class Program(NamedTuple):
  """A program.

  Attributes:
    computations: Its computations by name.
    entry: The name of the one that runs first.
    tiled: Whether layouts have the tiles of a TPU.
  """

  computations: Mapping[str, Computation]
  entry: str
  tiled: bool


def parse(text: str) -> Program:
  """Reads a program; raises `ValueError` if no computation is the entry."""
  computations: dict[str, dict[str, Operation]] = {}
  entry, current = "", {}
  for line in text.splitlines():
    if head := _HEAD.match(line):
      current = computations[head[2]] = {}
      entry = head[2] if head[1] else entry
    elif (assigned := _ASSIGNMENT.match(line)) and (opcode := _OPCODE.search(assigned[3])):
      kind, rest = assigned[3][: opcode.start(1)], assigned[3][opcode.end() :]
      end = _closing(rest)
      inside = rest[:end]
      operands = tuple(re.findall(r"%([\w.\-]+)", inside)) or (inside,)
      shapes = tuple(
        Shape(name, tuple(int(x) for x in sizes.split(",") if x))
        for name, sizes in _SHAPE.findall(kind)
      )
      current[assigned[2]] = Operation(opcode[1], operands, shapes, bool(assigned[1]), rest[end:])
  if not entry:
    raise ValueError("the text has no ENTRY computation.")
  return Program(computations, entry, ":T(" in text)


def _closing(text: str) -> int:
  """Where the bracket that is open at the start of a text closes."""
  depth = 1
  for i, letter in enumerate(text):
    depth += (letter == "(") - (letter == ")")
    if not depth:
      return i
  return len(text)


def length(loop: Operation, program: Program) -> int | None:
  """How often a loop turns, or None if only the data knows.

  The compiler annotates loops of a known length. If it does not, the length follows from a counter
  that starts at 0 and to which each turn adds a constant.
  """
  known = loop.number("known_trip_count")
  if known is not None:
    return known
  (test,) = (program.computations[x] for x in loop.computations("condition"))
  (turn,) = (program.computations[x] for x in loop.computations("body"))
  less, state = _root(test), _root(turn)
  if less.opcode != "compare" or "direction=LT" not in less.attributes or state.opcode != "tuple":
    return None
  bound, index = _constant(test, less.operands[1]), _element(test, less.operands[0])
  if bound is None or index is None:
    return None
  added = turn[state.operands[index]]
  if added.opcode != "add" or index not in [_element(turn, x) for x in added.operands]:
    return None
  steps = [_constant(turn, x) for x in added.operands]
  step = next((x for x in steps if x), None)
  return step and -(-bound // step)


def _root(computation: Computation) -> Operation:
  return next(x for x in computation.values() if x.root)


def _element(computation: Computation, name: str) -> int | None:
  """The place in the state of a loop from which a value comes unchanged."""
  while computation[name].opcode == "copy":
    name = computation[name].operands[0]
  found = computation[name]
  return found.number("index") if found.opcode == "get-tuple-element" else None


def _constant(computation: Computation, name: str) -> int | None:
  found = computation[name]
  is_whole = found.opcode == "constant" and re.fullmatch(r"-?\d+", found.operands[0])
  return int(found.operands[0]) if is_whole else None
