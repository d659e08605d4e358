"""Creates the HLO protos under tests/data, NAME.hlo, which `tests/suite/hlo.rs` reads.

    JAX_PLATFORMS=cpu venv/bin/python crates/stablehlo/tests/make_hlo.py

needs `pip install jax==0.10.2 jaxlib==0.10.2 numpy`. The programs are this repository's own: a training step, as JAX
lowers it and as XLA's CPU compiler optimizes it, and a program that is written as text, with forms that JAX does not
send.
"""

import pathlib
import re

import jax
import jax.numpy as jnp
from jaxlib import _hlo

DATA = pathlib.Path(__file__).parent / "data"


def loss(parameters, x, labels):
    for weights, offsets in parameters:
        x = jnp.tanh(x @ weights + offsets)
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(x) * jax.nn.one_hot(labels, 4), axis=1))


def step(parameters, x, labels):
    value, gradients = jax.value_and_grad(loss)(parameters, x, labels)
    return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients), value




def write(name, text):
    """Writes a proto without places in source files, because they would contain paths of this machine."""
    text = re.sub(r", (metadata|backend_config|stack_frame_id)=\{[^}]*\}+", "", text)
    text = re.sub(r"(FileNames|FunctionNames|FileLocations|StackFrames)\n(\d+ .*\n)+", "", text)
    (DATA / f"{name}.hlo").write_bytes(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())


f32 = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)
parameters = [(f32(8, 16), f32(16)), (f32(16, 4), f32(4))]
lowered = jax.jit(step, donate_argnums=0).lower(parameters, f32(5, 8), jax.ShapeDtypeStruct((5,), jnp.int32))
write("mlp_step", lowered.compiler_ir(dialect="hlo").as_hlo_text())
write("mlp_step.optimized", lowered.compile().runtime_executable().hlo_modules()[0].to_string())

COLLECTIVES = """HloModule collectives, replica_count=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = (f32[4]{0}, s32[1]{0}) parameter(0), sharding={{replicated}, {maximal device=1}}
  v = f32[4]{0} get-tuple-element(x), index=0
  i = s32[1]{0} get-tuple-element(x), index=1
  s = f32[4]{0} all-reduce-start(v), replica_groups={{0,1},{2,3}}, to_apply=add
  d = f32[4]{0} all-reduce-done(s)
  g = ((f32[4]{0}), f32[16]{0}) all-gather-start(d), channel_id=1, replica_groups=[1,4]<=[4], dimensions={0}, use_global_device_ids=true
  h = f32[16]{0} all-gather-done(g)
  r = ((f32[16]{0}), f32[4]{0}) reduce-scatter-start(h), replica_groups={{0,1,2,3}}, dimensions={0}, to_apply=add
  q = f32[4]{0} reduce-scatter-done(r)
  p = (f32[4]{0}, f32[4]{0}, u32[], u32[]) collective-permute-start(q), source_target_pairs={{0,1},{1,0}}
  o = f32[4]{0} collective-permute-done(p)
  e = (f32[4]{0}, f32[4]{0}) all-to-all(o, q), replica_groups={{0,1},{2,3}}
  f = f32[4]{0} get-tuple-element(e), index=1
  w = f32[2]{0} dynamic-slice(f, i), dynamic_slice_sizes={2}
  ROOT t = (f32[2]{0}, u32[]) tuple(w, k), sharding={{devices=[2,2]<=[4] last_tile_dim_replicate}, {replicated}}
}
""".replace("  ROOT t", "  k = u32[] replica-id()\n  ROOT t")
write("collectives", COLLECTIVES)
