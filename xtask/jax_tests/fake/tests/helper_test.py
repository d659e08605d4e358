"""Imports a module of tests that only the checkout has."""

import sys
import types
import unittest

# A package of JAX that is installed elsewhere, without the module.
for name in ("jax", "jax._src"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = []

from jax._src import only_in_the_checkout


class HelperTest(unittest.TestCase):
    def test_passes(self):
        self.assertEqual(only_in_the_checkout.VALUE, 7)


if __name__ == "__main__":
    unittest.main()
