"""Columns of lists, sparse matrices and tensors: who follows the messages gets the array."""

import re

import numpy as np
import pytest

import jaxrank as jr
from jaxrank._core import checks

SCORES = [[0.5, 0.25, 1.0], [0.25, 0.5, 1.0]]


def followed(call, given):
  """What `call` returns for scores that its messages convert, and what they told to write."""
  told = []
  for _ in range(4):
    try:
      return call(given), told
    except (TypeError, ValueError) as error:
      advice = re.search(r"[:;] pass (.*?\)(?: for each x in scores)?)[.,]", str(error))
      told.append(advice[1])
      write = advice[1].replace("for each", "for")
      given = eval(f"[{write}]" if " for " in write else write, {"scores": given})
  raise AssertionError(told)


HOLDERS = {
  "a column of lists": ("pandas", lambda pd: pd.Series(SCORES), ["scores.tolist()"]),
  "a column of arrays": ("pandas", lambda pd: pd.Series([*np.array(SCORES)]), ["scores.tolist()"]),
  "a column of Arrow": (
    "pyarrow",
    lambda pa: pa.table({"scores": SCORES})["scores"],
    ["scores.to_pylist()"],
  ),
  "an array of Arrow": (
    "pyarrow",
    lambda pa: pa.array(SCORES, pa.list_(pa.float32(), 3)),
    ["scores.tolist()"],
  ),
  "a sparse matrix": (
    "scipy.sparse",
    lambda sparse: sparse.csr_matrix(SCORES),
    ["scores.toarray()"],
  ),
  "a sparse array of JAX": (
    "jax.experimental.sparse",
    lambda sparse: sparse.BCOO.fromdense(np.array(SCORES, np.float32)),
    ["scores.todense()"],
  ),
  "rows of bfloat16": (
    "torch",
    lambda torch: [*torch.tensor(SCORES).bfloat16()],
    ["x.float() for each x in scores"],
  ),
  "rows with a gradient": (
    "torch",
    lambda torch: [*torch.tensor(SCORES).requires_grad_()],
    ["x.detach() for each x in scores"],
  ),
  "a gradient in bfloat16": (
    "torch",
    lambda torch: torch.tensor(SCORES).bfloat16().requires_grad_(),
    ["scores.detach()", "scores.float()"],
  ),
  "a sparse tensor": (
    "torch",
    lambda torch: torch.tensor(SCORES).to_sparse(),
    ["scores.to_dense()"],
  ),
  "a sparse tensor by rows": (
    "torch",
    lambda torch: torch.tensor(SCORES).to_sparse_csr().bfloat16(),
    ["scores.to_dense()", "scores.float()"],
  ),
  "a nested tensor": (
    "torch",
    lambda torch: torch.nested.nested_tensor(SCORES),
    ["scores.to_padded_tensor(0.0)"],
  ),
  "a jagged tensor": (
    "torch",
    lambda torch: torch.nested.nested_tensor(SCORES, layout=torch.jagged),
    ["scores.to_padded_tensor(0.0)"],
  ),
}


# Those of torch, of its prototypes.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", HOLDERS)
def test_messages_lead_to_the_array(kind):
  library, make, advice = HOLDERS[kind]
  scores = make(pytest.importorskip(library))
  for call in (
    lambda scores: checks.array("scores", scores),
    lambda scores: jr.trec.Run.from_arrays([1, 2], ["a", "b", "c"], scores).scores.reshape(2, 3),
  ):
    array, told = followed(call, scores)
    np.testing.assert_array_equal(array, SCORES)
    assert told == advice


def test_a_meta_tensor_has_no_values():
  torch = pytest.importorskip("torch")
  for scores in (torch.ones(2, 3, device="meta"), [torch.ones(3, device="meta")] * 2):
    with pytest.raises(TypeError, match="scores .* of the device meta, which has no values: pass"):
      checks.array("scores", scores)


COLUMNS = {
  "pandas": lambda pandas, rows: pandas.Series(rows),
  "pyarrow": lambda pyarrow, rows: pyarrow.chunked_array([rows]),
  "numpy": lambda numpy, rows: numpy.array([numpy.array(row) for row in rows], object),
}


@pytest.mark.parametrize("library", COLUMNS)
def test_a_column_of_lists_of_any_length_becomes_a_batch(library):
  module = pytest.importorskip(library)
  scores, labels = (COLUMNS[library](module, x) for x in ([[0.5, 0.25], [1.0]], [[0, 1], [1]]))
  way = "to_pylist" if library == "pyarrow" else "tolist"
  with pytest.raises(TypeError, match=rf"^ndcg: scores .* a column of lists; pass scores\.{way}\("):
    jr.ndcg(scores, labels)
  if library == "pyarrow":
    with pytest.raises(TypeError, match=r"^pad: scores .*; pass scores\.to_pylist\("):
      jr.pad([0, 1], scores, labels)
    scores, labels = scores.to_pylist(), labels.to_pylist()
  with pytest.raises(ValueError, match="scores must have rows of one length.* jaxrank.pad takes"):
    jr.ndcg(list(scores), list(labels))
  with pytest.raises(ValueError, match="For lists of each query, write pad") as error:
    jr.pad([0, 1], scores, labels)
  write = str(error.value).partition("write ")[2].rstrip(".")
  batch = eval(write, {"pad": jr.pad, "np": np, "scores": scores, "labels": labels})
  assert batch.scores.tolist() == [[0.5, 0.25], [1.0, 0.0]]
  assert batch.labels.tolist() == [[0, 1], [1, 0]]


def test_a_run_of_a_column_of_documents():
  documents = np.array([["a", "b"], None], object)[:1]
  with pytest.raises(ValueError, match=r"documents must be .*; pass documents\.tolist\(\)\.$"):
    jr.trec.Run.from_arrays(["q"], documents, [[0.5, 0.25]])
  run = jr.trec.Run.from_arrays(["q"], documents.tolist(), [[0.5, 0.25]])
  assert run.to_dict() == {"q": {"a": 0.5, "b": 0.25}}
