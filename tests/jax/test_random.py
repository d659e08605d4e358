"""Tests ops with random shapes, attributes and element types on our device and on JAX's CPU backend.

`PJRT_CPU_RANDOM_CASES` is the number of programs (400), and `PJRT_CPU_RANDOM_SEED` is the first seed (0). A failure
names the seed of its program. The same seed creates the same program again.
"""

import os

import ml_dtypes
import numpy as np
import pytest
from test_ops import (
    ALL, BOOL, COMPLEX, FLOATS, INTS, NARROW, Report, legal_binary, legal_unary, program, sum_of, tensor, ty, ulp_of,
    values,
)  # fmt: skip

CASES = int(os.environ.get("PJRT_CPU_RANDOM_CASES", "400"))
SEED = int(os.environ.get("PJRT_CPU_RANDOM_SEED", "0"))
BATCH = 40

# XLA's CPU backend aborts on some programs that move elements narrower than a byte.
MOVED = [n for n in ALL if n not in ("i2", "i4", "ui2", "ui4", "f4E2M1FN")]
WIDE = ["i8", "i32", "i64", "ui8", "ui32", "f32", "f64", "bf16", "f16"]


def shape(rng, rank=None, most=6, empty=True):
    rank = int(rng.integers(0, 5)) if rank is None else rank
    extents = [int(e) for e in rng.integers(1, most + 1, rank)]
    if empty and rank and rng.random() < 0.05:
        extents[int(rng.integers(rank))] = 0
    return extents


def array(rng, name, extents, special=None):
    special = bool(rng.random() < 0.3) if special is None else special
    count = int(np.prod(extents))
    seed = int(rng.integers(1 << 30))
    data = values(name, max(count, 1), seed=seed, special=special)[:count]
    return np.array(rng.permutation(data)).reshape(extents)


def pick(rng, names):
    return str(rng.choice(list(names)))


def listed(numbers):
    return "[" + ", ".join(map(str, numbers)) + "]"


def i64s(numbers):
    return "array<i64" + (": " + ", ".join(map(str, numbers)) if len(numbers) else "") + ">"


def straight(rng, name, x, body, result, *more, **limits):
    return program(f"{body}\nreturn %0 : {result}", [x, *more], result), limits


def transpose(rng):
    name = pick(rng, MOVED)
    x = array(rng, name, shape(rng))
    order = [int(d) for d in rng.permutation(x.ndim)]
    result = tensor([x.shape[d] for d in order], name)
    return straight(rng, name, x, f"%0 = stablehlo.transpose %a0, dims = {listed(order)} : ({ty(x)}) -> {result}", result)


def reverse(rng):
    name = pick(rng, MOVED)
    x = array(rng, name, shape(rng))
    dims = sorted(int(d) for d in rng.permutation(x.ndim)[: rng.integers(0, x.ndim + 1)])
    return straight(rng, name, x, f"%0 = stablehlo.reverse %a0, dims = {listed(dims)} : {ty(x)}", ty(x))


def slices(rng):
    name = pick(rng, MOVED)
    x = array(rng, name, shape(rng, most=9))
    parts, extents = [], []
    for extent in x.shape:
        low, high = sorted(int(v) for v in rng.integers(0, extent + 1, 2))
        step = int(rng.integers(1, 4))
        parts.append(f"{low}:{high}:{step}")
        extents.append(-(-(high - low) // step))
    result = tensor(extents, name)
    return straight(rng, name, x, f"%0 = stablehlo.slice %a0 [{', '.join(parts)}] : ({ty(x)}) -> {result}", result)


def pad(rng):
    name = pick(rng, MOVED)
    x, v = array(rng, name, shape(rng)), array(rng, name, [])
    low, high, inside, extents = [], [], [], []
    for extent in x.shape:
        between = int(rng.integers(0, 3))
        spread = extent + max(extent - 1, 0) * between
        before, after = (int(v) for v in rng.integers(-2, 4, 2))
        if spread + before + after < 0:
            before = after = 0
        low, high, inside = [*low, before], [*high, after], [*inside, between]
        extents.append(spread + before + after)
    result = tensor(extents, name)
    text = (
        f"%0 = stablehlo.pad %a0, %a1, low = {listed(low)}, high = {listed(high)}, interior = {listed(inside)} : "
        f"({ty(x)}, {ty(v)}) -> {result}"
    )
    return straight(rng, name, x, text, result, v)


def concatenate(rng):
    name = pick(rng, MOVED)
    first = shape(rng, rank=int(rng.integers(1, 5)))
    d = int(rng.integers(len(first)))
    parts = []
    for _ in range(int(rng.integers(1, 5))):
        extents = list(first)
        extents[d] = int(rng.integers(0, 5))
        parts.append(array(rng, name, extents))
    extents[d] = sum(p.shape[d] for p in parts)
    result = tensor(extents, name)
    text = (
        f"%0 = stablehlo.concatenate {', '.join(f'%a{i}' for i in range(len(parts)))}, dim = {d} : "
        f"({', '.join(map(ty, parts))}) -> {result}"
    )
    return straight(rng, name, parts[0], text, result, *parts[1:])


def broadcast(rng):
    name = pick(rng, MOVED)
    to = shape(rng, rank=int(rng.integers(0, 5)))
    dims = sorted(int(d) for d in rng.permutation(len(to))[: rng.integers(0, len(to) + 1)])
    x = array(rng, name, [1 if rng.random() < 0.3 else to[d] for d in dims])
    result = tensor(to, name)
    text = f"%0 = stablehlo.broadcast_in_dim %a0, dims = {listed(dims)} : ({ty(x)}) -> {result}"
    return straight(rng, name, x, text, result)


def dynamic_slices(rng):
    name = pick(rng, MOVED)
    x = array(rng, name, shape(rng, most=7, empty=False))
    sizes = [int(rng.integers(0 if rng.random() < 0.1 else 1, e + 1)) for e in x.shape]
    index = pick(rng, ["i32", "i64", "ui32", "i8", "ui8"])
    starts = [array(rng, index, [], special=False) for _ in sizes]
    names = "".join(f", %a{i + 1}" for i in range(len(starts)))
    types = "".join(f", {ty(s)}" for s in starts)
    result = tensor(sizes, name)
    if rng.random() < 0.5:
        text = f"%0 = stablehlo.dynamic_slice %a0{names}, sizes = {listed(sizes)} : ({ty(x)}{types}) -> {result}"
        return straight(rng, name, x, text, result, *starts)
    u = array(rng, name, sizes)
    text = f"%0 = stablehlo.dynamic_update_slice %a0, %a{len(starts) + 1}{names} : ({ty(x)}, {ty(u)}{types}) -> {ty(x)}"
    return straight(rng, name, x, text, ty(x), *starts, u)


def gather(rng):
    name = pick(rng, MOVED)
    x = array(rng, name, shape(rng, rank=int(rng.integers(1, 5)), empty=False))
    rank = x.ndim
    mapped = [int(d) for d in rng.permutation(rank)[: rng.integers(1, rank + 1)]]
    sizes = [int(rng.integers(1, e + 1)) for e in x.shape]
    collapsed = sorted(d for d in range(rank) if sizes[d] == 1 and rng.random() < 0.7)
    batch = shape(rng, rank=int(rng.integers(0, 3)), most=4)
    vector = int(rng.integers(0, len(batch) + 1))
    with_vector = [*batch[:vector], len(mapped), *batch[vector:]]
    if len(mapped) == 1 and rng.random() < 0.3:
        with_vector, vector = batch, len(batch)
    i = array(rng, pick(rng, ["i32", "i64", "ui32"]), with_vector, special=False)
    window = [sizes[d] for d in range(rank) if d not in collapsed]
    whole = len(batch) + len(window)
    offsets = sorted(int(d) for d in rng.permutation(whole)[: len(window)])
    left, inside = iter(batch), iter(window)
    result = tensor([next(inside) if d in offsets else next(left) for d in range(whole)], name)
    text = (
        f'%0 = "stablehlo.gather"(%a0, %a1) <{{dimension_numbers = #stablehlo.gather<offset_dims = {listed(offsets)}, '
        f"collapsed_slice_dims = {listed(collapsed)}, start_index_map = {listed(mapped)}, index_vector_dim = {vector}>, "
        f"slice_sizes = {i64s(sizes)}}}> : ({ty(x)}, {ty(i)}) -> {result}"
    )
    return straight(rng, name, x, text, result, i)


def body(op, name):
    s = tensor([], name)
    return f'^bb0(%x: {s}, %y: {s}):\n%r = stablehlo.{op} %x, %y : {s}\n"stablehlo.return"(%r) : ({s}) -> ()\n'


def reducer(rng, name):
    """An op for a reduction, and its initial value."""
    if name in BOOL:
        ops = ["and", "or"]
    else:
        ops = ["add"] + ([] if name in COMPLEX else ["maximum", "minimum"]) + (["and", "or", "xor"] if name in INTS else [])
    op = pick(rng, ops)
    dtype = ALL[name]
    # Use the neutral element, because an implementation may apply the initial value more than once.
    if op in ("maximum", "minimum"):
        least, most = (-np.inf, np.inf) if name in FLOATS else (ml_dtypes.iinfo(dtype).min, ml_dtypes.iinfo(dtype).max)
        start = least if op == "maximum" else most
    elif op == "and":
        start = True if name in BOOL else ml_dtypes.iinfo(dtype).max if name.startswith("ui") else -1
    else:
        start = 0
    return op, np.array(start).astype(dtype)


REDUCED = [*WIDE, "i16", "ui16", "ui64", "i1", "complex<f32>", "complex<f64>"]


def reduce(rng):
    name = pick(rng, REDUCED)
    x = array(rng, name, shape(rng, most=9), special=False)
    op, start = reducer(rng, name)
    dims = sorted(int(d) for d in rng.permutation(x.ndim)[: rng.integers(0, x.ndim + 1)])
    result = tensor([e for d, e in enumerate(x.shape) if d not in dims], name)
    text = (
        f'%0 = "stablehlo.reduce"(%a0, %a1) <{{dimensions = {i64s(dims)}}}> ({{\n{body(op, name)}}}) : '
        f"({ty(x)}, {ty(start)}) -> {result}"
    )
    ulp, atol = sum_of("reduce", name)
    # The summands have absolute values of up to 4.
    return straight(rng, name, x, text, result, start, ulp=ulp, atol=4 * atol)


def reduce_window(rng):
    name = pick(rng, WIDE)
    x = array(rng, name, shape(rng, most=8, rank=int(rng.integers(1, 4)), empty=False), special=False)
    op, start = reducer(rng, name)
    windows, strides, base, dilations, padding, extents = [], [], [], [], [], []
    for extent in x.shape:
        window, stride, dilation = (int(v) for v in rng.integers(1, 4, 3))
        spread = int(rng.integers(1, 3))
        low, high = (int(v) for v in rng.integers(0, 3, 2))
        padded = (extent - 1) * spread + 1 + low + high
        reach = (window - 1) * dilation + 1
        if reach > padded:
            window, reach = 1, 1
        windows.append(window), strides.append(stride), base.append(spread), dilations.append(dilation)
        padding.append([low, high])
        extents.append((padded - reach) // stride + 1)
    result = tensor(extents, name)
    text = (
        f'%0 = "stablehlo.reduce_window"(%a0, %a1) <{{window_dimensions = {i64s(windows)}, window_strides = '
        f"{i64s(strides)}, base_dilations = {i64s(base)}, window_dilations = {i64s(dilations)}, padding = "
        f"dense<{padding}> : tensor<{len(padding)}x2xi64>}}> ({{\n{body(op, name)}}}) : ({ty(x)}, {ty(start)}) -> {result}"
    )
    ulp, atol = sum_of("reduce_window", name)
    return straight(rng, name, x, text, result, start, ulp=ulp, atol=4 * atol)


def scatter(rng):
    name = pick(rng, WIDE)
    x = array(rng, name, shape(rng, rank=int(rng.integers(1, 4)), empty=False), special=False)
    rank = x.ndim
    mapped = [int(d) for d in rng.permutation(rank)[: rng.integers(1, rank + 1)]]
    sizes = [int(rng.integers(1, e + 1)) for e in x.shape]
    inserted = sorted(d for d in range(rank) if sizes[d] == 1 and rng.random() < 0.7)
    batch = shape(rng, rank=int(rng.integers(0, 3)), most=4)
    i = array(rng, pick(rng, ["i32", "i64"]), [*batch, len(mapped)], special=False)
    window = [sizes[d] for d in range(rank) if d not in inserted]
    whole = len(batch) + len(window)
    places = sorted(int(d) for d in rng.permutation(whole)[: len(window)])
    left, inside = iter(batch), iter(window)
    u = array(rng, name, [next(inside) if d in places else next(left) for d in range(whole)], special=False)
    op, _ = reducer(rng, name)
    text = (
        f'%0 = "stablehlo.scatter"(%a0, %a1, %a2) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = '
        f"{listed(places)}, inserted_window_dims = {listed(inserted)}, scatter_dims_to_operand_dims = {listed(mapped)}, "
        f"index_vector_dim = {len(batch)}>}}> ({{\n{body(op, name)}}}) : ({ty(x)}, {ty(i)}, {ty(u)}) -> {ty(x)}"
    )
    ulp, atol = sum_of("scatter", name)
    return straight(rng, name, x, text, ty(x), i, u, ulp=ulp, atol=4 * atol)


def dot_general(rng):
    name = pick(rng, ["f32", "f32", "f64", "bf16", "f16", "i32", "i8", "ui8", "complex<f32>", "complex<f64>"])
    kinds = {kind: shape(rng, rank=int(rng.integers(0, 3)), most=5) for kind in ("batch", "contract", "left", "right")}
    sides = []
    for free in ("left", "right"):
        labels = [(k, n) for k in ("batch", "contract", free) for n in range(len(kinds[k]))]
        order = [labels[int(p)] for p in rng.permutation(len(labels))]
        sides.append(order)
    a, b = (
        array(rng, name, [kinds[k][n] for k, n in side], special=name in INTS) for side in sides
    )
    where = {k: [[s.index((k, n)) for n in range(len(kinds[k]))] for s in sides] for k in ("batch", "contract")}
    free = [[kinds[k][n] for k, n in s if k == f] for s, f in zip(sides, ("left", "right"), strict=True)]
    result = tensor([*kinds["batch"], *free[0], *free[1]], name)
    batching = f", batching_dims = {where['batch'][0]} x {where['batch'][1]}" if kinds["batch"] else ""
    text = (
        f"%0 = stablehlo.dot_general %a0, %a1{batching}, contracting_dims = {where['contract'][0]} x "
        f"{where['contract'][1]} : ({ty(a)}, {ty(b)}) -> {result}"
    )
    ulp, atol = sum_of("dot_general", name)
    # The summands are products with absolute values of up to 16.
    return straight(rng, name, a, text, result, b, ulp=ulp, atol=16 * atol)


def convolution(rng):
    name = pick(rng, ["f32", "f32", "f64", "bf16", "i32"])
    spatial = int(rng.integers(1, 4))
    groups = int(rng.choice([1, 1, 1, 2, 3]))
    batches = int(rng.choice([1, 1, 2])) if groups == 1 else 1
    features, outputs = int(rng.integers(1, 4)), int(rng.integers(1, 4)) * groups * batches
    batch = int(rng.integers(1, 3)) * batches
    strides, low, high, lhs, rhs, reverse, image, kernel, made = [], [], [], [], [], [], [], [], []
    for _ in range(spatial):
        extent, taps = int(rng.integers(1, 7)), int(rng.integers(1, 4))
        a, b, stride = (int(v) for v in rng.integers(1, 3, 3))
        before, after = (int(v) for v in rng.integers(-1, 3, 2))
        whole = (extent - 1) * a + 1 + before + after
        reach = (taps - 1) * b + 1
        if whole < reach:
            before, after = reach, reach
            whole = (extent - 1) * a + 1 + before + after
        strides.append(stride), low.append(before), high.append(after), lhs.append(a), rhs.append(b)
        reverse.append(bool(rng.random() < 0.2))
        image.append(extent), kernel.append(taps), made.append((whole - reach) // stride + 1)

    def layout(names):
        return [names[int(p)] for p in rng.permutation(len(names))]

    axes = [str(d) for d in range(spatial)]
    of_x, of_k, of_y = layout(["b", "f", *axes]), layout(["i", "o", *axes]), layout(["b", "f", *axes])
    x = array(rng, name, [{"b": batch, "f": features * groups}.get(c) or image[int(c)] for c in of_x], special=False)
    k = array(rng, name, [{"i": features, "o": outputs}.get(c) or kernel[int(c)] for c in of_k], special=False)
    result = tensor([{"b": batch // batches, "f": outputs}.get(c) or made[int(c)] for c in of_y], name)
    pads = ", ".join(f"[{a}, {b}]" for a, b in zip(low, high, strict=True))
    flags = ", ".join(str(r).lower() for r in reverse)
    text = (
        f"%0 = stablehlo.convolution(%a0, %a1) dim_numbers = [{', '.join(of_x)}]x[{', '.join(of_k)}]->[{', '.join(of_y)}], "
        f"window = {{stride = {listed(strides)}, pad = [{pads}], lhs_dilate = {listed(lhs)}, rhs_dilate = {listed(rhs)}, "
        f"reverse = [{flags}]}} {{batch_group_count = {batches} : i64, feature_group_count = {groups} : i64}} : "
        f"({ty(x)}, {ty(k)}) -> {result}"
    )
    ulp, atol = sum_of("convolution", name)
    return straight(rng, name, x, text, result, k, ulp=ulp, atol=16 * atol)


def sort(rng):
    name = pick(rng, ["i8", "i32", "i64", "ui8", "ui32", "f32", "f64", "bf16", "f16"])
    x = array(rng, name, shape(rng, rank=int(rng.integers(1, 4)), most=12), special=name in INTS)
    i = np.arange(x.size, dtype=np.int32).reshape(x.shape)
    d, way = int(rng.integers(x.ndim)), pick(rng, ["LT", "GT"])
    s = tensor([], name)
    text = (
        f'%0:2 = "stablehlo.sort"(%a0, %a1) <{{dimension = {d} : i64, is_stable = true}}> ({{\n'
        f"^bb0(%x: {s}, %y: {s}, %i: tensor<i32>, %j: tensor<i32>):\n"
        f"%c = stablehlo.compare {way}, %x, %y : ({s}, {s}) -> tensor<i1>\n"
        f'"stablehlo.return"(%c) : (tensor<i1>) -> ()\n}}) : ({ty(x)}, {ty(i)}) -> ({ty(x)}, {ty(i)})'
    )
    made = [ty(x), ty(i)]
    return program(f"{text}\nreturn %0#0, %0#1 : {', '.join(made)}", [x, i], made), {}


def chain(rng):
    """A chain of elementwise ops, with broadcasts and reductions between them, which the engine fuses."""
    name = pick(rng, ["f32", "f32", "f64", "bf16", "i32", "i64", "ui8", "i16"])
    x = array(rng, name, shape(rng, most=20, rank=int(rng.integers(1, 4)), empty=False), special=False)
    y = array(rng, name, x.shape, special=False)
    t, lines, made = ty(x), [], ["%a0", "%a1"]
    exact = ["add", "subtract", "multiply", "maximum", "minimum"] + (["and", "or", "xor"] if name in INTS else [])
    ones = ["negate", "abs"] if not name.startswith("ui") else ["negate"]
    for n in range(int(rng.integers(2, 12))):
        kind = rng.random()
        a, b = pick(rng, made), pick(rng, made)
        if kind < 0.5:
            lines.append(f"%v{n} = stablehlo.{pick(rng, exact)} {a}, {b} : {t}")
        elif kind < 0.65:
            lines.append(f"%v{n} = stablehlo.{pick(rng, ones)} {a} : {t}")
        elif kind < 0.8:
            lines.append(f"%p{n} = stablehlo.compare {pick(rng, ['LT', 'GE', 'EQ'])}, {a}, {b} : ({t}, {t}) -> {tensor(x.shape, 'i1')}")
            lines.append(f"%v{n} = stablehlo.select %p{n}, {b}, {a} : {tensor(x.shape, 'i1')}, {t}")
        elif kind < 0.9:
            d = int(rng.integers(x.ndim))
            rest = [e for k, e in enumerate(x.shape) if k != d]
            dims = [k for k in range(x.ndim) if k != d]
            r, s = tensor(rest, name), tensor([], name)
            # Start with the neutral element of the op.
            op, start, of = ("add", "0", "i32") if name in INTS else ("maximum", "-1.0e30", "f32")
            lines.append(f"%z{n} = stablehlo.constant dense<{start}> : tensor<{of}>")
            lines.append(f"%s{n} = stablehlo.convert %z{n} : (tensor<{of}>) -> {s}")
            lines.append(f'%r{n} = "stablehlo.reduce"({a}, %s{n}) <{{dimensions = {i64s([d])}}}> ({{\n{body(op, name)}}}) : ({t}, {s}) -> {r}')
            lines.append(f"%v{n} = stablehlo.broadcast_in_dim %r{n}, dims = {listed(dims)} : ({r}) -> {t}")
        else:
            lines.append(f"%v{n} = stablehlo.reverse {a}, dims = [{int(rng.integers(x.ndim))}] : {t}")
        made.append(f"%v{n}")
    lines.append(f"%0 = stablehlo.add {made[-1]}, {pick(rng, made)} : {t}")
    # Intermediate results may or may not be rounded.
    return straight(rng, name, x, "\n".join(lines), t, y, ulp=64, atol=sum_of("reduce", name)[1] * 64, specials=False)


def unary(rng):
    ops = ["abs", "negate", "sign", "ceil", "floor", "round_nearest_even", "sqrt", "rsqrt", "cbrt", "exponential",
           "exponential_minus_one", "log", "log_plus_one", "logistic", "tanh", "sine", "cosine", "tan", "not", "popcnt"]  # fmt: skip
    op = pick(rng, ops)
    name = pick(rng, [n for n in ALL if legal_unary(op, n) and not (n in COMPLEX and op == "abs")])
    x = array(rng, name, shape(rng, most=9))
    text = f"%0 = stablehlo.{op} %a0 : {ty(x)}"
    return straight(rng, name, x, text, ty(x), ulp=ulp_of(op, name), specials=name not in COMPLEX)


def binary(rng):
    op = pick(rng, ["add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "atan2", "and", "xor",
                    "shift_left", "shift_right_logical", "shift_right_arithmetic"])  # fmt: skip
    name = pick(rng, [n for n in ALL if legal_binary(op, n)])
    x = array(rng, name, shape(rng, most=9))
    y = array(rng, name, x.shape)
    text = f"%0 = stablehlo.{op} %a0, %a1 : {ty(x)}"
    return straight(rng, name, x, text, ty(x), y, ulp=ulp_of(op, name), specials=name not in COMPLEX)


def convert(rng):
    name, to = pick(rng, [n for n in INTS if n not in ("i2", "ui2")]), pick(rng, [n for n in ALL if n not in NARROW])
    x = array(rng, name, shape(rng, most=9))
    result = tensor(x.shape, to)
    return straight(rng, name, x, f"%0 = stablehlo.convert %a0 : ({ty(x)}) -> {result}", result)


MAKERS = [
    transpose, reverse, slices, pad, concatenate, broadcast, dynamic_slices, gather, reduce, reduce, reduce_window,
    scatter, dot_general, dot_general, convolution, convolution, sort, chain, chain, chain, unary, binary, convert,
]  # fmt: skip


@pytest.mark.parametrize("batch", range(-(-CASES // BATCH)))
def test_random_programs(batch):
    report = Report()
    for seed in range(SEED + batch * BATCH, SEED + min((batch + 1) * BATCH, CASES)):
        rng = np.random.default_rng(seed)
        maker = MAKERS[int(rng.integers(len(MAKERS)))]
        with np.errstate(all="ignore"):
            made, limits = maker(rng)
        report.case(f"seed {seed}: {maker.__name__}", made, made.inputs, **limits)
    report.close()


def test_float_types_are_all_covered():
    """Checks that the lists above contain all types, so that new ones must be added."""
    assert set(FLOATS) <= set(WIDE)
