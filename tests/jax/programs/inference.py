"""Inference of neural networks, also with narrow types."""

import jax
import jax.numpy as jnp
import numpy as np

from . import held_out, integers, key, normal, program, uniform
from .training import attention, normalized

bf16 = jnp.bfloat16


@program(
    normal(2, 128, 256), normal(256, 768) / 16, normal(256, 256) / 16, normal(256, 1024) / 16, normal(1024, 256) / 32
)
def transformer_block(x, qkv, out, up, down):
    x = x + attention(normalized(x), qkv, out, 8)
    return x + jax.nn.gelu(normalized(x) @ up) @ down


@program(
    normal(1, 256).astype(bf16), normal(8, 512, 32).astype(bf16), normal(8, 512, 32).astype(bf16),
    normal(256, 768).astype(bf16), np.int32(300),
)
def decode_with_cache_bf16(x, keys, values, qkv, position):
    q, k, v = jnp.split(x @ qkv / 16, 3, axis=-1)
    keys = jax.lax.dynamic_update_slice(keys, k.reshape(8, 1, 32), (0, position, 0))
    values = jax.lax.dynamic_update_slice(values, v.reshape(8, 1, 32), (0, position, 0))
    scores = jnp.einsum("hd,hkd->hk", q.reshape(8, 32), keys).astype(jnp.float32) / 6
    scores = jnp.where(jnp.arange(512) <= position, scores, -1e9)
    return jnp.einsum("hk,hkd->hd", jax.nn.softmax(scores).astype(bf16), values), keys, values


@program(normal(64, 512), integers(-127, 128, 512, 512, dtype=np.int8), uniform(512) / 100)
def quantized_layer(x, weights, scales):
    scale = jnp.max(jnp.abs(x), axis=-1, keepdims=True) / 127
    narrow = jnp.round(x / scale).astype(jnp.int8)
    sums = jax.lax.dot(narrow, weights, preferred_element_type=jnp.int32)
    return jax.nn.relu(sums.astype(jnp.float32) * scale * scales)


@program(normal(16, 32_000))
def sample_of_the_40_largest(logits):
    values, tokens = jax.lax.top_k(logits, 40)
    noise = jax.random.gumbel(jax.random.key(1), values.shape)
    return jnp.take_along_axis(tokens, jnp.argmax(values + noise, axis=-1)[:, None], axis=-1)


@program(normal(1, 64, 64, 3), normal(3, 3, 3, 16) / 5, normal(3, 3, 1, 16) / 3, normal(16, 32) / 4)
def mobile_network(x, stem, depthwise, pointwise):
    layout = ("NHWC", "HWIO", "NHWC")
    x = jax.nn.relu6(jax.lax.conv_general_dilated(x, stem, (2, 2), "SAME", dimension_numbers=layout))
    x = jax.lax.conv_general_dilated(x, depthwise, (1, 1), "SAME", dimension_numbers=layout, feature_group_count=16)
    return jnp.mean(jax.nn.relu6(x) @ pointwise, axis=(1, 2))


@held_out(normal(8, 50_257), integers(0, 50_257, 8, 100))
def repetition_penalty(logits, history):
    rows = jnp.arange(8)[:, None]
    chosen = logits[rows, history]
    logits = logits.at[rows, history].set(jnp.where(chosen > 0, chosen / 1.2, chosen * 1.2))
    ordered = jnp.sort(jax.nn.softmax(logits), axis=-1)[:, ::-1]
    return jnp.mean(jnp.cumsum(ordered, axis=-1) < 0.9, axis=-1)


@held_out(normal(2, 256, 8, 64))
def rotary_embedding(x):
    angles = jnp.arange(256)[:, None] / 10000 ** (jnp.arange(32) / 32)
    cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
    left, right = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1)


@held_out(normal(32, 128).astype(bf16), normal(128, 512).astype(bf16), normal(512, 128).astype(bf16))
def gated_layer_bf16(x, up, down):
    hidden = (x @ up) / 11
    return (jax.nn.silu(hidden) * hidden) @ down


@held_out(integers(-8, 8, 256, 256, dtype=np.int8), normal(256, 8), normal(32, 256))
def weights_of_4_bits(packed, scales, x):
    weights = packed.reshape(256, 8, 32).astype(jnp.float32) * scales[..., None]
    return x @ weights.reshape(256, 256).T


@held_out(normal(4, 20), normal(20, 1000) / 4, key())
def beam_search(state, head, seed):
    def step(carry, _):
        state, scores = carry
        total = scores[:, None] + jax.nn.log_softmax(state @ head)
        scores, flat = jax.lax.top_k(total.reshape(-1), 4)
        beam, token = flat // 1000, flat % 1000
        return (jnp.tanh(state[beam] + head[:, token].T), scores), token

    return jax.lax.scan(step, (state, jnp.zeros(4)), None, length=20)
