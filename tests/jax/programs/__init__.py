"""Programs of the benchmark `bench_programs.py`, by kind: one module for each kind.

A module registers its programs with `@program(argument, ...)`. The arguments are NumPy arrays. The programs under
`@held_out` are not looked at while the device is tuned, so that they show what tuning does for programs that nobody
tuned.
"""

import importlib
import pkgutil

import numpy as np

PROGRAMS = []
random = np.random.RandomState(0)


class Program:
    def __init__(self, function, arguments, is_held_out):
        self.function, self.arguments, self.is_held_out = function, arguments, is_held_out
        self.name = function.__name__
        self.kind = function.__module__.rpartition(".")[2].replace("_", " ")
        # Programs of 64-bit numbers need JAX's option for them.
        self.needs_x64 = any(array.dtype in (np.float64, np.int64, np.uint64, np.complex128) for array in arguments)


def program(*arguments, is_held_out=False):
    """Registers the decorated function with its arguments."""

    def register(function):
        PROGRAMS.append(Program(function, [np.asarray(array) for array in arguments], is_held_out))
        return function

    return register


def held_out(*arguments):
    """Registers the decorated function as a program that nobody looks at while the device is tuned."""
    return program(*arguments, is_held_out=True)


def normal(*shape, dtype=np.float32):
    return random.standard_normal(shape).astype(dtype)


def uniform(*shape, dtype=np.float32):
    return random.random_sample(shape).astype(dtype)


def integers(low, high, *shape, dtype=np.int32):
    return random.randint(low, high, shape).astype(dtype)


def key(seed=0):
    """The data of a key of `jax.random`."""
    return np.array([0, seed], np.uint32)


def load():
    """Imports all modules and returns the programs."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return PROGRAMS
