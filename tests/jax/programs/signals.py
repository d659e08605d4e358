"""Fourier transforms, filters and wavelets."""

import jax
import jax.numpy as jnp
import numpy as np

from . import held_out, normal, program


@program(normal(64, 4096), normal(2049))
def filter_in_frequencies(signal, gains):
    spectrum = jnp.fft.rfft(signal) * gains
    return jnp.fft.irfft(spectrum), jnp.mean(jnp.abs(spectrum) ** 2, axis=0)


@program((normal(256, 256) + 1j * normal(256, 256)).astype(np.complex64))
def fourier_of_image(x):
    return jnp.fft.fft2(x)


@program(normal(65_536))
def spectrogram(x):
    frames = x[jnp.arange(0, 65_536 - 512, 256)[:, None] + jnp.arange(512)]
    return jnp.log1p(jnp.abs(jnp.fft.rfft(frames * jnp.hanning(512))))


@program(normal(20_000), normal(65))
def finite_impulse_response(x, taps):
    return jnp.convolve(x, taps, mode="same")


@program(normal(16, 5000))
def recursive_filter(x):
    def step(state, x):
        y = 0.2 * x + 1.5 * state[0] - 0.6 * state[1]
        return (y, state[0]), y

    return jax.lax.scan(step, (jnp.zeros(16), jnp.zeros(16)), x.T)[1]


@held_out(normal(1 << 16))
def haar_wavelets(x):
    parts = []
    for _ in range(8):
        even, odd = x[0::2], x[1::2]
        parts.append((even - odd) / 2**0.5)
        x = (even + odd) / 2**0.5
    return jnp.concatenate([x, *reversed(parts)])


@held_out(normal(8, 8192))
def autocorrelation(x):
    x = x - jnp.mean(x, axis=1, keepdims=True)
    spectrum = jnp.fft.rfft(x, n=16_384)
    return jnp.fft.irfft(jnp.abs(spectrum) ** 2)[:, :200]


@held_out(normal(4096))
def fast_walsh_hadamard(x):
    for i in range(12):
        x = x.reshape(-1, 2, 1 << i)
        x = jnp.stack([x[:, 0] + x[:, 1], x[:, 0] - x[:, 1]], axis=1)
    return x.reshape(-1)


@held_out(normal(100_000))
def moving_averages(x):
    sums = jnp.cumsum(jnp.concatenate([jnp.zeros(1), x]))
    return (sums[50:] - sums[:-50]) / 50, jax.lax.associative_scan(lambda a, b: 0.9 * a + b, x[:1000])


@held_out(normal(32, 1024), normal(1024))
def cosine_transform(x, window):
    n = jnp.arange(1024)
    basis = jnp.cos(jnp.pi / 1024 * (n[:64, None] + 0.5) * (n + 0.5))
    return (x * window) @ basis.T
