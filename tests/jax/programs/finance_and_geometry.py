"""Prices of options, distances, fractals and rays."""

import jax
import jax.numpy as jnp
import numpy as np

from . import held_out, integers, key, normal, program, uniform


@program(uniform(100_000) + 0.5, uniform(100_000) + 0.5, uniform(100_000) + 0.1)
def option_prices(spot, strike, time):
    def cumulative(x):
        return 0.5 * (1 + jax.lax.erf(x / 2**0.5))

    d1 = (jnp.log(spot / strike) + 0.07 * time) / (0.3 * jnp.sqrt(time))
    return spot * cumulative(d1) - strike * jnp.exp(-0.025 * time) * cumulative(d1 - 0.3 * jnp.sqrt(time))


@program(key(7))
def monte_carlo_option(seed):
    steps = jax.random.normal(jax.random.wrap_key_data(seed), (64, 5000))
    paths = jnp.exp(jnp.cumsum(0.02 * steps - 0.0002, axis=0))
    return jnp.mean(jnp.maximum(jnp.mean(paths, axis=0) - 1, 0))


@program((np.linspace(-2, 1, 200) + 1j * np.linspace(-1, 1, 200)[:, None]).astype(np.complex64))
def mandelbrot(c):
    def step(_, state):
        z, count = state
        z = jnp.where(jnp.abs(z) < 2, z * z + c, z)
        return z, count + (jnp.abs(z) < 2)

    return jax.lax.fori_loop(0, 50, step, (jnp.zeros_like(c), jnp.zeros(c.shape, jnp.int32)))[1]


@program(normal(1000, 16), normal(800, 16))
def pairwise_distances(x, y):
    return jnp.sqrt(jnp.sum((x[:, None] - y) ** 2, axis=-1))


@program(uniform(2000, 64))
def gradient_of_kernel_sum(x):
    return jax.grad(lambda x: jnp.sum(jnp.exp(-jnp.sum((x[:, None] - x) ** 2, -1))))(x)


@program(normal(20_000, 3), normal(20_000, 3))
def rays_and_spheres(origin, direction):
    centers = jnp.stack([jnp.arange(16) % 4, jnp.arange(16) // 4, jnp.full(16, 5)], axis=1).astype(jnp.float32)
    offset = origin[:, None] - centers
    b = jnp.sum(offset * direction[:, None], -1)
    c = jnp.sum(offset * offset, -1) - 0.25
    a = jnp.sum(direction * direction, -1)[:, None]
    root = b * b - a * c
    return jnp.min(jnp.where(root > 0, (-b - jnp.sqrt(jnp.maximum(root, 0))) / a, jnp.inf), axis=1)


@held_out(uniform(100, 100), uniform(100, 100))
def ray_marching(x, y):
    direction = jnp.stack([x - 0.5, y - 0.5, jnp.ones_like(x)])
    direction = direction / jnp.linalg.norm(direction, axis=0)

    def field(p):
        sphere = jnp.linalg.norm(p - jnp.array([0, 0, 3.0])[:, None, None], axis=0) - 1
        return jnp.minimum(sphere, p[1] + 1)

    return jax.lax.fori_loop(0, 40, lambda _, t: t + field(t * direction), jnp.zeros_like(x))


@held_out(uniform(5000, 2), uniform(50, 2))
def points_in_polygon(points, corners):
    following = jnp.roll(corners, -1, 0)
    x, y = points[:, :1], points[:, 1:]
    crosses = (corners[:, 1] > y) != (following[:, 1] > y)
    at = (following[:, 0] - corners[:, 0]) * (y - corners[:, 1]) / (following[:, 1] - corners[:, 1]) + corners[:, 0]
    return jnp.sum(crosses & (x < at), axis=1) % 2 == 1


@held_out(normal(2000, 3), normal(2000, 3))
def nearest_neighbours(x, y):
    distance = jnp.sum(x * x, 1)[:, None] - 2 * x @ y.T + jnp.sum(y * y, 1)
    return jnp.argmin(distance, axis=1), jnp.sqrt(jnp.maximum(jnp.min(distance, axis=1), 0))


@held_out(uniform(200, 500), np.float32(0.3))
def heston_paths(noise, start):
    def step(state, z):
        price, variance = state
        variance = jnp.maximum(variance, 0)
        price = price * jnp.exp(-0.5 * variance * 0.01 + jnp.sqrt(variance) * 0.1 * z)
        return (price, variance + 2 * (0.09 - variance) * 0.01 + 0.03 * jnp.sqrt(variance) * z), None

    return jnp.mean(jax.lax.scan(step, (jnp.ones(500), jnp.full(500, start)), noise)[0][0])


@held_out(normal(10_000, 4), normal(10_000, 3))
def quaternion_rotations(q, v):
    q = q / jnp.linalg.norm(q, axis=1, keepdims=True)
    w, u = q[:, :1], q[:, 1:]
    t = 2 * jnp.cross(u, v)
    return v + w * t + jnp.cross(u, t)
