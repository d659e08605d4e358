"""A file that skips itself, for the test of the runner."""

import unittest

raise unittest.SkipTest("not on this system")
