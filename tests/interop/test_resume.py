"""A job that is killed at any step and started again ends with the same numbers, to the bit."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("grain")
pytest.importorskip("orbax.checkpoint")

pytestmark = pytest.mark.killed
ROOT = Path(__file__).parents[2]


@pytest.fixture
def start(tmp_path):
  """Starts the example; all its processes share a cache of compiled programs."""

  def call(folder):
    words = ["--folder", tmp_path / folder, "--steps", "60", "--every", "10", "--lists", "150"]
    environment = {
      **os.environ,
      "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "programs"),
      "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
      "JAX_NUM_CPU_DEVICES": "1",
      "PYTHONPATH": str(ROOT),
    }
    return subprocess.Popen(
      [sys.executable, ROOT / "examples" / "resume.py", *words],
      stdout=subprocess.PIPE,
      stderr=subprocess.DEVNULL,
      text=True,
      env=environment,
    )

  return call


def test_a_killed_job_continues(start, tmp_path):
  whole, _ = start("whole").communicate(timeout=300)
  for step in (10, 30, 50):
    job = start("killed")
    end = time.monotonic() + 300
    while not (tmp_path / "killed" / str(step)).exists():
      assert job.poll() is None
      assert time.monotonic() < end
      time.sleep(0.005)
    job.send_signal(signal.SIGKILL)
    said, _ = job.communicate()
    assert ("resuming at step" in said) == (step > 10)
  said, _ = start("killed").communicate(timeout=300)
  assert said.splitlines()[0].startswith("resuming at step")
  assert said.splitlines()[-1] == whole.splitlines()[-1]
  assert whole.splitlines()[-1].startswith("60 steps: nDCG@10 0.")
