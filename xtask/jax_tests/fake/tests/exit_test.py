"""A file whose process crashes when it exits, for the test of the runner."""

import atexit
import os
import unittest

atexit.register(os.abort)


class ExitTest(unittest.TestCase):
    def test_passes(self):
        pass
