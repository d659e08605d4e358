"""Has the name of a file outside its folder."""

import unittest


class HelperTest(unittest.TestCase):
    def test_fails(self):
        self.fail("in a folder")


if __name__ == "__main__":
    unittest.main()
