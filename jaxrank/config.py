"""Settings on which compiled programs depend, in addition to their arguments.

Otherwise programs depend on the configuration of JAX alone, and not on the machine that compiles
them: one that is compiled for another device is the program of that device.

`items_per_block`, `2 ** 18` by default: on CPU, exact metrics that do more than count the items of
the whole list, and losses that sort or hold a matrix for each query, run on blocks of queries of a
larger batch with about this many items in all, so that temporaries stay in the caches; so do the
sums of `Laplace` and `Logistic` over a batch of batches, such as one of temperatures. None does not
split a batch, for batches that CPU devices share under a mesh with automatic axes. Other devices
never split.
"""

import dataclasses

from jaxrank._base import count

__all__ = ["items_per_block", "update"]


@dataclasses.dataclass
class _Settings:
  # Enough items to keep two to eight cores busy, few enough for the temporaries of a sort to fit in
  # their caches.
  items_per_block: int | None = 1 << 18


_settings = _Settings()


def update(*, items_per_block: int | None) -> None:
  """Changes the settings for programs that are compiled afterwards.

  >>> update(items_per_block=2**20)
  >>> print(items_per_block())
  1048576
  >>> update(items_per_block=2**18)

  Args:
    items_per_block: The number of items in a block of queries; None does not split.

  Raises:
    TypeError: if `items_per_block` is neither an int nor None.
    ValueError: if it is not positive.
  """
  if items_per_block is not None:
    items_per_block = count("config.update: items_per_block", items_per_block)
  _settings.items_per_block = items_per_block


def items_per_block() -> int | None:
  """The number of items in a block of queries on CPU; None does not split."""
  return _settings.items_per_block
