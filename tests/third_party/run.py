"""Compares the embedded CPU device with JAX's own CPU backend on programs of third-party libraries.

    python tests/third_party/run.py [--rounds 3] [PROGRAM ...]

needs the packages in `tests/third_party/requirements.txt`, and a wheel of the CPU plugin that `pjrt package` made from a
release build. `cargo xtask performance libraries` installs both. Each backend runs in processes of its own, alternately. The table contains medians over the rounds. The exit status
is 1 if a program fails, or if its results on the two backends differ by more than 5 %.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

PLATFORMS = ("cpu", "pjrt_cpu")
TOLERANCE = 0.05


def tsit5():
    """Lotka-Volterra equations, explicit Runge-Kutta method with adaptive steps."""
    return lambda shift: lotka_volterra(1.0 + shift)


def kvaerno5():
    """Van der Pol oscillator, implicit Runge-Kutta method with Newton iterations."""
    import diffrax
    import jax.numpy as jnp

    def field(t, y, mu):
        return jnp.stack([y[1], mu * ((1 - y[0] ** 2) * y[1]) - y[0]])

    def solve(shift):
        start = jnp.array([2.0, 0.0]) * (1.0 + shift)
        control = diffrax.PIDController(rtol=1e-4, atol=1e-4)
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(field), diffrax.Kvaerno5(), 0.0, 20.0, 0.01, start, args=10.0, stepsize_controller=control
        )
        return solution.ys[-1]

    return solve


def backsolve():
    """Gradient of Lotka-Volterra equations by the adjoint equation."""
    import diffrax
    import jax

    return jax.grad(lambda shift: lotka_volterra(1.0 + shift, diffrax.BacksolveAdjoint()).sum())


def sde():
    """Ornstein-Uhlenbeck process, 500 Euler steps with a virtual Brownian tree."""
    import diffrax
    import jax

    def solve(shift):
        noise = diffrax.VirtualBrownianTree(0.0, 1.0, tol=1e-3, shape=(), key=jax.random.PRNGKey(3))
        drift = diffrax.ODETerm(lambda t, y, args: -y)
        diffusion = diffrax.ControlTerm(lambda t, y, args: 0.1 * t, noise)
        terms = diffrax.MultiTerm(drift, diffusion)
        return diffrax.diffeqsolve(terms, diffrax.Euler(), 0.0, 1.0, 2e-3, 1.0 + shift, max_steps=1000).ys[-1]

    return solve


def blackjax_nuts():
    """200 NUTS steps of blackjax on a normal distribution of 4 dimensions."""
    import blackjax
    import jax
    import jax.numpy as jnp

    scale = jnp.array([1.0, 2.0, 0.5, 3.0])
    nuts = blackjax.nuts(lambda x: -0.5 * jnp.sum((x - 1.0) ** 2 / scale), step_size=0.3, inverse_mass_matrix=jnp.ones(4))

    def sample(shift):
        def step(state, key):
            state, _ = nuts.step(key, state)
            return state, state.position

        keys = jax.random.split(jax.random.PRNGKey(0), 200)
        return jax.lax.scan(step, nuts.init(jnp.ones(4) * (1.0 + shift)), keys)[1].mean()

    return sample


def numpyro_nuts():
    """200 NUTS steps of numpyro, 100 of them for warm-up, on a linear regression of 50 points."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as distributions
    from numpyro.infer.hmc import hmc
    from numpyro.infer.util import initialize_model

    x = jnp.linspace(-1, 1, 50)
    y = 2 * x + 0.3 * jnp.sin(9 * x)

    def model():
        a = numpyro.sample("a", distributions.Normal(0, 1))
        b = numpyro.sample("b", distributions.Normal(0, 1))
        noise = numpyro.sample("noise", distributions.HalfNormal(1.0))
        numpyro.sample("y", distributions.Normal(a + b * x, noise), obs=y)

    info = initialize_model(jax.random.PRNGKey(0), model)
    start, step = hmc(info.potential_fn, algo="NUTS")

    def sample(shift):
        parameters = jax.tree.map(lambda value: value + shift, info.param_info)
        state = start(parameters, num_warmup=100, step_size=0.1, rng_key=jax.random.PRNGKey(1))

        def keep_slope(state, _):
            state = step(state)
            return state, state.z["b"]

        # Chaotic differences of rounding change single samples, but hardly their mean.
        return jax.lax.scan(keep_slope, state, None, length=200)[1].mean()

    return sample


def lbfgs():
    """Rosenbrock function of 10 dimensions, minimized with L-BFGS of jaxopt."""
    import jax.numpy as jnp
    import jaxopt

    def rosenbrock(x):
        return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    solver = jaxopt.LBFGS(fun=rosenbrock, maxiter=200, tol=1e-6, implicit_diff=False, jit=True)
    return lambda shift: solver.run(jnp.zeros(10) + shift).params


def rnn():
    """200 steps of a recurrent network with 64 units."""
    import jax
    import jax.numpy as jnp

    weights, inputs, xs = matrices((64, 64), (64, 32), (200, 32))

    def run(shift):
        def step(state, x):
            state = jnp.tanh(weights @ state + inputs @ x)
            return state, state

        return jax.lax.scan(step, jnp.zeros(64) + shift, xs)[1].sum()

    return run


def grad_scan():
    """Gradient through 500 steps of a recurrent network with 16 units."""
    import jax
    import jax.numpy as jnp

    weights, xs = matrices((16, 16), (500, 16))

    def loss(shift):
        def step(state, x):
            state = jnp.tanh((weights + shift) @ state + x)
            return state, state.sum()

        return jax.lax.scan(step, jnp.zeros(16), xs)[1].mean()

    return jax.grad(loss)


PROGRAMS = (tsit5, kvaerno5, backsolve, sde, blackjax_nuts, numpyro_nuts, lbfgs, rnn, grad_scan)


def lotka_volterra(scale, adjoint=None):
    """Returns the solution at time 10. `scale` is a factor of the initial values."""
    import diffrax
    import jax.numpy as jnp

    def field(t, y, args):
        a, b, c, d = args
        return jnp.stack([a * y[0] - b * y[0] * y[1], d * y[0] * y[1] - c * y[1]])

    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Tsit5(),
        0.0,
        10.0,
        0.01,
        jnp.array([1.0, 1.0]) * scale,
        args=jnp.array([1.5, 1.0, 3.0, 1.0]),
        stepsize_controller=diffrax.PIDController(rtol=1e-5, atol=1e-6),
        adjoint=adjoint or diffrax.RecursiveCheckpointAdjoint(),
    )
    return solution.ys[-1]


def matrices(*shapes):
    """Returns random matrices. All but the last one are weights, which are scaled by 0.1."""
    import jax

    keys = jax.random.split(jax.random.PRNGKey(0), len(shapes))
    drawn = [jax.random.normal(key, shape) for key, shape in zip(keys, shapes)]
    return [*(0.1 * weights for weights in drawn[:-1]), drawn[-1]]


def measure(name):
    """Compiles and runs a program in this process. Returns times in seconds, and the first result."""
    import jax
    import jax.numpy as jnp

    make = next(program for program in PROGRAMS if program.__name__ == name)
    shift = jnp.float32(0.0)
    lowered = jax.jit(make()).lower(shift)
    start = time.perf_counter()
    compiled = lowered.compile()
    compile_time = time.perf_counter() - start
    result = jax.block_until_ready(compiled(shift))
    times = []
    end = time.perf_counter() + 0.7
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        result = jax.block_until_ready(compiled(shift))
        times.append(time.perf_counter() - start)
    return {"compile": compile_time, "run": statistics.median(times), "result": jnp.ravel(result).tolist()}


def measure_all(names):
    outcomes = {}
    for name in names:
        try:
            outcomes[name] = measure(name)
        except Exception as error:  # Report the other programs, too.
            outcomes[name] = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(outcomes))


def differ(ours, theirs):
    largest = max(abs(value) for value in theirs)
    return len(ours) != len(theirs) or any(not abs(a - b) <= TOLERANCE * largest for a, b in zip(ours, theirs))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", default=[program.__name__ for program in PROGRAMS])
    options = parser.parse_args()
    known = [program.__name__ for program in PROGRAMS]
    unknown = [name for name in options.programs if name not in known]
    if unknown:
        parser.error(f"unknown program {unknown[0]}; the programs are {', '.join(known)}")
    if options.child:
        return measure_all(options.programs)
    found = {platform: [] for platform in PLATFORMS}
    for _ in range(options.rounds):
        for platform in PLATFORMS:
            command = [sys.executable, __file__, "--child", *options.programs]
            child = subprocess.run(command, env=os.environ | {"JAX_PLATFORMS": platform}, stdout=subprocess.PIPE, text=True)
            if child.returncode != 0:
                sys.exit(f"the process for {platform} failed with status {child.returncode}")
            found[platform].append(json.loads(child.stdout.splitlines()[-1]))
    failed = False
    print("| program | JAX's CPU backend | pjrt_cpu | ratio | compiling, JAX's CPU backend | compiling, pjrt_cpu |")
    print("|---|--:|--:|--:|--:|--:|")
    for name in options.programs:
        theirs, ours = ([round_[name] for round_ in found[platform]] for platform in PLATFORMS)
        errors = [outcome["error"] for outcome in theirs + ours if "error" in outcome]
        if errors:
            failed = True
            print(f"{name} failed: {errors[0]}")
            continue
        run, own = (statistics.median(outcome["run"] for outcome in outcomes) for outcomes in (theirs, ours))
        build, own_build = (statistics.median(outcome["compile"] for outcome in outcomes) for outcomes in (theirs, ours))
        title = next(program.__doc__ for program in PROGRAMS if program.__name__ == name).splitlines()[0].rstrip(".")
        times = f"{run * 1e6:.0f} us | {own * 1e6:.0f} us | {own / run:.2f} | {build:.2f} s | {own_build:.2f} s"
        print(f"| `{name}`: {title} | {times} |")
        if differ(ours[0]["result"], theirs[0]["result"]):
            failed = True
            print(f"{name}: the results differ: {ours[0]['result'][:3]}, expected {theirs[0]['result'][:3]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
