"""Cases with every outcome, for the test of the runner."""

import os
import signal
import threading
import unittest


class OddTest(unittest.TestCase):
    def test_01_passes(self):
        pass

    def test_02_fails(self):
        self.assertEqual(1, 2, "the reason why")

    def test_03_crashes(self):
        os.kill(os.getpid(), signal.SIGSEGV)

    def test_04_is_skipped(self):
        self.skipTest("not on this device")

    def test_05_hangs(self):
        threading.Event().wait()

    def test_06_has_subtests(self):
        for i in range(4):
            with self.subTest(i=i):
                self.assertNotEqual(i, 2)

    @unittest.expectedFailure
    def test_07_fails_as_expected(self):
        self.fail()

    @unittest.expectedFailure
    def test_08_passes_unexpectedly(self):
        pass

    def test_09_exits(self):
        os._exit(3)

    def test_10_passes_after_all(self):
        self.assertEqual(os.environ["ODD_VARIABLE"], "7")


class FixtureTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise ValueError("no fixture")

    def test_never_runs(self):
        pass


@unittest.skip("a class that never runs")
class SkippedTest(unittest.TestCase):
    def test_is_skipped(self):
        pass


if __name__ == "__main__":
    unittest.main()
