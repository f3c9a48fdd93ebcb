"""Flags of XLA for tests, which compile hundreds of programs and run each on little data."""

import importlib.metadata

_ALWAYS = ("--xla_backend_optimization_level=0", "--xla_llvm_disable_expensive_passes=true")
# Flags that some versions of jaxlib have, and that save half of the time or more. XLA ends the
# process at a flag that it does not know.
_OF_VERSIONS = {
  "--xla_cpu_parallel_codegen_split_count=1": ("0.10.", "0.12."),
  "--xla_cpu_use_fusion_emitters=false": ("0.10.",),
}


def flags() -> str:
  """The value of `XLA_FLAGS` for the installed version of jaxlib."""
  version = importlib.metadata.version("jaxlib")
  known = [flag for flag, versions in _OF_VERSIONS.items() if version.startswith(versions)]
  return " ".join([*_ALWAYS, *known])
