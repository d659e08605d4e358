"""Writes the example programs, their inputs, and the outputs that NumPy computes for them.

Run with JAX 0.10.2 (the environment `cargo xtask test --all` makes): python make.py
Each program NAME gets NAME.mlir (StableHLO text as JAX lowers it), NAME.mlirbc (the same as a portable artifact of
StableHLO 1.0.0), and NAME/ with in0.npy, ... and out0.npy, ...
The outputs are computed here with NumPy in double precision, not by JAX.
"""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from jaxlib.mlir.dialects import stablehlo

HERE = pathlib.Path(__file__).parent
F = np.float32
RATE = 0.5


def axpy(a, x, y):
    return a * x + y


def mlp(w1, b1, w2, b2, x):
    return jnp.tanh(x @ w1 + b1) @ w2 + b2


def mlp_train_step(w1, b1, w2, b2, x, y):
    def loss(w1, b1, w2, b2):
        logits = mlp(w1, b1, w2, b2, x)
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * y, axis=-1))

    value, gradients = jax.value_and_grad(loss, argnums=(0, 1, 2, 3))(w1, b1, w2, b2)
    return tuple(p - RATE * g for p, g in zip((w1, b1, w2, b2), gradients)) + (value,)


def numpy_axpy(a, x, y):
    return [a * x + y]


def numpy_mlp(w1, b1, w2, b2, x):
    return [np.tanh(x @ w1 + b1) @ w2 + b2]


def numpy_mlp_train_step(w1, b1, w2, b2, x, y):
    """The gradient, written by hand: cross-entropy, then back through both layers."""
    hidden = np.tanh(x @ w1 + b1)
    logits = hidden @ w2 + b2
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_softmax = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    value = -np.mean(np.sum(log_softmax * y, axis=-1))
    d_logits = (np.exp(log_softmax) - y) / len(x)
    d_hidden = (d_logits @ w2.T) * (1 - hidden**2)
    gradients = [x.T @ d_hidden, d_hidden.sum(axis=0), hidden.T @ d_logits, d_logits.sum(axis=0)]
    return [p - RATE * g for p, g in zip((w1, b1, w2, b2), gradients)] + [value]


def main():
    rng = np.random.default_rng(2026)
    w1, b1 = rng.normal(0, 0.3, (16, 32)).astype(F), rng.normal(0, 0.1, 32).astype(F)
    w2, b2 = rng.normal(0, 0.3, (32, 10)).astype(F), rng.normal(0, 0.1, 10).astype(F)
    x = rng.normal(0, 1, (8, 16)).astype(F)
    y = np.eye(10, dtype=F)[rng.integers(0, 10, 8)]
    programs = [
        (axpy, numpy_axpy, [F(2), np.arange(4, dtype=F), np.full(4, 10, F)]),
        (mlp, numpy_mlp, [w1, b1, w2, b2, x]),
        (mlp_train_step, numpy_mlp_train_step, [w1, b1, w2, b2, x, y]),
    ]
    for function, expected, inputs in programs:
        text = jax.jit(function, keep_unused=True).lower(*inputs).as_text()
        (HERE / f"{function.__name__}.mlir").write_text(text)
        artifact = stablehlo.serialize_portable_artifact_str(text, "1.0.0")
        (HERE / f"{function.__name__}.mlirbc").write_bytes(artifact)
        folder = HERE / function.__name__
        folder.mkdir(exist_ok=True)
        for i, value in enumerate(inputs):
            np.save(folder / f"in{i}.npy", value)
        for i, value in enumerate(expected(*(np.asarray(v, np.float64) for v in inputs))):
            np.save(folder / f"out{i}.npy", np.asarray(value, F))


if __name__ == "__main__":
    main()
