"""Writes the programs of the benchmark `against_xla`, as JAX lowers them. Those named `loop_` are written by hand.

Run with JAX 0.10.2 (the environment `cargo xtask test` makes): python make.py
"""

import pathlib

import jax
import jax.numpy as jnp

HERE = pathlib.Path(__file__).parent
BATCH, SEQUENCE, WIDTH, HEADS = 4, 256, 512, 8


def add_one(x):
    return x + 1


def elementwise_chain(x):
    return jnp.maximum((x * 1.5 + 0.5) * x - 0.25, 0.1)


def tanh_chain(x):
    return jnp.exp(jnp.tanh(x * 1.5) + 0.5)


def gelu(x):
    return jax.nn.gelu(x)


def softmax(x):
    return jax.nn.softmax(x, axis=-1)


def layer_norm(x, scale, bias):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean((x - mean) * (x - mean), axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + bias


def total(x):
    return jnp.sum(x)


def column_sums(x):
    return jnp.sum(x, axis=0)


def matmul(x, y):
    return x @ y


def transpose(x):
    return x.T


def conv(x, kernel):
    dimensions = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=dimensions)


def transformer_block(x, qkv, projection, up, down, scale1, bias1, scale2, bias2):
    normal = layer_norm(x, scale1, bias1)
    q, k, v = jnp.split(normal @ qkv, 3, axis=-1)

    def heads(t):
        return t.reshape(BATCH, SEQUENCE, HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)

    q, k, v = heads(q), heads(k), heads(v)
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / jnp.sqrt(WIDTH / HEADS).astype(x.dtype)
    mixed = jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1), v)
    x = x + mixed.transpose(0, 2, 1, 3).reshape(BATCH, SEQUENCE, WIDTH) @ projection
    return x + jax.nn.gelu(layer_norm(x, scale2, bias2) @ up) @ down


def mlp_step(w1, b1, w2, b2, w3, b3, x, y):
    """A step of gradient descent on the mean squared error of a perceptron."""

    def loss(parameters):
        (w1, b1), (w2, b2), (w3, b3) = parameters
        hidden = jnp.tanh(jnp.tanh(x @ w1 + b1) @ w2 + b2)
        difference = hidden @ w3 + b3 - y
        return jnp.mean(difference * difference)

    parameters = ((w1, b1), (w2, b2), (w3, b3))
    value, gradients = jax.value_and_grad(loss)(parameters)
    return jax.tree.map(lambda p, g: p - 0.01 * g, parameters, gradients), value


def f32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


LARGE, SQUARE = f32(1 << 24), f32(4096, 4096)
PROGRAMS = {
    "add_one": (add_one, [f32(4)]),
    "elementwise_chain": (elementwise_chain, [LARGE]),
    "tanh_chain": (tanh_chain, [LARGE]),
    "gelu": (gelu, [f32(1 << 22)]),
    "softmax": (softmax, [SQUARE]),
    "layer_norm": (layer_norm, [SQUARE, f32(4096), f32(4096)]),
    "sum": (total, [LARGE]),
    "column_sums": (column_sums, [SQUARE]),
    "transpose": (transpose, [SQUARE]),
    "matmul_64": (matmul, [f32(64, 64)] * 2),
    "matmul_1024": (matmul, [f32(1024, 1024)] * 2),
    "matmul_2048": (matmul, [f32(2048, 2048)] * 2),
    "conv": (conv, [f32(8, 56, 56, 64), f32(3, 3, 64, 64)]),
    "mlp_step": (
        mlp_step,
        [f32(784, 512), f32(512), f32(512, 512), f32(512), f32(512, 10), f32(10), f32(128, 784), f32(128, 10)],
    ),
    "transformer_block": (
        transformer_block,
        [
            f32(BATCH, SEQUENCE, WIDTH),
            f32(WIDTH, 3 * WIDTH),
            f32(WIDTH, WIDTH),
            f32(WIDTH, 4 * WIDTH),
            f32(4 * WIDTH, WIDTH),
            *[f32(WIDTH)] * 4,
        ],
    ),
}


def main():
    for name, (function, inputs) in PROGRAMS.items():
        text = jax.jit(function, keep_unused=True).lower(*inputs).as_text()
        (HERE / f"{name}.mlir").write_text(text)


if __name__ == "__main__":
    main()
