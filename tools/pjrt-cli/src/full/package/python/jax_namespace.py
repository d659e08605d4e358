"""JAX searches for this module by its location and by an entry point. Both have the same name, so JAX finds it once."""

from {package}.jax_plugin import initialize

__all__ = ["initialize"]
