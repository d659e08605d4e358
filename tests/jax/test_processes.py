"""One computation over several processes, each started with `jax.distributed.initialize`."""

import functools
import os
import shutil
import socket
import subprocess
import sys
import textwrap

import jax
import pytest
from conftest import needs_package

#: Joins the processes of this test. `RANK`, `WORLD` and `COORDINATOR` are its variables.
JOIN = """
import os
import jax
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD"])
if world > 1:
    jax.distributed.initialize(os.environ["COORDINATOR"], num_processes=world, process_id=rank)
"""

#: Joins the processes of `mpirun`. JAX finds the variables of Open MPI. `mpirun` may mix the lines of its processes, so
#: each prints to a file.
JOIN_MPI = """
import os
import sys
import jax
jax.distributed.initialize()
rank, world = jax.process_index(), jax.process_count()
sys.stdout = open(os.path.join(os.environ["OUTPUT"], str(rank)), "w")
"""

#: Joins processes as a script for `torchrun` does, which sets these variables.
JOIN_TORCHRUN = """
import os
import jax
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
address = os.environ["MASTER_ADDR"] + ":" + os.environ["MASTER_PORT"]
jax.distributed.initialize(address, num_processes=world, process_id=rank)
"""

#: What every process runs after it has joined the others.
SETUP = """
import numpy as np
import jax.numpy as jnp
from functools import partial
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map
mesh = Mesh(np.array(jax.devices()), ("x",))

def spread(array, *spec):
    sharding = NamedSharding(mesh, P(*spec))
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])

def show(name, array):
    for shard in array.addressable_shards:
        print(name, shard.device.id, np.asarray(shard.data).tobytes().hex(), flush=True)
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def popen(command, devices, variables):
    # The variables of this process make the plugin known to JAX.
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "pjrt_cpu,cpu",
        "PJRT_CPU_DEVICES": str(devices),
        **variables,
    }
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(processes):
    """Returns the lines that all processes print, sorted."""
    try:
        lines = []
        for rank, process in enumerate(processes):
            output, errors = process.communicate(timeout=300)
            assert process.returncode == 0, f"process {rank}:\n{output}\n{errors}"
            lines += output.splitlines()
        return sorted(lines)
    finally:
        for process in processes:
            process.kill()


def script(code, join=JOIN):
    return [sys.executable, "-c", join + SETUP + textwrap.dedent(code)]


def run(code, world, devices):
    coordinator = f"127.0.0.1:{free_port()}"
    variables = {"WORLD": str(world), "COORDINATOR": coordinator}
    return finish([popen(script(code), devices, {**variables, "RANK": str(rank)}) for rank in range(world)])


def run_with_mpirun(code, world, devices, folder, **variables):
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    # Without binding, the processes of several tests do not share one core.
    command = ["mpirun", "-n", str(world), "--oversubscribe", "--bind-to", "none", *root, *script(code, JOIN_MPI)]
    finish([popen(command, devices, {"OUTPUT": str(folder), **variables})])
    return sorted(line for rank in range(world) for line in (folder / str(rank)).read_text().splitlines())


def run_with_torchrun(code, world, devices):
    """Sets the variables that `torchrun` sets for each process."""
    port = str(free_port())
    shared = {"WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ranks = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(world)]
    return finish([popen(script(code, JOIN_TORCHRUN), devices, {**shared, **rank}) for rank in ranks])


def test_global_devices(world=2):
    code = """
    ids = [device.id for device in jax.devices()]
    assert ids == list(range(2 * world)), ids
    assert [device.id for device in jax.local_devices()] == [2 * rank, 2 * rank + 1]
    assert [device.process_index for device in jax.devices()] == [id // 2 for id in ids]
    assert (jax.process_index(), jax.process_count()) == (rank, world)
    print("good")
    """
    assert run(code, world, 2) == ["good"] * world


#: The collective operations of `shard_map`.
COLLECTIVES = """
values = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)

@jax.jit
@partial(shard_map, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
def collectives(x):
    n = jax.lax.psum(1, "x")
    total = jax.lax.psum(x, "x")
    everything = jax.lax.all_gather(x, "x", tiled=True)
    part = jax.lax.psum_scatter(everything, "x", tiled=True)
    swapped = jax.lax.all_to_all(x, "x", 1, 1, tiled=True)
    turned = jax.lax.ppermute(x, "x", [(i, (i + 1) % n) for i in range(n)])
    return total + part * swapped - turned * jax.lax.pmax(x, "x") + jax.lax.axis_index("x")

show("collectives", collectives(spread(values, "x")))
"""

#: Programs that the compiler partitions.
PARTITIONED = """
x = spread(np.random.default_rng(1).standard_normal((16, 32)).astype(np.float32), "x")
show("sum", jax.jit(lambda x: x.sum(axis=0), out_shardings=NamedSharding(mesh, P()))(x))
show("product", jax.jit(lambda x: x @ x.T, out_shardings=NamedSharding(mesh, P("x")))(x))
show("elementwise", jnp.tanh(x) * 2 + 1)
"""

#: A training loop over the mesh, first with the data sharded, then with the weights.
TRAINING = """
def train(batch, first, second):
    rng = np.random.default_rng(2)
    make = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    inputs, targets = make(32, 16), make(32, 4)
    weights = {"first": make(16, 64) / 4, "second": make(64, 4) / 8}
    specs = {"first": first, "second": second}
    inputs, targets = spread(inputs, *batch), spread(targets, *batch)
    weights = {name: spread(array, *specs[name]) for name, array in weights.items()}
    shardings = {name: NamedSharding(mesh, P(*spec)) for name, spec in specs.items()}

    def loss(weights, inputs, targets):
        hidden = jnp.tanh(inputs @ weights["first"])
        return jnp.mean((hidden @ weights["second"] - targets) ** 2)

    @partial(jax.jit, donate_argnums=0, out_shardings=(shardings, NamedSharding(mesh, P())))
    def step(weights, inputs, targets):
        value, gradient = jax.value_and_grad(loss)(weights, inputs, targets)
        return jax.tree.map(lambda weight, change: weight - 0.1 * change, weights, gradient), value

    for number in range(5):
        weights, value = step(weights, inputs, targets)
        show(f"loss {number} {batch}", value)
    for name, array in weights.items():
        show(f"{name} {batch}", array)

train(batch=("x",), first=(), second=())
train(batch=(), first=(None, "x"), second=("x",))
"""


#: Enough elements that the processes split the reductions, with a rest.
LARGE = """
values = np.random.default_rng(4).standard_normal((8, 50_001)).astype(np.float32)

@jax.jit
@partial(shard_map, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
def reductions(x):
    total = jax.lax.psum(x, "x")
    part = jax.lax.psum_scatter(total[0, :50_000], "x", tiled=True)
    return jnp.stack([total.sum(), total[0, -1], part[0], part[-1]])[None]

show("large", reductions(spread(values, "x")))
"""


ALL = COLLECTIVES + PARTITIONED + TRAINING + LARGE


@functools.cache
def results_of_one_process(devices):
    return run(ALL, 1, devices)


@pytest.mark.parametrize("world", [2, 4])
def test_results_equal_those_of_one_process(world):
    """Compares several processes with one process that has all devices, bit for bit."""
    together = run(ALL, world, 2)
    assert together and together == results_of_one_process(world * 2)


one_version = pytest.mark.skipif(
    jax.__version_info__[:2] != (0, 10), reason="SKIPPED: the launchers are tested with JAX 0.10 only"
)


@one_version
@pytest.mark.skipif(not shutil.which("mpirun"), reason="SKIPPED mpirun: the command is missing; install openmpi-bin")
def test_launch_with_mpirun(tmp_path):
    """An MPI job of four processes computes the same as one process, bit for bit."""
    assert run_with_mpirun(ALL, 4, 2, tmp_path) == results_of_one_process(8)


@one_version
def test_launch_with_variables_of_torchrun():
    """Processes that get their ranks from the variables of `torchrun` compute the same, bit for bit."""
    assert run_with_torchrun(ALL, 4, 2) == results_of_one_process(8)


@pytest.mark.skipif(jax.__version_info__ < (0, 10), reason="older versions move arrays between processes on TPUs only")
def test_arrays_move_between_processes(world=2):
    """Moves an array to the other process, computes there, and moves the result back."""
    code = """
    first, last = jax.devices()[0], jax.devices()[-1]
    values = np.random.default_rng(3).standard_normal((4, 4)).astype(np.float32)
    there = jax.device_put(jax.device_put(values, first), last)
    # Only the last process has a device of this program.
    result = jax.jit(lambda x: x @ x.T)(there)
    show("there", result)
    show("here", jax.device_put(result, first))
    """
    together = run(code, world, 2)
    assert len(together) == 2
    # The numbers of the devices differ only if the numbers of processes do.
    assert together == run(code, 1, world * 2)


@needs_package
def test_callbacks_run_in_their_processes(world=2):
    """The programs of the processes differ in the data of their callbacks."""
    code = """
    calls = []
    # Callbacks are numbered in each process, so the processes use different numbers.
    for _ in range(rank):
        jax.jit(lambda x: jax.pure_callback(lambda x: x, x, x))(1.0)

    @jax.jit
    def f(x):
        jax.debug.callback(lambda value: calls.append(float(value)), jnp.sum(x))
        return x * 2

    f(spread(np.ones(8, np.float32), "x")).block_until_ready()
    jax.effects_barrier()
    print(set(calls))
    """
    # A callback on a value that all devices have runs on the first device only.
    assert run(code, world, 2) == ["set()", "{8.0}"]
