"""Tests processes that end during work in progress, with and without JAX's own clean-up."""

import pytest
from conftest import needs_package
from test_devices import fresh

#: A loop that never ends.
ENDLESS = """
    endless = jax.jit(lambda x: jax.lax.while_loop(lambda x: x >= 0, lambda x: (x + 1) % 1000, x))
"""

#: Behaves like a framework that never destroys its clients.
NO_CLEAN_UP = """
    import atexit
    from jax._src import api, dispatch
    atexit.unregister(api.clean_up)
    atexit.unregister(dispatch.wait_for_tokens)
"""

PENDING = {
    "run": "y = endless(0)",
    "chain": "y = endless(0)\n    z = [y + i for i in range(10)]",
    "copy": "y = endless(0)\n    y.copy_to_host_async()",
    "transfer": "y = [jax.device_put(np.ones((2000, 2000))) for _ in range(4)]",
    "deleted": "endless(0).delete()",
}


@pytest.mark.parametrize("pending", PENDING)
def test_a_process_that_keeps_its_client_ends_well(pending):
    for _ in range(3):
        status, _, errors = fresh(NO_CLEAN_UP + ENDLESS + "    " + PENDING[pending])
        assert status == 0, errors


def test_a_process_that_destroys_its_client_ends_well():
    for _ in range(3):
        status, _, errors = fresh(ENDLESS + "    endless(0)")
        assert status == 0, errors


@needs_package
def test_a_callback_that_is_under_way_is_waited_for():
    status, output, errors = fresh("""
        from jax.experimental import io_callback
        def slow(x):
            for _ in range(1000):
                x = np.tanh(x)
            print("called", flush=True)
        y = jax.jit(lambda x: (io_callback(slow, None, x), x.sum()))(jnp.ones(10000))
    """, JAX_PLATFORMS="pjrt_cpu,cpu")  # JAX hands a callback's arguments over as arrays of its own CPU backend.
    assert status == 0, errors
    assert output == "called"


#: Excludes compilation, because jaxlib waits there for a thread that does not exist in a fork.
IN_A_FORK = {
    "run": "f(x)",
    "run that is short": "g(x)",
    "upload": "jax.device_put(np.ones(1000)).block_until_ready()",
}


@pytest.mark.parametrize("call", IN_A_FORK)
def test_a_fork_is_told_to_make_its_own_client(call):
    status, output, errors = fresh(f"""
        import os
        f = jax.jit(lambda x: jax.lax.fori_loop(0, 10, lambda i, x: x @ x, x))
        g = jax.jit(lambda x: x + 1)
        x = jnp.eye(100)
        f(x).block_until_ready(), g(x).block_until_ready()
        child = os.fork()
        if child == 0:
            try:
                {IN_A_FORK[call]}
            except Exception as error:
                print("forked" in str(error) and "FAILED_PRECONDITION" in str(error), flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(float(f(x).sum()))
    """)
    assert status == 0, errors
    assert output.split() == ["True", "100.0"], errors
