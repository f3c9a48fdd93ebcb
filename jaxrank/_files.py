"""Files that are opened once, read from pipes as from disk, and unpacked by what is in them."""

import bz2
import contextlib
import functools
import gzip
import importlib
import io
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any, BinaryIO

# How files are packed: by their first bytes when they are read, by their suffix when written.
_MAGIC = {
  "gzip": re.compile(rb"\x1f\x8b"),
  "bz2": re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"),
  "xz": re.compile(rb"\xfd7zXZ\x00"),
  "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
  "lz4": re.compile(rb"\x04\x22\x4d\x18"),
}
SUFFIXES = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd", ".lz4": "lz4"}

_BROKEN = (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError)

# The number of bytes by which the format of a file is known: the first line of most files.
_HEAD = 1 << 16

# What may stand before the first line.
_BLANKS = re.compile(rb"(\xef\xbb\xbf)?\s*")

# The length of the longest line, in bytes.
LONGEST = 1 << 26

# CR in the place of the end of a line, and what to do.
_LONE = re.compile(rb"\r(?!\s*(?:\n|\Z))")
LONE_RETURN = (
  "a line ends with CR alone, as in files of old Macs; convert the file, for example with "
  r"tr '\r' '\n'"
)

# Text that is longer and takes so many times less room packed is none: tables reach about 50.
_LARGE, _RATIO = 1 << 28, 200


class Stream(io.RawIOBase):
  """The bytes of a file, unpacked.

  Attributes:
    head: The first bytes, which are still to be read at first.
    count: The number of bytes that were read so far.
  """

  def __init__(self, file: Any, kind: str = "", packed: "Stream | None" = None):
    self._file, self._kind, self._packed = file, kind, packed
    self._ahead, self.count = memoryview(b""), 0
    self.head = self.read(_HEAD) or b""
    self._ahead = memoryview(self.head)

  def readable(self) -> bool:
    """True."""
    return True

  def first_line(self) -> bytes:
    """The first line that is not blank, or the begin of one that is longer than any line of text.

    It is still to be read, and nothing may have been read before.
    """
    text, begin, end = bytearray(), 0, -1
    while end < 0 and len(text) <= LONGEST and (part := self.read(_HEAD)):
      text += part
      begin = _BLANKS.match(text, begin).end()  # type: ignore[union-attr]
      end = text.find(b"\n", max(begin, len(text) - len(part)))
    self._ahead = memoryview(bytes(text) + self._ahead)
    return bytes(text[begin : None if end < 0 else end])

  def readinto(self, buffer: Any) -> int:
    """Reads bytes into a buffer; 0 at the end.

    Raises:
      ValueError: if packed data are broken, or their text grows beyond all measure.
    """
    view = memoryview(buffer)
    ahead = len(self._ahead[: len(view)])
    view[:ahead], self._ahead = self._ahead[:ahead], self._ahead[ahead:]
    try:
      count = self._file.readinto(view[ahead:])
    except _BROKEN as error:
      if not self._packed:
        raise
      raise ValueError(
        f"broken {self._kind} data: {error}; copy or download the file again, or pack the rows "
        "that were appended to it"
      ) from error
    self.count += count
    if self._packed and self.count > max(_LARGE, _RATIO * self._packed.count):
      raise ValueError(
        f"{self._packed.count} bytes of {self._kind} data became more than {self.count} bytes, as "
        "no table does; unpack the file to read it all the same"
      )
    return ahead + int(count)


@contextlib.contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Stream]:
  """Opens a file, or the standard input for `-`, which is read from its begin to its end.

  Raises:
    FileNotFoundError: if there is no such file.
    ValueError: if packed data are broken.
    ModuleNotFoundError: if what unpacks the file is not installed.
  """
  with contextlib.ExitStack() as stack:
    standard = str(path) == "-"
    file = sys.stdin.buffer if standard else stack.enter_context(open(path, "rb"))
    stream = Stream(file)
    kind = next((kind for kind, magic in _MAGIC.items() if magic.match(stream.head)), None)
    yield stream if kind is None else Stream(_unpacking(kind, stream), kind, stream)


def lines(stream: Stream) -> Iterator[bytes]:
  """The lines of a stream.

  Raises:
    ValueError: if a line is longer than any line of text, or ends with CR alone.
  """
  reader = io.BufferedReader(stream, 1 << 16)
  while line := reader.readline(LONGEST):
    check_length(line)
    if lone_return(line) is not None:
      raise ValueError(LONE_RETURN)
    yield line


def check_length(line: bytes) -> None:
  """Raises `ValueError` if a line, or what is known of it, is longer than any line of text."""
  if len(line) >= LONGEST:
    raise ValueError(f"a line is longer than {LONGEST >> 20} MiB; pass a file of text")


def lone_return(text: bytes, *, quoted: bool = False) -> int | None:
  """The place of the first CR that stands where a line ends with CR alone.

  A CR between quotes is part of a column if columns may be quoted.
  """
  for match in _LONE.finditer(text):
    at = match.start()
    if not quoted or text.count(b'"', text.rfind(b"\n", 0, at) + 1, at) % 2 == 0:
      return at
  return None


@contextlib.contextmanager
def created(path: str | os.PathLike[str]) -> Iterator[Any]:
  """Opens a file for writing; what is written is packed as the suffix says."""
  with open(path, "wb") as plain, contextlib.ExitStack() as stack:
    kind = SUFFIXES.get(PurePath(path).suffix.lower())
    yield plain if kind is None else stack.enter_context(_packing(kind, plain))


def without_suffix(path: str | os.PathLike[str]) -> PurePath:
  """The path without the suffix of what packs the file."""
  pure = PurePath(path)
  return pure.with_suffix("") if pure.suffix.lower() in SUFFIXES else pure


# What unpacks one stream; Python's readers take for the end of a file what is no further stream.
_STREAMS: dict[str, Callable[[], Any]] = {
  "bz2": bz2.BZ2Decompressor,
  "xz": functools.partial(lzma.LZMADecompressor, lzma.FORMAT_XZ),
}


class _Unpacked(io.RawIOBase):
  """The text of packed streams, one after another; zeros between them are padding, as in gzip."""

  def __init__(self, file: Any, new: Callable[[], Any]):
    self._file, self._new, self._stream = file, new, new()

  def readable(self) -> bool:
    """True."""
    return True

  def readinto(self, buffer: Any) -> int:
    """Reads bytes into a buffer; 0 at the end."""
    text = b""
    while buffer and not text:
      packed = self._stream.unused_data.lstrip(b"\0")
      if self._stream.eof:
        while not packed and (more := self._file.read(_HEAD)):
          packed = more.lstrip(b"\0")
        if not packed:
          return 0
        self._stream = self._new()
      elif self._stream.needs_input:
        packed = self._file.read(_HEAD)
        if not packed:
          raise EOFError("the file ends within a stream")
      text = self._stream.decompress(packed, len(buffer))
    buffer[: len(text)] = text
    return len(text)


def _unpacking(kind: str, file: Any) -> Any:
  if kind == "gzip":
    return gzip.GzipFile(fileobj=file)
  if kind in _STREAMS:
    return _Unpacked(file, _STREAMS[kind])
  return _arrow(kind).CompressedInputStream(file, kind)


def _packing(kind: str, file: BinaryIO) -> Any:
  if kind == "gzip":
    # Without a name and a time, equal tables make equal files.
    return gzip.GzipFile("", "wb", 6, file, 0)
  if kind == "bz2":
    return bz2.BZ2File(file, "wb")
  if kind == "xz":
    return lzma.LZMAFile(file, "wb")
  return _arrow(kind).CompressedOutputStream(file, kind)


def _arrow(kind: str) -> Any:
  try:
    return importlib.import_module("pyarrow")
  except ModuleNotFoundError:
    raise ModuleNotFoundError(
      f"{kind} data need pyarrow: python -m pip install 'jaxrank[trec]' brings it.", name="pyarrow"
    ) from None
