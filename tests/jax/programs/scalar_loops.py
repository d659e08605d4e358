"""Loops over few numbers: solvers of equations, recurrences, branches."""

import jax
import jax.numpy as jnp
import numpy as np

from . import held_out, integers, normal, program, uniform


@program(np.float32(0.3))
def logistic_map(x):
    return jax.lax.fori_loop(0, 100_000, lambda _, x: 3.7 * x * (1 - x), x)


@program(np.int32(837_799))
def collatz(n):
    def step(state):
        n, count = state
        return jax.lax.cond(n % 2 == 0, lambda: n // 2, lambda: 3 * n + 1), count + 1

    return jax.lax.while_loop(lambda state: (state[0] != 1) & (state[1] < 100_000), step, (n, 0))


@program(normal(1000))
def updates_of_single_elements(x):
    return jax.lax.fori_loop(1, 1000, lambda i, x: x.at[i].add(0.9 * x[i - 1]), x)


@program(uniform(2) + 1, uniform(2))
def adaptive_runge_kutta(start, rates):
    def field(y):
        return jnp.stack([(1.5 + rates[0]) * y[0] - y[0] * y[1], y[0] * y[1] - (3.0 + rates[1]) * y[1]])

    def step(carry):
        time, y, length, count = carry
        k1 = field(y)
        k2 = field(y + length * k1 / 2)
        k3 = field(y + length * 3 / 4 * k2)
        following = y + length * (2 * k1 + 3 * k2 + 4 * k3) / 9
        error = length * (-5 * k1 / 72 + k2 / 12 + k3 / 9 - field(following) / 8)
        scaled = jnp.sqrt(jnp.mean((error / (1e-5 + 1e-3 * jnp.abs(y))) ** 2))
        accepted = scaled <= 1
        factor = jnp.clip(0.9 * (scaled + 1e-10) ** (-1 / 3), 0.2, 5.0)
        time, y = jnp.where(accepted, time + length, time), jnp.where(accepted, following, y)
        return time, y, jnp.minimum(length * factor, 0.5), count + 1

    return jax.lax.while_loop(lambda c: (c[0] < 10.0) & (c[3] < 4096), step, (0.0, start, 0.01, 0))[1]


@program(normal(8) / 10, normal(8), normal(128, 8), (uniform(128) > 0.5).astype(np.float32))
def leapfrog(position, momentum, features, labels):
    def energy(position):
        logits = features @ position
        return jnp.sum(jax.nn.softplus(logits) - labels * logits) + jnp.sum(position * position) / 2

    def step(_, carry):
        position, momentum = carry
        momentum = momentum - 0.01 * jax.grad(energy)(position)
        position = position + 0.02 * momentum
        return position, momentum - 0.01 * jax.grad(energy)(position)

    return jax.lax.fori_loop(0, 64, step, (position, momentum))


@program(normal(3) / 10 + 1)
def lorenz(state):
    def step(state, _):
        x, y, z = state
        state = state + 0.005 * jnp.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])
        return state, state

    return jax.lax.scan(step, state, None, length=500)[1]


@held_out(integers(1, 1 << 30, 1000), integers(1, 1 << 30, 1000))
def greatest_common_divisors(x, y):
    return jax.vmap(lambda x, y: jax.lax.while_loop(lambda p: p[1] > 0, lambda p: (p[1], p[0] % p[1]), (x, y))[0])(x, y)


@held_out(uniform(1000) * 2)
def roots_by_bisection(y):
    def step(_, bounds):
        low, high = bounds
        middle = (low + high) / 2
        above = middle * middle * middle + middle > y
        return jnp.where(above, low, middle), jnp.where(above, middle, high)

    return jax.lax.fori_loop(0, 40, step, (jnp.zeros(1000), jnp.full(1000, 2.0)))[0]


@held_out(np.uint32(1))
def linear_congruential_generator(seed):
    def step(state, _):
        state = state * np.uint32(1664525) + np.uint32(1013904223)
        return state, state >> 16

    return jax.lax.scan(step, seed, None, length=20_000)[1]


@held_out(normal(4) / 2)
def double_pendulum(state):
    def field(s):
        a, b, p, q = s
        d = a - b
        m = 2 - jnp.cos(d) ** 2
        return jnp.stack([p, q, (-jnp.sin(d) * q * q - 2 * jnp.sin(a)) / m, (jnp.sin(d) * p * p - jnp.sin(b)) / m])

    def step(_, s):
        k1 = field(s)
        k2 = field(s + 0.005 * k1)
        k3 = field(s + 0.005 * k2)
        return s + 0.01 / 6 * (k1 + 2 * k2 + 2 * k3 + field(s + 0.01 * k3))

    return jax.lax.fori_loop(0, 200, step, state)
