"""Files of TREC: judgements (qrels) and runs, as padded arrays or evaluated directly.

`read_qrels` and `read_run` take files, dictionaries and frames; `to_arrays` pads them for any
metric, and `evaluate` evaluates a run of any size in batches. Reading needs pyarrow, which the
extra `trec` installs. `docs/trec.md` is a tutorial.
"""

from jaxrank.trec.arrays import Arrays, to_arrays
from jaxrank.trec.evaluation import Evaluation, evaluate
from jaxrank.trec.reading import read_qrels, read_run
from jaxrank.trec.tables import Qrels, Run

__all__ = [
  "Arrays",
  "Evaluation",
  "Qrels",
  "Run",
  "evaluate",
  "read_qrels",
  "read_run",
  "to_arrays",
]
