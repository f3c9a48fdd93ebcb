"""What holds numbers and is no array: frames, sparse matrices, masked arrays, tensors of torch.

The messages say how each is converted.
"""

from typing import Any

import numpy as np


def check(name: str, x: Any) -> None:
  """Raises `TypeError` for what holds numbers and is no array, alone or in a list.

  The message has the conversion.
  """
  if hasattr(x, "columns") and hasattr(x, "shape"):
    raise TypeError(
      f"{name} must be an array, got a {type(x).__name__}: pass {name}.to_numpy() if a row is a "
      'query, or its columns to jaxrank.pad, such as frame["score"]; jaxrank.trec.evaluate takes '
      "frames of judgements and of a run."
    )
  _check_conversion(name, x, name, "")


def _check_conversion(name: str, x: Any, it: str, of: str) -> None:
  """Raises `TypeError` for what NumPy cannot read, alone or in a list; `it` is its name there."""
  if isinstance(x, list | tuple):
    for entry in x:
      if not isinstance(entry, int | float | np.generic | str):
        _check_conversion(name, entry, "x", f" for each x in {name}")
  elif found := _conversion(x, it):
    got, write = found
    raise TypeError(f"{name} must be an array, got {got}: pass {write}{of}.")


def _conversion(x: Any, it: str) -> tuple[str, str] | None:
  """What `x` is that holds numbers and is no array for NumPy, and its conversion."""
  kind = type(x).__name__
  if hasattr(x, "tocsr") or hasattr(x, "todense"):
    dense = "toarray" if hasattr(x, "tocsr") else "todense"
    write = f"{it}.{dense}(), and where= if cells without an entry are no candidates"
    return f"a sparse {kind}", write
  if isinstance(x, np.ma.MaskedArray):
    write = f"{it}.filled(0), and where=~np.ma.getmaskarray({it})"
    return f"a {kind}, whose mask would be lost", write
  if not hasattr(x, "requires_grad"):
    return None
  if getattr(x, "is_meta", False):
    return f"a {kind} of the device meta, which has no values", f"{it} of the CPU or a GPU"
  if x.requires_grad:
    return f"a {kind} that requires a gradient", f"{it}.detach()"
  if getattr(x, "is_nested", False):
    write = f"{it}.to_padded_tensor(0.0), and where=, which is False on padding"
    return f"a nested {kind}", write
  if str(getattr(x, "layout", "torch.strided")) != "torch.strided":
    return f"a sparse {kind}", f"{it}.to_dense()"
  if str(x.dtype).startswith(("torch.bfloat16", "torch.float8")):
    return f"a {kind} of {x.dtype}, which NumPy does not have", f"{it}.float()"
  return None
