"""The command `jaxrank QRELS RUN... MEASURE...`; `docs/trec.md` shows it."""

from jaxrank.command.main import main, program

__all__ = ["main", "program"]
