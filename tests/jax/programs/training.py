"""Steps of gradient descent of neural networks."""

import jax
import jax.numpy as jnp
import numpy as np

from . import held_out, integers, normal, program
from .convolutions import conv


def descend(loss, parameters, rate=0.01):
    value, gradients = jax.value_and_grad(loss)(parameters)
    return jax.tree.map(lambda p, g: p - rate * g, parameters, gradients), value


def cross_entropy(logits, labels):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=-1))


def normalized(x):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(jnp.var(x, axis=-1, keepdims=True) + 1e-5)


@program(normal(784, 512) / 28, normal(512, 10) / 22, normal(128, 784), integers(0, 10, 128))
def perceptron(w1, w2, x, labels):
    return descend(lambda p: cross_entropy(jnp.tanh(x @ p[0]) @ p[1], labels), (w1, w2))


@program(
    normal(3, 3, 1, 16), normal(3, 3, 16, 32) / 12, normal(1568, 10) / 40, normal(32, 28, 28, 1), integers(0, 10, 32)
)
def image_classifier(kernel1, kernel2, dense, x, labels):
    def pooled(t):
        return jax.lax.reduce_window(t, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def loss(parameters):
        kernel1, kernel2, dense = parameters
        hidden = pooled(jax.nn.relu(conv(x, kernel1)))
        hidden = pooled(jax.nn.relu(conv(hidden, kernel2)))
        return cross_entropy(hidden.reshape(32, -1) @ dense, labels)

    return descend(loss, (kernel1, kernel2, dense))


def attention(x, qkv, out, heads):
    batch, length, width = x.shape
    q, k, v = (part.reshape(batch, length, heads, -1) for part in jnp.split(x @ qkv, 3, axis=-1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (width / heads) ** 0.5
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    return mixed.reshape(batch, length, width) @ out


@program(
    normal(4, 64, 128), integers(0, 256, 4, 64), normal(128, 256) / 11, normal(128, 384) / 11, normal(128, 128) / 11,
    normal(128, 512) / 11, normal(512, 128) / 22,
)
def language_model(x, labels, head, qkv, out, up, down):
    def loss(parameters):
        head, qkv, out, up, down = parameters
        t = x + attention(normalized(x), qkv, out, 4)
        t = t + jax.nn.gelu(normalized(t) @ up) @ down
        return cross_entropy(normalized(t) @ head, labels)

    return descend(loss, (head, qkv, out, up, down))


@program(normal(8, 64), normal(32, 8, 32), normal(3, 32, 64) / 6, normal(3, 64, 64) / 8)
def gated_recurrent_unit(state, inputs, input_weights, state_weights):
    def loss(parameters):
        wx, wh = parameters

        def step(state, x):
            update = jax.nn.sigmoid(x @ wx[0] + state @ wh[0])
            reset = jax.nn.sigmoid(x @ wx[1] + state @ wh[1])
            proposal = jnp.tanh(x @ wx[2] + (reset * state) @ wh[2])
            return update * state + (1 - update) * proposal, None

        return jnp.mean(jax.lax.scan(step, state, inputs)[0] ** 2)

    return descend(loss, (input_weights, state_weights))


@program(normal(10_000, 32), integers(0, 10_000, 64, 16), integers(0, 10_000, 64))
def word_vectors(table, context, target):
    def loss(table):
        mean = jnp.mean(table[context], axis=1)
        return -jnp.mean(jax.nn.log_sigmoid(jnp.sum(mean * table[target], axis=1)))

    return descend(loss, table)


@program(normal(64, 32) / 8, normal(128, 64), normal(128, 32))
def gradients_of_each_example(w, x, y):
    return jax.vmap(jax.grad(lambda w, x, y: jnp.sum((jnp.tanh(x @ w) - y) ** 2)), (None, 0, 0))(w, x, y)


@program(normal(1024, 64), normal(8192, 16), integers(0, 1024, 8192), integers(0, 1024, 8192), normal(80, 64) / 9)
def graph_network(nodes, edges, senders, receivers, message):
    def loss(message):
        messages = jnp.tanh(jnp.concatenate([nodes[senders], edges], axis=-1) @ message)
        return jnp.mean((nodes + jax.ops.segment_sum(messages, receivers, 1024)) ** 2)

    return descend(loss, message)


@held_out(normal(16, 28, 28, 16), normal(2, 3, 3, 16, 16) / 12, integers(0, 16, 16))
def residual_network(x, kernels, labels):
    def loss(kernels):
        t = x
        for kernel in kernels:
            t = conv(t, kernel)
            t = (t - jnp.mean(t, (0, 1, 2))) * jax.lax.rsqrt(jnp.var(t, (0, 1, 2)) + 1e-5)
            t = x + jax.nn.relu(t)
        return cross_entropy(jnp.mean(t, (1, 2)), labels)

    return descend(loss, kernels)


@held_out(normal(512, 64), normal(64, 8) / 8, normal(8, 64, 128) / 8, normal(8, 128, 64) / 11)
def mixture_of_experts(x, router, up, down):
    def loss(parameters):
        router, up, down = parameters
        weights, chosen = jax.lax.top_k(jax.nn.softmax(x @ router), 2)
        gate = jnp.sum(jax.nn.one_hot(chosen, 8) * weights[..., None], axis=1)
        hidden = jax.nn.silu(jnp.einsum("nd,edh->enh", x, up))
        return jnp.mean((jnp.einsum("enh,ehd,ne->nd", hidden, down, gate) - x) ** 2)

    return descend(loss, (router, up, down))


@held_out(normal(64, 256), normal(256, 64) / 16, normal(32, 256) / 6, normal(64, 32))
def variational_autoencoder(x, encoder, decoder, noise):
    def loss(parameters):
        encoder, decoder = parameters
        mean, spread = jnp.split(x @ encoder, 2, axis=-1)
        code = mean + jnp.exp(spread / 2) * noise
        divergence = -0.5 * jnp.mean(1 + spread - mean**2 - jnp.exp(spread))
        return jnp.mean((jax.nn.sigmoid(code @ decoder) - x) ** 2) + divergence

    return descend(loss, (encoder, decoder))


@held_out(normal(16, 32), normal(40, 16, 24), normal(24, 128) / 5, normal(32, 128) / 6)
def long_short_term_memory(state, inputs, wx, wh):
    def loss(parameters):
        wx, wh = parameters

        def step(carry, x):
            hidden, cell = carry
            gates = x @ wx + hidden @ wh
            i, f, g, o = jnp.split(gates, 4, axis=-1)
            cell = jax.nn.sigmoid(f + 1) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
            return (hidden, cell), jnp.sum(hidden)

        return jnp.mean(jax.lax.scan(step, (state, state), inputs)[1])

    return descend(loss, (wx, wh))


@held_out(*[normal(300, 200)] * 3, normal(300, 200), np.float32(7))
def adam(parameters, gradient, first, second, step):
    first = 0.9 * first + 0.1 * gradient
    second = 0.999 * second + 0.001 * gradient * gradient
    rate = 1e-3 * jnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    return parameters - rate * first / (jnp.sqrt(jnp.abs(second)) + 1e-8), first, second
