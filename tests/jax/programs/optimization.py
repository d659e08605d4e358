"""Optimizers and solvers of systems of equations."""

import jax
import jax.numpy as jnp
import jax.scipy.optimize
import numpy as np

from . import held_out, normal, program, uniform

HALF = normal(50, 50)
DEFINITE = (HALF @ HALF.T + 50 * np.eye(50)).astype(np.float32)


@program(DEFINITE, normal(50))
def newton_with_hessian(a, b):
    def loss(x):
        return 0.5 * x @ a @ x - b @ x + 0.01 * jnp.sum(x**4)

    return jax.lax.fori_loop(0, 10, lambda _, x: x - jnp.linalg.solve(jax.hessian(loss)(x), jax.grad(loss)(x)), b)


@program(DEFINITE, normal(50))
def conjugate_gradient(a, b):
    return jax.scipy.sparse.linalg.cg(lambda x: a @ x, b, maxiter=30)[0]


@program(normal(1000, 20), (uniform(1000) > 0.5).astype(np.float32))
def logistic_regression(x, y):
    def loss(w):
        return jnp.mean(jax.nn.softplus(x @ w) - y * (x @ w))

    return jax.lax.fori_loop(0, 50, lambda _, w: w - 0.5 * jax.grad(loss)(w), jnp.zeros(20))


@program(normal(200, 100), normal(200))
def lasso_by_soft_thresholds(x, y):
    def step(_, w):
        w = w - 0.002 * (x.T @ (x @ w - y))
        return jnp.sign(w) * jnp.maximum(jnp.abs(w) - 0.01, 0)

    return jax.lax.fori_loop(0, 100, step, jnp.zeros(100))


@program(uniform(200, 200) + 0.1)
def sinkhorn(cost):
    kernel = jnp.exp(-cost * 10)

    def step(_, v):
        return 0.005 / (kernel.T @ (0.005 / (kernel @ v)))

    return jax.lax.fori_loop(0, 50, step, jnp.ones(200))


@held_out(normal(2))
def rosenbrock_with_bfgs(start):
    return jax.scipy.optimize.minimize(
        lambda x: (1 - x[0]) ** 2 + 10 * (x[1] - x[0] ** 2) ** 2, start, method="BFGS", options={"maxiter": 20}
    ).fun


@held_out(uniform(100, 10) * 4 - 2, uniform(100, 10))
def differential_evolution(population, noise):
    def cost(x):
        return jnp.sum(x * x - 10 * jnp.cos(2 * jnp.pi * x), axis=-1)

    def step(i, population):
        trial = population + 0.5 * (jnp.roll(population, i, 0) - jnp.roll(population, 2 * i + 1, 0))
        trial = jnp.where(noise < 0.9, trial, population)
        return jnp.where((cost(trial) < cost(population))[:, None], trial, population)

    return jnp.sort(cost(jax.lax.fori_loop(0, 50, step, population)))


@held_out(normal(30, 5), normal(30))
def curve_fit_by_gauss_newton(x, y):
    def residual(p):
        return jnp.tanh(x @ p[:5]) * p[5] - y

    def step(_, p):
        jacobian, value = jax.jacfwd(residual)(p), residual(p)
        return p - 0.1 * jnp.linalg.solve(jacobian.T @ jacobian + jnp.eye(6), jacobian.T @ value)

    return jax.lax.fori_loop(0, 10, step, jnp.full(6, 0.1))


@held_out(normal(60, 60) / 60, normal(60))
def fixed_point_with_gradient(w, x):
    def fixed(w):
        return jax.lax.scan(lambda z, _: (jnp.tanh(w @ z + x), None), jnp.zeros(60), None, length=20)[0]

    return jax.grad(lambda w: jnp.sum(fixed(w) ** 2))(w)
