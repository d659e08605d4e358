"""Runs test files of JAX on a PJRT plugin, case by case, and survives cases that crash or hang.

Each file runs in a worker process. If the worker crashes or a case takes too long, the case gets the outcome `crashed`
or `timeout`, and a new worker runs the remaining cases. The outcomes are written as JSON. A later run compares its
outcomes with them (`--baseline`). With `--reference`, the cases that did not pass run again on JAX's own CPU or on
another plugin. With `--file-timeout`, the cases that a file has left when its time is over get the outcome `not_run`,
and a run with `--resume` runs them. With `--processes`, each file runs in several workers at once, which form one job
of `jax.distributed`. A case has passed if it passed in all of them.

`cargo xtask jax-tests` creates the environment and calls this program, which only needs the standard library.
"""

import argparse
import concurrent.futures
import contextlib
import json
import math
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import sys
import time

import outcomes

WORKER = pathlib.Path(__file__).resolve().with_name("worker.py")
#: Seconds for importing a test file, which may compile programs.
IMPORT_SECONDS = 600
#: Names of outcomes that belong to a whole file.
IMPORT, EXIT = "(import)", "(exit)"


class Target:
    """The device on which the tests run: a name, and the variables that select it."""

    def __init__(self, name, variables, device_under_test):
        self.name, self.variables, self.device_under_test = name, variables, device_under_test

    def environment(self):
        dropped = ("JAX_", "PJRT_", "XLA_FLAGS", "PYTHONPATH")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        return {**inherited, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", **self.variables}


class Worker:
    """A process that runs the cases of a file, and the pipe for its reports."""

    def __init__(self, target, file, names, options, log_path, log, member=None):
        reports, writer = os.pipe()
        given = {
            "file": str(file),
            "checkout": str(options.jax_checkout),
            "names": names,
            "pattern": options.filter,
            "device_under_test": target.device_under_test,
            "reports": writer,
            "member": member,
        }
        # The names of a large file are longer than an argument may be.
        settings = log_path.with_suffix(".json")
        settings.write_text(json.dumps(given), encoding="utf-8")
        command = [options.python, str(WORKER), str(settings)]
        # The process has its own session, so that processes that a test starts end with it.
        self.process = subprocess.Popen(
            command, env=target.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            pass_fds=[writer], start_new_session=True, cwd=options.scratch,
        )
        os.close(writer)
        self.reports, self.buffer = reports, b""

    def report(self, seconds):
        """The next report, or `None` if the worker has ended. Raises `TimeoutError` if neither happens in time."""
        reports = reports_of([self], seconds)
        return reports and reports[0]

    def end(self, seconds=0.0):
        """Waits for the worker and kills its remaining processes after that time. Returns how it ended, or `None` if it
        succeeded.
        """
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
            # The fault handler writes the stack of each thread to the log.
            self.process.send_signal(signal.SIGABRT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.reports)
        if status is None:
            return f"still running after {seconds:g} s"
        if status < 0:
            return f"signal {-status} ({signal.Signals(-status).name})"
        return None if status == 0 else f"exit status {status}"

    def has_ended(self):
        return self.process.poll() is not None


def reports_of(workers, seconds):
    """The next report of each worker, or `None` if one of them has ended. Raises `TimeoutError` if neither happens in time.
    """
    deadline = time.monotonic() + seconds
    while waiting := {worker.reports: worker for worker in workers if b"\n" not in worker.buffer}:
        ready, _, _ = select.select(list(waiting), [], [], max(0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError
        for pipe in ready:
            part = os.read(pipe, 1 << 16)
            if not part:
                return None
            waiting[pipe].buffer += part
    reports = []
    for worker in workers:
        line, worker.buffer = worker.buffer.split(b"\n", 1)
        reports.append(json.loads(line))
    return reports


class Team:
    """The workers of one job of several processes, which run the same cases in the same order. It has the methods of a
    worker.
    """

    def __init__(self, target, file, names, options, log_path):
        address = f"127.0.0.1:{free_port()}"
        self.logs, self.workers = [], []
        for rank in range(options.processes):
            path = log_path.with_name(f"{log_path.stem}.{rank}.log")
            self.logs.append(path.open("ab"))
            member = {"rank": rank, "count": options.processes, "address": address}
            self.workers.append(Worker(target, file, names, options, path, self.logs[-1], member))

    def report(self, seconds):
        """The next report, which all workers agree on, or `None` if one of them has ended."""
        reports = reports_of(self.workers, seconds)
        if reports is None:
            # A process closes its pipe a moment before the system reports its end.
            patience = time.monotonic() + 10
            while all(worker.process.poll() is None for worker in self.workers) and time.monotonic() < patience:
                time.sleep(0.01)
            return None
        if "stop" not in reports[0]:
            return next((report for report in reports if "skipped_file" in report or "broken_file" in report), reports[0])
        # The outcome of a case is the worst one. Its reason names the process.
        worst = max(range(len(reports)), key=lambda rank: (outcomes.RANKING.index(reports[rank]["outcome"]), -rank))
        report = dict(reports[worst])
        if report["outcome"] != "passed":
            report["reason"] = f"process {worst}: {report['reason']}"
        return report

    def end(self, seconds=0.0):
        """Ends all workers. Returns how the first one that did not succeed ended."""
        deadline = time.monotonic() + seconds
        # The others wait for a process that has crashed, so it is the one to name.
        order = sorted(range(len(self.workers)), key=lambda rank: not self.workers[rank].process.poll())
        fates = [(rank, self.workers[rank].end(max(0.0, deadline - time.monotonic()))) for rank in order]
        for log in self.logs:
            log.close()
        return next((f"process {rank}: {fate}" for rank, fate in fates if fate is not None), None)

    def has_ended(self):
        # Workers that have run all cases do not stop the others.
        return any(worker.process.poll() for worker in self.workers)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_file(target, file, options, names=None):
    """Runs the cases of a file, all or those of the given names, and returns the record of each."""
    records, remaining = {}, names
    deadline = time.monotonic() + options.file_timeout if options.file_timeout else math.inf
    log_path = options.logs / target.name / pathlib.Path(name_of(file, options)).with_suffix(".log")
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with log_path.open("wb") as log:
        while True:
            if options.processes > 1:
                worker = Team(target, file, remaining, options, log_path)
            else:
                worker = Worker(target, file, remaining, options, log_path, log)
            listed, fault = follow(worker, records, options, deadline)
            if listed is None:
                if fault is not None:
                    records[IMPORT] = {key: fault[key] for key in ("outcome", "reason", "seconds")}
                break
            remaining = [name for name in listed if name not in records]
            if fault is None:
                break
            if fault["case"] is None and fault["outcome"] != outcomes.NOT_RUN:
                # The worker ended between cases or after the last one. Record the fault for the file, and do not retry.
                records[EXIT] = {"outcome": fault["outcome"], "reason": fault["reason"], "seconds": 0}
                for name in remaining:
                    records[name] = {"outcome": "crashed", "reason": f"not reached: {fault['reason']}", "seconds": 0}
                break
            if not remaining:
                break
            if time.monotonic() > deadline:
                reason = f"the file ran longer than {options.file_timeout:g} s"
                records.update({name: {"outcome": outcomes.NOT_RUN, "reason": reason, "seconds": 0} for name in remaining})
                break
    return records


def overdue(listed, current, records, options):
    """Records that the current case took too long, and returns the fault."""
    allowed = IMPORT_SECONDS if listed is None else options.timeout
    record = {"outcome": "timeout", "reason": f"longer than {allowed:g} s", "seconds": allowed}
    if current is not None:
        records[current] = record
    return {**record, "case": current}


def follow(worker, records, options, deadline):
    """Records the reports of a worker. Returns its cases, and how it failed if it did.

    After the deadline, ends the worker before its next case.
    """
    listed, current = None, None
    while True:
        try:
            report = worker.report(IMPORT_SECONDS if listed is None else options.timeout)
        except TimeoutError:
            if worker.has_ended():
                # The worker has ended. A process that it started still has the pipe open.
                report = None
            else:
                worker.end()
                return listed, overdue(listed, current, records, options)
        if report is None:
            how = worker.end(options.timeout if options.processes == 1 else 0.0)
            record = {"outcome": "crashed", "reason": how or "the process ended by itself", "seconds": 0}
            if current is not None:
                records[current] = record
            return listed, {**record, "case": current}
        if "cases" in report:
            listed = report["cases"]
        elif "start" in report:
            current = report["start"]
        elif "stop" in report:
            records[report["stop"]] = {key: report[key] for key in ("outcome", "reason", "seconds")}
            current = None
            if time.monotonic() > deadline and any(name not in records for name in listed):
                worker.end()
                return listed, {"outcome": outcomes.NOT_RUN, "case": None}
        elif "skipped_file" in report or "broken_file" in report:
            worker.end(options.timeout)
            skipped = report.get("skipped_file")
            outcome, reason = ("failed", report["broken_file"]) if skipped is None else ("skipped", skipped)
            return None, {"outcome": outcome, "reason": reason, "seconds": 0}
        elif "end" in report:
            how = worker.end(options.timeout)
            # The cases have passed or failed. Only an unclean exit of the process remains to be reported.
            fault = how and {"outcome": "crashed", "reason": f"when the process exited: {how}", "case": None}
            return listed, fault


def run_all(target, jobs, options, files, save=lambda: None):
    """Runs files, given as `(file, names)`, adds their records to `files` by `name_of`, and saves after each."""
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        running = {pool.submit(run_file, target, file, options, names): file for file, names in jobs}
        for done in concurrent.futures.as_completed(running):
            name, records = name_of(running[done], options), done.result()
            files.setdefault(name, {}).update(records)
            save()
            found = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.counts(records).items()))
            print(f"{target.name}: {name}: {found or 'no cases'}", flush=True)


def name_of(file, options):
    """The file's path within the checkout's tests, such as `array_test.py` or `pallas/ops_test.py`."""
    return file.relative_to(options.jax_checkout / "tests").as_posix()


def tests_of(options):
    folder = options.jax_checkout / "tests"
    if not folder.is_dir():
        raise SystemExit(f"--jax-checkout {options.jax_checkout}: no folder `tests`; give a checkout of JAX's repository")
    if not options.files:
        # The files for several processes have a folder of their own.
        return sorted((folder / "multiprocess" if options.processes > 1 else folder).glob("*_test.py"))
    files = []
    for name in options.files:
        file = folder / (name if name.endswith(".py") else f"{name}.py")
        if not file.is_file():
            raise SystemExit(f"{file}: no such file")
        files.append(file)
    return files


def common_variables(options):
    """Variables for every target."""
    count = f"--xla_force_host_platform_device_count={options.devices}"
    return {
        "JAX_NUM_GENERATED_CASES": str(options.cases),
        "JAX_SKIP_SLOW_TESTS": "0" if options.slow else "1",
        "XLA_FLAGS": count,
        **dict(options.env),
    }


def target_of(options):
    """The plugin under test."""
    variables = {"PJRT_CPU_DEVICES": str(options.devices), "JAX_PLATFORMS": f"{options.name},cpu", **common_variables(options)}
    if options.package:
        variables["PYTHONPATH"] = str(options.package)
    else:
        variables["PJRT_NAMES_AND_LIBRARY_PATHS"] = f"{options.name}:{options.library}"
    return Target(options.name, variables, options.device_under_test)


def reference_of(reference, options):
    """JAX's own CPU, or another plugin without a package."""
    if reference == "cpu":
        return Target("reference-cpu", {"JAX_PLATFORMS": "cpu", **common_variables(options)}, options.device_under_test)
    name = f"reference-{pathlib.Path(reference).stem}"
    config = options.logs / f"{name}.json"
    config.parent.mkdir(parents=True, exist_ok=True)
    created = {"cpu_device_count": options.devices} if reference in options.reference_with_device_count else {}
    config.write_text(json.dumps({"library_path": reference, "create_options": created}))
    variables = {"PJRT_NAMES_AND_LIBRARY_PATHS": f"reference:{config}", "JAX_PLATFORMS": "reference"}
    return Target(name, {**common_variables(options), **variables}, options.device_under_test)


def variable(text):
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not VARIABLE=VALUE")
    return name, value


def parse(arguments):
    parser = argparse.ArgumentParser(prog="jax-tests", description="Runs JAX's own test files on a PJRT plugin.")
    parser.add_argument("files", nargs="*", help="names of files in the checkout's `tests`, such as array_test; default: all")
    parser.add_argument("--jax-checkout", type=pathlib.Path, required=True, help="a checkout of JAX's repository")
    parser.add_argument("--library", required=True, help="the plugin's library")
    parser.add_argument("--name", default="pjrt_cpu", help="the plugin's platform name (default: %(default)s)")
    parser.add_argument("--package", type=pathlib.Path, help="a folder with the content of the plugin's wheel")
    parser.add_argument("--devices", type=int, default=1, help="number of devices (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=1, help="number of processes that run each case together (default: %(default)s)")
    parser.add_argument("--env", type=variable, action="append", default=[], metavar="VARIABLE=VALUE", help="set for the tests")
    parser.add_argument("--device-under-test", metavar="NAME", help="the platform whose tests JAX selects, such as cpu")
    parser.add_argument("--filter", metavar="REGEX", help="run the cases whose `Class.method` matches")
    parser.add_argument("--cases", type=int, default=1, help="generated cases per test (default: %(default)s)")
    parser.add_argument("--slow", action="store_true", help="run tests that JAX marks as slow")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one case (default: %(default)g)")
    parser.add_argument("--file-timeout", type=float, default=0, help="seconds for one file; 0 for no limit (default)")
    parser.add_argument("--resume", action="store_true", help="run only the files and cases that --output lacks")
    parser.add_argument("--jobs", type=int, default=1, help="files to run at once (default: %(default)s)")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="the JSON file to write")
    parser.add_argument("--baseline", type=pathlib.Path, help="outcomes of an earlier run to compare with")
    parser.add_argument("--expected", type=pathlib.Path, help="a list of cases that are expected to fail")
    parser.add_argument(
        "--reference", action="append", default=[], metavar="cpu|LIBRARY",
        help="run the cases that did not pass on this, too; may be repeated",
    )
    parser.add_argument(
        "--reference-with-device-count", action="append", default=[], metavar="LIBRARY",
        help="a library among the references that has XLA's option cpu_device_count",
    )
    parser.add_argument("--python", default=sys.executable, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.filter:
        try:
            re.compile(options.filter)
        except re.error as error:
            parser.error(f"--filter {options.filter}: {error}")
    return options


def resumed(options, settings):
    """The result of the run to continue, or an empty one."""
    if not options.resume or not options.output.exists():
        return {**settings, "files": {}}
    try:
        result = outcomes.read(options.output)
    except ValueError as error:
        raise SystemExit(f"--resume {error}") from None
    for name, value in settings.items():
        if result.get(name) != value:
            raise SystemExit(
                f"--resume {options.output}: that run has {name} {result.get(name)!r}, and this one {value!r}; "
                "leave --resume out or name another --output"
            )
    return result


def left(files, options, ran):
    """The jobs for files and cases that did not run yet. Removes the records of the cases."""
    jobs = []
    for file in files:
        name = name_of(file, options)
        if name not in ran:
            jobs.append((file, None))
            continue
        matches = re.compile(options.filter or "").search
        cases = [case for case in outcomes.not_run(ran[name]) if matches(case)]
        if cases:
            ran[name] = {case: record for case, record in ran[name].items() if case not in cases}
            jobs.append((file, cases))
    return jobs


def run_references(files, bad, options, result, save):
    """Runs cases that did not pass on each reference, except those that an earlier part of the run ran there."""
    known = {reference["library"]: reference["files"] for reference in result.get("references", ())}
    result["references"] = [{"library": name, "files": known.get(name, {})} for name in options.reference]
    for reference in result["references"]:
        names = {}
        for file, case in bad:
            if case not in reference["files"].get(file, {}):
                names.setdefault(file, []).append(case)
        # A file that could not be imported runs as a whole.
        failed = [(file, names[name]) for file in files if (name := name_of(file, options)) in names]
        jobs = [(file, None if IMPORT in cases else cases) for file, cases in failed]
        run_all(reference_of(reference["library"], options), jobs, options, reference["files"], save)


def main(arguments):
    options = parse(arguments)
    options.logs = options.output.resolve().with_suffix(".logs")
    options.scratch = options.logs / "scratch"
    options.scratch.mkdir(parents=True, exist_ok=True)
    files = tests_of(options)
    try:
        baseline = outcomes.read(options.baseline)["files"] if options.baseline else None
    except ValueError as error:
        raise SystemExit(f"--baseline {error}") from None
    try:
        expected = outcomes.read_expected(options.expected) if options.expected else {}
    except ValueError as error:
        raise SystemExit(f"--expected {error}") from None
    settings = {
        "format": outcomes.FORMAT,
        "name": options.name,
        "library": str(options.library),
        "with_package": options.package is not None,
        "devices": options.devices,
        "cases": options.cases,
    }
    if options.processes > 1:
        settings["processes"] = options.processes
    result = resumed(options, settings)
    now = result["files"]
    save = lambda: outcomes.write(options.output, result)
    run_all(target_of(options), left(files, options, now), options, now, save)
    if not any(now.values()):
        raise SystemExit("no case ran: the files have none" + (f" that matches --filter {options.filter}" if options.filter else ""))
    bad = {key: record for key, record in outcomes.cases_of(now).items() if record["outcome"] in outcomes.BAD}
    if options.reference and bad:
        run_references(files, bad, options, result, save)
    save()
    print(f"\n{outcomes.table(now)}\n")
    print(outcomes.listing("not passed", bad))
    if "references" in result:
        passed_there = outcomes.only_on_references(now, [reference["files"] for reference in result["references"]])
        print(outcomes.listing("of these, passed on a reference", passed_there))
    unexpected, mended = outcomes.compare_with_expected(expected, now)
    if options.expected:
        print(outcomes.listing("not passed, and not expected to fail", unexpected))
        print(outcomes.listing("passed, and expected to fail", mended))
    waiting = sum(len(outcomes.not_run(records)) for records in now.values())
    if waiting:
        print(f"not run, because the time of their file was over: {waiting}; run again with --resume")
    print(f"outcomes: {options.output}\nlogs: {options.logs}")
    if baseline is None:
        return 1 if unexpected or waiting else 0
    if options.filter:
        # Cases that the filter excludes are not missing.
        matches = re.compile(options.filter).search
        baseline = {file: {case: r for case, r in cases.items() if matches(case)} for file, cases in baseline.items()}
    regressions, progress = outcomes.compare(baseline, now)
    print(outcomes.listing("progress since the baseline", progress))
    print(outcomes.listing("regressions since the baseline", regressions))
    return 1 if regressions or waiting else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
