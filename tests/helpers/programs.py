"""Where tests keep compiled programs: a folder of the user for each version of JAX."""

from importlib import metadata

import platformdirs

FOLDERS = platformdirs.user_cache_path("jaxrank-tests")
FOLDER = FOLDERS / "-".join(["programs", *map(metadata.version, ("jax", "jaxlib"))])
