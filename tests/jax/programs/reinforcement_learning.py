"""Environments, returns and policies."""

import jax
import jax.numpy as jnp
import numpy as np

from . import held_out, integers, key, normal, program, uniform


@program(normal(256, 4) / 20, normal(4, 32) / 2, normal(32) / 6)
def cart_pole_rollouts(states, w1, w2):
    def one(state):
        def step(state, _):
            x, v, angle, spin = state
            force = jnp.where(jnp.tanh(state @ w1) @ w2 > 0, 10.0, -10.0)
            sin, cos = jnp.sin(angle), jnp.cos(angle)
            push = (force + 0.05 * spin * spin * sin) / 1.1
            turn = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos * cos / 1.1))
            move = push - 0.05 * turn * cos / 1.1
            following = jnp.stack([x + 0.02 * v, v + 0.02 * move, angle + 0.02 * spin, spin + 0.02 * turn])
            is_up = (jnp.abs(angle) < 0.2) & (jnp.abs(x) < 2.4)
            return jnp.where(is_up, following, state), is_up

        return jnp.sum(jax.lax.scan(step, state, None, length=100)[1])

    return jax.vmap(one)(states)


@program(normal(64, 128), normal(64, 129))
def advantages(rewards, values):
    delta = rewards + 0.99 * values[:, 1:] - values[:, :-1]
    return jax.lax.scan(lambda a, d: (d + 0.95 * a,) * 2, jnp.zeros(64), delta.T, reverse=True)[1].T


@program(uniform(400, 4, 400), uniform(400, 4))
def value_iteration(transition, reward):
    transition = transition / jnp.sum(transition, axis=-1, keepdims=True)
    return jax.lax.fori_loop(0, 20, lambda _, v: jnp.max(reward + 0.9 * transition @ v, axis=1), jnp.zeros(400))


@program(key(5))
def q_learning(seed):
    def step(state, seed):
        q, at = state
        explore, choice = jax.random.split(seed)
        action = jnp.where(jax.random.uniform(explore) < 0.1, jax.random.randint(choice, (), 0, 4), jnp.argmax(q[at]))
        row, column = at // 8, at % 8
        row = jnp.clip(row + jnp.array([-1, 1, 0, 0])[action], 0, 7)
        column = jnp.clip(column + jnp.array([0, 0, -1, 1])[action], 0, 7)
        to = row * 8 + column
        reward = jnp.where(to == 63, 1.0, -0.01)
        q = q.at[at, action].add(0.1 * (reward + 0.95 * jnp.max(q[to]) - q[at, action]))
        return (q, jnp.where(to == 63, 0, to)), reward

    seeds = jax.random.split(jax.random.wrap_key_data(seed), 1000)
    return jax.lax.scan(step, (jnp.zeros((64, 4)), 0), seeds)[0][0]


@held_out(normal(1024, 8), normal(8, 64) / 3, normal(64, 4) / 8, integers(0, 4, 1024), normal(1024), normal(1024) - 1.4)
def clipped_policy_step(states, w1, w2, actions, advantage, old):
    def loss(parameters):
        logs = jax.nn.log_softmax(jnp.tanh(states @ parameters[0]) @ parameters[1])
        ratio = jnp.exp(jnp.take_along_axis(logs, actions[:, None], 1)[:, 0] - old)
        entropy = -jnp.sum(jnp.exp(logs) * logs, axis=1)
        gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 0.8, 1.2) * advantage)
        return -jnp.mean(gain + 0.01 * entropy)

    return jax.grad(loss)((w1, w2))


@held_out(key(6), uniform(32, 10))
def bandits(seed, means):
    def step(state, seed):
        count, total = state
        bound = total / (count + 1e-6) + jnp.sqrt(2 / (count + 1e-6))
        arm = jnp.argmax(bound, axis=1)
        rows = jnp.arange(32)
        reward = means[rows, arm] + 0.1 * jax.random.normal(seed, (32,))
        return (count.at[rows, arm].add(1), total.at[rows, arm].add(reward)), jnp.mean(reward)

    seeds = jax.random.split(jax.random.wrap_key_data(seed), 200)
    return jax.lax.scan(step, (jnp.zeros((32, 10)), jnp.zeros((32, 10))), seeds)[1]


@held_out(uniform(512), integers(0, 512, 64))
def prioritized_replay(priority, updated):
    sums = jnp.cumsum(priority)
    chosen = jnp.searchsorted(sums, (jnp.arange(64) + 0.5) / 64 * sums[-1])
    weights = (priority[chosen] * 512 / sums[-1]) ** -0.4
    return priority.at[updated].set(weights), chosen
