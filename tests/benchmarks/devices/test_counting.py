"""Counts of small programs: loops, branches, fusions, sorts and gathers."""

import re
import textwrap

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import jaxrank as jr
from jaxrank._core import platforms
from tests.benchmarks.devices import counting, hlo, turns
from tests.benchmarks.devices.counting import Cost

pytestmark = pytest.mark.any_platform

PARTS = textwrap.dedent("""
  HloModule small, is_scheduled=true

  %fused (p.0: f32[4]) -> f32[4] {
    %p.0 = f32[4]{0} parameter(0)
    ROOT %twice.0 = f32[4]{0} add(%p.0, %p.0)
  }

  %body.1 (s.1: (s32[], f32[4])) -> (s32[], f32[4]) {
    %s.1 = (s32[], f32[4]{0}) parameter(0)
    %i.1 = s32[] get-tuple-element(%s.1), index=0
    %x.1 = f32[4]{0} get-tuple-element(%s.1), index=1
    %two.1 = s32[] constant(2)
    %next.1 = s32[] add(%i.1, %two.1)
    %y.1 = f32[4]{0} fusion(%x.1), kind=kLoop, calls=%fused
    %z.1 = f32[4]{0} fusion(%y.1), kind=kLoop, calls=%fused
    ROOT %t.1 = (s32[], f32[4]{0}) tuple(%next.1, %z.1)
  }

  %known (s.2: (s32[], f32[4])) -> pred[] {
    %s.2 = (s32[], f32[4]{0}) parameter(0)
    %i.2 = s32[] get-tuple-element(%s.2), index=0
    %seven = s32[] constant(7)
    ROOT %less.2 = pred[] compare(%i.2, %seven), direction=LT
  }

  %unknown (s.3: (s32[], f32[4])) -> pred[] {
    %s.3 = (s32[], f32[4]{0}) parameter(0)
    %x.3 = f32[4]{0} get-tuple-element(%s.3), index=1
    ROOT %any = pred[] fusion(%x.3), kind=kInput, calls=%fused
  }

  %one_kernel (x.4: f32[4]) -> f32[4] {
    %x.4 = f32[4]{0} parameter(0)
    ROOT %y.4 = f32[4]{0} fusion(%x.4), kind=kLoop, calls=%fused
  }

  %three_kernels (x.5: f32[4]) -> f32[4] {
    %x.5 = f32[4]{0} parameter(0)
    %y.5 = f32[4]{0} fusion(%x.5), kind=kLoop, calls=%fused
    %z.5 = f32[4]{0} copy(%y.5)
    ROOT %w.5 = f32[4]{0} fusion(%z.5), kind=kLoop, calls=%fused
  }

  %order (a.6: s32[], b.6: s32[]) -> pred[] {
    %a.6 = s32[] parameter(0)
    %b.6 = s32[] parameter(1)
    ROOT %less.6 = pred[] compare(%a.6, %b.6), direction=LT
  }

  %with_a_sort (x.7: s32[8,16384]) -> s32[8,16384] {
    %x.7 = s32[8,16384]{1,0} parameter(0)
    ROOT %sorted.7 = s32[8,16384]{1,0} sort(%x.7), dimensions={1}, to_apply=%order
  }

  ENTRY %main (x: f32[4], long: s32[8,16384]) -> f32[4] {
    %x = f32[4]{0} parameter(0)
    %long = s32[8,16384]{1,0} parameter(1)
    %zero = s32[] constant(0)
    %state = (s32[], f32[4]{0}) tuple(%zero, %x)
    BODY
  }
""")
LOOP = "%w = (s32[], f32[4]{0}) while(%state), condition=%NAME, body=%body.1"


def cost(*lines, **given):
  return counting.cost(PARTS.replace("BODY", "\n    ".join(lines)), **given)


def test_a_loop_that_the_compiler_annotates_counts_at_every_turn():
  config = ', backend_config={"known_trip_count":{"n":"10"},"other":"3"}'
  assert cost(LOOP.replace("NAME", "unknown") + config) == Cost(launches=30)


def test_a_loop_with_a_counter_counts_at_every_turn():
  # 0, 2, 4 and 6 are below 7.
  assert cost(LOOP.replace("NAME", "known")) == Cost(launches=8)


def test_a_loop_whose_length_only_the_data_knows_is_counted_as_such():
  loop = LOOP.replace("NAME", "unknown")
  assert cost(loop) == Cost(launches=3, loops=1)
  named = f'{loop}, metadata={{op_name="jit(f)/labelled_loop_4/while"}}'
  assert cost(named, measured={"labelled_loop_4": 5}) == Cost(launches=15, loops=1)
  assert cost(named, measured={"labelled_loop_3": 5}) == Cost(launches=3, loops=1)


@pytest.mark.parametrize(
  "branches",
  [
    "true_computation=%one_kernel, false_computation=%three_kernels",
    "branch_computations={%one_kernel, %three_kernels}",
  ],
)
def test_the_costliest_branch_counts(branches):
  line = f"%c = f32[4]{{0}} conditional(%zero, %x, %x), {branches}"
  assert cost(line) == Cost(launches=3, conditionals=1)


def test_a_call_counts_as_what_it_calls():
  assert cost("%c = f32[4]{0} call(%x), to_apply=%three_kernels").launches == 3


def test_a_fusion_is_one_kernel_and_a_sort_in_it_takes_one_for_each_step_between_tiles():
  fusion = "%f = s32[8,16384]{1,0} fusion(%long), kind=kCustom, calls=%with_a_sort"
  # 2 ** 14 items are four tiles of 2 ** 12: one kernel, then two, then three.
  assert cost(fusion) == Cost(launches=6, sorts=1)
  assert cost("%f = f32[4]{0} fusion(%x), kind=kLoop, calls=%fused").launches == 1


def test_a_radix_sort_is_a_sort():
  line = '%r = s32[8,16384]{1,0} custom-call(%long), custom_call_target="__cub$DeviceRadixSort"'
  assert cost(line) == Cost(launches=1, sorts=1)


def test_what_needs_no_kernel_costs_nothing():
  lines = ("%b = f32[4,1]{1,0} bitcast(%x)", "%t = (f32[4]{0}) tuple(%x)")
  assert cost(*lines) == Cost()


def test_cycles_of_a_tpu_are_the_compilers_or_fitted():
  text = textwrap.dedent("""
    ENTRY %main (x: f32[32,1000], i: s32[32,1000,1]) -> f32[32,1000] {
      %x = f32[32,1000]{1,0:T(8,128)} parameter(0)
      %i = s32[32,1000,1]{2,1,0:T(8,128)} parameter(1)
      %y = f32[32,1000]{1,0:T(8,128)} copy(%x), backend_config={"estimated_cycles":"2138"}
      LINE
    }
  """)
  assert counting.cost(text).cycles == 2138
  gather = (
    "%g = f32[32,1000]{1,0:T(8,128)} gather(%x, %i), offset_dims={}, index_vector_dim=2, "
    "slice_sizes={1,1}"
  )
  assert counting.cost(text.replace("LINE", gather)).cycles == 2138 + 15 * 32000
  sort = "%s = f32[32,1000]{1,0:T(8,128)} sort(%x), dimensions={1}, to_apply=%order"
  # 4 by 8 registers and 55 steps, at 4 cycles.
  assert counting.cost(text.replace("LINE", sort)).cycles == 2138 + 32 * 55 * 4


def test_operations_are_read_with_nested_types():
  line = (
    "  ROOT %r.1 = (s32[]{:T(128)}, /*index=1*/f32[2,3]{1,0:T(8,128)S(1)}) custom-call(%a, "
    '%b.c), custom_call_target="x", index=7'
  )
  program = hlo.parse(f"ENTRY %main (a: f32[]) -> f32[] {{\n{line}\n}}")
  found = program.computations["main"]["r.1"]
  assert (found.opcode, found.operands, found.root) == ("custom-call", ("a", "b.c"), True)
  assert found.shapes == (hlo.Shape("s32", ()), hlo.Shape("f32", (2, 3)))
  assert found.number("index") == 7
  assert program.tiled
  with pytest.raises(ValueError, match="no ENTRY"):
    hlo.parse(line)


@pytest.fixture
def labelled(monkeypatch):
  """Loops have labels until the end of the test."""
  monkeypatch.setattr(lax, "while_loop", lax.while_loop)
  monkeypatch.setattr(lax, "fori_loop", lax.fori_loop)
  turns.label_loops()


def doubled(until):
  """Doubles the entries until their sum is at least a number."""
  return lambda x: lax.while_loop(lambda s: jnp.sum(s) < until, lambda s: 2 * s, x)


def on_a_device(x):
  return lax.platform_dependent(x, cuda=doubled(100.0), default=doubled(1000.0))


def test_turns_are_those_of_the_device_and_of_the_longest_query(labelled):
  data = [jnp.ones((2, 4)) * jnp.array([[1.0], [2.0]])]
  traced = jax.jit(jax.vmap(on_a_device)).trace(*data)
  # 4, 8, ... 128; and 4, ... 1024.
  assert list(turns.count(traced.jaxpr, "cuda", data).values()) == [5]
  assert list(turns.count(traced.jaxpr, "tpu", data).values()) == [8]


def test_the_compiler_keeps_labels(labelled):
  data = [jnp.ones((4,))]
  traced = jax.jit(doubled(100.0)).trace(*data)
  text = traced.lower().compile().as_text()
  once, all_turns = counting.cost(text), counting.cost(text, turns.count(traced.jaxpr, "cpu", data))
  assert once.loops == all_turns.loops == 1
  more = all_turns.launches - once.launches
  assert more > 0
  assert more % 4 == 0  # Five turns are four more than one.


def test_the_turns_of_the_noise_cover_the_nodes(labelled):
  """The gradient sweeps over the nodes once more, in as many turns."""
  from tests.benchmarks.devices import programs

  program = programs.table(True)["gradient of ndcg, Gaussian [32, 1000]"]
  small = program._replace(shape=(2, 50))
  with platforms.forced("gpu"):
    traced = jax.jit(small.function).trace(*small.arguments)
    text = traced.lower().as_text(debug_info=True)
  counts = turns.count(traced.jaxpr, "cuda", small.data())
  assert counts
  assert all(re.search(rf"{name}\b", text) for name in counts)
  assert all(count >= 0 for count in counts.values())


def test_the_turns_of_a_transposed_sweep_are_counted(labelled):
  """The gradient of exposures is the transpose of a sweep, which needs a sweep for their values."""

  def squared(scores):
    return jnp.sum(jnp.square(jr.exposure.expected(scores, ranking=jr.Gumbel(1.0))))

  data = [jnp.linspace(2.0, -2.0, 30)]
  with platforms.forced("gpu"):
    traced = jax.jit(jax.grad(squared)).trace(*data)
  values, slopes = turns.count(traced.jaxpr, "cuda", data).values()
  assert values == slopes > 1
