"""Cases that end differently in the processes of a job."""

import os
import signal
import threading
import unittest

from jax._src import distributed, test_multiprocess


class TeamTest(unittest.TestCase):
    def setUp(self):
        self.address, self.count, self.rank = distributed.joined

    def test_01_passes(self):
        self.assertEqual(self.count, 3)
        self.assertEqual(__name__, "__main__")
        print(f"process {self.rank} of {self.count} at {self.address}", flush=True)

    def test_02_fails_in_one(self):
        self.assertNotEqual(self.rank, 1)

    def test_03_is_skipped(self):
        self.skipTest("not on this device")

    def test_04_crashes_in_one(self):
        if self.rank == 2:
            os.kill(os.getpid(), signal.SIGSEGV)
        threading.Event().wait()

    def test_05_hangs_in_one(self):
        if self.rank == 1:
            threading.Event().wait()

    def test_06_passes_after_all(self):
        pass


if __name__ == "__main__":
    OPTION = "set before the processes start"
    test_multiprocess.main()
