"""Algorithms on graphs."""

import jax
import jax.numpy as jnp
import numpy as np

from . import held_out, integers, program, uniform

NODES, EDGES = 2000, 20_000
FROM, TO = integers(0, NODES, EDGES), integers(0, NODES, EDGES)


@program(uniform(128, 128))
def all_shortest_paths(distance):
    return jax.lax.fori_loop(0, 128, lambda k, d: jnp.minimum(d, d[:, k][:, None] + d[k]), distance)


@program(FROM, TO)
def page_rank(sources, targets):
    degree = jnp.maximum(jnp.zeros(NODES).at[sources].add(1.0), 1)

    def step(_, rank):
        return 0.15 / NODES + 0.85 * jnp.zeros(NODES).at[targets].add((rank / degree)[sources])

    return jax.lax.fori_loop(0, 20, step, jnp.full(NODES, 1 / NODES))


@program(FROM, TO, uniform(EDGES))
def bellman_ford(sources, targets, length):
    start = jnp.full(NODES, 1e9).at[0].set(0.0)
    return jax.lax.fori_loop(0, 20, lambda _, d: d.at[targets].min(d[sources] + length), start)


@program((uniform(300, 300) < 0.1).astype(np.float32))
def triangles(adjacency):
    return jnp.sum((adjacency @ adjacency) * adjacency.T)


@held_out(FROM, TO)
def connected_components(sources, targets):
    def step(state):
        label, _ = state
        following = label.at[targets].min(label[sources]).at[sources].min(label[targets])
        return following, jnp.any(following != label)

    return jax.lax.while_loop(lambda state: state[1], step, (jnp.arange(NODES), True))[0]


@held_out(FROM, TO)
def breadth_first_levels(sources, targets):
    def step(level, depth):
        reached = jnp.zeros(NODES, bool).at[targets].max(level[sources] == depth)
        return jnp.where(reached & (level < 0), depth + 1, level), jnp.sum(reached)

    return jax.lax.scan(step, jnp.full(NODES, -1).at[0].set(0), jnp.arange(12))


@held_out(FROM, TO, uniform(NODES, 32), uniform(32, 32))
def graph_attention(sources, targets, nodes, weights):
    h = nodes @ weights
    score = jax.nn.leaky_relu(jnp.sum(h[sources] * h[targets], axis=1) / 6)
    highest = jax.ops.segment_max(score, targets, NODES)
    score = jnp.exp(score - highest[targets])
    share = score / jax.ops.segment_sum(score, targets, NODES)[targets]
    return jax.ops.segment_sum(h[sources] * share[:, None], targets, NODES)
