"""The reference for tests/suite/round_trip.rs: creates programs with JAX, and compares the files that this crate wrote for
them.

    python round_trip.py make DIRECTORY            writes NAME.mlir (JAX's text) and NAME.VERSION.bc (artifacts)
    python round_trip.py compare ORIGINALS OURS    every OURS/FILE~FORM must be the program ORIGINALS/FILE

Both programs are read by jaxlib, and the StableHLO that it prints must be identical. Prints one line per difference and
a count at the end. Exits with 1 if there is a difference.
"""

import functools
import os
import pathlib
import sys

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax
from jax._src.interpreters import mlir as jax_mlir
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jaxlib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

NEWEST = "1.17.0"
VERSIONS = [NEWEST, "1.8.0", "1.0.0", "0.14.0", "0.9.0"]


def f32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def i32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.int32)


def of(dtype, *shape):
    return jax.ShapeDtypeStruct(shape, dtype)


def mesh(*sizes):
    names = "xyz"[: len(sizes)]
    return Mesh(np.array(jax.devices()[: int(np.prod(sizes))]).reshape(sizes), tuple(names))


def elementwise(x, y):
    unary = [jnp.abs, jnp.cbrt, jnp.ceil, jnp.cos, jnp.exp, jnp.expm1, jnp.floor, jnp.isfinite, jnp.log, jnp.log1p]
    unary += [lax.logistic, jnp.negative, jnp.round, lax.rsqrt, jnp.sign, jnp.sin, jnp.sqrt, jnp.tan, jnp.tanh]
    binary = [jnp.add, jnp.arctan2, jnp.divide, jnp.maximum, jnp.minimum, jnp.multiply, jnp.power, lax.rem, jnp.subtract]
    return [f(x) for f in unary] + [f(x, y) for f in binary] + [x < y, x == y, jnp.clip(x, 0, 1), jnp.where(x > y, x, y)]


def integers(x, y):
    out = [x & y, x | y, x ^ y, ~x, x << 2, x >> 1, lax.shift_right_logical(x, y), lax.population_count(x), lax.clz(x)]
    return out + [x // 3, x % 5, -x, abs(x), x != y, jnp.cumsum(x), x.astype(jnp.float16), lax.bitcast_convert_type(x, jnp.float32)]


def complexes(x, y):
    z = lax.complex(x, y)
    return z * z, jnp.real(z), jnp.imag(z), jnp.conj(z), jnp.abs(z), jnp.exp(z), jnp.fft.fft(z), jnp.fft.ifft(z), z.astype(jnp.complex64)


def convolutions(x, k):
    numbers = ("NHWC", "HWIO", "NHWC")
    plain = lax.conv_general_dilated(x, k, (2, 1), ((1, 2), (0, 1)), (1, 2), (2, 1), dimension_numbers=numbers)
    groups = lax.conv_general_dilated(x, k[:, :, :1, :3], (1, 1), "SAME", dimension_numbers=numbers, feature_group_count=3)
    transposed = lax.conv_transpose(x, k, (2, 2), "SAME", dimension_numbers=numbers, precision="highest")
    pooled = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "SAME", window_dilation=(1, 2, 1, 1))
    return plain, groups, transposed, pooled


def pooling(x):
    return jax.grad(lambda x: jnp.sum(lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")))(x)


def gathers(x, i, u):
    batched = jax.vmap(lambda row, index: row[index])(x, i)
    out = [x[i], x[:, i], batched, x.at[i].add(u), x.at[i].max(u), x.at[0, i].set(1.0), jnp.take_along_axis(x, i[:, None], 1)]
    return out + [x.at[i].mul(2.0, unique_indices=True, indices_are_sorted=True), lax.dynamic_slice(x, (i[0], 0), (2, 2))]


def sorting(x, i):
    return jnp.sort(x), jnp.argsort(x, axis=0), lax.sort((x, x * 2), num_keys=1), lax.top_k(x, 2), jnp.argmin(x), jnp.median(x)


def control(x, n):
    a = lax.fori_loop(0, 5, lambda i, v: v * 2 + i, x)
    b = lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] @ s[1]), (0, a))[1]
    c = lax.switch(n, [jnp.sin, jnp.cos, lambda v: lax.cond(n > 2, jnp.exp, jnp.log1p, v)], b)
    d = lax.scan(lambda c, v: (c + v, c * v), c[0], c)
    return c, d, jax.checkpoint(jnp.tanh)(x), lax.map(jnp.sum, x), lax.associative_scan(jnp.add, x)


def fourier(x):
    return jnp.fft.rfft(x), jnp.fft.irfft(jnp.fft.rfft(x)), jnp.fft.fft2(x), jnp.fft.ifftn(x)


def linear_algebra(a, b):
    q, r = jnp.linalg.qr(a)
    return q, r, jnp.linalg.cholesky(a @ a.T), jnp.linalg.solve(a, b), jnp.linalg.eigh(a), jnp.linalg.svd(a), jnp.linalg.det(a)


def random(key):
    key = jax.random.wrap_key_data(key)
    return [f(key, (3, 5)) for f in (jax.random.normal, jax.random.uniform, jax.random.gumbel, jax.random.exponential)]


def random_bits(key):
    return jax.random.bits(jax.random.wrap_key_data(key, impl="rbg"), (4, 3))


def special(x):
    return lax.erf(x), lax.erf_inv(x), lax.lgamma(x), lax.digamma(x), jnp.arcsinh(x), jnp.arccosh(x), lax.bessel_i1e(x), jax.nn.gelu(x)


def shapes(x):
    padded = lax.pad(x, 0.0, ((1, -1, 2), (0, 3, 0)))
    out = [padded, x[::-1], x[1:4:2], jnp.concatenate([x, x], 1), x.T, x.reshape(-1), jnp.broadcast_to(x, (2, *x.shape))]
    return out + [jnp.squeeze(x[None]), jnp.tile(x, 2), jnp.roll(x, 1), lax.iota(jnp.uint8, 7), jnp.eye(3), lax.reduce_precision(x, 5, 7)]


def reductions(x, n):
    both = lax.reduce((x, n), (-jnp.inf, 0), lambda a, b: (jnp.maximum(a[0], b[0]), a[1] + b[1]), (0,))
    return both, x.sum(0), x.max(), (x > 0).any(1), (x > 0).all(), jnp.prod(x), n.sum(dtype=jnp.int16), jnp.cumprod(x, 1), lax.cummax(x)


def contractions(x, y):
    dims = (((2,), (1,)), ((0,), (0,)))
    out = [lax.dot_general(x, y, dims), jnp.einsum("bij,bjk->ik", x, y), x[0] @ y[0], lax.dot_general(x, y, dims, precision="high")]
    return out + [lax.dot_general(x, y, dims, precision=lax.DotAlgorithmPreset.BF16_BF16_F32), lax.dot_general(x.astype(jnp.bfloat16), y.astype(jnp.bfloat16), dims, preferred_element_type=jnp.float32)]


def narrow(x):
    names = "int2 uint2 int4 uint4 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e4m3b11fnuz float8_e4m3 float8_e3m4 float8_e8m0fnu float4_e2m1fn"
    return [x.astype(getattr(jnp, name)) for name in names.split() if hasattr(jnp, name)]


def common_types(x):
    return [x.astype(n) for n in "bool int8 int16 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float64 complex64 complex128".split()]


def constants():
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(d) for s in ((), (1,), (7,), (3, 5), (40, 30)) for d in (np.float32, np.float64, np.float16)]
    arrays += [rng.integers(-9, 9, (4, 50)).astype(d) for d in (np.int8, np.uint16, np.int32, np.int64)]
    arrays += [rng.integers(0, 2, s).astype(bool) for s in ((), (3,), (9, 9), (200,))] + [np.zeros((2, 0, 3), np.float32)]
    arrays += [np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45, 3.4e38], np.float32), np.array([1 + 2j, np.nan - 1j], np.complex64)]
    return [jnp.asarray(a) for a in arrays] + [jnp.array([0.1, -3.3]).astype(t) for t in (jnp.bfloat16, jnp.float8_e4m3fn, jnp.int4)]


def callbacks(x):
    jax.debug.print("x = {}", x)
    return jax.pure_callback(lambda v: np.asarray(v) * 2, f32(4), x)


def barrier(x, y):
    return lax.optimization_barrier((x, y)), jax.named_call(lambda v: v + 1, name="named")(x)


def attention(x, w):
    q, k, v = (jnp.reshape(x @ w, (8, 4, 8)) for _ in range(3))
    scores = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((8, 8), bool)), jnp.einsum("thd,shd->hts", q, k), -1e9))
    return jnp.sum(jnp.einsum("hts,shd->thd", scores, v))


def sharded(a, b):
    two = mesh(2, 4)
    c = lax.with_sharding_constraint(a @ b, NamedSharding(two, P("x", "y")))
    d = lax.with_sharding_constraint(jnp.tanh(c), NamedSharding(two, P(("x", "y"), P.UNCONSTRAINED)))
    return d, jnp.sum(d, axis=0)


def collectives(a):
    def local(a):
        out = [lax.psum(a, "x"), lax.pmax(a, ("x", "y")), lax.all_gather(a, "y", axis=1, tiled=True), lax.axis_index("x") + a]
        out += [lax.psum_scatter(a, "x", scatter_dimension=1, tiled=True), lax.ppermute(a, "x", [(0, 1), (1, 0)])]
        return out + [lax.all_to_all(a, "y", 0, 1, tiled=True), lax.pmean(a, "y")]

    specs = dict(mesh=mesh(2, 2), in_specs=P("x", "y"), out_specs=P("x", "y"), check_vma=False)
    return jax.shard_map(local, **specs)(a)


def partly_manual(a):
    body = lambda a: lax.psum(a, "x") * 2
    return jax.shard_map(body, mesh=mesh(2, 2), in_specs=P("x"), out_specs=P(), axis_names={"x"}, check_vma=False)(a)


def dynamic(x, y):
    z = x[None] + y[:, None] if x.ndim == 1 else x @ x.T
    return jnp.sum(z, 0), jnp.concatenate([y, y]), y.reshape(-1, 2), jnp.arange(y.shape[0]), lax.dynamic_slice(y, (1,), (2,)), jnp.sort(y)[::-1]


PROGRAMS = {
    "elementwise": (elementwise, [f32(3, 4), f32(3, 4)]),
    "elementwise_bf16": (elementwise, [of(jnp.bfloat16, 5), of(jnp.bfloat16, 5)]),
    "integers": (integers, [i32(6), i32(6)]),
    "complexes": (complexes, [f32(8), f32(8)]),
    "convolutions": (convolutions, [f32(2, 8, 9, 3), f32(3, 3, 3, 4)]),
    "pooling": (pooling, [f32(2, 8, 8, 3)]),
    "gathers": (gathers, [f32(5, 6), i32(5), f32(5, 6)]),
    "sorting": (sorting, [f32(4, 7), i32(4, 7)]),
    "control": (control, [f32(4, 4), i32()]),
    "fourier": (fourier, [f32(6, 8)]),
    "linear_algebra": (linear_algebra, [f32(4, 4), f32(4, 2)]),
    "random": (random, [of(jnp.uint32, 2)]),
    "random_bits": (random_bits, [of(jnp.uint32, 4)]),
    "special": (special, [f32(9)]),
    "shapes": (shapes, [f32(5, 6)]),
    "reductions": (reductions, [f32(4, 6), i32(4, 6)]),
    "contractions": (contractions, [f32(2, 3, 4), f32(2, 4, 5)]),
    "narrow": (narrow, [f32(4)]),
    "common_types": (common_types, [f32(4)]),
    "constants": (constants, []),
    "callbacks": (callbacks, [f32(4)]),
    "barrier": (barrier, [f32(3), i32(2)]),
    "attention": (jax.value_and_grad(attention), [f32(8, 32), f32(32, 32)]),
    "hessian": (jax.hessian(lambda x: jnp.sum(jnp.tanh(x) ** 3)), [f32(3)]),
    "batched": (jax.vmap(lambda x, i: lax.dynamic_update_slice(x, x[:2], (i,))), [f32(4, 6), i32(4)]),
    "donated": (lambda x, y: (x + y, y * 2), [f32(4), f32(4)], dict(donate_argnums=(0,), keep_unused=True)),
    "sharded": (sharded, [f32(8, 8), f32(8, 8)]),
    "sharded_inputs": (lambda a: a * 2, [f32(8, 8)], dict(in_shardings="rows", out_shardings="columns")),
    "collectives": (collectives, [f32(8, 8)]),
    "partly_manual": (partly_manual, [f32(8, 8)]),
}
DYNAMIC = {
    "dynamic": (dynamic, ["n", "2*m"]),
    "dynamic_matrix": (lambda x, y: (x @ x.T, jnp.pad(y, 1), jnp.var(x, axis=0), x[:, ::2]), ["a, 4", "b"]),
    "dynamic_convolution": (lambda x, k: lax.conv(x, k, (1, 1), "SAME"), ["b, 3, h, w", "4, 3, 3, 3"]),
}
# These programs contain Shardy ops, which artifacts keep unchanged.
MIXED = {"sharded", "sharded_inputs", "collectives", "partly_manual"}


def context():
    made = jax_mlir.make_ir_context()
    made.allow_unregistered_dialects = True
    return made


def load(data):
    """The StableHLO that jaxlib reads from an artifact or text."""
    made = context()
    with made:
        if data[:4] == b"ML\xefR":
            module = stablehlo.deserialize_portable_artifact(made, data)
        else:
            module = ir.Module.parse(data)
        return module.operation.get_asm(enable_debug_info=False, large_elements_limit=None)


def serialize(text, version, mixed):
    mixed = mixed and tuple(map(int, version.split("."))) >= (1, 11, 0)
    return _jax.mlir.serialize_portable_artifact(text, version, mixed)


def make(directory):
    directory.mkdir(parents=True, exist_ok=True)
    count = 0
    texts = {}
    for name, (function, args, *options) in PROGRAMS.items():
        jax.config.update("jax_enable_x64", name in ("common_types", "constants"))
        options = dict(options[0]) if options else {}
        for key, spec in (("in_shardings", P("x")), ("out_shardings", P(None, "y"))):
            if key in options:
                options[key] = NamedSharding(mesh(2, 2), spec)
        texts[name] = jax.jit(function, **options).lower(*args).as_text()
    for name, (function, specs) in DYNAMIC.items():
        scope = export.SymbolicScope()
        shapes = [export.symbolic_shape(spec, scope=scope) for spec in specs]
        dims = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
        texts[name] = str(export.export(jax.jit(function))(*dims).mlir_module())
    for name, text in texts.items():
        (directory / f"{name}.mlir").write_text(text)
        count += 1
        for version in VERSIONS:
            try:
                artifact = serialize(text, version, name in MIXED)
            except Exception:  # not every program exists in every version
                continue
            (directory / f"{name}.{version}.bc").write_bytes(artifact)
            count += 1
    print(f"{count} files")


def compare(originals, ours):
    same, different = 0, 0
    known = functools.cache(lambda name: load((originals / name).read_bytes()))
    for path in sorted(ours.iterdir()):
        original, form = path.name.split("~")
        try:
            expected, actual = known(original), load(path.read_bytes())
            if expected != actual and original.endswith(".mlir"):
                # Text may omit default values or spell them out. Artifacts always contain them.
                mixed = original.split(".")[0] in MIXED
                expected, actual = (load(serialize(text, NEWEST, mixed)) for text in (expected, actual))
        except Exception as error:
            print(f"{path.name}: {str(error)[:500]}")
            different += 1
            continue
        if expected == actual:
            same += 1
            continue
        different += 1
        for a, b in zip(expected.splitlines(), actual.splitlines()):
            if a != b:
                print(f"{path.name}:\n  expected {a[:300]}\n  found    {b[:300]}")
                break
    print(f"{same} same, {different} different")
    return 1 if different or not same else 0


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(pathlib.Path(sys.argv[2]))
    else:
        sys.exit(compare(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])))
