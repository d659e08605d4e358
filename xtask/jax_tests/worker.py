"""Runs the cases of one test file, and reports when each of them starts and ends. `run.py` starts it, and continues if
it crashes.

The only argument is a file of JSON: the test file, the names of the cases to run (all if null), a regular expression
that names must match, the value that `jax._src.test_util.device_under_test` returns (JAX's own value if null), the
file descriptor for reports, and the place of this process among several that run the cases together (null if it runs them
alone). Each report is a line of JSON.
"""

import faulthandler
import importlib.abc
import importlib.util
import json
import os
import pathlib
import re
import socket
import sys
import time
import traceback
import types
import unittest


def short_name(case):
    """`Class.method`, without the values of a parameterized case, which may have dots."""
    return ".".join(case.id().split(" ")[0].split(".")[-2:])


def reason_of(error):
    """The type and the first line of an exception."""
    lines = "".join(traceback.format_exception_only(error[0], error[1])).strip().splitlines()
    return (lines[0] if lines else error[0].__name__)[:400]


class Reporter(unittest.TestResult):
    """Sends the outcome of each case."""

    def __init__(self, send, cases):
        super().__init__()
        self.send = send
        self.waiting = {short_name(case): case for case in cases}
        self.outcome = ("passed", "")
        self.started = 0.0

    def startTest(self, test):
        super().startTest(test)
        self.outcome, self.started = ("passed", ""), time.monotonic()
        self.waiting.pop(short_name(test), None)
        self.send({"start": short_name(test)})

    def stopTest(self, test):
        super().stopTest(test)
        outcome, reason = self.outcome
        seconds = round(time.monotonic() - self.started, 3)
        self.send({"stop": short_name(test), "outcome": outcome, "reason": reason, "seconds": seconds})

    def _set(self, test, outcome, reason, error=None):
        if error is not None:
            traceback.print_exception(*error)
        if isinstance(test, unittest.TestCase) or hasattr(test, "test_case"):
            # The first failure of several subtests is kept.
            if self.outcome[0] != "failed":
                self.outcome = (outcome, reason)
            return
        # A fixture of a class or module, named as in `setUpClass (module.Class)`. Its cases do not run.
        match = re.search(r"\((?:.*\.)?(\w+)\)", str(test))
        name = match.group(1) if match else ""
        for case in list(self.waiting):
            if case.startswith(f"{name}.") or str(test).startswith("setUpModule"):
                del self.waiting[case]
                self.send({"start": case})
                self.send({"stop": case, "outcome": outcome, "reason": f"{test}: {reason}", "seconds": 0})

    def addError(self, test, err):
        self._set(test, "failed", reason_of(err), err)

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self._set(test, "failed", f"{subtest._subDescription()} {reason_of(err)}", err)

    def addSkip(self, test, reason):
        self._set(test, "skipped", reason[:400])

    def addUnexpectedSuccess(self, test):
        self._set(test, "failed", "passed, although it is marked as an expected failure")


def flatten(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from flatten(item)
        else:
            yield item


def free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


class TestHelpers(importlib.abc.MetaPathFinder):
    """Finds modules for tests in the checkout that the package of JAX lacks, such as `jax._src.hypothesis_test_util`."""

    def __init__(self, checkout):
        self.checkout = checkout

    def find_spec(self, fullname, path, target=None):
        if not fullname.startswith("jax._src."):
            return None
        place = self.checkout.joinpath(*fullname.split("."))
        if (file := place / "__init__.py").is_file():
            return importlib.util.spec_from_file_location(fullname, file, submodule_search_locations=[str(place)])
        if (file := place.with_suffix(".py")).is_file():
            return importlib.util.spec_from_file_location(fullname, file)
        return None


def load(path, checkout, device_under_test, member):
    """Imports the file as `python FILE` would, without running it."""
    sys.argv = [str(path)]
    sys.path.insert(0, str(path.parent))
    # It is the last finder, so the modules of the package come first.
    sys.meta_path.append(TestHelpers(checkout))
    name = path.stem
    if member is not None:
        # Without this package, some files use one port for all processes.
        if importlib.util.find_spec("portpicker") is None:
            sys.modules["portpicker"] = types.ModuleType("portpicker")
            sys.modules["portpicker"].pick_unused_port = free_port
        from jax._src import test_multiprocess

        # Files for several processes set options before they call this function, which would start the processes.
        test_multiprocess.main = lambda *_: None
        name = "__main__"
        sys.argv += [f"--num_processes={member['count']}", f"--multiprocess_test_worker_id={member['rank']}"]
    if device_under_test is not None:
        from jax._src import test_util

        test_util.device_under_test = lambda: device_under_test
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    flags = sys.modules.get("absl.flags")
    if flags is not None and not flags.FLAGS.is_parsed():
        flags.FLAGS(sys.argv)
    if member is not None:
        from jax._src import distributed

        seconds = {"initialization_timeout": 120, "heartbeat_timeout_seconds": 60, "shutdown_timeout_seconds": 60}
        distributed.initialize(
            member["address"], num_processes=member["count"], process_id=member["rank"], **seconds
        )
    return module


def main():
    given = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    faulthandler.enable()
    pipe = os.fdopen(given["reports"], "w", buffering=1)

    def send(report):
        pipe.write(json.dumps(report) + "\n")
        pipe.flush()

    try:
        file, checkout = (pathlib.Path(given[name]).resolve() for name in ("file", "checkout"))
        module = load(file, checkout, given["device_under_test"], given["member"])
        cases = list(flatten(unittest.TestLoader().loadTestsFromModule(module)))
    except unittest.SkipTest as skip:
        send({"skipped_file": str(skip)[:400]})
        return
    except BaseException:
        traceback.print_exc()
        send({"broken_file": reason_of(sys.exc_info())})
        return
    if given["pattern"]:
        cases = [case for case in cases if re.search(given["pattern"], short_name(case))]
    if given["names"] is not None:
        wanted = set(given["names"])
        cases = [case for case in cases if short_name(case) in wanted]
    send({"cases": [short_name(case) for case in cases]})
    reporter = Reporter(send, cases)
    unittest.TestSuite(cases).run(reporter)
    send({"end": True})


if __name__ == "__main__":
    main()
