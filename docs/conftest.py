"""Pages whose examples need a library that not every test installs."""


def pytest_ignore_collect(collection_path, config):
    """JAX's page is `make test-jax`'s, which names it: other suites have no JAX, or have set it to 64 bits."""
    if collection_path.name == "jax.md":
        return not any(str(argument).endswith("jax.md") for argument in config.args)
    return None
