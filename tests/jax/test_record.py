"""Records JAX with the layer `record`, and replays the file on the embedded device without JAX."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import PLUGIN

#: The command and the library with the layers, which `cargo xtask test --all` builds.
COMMAND, LAYERS = os.environ.get("PJRT_COMMAND"), os.environ.get("PJRT_LAYERS_LIBRARY")

PROGRAM = """
import jax, jax.numpy as jnp

@jax.jit
def step(w, x):
    return w - 0.1 * jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)

w, x = jnp.ones((4, 2)), jnp.arange(12.0).reshape(3, 4)
for _ in range(3):
    w = step(w, x)
print(float(w.sum()))
"""

pytestmark = pytest.mark.skipif(
    not (COMMAND and LAYERS), reason="SKIPPED: PJRT_COMMAND and PJRT_LAYERS_LIBRARY name no command and library"
)


def record(folder, *options):
    """Runs the program with the layer in front of the plugin. Returns the recording."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PJRT_CPU")}
    command = [COMMAND, "with", "--plugin", PLUGIN, "--layers", "record", "--output", folder, *options, "--"]
    subprocess.run([*command, sys.executable, "-c", PROGRAM], check=True, env=environment)
    (file,) = Path(folder).glob("record-*.pjrt")
    return file


def replay(file, *options):
    command = [COMMAND, "replay", file, "--json", "--plugin", "cpu", *options]
    run = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    return run.returncode, json.loads(run.stdout)


def test_whole_program_is_repeated(tmp_path):
    code, report = replay(record(tmp_path))
    assert code == 0 and report["equal"], report
    assert report["runs"] >= 3 and report["comparisons"], report


def test_one_run_is_repeated(tmp_path):
    file = record(tmp_path, "--record-run", "jit_step:2")
    code, report = replay(file)
    assert code == 0 and report["runs"] == 1, report
    assert [one["run"]["program"] for one in report["comparisons"]] == ["jit_step"], report
