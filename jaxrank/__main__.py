"""`python -m jaxrank` is the command `jaxrank`."""

import sys

from jaxrank.command import program

if __name__ == "__main__":
  sys.exit(program())
