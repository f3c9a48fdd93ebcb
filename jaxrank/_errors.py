"""Errors whose advice depends on the door, and words of messages, which the command loads too."""

from typing import Any, Literal


class AdvisedError(ValueError):
  """A mistake whose advice each door gives in its own words: in Python, or as options.

  Attributes:
    fault: What is wrong.
    advice: What to do, in Python.
    about: What the advice is about, by which other doors have theirs.
  """

  def __init__(
    self, fault: str, advice: str, about: Literal["name", "unjudged", "queries", "empty run"]
  ):
    super().__init__(fault, advice, about)
    self.fault, self.advice, self.about = fault, advice, about

  def __str__(self) -> str:
    return f"{self.fault} {self.advice}"

  def __reduce__(self) -> Any:
    return _unpickled, (self.fault, self.advice, self.about)


# What a traceback shows; pickle would look for the class there.
AdvisedError.__module__, AdvisedError.__qualname__ = "builtins", "ValueError"


def _unpickled(*parts: Any) -> AdvisedError:
  return AdvisedError(*parts)


def counted(count: int, one: str, many: str | None = None) -> str:
  """A number of things, such as "1 query"; several are `many`, or `one` with an s."""
  return f"{count} {one if count == 1 else many or f'{one}s'}"
