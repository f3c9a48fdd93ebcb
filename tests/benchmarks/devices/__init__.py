"""What a program costs on an H100 and on a TPU v5e: `python -m tests.benchmarks.devices`.

The compilers of both devices run on any machine, so the counts need neither device.
tests/benchmarks/accelerators.md says what is counted, and what the counts do not show.
"""
