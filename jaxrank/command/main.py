"""What the command does, from its arguments to its status."""

import argparse
import gc
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, TextIO

from jaxrank._errors import AdvisedError
from jaxrank.command import arguments, fusing_arguments

# What the extra `trec` installs.
_NEEDED = ("platformdirs", "pyarrow", "rich")


# What functions of Python advise, in options of the command.
_ADVICE = {
  "unjudged": "The option -J leaves out unjudged items.",
  "queries": (
    "use --queries both to evaluate those in both, or --queries judged for 0 where the run has "
    "none."
  ),
  "empty run": "use --queries judged for 0 for each query of the qrels.",
}


def program() -> NoReturn:
  """The command as a process of its own, which ends at once.

  Garbage is not worth collecting, and threads of libraries that an error left behind would end an
  orderly exit with another status.
  """
  gc.disable()
  try:
    status = main()
  except SystemExit as end:
    status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
  try:
    sys.stdout.flush()
    sys.stderr.flush()
  except OSError:
    status = status or 1
  os._exit(status)


def main(words: Sequence[str] | None = None) -> int:
  """Runs the command with these arguments, or those of the process, and returns its status."""
  words = sys.argv[1:] if words is None else words
  fuses = [*words[:1]] == ["fuse"]
  args = fusing_arguments.read(words[1:]) if fuses else arguments.read(words)
  try:
    return _fuse(args) if fuses else _run(args)
  except BrokenPipeError:
    return 1
  except OSError as error:
    if error.filename is None:
      return _failed(error)
    from jaxrank.command import evaluating

    return _failed(f"{error.filename}: {error.strerror}{evaluating.instead(str(error.filename))}")
  except (ValueError, TypeError, ModuleNotFoundError) as error:
    return _failed(error)
  except KeyboardInterrupt:
    print("jaxrank: interrupted", file=sys.stderr)
    return 130


def _failed(error: object) -> int:
  text = str(error)
  if isinstance(error, AdvisedError):
    text = f"{error.fault} {_ADVICE.get(error.about, error.advice)}"
  # Without the name of the function of Python.
  text = re.sub(r"^(?:(?:(?:trec|fusion|stats|Run)\.\w+|parse|evaluate): )+", "", text)
  print(f"jaxrank: error: {text}", file=sys.stderr)
  return 1


def _print(text: str, file: TextIO | None = None) -> None:
  """Prints a text, in plain characters where the standard output, or the file, has no others."""
  file = file or sys.stdout
  encoding = file.encoding or "utf-8"
  try:
    text.encode(encoding)
  except UnicodeEncodeError:
    plain = text.replace("\N{BOX DRAWINGS LIGHT HORIZONTAL}", "-")
    text = plain.encode(encoding, "backslashreplace").decode(encoding)
  print(text, end="", file=file)


def _check_installed() -> None:
  missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
  if missing:
    raise ModuleNotFoundError(
      f"the command needs {' and '.join(missing)}: pip install 'jaxrank[trec]'."
    )


def _run(args: argparse.Namespace) -> int:
  _check_installed()
  from jaxrank.command import comparing, evaluating, judging, picture, rendering

  if not args.no_cache:
    evaluating.keep_programs()
  results = evaluating.evaluate(args)
  if results.judged is not None:
    _print(judging.FORMS[args.form](judging.judge(results, args), args))
    return 0
  compared = comparing.compare(results, args) if args.compare else None
  _print(rendering.FORMS[args.form](results, compared, args))
  if args.plot:
    picture.draw(results, compared, Path(args.plot))
  return 0


def _fuse(args: argparse.Namespace) -> int:
  _check_installed()
  from jaxrank.command import evaluating, fusing, picture

  if not args.no_cache:
    evaluating.keep_programs()
  fused = fusing.fuse(args)
  _print(fused.report, sys.stderr if args.out == "-" else sys.stdout)
  if fused.run is not None and args.out:
    fusing.write(fused.run, args.out)
  if fused.fit is not None and args.plot:
    picture.draw_weights(fused.fit, Path(args.plot))
  return 0
