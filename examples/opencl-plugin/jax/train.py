"""Trains a multilayer perceptron and a convolutional network on the device `opencl`, and compares the losses with those
of JAX's CPU. Run it with PJRT_NAMES_AND_LIBRARY_PATHS=opencl:LIBRARY and JAX_PLATFORMS=opencl,cpu."""

import jax
import jax.numpy as jnp
import numpy as np

STEPS = 10


def perceptron(parameters, x):
    for weights, bias in parameters[:-1]:
        x = jax.nn.relu(x @ weights + bias)
    weights, bias = parameters[-1]
    return x @ weights + bias


def convolutional(parameters, x):
    x = x.reshape(-1, 8, 8, 1)
    for kernel, bias in parameters[:-1]:
        x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.lax.reduce_window(jax.nn.relu(x + bias), -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    weights, bias = parameters[-1]
    return x.reshape(x.shape[0], -1) @ weights + bias


def train(model, shapes, device):
    random = np.random.default_rng(0)
    parameters = [
        (random.standard_normal(shape).astype(np.float32) / np.sqrt(np.prod(shape[:-1])), np.zeros(shape[-1], np.float32))
        for shape in shapes
    ]
    x = random.standard_normal((64, 64)).astype(np.float32)
    labels = random.integers(0, 10, 64)

    def loss(parameters, x, labels):
        logits = jax.nn.log_softmax(model(parameters, x))
        return -jnp.mean(jnp.take_along_axis(logits, labels[:, None], 1))

    @jax.jit
    def step(parameters, x, labels):
        value, gradients = jax.value_and_grad(loss)(parameters, x, labels)
        return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients), value

    parameters, x, labels = jax.device_put((parameters, x, labels), device)
    losses = []
    for _ in range(STEPS):
        parameters, value = step(parameters, x, labels)
        losses.append(value)
    assert all(device in value.devices() for value in losses)
    return np.array(losses)


def main():
    for name, model, shapes in [
        ("perceptron", perceptron, [(64, 128), (128, 96), (96, 10)]),
        ("convolutional", convolutional, [(3, 3, 1, 8), (3, 3, 8, 16), (64, 10)]),
    ]:
        found, expected = (train(model, shapes, jax.devices(platform)[0]) for platform in ["opencl", "cpu"])
        np.testing.assert_allclose(found, expected, rtol=1e-4)
        assert found[-1] < found[0], found
        print(f"{name}: losses from {found[0]:.5f} to {found[-1]:.5f}, as on the CPU")


main()
