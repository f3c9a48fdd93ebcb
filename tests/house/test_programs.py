"""`python -m tests.programs`: what it prints of the costs of tests."""

import subprocess
import sys

from tests import programs
from tests.helpers.suites import thorough


def test_costs_are_summed_by_folder_and_listed_by_test():
  costs = {
    "tests/a/test_x.py::test_1": programs.Cost(1, 3, 0.1, 0.2, 0.3, 6.0),
    "tests/a/test_y.py::test_2[b/c::d]": programs.Cost(1, 1, 0.0, 0.1, 0.1, 1.0),
    "tests/b/test_z.py::test_3": programs.Cost(1, 0, 0.0, 0.0, 0.0, 3.0),
  }
  assert list(programs.tables(costs, costliest=2)) == [
    "| folder | tests | programs | traced | lowered | compiled | processor s |",
    "| tests/a | 2 | 4 | 0.1 | 0.3 | 0.4 | 7.0 |",
    "| tests/b | 1 | 0 | 0.0 | 0.0 | 0.0 | 3.0 |",
    "| all | 3 | 4 | 0.1 | 0.3 | 0.4 | 10.0 |",
    "",
    "1 tests cost 50% of the processor seconds.",
    "2 tests cost 80% of the processor seconds.",
    "",
    "| test | tests | programs | traced | lowered | compiled | processor s |",
    "| tests/a/test_x.py::test_1 | 1 | 3 | 0.1 | 0.2 | 0.3 | 6.0 |",
    "| tests/b/test_z.py::test_3 | 1 | 0 | 0.0 | 0.0 | 0.0 | 3.0 |",
  ]
  assert list(programs.tables({}, costliest=2))[1].startswith("| all | 0 | 0 |")


@thorough
def test_a_run_lists_what_its_tests_compile():
  name = "tests/metrics/test_long_lists.py"
  done = subprocess.run(
    [sys.executable, "-m", "tests.programs", name, "-k", "tie_throughout", "-m", ""],
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stdout + done.stderr
  (row,) = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| all |")]
  tests, programs_compiled, *seconds = (float(x.strip(" |")) for x in row[1:])
  assert tests >= 1
  assert programs_compiled >= 1
  assert min(seconds) >= 0
  assert seconds[-1] > 0
