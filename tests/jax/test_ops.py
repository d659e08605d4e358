"""Tests every op with every element type on our device and on JAX's CPU backend, from the same StableHLO text.

A case is a program with inputs that contain the type's edge values. Both devices run it in one process. If JAX's
backend rejects a combination, there is no result to compare with. Such combinations are counted, and listed with `-rP`.
"""

import dataclasses
import functools
import itertools
import pathlib
import re

import jax
import ml_dtypes
import numpy as np
import pytest
from jax._src.lib import xla_client

# The ops do not depend on the version of JAX, so compare only with the backend of one version.
if jax.__version__ != "0.10.2":
    pytest.skip("compared with the CPU backend of JAX 0.10.2 only", allow_module_level=True)

OURS = jax.devices("pjrt_cpu")[0]
THEIRS = jax.devices("cpu")[0]

# StableHLO's name, NumPy's type.
INTS = {
    "i2": ml_dtypes.int2, "i4": ml_dtypes.int4, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "ui2": ml_dtypes.uint2, "ui4": ml_dtypes.uint4, "ui8": np.uint8, "ui16": np.uint16, "ui32": np.uint32,
    "ui64": np.uint64,
}  # fmt: skip
NARROW = {
    "f4E2M1FN": ml_dtypes.float4_e2m1fn, "f8E3M4": ml_dtypes.float8_e3m4, "f8E4M3": ml_dtypes.float8_e4m3,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz, "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz, "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
}  # fmt: skip
FLOATS = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64}
COMPLEX = {"complex<f32>": np.complex64, "complex<f64>": np.complex128}
BOOL = {"i1": np.bool_}
ALL = BOOL | INTS | NARROW | FLOATS | COMPLEX

# Machine epsilon of each type. Allowed relative errors are multiples of it.
EPSILON = {"bf16": 2**-7, "f16": 2**-10, "f32": 2**-23, "f64": 2**-52, "complex<f32>": 2**-23, "complex<f64>": 2**-52}
for name, dtype in NARROW.items():
    EPSILON[name] = float(ml_dtypes.finfo(dtype).eps)

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, -7.25, 100.0, np.nan, np.inf, -np.inf]


def values(name, count, seed=0, low=-4.0, high=4.0, special=True):
    """`count` values of a type. The edge values come first."""
    rng = np.random.default_rng(seed)
    dtype = ALL[name]
    if name == "i1":
        return rng.integers(0, 2, count).astype(np.bool_)
    if name in INTS:
        info = ml_dtypes.iinfo(dtype)
        lo, hi = int(info.min), int(info.max)
        if special:
            edges = [v for v in (0, 1, -1, lo, hi, lo + 1, hi - 1, 2, 3, 7, 8, 31, 63) if lo <= v <= hi]
        else:
            edges, lo, hi = [], max(lo, -5), min(hi, 5)
        random = [int(v) for v in rng.integers(lo, hi, count, endpoint=True, dtype=np.uint64 if lo >= 0 else np.int64)]
        return np.array((edges + random)[:count]).astype(dtype)
    if name in COMPLEX:
        z = rng.uniform(low, high, count) + 1j * rng.uniform(low, high, count)
        return z.astype(dtype)
    finfo = ml_dtypes.finfo(dtype)
    x = rng.uniform(low, high, count)
    edges = SPECIAL + [float(finfo.max), -float(finfo.max), float(finfo.smallest_normal)] if special else []
    if name == "f8E8M0FNU":
        # The smallest number of this type is a subnormal f32, which XLA flushes to zero.
        edges = edges[:-1]
    x[: min(len(edges), count)] = edges[:count]
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def pairs(name, **kwargs):
    """All pairs of edge values, and random pairs."""
    a = values(name, 24, **kwargs)
    grid = np.array(list(itertools.product(a, a)), dtype=a.dtype)
    return np.ascontiguousarray(grid[:, 0]), np.ascontiguousarray(grid[:, 1])


def tensor(shape, name):
    return f"tensor<{''.join(f'{d}x' for d in shape)}{name}>"


def ty(x):
    name = next(n for n, d in ALL.items() if np.dtype(d) == x.dtype)
    return tensor(x.shape, name)


@dataclasses.dataclass
class Program:
    """A function's body, its arguments `%a0`, `%a1`, .. and its result types."""

    body: str
    inputs: list
    results: list


def program(body, inputs, results):
    return Program(body, inputs, [results] if isinstance(results, str) else results)


def merged(programs):
    """Combines several programs into one module, because compiling it costs much less than compiling each program."""
    arguments, bodies, returned, types = [], [], [], []
    for k, p in enumerate(programs):
        body, _, last = p.body.rpartition("\n")
        values = last.removeprefix("return ").rsplit(" : ", 1)[0]
        rename = functools.partial(re.sub, r"%([A-Za-z0-9_]+)", rf"%p{k}_\1")
        arguments += [f"%p{k}_a{i}: {ty(x)}" for i, x in enumerate(p.inputs)]
        bodies.append(rename(body))
        returned.append(rename(values))
        types += p.results
    types = ", ".join(types)
    return (
        f"func.func public @main({', '.join(arguments)}) -> ({types}) {{\n"
        + "\n".join(bodies)
        + f"\nreturn {', '.join(returned)} : {types}\n}}"
    )


def run(device, programs):
    """The results of each program."""
    devices = xla_client.DeviceList((device,))
    executable = device.client.compile_and_load(merged(programs), devices, xla_client.CompileOptions())
    arrays = [jax.device_put(x, device) for p in programs for x in p.inputs]
    results = iter(executable.execute_sharded(arrays).disassemble_into_single_device_arrays())
    return [[np.asarray(next(results)[0]) for _ in p.results] for p in programs]


def outcomes(device, programs):
    """The results of each program, or its error if it is rejected. Rejected programs are found by bisection."""
    try:
        return run(device, programs)
    except Exception as error:  # noqa: BLE001: any error is an outcome
        if len(programs) == 1:
            return [error]
        half = len(programs) // 2
        return outcomes(device, programs[:half]) + outcomes(device, programs[half:])


def first_line(error):
    return str(error).splitlines()[0][:300]


class Report:
    """The cases of one test."""

    def __init__(self):
        self.cases = []

    def case(self, label, text, inputs, ulp=0.0, atol=0.0, specials=True, moves=None):
        """`moves` names a type narrower than a byte whose elements are only moved. XLA's backend aborts the process on
        some such programs, so its elements are bytes there.
        """
        self.cases.append((label, text, ulp, atol, specials, moves))

    def close(self):
        wrong, compared, refused = [], 0, []
        theirs = []
        for _, p, *_, moves in self.cases:
            if moves:
                whole = [x.view(np.uint8) if x.dtype == ALL[moves] else x for x in p.inputs]
                p = Program(p.body.replace(f"{moves}>", "ui8>"), whole, [r.replace(f"{moves}>", "ui8>") for r in p.results])
            theirs.append(p)
        ours = outcomes(OURS, [p for _, p, *_ in self.cases])
        for (label, p, ulp, atol, specials, moves), mine, other in zip(self.cases, ours, outcomes(THEIRS, theirs)):
            if isinstance(other, Exception):
                refused.append(f"{label}: {first_line(other)}")
            elif isinstance(mine, Exception):
                wrong.append(f"{label}: {first_line(mine)}")
            else:
                compared += 1
                if moves:
                    other = [r.view(ALL[moves]) if r.dtype == np.uint8 else r for r in other]
                faults = [difference(a, b, ulp, atol, specials, p.inputs) for a, b in zip(mine, other, strict=True)]
                wrong += [f"{label}: {fault}" for fault in faults if fault]
        for line in refused:
            print("JAX's backend refuses", line)
        assert not wrong, f"{len(wrong)} wrong of {compared}:\n" + "\n".join(wrong)
        if not compared:
            pytest.skip("JAX's backend refuses all of it")


def difference(a, b, ulp, atol, specials, inputs):
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{a.dtype}{a.shape} and {b.dtype}{b.shape}"
    name = next(n for n, d in ALL.items() if np.dtype(d) == a.dtype)
    if name not in EPSILON:
        a, b = a.astype(np.int64), b.astype(np.int64)
        close = a == b
    else:
        wide = np.complex128 if name in COMPLEX else np.float64
        tiny = float(ml_dtypes.finfo(a.dtype).smallest_normal)
        x, y = a.astype(wide), b.astype(wide)
        with np.errstate(all="ignore"):
            # XLA's CPU backend flushes subnormal numbers to zero.
            bound = ulp * EPSILON[name] * np.abs(y) + np.maximum(atol, tiny if name in FLOATS or name in COMPLEX else 0)
            close = (x == y) | (np.abs(x - y) <= bound) | (np.isnan(x) & np.isnan(y))
        if name == "f8E8M0FNU":
            close |= (np.abs(x) < 2.0**-126) & np.isnan(y)
        if not specials:
            close |= ~np.isfinite(y)
        a, b = x, y
    if close.all():
        return None
    at = int(np.flatnonzero(~close.reshape(-1))[0])
    given = [repr(x.reshape(-1)[at]) for x in inputs if x.size == a.size]
    wrong = int((~close).sum())
    return f"{a.reshape(-1)[at]!r}, want {b.reshape(-1)[at]!r} at {at} for ({', '.join(given)}); {wrong} of {a.size}"


def over(names):
    return pytest.mark.parametrize("name", names)


@dataclasses.dataclass
class Limit:
    """The allowed difference from XLA's result: ulp for real and complex types, and additional epsilons."""

    real: float
    complex: float
    absolute: float


def limits():
    """The table of docs/numerics.md, by op."""
    text = (pathlib.Path(__file__).parents[2] / "docs" / "numerics.md").read_text()
    table = {}
    for line in text.splitlines():
        if line.startswith("| `"):
            names, *numbers = [cell.strip() for cell in line.strip("|").split("|")]
            for name in re.findall(r"`(\w+)`", names):
                assert name not in table, f"{name} has two rows"
                table[name] = Limit(*(float(n) if n else 0.0 for n in numbers))
    assert len(table) > 50, "docs/numerics.md has lost its table"
    return table


LIMITS = limits()
UNARY = [
    "abs", "negate", "sign", "ceil", "floor", "round_nearest_afz", "round_nearest_even", "not", "popcnt",
    "count_leading_zeros", "real", "imag", "is_finite", "sqrt", "rsqrt", "cbrt", "exponential", "exponential_minus_one",
    "log", "log_plus_one", "logistic", "tanh", "sine", "cosine", "tan",
]  # fmt: skip
BINARY = [
    "add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "power", "atan2", "and", "or", "xor",
    "shift_left", "shift_right_arithmetic", "shift_right_logical",
]  # fmt: skip


def ulp_of(op, name):
    """The allowed difference of an elementwise op in ulp. Narrow types are computed in a wider type and rounded once.
    """
    limit = LIMITS[op]
    if name in COMPLEX:
        return limit.complex
    return min(limit.real, 1) if name in NARROW or name in ("bf16", "f16") else limit.real


def sum_of(op, name):
    """The allowed difference of an op that computes sums: ulp and absolute error."""
    limit = LIMITS[op]
    return (limit.complex if name in COMPLEX else limit.real), limit.absolute * EPSILON.get(name, 0)


def legal_unary(op, name):
    if op in ("not",):
        return name in INTS or name in BOOL
    if op in ("popcnt", "count_leading_zeros"):
        # XLA also counts the bits by which the sign of a narrow integer is extended.
        return name in INTS and not (op == "popcnt" and name in ("i2", "i4"))
    if op in ("abs", "negate", "sign"):
        return name not in BOOL and not (op in ("abs", "sign") and name.startswith("ui"))
    if op in ("ceil", "floor", "round_nearest_afz", "round_nearest_even", "is_finite"):
        return name in FLOATS or name in NARROW
    if op in ("real", "imag"):
        return name in COMPLEX or name in ("f32", "f64")
    return name in FLOATS or name in NARROW or name in COMPLEX


@pytest.mark.parametrize("op", UNARY)
def test_unary(op):
    report = Report()
    for name in filter(lambda n: legal_unary(op, n), ALL):
        x = values(name, 64)
        result = {"is_finite": "i1"}.get(op, name)
        if name in COMPLEX and op in ("abs", "real", "imag"):
            result = name[8:-1]
        text = program(
            f"%0 = stablehlo.{op} %a0 : ({ty(x)}) -> {tensor([64], result)}\nreturn %0 : {tensor([64], result)}",
            [x],
            tensor([64], result),
        )
        report.case(f"{op} {name}", text, [x], ulp_of(op, name), specials=name not in COMPLEX)
    report.close()


def legal_binary(op, name):
    if op in ("and", "or", "xor"):
        return name in INTS or name in BOOL
    if op.startswith("shift"):
        return name in INTS
    if op == "atan2":
        return name in FLOATS or name in NARROW or name in COMPLEX
    if name in BOOL:
        return op in ("add", "multiply", "maximum", "minimum")
    if name in COMPLEX:
        return op not in ("remainder", "maximum", "minimum")
    return True


@pytest.mark.parametrize("op", BINARY)
def test_binary(op):
    report = Report()
    for name in filter(lambda n: legal_binary(op, n), ALL):
        a, b = pairs(name)
        if op == "power" and name in INTS:
            # XLA's backend returns wrong results for exponents with many bits.
            b = np.array([min(max(int(v), -3), 13) for v in b]).astype(b.dtype)
        text = program(f"%0 = stablehlo.{op} %a0, %a1 : {ty(a)}\nreturn %0 : {ty(a)}", [a, b], ty(a))
        report.case(f"{op} {name}", text, [a, b], ulp_of(op, name), specials=name not in COMPLEX)
    report.close()


@pytest.mark.parametrize("direction", ["EQ", "NE", "GE", "GT", "LE", "LT"])
def test_compare(direction):
    report = Report()
    for name in ALL:
        if name in COMPLEX and direction not in ("EQ", "NE"):
            continue
        a, b = pairs(name)
        kinds = ["FLOAT", "TOTALORDER"] if name in FLOATS else [""]
        for kind in kinds:
            suffix = f", {kind}" if kind else ""
            result = tensor(a.shape, "i1")
            text = program(
                f"%0 = stablehlo.compare {direction}, %a0, %a1{suffix} : ({ty(a)}, {ty(a)}) -> {result}\n"
                f"return %0 : {result}",
                [a, b],
                result,
            )
            report.case(f"compare {direction} {kind} {name}", text, [a, b])
    report.close()


@over(ALL)
def test_convert(name):
    report = Report()
    x = values(name, 64)
    if name in FLOATS or name in NARROW:
        # The result for values out of a type's range is implementation-defined.
        x = values(name, 64, low=-1.9, high=1.9, special=False)
        x[0] = 0
    for to in ALL:
        if name in COMPLEX and to not in COMPLEX:
            continue
        if name in FLOATS | NARROW and to.startswith("ui"):
            given = np.abs(x.astype(np.float64)).astype(x.dtype)
        elif to == "f8E8M0FNU":
            given = values(name, 64, special=False) if name in COMPLEX else x
            given = np.where(given.astype(np.float64) > 0, given, np.ones_like(given)).astype(given.dtype)
        else:
            given = x
        result = tensor([64], to)
        text = program(
            f"%0 = stablehlo.convert %a0 : ({ty(given)}) -> {result}\nreturn %0 : {result}", [given], result
        )
        report.case(f"convert {name} to {to}", text, [given])
    report.close()


@over(list(FLOATS | NARROW))
def test_convert_rounds_every_pattern(name):
    """Converts f32 values near every value and halfway between values: rounding, overflow, infinity and NaN."""
    report = Report()
    dtype = ALL[name]
    if np.dtype(dtype).itemsize > 2 or name == "f8E8M0FNU":
        pytest.skip("too many patterns, or no signs")
    bits = np.arange(0, 1 << (8 * np.dtype(dtype).itemsize), 1 if np.dtype(dtype).itemsize == 1 else 37)
    x = bits.astype(f"u{np.dtype(dtype).itemsize}").view(dtype).astype(np.float32)
    with np.errstate(all="ignore"):
        step = np.concatenate([x, x * 1.0625, x * 0.96875, x + np.roll(x, 1), (x + np.roll(x, 1)) / 2])
    step = step[~(np.isnan(step) & (name == "f4E2M1FN"))].astype(np.float32)
    result = tensor(step.shape, name)
    text = program(f"%0 = stablehlo.convert %a0 : ({ty(step)}) -> {result}\nreturn %0 : {result}", [step], result)
    report.case(f"convert f32 to {name}", text, [step])
    report.close()


@over(ALL)
def test_selection_and_movement(name):
    report = Report()
    x = values(name, 24).reshape(2, 3, 4)
    y = values(name, 24, seed=1).reshape(2, 3, 4)
    p = np.arange(24).reshape(2, 3, 4) % 3 == 0
    t = ty(x)
    s = tensor([], name)
    out = {
        "select": (f"%0 = stablehlo.select %a2, %a0, %a1 : {ty(p)}, {t}", t),
        "transpose": (f"%0 = stablehlo.transpose %a0, dims = [2, 0, 1] : ({t}) -> {tensor([4, 2, 3], name)}",
                      tensor([4, 2, 3], name)),
        "reverse": (f"%0 = stablehlo.reverse %a0, dims = [0, 2] : {t}", t),
        "slice": (f"%0 = stablehlo.slice %a0 [0:2, 1:3, 0:4:2] : ({t}) -> {tensor([2, 2, 2], name)}",
                  tensor([2, 2, 2], name)),
        "concatenate": (f"%0 = stablehlo.concatenate %a0, %a1, dim = 1 : ({t}, {t}) -> {tensor([2, 6, 4], name)}",
                        tensor([2, 6, 4], name)),
        "broadcast_in_dim": (
            f"%0 = stablehlo.broadcast_in_dim %a0, dims = [0, 2, 3] : ({t}) -> {tensor([2, 5, 3, 4], name)}",
            tensor([2, 5, 3, 4], name)),
        "pad": (f"%s = stablehlo.slice %a1 [0:1, 0:1, 0:1] : ({t}) -> {tensor([1, 1, 1], name)}\n"
                f"%v = stablehlo.reshape %s : ({tensor([1, 1, 1], name)}) -> {s}\n"
                f"%0 = stablehlo.pad %a0, %v, low = [1, -1, 0], high = [0, 1, 2], interior = [0, 1, 0] : "
                f"({t}, {s}) -> {tensor([3, 5, 6], name)}", tensor([3, 5, 6], name)),
        "dynamic_slice": (f"%i = stablehlo.constant dense<2> : tensor<i32>\n%z = stablehlo.constant dense<-3> : tensor<i32>\n"
                          f"%0 = stablehlo.dynamic_slice %a0, %z, %i, %i, sizes = [1, 2, 3] : "
                          f"({t}, tensor<i32>, tensor<i32>, tensor<i32>) -> {tensor([1, 2, 3], name)}",
                          tensor([1, 2, 3], name)),
        "dynamic_update_slice": (f"%u = stablehlo.slice %a1 [0:1, 0:2, 0:2] : ({t}) -> {tensor([1, 2, 2], name)}\n"
                                 f"%i = stablehlo.constant dense<9> : tensor<i64>\n"
                                 f"%0 = stablehlo.dynamic_update_slice %a0, %u, %i, %i, %i : "
                                 f"({t}, {tensor([1, 2, 2], name)}, tensor<i64>, tensor<i64>, tensor<i64>) -> {t}", t),
        "gather": (f"%i = stablehlo.constant dense<[[0], [7], [-1]]> : tensor<3x1xi32>\n"
                   f'%0 = "stablehlo.gather"(%a0, %i) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], '
                   f"collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, "
                   f"slice_sizes = array<i64: 2, 1, 4>}}> : ({t}, tensor<3x1xi32>) -> {tensor([3, 2, 4], name)}",
                   tensor([3, 2, 4], name)),
    }  # fmt: skip
    for op, (body, result) in out.items():
        moves = name if name in ("i2", "i4", "ui2", "ui4", "f4E2M1FN") else None
        report.case(
            f"{op} {name}", program(f"{body}\nreturn %0 : {result}", [x, y, p], result), [x, y, p], moves=moves
        )
    if name not in BOOL:
        low, high = values(name, 1, special=False)[0], values(name, 1, seed=5, special=False)[0]
        if name not in COMPLEX:
            low, high = sorted([low, high])
            bounds = [np.full((2, 3, 4), v, x.dtype) for v in (low, high)]
            text = program(
                f"%0 = stablehlo.clamp %a1, %a0, %a2 : ({t}, {t}, {t}) -> {t}\nreturn %0 : {t}", [x, *bounds], t
            )
            report.case(f"clamp {name}", text, [x, *bounds])
        for d in (0, 2):
            text = program(f"%0 = stablehlo.iota dim = {d} : {t}\nreturn %0 : {t}", [x], t)
            report.case(f"iota {name}", text, [x])
    report.close()


def reducer(op, name):
    s = tensor([], name)
    return (
        f"^bb0(%x: {s}, %y: {s}):\n%r = stablehlo.{op} %x, %y : {s}\n"
        f'"stablehlo.return"(%r) : ({s}) -> ()\n'
    )


@over(ALL)
def test_reductions(name):
    report = Report()
    ops = ["and", "or", "xor"] if name in BOOL | INTS else []
    if name not in BOOL:
        ops += ["add", "multiply"] + ([] if name in COMPLEX else ["maximum", "minimum"])
    x = values(name, 60, special=name in INTS or name in BOOL, low=-1.5, high=1.5).reshape(3, 4, 5)
    init = np.zeros((), x.dtype) if name != "f8E8M0FNU" else np.ones((), x.dtype)
    s = tensor([], name)
    t = ty(x)
    for op in ops:
        if op in ("multiply", "and", "minimum"):
            start = np.ones((), x.dtype)
        else:
            start = init
        # Our device rounds sums of narrow types once. XLA rounds them at every step.
        ulp, atol = sum_of("reduce", name)
        for dims, result in (([1], [3, 5]), ([0, 2], [4]), ([0, 1, 2], [])):
            r = tensor(result, name)
            text = program(
                f'%0 = "stablehlo.reduce"(%a0, %a1) <{{dimensions = array<i64: {", ".join(map(str, dims))}>}}> '
                f"({{\n{reducer(op, name)}}}) : ({t}, {s}) -> {r}\nreturn %0 : {r}",
                [x, start],
                r,
            )
            report.case(f"reduce {op} {dims} {name}", text, [x, start], ulp, atol)
        r = tensor([3, 3, 3], name)
        text = program(
            f'%0 = "stablehlo.reduce_window"(%a0, %a1) <{{window_dimensions = array<i64: 1, 2, 3>, '
            f"window_strides = array<i64: 1, 1, 2>, padding = dense<[[0, 0], [0, 0], [1, 1]]> : tensor<3x2xi64>}}> "
            f"({{\n{reducer(op, name)}}}) : ({t}, {s}) -> {r}\nreturn %0 : {r}",
            [x, start],
            r,
        )
        report.case(f"reduce_window {op} {name}", text, [x, start], ulp, atol)
        i = np.array([[0], [2], [0], [9]], np.int32)
        u = values(name, 80, seed=3, special=False, low=-1.5, high=1.5).reshape(4, 4, 5)
        text = program(
            f'%0 = "stablehlo.scatter"(%a0, %a1, %a2) <{{scatter_dimension_numbers = #stablehlo.scatter<'
            f"update_window_dims = [1, 2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
            f"index_vector_dim = 1>}}> ({{\n{reducer(op, name)}}}) : ({t}, {ty(i)}, {ty(u)}) -> {t}\nreturn %0 : {t}",
            [x, i, u],
            t,
        )
        report.case(f"scatter {op} {name}", text, [x, i, u], ulp, atol)
    if name in FLOATS:
        src = values(name, 16, seed=4, special=False).reshape(4, 4)
        img = values(name, 64, seed=5, special=False).reshape(8, 8)
        text = program(
            f'%0 = "stablehlo.select_and_scatter"(%a0, %a1, %a2) <{{window_dimensions = array<i64: 3, 3>, '
            f"window_strides = array<i64: 2, 2>, padding = dense<[[0, 1], [0, 1]]> : tensor<2x2xi64>}}> ({{\n"
            f"^bb0(%x: {s}, %y: {s}):\n%c = stablehlo.compare GE, %x, %y : ({s}, {s}) -> tensor<i1>\n"
            f'"stablehlo.return"(%c) : (tensor<i1>) -> ()\n}}, {{\n{reducer("add", name)}}}) : '
            f"({ty(img)}, {ty(src)}, {s}) -> {ty(img)}\nreturn %0 : {ty(img)}",
            [img, src, init],
            ty(img),
        )
        report.case(f"select_and_scatter {name}", text, [img, src, init], *sum_of("select_and_scatter", name))
    report.close()


@over(ALL)
def test_argmax_and_sort(name):
    report = Report()
    if name in COMPLEX:
        pytest.skip("XLA does not order complex numbers")
    x = values(name, 48, special=True).reshape(4, 12)
    if name in FLOATS | NARROW:
        x = values(name, 48, special=False, low=0.01 if name == "f8E8M0FNU" else -4).reshape(4, 12)
    i = np.tile(np.arange(12, dtype=np.int32), (4, 1))
    s, t, p = tensor([], name), ty(x), ty(i)
    body = (
        f"^bb0(%x: {s}, %y: {s}, %i: tensor<i32>, %j: tensor<i32>):\n"
        f"%c = stablehlo.compare LT, %x, %y : ({s}, {s}) -> tensor<i1>\n"
        f'"stablehlo.return"(%c) : (tensor<i1>) -> ()\n'
    )
    text = program(
        f'%0:2 = "stablehlo.sort"(%a0, %a1) <{{dimension = 1 : i64, is_stable = true}}> ({{\n{body}}}) : '
        f"({t}, {p}) -> ({t}, {p})\nreturn %0#0, %0#1 : {t}, {p}",
        [x, i],
        [t, p],
    )
    report.case(f"sort {name}", text, [x, i])
    body = (
        f"^bb0(%x: {s}, %i: tensor<i32>, %y: {s}, %j: tensor<i32>):\n"
        f"%c = stablehlo.compare GE, %x, %y : ({s}, {s}) -> tensor<i1>\n"
        f"%v = stablehlo.select %c, %x, %y : tensor<i1>, {s}\n%k = stablehlo.select %c, %i, %j : tensor<i1>, tensor<i32>\n"
        f'"stablehlo.return"(%v, %k) : ({s}, tensor<i32>) -> ()\n'
    )
    start, none = x[0, 0].reshape(()), np.int32(-1).reshape(())
    r, k = tensor([4], name), "tensor<4xi32>"
    text = program(
        f'%0:2 = "stablehlo.reduce"(%a0, %a1, %a2, %a3) <{{dimensions = array<i64: 1>}}> ({{\n{body}}}) : '
        f"({t}, {p}, {s}, tensor<i32>) -> ({r}, {k})\nreturn %0#0, %0#1 : {r}, {k}",
        [x, i, start, none],
        [r, k],
    )
    report.case(f"argmax {name}", text, [x, i, start, none])
    report.close()


@over(ALL)
def test_contractions(name):
    report = Report()
    results = {name}
    if name in INTS:
        results |= {"i32"} if not name.startswith("ui") else {"ui32"}
    if name in NARROW or name in ("bf16", "f16"):
        results |= {"f32"}
    a = values(name, 30, special=name in INTS or name in BOOL, low=-1.0, high=1.0).reshape(2, 3, 5)
    b = values(name, 40, seed=1, special=name in INTS or name in BOOL, low=-1.0, high=1.0).reshape(2, 4, 5)
    for result in sorted(results):
        if INTS.get(result) and np.dtype(INTS[result]).itemsize < a.dtype.itemsize:
            continue
        r = tensor([2, 3, 4], result)
        text = program(
            f"%0 = stablehlo.dot_general %a0, %a1, batching_dims = [0] x [0], contracting_dims = [2] x [2] : "
            f"({ty(a)}, {ty(b)}) -> {r}\nreturn %0 : {r}",
            [a, b],
            r,
        )
        report.case(f"dot_general {name} to {result}", text, [a, b], *sum_of("dot_general", result))
    image = values(name, 2 * 6 * 5 * 4, special=False, low=-1.0, high=1.0).reshape(2, 6, 5, 4)
    kernel = values(name, 3 * 2 * 2 * 6, seed=2, special=False, low=-1.0, high=1.0).reshape(3, 2, 2, 6)
    r = tensor([2, 5, 4, 6], name)
    text = program(
        f"%0 = stablehlo.convolution(%a0, %a1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
        f"window = {{stride = [1, 1], pad = [[1, 0], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 2], "
        f"reverse = [false, true]}} {{batch_group_count = 1 : i64, feature_group_count = 2 : i64}} : "
        f"({ty(image)}, {ty(kernel)}) -> {r}\nreturn %0 : {r}",
        [image, kernel],
        r,
    )
    report.case(f"convolution {name}", text, [image, kernel], *sum_of("convolution", name))
    report.close()


@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
def test_fft(kind):
    report = Report()
    for part, name in (("f32", "complex<f32>"), ("f64", "complex<f64>")):
        for lengths in ([8], [7], [1], [12, 5], [2, 3, 4], [31], [60]):
            full, half = [3, *lengths], [3, *lengths[:-1], lengths[-1] // 2 + 1]
            given, made = {"RFFT": (full, half), "IRFFT": (half, full)}.get(kind, (full, full))
            source = part if kind == "RFFT" else name
            result = tensor(made, part if kind == "IRFFT" else name)
            x = values(source, int(np.prod(given)), special=False).reshape(given)
            text = program(
                f"%0 = stablehlo.fft %a0, type = {kind}, length = {lengths} : ({ty(x)}) -> {result}\nreturn %0 : {result}",
                [x],
                result,
            )
            report.case(f"{kind} {lengths} {name}", text, [x], *sum_of("fft", name))
    report.close()


@over(list(FLOATS))
def test_batch_norm(name):
    report = Report()
    x = values(name, 24, special=False).reshape(2, 3, 4)
    g = values(name, 24, seed=9, special=False).reshape(2, 3, 4)
    scale, offset, mean = (values(name, 3, seed=s, special=False) for s in (1, 2, 3))
    variance = np.abs(values(name, 3, seed=4, special=False).astype(np.float64)).astype(x.dtype)
    t, f = ty(x), ty(scale)
    attributes = "<{epsilon = 0.001 : f32, feature_index = 1 : i64}>"
    text = program(
        f'%0 = "stablehlo.batch_norm_inference"(%a0, %a1, %a2, %a3, %a4) {attributes} : ({t}, {f}, {f}, {f}, {f}) -> {t}\n'
        f"return %0 : {t}",
        [x, scale, offset, mean, variance],
        t,
    )
    report.case(f"batch_norm_inference {name}", text, [x, scale, offset, mean, variance], *sum_of("batch_norm_inference", name))
    text = program(
        f'%0:3 = "stablehlo.batch_norm_training"(%a0, %a1, %a2) {attributes} : ({t}, {f}, {f}) -> ({t}, {f}, {f})\n'
        f"return %0#0, %0#1, %0#2 : {t}, {f}, {f}",
        [x, scale, offset],
        [t, f, f],
    )
    report.case(f"batch_norm_training {name}", text, [x, scale, offset], *sum_of("batch_norm_training", name))
    text = program(
        f'%0:3 = "stablehlo.batch_norm_grad"(%a0, %a1, %a2, %a3, %a4) {attributes} : ({t}, {f}, {f}, {f}, {t}) -> ({t}, {f}, {f})\n'
        f"return %0#0, %0#1, %0#2 : {t}, {f}, {f}",
        [x, scale, mean, variance, g],
        [t, f, f],
    )
    report.case(f"batch_norm_grad {name}", text, [x, scale, mean, variance, g], *sum_of("batch_norm_grad", name))
    report.close()


@over(["f32", "f64", "complex<f32>", "complex<f64>"])
def test_linear_algebra(name):
    report = Report()
    rng = np.random.default_rng(3)
    n = 5
    a = rng.standard_normal((2, n, n)) + (1j * rng.standard_normal((2, n, n)) if name in COMPLEX else 0)
    spd = (a @ np.conj(np.swapaxes(a, 1, 2)) + n * np.eye(n)).astype(ALL[name])
    mask = np.tril(np.ones((n, n), bool))
    for lower in ("true", "false"):
        # Only the requested half is defined.
        keep = np.broadcast_to(mask if lower == "true" else mask.T, spd.shape)
        zero = "(0.0, 0.0)" if name in COMPLEX else "0.0"
        t = ty(spd)
        text = program(
            f"%0 = stablehlo.cholesky %a0, lower = {lower} : {t}\n%z = stablehlo.constant dense<{zero}> : {t}\n"
            f"%1 = stablehlo.select %a1, %0, %z : {ty(keep)}, {t}\nreturn %1 : {t}",
            [spd, keep],
            t,
        )
        report.case(f"cholesky {lower} {name}", text, [spd, np.ascontiguousarray(keep)], *sum_of("cholesky", name))
    tri = (a + 3 * np.eye(n)).astype(ALL[name])
    for left, lower, unit, how in itertools.product(
        ("true", "false"), ("true", "false"), ("true", "false"), ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
    ):
        b = rng.standard_normal((2, n, 3) if left == "true" else (2, 3, n)).astype(ALL[name])
        text = program(
            f'%0 = "stablehlo.triangular_solve"(%a0, %a1) <{{left_side = {left}, lower = {lower}, '
            f"transpose_a = #stablehlo<transpose {how}>, unit_diagonal = {unit}}}> : ({ty(tri)}, {ty(b)}) -> {ty(b)}\n"
            f"return %0 : {ty(b)}",
            [tri, b],
            ty(b),
        )
        report.case(f"triangular_solve {left} {lower} {unit} {how} {name}", text, [tri, b], *sum_of("triangular_solve", name))
    report.close()


@pytest.mark.parametrize("algorithm", ["THREE_FRY", "PHILOX", "DEFAULT"])
def test_rng_bit_generator(algorithm):
    report = Report()
    for words in (2, 3):
        if words == 3 and algorithm == "THREE_FRY":
            continue
        state = np.array([0x0123456789ABCDEF, 0xFFFFFFFFFFFFFFFD, 7][:words], np.uint64)
        for name in ("ui8", "ui16", "ui32", "ui64"):
            for shape in ([], [7], [3, 5], [4, 2, 3]):
                r = tensor(shape, name)
                text = program(
                    f"%0, %1 = stablehlo.rng_bit_generator %a0, algorithm = {algorithm} : ({ty(state)}) -> ({ty(state)}, {r})\n"
                    f"return %0, %1 : {ty(state)}, {r}",
                    [state],
                    [ty(state), r],
                )
                report.case(f"{algorithm} {words} {name} {shape}", text, [state])
    report.close()


def test_bitcast():
    report = Report()
    sizes = {"ui4": 4, "i4": 4, "ui8": 8, "i8": 8, "f8E5M2": 8, "f8E4M3FN": 8, "i16": 16, "bf16": 16, "f16": 16,
             "i32": 32, "f32": 32, "ui32": 32, "i64": 64, "f64": 64, "complex<f32>": 64}  # fmt: skip
    for (a, m), (b, n) in itertools.product(sizes.items(), sizes.items()):
        x = values(a, 6 * max(n // m, 1), special=a in INTS).reshape([6, n // m] if n > m else [6])
        shape = [6, m // n] if m > n else [6]
        r = tensor(shape, b)
        text = program(f"%0 = stablehlo.bitcast_convert %a0 : ({ty(x)}) -> {r}\nreturn %0 : {r}", [x], r)
        report.case(f"bitcast {a} to {b}", text, [x])
    report.close()


# f8E5M2FNUZ has smaller exponents than some formats to which values are rounded. XLA keeps such exponents.
@over([n for n in FLOATS | NARROW if n != "f8E5M2FNUZ"])
def test_reduce_precision(name):
    report = Report()
    x = values(name, 64)
    for e, m in ((8, 7), (5, 10), (4, 3), (5, 2), (11, 52)):
        text = program(
            f"%0 = stablehlo.reduce_precision %a0, format = e{e}m{m} : {ty(x)}\nreturn %0 : {ty(x)}", [x], ty(x)
        )
        report.case(f"reduce_precision e{e}m{m} {name}", text, [x])
    report.close()


def test_map_and_branches_in_regions():
    report = Report()
    x, y = values("f32", 12, special=False).reshape(3, 4), values("f32", 12, seed=1, special=False).reshape(3, 4)
    t, s = ty(x), "tensor<f32>"
    text = program(
        f'%0 = "stablehlo.map"(%a0, %a1) <{{dimensions = array<i64: 0, 1>}}> ({{\n^bb0(%x: {s}, %y: {s}):\n'
        f'%2 = stablehlo.multiply %x, %y : {s}\n%3 = stablehlo.sine %2 : {s}\n"stablehlo.return"(%3) : ({s}) -> ()\n}}) : '
        f"({t}, {t}) -> {t}\nreturn %0 : {t}",
        [x, y],
        t,
    )
    report.case("map", text, [x, y], ulp_of("sine", "f32"))
    text = program(
        f'%z = stablehlo.constant dense<0.0> : {s}\n%0 = "stablehlo.reduce"(%a0, %z) <{{dimensions = array<i64: 1>}}> ({{\n'
        f"^bb0(%x: {s}, %y: {s}):\n%c = stablehlo.compare GT, %y, %x : ({s}, {s}) -> tensor<i1>\n"
        f'%r = "stablehlo.if"(%c) ({{\n%n = stablehlo.add %y, %x : {s}\n"stablehlo.return"(%n) : ({s}) -> ()\n}}, {{\n'
        f'"stablehlo.return"(%x) : ({s}) -> ()\n}}) : (tensor<i1>) -> {s}\n"stablehlo.return"(%r) : ({s}) -> ()\n}}) : '
        f"({t}, {s}) -> tensor<3xf32>\nreturn %0 : tensor<3xf32>",
        [x],
        "tensor<3xf32>",
    )
    report.case("branch in a reducer", text, [x], 8)
    report.close()


def test_shapes_as_operands():
    report = Report()
    x = values("f32", 6, special=False).reshape(2, 3)
    pad = "dense<[1, 2]> : tensor<2xi64>"
    zero = "dense<0> : tensor<2xi64>"
    cases = {
        "dynamic_reshape": ("%s = stablehlo.constant dense<[3, 2]> : tensor<2xi64>\n"
                            "%0 = stablehlo.dynamic_reshape %a0, %s : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<3x2xf32>",
                            "tensor<3x2xf32>"),
        "dynamic_broadcast_in_dim": (
            "%s = stablehlo.constant dense<[4, 2, 3]> : tensor<3xi64>\n"
            "%0 = stablehlo.dynamic_broadcast_in_dim %a0, %s, dims = [1, 2] : (tensor<2x3xf32>, tensor<3xi64>) -> tensor<4x2x3xf32>",
            "tensor<4x2x3xf32>"),
        "dynamic_iota": ("%s = stablehlo.constant dense<[4, 5]> : tensor<2xi64>\n"
                         "%0 = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi64>) -> tensor<4x5xf32>", "tensor<4x5xf32>"),
        "dynamic_pad": (f"%l = stablehlo.constant {pad}\n%z = stablehlo.constant {zero}\n%v = stablehlo.constant dense<1.0> : tensor<f32>\n"
                        "%0 = stablehlo.dynamic_pad %a0, %v, %l, %z, %z : (tensor<2x3xf32>, tensor<f32>, tensor<2xi64>, tensor<2xi64>, "
                        "tensor<2xi64>) -> tensor<3x5xf32>", "tensor<3x5xf32>"),
        "real_dynamic_slice": (f"%s = stablehlo.constant dense<[0, 1]> : tensor<2xi64>\n%l = stablehlo.constant dense<[2, 3]> : tensor<2xi64>\n"
                               "%o = stablehlo.constant dense<1> : tensor<2xi64>\n"
                               "%0 = stablehlo.real_dynamic_slice %a0, %s, %l, %o : (tensor<2x3xf32>, tensor<2xi64>, tensor<2xi64>, "
                               "tensor<2xi64>) -> tensor<2x2xf32>", "tensor<2x2xf32>"),
        "get_dimension_size": ("%0 = stablehlo.get_dimension_size %a0, dim = 1 : (tensor<2x3xf32>) -> tensor<i32>", "tensor<i32>"),
    }  # fmt: skip
    for op, (body, result) in cases.items():
        report.case(op, program(f"{body}\nreturn %0 : {result}", [x], result), [x])
    report.close()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4), (1, 1)])
def test_qr(dtype, shape):
    rng = np.random.default_rng(0)
    a = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if np.issubdtype(dtype, np.complexfloating) else 0)
    a = a.astype(dtype)
    for mode in ("reduced", "complete", "r"):
        with jax.default_device(OURS):
            ours = jax.jit(lambda a: jax.numpy.linalg.qr(a, mode=mode))(jax.device_put(a, OURS))
        with jax.default_device(THEIRS):
            theirs = jax.jit(lambda a: jax.numpy.linalg.qr(a, mode=mode))(jax.device_put(a, THEIRS))
        tolerance = LIMITS["qr"].real * float(np.finfo(dtype).eps)
        for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=tolerance, atol=tolerance)


def test_top_k():
    x = np.random.default_rng(0).permutation(600).astype(np.float32).reshape(2, 300)

    def min_k(x):
        return jax.lax.approx_min_k(x, 7, reduction_dimension=int(np.argmax(x.shape)), recall_target=1.0)

    for function in (
        lambda x: jax.lax.top_k(x, 7),
        lambda x: jax.lax.approx_max_k(x, 7, recall_target=1.0),
        min_k,
    ):
        for given in (x, x.T.copy()):
            if given.shape[-1] < 7 and function is not min_k:
                continue
            ours, theirs = (
                jax.tree.map(np.asarray, jax.jit(function)(jax.device_put(given, d))) for d in (OURS, THEIRS)
            )
            np.testing.assert_array_equal(ours[0], theirs[0])
            np.testing.assert_array_equal(ours[1], theirs[1])


def test_functions_called_by_their_mhlo_names():
    x = np.linspace(-0.9, 0.9, 19)
    for name, want in {
        "erf": jax.scipy.special.erf, "asin": np.arcsin, "acos": np.arccos, "atanh": np.arctanh, "sinh": np.sinh,
        "cosh": np.cosh, "asinh": np.arcsinh,
    }.items():  # fmt: skip
        t = ty(x)
        p = program(f"%0 = stablehlo.custom_call @mhlo.{name}(%a0) : ({t}) -> {t}\nreturn %0 : {t}", [x], t)
        np.testing.assert_allclose(run(OURS, [p])[0][0], np.asarray(want(x)), rtol=1e-14)
