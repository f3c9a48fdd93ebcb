"""`python -m jaxrank` is the command `jaxrank`."""

from jaxrank.command import program

if __name__ == "__main__":
  program()
