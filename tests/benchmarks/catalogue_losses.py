"""`python -m tests.benchmarks.catalogue_losses`: losses over whole catalogues, against a product.

The table replaces what stands between two comments of `docs/catalogues.md`. Both sides compute a
value and its gradients by the queries and the items. The product is the sum of the squares of all
scores, in the same chunks, which its backward pass computes again.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

import jaxrank as jr

from . import report
from .report import Row, at_most, megabytes, milliseconds, ratio_row
from .timing import Contender, jitted, planned_bytes, race

SIZE, CHUNK, ROUNDS = 64, 8192, 5
# A whole number of chunks, so that the product needs no other step at the end.
ITEMS = (98_304, 1_007_616)
DENSE = 65_536

Gradients = tuple[Array, tuple[Array, Array]]


def data(queries: int, items: int, positives: int) -> tuple[Array, Array, Array]:
  """Queries, items, and ids."""
  keys = jax.random.split(jax.random.key(0), 3)
  u, v = (
    jax.random.normal(key, (n, SIZE)) / SIZE**0.25
    for key, n in zip(keys[:2], (queries, items), strict=True)
  )
  return u, v, jax.random.randint(keys[2], (queries, positives), 0, items)


def product(queries: Array, items: Array, ids: Array) -> Gradients:
  """What cannot be spared: all scores once forwards, and three products of their size backwards."""
  del ids

  def squares(queries: Array, part: Array) -> Array:
    return jnp.sum(jnp.square(jnp.matmul(queries, part.T, precision="highest")))

  def chunk(i: Any) -> Array:
    return lax.dynamic_slice_in_dim(items, i * CHUNK, CHUNK)

  def forwards(i: Any, total: Array) -> Array:
    return total + squares(queries, chunk(i))

  def backwards(i: Any, slopes: tuple[Array, Array]) -> tuple[Array, Array]:
    of_queries, of_chunk = jax.grad(squares, argnums=(0, 1))(queries, chunk(i))
    of_items = lax.dynamic_update_slice_in_dim(slopes[1], of_chunk, i * CHUNK, 0)
    return slopes[0] + of_queries, of_items

  chunks = items.shape[0] // CHUNK
  value = lax.fori_loop(0, chunks, forwards, jnp.zeros(()))
  start = jnp.zeros_like(queries), jnp.zeros_like(items)
  return value, lax.fori_loop(0, chunks, backwards, start)


def gradients(loss: Callable[..., Array]) -> Callable[..., Gradients]:
  """The mean of a loss and its gradients by the queries and the items."""

  def found(queries: Array, items: Array, ids: Array) -> Gradients:
    def mean(queries: Array, items: Array) -> Array:
      return jnp.mean(loss(queries, items, ids))

    both: Gradients = jax.value_and_grad(mean, argnums=(0, 1))(queries, items)
    return both

  return found


def softmax(queries: Array, items: Array, ids: Array) -> Array:
  """The softmax over the catalogue."""
  return jr.corpus.softmax(queries, items, ids, chunk=CHUNK)


def smooth(name: str, queries: Array, items: Array, ids: Array) -> Array:
  """A smooth metric over the catalogue."""
  found = jr.corpus.evaluate(name, queries, items, ids, ranking=jr.Laplace(0.5), chunk=CHUNK)
  return found[name]


def of_all_scores(queries: Array, items: Array, ids: Array) -> Array:
  """`jaxrank.ndcg` of a matrix of all scores."""
  scores = jnp.matmul(queries, items.T, precision="highest")
  labels = jnp.zeros_like(scores).at[jnp.arange(len(ids))[:, None], ids].set(1)
  return jr.ndcg(scores, labels, ranking=jr.Laplace(0.5))


# Queries, positives, the loss, and how many times as long as the product it may take.
LOSSES: dict[str, tuple[int, int, Callable[..., Array], float | None]] = {
  "softmax, 256 queries, 1 positive": (256, 1, softmax, 2.0),
  "softmax, 256 queries, 5 positives": (256, 5, softmax, 2.0),
  "nDCG, Laplace, 64 queries, 5 positives": (64, 5, functools.partial(smooth, "nDCG"), 3.0),
  "AP, Laplace, 64 queries, 5 positives": (64, 5, functools.partial(smooth, "AP"), None),
  "nDCG@10, Laplace, 64 queries, 5 positives": (64, 5, functools.partial(smooth, "nDCG@10"), None),
}


def rows(items: int) -> list[Row]:
  """Times and memory of each loss with its gradients, against the product."""
  found = []
  for name, (queries, positives, loss, limit) in LOSSES.items():
    given = data(queries, items, positives)
    text = f"{name}, {items:,} items"
    found.append(_row(text, gradients(loss), "the product", product, given, limit))
  return found


def _row(
  name: str,
  ours: Callable[..., Any],
  other: str,
  theirs: Callable[..., Any],
  given: tuple[Array, ...],
  limit: float | None,
) -> Row:
  contenders = {
    side: Contender(functools.partial(_first, jitted(call, *given)), ROUNDS)
    for side, call in (("ours", ours), ("theirs", theirs))
  }
  seconds = {side: result.best for side, result in race(contenders).items()}
  memory = [megabytes(planned_bytes(call, *given)) for call in (ours, theirs)]
  times = [milliseconds(seconds[side]) for side in contenders]
  mine, them = (f"{time}, {size}" for time, size in zip(times, memory, strict=True))
  target = None if limit is None else at_most(limit)
  return ratio_row(name, mine, other, them, seconds["ours"] / seconds["theirs"], target)


def _first(call: Callable[[], Any]) -> Any:
  return call()[0]


def main() -> None:
  """Measures, prints the table and writes it into the page."""
  found = [row for items in ITEMS for row in rows(items)]
  given = data(64, DENSE, 5)
  loss = gradients(functools.partial(smooth, "nDCG"))
  name = f"nDCG, Laplace, 64 queries, 5 positives, {DENSE:,} items"
  found.append(_row(name, loss, "all scores", gradients(of_all_scores), given, 0.2))
  print(report.table(found))
  report.write_rows("catalogue losses", found, "catalogues.md")


if __name__ == "__main__":
  main()
