"""Measures all-reduces between processes of one machine.

`python tests/jax/bench_collectives.py [--mpi] PLUGIN [OLDER_PLUGIN]` runs JAX's `psum` of 64 MiB and of 4 bytes in 2
and in 4 processes with one device each. The measurements alternate between the plugin, an older build of it if one is
given, jaxlib's own CPU device with gloo, and copies through shared memory. It prints a table of the medians. A number in parentheses is the time
divided by that of the copies.

With `--mpi`, it also measures the plugins with the option `transport=mpi`, in processes that `mpirun` of Open MPI
starts. The plugins must then be built with the feature `mpi`. The comparison also includes Open MPI's `MPI_Allreduce`.

The copies are a lower bound: all processes copy 2 (n - 1) / n of the data to shared memory at the same time, and then
the same amount from it. This is what an all-reduce in two phases must move between n processes.
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from multiprocessing import shared_memory

SIZES = {"64 MiB": 64 << 20, "4 B": 4}
ROUNDS = {"64 MiB": 9, "4 B": 15}
#: Operations of one measurement.
REPEATS = {"64 MiB": 1, "4 B": 20}
#: How long the benchmark waits for a reply from a worker process, in seconds.
TIMEOUT = 300


def copier(rank, world):
    """Returns a function that copies through memory that the process shares with the next one."""
    import numpy as np

    names = json.loads(os.environ["BENCH_SHARED"])
    memories = [attach(name) for name in names]
    own = np.frombuffer(memories[rank].buf, np.uint8)
    other = np.frombuffer(memories[(rank + 1) % world].buf, np.uint8)

    def make(size):
        count = 2 * (world - 1) * size // world
        private, result = np.ones(count, np.uint8), np.zeros(count, np.uint8)

        def copy():
            np.copyto(own[:count], private)
            np.copyto(result, other[:count])

        return copy

    # The views and the memory must live as long as the function.
    make.memories = memories
    return make


def attach(name):
    """Opens memory that the parent process owns and removes."""
    if sys.version_info >= (3, 13):
        return shared_memory.SharedMemory(name, track=False)
    from multiprocessing import resource_tracker

    memory = shared_memory.SharedMemory(name)
    resource_tracker.unregister(memory._name, "shared_memory")
    return memory


def reducer(rank, world):
    """Returns a function that returns an all-reduce of a size."""
    import jax

    if os.environ["BENCH_SIDE"] == "gloo":
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(os.environ["BENCH_COORDINATOR"], num_processes=world, process_id=rank)
    import numpy as np
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("x",))
    assert len(jax.devices()) == world, jax.devices()

    def make(size):
        values = np.full((world, size // 4), 1 + rank, np.float32)
        x = jax.make_array_from_callback(values.shape, NamedSharding(mesh, P("x")), lambda index: values[index])
        psum = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))
        expected = world * (world + 1) // 2
        assert (np.asarray(psum(x)) == expected).all()
        return lambda: psum(x).block_until_ready()

    return make


def mpi_reducer(rank, world):
    """Returns a function that takes a size in bytes, and returns a function that calls Open MPI's `MPI_Allreduce` once."""
    import ctypes

    import numpy as np

    library = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
    # The handles of Open MPI are addresses of these variables.
    handle = lambda name: ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, name)))
    assert library.MPI_Init(None, None) == 0
    kind, operation, world_communicator = map(handle, ("ompi_mpi_float", "ompi_mpi_op_sum", "ompi_mpi_comm_world"))

    def make(size):
        values, result = np.full(size // 4, 1 + rank, np.float32), np.zeros(size // 4, np.float32)

        def reduce():
            pointers = values.ctypes.data_as(ctypes.c_void_p), result.ctypes.data_as(ctypes.c_void_p)
            assert library.MPI_Allreduce(*pointers, values.size, kind, operation, world_communicator) == 0

        reduce()
        assert (result == world * (world + 1) // 2).all()
        return reduce

    return make


#: The name of the side that calls `MPI_Allreduce`.
MPI_ALLREDUCE = "MPI_Allreduce"


def work():
    """Runs a worker process. It measures each operation that the parent process names, and replies with the seconds."""
    rank, world = int(os.environ.get("BENCH_RANK") or os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["BENCH_WORLD"])
    # `mpirun` passes its standard input to one process only, so all processes connect to the parent through a socket.
    parent = socket.create_connection(("127.0.0.1", int(os.environ["BENCH_PORT"])), timeout=TIMEOUT)
    parent.settimeout(None)
    lines = parent.makefile("rw")
    make = {"copy": copier, MPI_ALLREDUCE: mpi_reducer}.get(os.environ["BENCH_SIDE"], reducer)(rank, world)
    operations = {name: make(size) for name, size in SIZES.items()}
    print(rank, file=lines, flush=True)
    for line in lines:
        name = line.strip()
        start = time.perf_counter()
        for _ in range(REPEATS[name]):
            operations[name]()
        print((time.perf_counter() - start) / REPEATS[name], file=lines, flush=True)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Side:
    """The processes of one implementation."""

    def __init__(self, name, plugin, world, names, mpi=False):
        server = socket.create_server(("127.0.0.1", 0))
        server.settimeout(TIMEOUT)
        environment = {**os.environ, "BENCH_WORLD": str(world), "BENCH_SIDE": name, "BENCH_SHARED": json.dumps(names)}
        environment["BENCH_COORDINATOR"] = f"127.0.0.1:{free_port()}"
        environment["BENCH_PORT"] = str(server.getsockname()[1])
        environment["JAX_PLATFORMS"] = "cpu"
        environment.pop("XLA_FLAGS", None)
        if plugin:
            environment["PJRT_NAMES_AND_LIBRARY_PATHS"] = f"pjrt_cpu:{plugin}"
            environment["JAX_PLATFORMS"] = "pjrt_cpu"
        command = [sys.executable, __file__, "--worker"]
        start = lambda command, **variables: subprocess.Popen(
            command, env={**environment, **variables}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        self.name, self.mpi = name, mpi
        if mpi and plugin:
            # In programs of several processes, JAX ignores JAX_PJRT_CLIENT_CREATE_OPTIONS if the plugin is registered
            # without options.
            self.configuration = tempfile.NamedTemporaryFile("w", suffix=".json")
            json.dump({"library_path": plugin, "create_options": {"transport": "mpi"}}, self.configuration)
            self.configuration.flush()
            environment["PJRT_NAMES_AND_LIBRARY_PATHS"] = f"pjrt_cpu:{self.configuration.name}"
        if mpi:
            root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
            mpirun = ["mpirun", "-n", str(world), "--oversubscribe", "--bind-to", "none", *root]
            self.processes = [start([*mpirun, *command])]
        else:
            self.processes = [start(command, BENCH_RANK=str(rank)) for rank in range(world)]
        try:
            with server:
                self.lines = [self.accept(server) for _ in range(world)]
            # Wait until each process is ready.
            self.answers()
        except BaseException:
            self.end()
            raise

    def accept(self, server):
        connection, _ = server.accept()
        connection.settimeout(TIMEOUT)
        return connection.makefile("rw")

    def answers(self):
        answers = [lines.readline() for lines in self.lines]
        if not all(answers):
            raise SystemExit(f"a process of {self.name} failed")
        return answers

    def measure(self, name):
        """Returns the seconds of the slowest process."""
        for lines in self.lines:
            print(name, file=lines, flush=True)
        return max(map(float, self.answers()))

    def end(self):
        for process in self.processes:
            # Send SIGTERM to `mpirun`. It cannot handle SIGKILL, and its processes would continue.
            process.terminate() if self.mpi else process.kill()
        for process in self.processes:
            process.wait()


def compare(plugins, world, mpi):
    memories = [shared_memory.SharedMemory(create=True, size=2 * SIZES["64 MiB"]) for _ in range(world)]
    sides = []
    try:
        names = [memory.name for memory in memories]
        for name, plugin in [("copy", None), ("gloo", None), *plugins.items()]:
            sides.append(Side(name, plugin, world, names))
        if mpi:
            sides += [Side(f"{name} over MPI", plugin, world, names, mpi=True) for name, plugin in plugins.items()]
            sides.append(Side(MPI_ALLREDUCE, None, world, names, mpi=True))
        for size in SIZES:
            times = {side.name: [] for side in sides}
            for _ in range(ROUNDS[size] + 1):
                for side in sides:
                    times[side.name].append(side.measure(size))
            # The first round warms up.
            medians = {name: statistics.median(values[1:]) for name, values in times.items()}
            if world == 2 and size == next(iter(SIZES)):
                print(f"| processes | size | {' | '.join(medians)} |")
                print(f"|--:|---|{'--:|' * len(medians)}")
            # The copies bound only the time of large arrays.
            bounded = lambda name: f" ({medians[name] / medians['copy']:.1f})" if size != "4 B" and name != "copy" else ""
            cells = [f"{seconds * 1e3:.2f} ms{bounded(name)}" for name, seconds in medians.items()]
            print(f"| {world} | {size} | {' | '.join(cells)} |", flush=True)
    finally:
        for side in sides:
            side.end()
        for memory in memories:
            memory.close()
            memory.unlink()


def main():
    if "--worker" in sys.argv:
        return work()
    libraries = [argument for argument in sys.argv[1:] if argument != "--mpi"]
    if not libraries:
        raise SystemExit("give the library of the plugin: bench_collectives.py [--mpi] PLUGIN [OLDER_PLUGIN]")
    plugins = {f"pjrt_cpu{' (older)' * at}": plugin for at, plugin in enumerate(libraries[:2])}
    for world in (2, 4):
        compare(plugins, world, "--mpi" in sys.argv)


if __name__ == "__main__":
    main()
