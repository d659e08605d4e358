"""Random numbers, samplers, filters and mixtures."""

import jax
import jax.numpy as jnp
import numpy as np

from . import held_out, integers, key, normal, program, uniform


@program(key())
def random_bits(seed):
    return jax.random.bits(jax.random.wrap_key_data(seed), (1_000_000,))


@program(key())
def random_normal(seed):
    return jax.random.normal(jax.random.wrap_key_data(seed), (1_000_000,))


@program(key())
def metropolis(seed):
    def step(x, seed):
        proposal, choice = jax.random.split(seed)
        y = x + 0.5 * jax.random.normal(proposal, x.shape)
        accepted = jnp.log(jax.random.uniform(choice)) < 0.5 * (x @ x - y @ y)
        x = jnp.where(accepted, y, x)
        return x, x[0]

    return jax.lax.scan(step, jnp.zeros(10), jax.random.split(jax.random.wrap_key_data(seed), 500))[1]


@program(normal(1000), normal(200))
def kernel_density(samples, points):
    return jnp.mean(jnp.exp(-0.5 * ((points[:, None] - samples) / 0.2) ** 2), axis=1)


@program(normal(5000, 8), normal(10, 8))
def k_means(x, centers):
    def step(_, centers):
        nearest = jnp.argmin(jnp.sum((x[:, None] - centers) ** 2, -1), axis=1)
        member = jax.nn.one_hot(nearest, 10)
        return (member.T @ x) / jnp.maximum(jnp.sum(member, 0), 1)[:, None]

    return jax.lax.fori_loop(0, 5, step, centers)


@program(normal(500, 2), np.eye(4, dtype=np.float32) + np.eye(4, k=2, dtype=np.float32) * 0.1)
def kalman_filter(measurements, transition):
    observe = jnp.eye(2, 4)

    def step(state, z):
        mean, cov = state
        mean, cov = transition @ mean, transition @ cov @ transition.T + 0.01 * jnp.eye(4)
        gain = cov @ observe.T @ jnp.linalg.inv(observe @ cov @ observe.T + 0.1 * jnp.eye(2))
        mean = mean + gain @ (z - observe @ mean)
        return (mean, cov - gain @ observe @ cov), mean

    return jax.lax.scan(step, (jnp.zeros(4), jnp.eye(4)), measurements)[1]


@program(normal(200, 4), normal(200), normal(50, 4))
def gaussian_process(x, y, points):
    def kernel(a, b):
        return jnp.exp(-0.5 * jnp.sum((a[:, None] - b) ** 2, -1))

    factor = jax.scipy.linalg.cho_factor(kernel(x, x) + 0.1 * jnp.eye(200))
    return kernel(points, x) @ jax.scipy.linalg.cho_solve(factor, y)


@held_out(normal(2000, 3), normal(5, 3))
def gaussian_mixture(x, means):
    def step(_, state):
        means, spread, weight = state
        distance = jnp.sum((x[:, None] - means) ** 2, -1)
        logits = jnp.log(weight) - 1.5 * jnp.log(spread) - distance / (2 * spread)
        member = jax.nn.softmax(logits, axis=1)
        count = jnp.sum(member, axis=0) + 1e-6
        means = (member.T @ x) / count[:, None]
        return means, jnp.sum(member * distance, 0) / (3 * count) + 1e-3, count / 2000

    return jax.lax.fori_loop(0, 10, step, (means, jnp.ones(5), jnp.full(5, 0.2)))


@held_out(normal(500), integers(0, 500, 200, 500))
def bootstrap(x, index):
    means = jnp.mean(x[index], axis=1)
    return jnp.quantile(means, jnp.array([0.025, 0.975])), jnp.std(means)


@held_out(normal(16, 16), normal(300, 16))
def hidden_markov_forward(transition, emission):
    logs = jax.nn.log_softmax(transition)

    def step(alpha, e):
        alpha = jax.scipy.special.logsumexp(alpha[:, None] + logs, axis=0) + e
        return alpha, alpha

    return jax.lax.scan(step, jnp.zeros(16), emission)[0]


@held_out(key(3))
def distributions(seed):
    a, b, c = jax.random.split(jax.random.wrap_key_data(seed), 3)
    shape = (20_000,)
    chosen = jax.random.categorical(b, jnp.zeros((2000, 20)))
    return jax.random.exponential(a, shape), chosen, jax.random.laplace(c, shape)


@held_out(key(4))
def random_permutation(seed):
    return jax.random.permutation(jax.random.wrap_key_data(seed), 50_000)


@held_out(normal(1000, 50))
def principal_components(x):
    x = x - jnp.mean(x, axis=0)
    values = jnp.linalg.eigvalsh(x.T @ x / 999)
    return values[::-1][:5] / jnp.sum(values)


@held_out(normal(800, 30))
def correlation_matrix(x):
    return jnp.corrcoef(x, rowvar=False)
