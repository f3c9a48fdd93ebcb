"""Grain: padded batches, batches by length, and iterators that continue where they stopped."""

import functools
import json

import numpy as np
import pytest

grain = pytest.importorskip("grain")

from absl import flags  # noqa: E402

from jaxrank.interop.grain import BatchByLength, pad  # noqa: E402

pytestmark = pytest.mark.thorough
ONE_THREAD = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
RNG = np.random.default_rng(0)
SIZES = np.clip(np.exp(RNG.normal(4.5, 0.8, 3000)).astype(int), 1, 1251)


class Lists:
  """A source of lists of these sizes."""

  def __init__(self, sizes=SIZES):
    self.sizes = sizes

  def __len__(self):
    return len(self.sizes)

  def __getitem__(self, i):
    values = np.arange(self.sizes[i])
    return {"scores": (values + i).astype(np.float32), "labels": values % 3, "id": np.int32(i)}


def dataset(sizes=SIZES, seed=0):
  return grain.MapDataset.source(Lists(sizes)).seed(seed).shuffle().to_iter_dataset(ONE_THREAD)


def same(a, b):
  assert a.keys() == b.keys()
  for name in a:
    np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def test_padded_examples_hold_every_column():
  examples = [
    {"features": np.ones((2, 3), np.float32), "labels": [1, 0], "ids": ["a", "bb"], "user": 7.0},
    {"features": np.full((1, 3), 2, np.float32), "labels": [2], "ids": ["c"], "user": 8.0},
  ]
  batch = pad(examples, length=3, queries=3)
  assert {name: x.shape for name, x in batch.items()} == {
    "features": (3, 3, 3), "labels": (3, 3), "ids": (3, 3), "user": (3,), "where": (3, 3)
  }  # fmt: skip
  assert batch["where"].tolist() == [[True, True, False], [True, False, False], [False] * 3]
  assert batch["ids"].tolist() == [["a", "bb", ""], ["c", "", ""], [""] * 3]
  assert batch["features"].sum(-1).tolist() == [[3, 3, 0], [6, 0, 0], [0, 0, 0]]
  assert batch["user"].tolist() == [7, 8, 0]


def test_a_column_of_the_query_may_be_an_array():
  """Even one that is as long as the list."""
  examples = [{"labels": [0, 1], "user": [1.0, 2.0]}, {"labels": [1], "user": [3.0, 4.0]}]
  assert pad(examples, per_query=["user"])["user"].tolist() == [[1, 2], [3, 4]]
  with pytest.raises(ValueError, match=r"user of example 1 has shape \(2,\).*labels has 1 cand"):
    pad(examples)


@pytest.mark.parametrize(
  ("examples", "options", "error", "text"),
  [
    ([], {}, ValueError, "at least one dictionary, got none"),
    ([[1, 2]], {}, TypeError, "an example must be a dictionary of arrays, got list"),
    ([{"labels": [1]}, {"scores": [1]}], {}, ValueError, "example 0 has .*'labels'.*example 1"),
    ([{"labels": [1], "where": [True]}], {}, ValueError, "must not be named 'where'"),
    ([{"ids": [1]}], {}, ValueError, "labels or scores or features .* got the columns"),
    ([{"labels": 1}], {}, ValueError, "with the candidates first"),
    ([{"labels": [1, 0], "scores": [1.0]}], {}, ValueError, "scores of example 0 has shape"),
    ([{"labels": [1, 0], "scores": [1.0, np.nan]}], {}, ValueError, "has NaN at place 1"),
    ([{"labels": [1, 0], "scores": ["a", "b"]}], {}, ValueError, "must be numbers"),
    ([{"labels": [1, None]}], {}, ValueError, "labels of example 0 has a None"),
    ([{"labels": [1, 0, 1]}], {"length": 2}, ValueError, "length is 2, got 3 candidates"),
    ([{"labels": [1]}, {"labels": [1]}], {"queries": 1}, ValueError, "queries is 1, got 2"),
  ],
)
def test_what_cannot_be_padded_is_named(examples, options, error, text):
  with pytest.raises(error, match=f"interop.grain.pad: .*{text}"):
    pad(examples, **options)


def test_a_loader_pads_too():
  source = grain.sources.RangeDataSource(1, 7, 1)
  batch = grain.transforms.Batch(4, drop_remainder=False, batch_fn=functools.partial(pad, length=8))
  sampler = grain.samplers.IndexSampler(6, grain.sharding.NoSharding(), num_epochs=1)
  loader = grain.DataLoader(
    data_source=source, sampler=sampler, operations=[Fill(), batch], worker_count=0
  )
  assert [batch["where"].sum(-1).tolist() for batch in loader] == [[1, 2, 3, 4], [5, 6]]
  refused = grain.DataLoader(
    data_source=source, sampler=sampler, operations=[Fill(), BatchByLength(2)], worker_count=0
  )
  with pytest.raises(TypeError, match=r"BatchByLength: expected a dataset.*cannot save the state"):
    next(iter(refused))


class Fill(grain.transforms.Map):
  def map(self, n):
    return {"labels": np.ones(n)}


@pytest.mark.parametrize("sizes", [SIZES, SIZES[:2048], SIZES[:70], SIZES[:3]], ids=len)
def test_every_list_comes_once_in_a_full_batch(sizes):
  seen, short = [], 0
  for batch in dataset(sizes).pipe(BatchByLength(32)):
    lists = np.flatnonzero(batch["where"].any(-1))
    assert len(batch["where"]) == 32
    short += lists.size < 32
    for i in lists:
      example = Lists(sizes)[batch["id"][i]]
      for name in ("scores", "labels"):
        np.testing.assert_array_equal(batch[name][i][batch["where"][i]], example[name])
    seen += batch["id"][lists].tolist()
  assert short == (len(sizes) % 32 > 0)
  assert sorted(seen) == [*range(len(sizes))]


def test_little_padding_is_left():
  """On lists as long as those of web search: at most 1,251 items, 120 in the mean."""
  batches = [*dataset().pipe(BatchByLength(32))]
  cells = sum(batch["where"].size for batch in batches)
  assert 1 - SIZES.sum() / cells < 0.15
  powers = [2**i for i in range(12)]
  batches = [*dataset().pipe(BatchByLength(32, lengths=powers))]
  assert 1 - SIZES.sum() / sum(batch["where"].size for batch in batches) > 0.25
  assert {batch["where"].shape[1] for batch in batches} <= {*powers}


def test_the_order_of_batches_is_random_and_repeats():
  def lengths(seed):
    return [x["where"].shape[1] for x in dataset().pipe(BatchByLength(32, seed=seed))]

  assert lengths(0) == lengths(0) != lengths(1)
  assert lengths(0)[:64] != sorted(lengths(0)[:64])


@pytest.mark.parametrize("start", [0, 1, 5, 63, 64, 65, 93, 94])
def test_a_restored_iterator_continues(start):
  batches = dataset().pipe(BatchByLength(32))
  first = iter(batches)
  for _ in range(start):
    next(first)
  state = json.loads(json.dumps(first.get_state()))
  again = iter(batches)
  again.set_state(state)
  assert json.loads(json.dumps(again.get_state())) == state
  rest, other = [*first], [*again]
  assert len(rest) == len(other) == 94 - start
  for a, b in zip(rest, other, strict=True):
    same(a, b)


def test_workers_continue_too():
  """Under Grain's own processes, each of which batches its part of the examples."""
  flags.FLAGS.mark_as_parsed()  # Programs that absl starts have parsed them.
  source = grain.MapDataset.source(Lists(SIZES[:600])).seed(0).shuffle()
  made = source.to_iter_dataset(ONE_THREAD).pipe(BatchByLength(16, buffer=64))
  made = made.mp_prefetch(grain.MultiprocessingOptions(num_workers=2))
  first = iter(made)
  for _ in range(7):
    next(first)
  state, rest = first.get_state(), [*first]
  again = iter(made)
  again.set_state(state)
  for a, b in zip(rest, again, strict=True):
    same(a, b)
  seen = [i for batch in made for i in batch["id"][batch["where"].any(-1)].tolist()]
  assert sorted(seen) == [*range(600)]


def test_states_of_another_pipeline_are_refused():
  state = iter(dataset().pipe(BatchByLength(32))).get_state()
  for other in (BatchByLength(16), BatchByLength(32, lengths=[2000]), BatchByLength(32, seed=1)):
    with pytest.raises(ValueError, match="the state is of another pipeline"):
      iter(dataset().pipe(other)).set_state(state)
  with pytest.raises(ValueError, match="the state is of another pipeline"):
    iter(dataset().pipe(BatchByLength(32))).set_state({"next_index": 3})


def test_mistakes():
  with pytest.raises(ValueError, match="batch_size must be at least 1"):
    BatchByLength(0)
  with pytest.raises(ValueError, match="lengths must be at least one"):
    BatchByLength(2, lengths=[])
  with pytest.raises(TypeError, match="a length must be an int"):
    BatchByLength(2, lengths=[1.5])
  with pytest.raises(ValueError, match="has 1251 candidates, and the largest of lengths is 100"):
    [*dataset(np.append(SIZES[:5], 1251)).pipe(BatchByLength(2, lengths=[100]))]
