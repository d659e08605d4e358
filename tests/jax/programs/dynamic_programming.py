"""Tables that are filled row by row."""

import jax
import jax.numpy as jnp
import numpy as np

from . import held_out, integers, normal, program, uniform


@program(integers(0, 4, 300), integers(0, 4, 300))
def edit_distance(x, y):
    def row(before, xi):
        def cell(left, inputs):
            above, diagonal, yj = inputs
            value = jnp.minimum(jnp.minimum(left, above) + 1, diagonal + (xi != yj))
            return value, value

        first = before[0] + 1
        _, rest = jax.lax.scan(cell, first, (before[1:], before[:-1], y))
        return jnp.concatenate([first[None], rest]), None

    return jax.lax.scan(row, jnp.arange(301), x)[0][-1]


@program(normal(64, 64), normal(200, 64))
def viterbi(transition, emission):
    def step(score, e):
        total = score[:, None] + transition
        return jnp.max(total, axis=0) + e, jnp.argmax(total, axis=0)

    score, back = jax.lax.scan(step, jnp.zeros(64), emission)
    _, path = jax.lax.scan(lambda state, row: (row[state], state), jnp.argmax(score), back, reverse=True)
    return path


@program(integers(1, 100, 100), uniform(100))
def knapsack(weight, value):
    capacity = jnp.arange(2001)

    def item(best, inputs):
        w, v = inputs
        taken = jnp.where(capacity >= w, best[jnp.maximum(capacity - w, 0)] + v, 0)
        return jnp.maximum(best, taken), None

    return jax.lax.scan(item, jnp.zeros(2001), (weight, value))[0][-1]


@held_out(normal(200, 3), normal(200, 3))
def time_warping(x, y):
    cost = jnp.sum((x[:, None] - y) ** 2, -1)

    def row(before, costs):
        def cell(left, inputs):
            c, above, diagonal = inputs
            value = c + jnp.minimum(left, jnp.minimum(above, diagonal))
            return value, value

        diagonal = jnp.concatenate([jnp.full(1, 1e9), before[:-1]])
        return jax.lax.scan(cell, 1e9, (costs, before, diagonal))[1], None

    return jax.lax.scan(row, jnp.cumsum(cost[0]), cost[1:])[0][-1]


@held_out(integers(1, 50, 60))
def coin_change(coins):
    def coin(ways, c):
        def amount(i, ways):
            return ways.at[i].add(jnp.where(i >= c, ways[jnp.maximum(i - c, 0)], 0))

        return jax.lax.fori_loop(1, 300, amount, ways), None

    return jax.lax.scan(coin, jnp.zeros(300, jnp.int32).at[0].set(1), coins)[0]


@held_out(integers(0, 20, 8, 120), integers(0, 20, 8, 120))
def local_alignment(x, y):
    def align(x, y):
        def row(before, xi):
            match = jnp.where(xi == y, 2, -1) + before[:-1]
            candidate = jnp.maximum(jnp.maximum(match, before[1:] - 1), 0)
            position = jnp.arange(120)
            best = jax.lax.cummax(candidate + position) - position
            return jnp.concatenate([jnp.zeros(1, jnp.int32), best]), jnp.max(best)

        return jnp.max(jax.lax.scan(row, jnp.zeros(121, jnp.int32), x)[1])

    return jax.vmap(align)(x, y)
