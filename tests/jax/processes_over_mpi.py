"""Programs of JAX whose processes exchange their messages through MPI.

The plugin must be built with the feature `mpi`. pytest therefore does not find this file by its name, and
`cargo xtask mpi` passes its path.
"""

import json

from conftest import PLUGIN
from test_processes import ALL, run, run_with_mpirun

#: Checks that the transport over MPI is in use. The first use of the devices creates the client.
EXPECT_MPI = """
from pathlib import Path
assert "MPI" in [task.read_text().strip() for task in Path("/proc/self/task").glob("*/comm")]
"""


def test_results_over_mpi_equal_those_over_tcp(tmp_path, world=2):
    """Compares collective operations and training steps over both transports, bit for bit."""
    # JAX drops the options in JAX_PJRT_CLIENT_CREATE_OPTIONS if the plugin is registered without options.
    configuration = tmp_path / "plugin.json"
    configuration.write_text(json.dumps({"library_path": PLUGIN, "create_options": {"transport": "mpi"}}))
    variables = {"PJRT_NAMES_AND_LIBRARY_PATHS": f"pjrt_cpu:{configuration}"}
    over_mpi = run_with_mpirun(EXPECT_MPI + ALL, world, 2, tmp_path, **variables)
    assert over_mpi and over_mpi == run(ALL, world, 2)
