"""Tests of JAX programs whose processes exchange messages through MPI.

These tests need a plugin that is built with the feature `mpi`. The name of this file does not begin with `test_`, so
that pytest does not collect it by default. `cargo xtask mpi` passes its path.
"""

import json

from conftest import PLUGIN
from test_processes import ALL, run, run_with_mpirun

#: Checks that the transport over MPI is in use, by the name of its thread. The setup of the program has already created
#: the client.
EXPECT_MPI = """
from pathlib import Path
assert "MPI" in [task.read_text().strip() for task in Path("/proc/self/task").glob("*/comm")]
"""


def test_results_over_mpi_equal_those_over_sockets(tmp_path, world=2):
    """Compares collective operations and training steps over both transports, bit for bit."""
    # In programs of several processes, JAX ignores JAX_PJRT_CLIENT_CREATE_OPTIONS if the plugin is registered without
    # options.
    configuration = tmp_path / "plugin.json"
    configuration.write_text(json.dumps({"library_path": PLUGIN, "create_options": {"transport": "mpi"}}))
    variables = {"PJRT_NAMES_AND_LIBRARY_PATHS": f"pjrt_cpu:{configuration}"}
    over_mpi = run_with_mpirun(EXPECT_MPI + ALL, world, 2, tmp_path, **variables)
    assert over_mpi and over_mpi == run(ALL, world, 2)
