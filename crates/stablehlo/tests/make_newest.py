"""Creates the programs under tests/newest: StableHLO features since 1.18.0, which the jaxlib of `make_artifacts.py`
does not support.

    python3 -m venv venv && venv/bin/pip install jax==0.12.0.1 jaxlib==0.12.0.1
    venv/bin/python crates/stablehlo/tests/make_newest.py

For each program, writes NAME.VERSION.bc of the first version that can represent it and of the newest one, and
NAME.mlir, the text of the latter. With `--check DIR`, reads every artifact and every text in DIR, which
`tests/suite/newest.rs` wrote, and compares it with the program here.
"""

import pathlib
import sys

from jax._src.interpreters import mlir as jax_mlir
from jaxlib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

NEWEST = "1.22.0"
OUT = pathlib.Path(__file__).parent / "newest"

DOT = """
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0],
    algorithm = <lhs_precision_type = f8E4M3FN, rhs_precision_type = f8E4M3FN, accumulation_type = f32, lhs_component_count = 1,
                 rhs_component_count = 1, num_primitive_operations = STEPS, allow_imprecise_accumulation = false>
    : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>"""

PROGRAMS = {
    # The first version of each.
    "tilings": ("1.18.0", "(%x: tensor<4xf32>) -> tensor<4xf32>", """
  %0 = stablehlo.custom_call @here(%x) {result_tilings = [[dense<[8, 128]> : tensor<2xindex>]]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>"""),
    "collective_reduce": ("1.19.0", "(%x: tensor<4xf32>) -> tensor<4xf32>", """
  %0 = "stablehlo.collective_reduce"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>"""),
    "dynamic_root": ("1.20.0", "(%x: tensor<4xf32>, %r: tensor<1xi32>) -> tensor<4xf32>", """
  %0 = "stablehlo.collective_broadcast"(%x, %r) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, has_dynamic_root}>
    : (tensor<4xf32>, tensor<1xi32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>"""),
    "mixed_convolution": ("1.20.0", "(%x: tensor<1x4x4x1xf8E4M3FN>, %k: tensor<2x2x1x3xf8E5M2>) -> tensor<1x3x3x3xf32>", """
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x4x4x1xf8E4M3FN>, tensor<2x2x1x3xf8E5M2>) -> tensor<1x3x3x3xf32>
  return %0 : tensor<1x3x3x3xf32>"""),
    "dot_in_three_steps": ("1.21.0", "(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>) -> tensor<2x2xf32>", DOT.replace("STEPS", "3")),
    "dot_in_four_steps": ("1.21.0", "(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>) -> tensor<2x2xf32>", DOT.replace("STEPS", "4")),
    "weak_order": ("1.22.0", "(%x: tensor<4xbf16>) -> tensor<4xi1>", """
  %0 = stablehlo.compare LT, %x, %x, WEAKORDER : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xi1>
  return %0 : tensor<4xi1>"""),
}


def text(artifact):
    context = jax_mlir.make_ir_context()
    with context:
        return stablehlo.deserialize_portable_artifact(context, artifact).operation.get_asm(large_elements_limit=None)


def make():
    OUT.mkdir(exist_ok=True)
    for name, (first, signature, body) in PROGRAMS.items():
        program = f"module @{name} {{\nfunc.func @main{signature} {{{body}\n}}\n}}"
        for version in sorted({first, NEWEST}):
            artifact = _jax.mlir.serialize_portable_artifact(program, version, False)
            (OUT / f"{name}.{version}.bc").write_bytes(artifact)
        (OUT / f"{name}.mlir").write_text(text(artifact))
        # Check that the version before the first one fails.
        major, minor, patch = first.split(".")
        try:
            _jax.mlir.serialize_portable_artifact(program, f"{major}.{int(minor) - 1}.{patch}", False)
        except Exception:
            continue
        sys.exit(f"{name} can be said before {first}")


def check(directory):
    files = sorted(directory.iterdir())
    for file in files:
        name = file.name.split(".")[0]
        if file.suffix == ".mlir":
            module = ir.Module.parse(file.read_text(), context=jax_mlir.make_ir_context())
            ours = module.operation.get_asm(large_elements_limit=None)
        else:
            ours = text(file.read_bytes())
        original = (OUT / f"{name}.mlir").read_text()
        if ours != original:
            sys.exit(f"{file}:\n{ours}\nis not\n{original}")
    print(f"{len(files)} programs are the same")


if sys.argv[1:2] == ["--check"]:
    check(pathlib.Path(sys.argv[2]))
else:
    make()
