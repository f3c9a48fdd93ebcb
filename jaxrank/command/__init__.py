"""The commands `jaxrank QRELS RUN... MEASURE...` and `jaxrank fuse`, as in `docs/command.md`."""

from jaxrank.command.main import main, program

__all__ = ["main", "program"]
