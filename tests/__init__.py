"""The tests of jaxrank, in folders by subject.

`python -m pytest` runs the quick tests, `python -m pytest -m thorough` the others, and `python -m
pytest -m lint` those that need the type checkers of the extra `lint`. `helpers.suites` says which
tests are quick.

* `helpers`: oracles in plain Python, random queries, and the traits of the metrics.
* `metrics`, `losses`, `rankings` and so on: one folder for each subject of the library.
* `interop`: each adapter against its documented numbers, and against the original where it is
  installed.
* `devices`: batches in blocks, and queries and candidates that are spread over devices.
* `house`: the layout of the library, its public names and types, its documentation and these tests.
* `benchmarks`: `python -m tests.benchmarks` times the library against others.
* `mutants`: `python -m tests.mutants` shows whether the tests find small random changes.
"""
