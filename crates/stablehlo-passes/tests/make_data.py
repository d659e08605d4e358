"""Writes the programs of the tests of patterns as text.

Usage: python make_data.py FOLDER, with JAX 0.10.2. The files whose names end in `_0.12` come from JAX 0.12.
"""
import sys, functools
import jax, jax.numpy as jnp
from jax import lax
f32 = lambda *s: jax.ShapeDtypeStruct(s, jnp.float32)
bf16 = lambda *s: jax.ShapeDtypeStruct(s, jnp.bfloat16)
i32 = lambda *s: jax.ShapeDtypeStruct(s, jnp.int32)
b = lambda *s: jax.ShapeDtypeStruct(s, jnp.bool_)
u32 = lambda *s: jax.ShapeDtypeStruct(s, jnp.uint32)

def layer_norm(x, scale, bias):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    var = jnp.mean(jnp.square(x - mean), axis=-1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-5) * scale + bias

def layer_norm_var(x, scale, bias):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    var = jnp.var(x, axis=-1, keepdims=True)
    return (x - mean) / jnp.sqrt(var + 1e-5) * scale + bias

def layer_norm_flax(x, scale, bias):
    # The variance of Flax: the mean of squares minus the square of the mean.
    mean = jnp.mean(x, axis=-1)
    var = jnp.maximum(0.0, jnp.mean(lax.square(x), axis=-1) - lax.square(mean))
    y = x - jnp.expand_dims(mean, -1)
    mul = lax.rsqrt(jnp.expand_dims(var, -1) + 1e-6) * scale
    return y * mul + bias

def rms_norm(x, scale):
    return x * lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-6) * scale

def rms_norm_bf16(x, scale):
    w = x.astype(jnp.float32)
    y = w * lax.rsqrt(jnp.mean(jnp.square(w), axis=-1, keepdims=True) + 1e-6)
    return y.astype(jnp.bfloat16) * scale

def attention(q, k, v):
    s = jnp.einsum('bhqd,bhkd->bhqk', q, k) * 0.125
    return jnp.einsum('bhqk,bhkd->bhqd', jax.nn.softmax(s, axis=-1), v)

def masked_attention(q, k, v, mask):
    s = jnp.einsum('bqhd,bkhd->bhqk', q, k) / jnp.sqrt(q.shape[-1]).astype(q.dtype)
    s = jnp.where(mask, s, -1e30)
    return jnp.einsum('bhqk,bkhd->bqhd', jax.nn.softmax(s, axis=-1), v)

def mlp(x, w, bias):
    return jax.nn.relu(x @ w + bias)

def loop(x):
    return lax.fori_loop(0, 5, lambda i, x: jnp.sin(x) * i, x)

def scan(x):
    return lax.scan(lambda c, a: (c + a, c * a), jnp.float32(0), x)

cases = dict(
    softmax=(lambda x: jax.nn.softmax(x, axis=-1), f32(4, 8)),
    softmax_first=(lambda x: jax.nn.softmax(x, axis=0), f32(4, 8)),
    softmax_bf16=(lambda x: jax.nn.softmax(x, axis=-1), bf16(4, 8)),
    log_softmax=(lambda x: jax.nn.log_softmax(x, axis=-1), f32(4, 8)),
    layer_norm=(layer_norm, f32(4, 8), f32(8), f32(8)),
    layer_norm_var=(layer_norm_var, f32(4, 8), f32(8), f32(8)),
    layer_norm_flax=(layer_norm_flax, f32(4, 8), f32(8), f32(8)),
    rms_norm=(rms_norm, f32(4, 8), f32(8)),
    rms_norm_bf16=(rms_norm_bf16, bf16(4, 8), bf16(8)),
    attention=(attention, f32(1, 2, 4, 8), f32(1, 2, 6, 8), f32(1, 2, 6, 8)),
    masked_attention=(masked_attention, f32(1, 4, 2, 8), f32(1, 4, 2, 8), f32(1, 4, 2, 8), b(1, 1, 4, 4)),
    dot_product_attention=(jax.nn.dot_product_attention, f32(1, 4, 2, 8), f32(1, 4, 2, 8), f32(1, 4, 2, 8)),
    causal_attention=(functools.partial(jax.nn.dot_product_attention, is_causal=True), f32(1, 4, 2, 8), f32(1, 4, 2, 8), f32(1, 4, 2, 8)),
    relu=(mlp, f32(4, 8), f32(8, 6), f32(6)),
    gelu=(lambda x, w, c: jax.nn.gelu(x @ w + c), f32(4, 8), f32(8, 6), f32(6)),
    gelu_exact=(lambda x, w, c: jax.nn.gelu(x @ w + c, approximate=False), f32(4, 8), f32(8, 6), f32(6)),
    silu=(lambda x, w, c: jax.nn.silu(x @ w + c), f32(4, 8), f32(8, 6), f32(6)),
    tanh=(lambda x, w, c: jnp.tanh(x @ w + c), f32(4, 8), f32(8, 6), f32(6)),
    sigmoid=(lambda x, w, c: jax.nn.sigmoid(x @ w + c), f32(4, 8), f32(8, 6), f32(6)),
    loop=(loop, f32(3)),
    loop_to=(lambda x, n: lax.fori_loop(2, n, lambda i, x: jnp.sin(x) * i, x), f32(3), i32()),
    scan=(scan, f32(7)),
    threefry=(lambda k: jax.random.uniform(jax.random.wrap_key_data(k), (5,)), u32(2)),
    threefry_split=(lambda k: jax.random.key_data(jax.random.split(jax.random.wrap_key_data(k), 3)), u32(2)),
)
folder = sys.argv[1]
for name, (f, *args) in cases.items():
    with open(f'{folder}/{name}.mlir', 'w') as out:
        out.write(jax.jit(f).lower(*args).as_text())
