#!/usr/bin/env python3
"""Writes programs with inputs, and with the results that JAX's own CPU backend computes for them.

    python make_expected.py OUT_DIR [--seed N] [--rounds N] [--only REGEX] [--small]

needs `pip install jax==0.10.2 jaxlib==0.10.2 numpy`. Every case has two files. The first line of NAME.mlir contains the
tolerances. NAME.bin contains the inputs and then the expected outputs, each row-major, with one byte per truth value.
`tests/expected.rs` runs them: those in tests/data (created with --small --only "$(cat data/selection)"), and those of
any directory in PJRT_CPU_CASES.
"""
import argparse, os, re
os.environ.setdefault("JAX_PLATFORMS", "cpu")
import numpy as np
import jax, jax.numpy as jnp
from jax import lax
from jaxlib.mlir.dialects import stablehlo
from jaxlib.mlir.passmanager import PassManager
import ml_dtypes

stablehlo.register_stablehlo_passes()

jax.config.update("jax_enable_x64", True)

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--rounds", type=int, default=1)
parser.add_argument("--only", default="")
parser.add_argument("--small", action="store_true", help="keep only cases below 3.6 KB")
args = parser.parse_args()
os.makedirs(args.out, exist_ok=True)
rng = np.random.default_rng(args.seed)

FLOATS = ["float32", "float64", "bfloat16", "float16"]
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
TOLERANCE = {"float32": (2e-6, 1e-6), "float64": (1e-12, 1e-12), "bfloat16": (1.6e-2, 1e-3), "float16": (2e-3, 1e-4)}
written, failed = 0, []


def data(shape, dtype, special=True, low=None, high=None):
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        lo, hi = (info.min, info.max) if low is None else (low, high)
        x = rng.integers(lo, hi, shape, dtype=np.int64 if dtype.kind == "i" else np.uint64, endpoint=True).astype(dtype)
        if special and low is None and x.size > 4:
            flat = x.reshape(-1)
            flat[:4] = [0, 1, info.max, info.min]
        return x
    x = rng.standard_normal(shape) * (3 if low is None else 1)
    if low is not None:
        x = rng.uniform(low, high, shape)
    x = np.asarray(x).astype(dtype)
    if special and low is None and x.size > 8:
        flat = x.reshape(-1)
        flat[:7] = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0]).astype(dtype)
    return x


def program(lowered):
    """The program in the form that plugins receive: without chlo ops, which JAX's serializer expands."""
    module = lowered.compiler_ir("stablehlo")
    with module.context:
        PassManager.parse("builtin.module(func.func(chlo-legalize-to-stablehlo))").run(module.operation)
    return str(module)


def case(name, f, *inputs, tol=None, platform="cpu"):
    global written
    if not re.search(args.only, name):
        return
    try:
        jitted = jax.jit(f)
        text = program(jitted.trace(*inputs).lower(lowering_platforms=(platform,)))
        outs = jax.tree.leaves(jitted(*inputs))
    except Exception as e:  # a combination JAX itself refuses
        failed.append((name, str(e).splitlines()[0][:100]))
        return
    kept = jitted.lower(*inputs)._lowering.compile_args.get("kept_var_idx")
    flat = jax.tree.leaves(inputs)
    if kept is not None:
        flat = [x for i, x in enumerate(flat) if i in kept]
    if tol is None:
        kinds = [str(np.asarray(o).dtype) for o in outs] + [str(np.asarray(i).dtype) for i in flat]
        tols = [TOLERANCE[k] for k in kinds if k in TOLERANCE] or [(0, 0)]
        tol = max(tols)
    blob = b"".join(np.ascontiguousarray(np.asarray(x)).tobytes() for x in flat + outs)
    if args.small and len(blob) + len(text) > 3600:
        return
    with open(os.path.join(args.out, name + ".mlir"), "w") as file:
        file.write(f"// rtol={tol[0]} atol={tol[1]}\n{text}")
    with open(os.path.join(args.out, name + ".bin"), "wb") as file:
        file.write(blob)
    written += 1


def shape(rank=None, most=6):
    rank = rng.integers(0, 5) if rank is None else rank
    return tuple(int(d) for d in rng.integers(1, most + 1, rank))


def elementwise(r):
    s = shape() if r else (13,)
    unary = dict(abs=jnp.abs, neg=lambda x: -x, sign=jnp.sign, cbrt=lax.cbrt, ceil=lax.ceil, floor=lax.floor,
                 round_afz=lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
                 round_even=lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), cos=lax.cos, sin=lax.sin,
                 tan=lax.tan, tanh=lax.tanh, exp=lax.exp, expm1=lax.expm1, log=lax.log, log1p=lax.log1p,
                 logistic=lax.logistic, rsqrt=lax.rsqrt, sqrt=lax.sqrt, is_finite=lax.is_finite)
    for d in FLOATS:
        for name, f in unary.items():
            case(f"unary_{name}_{d}_{r}", f, data(s, d))
    for d in INTS:
        for name, f in dict(abs=lax.abs, neg=lambda x: -x, sign=lax.sign, popcnt=lax.population_count, clz=lax.clz,
                            invert=lax.bitwise_not).items():
            case(f"unary_{name}_{d}_{r}", f, data(s, d))
    binary = dict(add=lax.add, sub=lax.sub, mul=lax.mul, div=lax.div, rem=lax.rem, max=lax.max, min=lax.min, pow=lax.pow)
    compare = dict(eq=lax.eq, ne=lax.ne, lt=lax.lt, le=lax.le, gt=lax.gt, ge=lax.ge)
    for d in FLOATS + INTS:
        for name, f in {**binary, **compare}.items():
            x, y = data(s, d), data(s, d)
            if name == "pow" and d in INTS:
                y = data(s, d, low=0, high=5)
            y = rng.permutation(y.reshape(-1)).reshape(s)
            case(f"binary_{name}_{d}_{r}", f, x, y)
    for d in INTS:
        for name, f in dict(shl=lax.shift_left, sra=lax.shift_right_arithmetic, srl=lax.shift_right_logical).items():
            bits = np.dtype(d).itemsize * 8
            case(f"binary_{name}_{d}_{r}", f, data(s, d), data(s, d, low=0, high=bits + 2))
    for d in INTS + ["bool"]:
        for name, f in dict(bitand=lax.bitwise_and, bitor=lax.bitwise_or, xor=lax.bitwise_xor).items():
            case(f"binary_{name}_{d}_{r}", f, data(s, d), data(s, d))
    for d in FLOATS:
        case(f"binary_atan2_{d}_{r}", lax.atan2, data(s, d), rng.permutation(data(s, d).reshape(-1)).reshape(s))
        case(f"misc_reduce_precision_{d}_{r}", lambda x: lax.reduce_precision(x, 5, 3), data(s, d))
        case(f"misc_nextafter_{d}_{r}", lambda x: x * 2 + 1 - jnp.where(x > 0, x, 0.5), data(s, d))
    for d in FLOATS + INTS:
        case(f"misc_clamp_{d}_{r}", lambda a, x, b: lax.clamp(a, x, b), data((), d, low=0, high=2), data(s, d), data((), d, low=3, high=5))
        case(f"misc_select_{d}_{r}", lax.select, data(s, "bool"), data(s, d), data(s, d))
    for a in FLOATS + INTS + ["bool"]:
        for b in FLOATS + INTS + ["bool"]:
            case(f"convert_{a}_{b}_{r}", lambda x: lax.convert_element_type(x, b), data(s, a))
    for a, b in [("float32", "uint32"), ("float64", "uint32"), ("uint8", "uint32"), ("bfloat16", "uint16"), ("int32", "int8")]:
        t = s + (4,) if a == "uint8" else s
        case(f"bitcast_{a}_{b}_{r}", lambda x: lax.bitcast_convert_type(x, b), data(t, a))
    case(f"misc_sortable_{r}", lambda x, y: (x < y) | jnp.isnan(x), data(s, "float32"), data(s, "float32"))


def shapes(r):
    for d in ["float32", "bfloat16", "int8", "int64", "bool"]:
        s = shape(rank=rng.integers(1, 5))
        x = data(s, d)
        n = len(s)
        case(f"shape_transpose_{d}_{r}", lambda x, p=tuple(int(i) for i in rng.permutation(n)): lax.transpose(x, p), x)
        case(f"shape_rev_{d}_{r}", lambda x: lax.rev(x, tuple(range(0, n, 2))), x)
        lo = [int(rng.integers(0, k)) for k in s]
        hi = [int(rng.integers(l, k + 1)) for l, k in zip(lo, s)]
        st = [int(rng.integers(1, 4)) for _ in s]
        case(f"shape_slice_{d}_{r}", lambda x: lax.slice(x, lo, hi, st), x)
        cfg = [(int(rng.integers(-2, 3)), int(rng.integers(-2, 3)), int(rng.integers(0, 3))) for _ in s]
        case(f"shape_pad_{d}_{r}", lambda x: lax.pad(x, np.asarray(1, d), cfg), x)
        ax = int(rng.integers(0, n))
        t = list(s); t[ax] = int(rng.integers(0, 4))
        case(f"shape_concat_{d}_{r}", lambda x, y: lax.concatenate([x, y, x], ax), x, data(tuple(t), d))
        big = tuple(int(k) for k in rng.integers(1, 4, 2)) + s
        case(f"shape_broadcast_{d}_{r}", lambda x: lax.broadcast_in_dim(x, big, tuple(range(2, 2 + n))), x)
        case(f"shape_reshape_{d}_{r}", lambda x: lax.reshape(lax.transpose(x, tuple(reversed(range(n)))), (x.size,)), x)
        sz = [int(rng.integers(0, k + 1)) for k in s]
        idx = [np.int32(rng.integers(-2, k + 2)) for k in s]
        case(f"shape_dynamic_slice_{d}_{r}", lambda x, *i: lax.dynamic_slice(x, i, sz), x, *idx)
        case(f"shape_dynamic_update_{d}_{r}", lambda x, u, *i: lax.dynamic_update_slice(x, u, i), x, data(tuple(sz), d), *idx)
    for d in ["float32", "int32", "uint8", "bfloat16"]:
        s = shape(rank=3)
        case(f"shape_iota_{d}_{r}", lambda x: x + lax.broadcasted_iota(d, s, int(rng.integers(0, 3))), data(s, d))


def reductions(r):
    ops = dict(sum=jnp.sum, prod=jnp.prod, max=jnp.max, min=jnp.min, argmax=jnp.argmax, argmin=jnp.argmin)
    for d in FLOATS + INTS:
        for name, f in ops.items():
            s = shape(rank=int(rng.integers(1, 5)))
            if rng.integers(0, 3) == 0:
                s = (int(rng.integers(60, 200)),) + s[:1]
            arg = name.startswith("arg")
            axes = int(rng.integers(0, len(s))) if arg else tuple(int(i) for i in range(len(s)) if rng.integers(0, 2)) or (0,)
            x = data(s, d, special=not name in ("sum", "prod"), low=None if d in INTS or name not in ("sum", "prod") else 0.5, high=1.5)
            tol = (1e-5, 1e-5) if d == "float32" else None
            case(f"reduce_{name}_{d}_{r}", lambda x: f(x, axis=axes), x, tol=tol)
    for name, f in dict(any=jnp.any, all=jnp.all).items():
        case(f"reduce_{name}_{r}", lambda x: f(x, axis=0), data(shape(rank=2), "bool"))
    def generic(x, y):
        def body(a, b):
            return a[0] + b[0] * 1.0, jnp.maximum(a[1], b[1])
        return lax.reduce((x, y), (np.float32(0), np.float32(-9)), body, (0, 2))
    s = shape(rank=4, most=9)
    case(f"reduce_variadic_{r}", generic, data(s, "float32", low=-1, high=1), data(s, "float32", low=-1, high=1), tol=(1e-5, 1e-5))
    for d in ["float32", "int32"]:
        x = data(shape(rank=2, most=9), d, low=-3, high=3)
        case(f"reduce_cumsum_{d}_{r}", lambda x: lax.cumsum(x, axis=1), x, tol=(1e-5, 1e-5))
        case(f"reduce_cummax_{d}_{r}", lambda x: lax.cummax(x, axis=0), x)
        case(f"reduce_cumprod_{d}_{r}", lambda x: lax.cumprod(x, axis=0, reverse=True), x, tol=(1e-5, 1e-5))
        case(f"reduce_cumlogsumexp_{d}_{r}", lambda x: lax.cumlogsumexp(x.astype(jnp.float32), axis=0), x, tol=(1e-5, 1e-5))
    for d in ["float32", "int32", "bfloat16"]:
        x = data(shape(rank=4, most=8), d, low=-3, high=3)
        w = [int(k) for k in rng.integers(1, 4, 4)]
        st = [int(k) for k in rng.integers(1, 3, 4)]
        pad = [(int(a), int(b)) for a, b in rng.integers(0, 2, (4, 2))]
        bd = [int(k) for k in rng.integers(1, 3, 4)]
        wd = [int(k) for k in rng.integers(1, 3, 4)]
        for name, init, f in [("add", 0, lax.add), ("max", -100, lax.max), ("min", 100, lax.min)]:
            case(f"window_{name}_{d}_{r}", lambda x: lax.reduce_window(x, np.asarray(init, d), f, w, st, pad, bd, wd), x,
                 tol=(1e-5, 1e-5) if d == "float32" else (3e-2, 1e-2) if d == "bfloat16" else None)
    x = data((2, 9, 8, 3), "float32", low=-3, high=3)
    case(f"window_maxpool_grad_{r}", jax.grad(lambda x: jnp.sum(lax.reduce_window(x, -np.inf, lax.max, (1, 3, 2, 1), (1, 2, 2, 1), "SAME") ** 2)), x, tol=(1e-5, 1e-5))


def dots(r):
    for d in FLOATS + INTS + ["bool"]:
        b, m, k, n = (int(x) for x in rng.integers(1, 9, 4))
        if r % 3 == 1:
            m, k, n = (int(x) for x in rng.integers(20, 80, 3))
        mk = lambda s: data(s, d, special=False, low=None if d in INTS or d == "bool" else -1, high=1)
        tol = {"float32": (1e-5, 1e-5), "bfloat16": (2e-2, 2e-2), "float16": (4e-3, 4e-3)}.get(d)
        def dot(spec):
            return lambda x, y: jnp.einsum(spec, x, y)
        for spec in ["bmk,bkn->bmn", "mk,nk->mn", "km,kn->mn", "k,kn->n", "mbk,bnk->bmn", "m,n->mn", "bmk,kbn->mn"]:
            sizes = dict(b=b, m=m, k=k, n=n)
            ins = spec.split("->")[0].split(",")
            s0, s1 = (tuple(sizes[c] for c in i) for i in ins)
            case(f"dot_{spec.replace(',', '_').replace('->', '_to_')}_{d}_{r}", dot(spec), mk(s0), mk(s1), tol=tol)
    x, y = data((5, 7), "bfloat16", low=-1, high=1), data((7, 6), "bfloat16", low=-1, high=1)
    case(f"dot_bf16_f32_{r}", lambda x, y: lax.dot(x, y, preferred_element_type=jnp.float32), x, y, tol=(1e-5, 1e-5))
    x, y = data((5, 7), "int8"), data((7, 6), "int8")
    case(f"dot_i8_i32_{r}", lambda x, y: lax.dot(x, y, preferred_element_type=jnp.int32), x, y)


def convolutions(r):
    for d in ["float32", "float64", "bfloat16"]:
        groups = int(rng.choice([1, 1, 2, 3]))
        n, ci, co = int(rng.integers(1, 4)), int(rng.integers(1, 4)) * groups, int(rng.integers(1, 4)) * groups
        h, w, kh, kw = (int(x) for x in (*rng.integers(5, 10, 2), *rng.integers(1, 4, 2)))
        st = [int(k) for k in rng.integers(1, 3, 2)]
        pad = [(int(a), int(b)) for a, b in rng.integers(-1, 3, (2, 2))]
        ld = [int(k) for k in rng.integers(1, 3, 2)]
        rd = [int(k) for k in rng.integers(1, 3, 2)]
        tol = {"float32": (1e-5, 1e-5), "bfloat16": (2e-2, 2e-2)}.get(d)
        for name, dims, xs, ks in [("nchw", ("NCHW", "OIHW", "NCHW"), (n, ci, h, w), (co, ci // groups, kh, kw)),
                                   ("nhwc", ("NHWC", "HWIO", "NHWC"), (n, h, w, ci), (kh, kw, ci // groups, co)),
                                   ("odd", ("HNWC", "OHIW", "CHNW"), (h, n, w, ci), (co, kh, ci // groups, kw))]:
            f = lambda x, k: lax.conv_general_dilated(x, k, st, pad, ld, rd, dims, groups)
            x, k = data(xs, d, low=-1, high=1), data(ks, d, low=-1, high=1)
            case(f"conv_{name}_{d}_{r}", f, x, k, tol=tol)
            if d != "bfloat16":
                case(f"conv_{name}_grad_{d}_{r}", jax.grad(lambda x, k: jnp.sum(f(x, k) ** 2), (0, 1)), x, k, tol=(1e-4, 1e-4))
        x, k = data((4, 3, 7), d, low=-1, high=1), data((6, 3, 2), d, low=-1, high=1)
        case(f"conv_batch_groups_{d}_{r}", lambda x, k: lax.conv_general_dilated(x, k, (1,), "VALID", dimension_numbers=("NCH", "OIH", "NCH"), batch_group_count=2), x, k, tol=tol)


def indexing(r):
    for d in ["float32", "int8", "bfloat16", "int64"]:
        x = data((7, 5, 4), d, low=-5, high=5)
        i = data((3, 2), "int32", low=-9, high=9)
        j = data((3, 2), "int32", low=0, high=4)
        case(f"gather_rows_{d}_{r}", lambda x, i: jnp.take(x, i, axis=0, mode="clip"), x, i)
        case(f"gather_mid_{d}_{r}", lambda x, i: jnp.take(x, i, axis=1), x, i)
        case(f"gather_two_{d}_{r}", lambda x, i, j: x[i, :, j % 4], x, i, j)
        case(f"gather_along_{d}_{r}", lambda x, i: jnp.take_along_axis(x, i, axis=1), x, data((7, 2, 4), "int32", low=0, high=4))
        case(f"gather_vmap_{d}_{r}", jax.vmap(lambda x, i: lax.dynamic_slice(x, (i, i), (2, 3))), x, data((7,), "int32", low=-2, high=5))
        u = data((3, 2, 5, 4), d, low=-5, high=5)
        for name in ["set", "add", "max", "min", "multiply"]:
            if name == "set":  # repeated indices leave the winner open
                k = rng.permutation(9)[:6].reshape(3, 2).astype(np.int32) - 1
            else:
                k = i
            case(f"scatter_{name}_{d}_{r}", lambda x, k, u: getattr(x.at[k], name)(u, mode="drop"), x, k, u, tol=(1e-5, 1e-5) if d == "float32" else None)
        case(f"scatter_column_{d}_{r}", lambda x, k, u: x.at[:, k].add(u), x, data((3,), "int32", low=0, high=6), data((7, 3, 4), d, low=-2, high=2))
        case(f"scatter_points_{d}_{r}", lambda x, a, b, u: x.at[a, :, b].add(u), x, data((6,), "int32", low=0, high=8), data((6,), "int32", low=0, high=3), data((6, 5), d, low=-2, high=2))
        case(f"scatter_apply_{d}_{r}", lambda x, k: x.at[k].apply(lambda v: v * v + v), x, rng.permutation(7)[:4].astype(np.int32))
        case(f"scatter_vmap_{d}_{r}", jax.vmap(lambda x, i, u: lax.dynamic_update_slice(x, u, (i, i))), x, data((7,), "int32", low=-2, high=5), data((7, 2, 3), d, low=-5, high=5))
        case(f"sort_values_{d}_{r}", lambda x: lax.sort(x, dimension=1), data((3, 40, 2), d))
        case(f"sort_descending_{d}_{r}", lambda x: -jnp.sort(-x, axis=0), data((50, 2), d, low=-9, high=9))
        case(f"sort_argsort_{d}_{r}", lambda x: jnp.argsort(x, axis=-1, stable=True), data((4, 33), d, low=-5, high=5))
        case(f"sort_keys_{d}_{r}", lambda x, y, z: lax.sort((x, y, z), dimension=0, num_keys=2), data((77,), "int32", low=0, high=3), data((77,), d, low=-5, high=5), data((77,), "float32"))
        case(f"sort_top_k_{d}_{r}", lambda x: lax.top_k(x, 5), data((3, 20), d, low=-99, high=99))
    case(f"gather_embedding_grad_{r}", jax.grad(lambda e, i: jnp.sum(jnp.take(e, i, axis=0) ** 3)), data((10, 6), "float32", low=-1, high=1), data((20,), "int32", low=0, high=9), tol=(1e-5, 1e-5))
    case(f"misc_searchsorted_{r}", lambda a, v: jnp.searchsorted(a, v), np.sort(data((30,), "float32", low=-3, high=3)), data((9,), "float32", low=-3, high=3))
    case(f"misc_bincount_{r}", lambda v: jnp.bincount(v, length=8), data((40,), "int32", low=0, high=9))
    case(f"misc_nonzero_{r}", lambda v: jnp.nonzero(v, size=9, fill_value=-1), data((4, 5), "int32", low=0, high=1))


def control(r):
    x = data((4, 4), "float32", low=-1, high=1)
    case(f"control_scan_{r}", lambda x: lax.scan(lambda c, a: (jnp.tanh(c @ x) + a, c.sum()), jnp.ones((4, 4), jnp.float32), x), x, tol=(1e-5, 1e-5))
    case(f"control_while_{r}", lambda n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[2], s[1] + s[2]), (0, 0, 1)), np.int64(20))
    case(f"control_fori_{r}", lambda x: lax.fori_loop(0, 6, lambda i, a: a.at[i % 4].set(a[(i + 1) % 4] * 2), x), x)
    case(f"control_cond_{r}", lambda p, x: lax.cond(p, lambda x: x * 2, lambda x: jnp.zeros_like(x), x), np.bool_(r % 2), x)
    case(f"control_switch_{r}", lambda i, x: lax.switch(i, [lambda x: x, lambda x: x.T, lambda x: x + 1], x), np.int32(rng.integers(-2, 5)), x)
    case(f"control_nested_{r}", lambda x: lax.map(lambda row: lax.cond(row[0] > 0, lambda r: lax.fori_loop(0, 3, lambda i, v: v * 2 + i, r), lambda r: -r, row), x), x)
    case(f"control_sqrt_newton_{r}", lambda x: lax.while_loop(lambda s: jnp.any(jnp.abs(s * s - x) > 1e-4), lambda s: 0.5 * (s + x / s), x), jnp.abs(x) + 1, tol=(1e-5, 1e-5))


def random(r):
    key = jax.random.PRNGKey(r)
    case(f"random_bits_{r}", lambda k: jax.random.bits(k, (7, 5)), key)
    case(f"random_uniform_{r}", lambda k: jax.random.uniform(k, (33,)), key)
    case(f"random_normal_{r}", lambda k: jax.random.normal(k, (33,)), key, tol=(1e-4, 1e-5))
    case(f"random_split_{r}", lambda k: jax.random.split(k, 4), key)
    case(f"random_permutation_{r}", lambda k: jax.random.permutation(k, 20), key)
    case(f"random_categorical_{r}", lambda k, l: jax.random.categorical(k, l, shape=(30,)), key, data((6,), "float32", low=-1, high=1))
    case(f"random_gamma_{r}", lambda k: jax.random.gamma(k, 2.5, (5,)), key, tol=(1e-3, 1e-4))
    for algorithm in [lax.RandomAlgorithm.RNG_PHILOX, lax.RandomAlgorithm.RNG_THREE_FRY]:
        for d in ["uint32", "uint64", "uint8"]:
            state = data((2,), "uint64")
            case(f"random_generator_{algorithm.name.lower()}_{d}_{r}", lambda s: lax.rng_bit_generator(s, (3, 7), d, algorithm), state)


def linalg(r):
    n = int(rng.integers(1, 8))
    a = data((2, n, n), "float32", low=-1, high=1)
    spd = np.einsum("bij,bkj->bik", a, a) + n * np.eye(n, dtype=np.float32)
    for lower in [True, False]:
        for trans in [False, True]:
            for left in [True, False]:
                for unit in [False, True]:
                    b = data((2, n, 3) if left else (2, 3, n), "float32", low=-1, high=1)
                    case(f"linalg_triangular_{lower:d}{trans:d}{left:d}{unit:d}_{r}", lambda a, b: lax.linalg.triangular_solve(a, b, left_side=left, lower=lower, transpose_a=trans, unit_diagonal=unit), spd / n, b, tol=(1e-4, 1e-4), platform="tpu")
    for lower in [True, False]:
        case(f"linalg_cholesky_{lower:d}_{r}", lambda a: lax.linalg.cholesky(a, symmetrize_input=False) if lower else jnp.linalg.cholesky(a, upper=True), spd, tol=(1e-5, 1e-5), platform="tpu")


def models(r):
    def mlp(p, x):
        for w, b in p[:-1]:
            x = jax.nn.relu(x @ w + b)
        w, b = p[-1]
        return x @ w + b
    def params(*sizes):
        return [(data((i, o), "float32", low=-0.5, high=0.5), data((o,), "float32", low=-0.1, high=0.1)) for i, o in zip(sizes, sizes[1:])]
    p, x, y = params(12, 9, 9, 4), data((6, 12), "float32", low=-1, high=1), data((6,), "int32", low=0, high=3)
    loss = lambda p, x, y: -jnp.mean(jax.nn.log_softmax(mlp(p, x))[jnp.arange(6), y])
    case(f"model_axpy_{r}", lambda a, x, y: a * x + y, np.float32(2.5), data((11,), "float32"), data((11,), "float32"))
    case(f"model_mlp_{r}", mlp, p, x, tol=(1e-5, 1e-5))
    case(f"model_mlp_train_{r}", lambda p, x, y: jax.tree.map(lambda a, g: a - 0.1 * g, p, jax.grad(loss)(p, x, y)), p, x, y, tol=(1e-5, 1e-5))
    case(f"model_softmax_{r}", lambda x: jax.nn.softmax(x, axis=-1), x, tol=(1e-5, 1e-6))
    case(f"model_layernorm_{r}", lambda x: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5), x, tol=(1e-5, 1e-5))
    case(f"model_gelu_{r}", jax.nn.gelu, x, tol=(1e-5, 1e-6))
    case(f"model_erf_{r}", lambda x: lax.erf(x) + lax.erf_inv(x / 2), x, tol=(1e-5, 1e-6))
    def attention(q, k, v):
        s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 2
        s = jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, -1e9)
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(s, -1), v)
    q, k, v = (data((2, 5, 3, 4), "float32", low=-1, high=1) for _ in range(3))
    case(f"model_attention_{r}", attention, q, k, v, tol=(1e-5, 1e-5))
    case(f"model_attention_grad_{r}", jax.grad(lambda q, k, v: attention(q, k, v).sum() ** 2, (0, 1, 2)), q, k, v, tol=(1e-4, 1e-4))
    case(f"model_attention_bf16_{r}", attention, *(t.astype(ml_dtypes.bfloat16) for t in (q, k, v)), tol=(3e-2, 3e-2))
    def lstm(w, x):
        def step(c, a):
            h, s = c
            i, f, g, o = jnp.split(jnp.concatenate([a, h]) @ w, 4)
            s = jax.nn.sigmoid(f) * s + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(s)
            return (h, s), h
        return lax.scan(step, (jnp.zeros(4), jnp.zeros(4)), x)[1].sum()
    w, xs = data((7, 16), "float64", low=-1, high=1), data((9, 3), "float64", low=-1, high=1)
    case(f"model_lstm_{r}", lstm, w, xs, tol=(1e-9, 1e-9))
    case(f"model_lstm_grad_{r}", jax.grad(lstm), w, xs, tol=(1e-9, 1e-9))


for r in range(args.rounds):
    for family in [elementwise, shapes, reductions, dots, convolutions, indexing, control, random, linalg, models]:
        family(r)
print(f"{written} cases written to {args.out}; JAX refused {len(failed)}")
for name, why in failed[:40]:
    print("  refused", name, why)
