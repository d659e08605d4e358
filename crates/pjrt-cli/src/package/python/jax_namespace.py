"""JAX finds this module by its place and by an entry point of the same name, and so once."""

from {package}.jax_plugin import initialize

__all__ = ["initialize"]
