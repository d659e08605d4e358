"""Tests the runner with files whose cases pass, fail, crash and hang. Needs only the standard library."""

import contextlib
import io
import json
import pathlib
import tempfile
import unittest

import outcomes
import run

FAKE = pathlib.Path(__file__).resolve().with_name("fake")


class RunTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.status, cls.printed, cls.found = cls.run_it("first")

    @classmethod
    def run_it(cls, name, *arguments):
        output = pathlib.Path(cls.folder.name) / f"{name}.json"
        common = ["--jax-checkout", str(FAKE), "--library", "libnone.so", "--output", str(output), "--timeout", "10"]
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            status = run.main([*common, "--jobs", "4", "--env", "ODD_VARIABLE=7", *arguments])
        return status, printed.getvalue(), outcomes.read(output)

    def records(self, file):
        return {case: (record["outcome"], record["reason"]) for case, record in self.found["files"][file].items()}

    def test_each_case_has_its_outcome(self):
        self.assertEqual(
            self.records("odd_test.py"),
            {
                "OddTest.test_01_passes": ("passed", ""),
                "OddTest.test_02_fails": ("failed", "AssertionError: 1 != 2 : the reason why"),
                "OddTest.test_03_crashes": ("crashed", "signal 11 (SIGSEGV)"),
                "OddTest.test_04_is_skipped": ("skipped", "not on this device"),
                "OddTest.test_05_hangs": ("timeout", "longer than 10 s"),
                "OddTest.test_06_has_subtests": ("failed", "(i=2) AssertionError: 2 == 2"),
                "OddTest.test_07_fails_as_expected": ("passed", ""),
                "OddTest.test_08_passes_unexpectedly": ("failed", "passed, although it is marked as an expected failure"),
                "OddTest.test_09_exits": ("crashed", "exit status 3"),
                "OddTest.test_10_passes_after_all": ("passed", ""),
                "FixtureTest.test_never_runs": ("failed", "setUpClass (odd_test.FixtureTest): ValueError: no fixture"),
                "SkippedTest.test_is_skipped": ("skipped", "a class that never runs"),
            },
        )

    def test_each_file_has_its_outcome(self):
        self.assertEqual(self.records("broken_test.py"), {"(import)": ("failed", "ImportError: a module that is not installed")})
        self.assertEqual(self.records("absent_test.py"), {"(import)": ("skipped", "not on this system")})
        aborted = ("crashed", "when the process exited: signal 6 (SIGABRT)")
        self.assertEqual(self.records("exit_test.py"), {"ExitTest.test_passes": ("passed", ""), "(exit)": aborted})

    def test_helpers_come_from_the_checkout(self):
        self.assertEqual(self.records("helper_test.py"), {"HelperTest.test_passes": ("passed", "")})

    def test_processes_run_each_case_together(self):
        arguments = ["--processes", "3", "--env", f"PYTHONPATH={FAKE}", "--timeout", "4"]
        status, printed, found = self.run_it("team", *arguments)
        self.assertEqual(status, 1, printed)
        (records,) = found["files"].values()
        self.assertEqual(list(found["files"]), ["multiprocess/team_test.py"])
        self.assertEqual(
            {case.split(".")[1]: (record["outcome"], record["reason"]) for case, record in records.items()},
            {
                "test_01_passes": ("passed", ""),
                "test_02_fails_in_one": ("failed", "process 1: AssertionError: 1 == 1"),
                "test_03_is_skipped": ("skipped", "process 0: not on this device"),
                "test_04_crashes_in_one": ("crashed", "process 2: signal 11 (SIGSEGV)"),
                "test_05_hangs_in_one": ("timeout", "longer than 4 s"),
                "test_06_passes_after_all": ("passed", ""),
            },
        )
        self.assertEqual(found["processes"], 3)
        logs = pathlib.Path(self.folder.name) / "team.logs" / "pjrt_cpu" / "multiprocess"
        for rank in range(3):
            self.assertIn(f"process {rank} of 3 at 127.0.0.1:", (logs / f"team_test.{rank}.log").read_text(errors="replace"))

    def test_a_file_out_of_time_is_resumed(self):
        # The limit has passed before the first case, and a case that has started runs to its end.
        limits = ["--file-timeout", "0.000001", "odd_test", "--filter", "test_(01|02|04|10)"]
        status, printed, found = self.run_it("limited", *limits)
        self.assertEqual(status, 1)
        self.assertIn("not run, because the time of their file was over: 3; run again with --resume", printed)
        case = found["files"]["odd_test.py"]["OddTest.test_02_fails"]
        self.assertEqual((case["outcome"], case["reason"]), ("not_run", "the file ran longer than 1e-06 s"))
        # Each run with the same limit adds a case, and the earlier ones do not run again.
        for outcome in ("failed", "skipped", "passed"):
            status, printed, found = self.run_it("limited", *limits, "--resume")
            self.assertRegex(printed, f"pjrt_cpu: odd_test.py: .*1 {outcome}")
        self.assertNotIn("run again with --resume", printed)
        outcome_of = {case: record["outcome"] for case, record in found["files"]["odd_test.py"].items()}
        self.assertEqual(list(outcome_of.values()), ["passed", "failed", "skipped", "passed"])
        # A complete run has nothing left, and its options are compared.
        _, printed, again = self.run_it("limited", *limits, "--resume")
        self.assertEqual(again, found)
        self.assertNotIn("pjrt_cpu: odd_test.py", printed)
        with self.assertRaisesRegex(SystemExit, "--resume .*limited.json: that run has devices 1, and this one 2; leave"):
            self.run_it("limited", *limits, "--resume", "--devices", "2")

    def test_a_resumed_run_runs_each_reference_once(self):
        limits = ["--file-timeout", "0.000001", "odd_test", "--filter", "test_0[28]", "--reference", "cpu"]
        self.run_it("both", *limits)
        _, printed, found = self.run_it("both", *limits, "--resume")
        self.assertEqual(list(found["references"][0]["files"]["odd_test.py"]), ["OddTest.test_02_fails", "OddTest.test_08_passes_unexpectedly"])
        self.assertIn("reference-cpu: odd_test.py: 1 failed", printed)

    def test_names_may_be_longer_than_an_argument(self):
        folder = pathlib.Path(self.folder.name)
        options = run.parse(["--jax-checkout", str(FAKE), "--library", "libnone.so", "--output", str(folder / "long.json")])
        options.logs = options.scratch = folder / "long.logs"
        options.scratch.mkdir()
        file = FAKE / "tests" / "odd_test.py"
        records = run.run_file(run.target_of(options), file, options, ["OddTest.test_01_passes", "x" * (1 << 20)])
        self.assertEqual([(name, record["outcome"]) for name, record in records.items()], [("OddTest.test_01_passes", "passed")])

    def test_logs_hold_what_the_cases_printed(self):
        log = (pathlib.Path(self.folder.name) / "first.logs" / "pjrt_cpu" / "odd_test.log").read_text(errors="replace")
        self.assertIn("the reason why", log)
        # The log contains the stack of the case that hung.
        self.assertIn("test_05_hangs", log)

    def test_failures_without_a_baseline_are_an_error(self):
        self.assertEqual(self.status, 1)
        self.assertIn("OddTest.test_02_fails: failed: AssertionError: 1 != 2 : the reason why", self.printed)

    def test_known_failures_are_not_an_error_with_a_baseline(self):
        baseline = str(pathlib.Path(self.folder.name) / "first.json")
        arguments = ["odd_test", "--filter", "test_0[124]|test_10"]
        status, printed, _ = self.run_it("known", *arguments, "--baseline", baseline)
        self.assertEqual(status, 0, printed)
        self.assertIn("regressions since the baseline: 0", printed)
        # The last one of two values is used, and now a case fails that passed before.
        status, printed, _ = self.run_it("worse", *arguments, "--env", "ODD_VARIABLE=8", "--baseline", baseline)
        self.assertEqual(status, 1, printed)
        self.assertIn("regressions since the baseline: 1\n  odd_test.py OddTest.test_10_passes_after_all: failed, was passed", printed)
        worse = str(pathlib.Path(self.folder.name) / "worse.json")
        status, printed, _ = self.run_it("better", *arguments, "--baseline", worse)
        self.assertEqual(status, 0, printed)
        self.assertIn("progress since the baseline: 1\n  odd_test.py OddTest.test_10_passes_after_all: passed, was failed", printed)

    def test_failures_run_on_the_reference(self):
        # A variable of the plugin under test does not apply to the reference.
        _, printed, found = self.run_it("reference", "odd_test", "--filter", "test_0[12]", "--reference", "cpu")
        (ran,) = found["references"]
        self.assertEqual(ran["library"], "cpu")
        self.assertEqual([(file, list(cases)) for file, cases in ran["files"].items()], [("odd_test.py", ["OddTest.test_02_fails"])])
        self.assertIn("of these, passed on a reference: 0", printed)

    def test_files_of_one_name_in_several_folders(self):
        _, _, found = self.run_it("folders", "helper_test", "more/helper_test", "--reference", "cpu")
        outcome = {file: {case: record["outcome"] for case, record in cases.items()} for file, cases in found["files"].items()}
        expected = {"HelperTest.test_fails": "failed"}
        self.assertEqual(outcome, {"helper_test.py": {"HelperTest.test_passes": "passed"}, "more/helper_test.py": expected})
        self.assertEqual(list(found["references"][0]["files"]), ["more/helper_test.py"])
        logs = pathlib.Path(self.folder.name) / "folders.logs" / "pjrt_cpu"
        self.assertIn("in a folder", (logs / "more" / "helper_test.log").read_text(errors="replace"))

    def test_failures_run_on_each_reference(self):
        names = ["--reference", "cpu", "--reference", "libother.so"]
        _, _, found = self.run_it("references", "odd_test", "--filter", "test_0[12]", *names)
        self.assertEqual([reference["library"] for reference in found["references"]], ["cpu", "libother.so"])
        logs = pathlib.Path(self.folder.name) / "references.logs"
        self.assertEqual(json.loads((logs / "reference-libother.json").read_text()), {"library_path": "libother.so", "create_options": {}})

    def test_expected_failures_are_not_an_error(self):
        expected = pathlib.Path(self.folder.name) / "expected.json"
        cases = {"OddTest.test_01_passes": "it did once", "OddTest.test_02_fails": "one is not two"}
        expected.write_text(json.dumps({"expected_failures": {"odd_test.py": cases}}))
        arguments = ["odd_test", "--expected", str(expected), "--filter"]
        status, printed, _ = self.run_it("listed", *arguments, "test_0[12]")
        self.assertEqual(status, 0, printed)
        self.assertIn("not passed, and not expected to fail: 0", printed)
        self.assertIn("passed, and expected to fail: 1\n  odd_test.py OddTest.test_01_passes", printed)
        status, printed, _ = self.run_it("unexpected", *arguments, "test_0[128]")
        self.assertEqual(status, 1, printed)
        self.assertIn("not passed, and not expected to fail: 1\n  odd_test.py OddTest.test_08_passes_unexpectedly", printed)
        expected.write_text("[]")
        with self.assertRaisesRegex(SystemExit, "--expected .*expected.json: not of the form"):
            self.run_it("wrong", *arguments, "test_01")

    def test_what_is_not_there_is_an_error_with_a_remedy(self):
        with self.assertRaisesRegex(SystemExit, "no_such_test.py: no such file"):
            self.run_it("wrong", "no_such_test")
        with self.assertRaisesRegex(SystemExit, "no case ran: .* --filter nothing"):
            self.run_it("wrong", "odd_test", "--filter", "nothing")
        with self.assertRaisesRegex(SystemExit, "--baseline .*nothing.json: "):
            self.run_it("wrong", "odd_test", "--baseline", "nothing.json")


class OutcomesTest(unittest.TestCase):
    def test_comparison_with_an_earlier_run(self):
        of = lambda **cases: {"a_test.py": {case: {"outcome": outcome, "reason": ""} for case, outcome in cases.items()}}
        before = {**of(a="passed", b="failed", c="passed", d="skipped", e="passed", f="failed"), "b_test.py": {}}
        now = of(a="crashed", b="passed", c="passed", d="failed", f="timeout", g="failed", h="passed")
        regressions, progress = outcomes.compare(before, now)
        self.assertEqual([case for _, case in regressions], ["a", "d", "e", "g"])
        self.assertEqual(regressions["a_test.py", "e"]["outcome"], "missing")
        self.assertEqual([case for _, case in progress], ["b"])
        self.assertEqual(outcomes.compare(of(a="passed"), of(a="not_run")), ({}, {}))

    def test_comparison_with_a_reference(self):
        of = lambda **cases: {"a_test.py": {case: {"outcome": outcome, "reason": ""} for case, outcome in cases.items()}}
        references = [of(a="passed", b="failed", d="skipped"), of(b="passed", c="passed")]
        only = outcomes.only_on_references(of(a="failed", b="failed", c="passed", d="timeout"), references)
        self.assertEqual(list(only), [("a_test.py", "a"), ("a_test.py", "b")])


if __name__ == "__main__":
    unittest.main()
