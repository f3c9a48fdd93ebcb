"""Compiles for a device that this machine does not have, as if it were the default one."""

import os
from typing import Any

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

NAMES = {"cuda": "NVIDIA H100 80GB HBM3", "tpu": "TPU v5e"}

# A TPU compiler otherwise asks a server which TPU it runs on, and only one process may load it.
_TPU = {
  "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
  "TPU_ACCELERATOR_TYPE": "v5litepod-4",
  "TPU_SKIP_MDS_QUERY": "1",
  "TPU_WORKER_HOSTNAMES": "localhost",
}
_H100 = f"""gpu_device_info {{
  clock_rate_ghz: 1.98 core_count: 132 cuda_compute_capability {{ major: 9 }}
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  device_memory_size: 84978434048 fpus_per_core: 128 l2_cache_size: 52428800
  memory_bandwidth: 3352320000000 registers_per_block_limit: 65536 registers_per_core_limit: 65536
  shared_memory_per_block: 49152 shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472 threads_per_block_limit: 1024 threads_per_core_limit: 2048
  threads_per_warp: 32
}}
device_description_str: "{NAMES["cuda"]}" dnn_version_info {{ major: 9 minor: 8 }}
platform_name: "CUDA"
"""


def device(platform: str) -> Any:
  """A described device: a TPU v5e for tpu, an H100 for cuda.

  Raises:
    RuntimeError: if the plugin of the platform is not installed.
  """
  os.environ.update(_TPU)
  jax.config.update("jax_platforms", "cpu")
  try:
    if platform == "tpu":
      found = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2")
    else:
      found = topologies.get_topology_desc(
        platform="cuda", topology_name="1x1x1", topology="1x1x1", target_config=_H100
      )
  except Exception as error:
    raise RuntimeError(f"there is no compiler for {platform} here: {error}") from error
  return found.devices[0]


def traced(function: Any, arguments: list[jax.ShapeDtypeStruct], on: Any) -> Any:
  """A function traced for a device; `.jaxpr` and `.lower().compile()` give its programs."""
  here = NamedSharding(Mesh(np.array([on]), ("x",)), PartitionSpec())
  placed = [jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=here) for x in arguments]
  return jax.jit(function).trace(*placed)
