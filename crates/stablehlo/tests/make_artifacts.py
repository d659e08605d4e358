"""Creates the programs under tests/data: small JAX programs of this repository, lowered and serialized.

    python3 -m venv venv && venv/bin/pip install jax==0.10.2 jaxlib==0.10.2 numpy
    JAX_PLATFORMS=cpu venv/bin/python crates/stablehlo/tests/make_artifacts.py

For each program, writes NAME.VERSION.bc for every version that it can be serialized to. Also writes NAME.mlir, the text
of the artifact of the newest version, so that both contain the same ops. With --corpus DIR, also writes the text that
JAX itself prints, and every program in every version.
"""

import argparse
import os
import pathlib

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jaxlib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from jax._src.interpreters import mlir as jax_mlir

NEWEST = "1.17.0"
VERSIONS = [NEWEST, "1.9.0", "1.0.0", "0.14.0", "0.9.0"]
PROGRAMS = {}


def program(*args, mixed=False, **jit_options):
    def register(function):
        PROGRAMS[function.__name__] = (function, args, mixed, jit_options)
        return function

    return register


def f32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def i32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.int32)


def forward(params, x):
    (w1, b1), (w2, b2) = params
    return jax.nn.log_softmax(jax.nn.relu(x @ w1 + b1) @ w2 + b2)


PARAMS = ((f32(8, 16), f32(16)), (f32(16, 4), f32(4)))


def loss(params, x, y):
    return -jnp.mean(jnp.sum(forward(params, x) * jax.nn.one_hot(y, 4), axis=1))


@program(PARAMS, f32(5, 8))
def mlp_forward(params, x):
    return forward(params, x)


@program(PARAMS, f32(5, 8), i32(5))
def mlp_grad(params, x, y):
    return jax.value_and_grad(loss)(params, x, y)


@program(PARAMS, f32(5, 8), i32(5), donate_argnums=(0,))
def train_step(params, x, y):
    grads = jax.grad(loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


@program(jax.ShapeDtypeStruct((2,), jnp.uint32))
def random_normal(key):
    return jax.random.normal(jax.random.wrap_key_data(key), (3, 4))


@program(f32(4), f32(6, 4))
def scan(carry, xs):
    return lax.scan(lambda c, x: (c * 0.5 + x, jnp.sin(c)), carry, xs)


@program(f32(4))
def while_loop(x):
    return lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 1, c[1] * 1.5), (0, x))


@program(i32(), f32(4))
def branches(i, x):
    y = lax.cond(i > 0, jnp.sin, jnp.cos, x)
    return lax.switch(i, [lambda v: v + 1, lambda v: v * 2, lambda v: -v], y)


@program(f32(6, 5), i32(3), f32(3, 5))
def gather_scatter(x, i, u):
    return x[i], x.at[i].add(u), x.at[i, 1].set(0.0), jnp.take_along_axis(x, jnp.tile(i[:, None], (2, 5)) % 6, axis=0)


@program(f32(4, 7))
def sorting(x):
    return jnp.sort(x, axis=0), jnp.argsort(x), jnp.argmax(x, axis=1), jnp.cumsum(x, axis=1), jnp.median(x)


@program(f32(9))
def composites(x):
    return lax.top_k(x, 3), lax.erf(x), jnp.arcsinh(x), lax.lgamma(x)


@program(f32(4))
def dtypes(x):
    names = ["int8", "int16", "uint8", "uint16", "uint32", "float16", "bfloat16", "complex64", "bool"]
    out = [x.astype(n) for n in names]
    for name in ["int4", "uint4", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz"]:
        out.append(x.astype(getattr(jnp, name)))
    return out


@program()
def constants():
    mask = np.arange(40).reshape(5, 8) % 3 == 0
    table = np.linspace(-1, 1, 300, dtype=np.float32).reshape(20, 15)
    small = np.array([[1.5, -np.inf], [np.nan, 3e-40]], np.float32)
    parts = np.array([1 + 2j, -3j], np.complex64)
    return [
        jnp.asarray(v)
        for v in (mask, np.ones((3, 9), bool), table, small, parts, np.array([-5, 7], np.int8), np.zeros((0, 2), np.float32))
    ] + [jnp.asarray(np.array([0.1, -2.5], np.float32)).astype(jnp.bfloat16), jnp.array([-3, 5], jnp.int4)]


@program(f32(2, 8, 8, 3), f32(3, 3, 3, 4))
def convolution(x, k):
    def net(k):
        y = lax.conv_general_dilated(x, k, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        pooled = lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return jnp.sum(pooled)

    return jax.value_and_grad(net)(k)


@program(f32(4, 4), f32(4, 2), f32(16))
def numerics(a, b, x):
    spd = a @ a.T + jnp.eye(4)
    return jnp.fft.rfft(x), lax.linalg.triangular_solve(a, b, left_side=True), lax.reduce_precision(x, 5, 10), lax.linalg.cholesky(spd)


@program(f32(6, 6), i32())
def shapes(x, i):
    y = lax.dynamic_slice(x, (i, 0), (2, 3))
    z = lax.dynamic_update_slice(x, y, (0, i))
    padded = lax.pad(y, 0.0, ((1, 2, 1), (-1, 0, 0)))
    return z, padded, x[::-1, 1:5:2], jnp.concatenate([x, z], axis=1), lax.rev(x, (0,)), jnp.clip(x, 0, 1), jnp.einsum("ij,kj->ik", x, x, precision="highest")


def mesh():
    return Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("x", "y"))


@program(f32(8, 8), f32(8, 8), mixed=True)
def sharded(a, b):
    sharding = NamedSharding(mesh(), P("x", "y"))
    c = lax.with_sharding_constraint(a @ b, sharding)
    return jnp.sum(c, axis=0)


@program(f32(8, 8), mixed=True)
def manual(a):
    def local(a):
        return lax.psum(a * 2, "x"), lax.all_gather(a, "y", axis=1, tiled=True), lax.ppermute(a, "x", [(0, 1), (1, 0)])

    specs = dict(mesh=mesh(), in_specs=P("x", "y"), out_specs=(P(None, "y"), P("x", None), P("x", "y")), check_vma=False)
    return jax.shard_map(local, **specs)(a)


@program(f32(8), mixed=True)
def manual_token(a):
    """A token that is an operand of a Shardy op has StableHLO's own type, in addition to the artifact's."""

    def local(a):
        io_callback(lambda a: None, None, a, ordered=True)
        return a

    flat = Mesh(np.array(jax.devices()[:4]), ("x",))
    return jax.shard_map(local, mesh=flat, in_specs=P("x"), out_specs=P("x"))(a)


def block(x, w):
    q, k, v = (jnp.reshape(x @ w[f"w{n}"], (8, 4, 8)) for n in "qkv")
    scores = jnp.einsum("thd,shd->hts", q, k) / 8**0.5
    mask = jnp.tril(jnp.ones((8, 8), bool))
    out = jnp.einsum("hts,shd->thd", jax.nn.softmax(jnp.where(mask, scores, -1e9)), v).reshape(8, 32)
    x = x + out @ w["wo"]
    mean, var = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
    x = (x - mean) * lax.rsqrt(var + 1e-5)
    return x + jax.nn.gelu(x @ w["w1"]) @ w["w2"]


LAYER = {**{f"w{n}": f32(32, 32) for n in "qkvo"}, "w1": f32(32, 64), "w2": f32(64, 32)}


@program([LAYER] * 2, f32(8, 32))
def transformer(layers, x):
    """The program of the parser's benchmark."""

    def run(layers):
        y = x
        for w in layers:
            y = block(y, w)
        return jnp.sum(y)

    return jax.grad(run)(layers)


def nested(depth=60):
    """Regions nested as deeply as the reader allows."""
    lines = ["func.func @main(%p: tensor<i1>, %x: tensor<f32>) -> tensor<f32> {"]
    lines += [f'%r{i} = "stablehlo.if"(%p) ({{' for i in range(depth)]
    lines.append("stablehlo.return %x : tensor<f32>")
    for i in reversed(range(depth)):
        lines.append("}, { stablehlo.return %x : tensor<f32> }) : (tensor<i1>) -> tensor<f32>")
        lines.append(f"{'stablehlo.return' if i else 'return'} %r{i} : tensor<f32>")
    return "\n".join(lines + ["}"])


def serialize(module, version, mixed):
    text = str(module.operation.get_asm(enable_debug_info=True))
    if mixed and tuple(map(int, version.split("."))) >= (1, 11, 0):
        return _jax.mlir.serialize_portable_artifact(text, version, True)
    return _jax.mlir.serialize_portable_artifact(text, version, False)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", type=pathlib.Path)
    options = parser.parse_args()
    out = options.corpus or pathlib.Path(__file__).parent / "data"
    out.mkdir(parents=True, exist_ok=True)
    for name, (function, args, mixed, jit_options) in PROGRAMS.items():
        lowered = jax.jit(function, **jit_options).lower(*args)
        if options.corpus:
            (out / f"{name}.jax.mlir").write_text(lowered.as_text())
            (out / f"{name}.debug.mlir").write_text(lowered.as_text(debug_info=True))
        versions = VERSIONS if options.corpus or name not in ("transformer",) else VERSIONS[:1]
        for version in versions:
            # The text must not contain paths of this machine.
            module = ir.Module.parse(lowered.as_text(debug_info=options.corpus is not None), context=jax_mlir.make_ir_context())
            try:
                artifact = serialize(module, version, mixed)
            except Exception as error:  # not every program exists in every version
                print(f"{name} {version}: {str(error).splitlines()[0][:150]}")
                continue
            (out / f"{name}.{version}.bc").write_bytes(artifact)
            if version == NEWEST:
                context = jax_mlir.make_ir_context()
                with context:
                    again = stablehlo.deserialize_portable_artifact(context, artifact)
                    text = again.operation.get_asm(large_elements_limit=None)
                    (out / f"{name}.mlir").write_text(text)
                    if options.corpus:
                        (out / f"{name}.generic.mlir").write_text(again.operation.get_asm(print_generic_op_form=True))
    deep = _jax.mlir.serialize_portable_artifact(nested(), NEWEST, False)
    (out / f"nested.{NEWEST}.bc").write_bytes(deep)


main()
