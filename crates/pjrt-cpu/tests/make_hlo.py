#!/usr/bin/env python3
"""Writes programs in XLA's own form with inputs and the results JAX's CPU backend computes for them.

    python make_hlo.py OUT_DIR

needs `pip install jax==0.10.2 jaxlib==0.10.2 numpy`. Every case is two files: NAME.hlo, a serialized HloModuleProto, and
NAME.bin, the inputs and then the expected outputs, each row-major, one byte per truth value. `tests/hlo.rs` runs them.
"""
import os, sys
os.environ["JAX_PLATFORMS"] = "cpu"
import numpy as np
import jax, jax.numpy as jnp
from jax import lax
import ml_dtypes

jax.config.update("jax_enable_x64", True)
out = sys.argv[1]
os.makedirs(out, exist_ok=True)
rng = np.random.default_rng(0)


def f(*shape, dtype=np.float32):
    return rng.uniform(0.5, 2, shape).astype(dtype)


def n(*shape, high=9, dtype=np.int32):
    return rng.integers(0, high, shape).astype(dtype)


def case(name, fun, *args, platform="cpu", **options):
    traced = jax.jit(fun, keep_unused=True, **options).trace(*args)
    lowered = traced.lower(lowering_platforms=(platform,))
    code = lowered.compiler_ir(dialect="hlo").as_serialized_hlo_module_proto()
    results = jax.tree.leaves(jax.jit(fun)(*args))
    with open(f"{out}/{name}.hlo", "wb") as file:
        file.write(code)
    with open(f"{out}/{name}.bin", "wb") as file:
        for array in [*args, *results]:
            file.write(np.ascontiguousarray(np.asarray(array)).tobytes())


def conv(x, k, **options):
    return lax.conv_general_dilated(x, k, dimension_numbers=("NHWC", "HWIO", "NHWC"), **options)


case("elementwise", lambda a, b: (a + b, a * b - a, a / b, jnp.maximum(a, b), a ** b, jnp.arctan2(a, b), a % b), f(3, 4), f(3, 4))
case("unary", lambda a: [g(a) for g in (jnp.exp, jnp.log, jnp.sin, jnp.cos, jnp.tan, jnp.tanh, jnp.sqrt, lax.rsqrt, jnp.cbrt, jnp.floor, jnp.ceil, jnp.sign, jnp.abs, jnp.expm1, jnp.log1p, jnp.round, jnp.isfinite, lax.logistic, lax.neg)], f(7))
case("special", lambda a: (lax.erf(a), jnp.sinh(a), jnp.cosh(a), jnp.arctanh(a / 4)), f(5))
case("integers", lambda a, b: (a & b, a | b, a ^ b, ~a, a << b, a >> b, lax.shift_right_logical(a, b), lax.population_count(a), lax.clz(a), a // (b + 1)), n(6), n(6))
case("compare_select", lambda a, b: (a < b, a == b, a >= b, jnp.where(a > b, a, b), lax.clamp(np.float32(0.7), a, np.float32(1.2))), f(9), f(9))
case("bf16", lambda a, b: (a @ b + jnp.bfloat16(1.5), a.astype(np.float32)), f(2, 3, dtype=ml_dtypes.bfloat16), f(3, 2, dtype=ml_dtypes.bfloat16))
case("f16_constants", lambda a: a * np.array([1.5, -2, 0.25], np.float16), f(3, dtype=np.float16))
case("f64_constants", lambda a: a * np.array([[1e300, 2], [3, np.inf]]) + np.pi, f(2, 2, dtype=np.float64))
case("narrow_constants", lambda a: (a + np.array([1, -2, 3], np.int8), np.array([1, -7, 3], ml_dtypes.int4).astype(np.int32), np.array([1, 15], ml_dtypes.uint4).astype(np.int32), np.array([1.5, -2], ml_dtypes.float8_e4m3fn).astype(np.float32), np.array([True, False, True]), np.array([7, 65535], np.uint16), np.array([-7, 3], np.int16), np.array([1 << 63], np.uint64)), n(3, dtype=np.int8))
case("complex", lambda a, b: (lax.complex(a, b) * np.complex64(1 + 2j), jnp.abs(lax.complex(a, b)), jnp.real(jnp.exp(lax.complex(a, b))), jnp.imag(jnp.array([1 + 2j, 3j]))), f(4), f(4))
case("dot", lambda a, b: a @ b, f(3, 4), f(4, 5))
case("batched_dot", lambda a, b: jnp.einsum("bij,bkj->bik", a, b, precision="highest"), f(2, 3, 4), f(2, 5, 4))
case("conv", lambda x, k: conv(x, k, window_strides=(2, 1), padding=((1, 2), (0, 1)), rhs_dilation=(1, 2)), f(2, 8, 9, 3), f(3, 2, 3, 4))
case("conv_groups", lambda x, k: conv(x, k, window_strides=(1, 1), padding=((1, 1), (2, 0)), lhs_dilation=(2, 1), feature_group_count=2), f(1, 5, 5, 4), f(3, 3, 2, 6))
case("conv_grad", jax.grad(lambda x, k: conv(x, k, window_strides=(2, 2), padding="SAME").sum(), (0, 1)), f(1, 6, 6, 2), f(3, 3, 2, 3))
case("reduce", lambda a: (a.sum(), a.max(1), a.min(0), a.prod((0, 2)), (a > 1).any(), jnp.argmax(a, 1)), f(3, 4, 5))
case("cumulative", lambda a: (jnp.cumsum(a, 1), lax.cummax(a)), f(3, 6))
case("pool", lambda a: (lax.reduce_window(a, -jnp.inf, lax.max, (1, 2, 2), (1, 2, 1), "SAME"), lax.reduce_window(a, 0.0, lax.add, (1, 3, 1), (1, 1, 1), ((0, 0), (1, 1), (0, 0)))), f(2, 5, 6))
case("pool_grad", jax.grad(lambda a: lax.reduce_window(a, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID").sum()), f(4, 6))
case("scan", lambda a: lax.scan(lambda c, x: (c * 0.5 + x, c.sum()), jnp.zeros(3, a.dtype), a), f(5, 3))
case("while", lambda a: lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 1.5), (0, a)), f(2))
case("cond", lambda p, a: lax.cond(p > 3, lambda x, y: x + y, lambda x, y: x * y - 1, a, a * 2), np.int32(7), f(3))
case("switch", lambda p, a: lax.switch(p, [lambda x: x + 1, lambda x: x * 2, lambda x: jnp.sin(x)], a), np.int32(1), f(3))
case("gather", lambda a, i: (a[i], jnp.take(a, i, axis=1), a[i, i]), f(9, 9), n(4))
case("scatter", lambda a, i, u: (a.at[i].add(u), a.at[i[0]].set(7), a.at[:, i].max(2)), f(9, 3), np.array([1, 5, 2], np.int32) % 3, f(3, 3))
case("sort", lambda a: (jnp.sort(a), jnp.argsort(a, axis=0), lax.sort((a, -a), num_keys=1)), f(4, 7))
case("top_k", lambda a: lax.top_k(a, 3), f(2, 8))
case("fft", lambda a: (jnp.fft.fft(a), jnp.fft.rfft(a), jnp.fft.irfft(jnp.fft.rfft(a)), jnp.fft.fft2(a)), f(4, 8))
case("cholesky", lambda a: lax.linalg.cholesky(a @ a.T + 3 * np.eye(4, dtype=np.float32)), f(4, 4), platform="tpu")  # Calls of LAPACK on CPUs.
case("triangular_solve", lambda a, b: lax.linalg.triangular_solve(jnp.tril(a) + 2 * np.eye(3, dtype=np.float32), b, left_side=True, lower=True), f(3, 3), f(3, 2), platform="tpu")
case("rng_bits", lambda k: (jax.random.uniform(jax.random.wrap_key_data(k), (5,)), lax.rng_bit_generator(jnp.concatenate([k, k]), (6,), np.uint32)), n(2, dtype=np.uint32))
case("slices", lambda a, i: (a[1:6:2, ::-1], lax.dynamic_slice(a, (i, i - 2), (2, 3)), lax.dynamic_update_slice(a, a[:2, :2] * 2, (i, i))), f(7, 5), np.int32(3))
case("pad", lambda a: (lax.pad(a, np.float32(9), ((1, -1, 2), (-1, 2, 0))), jnp.concatenate([a, a * 2], 1), jnp.transpose(a), a.reshape(-1)), f(4, 3))
case("iota_broadcast", lambda a: (jnp.arange(6).reshape(2, 3) + a, jnp.broadcast_to(a[:, None], (2, 3, 3))), f(2, 3))
case("bitcast", lambda a: (lax.bitcast_convert_type(a, np.int32), lax.bitcast_convert_type(a, np.uint8), lax.reduce_precision(a, 5, 4), lax.convert_element_type(a, np.int8)), f(5))
case("batch_norm", lambda x, s, o: lax.batch_norm_training(x, s, o, 1e-3, 1) if hasattr(lax, "batch_norm_training") else (x - x.mean(0)) / jnp.sqrt(x.var(0) + 1e-3) * s + o, f(6, 3), f(3), f(3))
case("barrier", lambda a: lax.optimization_barrier((a + 1, a * 2)), f(3))
case("jit_calls", lambda a: jax.jit(lambda x: jnp.linalg.norm(x))(a) + jax.jit(lambda x: jnp.linalg.norm(x))(a + 1), f(4))
case("donated", lambda a, b: (a * 2, b + 1), f(3), f(2), donate_argnums=(1,))
case("grad_mlp", jax.grad(lambda w, v, x: jnp.sum(jax.nn.gelu(x @ w) @ v), (0, 1)), f(4, 8), f(8, 2), f(3, 4))
case("empty", lambda a: (a, jnp.zeros((0, 3)), a.sum()), f(0, 2))
