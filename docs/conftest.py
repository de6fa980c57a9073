"""Pages whose examples need a library that not every test installs."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("jax") else ["jax.md"]
