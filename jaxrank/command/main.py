"""What the command does, from its arguments to its status."""

import argparse
import gc
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from jaxrank.command import arguments

# What the extra `trec` installs.
_NEEDED = ("platformdirs", "pyarrow", "rich")


def program() -> int:
  """The command as a process of its own, which ends before garbage is worth collecting."""
  gc.disable()
  return main()


def main(words: Sequence[str] | None = None) -> int:
  """Runs the command with these arguments, or those of the process, and returns its status."""
  args = arguments.read(words)
  try:
    return _run(args)
  except BrokenPipeError:
    return 1
  except OSError as error:
    return _failed(error if error.filename is None else f"{error.filename}: {error.strerror}")
  except (ValueError, TypeError, ModuleNotFoundError) as error:
    return _failed(error)
  except KeyboardInterrupt:
    print("jaxrank: interrupted", file=sys.stderr)
    return 130


def _failed(error: object) -> int:
  print(f"jaxrank: error: {error}", file=sys.stderr)
  return 1


def _run(args: argparse.Namespace) -> int:
  missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
  if missing:
    raise ModuleNotFoundError(
      f"the command needs {' and '.join(missing)}: pip install 'jaxrank[trec]'."
    )
  from jaxrank.command import comparing, evaluating, picture, rendering

  if not args.no_cache:
    evaluating.keep_programs()
  results = evaluating.evaluate(args)
  compared = comparing.compare(results, args) if args.compare else None
  text = rendering.FORMS[args.form](results, compared, args)
  if args.plot:
    picture.draw(results, Path(args.plot))
  print(text, end="")
  return 0
