"""Tests programs over four devices with both of JAX's partitioners. Compares the results on our plugin with those on
JAX's own CPU backend.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

try:
    from jax import shard_map
except ImportError:  # before JAX 0.6
    from jax.experimental.shard_map import shard_map

OURS = jax.devices("pjrt_cpu")
THEIRS = jax.devices("cpu")

RNG = np.random.default_rng(0)


@pytest.fixture(params=["shardy", "gspmd"], autouse=True)
def partitioner(request):
    before = jax.config.jax_use_shardy_partitioner
    jax.config.update("jax_use_shardy_partitioner", request.param == "shardy")
    jax.clear_caches()
    yield request.param
    jax.config.update("jax_use_shardy_partitioner", before)
    jax.clear_caches()


def mesh_of(devices, shape, names):
    return Mesh(np.array(devices[:4]).reshape(shape), names)


def both(build, shape=(2, 2), names=("x", "y"), rtol=2e-5):
    """Runs `build(mesh)` on each platform's mesh, and compares the arrays that it returns and their shardings."""
    results = []
    for devices in (OURS, THEIRS):
        mesh = mesh_of(devices, shape, names)
        with jax.default_device(devices[0]):
            results.append(jax.tree.leaves(build(mesh)))
    assert len(results[0]) == len(results[1]) > 0
    for a, b in zip(*results):
        assert all(d in OURS for d in a.devices()) and all(d in THEIRS for d in b.devices())
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=rtol)
    return results[0]


def f32(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def put(mesh, x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


SPECS = [(None, None), ("x", None), (None, "y"), ("x", "y"), (("x", "y"), None), (None, ("y", "x"))]


@pytest.mark.parametrize("left", SPECS)
@pytest.mark.parametrize("right", SPECS)
def test_matmul(left, right):
    a, b = f32(8, 16), f32(16, 12)
    both(lambda mesh: jax.jit(jnp.matmul)(put(mesh, a, *left), put(mesh, b, *right)))


@pytest.mark.parametrize("out", SPECS)
def test_out_shardings(out):
    a, b = f32(8, 16), f32(16, 12)

    def build(mesh):
        f = jax.jit(jnp.matmul, out_shardings=NamedSharding(mesh, P(*out)))
        c = f(put(mesh, a, "x", "y"), put(mesh, b, "y", None))
        assert c.sharding.is_equivalent_to(NamedSharding(mesh, P(*out)), 2)
        return c

    both(build)


def test_reversed_devices():
    a, b = f32(8, 16), f32(16, 12)
    for order in [(3, 2, 1, 0), (2, 0, 3, 1)]:

        def build(mesh):
            mesh = Mesh(mesh.devices.flatten()[list(order)].reshape(2, 2), ("x", "y"))
            return jax.jit(lambda a, b: (a @ b).sum(0))(put(mesh, a, "x", "y"), put(mesh, b, "y", None))

        both(build)


def layers(sizes):
    return [(f32(i, o) * 0.3, np.zeros(o, np.float32)) for i, o in zip(sizes[:-1], sizes[1:])]


def forward(parameters, x):
    for w, b in parameters[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = parameters[-1]
    return x @ w + b


def loss(parameters, x, y):
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(forward(parameters, x)) * y, axis=-1))


def train(parameters, x, y):
    value, grads = jax.value_and_grad(loss)(parameters, x, y)
    return value, jax.tree.map(lambda p, g: p - 0.1 * g, parameters, grads)


def steps(parameters, x, y):
    values = []
    step = jax.jit(train, donate_argnums=0)
    for _ in range(3):
        value, parameters = step(parameters, x, y)
        values.append(value)
    return values, parameters


BATCH, TARGET, MLP = f32(16, 8), np.eye(4, dtype=np.float32)[RNG.integers(0, 4, 16)], layers([8, 32, 16, 4])


def test_data_parallel_training():
    def build(mesh):
        parameters = jax.tree.map(lambda p: put(mesh, p), MLP)
        return steps(parameters, put(mesh, BATCH, ("x", "y")), put(mesh, TARGET, ("x", "y")))

    both(build)


def test_tensor_parallel_training():
    def build(mesh):
        cut = [(P(None, "y"), P("y")), (P("y", None), P()), (P(), P())]
        parameters = jax.tree.map(lambda p, s: put(mesh, p, *s), MLP, cut, is_leaf=lambda s: isinstance(s, P))
        return steps(parameters, put(mesh, BATCH, "x"), put(mesh, TARGET, "x"))

    both(build)


def test_fully_sharded_training():
    def build(mesh):
        parameters = jax.tree.map(lambda p: put(mesh, p, ("x", "y")) if p.shape[0] % 4 == 0 else put(mesh, p), MLP)
        return steps(parameters, put(mesh, BATCH, ("x", "y")), put(mesh, TARGET, ("x", "y")))

    both(build)


def test_sharding_constraint():
    a = f32(8, 16)

    def build(mesh):
        def f(x):
            x = jax.lax.with_sharding_constraint(x * 2, NamedSharding(mesh, P("y", "x")))
            x = jnp.sin(x).T
            x = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(("x", "y"))))
            return x.sum(0), x

        return jax.jit(f)(put(mesh, a, "x"))

    both(build)


def test_uneven_sharding_constraint():
    a = f32(6, 5)

    def build(mesh):
        f = lambda x: jax.lax.with_sharding_constraint(x + 1, NamedSharding(mesh, P(("x", "y"), None))) * 2
        return jax.jit(f)(put(mesh, a))

    both(build)


def test_scan_and_while():
    a, w = f32(8, 16), f32(16, 16) * 0.2

    def build(mesh):
        def f(x, w):
            def body(carry, _):
                carry = jnp.tanh(carry @ w)
                return carry, carry.mean()

            x, means = jax.lax.scan(body, x, None, length=5)
            y = jax.lax.while_loop(lambda s: s[1] < 3, lambda s: (s[0] @ w, s[1] + 1), (x, 0))[0]
            return x, means, y

        return jax.jit(f)(put(mesh, a, "x"), put(mesh, w, None, "y"))

    both(build)


def test_embedding_attention_and_softmax():
    table, tokens = f32(32, 16), RNG.integers(0, 32, (4, 8))
    q, k, v = f32(16, 16), f32(16, 16), f32(16, 16)

    def build(mesh):
        def f(table, tokens, q, k, v):
            x = table[tokens]
            heads = lambda w: (x @ w).reshape(4, 8, 4, 4).transpose(0, 2, 1, 3)
            scores = heads(q) @ heads(k).transpose(0, 1, 3, 2) / 2.0
            mask = jnp.tril(jnp.ones((8, 8), bool))
            scores = jnp.where(mask, scores, -1e9)
            out = (jax.nn.softmax(scores) @ heads(v)).transpose(0, 2, 1, 3).reshape(4, 8, 16)
            return out, jnp.argmax(out, -1)

        g = lambda *args: (f(*args), jax.grad(lambda *a: f(*a)[0].sum())(*args[:1], *args[1:]))
        w = [put(mesh, w, None, "y") for w in (q, k, v)]
        return jax.jit(g)(put(mesh, table, "y"), put(mesh, tokens, "x"), *w)

    both(build, rtol=1e-4)


def test_convolution():
    x, w = f32(8, 3, 8, 8), f32(4, 3, 3, 3)

    def build(mesh):
        f = lambda x, w: jax.lax.conv(x, w, (1, 1), "SAME")
        g = lambda x, w: (f(x, w), jax.grad(lambda w: (f(x, w) ** 2).sum())(w))
        return jax.jit(g)(put(mesh, x, ("x", "y")), put(mesh, w))

    both(build, rtol=1e-4)


def test_random_numbers_sort_and_cumsum():
    def build(mesh):
        def f(x):
            r = jax.random.normal(jax.random.key(0), (8, 16))
            r = jax.lax.with_sharding_constraint(r, NamedSharding(mesh, P("x", "y")))
            return jnp.sort(r * x, axis=1), jnp.cumsum(r, axis=0), jnp.argsort(r, axis=0), jnp.linalg.norm(r)

        return jax.jit(f)(put(mesh, np.float32(2.0)))

    both(build)


def smap(f, mesh, ins, outs, **options):
    try:
        return shard_map(f, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False, **options)
    except TypeError:
        return shard_map(f, mesh=mesh, in_specs=ins, out_specs=outs, check_rep=False)


COLLECTIVES = {
    "psum": (lambda a: jax.lax.psum(a, "x"), P("x", "y"), P(None, "y")),
    "pmean": (lambda a: jax.lax.pmean(a, ("x", "y")), P("x", "y"), P()),
    "pmax": (lambda a: jax.lax.pmax(a, "y") - jax.lax.pmin(a, "y"), P("x", "y"), P("x")),
    "all_gather": (lambda a: jax.lax.all_gather(a, "y"), P("x", "y"), P(None, "x")),
    "all_gather_tiled": (lambda a: jax.lax.all_gather(a, ("y", "x"), axis=1, tiled=True), P("x", "y"), P()),
    "psum_scatter": (lambda a: jax.lax.psum_scatter(a, "x", scatter_dimension=1, tiled=True), P("x", "y"), P(None, ("y", "x"))),
    "psum_scatter_untiled": (lambda a: jax.lax.psum_scatter(a[:2], "x"), P("x", "y"), P("y")),
    "all_to_all": (lambda a: jax.lax.all_to_all(a, "x", 1, 0, tiled=True), P("x", "y"), P("x", "y")),
    "ppermute": (lambda a: jax.lax.ppermute(a, "x", [(0, 1)]), P("x", "y"), P("x", "y")),
    "pshuffle": (lambda a: jax.lax.ppermute(a, "y", [(0, 1), (1, 0)]), P("x", "y"), P("x", "y")),
    "axis_index": (lambda a: a + 10 * jax.lax.axis_index("x") + jax.lax.axis_index(("x", "y")), P("x", "y"), P("x", "y")),
    "loop": (
        lambda a: jax.lax.fori_loop(0, 3, lambda _, v: jax.lax.psum(v, "x") - v * 2, a),
        P("x", "y"),
        P("x", "y"),
    ),
    "branch": (
        lambda a: jax.lax.cond(jax.lax.axis_index("y") == 0, lambda v: jax.lax.psum(v, "x"), lambda v: v * 2, a),
        P("x", "y"),
        P("x", "y"),
    ),
}


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16"])
def test_shard_map(name, dtype):
    f, ins, outs = COLLECTIVES[name]
    a = jnp.asarray(RNG.integers(-8, 8, (8, 8)), dtype)
    rtol = 2e-2 if dtype == "bfloat16" else 2e-5
    results = []
    for devices in (OURS, THEIRS):
        mesh = mesh_of(devices, (2, 2), ("x", "y"))
        out = jax.jit(smap(f, mesh, (ins,), outs))(put(mesh, np.asarray(a), *ins))
        results.append(np.asarray(out).astype(np.float64))
    np.testing.assert_allclose(results[0], results[1], rtol=rtol, atol=rtol)


def test_shard_map_inside_jit_and_its_gradient():
    a, w = f32(8, 16), f32(16, 8)

    def build(mesh):
        def f(x, w):
            inner = smap(lambda x, w: jax.lax.psum(x @ w, "y"), mesh, (P("x", "y"), P("y")), P("x"))
            return (jnp.tanh(inner(x * 2, w)) ** 2).sum()

        return jax.jit(jax.value_and_grad(f, argnums=(0, 1)))(put(mesh, a, "x"), put(mesh, w, None, "y"))

    both(build)


def test_partly_manual_shard_map():
    if not hasattr(jax, "shard_map"):
        pytest.skip("SKIPPED: this JAX has no partly manual shard_map")
    a = f32(8, 16)

    def build(mesh):
        f = smap(lambda x: jax.lax.psum(jnp.sin(x), "y") @ jnp.ones((8, 4), x.dtype), mesh, (P(None, "y"),), P(), axis_names={"y"})
        return jax.jit(f)(put(mesh, a, "x", "y"))

    both(build)


def test_ragged_all_to_all():
    if not hasattr(jax.lax, "ragged_all_to_all"):
        pytest.skip("SKIPPED: this JAX has no ragged_all_to_all")
    mesh = mesh_of(OURS, (4,), ("x",))
    rng = np.random.default_rng(5)
    sizes = rng.integers(0, 4, (4, 4)).astype(np.int32)  # by sender and receiver
    starts = np.cumsum(sizes, axis=1) - sizes
    places = np.cumsum(sizes, axis=0) - sizes
    operand = rng.integers(0, 100, (4, 16, 3)).astype(np.float32)
    want = np.full((4, 20, 3), -1, np.float32)
    for i in range(4):
        for j in range(4):
            n = sizes[i, j]
            want[j, places[i, j] : places[i, j] + n] = operand[i, starts[i, j] : starts[i, j] + n]

    def f(operand, output, starts, sizes, places, received):
        lists = [a[0] for a in (operand, output, starts, sizes, places, received)]
        return jax.lax.ragged_all_to_all(*lists, axis_name="x")[None]

    arguments = (operand, np.full((4, 20, 3), -1, np.float32), starts, sizes, places, sizes.T.copy())
    got = jax.jit(smap(f, mesh, (P("x"),) * 6, P("x")))(*(put(mesh, a, "x") for a in arguments))
    np.testing.assert_array_equal(np.asarray(got), want)


def test_pmap():
    a = f32(4, 6)
    results = []
    for devices in (OURS, THEIRS):
        f = jax.pmap(lambda x: (x - jax.lax.pmean(x, "i"), jax.lax.axis_index("i")), axis_name="i", devices=devices[:4])
        results.append([np.asarray(leaf) for leaf in jax.tree.leaves(f(a))])
    for ours, theirs in zip(*results):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)


def test_the_compiled_program_is_that_of_one_device():
    mesh = mesh_of(OURS, (2, 2), ("x", "y"))
    a, b = put(mesh, f32(8, 16), "x", "y"), put(mesh, f32(16, 12), "y", None)
    compiled = jax.jit(jnp.matmul).lower(a, b).compile()
    text = compiled.as_text()
    assert "all-reduce" in text and "f32[4,8]" in text, text
    assert compiled.output_shardings.is_equivalent_to(NamedSharding(mesh, P("x")), 2)


def test_many_runs_in_flight():
    mesh = mesh_of(OURS, (4,), ("x",))
    step = jax.jit(lambda x: x @ x.T / 64 + x.sum())
    x = put(mesh, f32(64, 64), "x")
    y = np.asarray(x)
    for _ in range(20):
        x = step(x)
    with jax.default_device(THEIRS[0]):
        for _ in range(20):
            y = np.asarray(jax.jit(lambda x: x @ x.T / 64 + x.sum())(y))
    np.testing.assert_allclose(np.asarray(x), y, rtol=1e-3)
