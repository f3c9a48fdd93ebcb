"""One of two processes that evaluate together: `python two_processes.py ADDRESS ID INPUT OUTPUT`.

The input holds the batches of all queries. The first process has three of each four queries of a
batch and the second the rest, and none at all in the last batch.
"""

import json
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import jaxrank as jr


def main(address, process, source, target):
  jax.config.update("jax_cpu_collectives_implementation", "gloo")
  jax.config.update("jax_numpy_rank_promotion", "raise")
  jax.config.update("jax_numpy_dtype_promotion", "strict")
  jax.distributed.initialize(address, 2, process)
  with np.load(source) as file:
    data = dict(file)
  own = jr.Evaluator(MEASURES, empty="skip", groups=3)
  mesh = jax.make_mesh((jax.device_count(),), ("q",), axis_types=(jax.sharding.AxisType.Explicit,))
  spread, whole = NamedSharding(mesh, P("q")), NamedSharding(mesh, P())
  rows = len(data["scores"][0])
  out = {}

  def local(i):
    """The queries of this process, padded to the same number on every one."""
    last = i == len(data["scores"]) - 1
    cut = rows if last else 3 * rows // 4
    mine = slice(cut) if process == 0 else slice(cut, rows)
    part = {name: x[i][mine] for name, x in data.items()}
    missing = rows - len(part["scores"])
    return {name: np.pad(x, ((0, missing), *((0, 0),) * (x.ndim - 1))) for name, x in part.items()}

  def together(i):
    return {name: jax.make_array_from_process_local_data(spread, x) for name, x in local(i).items()}

  with jax.set_mesh(mesh):
    # As one program over arrays that live in both processes.
    state = jax.device_put(own.init(), whole)
    update = jax.jit(lambda state, arrays: own.update(state, **arrays), out_shardings=whole)
    update = update.lower(state, together(0)).compile()
    for i in range(len(data["scores"])):
      state = update(state, together(i))
    out["jit"] = report(own, state)
    out["exchanged"] = exchanged(update)

    # With collectives by hand.
    @jax.jit
    @jax.shard_map(in_specs=P("q"), out_specs=P())
    def step(arrays):
      return own.all_reduce(own.update(own.init(axis_name="q"), **arrays), "q")

    state = step(together(0))
    for i in range(1, len(data["scores"])):
      state = jax.jit(own.merge)(state, step(together(i)))
    out["shard_map"] = report(own, state)

    @jax.jit
    def loss(arrays):
      lists = {"labels": arrays["labels"], "where": arrays["where"]}
      return jax.value_and_grad(mean_loss)(arrays["scores"], **lists)

    loss = loss.lower(together(0)).compile()
    value, slope = loss(together(0))
    out["loss"] = float(value)
    local_slope = multihost_utils.global_array_to_host_local_array(slope, mesh, P("q"))
    out["slope"] = np.asarray(local_slope)[: len(data["scores"][0])].tolist()
    out["exchanged"] += exchanged(loss)

  # Each process on its own, merged at the end.
  update = jax.jit(lambda state, arrays: own.update(state, **arrays))
  state = own.init()
  for i in range(len(data["scores"])):
    state = update(state, local(i))
  both = multihost_utils.process_allgather(state)
  first, second = (jax.tree.map(lambda x, i=i: x[i], both) for i in range(2))
  out["merged"] = report(own, own.merge(first, second))

  with open(target, "w") as file:
    json.dump(out, file)
  jax.distributed.shutdown()


MEASURES = "RR Success(rel=2)@2"


def mean_loss(scores, labels, where):
  """The mean over the queries that have candidates."""
  loss = jr.losses.softmax(scores, labels, where=where)
  return jr.aggregate(loss, where=jnp.any(where, -1))


_COLLECTIVE = (
  r"= ([^=]*?) (?:all-gather|all-reduce|all-to-all|collective-permute|collective-broadcast|"
  r"ragged-all-to-all|reduce-scatter)(?:-start)?\("
)


def exchanged(compiled):
  """The shapes of all that the devices of a program hand each other, by any collective."""
  arrays = " ".join(re.findall(_COLLECTIVE, compiled.as_text()))
  return [
    [int(x) for x in re.findall(r"\d+", dims)] for dims in re.findall(r"\[([\d,]*)\]", arrays)
  ]


def report(own, state):
  """All that can be read off a state."""
  return {
    "mean": own.compute(state),
    "error": own.standard_error(state),
    "groups": own.per_group(state),
    "count": np.asarray(state.count).tolist(),
    "invalid": np.asarray(state.invalid).tolist(),
  }


if __name__ == "__main__":
  main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
