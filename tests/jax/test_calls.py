"""Tests which functions of a plugin JAX calls and which it does not need. Compares the tables of
docs/what-frameworks-demand.md with this version of JAX.
"""

import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import sys

import jax
import pytest

FOLDER = pathlib.Path(__file__).resolve().parent
PAGE = (FOLDER / "../../docs/what-frameworks-demand.md").resolve().read_text(encoding="utf-8")
VERSION = tuple(int(part) for part in jax.__version__.split("."))
TRACED = os.environ.get("PJRT_TRACED")

pytestmark = pytest.mark.skipif(
    not TRACED or not os.path.exists(TRACED),
    reason=f"PJRT_TRACED names no library to see the calls through: {TRACED!r}",
)


def table(heading):
    """Cells of the first table under a heading of the page, without the table's own headings."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|\n ").split("|") for line in section.splitlines() if line.startswith("|")]
    assert len(rows) > 2, heading
    return [[cell.strip() for cell in row] for row in rows[2:]]


def holds(span):
    """Whether a remark such as `0.9.2 on`, `until 0.7.2` or `0.7.2 to 0.9.2` applies to this version."""
    versions = [tuple(int(part) for part in text.split(".")) for text in re.findall(r"\d[\d.]*\d", span)]
    if span.endswith(" on"):
        return VERSION >= versions[0]
    if span.startswith("until "):
        return VERSION <= versions[0]
    first, last = versions
    return first <= VERSION <= last


def names(cell):
    """The functions in a cell that apply to this version, and those among them that JAX may or may not call."""
    sure, perhaps = set(), set()
    for name, remark in re.findall(r"`(\w+)`(?: \(([^)]*)\))?", cell):
        spans = [part for part in remark.split(", ") if part and part != "perhaps"]
        if all(holds(span) for span in spans):
            (perhaps if "perhaps" in remark else sure).add("PJRT_" + name)
    return sure, perhaps


def run(calls=None, without=()):
    """Runs the scenario in a separate process, with some functions removed."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    environment = {
        **inherited,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PJRT_NAMES_AND_LIBRARY_PATHS": f"pjrt_cpu:{TRACED}",
        "JAX_PLATFORMS": "pjrt_cpu,cpu",
        "PJRT_TRACED_PLUGIN": os.environ["PJRT_CPU_PLUGIN"],
        "PJRT_TRACED_WITHOUT": ",".join(without),
    }
    if calls:
        environment["PJRT_TRACED_CALLS"] = str(calls)
    command = [sys.executable, str(FOLDER / "scenario.py")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def succeeds(without):
    done = run(without=without)
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stderr


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    """The functions that were called in each step, on a device with memory that the host can access and on one without.
    """
    steps = {}
    for without in ([], ["host_view"]):
        path = tmp_path_factory.mktemp("calls") / "calls"
        done = run(path, without)
        assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stderr
        step = "load the library"
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("# "):
                step = line[2:]
            else:
                steps.setdefault(step, set()).add(line)
    return steps


# Objects are destroyed whenever Python drops them, and errors may occur at any time.
ANY_TIME = re.compile(r"PJRT_(Error_\w+|\w+_Destroy)")


def test_jax_calls_in_each_step_what_the_page_lists(observed):
    rows = table("What JAX calls")
    faults = []
    for step, *cells in rows:
        sure, perhaps = names(" ".join(cells))
        seen = observed.get(step, set())
        if missing := sure - seen:
            faults.append(f"{step}: listed, but not called: {sorted(missing)}")
        if more := {name for name in seen - sure - perhaps if not ANY_TIME.fullmatch(name)}:
            faults.append(f"{step}: called, but not listed: {sorted(more)}")
    if unknown := set(observed) - {row[0] for row in rows} - {"other"}:
        faults.append(f"no such steps in the page: {sorted(unknown)}")
    assert not faults, "\n".join(faults)


def left_out(kind):
    """The functions that may be omitted in that way, according to the page."""
    cells = [cell for name, cell, *_ in table("What a plugin may leave out") if name == kind]
    assert len(cells) == 1, kind
    return sorted(names(cells[0])[0])


def test_what_may_answer_unimplemented():
    succeeds([f"{name}=unimplemented" for name in left_out("answers `UNIMPLEMENTED`")])


def test_what_may_answer_unimplemented_for_memory_the_host_does_not_see():
    succeeds(["host_view", *(f"{name}=unimplemented" for name in left_out("answers `UNIMPLEMENTED`"))])


def test_slots_that_may_be_empty():
    succeeds([f"{name}=null" for name in left_out("slot is empty")])


def test_slots_that_jax_never_looks_at(observed):
    never = left_out("never called")
    called = set().union(*observed.values()) & set(never)
    assert not called
    succeeds([f"{name}=null" for name in never])


def test_without_extensions():
    succeeds(["extensions"])


def ends(done, *signals):
    assert -done.returncode in signals, f"{done.returncode}: {done.stdout}{done.stderr}"


def test_an_error_where_jax_takes_none_ends_the_process():
    functions, _ = names(" ".join(cell for name, cell, *_ in table("Hazards") if name == "an error ends the process"))
    assert functions
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        ended = pool.map(lambda name: run(without=[f"{name}=unimplemented"]), sorted(functions))
        for done in ended:
            ends(done, signal.SIGABRT)


def test_an_empty_slot_that_jax_calls_ends_the_process():
    for name in ("PJRT_Client_Compile", "PJRT_Device_MemoryStats", "PJRT_Client_TopologyDescription"):
        ends(run(without=[f"{name}=null"]), signal.SIGSEGV)


def test_a_function_that_is_needed_gives_a_clean_error():
    done = run(without=["PJRT_Client_Compile=unimplemented"])
    assert done.returncode == 1 and "taken away by a test" in done.stderr, done.stderr
