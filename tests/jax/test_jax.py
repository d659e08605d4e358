"""Compares typical work of JAX users on our device and on JAX's own CPU backend."""

import threading

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

OURS = jax.devices("pjrt_cpu")[0]
THEIRS = jax.devices("cpu")[0]
TOLERANCE = {"float64": 1e-12, "float32": 2e-5, "bfloat16": 2e-2, "float16": 2e-3}


def on(device, function, *args):
    """Runs a jitted function with its arguments on one device. Returns NumPy arrays."""
    args = jax.device_put(args, device)
    with jax.default_device(device):
        out = jax.jit(function)(*args)
    for leaf in jax.tree.leaves(out):
        assert leaf.devices() == {device}, leaf.devices()
    return jax.tree.map(np.asarray, out)


def assert_same(function, *args, rtol=None, atol=0.0):
    """Checks that our device and JAX's CPU backend agree within the tolerance of the result's type."""
    ours, theirs = on(OURS, function, *args), on(THEIRS, function, *args)
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs)):
        assert a.dtype == b.dtype and a.shape == b.shape
        tolerance = TOLERANCE.get(str(a.dtype), 0.0) if rtol is None else rtol
        if tolerance == 0.0:
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(
                a.astype(np.float64), b.astype(np.float64), rtol=tolerance, atol=atol or tolerance
            )


def layers(key, sizes):
    keys = jax.random.split(key, len(sizes))
    return [
        (jax.random.normal(k, (i, o), jnp.float32) * 0.1, jnp.zeros(o, jnp.float32))
        for k, i, o in zip(keys, sizes[:-1], sizes[1:])
    ]


def forward(parameters, x):
    for w, b in parameters[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = parameters[-1]
    return x @ w + b


def loss(parameters, x, y):
    logits = forward(parameters, x)
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * y, axis=-1))


@pytest.fixture(scope="module")
def mlp():
    with jax.default_device(THEIRS):
        parameters = jax.tree.map(np.asarray, layers(jax.random.key(0), [16, 32, 10]))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8, 16), np.float32)
    y = np.eye(10, dtype=np.float32)[rng.integers(0, 10, 8)]
    return parameters, x, y


def test_devices():
    assert OURS.platform == "pjrt_cpu"
    assert jax.devices()[0] == OURS, "the plugin named first is JAX's default"
    assert OURS.id == 0 and OURS.process_index == 0
    assert OURS.device_kind
    assert str(OURS) and repr(OURS)
    assert OURS.default_memory().kind in {m.kind for m in OURS.addressable_memories()}


def test_one_operation():
    x = np.arange(4, dtype=np.float32)
    assert_same(lambda x: x + 1, x)


def test_mlp_forward(mlp):
    parameters, x, _ = mlp
    assert_same(forward, parameters, x)


def test_mlp_gradient(mlp):
    assert_same(jax.value_and_grad(loss), *mlp)


def test_mlp_training(mlp):
    def train(parameters, x, y):
        def step(parameters, _):
            value, gradient = jax.value_and_grad(loss)(parameters, x, y)
            return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradient), value

        return jax.lax.scan(step, parameters, None, length=20)

    assert_same(train, *mlp, rtol=1e-4, atol=1e-5)
    _, losses = on(OURS, train, *mlp)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64, jnp.bfloat16])
def test_random_normal(dtype):
    def draw(data):
        return jax.random.normal(jax.random.wrap_key_data(data), (128, 3), dtype)

    assert_same(draw, np.array([0, 42], np.uint32))


def test_random_bits_are_equal():
    def draw(data):
        key = jax.random.wrap_key_data(data)
        return jax.random.bits(key, (257,)), jax.random.randint(key, (31,), -5, 1000), jax.random.split(key, 5)

    def raw(data):
        bits, ints, keys = draw(data)
        return bits, ints, jax.random.key_data(keys)

    assert_same(raw, np.array([7, 9], np.uint32))


def test_scan():
    def cumulative(xs):
        def step(carry, x):
            carry = carry * 0.5 + x
            return carry, (carry, jnp.sum(carry))

        return jax.lax.scan(step, jnp.zeros(3, xs.dtype), xs)

    assert_same(cumulative, np.arange(30, dtype=np.float32).reshape(10, 3))


def test_while_and_cond():
    def collatz(n):
        def body(state):
            n, steps = state
            return jax.lax.cond(n % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, n), steps + 1

        return jax.lax.while_loop(lambda state: state[0] != 1, body, (n, 0))

    assert_same(collatz, np.int32(27))
    assert on(OURS, collatz, np.int32(27))[1] == 111


def test_switch():
    def pick(i, x):
        return jax.lax.switch(i, [jnp.sin, jnp.cos, lambda x: x * x], x)

    for i in (-1, 0, 1, 2, 7):
        assert_same(pick, np.int32(i), np.linspace(0, 3, 5, dtype=np.float32))


def test_numpy_functions():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((5, 7)).astype(np.float32)
    assert_same(lambda x: (jnp.sort(x, axis=1), jnp.argsort(x), jnp.argmax(x, axis=0), jnp.cumsum(x, axis=1)), x)
    assert_same(lambda x: (x.T @ x, x[1:4:2, ::-1], jnp.concatenate([x, x * 2]), jnp.pad(x, 1)), x)
    assert_same(lambda x: (jax.nn.softmax(x), jax.nn.gelu(x), jnp.linalg.norm(x), jnp.mean(x), jnp.var(x)), x)
    assert_same(lambda x: (x.at[jnp.array([0, 2, 9])].add(1.0), jnp.take(x, jnp.array([3, 1]), axis=0)), x)
    assert_same(lambda x: (x > 0, jnp.where(x > 0, x, 0), jnp.any(x > 1, axis=1), jnp.isfinite(x)), x)


def test_compile_error_names_the_operation():
    def unsupported(x):
        return jax.lax.custom_linear_solve(lambda v: v, x, lambda _, b: b) + jax.ffi.ffi_call(
            "no_such_target", jax.ShapeDtypeStruct(x.shape, x.dtype)
        )(x)

    with pytest.raises(jax.errors.JaxRuntimeError, match="no_such_target"):
        on(OURS, unsupported, np.ones(3, np.float32))
    assert_same(lambda x: x + 1, np.ones(3, np.float32))


def test_thousand_dispatches():
    with jax.default_device(OURS):
        add = jax.jit(lambda x: x + 1)
        x = jax.device_put(np.zeros(4, np.float32), OURS)
        for _ in range(1000):
            x = add(x)
        np.testing.assert_array_equal(np.asarray(x), np.full(4, 1000, np.float32))


DTYPES = [
    np.float32,
    np.float64,
    np.float16,
    ml_dtypes.bfloat16,
    np.int8,
    np.int16,
    np.int32,
    np.int64,
    np.uint8,
    np.uint16,
    np.uint32,
    np.uint64,
    np.bool_,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_device_put_round_trip(dtype):
    base = np.arange(24).astype(dtype).reshape(2, 3, 4)
    for x in (base, base.T, base[:, ::-1, ::2], base[0, 0, 0], base[:0], np.broadcast_to(base[0], (5, 3, 4))):
        y = jax.device_put(x, OURS)
        assert y.devices() == {OURS}
        np.testing.assert_array_equal(np.asarray(y), x)


def test_mutating_the_host_array_after_the_transfer():
    x = np.arange(1000, dtype=np.float32)
    y = jax.device_put(x.copy(), OURS).block_until_ready()
    np.testing.assert_array_equal(np.asarray(y), x)


def test_donation_keeps_values_right():
    step = jax.jit(lambda x, y: (x + y, y), donate_argnums=0)
    x = jax.device_put(np.ones(16, np.float32), OURS)
    y = jax.device_put(np.full(16, 2, np.float32), OURS)
    for _ in range(5):
        x, y = step(x, y)
    np.testing.assert_array_equal(np.asarray(x), np.full(16, 11, np.float32))
    np.testing.assert_array_equal(np.asarray(y), np.full(16, 2, np.float32))


def test_deleted_array_is_an_error():
    x = jax.device_put(np.ones(3, np.float32), OURS)
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        np.asarray(x)


def test_a_token_cannot_be_read():
    with jax.default_device(OURS):
        token = jax.lax.create_token()
    token.block_until_ready()
    assert token._buf.devices() == {OURS}
    with pytest.raises(RuntimeError, match="token"):
        np.asarray(token._buf)


def test_threads():
    results, faults = {}, []

    def work(i):
        try:
            with jax.default_device(OURS):
                f = jax.jit(lambda x: jnp.sum(x * (i + 1)))
                results[i] = [float(f(jnp.ones(8, jnp.float32))) for _ in range(20)]
        except Exception as error:  # noqa: BLE001
            faults.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not faults
    assert results == {i: [8.0 * (i + 1)] * 20 for i in range(8)}


def test_aot():
    lowered = jax.jit(lambda x: jnp.sin(x) * 2).lower(jax.ShapeDtypeStruct((4,), jnp.float32))
    compiled = lowered.compile()
    assert "sine" in compiled.as_text() or "sin" in compiled.as_text()
    compiled.memory_analysis()
    compiled.cost_analysis()
