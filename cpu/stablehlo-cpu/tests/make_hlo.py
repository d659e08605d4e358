#!/usr/bin/env python3
"""Writes programs in XLA's own form with inputs, and with the results that JAX's CPU backend computes for them.

    python make_hlo.py OUT_DIR

needs `pip install jax==0.10.2 jaxlib==0.10.2 numpy`. Every case has two files. NAME.hlo is a serialized HloModuleProto.
NAME.bin contains the inputs and then the expected outputs, each row-major, with one byte per truth value.
`tests/engine/hlo.rs` runs them.

NAME@RxP.hlo is a program for R replicas of P partitions. Its data is that of the first member, then that of the second,
and so on. NAME@RxP.split.hlo is a program for all partitions together, with shardings. After the lowered programs come
optimized ones, in the form in which XLA would run them. Last comes HLO that is written as text, for forms that JAX does
not send.
"""
import os, sys
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
import numpy as np
import jax, jax.numpy as jnp
from jax import lax
import ml_dtypes

jax.config.update("jax_enable_x64", True)
out = sys.argv[1]
os.makedirs(out, exist_ok=True)
rng = np.random.default_rng(0)


def f(*shape, dtype=np.float32):
    return rng.uniform(0.5, 2, shape).astype(dtype)


def n(*shape, high=9, dtype=np.int32):
    return rng.integers(0, high, shape).astype(dtype)


def write(name, code, *data):
    with open(f"{out}/{name}.hlo", "wb") as file:
        file.write(code)
    with open(f"{out}/{name}.bin", "wb") as file:
        for array in data:
            file.write(np.ascontiguousarray(np.asarray(array)).tobytes())


def case(name, fun, *args, platform="cpu", **options):
    traced = jax.jit(fun, keep_unused=True, **options).trace(*args)
    lowered = traced.lower(lowering_platforms=(platform,))
    code = lowered.compiler_ir(dialect="hlo").as_serialized_hlo_module_proto()
    results = jax.tree.leaves(jax.jit(fun)(*args))
    write(name, code, *args, *results)


def conv(x, k, **options):
    return lax.conv_general_dilated(x, k, dimension_numbers=("NHWC", "HWIO", "NHWC"), **options)


case("elementwise", lambda a, b: (a + b, a * b - a, a / b, jnp.maximum(a, b), a ** b, jnp.arctan2(a, b), a % b), f(3, 4), f(3, 4))
case("unary", lambda a: [g(a) for g in (jnp.exp, jnp.log, jnp.sin, jnp.cos, jnp.tan, jnp.tanh, jnp.sqrt, lax.rsqrt, jnp.cbrt, jnp.floor, jnp.ceil, jnp.sign, jnp.abs, jnp.expm1, jnp.log1p, jnp.round, jnp.isfinite, lax.logistic, lax.neg)], f(7))
case("special", lambda a: (lax.erf(a), jnp.sinh(a), jnp.cosh(a), jnp.arctanh(a / 4)), f(5))
case("integers", lambda a, b: (a & b, a | b, a ^ b, ~a, a << b, a >> b, lax.shift_right_logical(a, b), lax.population_count(a), lax.clz(a), a // (b + 1)), n(6), n(6))
case("compare_select", lambda a, b: (a < b, a == b, a >= b, jnp.where(a > b, a, b), lax.clamp(np.float32(0.7), a, np.float32(1.2))), f(9), f(9))
case("bf16", lambda a, b: (a @ b + jnp.bfloat16(1.5), a.astype(np.float32)), f(2, 3, dtype=ml_dtypes.bfloat16), f(3, 2, dtype=ml_dtypes.bfloat16))
case("f16_constants", lambda a: a * np.array([1.5, -2, 0.25], np.float16), f(3, dtype=np.float16))
case("f64_constants", lambda a: a * np.array([[1e300, 2], [3, np.inf]]) + np.pi, f(2, 2, dtype=np.float64))
case("narrow_constants", lambda a: (a + np.array([1, -2, 3], np.int8), np.array([1, -7, 3], ml_dtypes.int4).astype(np.int32), np.array([1, 15], ml_dtypes.uint4).astype(np.int32), np.array([1.5, -2], ml_dtypes.float8_e4m3fn).astype(np.float32), np.array([True, False, True]), np.array([7, 65535], np.uint16), np.array([-7, 3], np.int16), np.array([1 << 63], np.uint64)), n(3, dtype=np.int8))
case("complex", lambda a, b: (lax.complex(a, b) * np.complex64(1 + 2j), jnp.abs(lax.complex(a, b)), jnp.real(jnp.exp(lax.complex(a, b))), jnp.imag(jnp.array([1 + 2j, 3j]))), f(4), f(4))
case("dot", lambda a, b: a @ b, f(3, 4), f(4, 5))
case("batched_dot", lambda a, b: jnp.einsum("bij,bkj->bik", a, b, precision="highest"), f(2, 3, 4), f(2, 5, 4))
case("conv", lambda x, k: conv(x, k, window_strides=(2, 1), padding=((1, 2), (0, 1)), rhs_dilation=(1, 2)), f(2, 8, 9, 3), f(3, 2, 3, 4))
case("conv_groups", lambda x, k: conv(x, k, window_strides=(1, 1), padding=((1, 1), (2, 0)), lhs_dilation=(2, 1), feature_group_count=2), f(1, 5, 5, 4), f(3, 3, 2, 6))
case("conv_grad", jax.grad(lambda x, k: conv(x, k, window_strides=(2, 2), padding="SAME").sum(), (0, 1)), f(1, 6, 6, 2), f(3, 3, 2, 3))
case("reduce", lambda a: (a.sum(), a.max(1), a.min(0), a.prod((0, 2)), (a > 1).any(), jnp.argmax(a, 1)), f(3, 4, 5))
case("cumulative", lambda a: (jnp.cumsum(a, 1), lax.cummax(a)), f(3, 6))
case("pool", lambda a: (lax.reduce_window(a, -jnp.inf, lax.max, (1, 2, 2), (1, 2, 1), "SAME"), lax.reduce_window(a, 0.0, lax.add, (1, 3, 1), (1, 1, 1), ((0, 0), (1, 1), (0, 0)))), f(2, 5, 6))
case("pool_grad", jax.grad(lambda a: lax.reduce_window(a, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID").sum()), f(4, 6))
case("scan", lambda a: lax.scan(lambda c, x: (c * 0.5 + x, c.sum()), jnp.zeros(3, a.dtype), a), f(5, 3))
case("while", lambda a: lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 1.5), (0, a)), f(2))
case("cond", lambda p, a: lax.cond(p > 3, lambda x, y: x + y, lambda x, y: x * y - 1, a, a * 2), np.int32(7), f(3))
case("switch", lambda p, a: lax.switch(p, [lambda x: x + 1, lambda x: x * 2, lambda x: jnp.sin(x)], a), np.int32(1), f(3))
case("gather", lambda a, i: (a[i], jnp.take(a, i, axis=1), a[i, i]), f(9, 9), n(4))
case("scatter", lambda a, i, u: (a.at[i].add(u), a.at[i[0]].set(7), a.at[:, i].max(2)), f(9, 3), np.array([1, 5, 2], np.int32) % 3, f(3, 3))
case("sort", lambda a: (jnp.sort(a), jnp.argsort(a, axis=0), lax.sort((a, -a), num_keys=1)), f(4, 7))
case("top_k", lambda a: lax.top_k(a, 3), f(2, 8))
case("fft", lambda a: (jnp.fft.fft(a), jnp.fft.rfft(a), jnp.fft.irfft(jnp.fft.rfft(a)), jnp.fft.fft2(a)), f(4, 8))
case("cholesky", lambda a: lax.linalg.cholesky(a @ a.T + 3 * np.eye(4, dtype=np.float32)), f(4, 4), platform="tpu")  # Calls of LAPACK on CPUs.
case("triangular_solve", lambda a, b: lax.linalg.triangular_solve(jnp.tril(a) + 2 * np.eye(3, dtype=np.float32), b, left_side=True, lower=True), f(3, 3), f(3, 2), platform="tpu")
case("rng_bits", lambda k: (jax.random.uniform(jax.random.wrap_key_data(k), (5,)), lax.rng_bit_generator(jnp.concatenate([k, k]), (6,), np.uint32)), n(2, dtype=np.uint32))
case("slices", lambda a, i: (a[1:6:2, ::-1], lax.dynamic_slice(a, (i, i - 2), (2, 3)), lax.dynamic_update_slice(a, a[:2, :2] * 2, (i, i))), f(7, 5), np.int32(3))
case("pad", lambda a: (lax.pad(a, np.float32(9), ((1, -1, 2), (-1, 2, 0))), jnp.concatenate([a, a * 2], 1), jnp.transpose(a), a.reshape(-1)), f(4, 3))
case("iota_broadcast", lambda a: (jnp.arange(6).reshape(2, 3) + a, jnp.broadcast_to(a[:, None], (2, 3, 3))), f(2, 3))
case("bitcast", lambda a: (lax.bitcast_convert_type(a, np.int32), lax.bitcast_convert_type(a, np.uint8), lax.reduce_precision(a, 5, 4), lax.convert_element_type(a, np.int8)), f(5))
case("batch_norm", lambda x, s, o: lax.batch_norm_training(x, s, o, 1e-3, 1) if hasattr(lax, "batch_norm_training") else (x - x.mean(0)) / jnp.sqrt(x.var(0) + 1e-3) * s + o, f(6, 3), f(3), f(3))
case("barrier", lambda a: lax.optimization_barrier((a + 1, a * 2)), f(3))
case("jit_calls", lambda a: jax.jit(lambda x: jnp.linalg.norm(x))(a) + jax.jit(lambda x: jnp.linalg.norm(x))(a + 1), f(4))
case("donated", lambda a, b: (a * 2, b + 1), f(3), f(2), donate_argnums=(1,))
case("grad_mlp", jax.grad(lambda w, v, x: jnp.sum(jax.nn.gelu(x @ w) @ v), (0, 1)), f(4, 8), f(8, 2), f(3, 4))
case("empty", lambda a: (a, jnp.zeros((0, 3)), a.sum()), f(0, 2))


# Programs after XLA's optimization, with fusions, layouts and calls. If there are several partitions, the program of
# one partition.
def optimized(name, fun, *args, **options):
    compiled = jax.jit(fun, keep_unused=True, **options).lower(*args).compile()
    code = compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()
    write(f"optimized_{name}", code, *args, *jax.tree.leaves(compiled(*args)))


optimized("chain", lambda a, b: jnp.tanh(a * b + 1).sum(1) / a.max(1), f(7, 5), f(7, 5))
optimized("softmax", lambda a: jax.nn.softmax(a), f(6, 9))
optimized("transposes", lambda a: (a.transpose(2, 0, 1).reshape(4, -1), a.swapaxes(0, 1) + 1), f(2, 3, 4))
optimized("scan", lambda a: lax.scan(lambda c, x: (c * 0.5 + x, c.sum()), jnp.zeros(3, a.dtype), a), f(5, 3))
optimized("cond", lambda p, a: lax.cond(p > 3, lambda x: x + 1, lambda x: x * 2, a), np.int32(7), f(3))
optimized("gather", lambda a, i: (a[i], a.at[i].add(1)), f(9, 4), n(4))
optimized("conv", lambda x, k: conv(x, k, window_strides=(1, 1), padding="SAME"), f(1, 6, 6, 2), f(3, 3, 2, 3))
optimized("sort", lambda a: (jnp.sort(a), jnp.argsort(a)), f(3, 8))
optimized("layer_norm", lambda a: (a - a.mean(1, keepdims=True)) / jnp.sqrt(a.var(1, keepdims=True) + 1e-5), f(4, 8))


# The program for all four devices together, with GSPMD's annotations, and the program of each device after XLA split
# it.
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.config.update("jax_use_shardy_partitioner", False)

mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))


def shards(array):
    pieces = sorted(array.addressable_shards, key=lambda shard: shard.device.id)
    return [np.asarray(piece.data) for piece in pieces]


def over_devices(name, fun, ins, outs, *args):
    sharding = lambda spec: NamedSharding(mesh, spec)
    jitted = jax.jit(fun, in_shardings=tuple(map(sharding, ins)), out_shardings=tuple(map(sharding, outs)))
    lowered = jitted.lower(*args)
    placed = [jax.device_put(array, sharding(spec)) for array, spec in zip(args, ins)]
    data = zip(*map(shards, [*placed, *jax.tree.leaves(jitted(*args))]))
    data = [array for member in data for array in member]
    write(f"gspmd_{name}@1x4.split", lowered.compiler_ir(dialect="hlo").as_serialized_hlo_module_proto(), *data)
    share = lowered.compile().runtime_executable().hlo_modules()[0]
    write(f"share_{name}@1x4", share.as_serialized_hlo_module_proto(), *data)


over_devices("matmul", lambda a, b: (jnp.tanh(a @ b), (a @ b).sum(1)), [P("x", "y"), P("y", None)], [P("x", None), P("x")], f(8, 8), f(8, 4))
over_devices("mlp_grad", lambda w, v, x: jax.grad(lambda w, v: jnp.sum(jnp.tanh(x @ w) @ v), (0, 1))(w, v), [P(None, "y"), P("y", None), P("x", None)], [P(None, "y"), P("y", None)], f(6, 8), f(8, 4), f(8, 6))
over_devices("elementwise", lambda a, b: (a + b, a.sum(0), a.max()), [P("x", "y"), P(None, "y")], [P("x", "y"), P("y"), P()], f(4, 4), f(4, 4))
over_devices("constraint", lambda a: (lax.with_sharding_constraint(a * 2, NamedSharding(mesh, P("y", "x"))).T + 1,), [P("x", None)], [P(None, "y")], f(4, 8))
over_devices("while", lambda a: (lax.fori_loop(0, 3, lambda i, x: x * 1.5 + i, a),), [P("x", "y")], [P("x", "y")], f(4, 4))
over_devices("manual", lambda a: (jax.shard_map(lambda x: lax.psum(x, "y"), mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", None))(a),), [P("x", "y")], [P("x", None)], f(4, 4))


# Forms that frameworks and older programs use, but JAX does not.
from jaxlib import _hlo

ADD = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"


def text(name, parameters, body, members, head=ADD, options=""):
    """`members` lists the inputs and outputs of each member."""
    lines = [f"  p{i} = {ty} parameter({i})" for i, ty in enumerate(parameters)] + ["  " + line for line in body]
    program = f"HloModule {name.split('@')[0]}{options}\n\n{head}\nENTRY main {{\n" + "\n".join(lines) + "\n}\n"
    write(name, _hlo.hlo_module_from_text(program).as_serialized_hlo_module_proto(), *[a for m in members for a in m])


x, i = f(5, 7), np.array([3, 2], np.int32)
text("indices_in_a_vector", ["f32[5,7]", "s32[2]", "f32[2,3]"], [
    "s = f32[2,3] dynamic-slice(p0, p1), dynamic_slice_sizes={2,3}",
    "u = f32[5,7] dynamic-update-slice(p0, p2, p1)",
    "ROOT t = (f32[2,3], f32[5,7]) tuple(s, u)"],
    [[x, i, -x[:2, :3], x[3:5, 2:5], np.block([[x[:3]], [x[3:, :2], -x[:2, :3], x[3:, 5:]]])]])
text("bitcasts_between_layouts", ["f32[2,3,4]"], [
    "c = f32[2,3,4]{0,1,2} copy(p0)",
    "b = f32[4,6]{1,0} bitcast(c)",
    "d = f32[4,6]{0,1} copy(b)",
    "ROOT e = f32[6,4]{1,0} bitcast(d)"],
    [[(x := f(2, 3, 4)), x.transpose(2, 1, 0).reshape(4, 6).T]])
text("copies_and_calls_that_start_and_end", ["f32[4]"], [
    "s = (f32[4], f32[4], u32[]) copy-start(p0)",
    "d = f32[4] copy-done(s)",
    "a = ((f32[4]), f32[4], s32[]) async-start(d), calls=twice",
    "u = ((f32[4]), f32[4], s32[]) async-update(a)",
    "e = f32[4] async-done(u)",
    "ROOT r = f32[4] add(e, p0)"],
    [[(x := f(4)), x * 3]], head="twice { a = f32[4] parameter(0)\n ROOT b = f32[4] add(a, a) }\n")
text("nested_tuples", ["(f32[2], (s32[], f32[2]))"], [
    "a = f32[2] get-tuple-element(p0), index=0",
    "b = (s32[], f32[2]) get-tuple-element(p0), index=1",
    "c = f32[2] get-tuple-element(b), index=1",
    "k = s32[] get-tuple-element(b), index=0",
    "d = f32[2] subtract(a, c)",
    "e = (f32[2], s32[]) tuple(d, k)",
    "ROOT t = ((f32[2], s32[]), f32[2]) tuple(e, a)"],
    [[(x := f(2)), np.int32(5), (y := f(2)), x - y, np.int32(5), x]])
text("branches_by_truth_and_number", ["pred[]", "s32[]", "f32[3]"], [
    "c = f32[3] conditional(p0, p2, p2), true_computation=more, false_computation=less",
    "k = f32[3] conditional(p1, p2, p2, p2), branch_computations={more, less, more}",
    "ROOT t = (f32[3], f32[3]) tuple(c, k)"],
    [[np.bool_(False), np.int32(1), (x := f(3)), -x, -x]],
    head="more { a = f32[3] parameter(0)\n ROOT b = f32[3] add(a, a) }\nless { a = f32[3] parameter(0)\n ROOT b = f32[3] negate(a) }\n")
text("calls_of_custom_targets", ["f32[4]"], [
    'a = f32[4] custom-call(p0), custom_call_target="Sharding", sharding={replicated}',
    'k = (f32[2], s32[2]) custom-call(a), custom_call_target="TopK", called_computations={above}',
    "v = f32[2] get-tuple-element(k), index=0",
    "n = s32[2] get-tuple-element(k), index=1",
    "ROOT t = (f32[2], s32[2]) tuple(v, n)"],
    [[(x := np.array([1, 7, 3, 5], np.float32)), np.array([7, 5], np.float32), np.array([1, 3], np.int32)]],
    head="above { a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = s32[] parameter(2)\n d = s32[] parameter(3)\n ROOT e = pred[] compare(a, b), direction=GT }\n")
text("maps_and_reductions_of_several", ["f32[2,3]", "s32[2,3]"], [
    "z = f32[] constant(0)\n  k = s32[] constant(0)",
    "r = (f32[2], s32[2]) reduce(p0, p1, z, k), dimensions={1}, to_apply=both",
    "v = f32[2] get-tuple-element(r), index=0\n  w = s32[2] get-tuple-element(r), index=1",
    "m = f32[2,3] map(p0, p0), dimensions={0,1}, to_apply=add",
    "ROOT t = (f32[2], s32[2], f32[2,3]) tuple(v, w, m)"],
    [[(x := f(2, 3)), (y := n(2, 3)), x.sum(1), y.max(1), x + x]],
    head=ADD + "both { a = f32[] parameter(0)\n b = s32[] parameter(1)\n c = f32[] parameter(2)\n d = s32[] parameter(3)\n s = f32[] add(a, c)\n m = s32[] maximum(b, d)\n ROOT t = (f32[], s32[]) tuple(s, m) }\n")
text("random_numbers_of_one_value", [], [
    "a = f32[] constant(2)\n  b = f32[] constant(2.0000001)",
    "r = f32[3,2] rng(a, b), distribution=rng_uniform",
    "ROOT f = f32[3,2] floor(r)"], [[np.full((3, 2), 2, np.float32)]])

xs = [f(4, 2) for _ in range(4)]
total, gathered = sum(xs), np.concatenate(xs)
text("collectives@4x1", ["f32[4,2]"], [
    "s = f32[4,2] all-reduce(p0), replica_groups={}, to_apply=add",
    "h = f32[4,2] all-reduce(p0), replica_groups={{0,2},{1,3}}, to_apply=add",
    "g = f32[16,2] all-gather(p0), replica_groups={{0,1,2,3}}, dimensions={0}",
    "c = f32[1,2] reduce-scatter(p0), replica_groups={{0,1,2,3}}, dimensions={0}, to_apply=add",
    "e = f32[4,2] all-to-all(p0), replica_groups={{0,1,2,3}}, dimensions={0}",
    "m = f32[4,2] collective-permute(p0), source_target_pairs={{0,1},{1,2},{2,3}}",
    "b = f32[4,2] collective-broadcast(p0), replica_groups={{2,0,1,3}}",
    "r = u32[] replica-id()\n  q = u32[] partition-id()",
    "ROOT t = (f32[4,2], f32[4,2], f32[16,2], f32[1,2], f32[4,2], f32[4,2], f32[4,2], u32[], u32[]) tuple(s, h, g, c, e, m, b, r, q)"],
    [[xs[r], total, xs[r] + xs[r ^ 2], gathered, total[r : r + 1], np.stack([x[r] for x in xs]),
      xs[r - 1] if r else np.zeros((4, 2), np.float32), xs[2], np.uint32(r), np.uint32(0)] for r in range(4)], options=", replica_count=4")
text("collectives_that_start_and_end@4x1", ["f32[4,2]"], [
    "s = f32[4,2] all-reduce-start(p0), replica_groups={}, to_apply=add\n  sd = f32[4,2] all-reduce-done(s)",
    "g = ((f32[4,2]), f32[16,2]) all-gather-start(p0), replica_groups={{0,1,2,3}}, dimensions={0}\n  gd = f32[16,2] all-gather-done(g)",
    "o = (f32[4,2], f32[16,2]) all-gather-start(p0), replica_groups={{0,1,2,3}}, dimensions={0}\n  od = f32[16,2] all-gather-done(o)",
    "m = (f32[4,2], f32[4,2], u32[], u32[]) collective-permute-start(p0), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}\n  md = f32[4,2] collective-permute-done(m)",
    "c = ((f32[4,2]), f32[1,2]) reduce-scatter-start(p0), replica_groups={}, dimensions={0}, to_apply=add\n  cd = f32[1,2] reduce-scatter-done(c)",
    "ROOT t = (f32[4,2], f32[16,2], f32[16,2], f32[4,2], f32[1,2]) tuple(sd, gd, od, md, cd)"],
    [[xs[r], total, gathered, gathered, xs[r - 1], total[r : r + 1]] for r in range(4)], options=", replica_count=4")
text("several_at_once@2x2", ["f32[4,2]", "f32[4,2]"], [
    "s = (f32[4,2], f32[4,2]) all-reduce(p0, p1), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add",
    "a = f32[4,2] get-tuple-element(s), index=0\n  b = f32[4,2] get-tuple-element(s), index=1",
    "g = (f32[8,2], f32[8,2]) all-gather(p0, p1), channel_id=2, replica_groups=[2,2]<=[2,2]T(1,0), dimensions={0}, use_global_device_ids=true",
    "c = f32[8,2] get-tuple-element(g), index=0\n  d = f32[8,2] get-tuple-element(g), index=1",
    "e = (f32[4,2], f32[4,2]) all-to-all(p0, p1), channel_id=3, replica_groups={{0,1}}",
    "h = f32[4,2] get-tuple-element(e), index=0\n  k = f32[4,2] get-tuple-element(e), index=1",
    "m = f32[4,2] collective-permute(p0), channel_id=4, source_target_pairs={{0,1},{1,0}}",
    "r = u32[] replica-id()\n  q = u32[] partition-id()",
    "ROOT t = (f32[4,2], f32[4,2], f32[8,2], f32[8,2], f32[4,2], f32[4,2], f32[4,2], u32[], u32[]) tuple(a, b, c, d, h, k, m, r, q)"],
    [[xs[d], -xs[d], total, -total, np.concatenate([xs[d % 2], xs[d % 2 + 2]]), -np.concatenate([xs[d % 2], xs[d % 2 + 2]]),
      [xs[d // 2 * 2], -xs[d // 2 * 2]][d % 2], [xs[d // 2 * 2 + 1], -xs[d // 2 * 2 + 1]][d % 2], xs[d ^ 1],
      np.uint32(d // 2), np.uint32(d % 2)] for d in range(4)], options=", replica_count=2, num_partitions=2")
text("shardings_of_tuples@1x4.split", [], [
    "p0 = (f32[4,2], f32[4,2]) parameter(0), sharding={{devices=[4,1]0,2,1,3}, {devices=[2,1,2]<=[4] last_tile_dim_replicate}}",
    "a = f32[4,2] get-tuple-element(p0), index=0",
    "b = f32[4,2] get-tuple-element(p0), index=1",
    "c = f32[4,2] add(a, b)",
    "ROOT t = (f32[4,2], f32[4,2]) tuple(c, b), sharding={{devices=[4,1]<=[4]}, {replicated}}"],
    [[xs[0][(r := [0, 2, 1, 3][d]) : r + 1], xs[1][d // 2 * 2 : d // 2 * 2 + 2], (xs[0] + xs[1])[d : d + 1], xs[1]] for d in range(4)],
    options=", num_partitions=4")
