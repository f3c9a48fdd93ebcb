"""jaxrank timed against its peers and against itself: `python -m tests.benchmarks`."""
