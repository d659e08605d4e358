"""Has the name of a file outside its folder, and imports the same module."""

import sys
import types
import unittest

for name in ("jax", "jax._src"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = []

from jax._src import only_in_the_checkout
from jax._src.only_there import module


class HelperTest(unittest.TestCase):
    def test_fails(self):
        self.assertEqual(only_in_the_checkout.VALUE, module.VALUE, "in a folder")


if __name__ == "__main__":
    unittest.main()
