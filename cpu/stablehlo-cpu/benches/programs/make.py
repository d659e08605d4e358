"""Writes the programs of the benchmark `against_xla`, as JAX lowers them. Those named `loop_` are written by hand.

Run with JAX 0.10.2 (the environment `cargo xtask test --all` makes): python make.py
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


def conv_nchw(x, kernel):
    dimensions = ("NCHW", "OIHW", "NCHW")
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=dimensions)


def conv_kernel_gradient(x, kernel, weights):
    """The gradient of a convolution with respect to its kernel."""
    return jax.grad(lambda kernel: jnp.sum(conv(x, kernel) * weights))(kernel)


def cross_entropy(logits, labels):
    """The mean cross entropy. Labels are from 0 to 3, as the benchmark's random integers."""
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=-1)
    return -jnp.mean(chosen)


def cnn_step(kernel1, kernel2, dense, x, labels):
    """A step of gradient descent of a classifier of images."""

    def pooled(t):
        return jax.lax.reduce_window(t, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def loss(parameters):
        kernel1, kernel2, dense = parameters
        hidden = pooled(jax.nn.relu(conv(x, kernel1)))
        hidden = pooled(jax.nn.relu(conv(hidden, kernel2)))
        return cross_entropy(hidden.reshape(x.shape[0], -1) @ dense, labels)

    parameters = (kernel1, kernel2, dense)
    value, gradients = jax.value_and_grad(loss)(parameters)
    return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients), value


def transformer_step(x, labels, head, *layers):
    """A step of gradient descent of a small language model of two layers."""
    batch, length, width = x.shape
    heads = 4

    def attention(t, qkv, projection):
        q, k, v = (part.reshape(batch, length, heads, -1) for part in jnp.split(t @ qkv, 3, axis=-1))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (width / heads) ** 0.5
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), v)
        return mixed.reshape(batch, length, width) @ projection

    def loss(parameters):
        head, *layers = parameters
        t = x
        for qkv, projection, up, down in zip(*[iter(layers)] * 4):
            t = t + attention(layer_norm(t, 1.0, 0.0), qkv, projection)
            t = t + jax.nn.gelu(layer_norm(t, 1.0, 0.0) @ up) @ down
        return cross_entropy(layer_norm(t, 1.0, 0.0) @ head, labels)

    parameters = (head, *layers)
    value, gradients = jax.value_and_grad(loss)(parameters)
    return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients), value


def graph_network(nodes, edges, message, update):
    """Two rounds of messages between the nodes of a graph with pseudorandom edges."""
    count = nodes.shape[0]
    number = jnp.arange(edges.shape[0], dtype=jnp.int32)
    senders, receivers = (number * 7919 + 13) % count, (number * 104729 + 7) % count
    for _ in range(2):
        messages = jnp.tanh(jnp.concatenate([nodes[senders], edges], axis=-1) @ message)
        received = jax.ops.segment_sum(messages, receivers, count)
        nodes = nodes + jnp.tanh(jnp.concatenate([nodes, received], axis=-1) @ update)
    return jnp.mean(nodes, axis=0)


def fft_pipeline(signal, filter):
    """Filters signals in the domain of frequencies and returns the power of each frequency, too."""
    spectrum = jnp.fft.rfft(signal) * filter
    return jnp.fft.irfft(spectrum), jnp.mean(jnp.abs(spectrum) ** 2, axis=0)


def embedding_step(table, offsets, weights):
    """Looks up rows of a table, and adds the gradient to the same rows."""
    number = jnp.arange(offsets.shape[0] * offsets.shape[1], dtype=jnp.int32).reshape(offsets.shape)
    rows = (number * 7919 + offsets) % table.shape[0]

    def loss(table):
        return jnp.mean((jnp.mean(table[rows], axis=1) @ weights) ** 2)

    value, gradient = jax.value_and_grad(loss)(table)
    return table - 0.1 * gradient, value


def rnn(state, inputs, input_weights, state_weights):
    """A gated recurrent unit over a sequence."""

    def step(state, x):
        gates = jax.nn.sigmoid(x @ input_weights[0] + state @ state_weights[0])
        reset = jax.nn.sigmoid(x @ input_weights[1] + state @ state_weights[1])
        proposal = jnp.tanh(x @ input_weights[2] + (reset * state) @ state_weights[2])
        state = gates * state + (1 - gates) * proposal
        return state, jnp.sum(state, axis=-1)

    return jax.lax.scan(step, state, inputs)


def ode_solver(start, rates):
    """Solves the equations of Lotka and Volterra with the embedded formula of Bogacki and Shampine and steps of
    variable length."""

    def field(y):
        prey, predators = y[0], y[1]
        return jnp.stack([(1.5 + rates[0]) * prey - prey * predators, prey * predators - (3.0 + rates[1]) * predators])

    def step(carry):
        time, y, length, count = carry
        k1 = field(y)
        k2 = field(y + length * k1 / 2)
        k3 = field(y + length * 3 / 4 * k2)
        next = y + length * (2 * k1 + 3 * k2 + 4 * k3) / 9
        k4 = field(next)
        error = length * (-5 * k1 / 72 + k2 / 12 + k3 / 9 - k4 / 8)
        scaled = jnp.sqrt(jnp.mean((error / (1e-6 + 1e-4 * jnp.maximum(jnp.abs(y), jnp.abs(next)))) ** 2))
        accepted = scaled <= 1.0
        factor = jnp.clip(0.9 * scaled ** (-1 / 3), 0.2, 5.0)
        time, y = jnp.where(accepted, time + length, time), jnp.where(accepted, next, y)
        return time, y, jnp.minimum(length * factor, 0.5), count + 1

    first = (0.0, 2.0 + start, 0.01, 0)
    time, y, _, count = jax.lax.while_loop(lambda carry: (carry[0] < 10.0) & (carry[3] < 4096), step, first)
    return y, time, count


def leapfrog(position, momentum, features, labels):
    """The integrator of Hamiltonian Monte Carlo for a logistic regression, as in a sampler without U-turns."""

    def energy(position):
        logits = features @ position
        return jnp.sum(jax.nn.softplus(logits) - labels * logits) + jnp.sum(position * position) / 2

    def step(_, carry):
        position, momentum = carry
        momentum = momentum - 0.01 * jax.grad(energy)(position)
        position = position + 0.02 * momentum
        return position, momentum - 0.01 * jax.grad(energy)(position)

    position, momentum = jax.lax.fori_loop(0, 64, step, (position, momentum))
    return position, momentum, energy(position)


def sort(x):
    return jnp.sort(x, axis=-1)


def f32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def i32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.int32)


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
    "conv_nchw": (conv_nchw, [f32(8, 64, 56, 56), f32(64, 64, 3, 3)]),
    "conv_kernel_gradient": (conv_kernel_gradient, [f32(8, 56, 56, 64), f32(3, 3, 64, 64), f32(8, 56, 56, 64)]),
    "cnn_step": (
        cnn_step,
        [f32(3, 3, 1, 16), f32(3, 3, 16, 32), f32(7 * 7 * 32, 10), f32(32, 28, 28, 1), i32(32)],
    ),
    "transformer_step": (
        transformer_step,
        [
            f32(4, 64, 128),
            i32(4, 64),
            f32(128, 256),
            *[f32(128, 384), f32(128, 128), f32(128, 512), f32(512, 128)] * 2,
        ],
    ),
    "graph_network": (graph_network, [f32(1024, 64), f32(8192, 16), f32(80, 64), f32(128, 64)]),
    "fft_pipeline": (fft_pipeline, [f32(64, 4096), f32(2049)]),
    "embedding_step": (embedding_step, [f32(32768, 64), i32(64, 32), f32(64, 8)]),
    "rnn": (rnn, [f32(8, 64), f32(64, 8, 32), f32(3, 32, 64), f32(3, 64, 64)]),
    "ode_solver": (ode_solver, [f32(2), f32(2)]),
    "leapfrog": (leapfrog, [f32(8), f32(8), f32(128, 8), f32(128)]),
    "sort": (sort, [f32(64, 16384)]),
}


def main():
    for name, (function, inputs) in PROGRAMS.items():
        text = jax.jit(function, keep_unused=True).lower(*inputs).as_text()
        (HERE / f"{name}.mlir").write_text(text)


if __name__ == "__main__":
    main()
