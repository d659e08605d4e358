"""Filters and transformations of images."""

import jax
import jax.numpy as jnp
import numpy as np

from . import held_out, integers, normal, program, uniform


@program(normal(128, 128, 3))
def resize(x):
    return jax.image.resize(x, (256, 256, 3), "bilinear")


@program(uniform(512, 512))
def gaussian_blur(x):
    taps = jnp.exp(-0.5 * (jnp.arange(-4, 5) / 2.0) ** 2)
    taps = taps / jnp.sum(taps)
    rows = sum(t * jnp.roll(x, i - 4, 0) for i, t in enumerate(taps))
    return sum(t * jnp.roll(rows, i - 4, 1) for i, t in enumerate(taps))


@program(uniform(256, 256))
def edges(x):
    x = jnp.pad(x, 1, mode="edge")
    dx = (x[:-2, 2:] + 2 * x[1:-1, 2:] + x[2:, 2:]) - (x[:-2, :-2] + 2 * x[1:-1, :-2] + x[2:, :-2])
    dy = (x[2:, :-2] + 2 * x[2:, 1:-1] + x[2:, 2:]) - (x[:-2, :-2] + 2 * x[:-2, 1:-1] + x[:-2, 2:])
    return jnp.sqrt(dx * dx + dy * dy)


@program(integers(0, 256, 512, 512, dtype=np.uint8))
def equalized_histogram(x):
    counts = jnp.bincount(x.reshape(-1), length=256)
    table = jnp.cumsum(counts) * 255 // x.size
    return table[x].astype(jnp.uint8)


@program(uniform(256, 256))
def rotated(x):
    row, column = jnp.mgrid[:256, :256] - 128.0
    at = [0.8 * row - 0.6 * column + 128, 0.6 * row + 0.8 * column + 128]
    return jax.scipy.ndimage.map_coordinates(x, at, order=1, mode="nearest")


@held_out(uniform(128, 128))
def median_of_neighbours(x):
    near = jnp.stack([jnp.roll(x, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1)])
    return jnp.median(near, axis=0)


@held_out(integers(0, 256, 256, 256, 3, dtype=np.uint8))
def hue_and_saturation(x):
    x = x.astype(jnp.float32) / 255
    high, low = jnp.max(x, -1), jnp.min(x, -1)
    span = jnp.maximum(high - low, 1e-6)
    r, g, b = x[..., 0], x[..., 1], x[..., 2]
    hue = jnp.where(high == r, (g - b) / span, jnp.where(high == g, 2 + (b - r) / span, 4 + (r - g) / span))
    return (hue / 6) % 1, span / jnp.maximum(high, 1e-6), high


@held_out((uniform(256, 256) > 0.4))
def morphological_opening(x):
    def erode(x):
        return jax.lax.reduce_window(x, True, jax.lax.bitwise_and, (3, 3), (1, 1), "SAME")

    def dilate(x):
        return jax.lax.reduce_window(x, False, jax.lax.bitwise_or, (3, 3), (1, 1), "SAME")

    return dilate(erode(x))


@held_out(uniform(96, 96))
def bilateral_filter(x):
    out, weights = jnp.zeros_like(x), jnp.zeros_like(x)
    for a in range(-3, 4):
        for b in range(-3, 4):
            near = jnp.roll(x, (a, b), (0, 1))
            weight = jnp.exp(-(a * a + b * b) / 8 - (near - x) ** 2 / 0.02)
            out, weights = out + weight * near, weights + weight
    return out / weights


@held_out(uniform(16, 64, 64, 3), integers(0, 16, 16, 2), uniform(16) > 0.5)
def augmentation(images, corner, mirrored):
    def one(image, corner, mirrored):
        image = jax.lax.dynamic_slice(image, (corner[0], corner[1], 0), (48, 48, 3))
        image = jnp.where(mirrored, image[:, ::-1], image)
        return (image - jnp.mean(image, (0, 1))) / (jnp.std(image, (0, 1)) + 1e-3)

    return jax.vmap(one)(images, corner, mirrored)
