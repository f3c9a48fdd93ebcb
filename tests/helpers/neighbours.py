"""What may be wrong with another query of a batch, or with another call of a sweep."""

import numpy as np

_NAN, _INF = np.nan, np.inf
# Numbers that no parameter should have, or only the largest ones.
NUMBERS = (_NAN, _INF, 1e30, 1e-30, 0.0)
# Scores and labels of six items; what is None is that of an ordinary query.
QUERIES = {
  "NaN scores": (_NAN, None),
  "one NaN score": ([_NAN, 1, 0, 0, 2, 5], None),
  "infinite scores": (_INF, None),
  "nothing retrieved": (-_INF, None),
  "huge scores": ([3e38, -3e38] * 3, None),
  "all kinds of scores": ([_INF, -_INF, _NAN, 3e38, 0, 1], None),
  "NaN labels": (None, _NAN),
  "infinite labels": (None, _INF),
  "labels of minus infinity": (None, -_INF),
  "huge labels": (None, 3e38),
}
