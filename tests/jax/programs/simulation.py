"""Stencils, cellular automata and particles, in loops."""

import jax
import jax.numpy as jnp
import numpy as np

from . import held_out, integers, normal, program, uniform


def loop(count, body, start):
    return jax.lax.fori_loop(0, count, lambda _, state: body(state), start)


def laplacian(u):
    return jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u


@program(normal(256, 256))
def heat(u):
    return loop(50, lambda u: u + 0.1 * laplacian(u), u)


@program((uniform(256, 256) > 0.5).astype(np.int32))
def game_of_life(u):
    def step(u):
        shifts = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)]
        n = sum(jnp.roll(u, shift, (0, 1)) for shift in shifts)
        return ((n == 3) | ((u == 1) & (n == 2))).astype(jnp.int32)

    return loop(20, step, u)


@program(normal(200, 200))
def wave_with_fixed_edges(u):
    def step(state):
        u, before = state
        inner = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        return 2 * u - before + 0.2 * jnp.pad(inner, 1), u

    return loop(40, step, (u, u))[0]


@program(uniform(200, 200), uniform(200, 200))
def reaction_and_diffusion(u, v):
    def step(state):
        u, v = state
        reaction = u * v * v
        return (
            u + 0.16 * laplacian(u) - reaction + 0.06 * (1 - u),
            v + 0.08 * laplacian(v) + reaction - 0.122 * v,
        )

    return loop(30, step, (u, v))


@program(normal(400, 3), normal(400, 3), uniform(400))
def gravity(position, velocity, mass):
    def step(state):
        position, velocity = state
        offset = position[None] - position[:, None]
        distance = jnp.sum(offset * offset, -1) + 0.01
        force = jnp.sum(offset * (mass / distance**1.5)[..., None], axis=1)
        return position + 0.01 * velocity, velocity + 0.01 * force

    return loop(5, step, (position, velocity))


@held_out(uniform(9, 64, 64) + 1)
def lattice_boltzmann(f):
    directions = np.array([(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)])
    weights = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, np.float32)

    def step(f):
        f = jnp.stack([jnp.roll(f[i], tuple(directions[i]), (0, 1)) for i in range(9)])
        density = jnp.sum(f, axis=0)
        flow = jnp.einsum("ixy,id->dxy", f, directions.astype(np.float32)) / density
        along = jnp.einsum("id,dxy->ixy", directions.astype(np.float32), flow)
        square = jnp.sum(flow * flow, axis=0)
        rest = weights[:, None, None] * density * (1 + 3 * along + 4.5 * along**2 - 1.5 * square)
        return f + 0.6 * (rest - f)

    return loop(20, step, f)


@held_out(integers(0, 2, 512, dtype=np.uint8))
def automaton_rule_110(row):
    def step(row, _):
        pattern = 4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1)
        row = (110 >> pattern) & 1
        return row.astype(jnp.uint8), row

    return jax.lax.scan(step, row, None, length=300)[1]


@held_out(uniform(2000, 2) * 64, normal(2000, 2))
def particles_in_cells(position, velocity):
    def step(state):
        position, velocity = state
        cell = position.astype(jnp.int32) % 64
        density = jnp.zeros((64, 64)).at[cell[:, 0], cell[:, 1]].add(1.0)
        field = jnp.stack([jnp.roll(density, 1, i) - jnp.roll(density, -1, i) for i in range(2)])
        velocity = velocity + 0.01 * field[:, cell[:, 0], cell[:, 1]].T
        return (position + 0.1 * velocity) % 64, velocity

    return loop(20, step, (position, velocity))


@held_out(normal(30_000))
def upwind_transport(u):
    def step(u):
        limited = jnp.clip(u - jnp.concatenate([u[-1:], u[:-1]]), -1, 1)
        return u - 0.4 * limited

    return loop(50, step, u)


@held_out((uniform(128, 128) > 0.5) * np.int8(2) - np.int8(1))
def ising_checkerboard(spins):
    parity = (np.add.outer(np.arange(128), np.arange(128)) % 2).astype(bool)

    def step(i, spins):
        near = jnp.roll(spins, 1, 0) + jnp.roll(spins, -1, 0) + jnp.roll(spins, 1, 1) + jnp.roll(spins, -1, 1)
        noise = jax.random.uniform(jax.random.key(i), spins.shape)
        flips = (noise < jnp.exp(-0.8 * (spins * near).astype(jnp.float32))) & (parity == (i % 2 == 0))
        return jnp.where(flips, -spins, spins)

    return jax.lax.fori_loop(0, 20, step, spins)
