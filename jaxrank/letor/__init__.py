"""Learning-to-rank files in the format of LETOR and svmlight, and features within a query.

`read` reads one file or several, and `folds` finds those of a data set in folds. `ranks`,
`z_scores` and `min_max` put features on a scale that the queries of a data set have in common, of
rows with the ids of their queries or of padded arrays.
"""

from jaxrank.letor.reading import Dataset, concatenate, read
from jaxrank.letor.scales import min_max, ranks, z_scores
from jaxrank.letor.splits import Fold, folds

__all__ = [
  "Dataset",
  "Fold",
  "concatenate",
  "folds",
  "min_max",
  "ranks",
  "read",
  "z_scores",
]
