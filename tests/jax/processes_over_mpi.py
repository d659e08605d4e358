"""Programs of JAX whose processes exchange their messages through MPI.

The plugin must be built with the feature `mpi`. pytest therefore does not find this file by its name, and
`cargo xtask mpi` passes its path.
"""

from test_processes import ALL, run, run_with_mpirun


def test_results_over_mpi_equal_those_over_tcp(tmp_path, world=2):
    """Compares collective operations and training steps over both transports, bit for bit."""
    over_mpi = run_with_mpirun(ALL, world, 2, tmp_path, JAX_PJRT_CLIENT_CREATE_OPTIONS="transport:mpi")
    assert over_mpi and over_mpi == run(ALL, world, 2)
