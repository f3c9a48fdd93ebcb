"""Reading LETOR and svmlight files."""

import gzip
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxrank import _files, letor, padding

TEXT = """\
# a header
2 qid:7 1:0.5 3:2.0 # docid = GX000 \xe9 5:1

0 qid:7 2:-1e-3#no space
1.5  qid:9\t3:+4 1:.25
-1 qid:7
"""
FEATURES = [[0.5, 0, 2], [0, -1e-3, 0], [0.25, 0, 4], [0, 0, 0]]


@pytest.fixture
def write(tmp_path):
  """Writes a file into an empty folder and gives its path."""

  def write(name, text):
    path = tmp_path / name
    data = text.encode("latin-1")
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path

  return write


@pytest.mark.parametrize("name", ["train.txt", "train.txt.gz"])
def test_a_file_with_query_ids(write, name):
  data = letor.read(write(name, TEXT))
  np.testing.assert_array_equal(data.features, np.array(FEATURES, np.float32))
  assert data.labels.tolist() == [2, 0, 1.5, -1]
  assert data.query_ids.tolist() == [7, 7, 9, 7]
  assert [field.dtype for field in data[:3]] == [np.float32, np.float32, np.int64]


def test_compression_is_seen_in_the_content(write, tmp_path):
  path = tmp_path / "train"
  write("train.gz", TEXT).rename(path)
  assert letor.read(str(path)).labels.tolist() == [2, 0, 1.5, -1]


def test_windows_line_ends(write):
  data = letor.read(write("train", TEXT.replace("\n", "\r\n")))
  assert data.features.tolist() == np.array(FEATURES, np.float32).tolist()


def test_lines_that_end_with_cr_alone_are_refused(write):
  """The rows behind the comment of the first one would be part of it."""
  for text in (TEXT, TEXT.partition("\n")[2], TEXT.replace("#", "")):
    with pytest.raises(ValueError, match=r"train, line 1: a line ends with CR alone.* convert"):
      letor.read(write("train", text.replace("\n", "\r")))


def test_train_and_test_agree_on_the_columns(write):
  data = letor.read(write("test", "1 qid:1 2:5\n"), n_features=4)
  assert data.features.tolist() == [[0, 5, 0, 0]]


def test_indices_from_zero(write):
  data = letor.read(write("train", "1 qid:1 0:3 2:5\n"), zero_based=True)
  assert data.features.tolist() == [[3, 0, 5]]
  data = letor.read(write("train", "1 qid:1 0:3\n"), zero_based=True, n_features=1)
  assert data.features.tolist() == [[3]]


@pytest.mark.parametrize(
  ("name", "sizes"),
  [
    ("train", "train.query"),
    ("train", "train.query.gz"),
    ("train.gz", "train.gz.query"),
    ("train.gz", "train.query"),
    ("train.gz", "train.query.gz"),
  ],
)
def test_sizes_are_found_beside_the_file(write, name, sizes):
  path = write(name, "1 1:5\n0 1:4\n\n2\n")
  write(sizes, "1\n0\n\n2\n")
  assert letor.read(path).query_ids.tolist() == [0, 2, 2]


def test_sizes_in_a_file_that_is_named(write):
  path = write("train", "1 1:5\n0 1:4\n2\n")
  write("train.query", "3\n")
  assert letor.read(path, group=write("sizes", "2\n1\n")).query_ids.tolist() == [0, 0, 1]


def test_query_ids_win_over_a_file_beside(write):
  write("train.query", "4\n")
  assert letor.read(write("train", TEXT)).query_ids.tolist() == [7, 7, 9, 7]


@pytest.mark.parametrize("text", ["", "\n# nothing\n"])
def test_no_rows_are_legal(write, text):
  data = letor.read(write("train", text), n_features=3)
  assert [field.shape for field in data[:3]] == [(0, 3), (0,), (0,)]
  assert letor.read(write("train", text)).features.shape == (0, 0)


def test_rows_without_features(write):
  assert letor.read(write("train", "1 qid:1\n0 qid:1\n")).features.shape == (2, 0)


def test_rows_go_into_batches(write):
  data = letor.read(write("train", TEXT))
  batch = padding.pad(data.query_ids, data.features[:, 0], data.labels)
  assert batch.rows.tolist() == [[0, 1, 3], [2, -1, -1]]


ROWS = st.tuples(
  st.integers(-1, 4),
  st.integers(-(2**63), 2**63 - 1),
  st.dictionaries(st.integers(1, 9), st.floats(width=32, allow_nan=False), max_size=9),
)


@given(rows=st.lists(ROWS, max_size=8))
@settings(max_examples=100, deadline=None)
def test_what_was_written_is_read(tmp_path_factory, rows):
  lines = [
    f"{label} qid:{query} " + " ".join(f"{index}:{value!r}" for index, value in row.items())
    for label, query, row in rows
  ]
  path = tmp_path_factory.mktemp("letor") / "train"
  path.write_text("\n".join(lines))
  data = letor.read(path, n_features=9)
  expected = np.zeros((len(rows), 9), np.float32)
  for features, (_, _, row) in zip(expected, rows, strict=True):
    for index, value in row.items():
      features[index - 1] = value
  np.testing.assert_array_equal(data.features, expected)
  assert data.labels.tolist() == [row[0] for row in rows]
  assert data.query_ids.tolist() == [row[1] for row in rows]


@pytest.mark.parametrize(
  ("line", "message"),
  [
    ("x qid:1 1:2", "the label must be a finite number, got 'x'"),
    ("nan qid:1 1:2", "the label must be a finite number, got 'nan'"),
    ("inf qid:1 1:2", "the label must be a finite number, got 'inf'"),
    ("1:2 qid:1", "the label must be a finite number, got '1:2'"),
    ("1 qid:x 1:2", "the query id must be an integer of at most 64 bits, got 'x'"),
    ("1 qid: 1:2", "the query id must be an integer of at most 64 bits, got ''"),
    ("1 qid:7.5 1:2", "got '7.5'"),
    ("1 qid:9223372036854775808", "got '9223372036854775808'"),
    ("1 qid:1 3", "expected index:value with two numbers, got '3'"),
    ("1 qid:1 3:", "got '3:'"),
    ("1 qid:1 :3", "got ':3'"),
    ("1 qid:1 1:2:3", "got '1:2:3'"),
    ("1 qid:1 2:NULL", "got '2:NULL'"),
    ("1 qid:1 1.5:2", "got '1.5:2'"),
    ("1 qid:1 1:2 qid:2", "got 'qid:2'"),
    ("1 qid:1 \xe9:2", "got '\ufffd:2'"),
    ("1 qid:1 0:2", r"feature index 0 is not in 1\.\.3; see zero_based"),
    ("1 qid:1 -2:2", r"feature index -2 is not in 1\.\.3"),
    ("1 qid:1 4:2", r"feature index 4 is not in 1\.\.3; .*n_features"),
    ("1 qid:1 2:1 2:1", "a feature index comes twice"),
    ("1 2:1", "either every row has a qid, or none has"),
    ("1_0 qid:1 1:2", "expected numbers, got '1_0'"),
    ("1 qid:1_0 1:2", "expected numbers, got 'qid:1_0'"),
    ("1 qid:1 1:2_0 # a_b", "expected numbers, got '1:2_0'"),
    ("1 qid:1 1:2 2:-1e39", r"features must fit 32 bits, got -1e\+39; scale them"),
    ("1e39 qid:1 1:2", r"labels must fit 32 bits, got 1e\+39"),
  ],
)
def test_a_bad_line_is_named(write, line, message):
  path = write("train", f"# one\n1 qid:1 3:2\n\n{line}\n0 qid:1\n")
  with pytest.raises(ValueError, match=rf"train, line 4: .*{message}"):
    letor.read(path, n_features=3)


@pytest.mark.parametrize("zero_based", [False, True])
def test_an_index_that_is_far_too_large(write, zero_based):
  """The array would take 14 TiB."""
  rows = "0 qid:1 1:1 2:1\n" * 1000
  path = write("train", f"{rows}1 qid:1 1:1 2000000000:1\n{rows}")
  message = r"train, line 1001: feature index 2000000000 would make features of 149\d\d GiB"
  with pytest.raises(ValueError, match=message):
    letor.read(path, zero_based=zero_based)


def test_features_may_be_sparse(write):
  path = write("train", "0 qid:1 1:1\n" * 100 + "1 qid:1 100000:1\n")
  assert letor.read(path).features.shape == (101, 100_000)


def test_values_that_are_not_finite_are_kept(write):
  path = write("train", "0 qid:1 1:inf 2:-Infinity 3:nan 4:3.4028235e38 5:1e-50\n")
  expected = np.array([[np.inf, -np.inf, np.nan, 3.4028235e38, 0]], np.float32)
  np.testing.assert_array_equal(letor.read(path).features, expected)


def test_a_byte_order_mark(tmp_path):
  for text in (TEXT.encode("latin-1"), b"1 qid:1 1:2\n", b""):
    (tmp_path / "plain").write_bytes(text)
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbf" + text)
    plain, marked = letor.read(tmp_path / "plain"), letor.read(tmp_path / "marked")
    np.testing.assert_array_equal(plain.features, marked.features)
    assert plain.labels.tolist() == marked.labels.tolist()


@pytest.mark.parametrize("suffix", _files.SUFFIXES)
def test_packed_files(tmp_path, suffix):
  path = tmp_path / f"train{suffix}"
  with _files.created(path) as file:
    file.write(TEXT.encode("latin-1"))
  assert path.read_bytes()[:2] != TEXT.encode()[:2]
  np.testing.assert_array_equal(letor.read(path).features, np.array(FEATURES, np.float32))


def test_packed_files_that_grow_without_end(tmp_path, monkeypatch):
  """Lines are read in blocks, and neither a line nor the text may become too long."""
  monkeypatch.setattr(_files, "_LARGE", 1 << 22)
  monkeypatch.setattr(_files, "LONGEST", 1 << 21)
  for suffix, text, message in (
    (
      ".gz",
      b"# nothing" * 8 + b"\n",
      r"line \d+: \d+ bytes of gzip data became more than \d{7} bytes",
    ),
    (".xz", b"0 qid:1 # " + b" " * 60 + b"\n", r"line \d+: \d+ bytes of xz data became more"),
    (".bz2", bytes(40), r"line 1: a line is longer than 2 MiB"),
  ):
    path = tmp_path / f"train{suffix}"
    with _files.created(path) as file:
      for _ in range(8):
        file.write(text * (1 << 14))
    with pytest.raises(ValueError, match=rf"^letor.read: .*train{suffix}, {message}"):
      letor.read(path)


def test_a_pipe(tmp_path):
  code = "import sys; from jaxrank import letor; print(letor.read(sys.argv[1]).labels.sum())"
  text = "".join(f"{i % 3} qid:{i // 9} 1:0.5\n" for i in range(9000))
  for path in ("-", "/dev/stdin"):
    done = subprocess.run(
      [sys.executable, "-c", code, path], input=text, capture_output=True, text=True, check=True
    )
    assert done.stdout == "9000.0\n"


def test_an_index_that_no_array_can_hold(write):
  path = write("train", "1 qid:1 99999999999999999999999:2\n")
  with pytest.raises(ValueError, match="train, line 1: feature index 99999999999999999999999"):
    letor.read(path)


def test_a_query_id_after_rows_without(write):
  with pytest.raises(ValueError, match="train, line 2: either every row has a qid"):
    letor.read(write("train", "1 1:2\n1 qid:3 1:2\n"))


def test_missing_files_are_named(write, tmp_path):
  with pytest.raises(FileNotFoundError, match="nowhere"):
    letor.read(tmp_path / "nowhere")
  with pytest.raises(FileNotFoundError, match="nowhere"):
    letor.read(write("train", "1 1:2\n"), group=tmp_path / "nowhere")
  with pytest.raises(ValueError, match=r"train has no query ids .* no .*train\.query: pass group="):
    letor.read(tmp_path / "train")


def test_query_ids_and_a_group_file_do_not_mix(write):
  with pytest.raises(ValueError, match="train has query ids .* got .*sizes"):
    letor.read(write("train", TEXT), group=write("sizes", "4\n"))


def test_sizes_that_do_not_add_up(write):
  path = write("train", "1 1:5\n0 1:4\n2\n")
  write("train.query", "2\n2\n")
  with pytest.raises(ValueError, match=r"train\.query add up to 4, but .*train has 3 rows"):
    letor.read(path)


@pytest.mark.parametrize("size", ["x", "-1", "1 2", "1.0"])
def test_a_bad_size_is_named(write, size):
  path = write("train", "1 1:5\n")
  write("train.query", f"1\n{size}\n")
  with pytest.raises(ValueError, match=rf"train\.query, line 2: .* got '{size}'"):
    letor.read(path)


def test_broken_gzip_data_is_named(write):
  path = write("train.gz", TEXT * 100)
  whole = path.read_bytes()
  path.write_bytes(whole[:-20])
  with pytest.raises(
    ValueError, match=r"train\.gz, line \d+: broken gzip data: .* again, or pack the rows"
  ):
    letor.read(path)
  path.write_bytes(whole[:30] + b"\xff" * 20 + whole[50:])
  with pytest.raises(
    ValueError, match=r"train\.gz, line \d+: broken gzip data: .* again, or pack the rows"
  ):
    letor.read(path)


def test_a_number_of_columns_must_be_positive(write):
  with pytest.raises(ValueError, match="n_features must be at least 1, got 0"):
    letor.read(write("train", TEXT), n_features=0)


def test_several_files_follow_each_other(write):
  paths = write("a", "1 qid:3 1:5\n0 qid:1 2:4\n"), write("b.gz", "2 qid:2 3:1\n")
  data = letor.read(paths)
  assert data.query_ids.tolist() == [3, 1, 2]
  assert data.labels.tolist() == [1, 0, 2]
  assert data.features.tolist() == [[5, 0, 0], [0, 4, 0], [0, 0, 1]]
  assert [field.dtype for field in data[:3]] == [np.float32, np.float32, np.int64]
  assert letor.read([str(path) for path in paths], n_features=4).features.shape == (3, 4)


def test_group_files_are_numbered_on(write):
  paths = [write("a", "1 1:5\n0 1:4\n"), write("empty", ""), write("b", "2 1:3\n1\n0\n")]
  write("a.query", "1\n1\n0\n")
  write("b.query", "1\n2\n")
  assert letor.read(paths).query_ids.tolist() == [0, 1, 3, 4, 4]
  groups = [write("sizes", "2\n"), write("none", ""), write("more", "3\n")]
  assert letor.read(paths, group=groups).query_ids.tolist() == [0, 0, 1, 1, 1]


def test_files_with_a_query_in_common_are_named(write):
  paths = write("a", "1 qid:3\n0 qid:7\n"), write("b", "1 qid:4\n"), write("c", "2 qid:7\n")
  message = r"^letor.read: .*a and .*c have the query id 7 in common, .* read them apart"
  with pytest.raises(ValueError, match=message):
    letor.read(paths)


def test_query_ids_and_group_files_of_several_files_do_not_mix(write):
  paths = write("a", "1 1:5\n"), write("b", "1 qid:4\n")
  write("a.query", "1\n")
  message = r"^letor.read: .*b has query ids \(qid\), and .*a has a group file: read them apart"
  with pytest.raises(ValueError, match=message):
    letor.read(paths)


def test_as_many_group_files_as_files(write):
  paths = [write("a", "1 1:5\n"), write("b", "1 1:4\n")]
  with pytest.raises(ValueError, match="group must have a path for each of 2 files, got 1"):
    letor.read(paths, group=write("sizes", "1\n"))
  with pytest.raises(ValueError, match="group must have a path for each of 1 file, got 2"):
    letor.read(paths[0], group=[write("sizes", "1\n")] * 2)


@pytest.mark.parametrize("path", [[], (), [[]], 3, {"a"}, b"a", ["a", 3]])
def test_paths_must_be_paths(path):
  with pytest.raises(TypeError, match=r"letor.read: path must be the path of a file, or several"):
    letor.read(path)


def test_folders_are_no_files(tmp_path):
  with pytest.raises(ValueError, match="path must be the path of a file, got the folder"):
    letor.read([tmp_path])


NAMES = """\
# a header
2 qid:7 1:0.5 #docid = GX030-30-5619768 inc = 1 prob = 0.0866
0 qid:7 2:1 # d\xe9 5:1

1 qid:9 1:1 #docid=GX2
1 qid:9 1:1 #x docid = 3#4
"""


def test_names_of_documents(write):
  data = letor.read(write("train.gz", NAMES), docids=True)
  assert data.docids.tolist() == ["GX030-30-5619768", "d\ufffd", "GX2", "3#4"]
  assert data.docids.dtype.kind == "U"
  assert letor.read(write("train", NAMES)).docids is None
  nothing = letor.read(write("none", ""), docids=True).docids
  assert nothing.shape == (0,)
  assert nothing.dtype.kind == "U"
  paths = write("a", "1 qid:1 # a\n"), write("b", "1 qid:2 # long\n")
  assert letor.read(paths, docids=True).docids.tolist() == ["a", "long"]


@pytest.mark.parametrize("comment", ["", "#", "#  \t", "# docid =", "# docid =  "])
def test_a_row_without_the_name_of_its_document(write, comment):
  path = write("train", f"# one\n1 qid:1 # a\n1 qid:1 1:2 {comment}\n")
  with pytest.raises(ValueError, match="train, line 3: expected the name of the document in a com"):
    letor.read(path, docids=True)


def test_datasets_are_joined(write):
  first = letor.read(write("a", "1 qid:3 1:5\n"))
  second = letor.read(write("b", "2 qid:1 2:1\n0 qid:1\n"))
  both = letor.concatenate(first, second)
  assert both.features.tolist() == [[5, 0], [0, 1], [0, 0]]
  assert both.features.dtype == np.float32
  assert both.labels.tolist() == [1, 2, 0]
  assert both.query_ids.tolist() == [3, 1, 1]
  assert both.docids is None
  assert letor.concatenate(first).features.tolist() == [[5]]
  with pytest.raises(
    ValueError, match="^letor.concatenate: dataset 0 and dataset 2 have the query"
  ):
    letor.concatenate(first, second, first)
  named = letor.read(write("c", "2 qid:2 # c\n"), docids=True)
  with pytest.raises(ValueError, match="either all datasets have docids, or none: got 1 of 2"):
    letor.concatenate(first, named)


@pytest.mark.parametrize("datasets", [(), (3,), (None,), ([],)])
def test_only_datasets_are_joined(datasets):
  with pytest.raises(TypeError, match="^letor.concatenate: datasets must be one Dataset or more"):
    letor.concatenate(*datasets)


@pytest.fixture
def split(write, tmp_path):
  """Writes the three parts of a fold, each a query of its own width."""

  def split(folder, names=("train.txt", "vali.txt", "test.txt")):
    (tmp_path / folder).mkdir()
    for i, name in enumerate(names):
      write(f"{folder}/{name}", f"1 qid:{i} {i + 1}:1 # d{i}\n")
    return tmp_path / folder

  return split


def test_folds_in_the_order_of_their_numbers(split, tmp_path):
  split("Fold10", ("train.txt.gz", "valid.txt", "test.txt"))
  split("Fold2", ("train.txt", "val.txt", "test.txt"))
  split("Fold1")
  split("Folder", ())
  (tmp_path / "Fold3").write_text("")
  found = letor.folds(str(tmp_path))
  assert [fold.train.parent.name for fold in found] == ["Fold1", "Fold2", "Fold10"]
  assert [fold.valid.name for fold in found] == ["vali.txt", "val.txt", "valid.txt"]
  assert found[2].train.name == "train.txt.gz"
  for fold in found:
    data = fold.read(docids=True)
    assert type(data) is letor.Fold
    assert [part.features.tolist() for part in data] == [[[1, 0, 0]], [[0, 1, 0]], [[0, 0, 1]]]
    assert [part.docids.tolist() for part in data] == [["d0"], ["d1"], ["d2"]]
  assert {part.features.shape for part in found[0].read(n_features=5)} == {(1, 5)}
  assert {part.features.shape for part in found[0].read(zero_based=True)} == {(1, 4)}


def test_a_folder_of_files_is_one_fold(split):
  (fold,) = letor.folds(split("istella"))
  assert [path.name for path in fold] == ["train.txt", "vali.txt", "test.txt"]


def test_a_fold_that_lacks_a_part(split, tmp_path):
  split("Fold1")
  home = split("Fold2", ("train.txt", "test.txt"))
  message = rf"^letor.folds: .*{home.name} has no vali.txt or valid.txt or val.txt, plain or packed"
  with pytest.raises(FileNotFoundError, match=message):
    letor.folds(tmp_path)
  with pytest.raises(FileNotFoundError, match=message):
    letor.folds(home)


def test_a_folder_without_folds(tmp_path):
  message = r"^letor.folds: .* neither folders Fold1, .* nor .* train.txt, vali.txt, test.txt"
  with pytest.raises(FileNotFoundError, match=message):
    letor.folds(tmp_path)
  with pytest.raises(FileNotFoundError, match=r"^letor.folds: there is no folder .*nowhere"):
    letor.folds(tmp_path / "nowhere")
  with pytest.raises(TypeError, match=r"^letor.folds: folder must be the path of a folder, got 3"):
    letor.folds(3)
