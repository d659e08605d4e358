"""Tests `compiler_options` of `jax.jit`: options of XLA are accepted, and others are rejected with XLA's messages."""

import jax
import jax.numpy as jnp
import pytest


def run(options):
    return jax.jit(lambda x: jnp.sqrt(x**2) + 1.0, compiler_options=options)(1.0)


@pytest.mark.parametrize(
    "options",
    [
        {
            "xla_embed_ir_in_executable": True,
            "xla_dump_max_hlo_modules": 200,
            "xla_gpu_auto_spmd_partitioning_memory_budget_ratio": 0.5,
        },
        {"exec_time_optimization_effort": 0.0, "memory_fitting_effort": 0.5},
        {"xla_cpu_enable_fast_math": "true"},
    ],
)
def test_options_of_xla_are_accepted(options):
    assert run(options) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"invalid_key": "invalid_value"}, "No such compile option: 'invalid_key'"),
        ({"exec_time_compilation_effort": 0.0}, "No such compile option"),
        ({"xla_embed_ir_in_executble": True}, "did you mean 'xla_embed_ir_in_executable'"),
        ({"xla_embed_ir_in_executable": "invalid_value"}, "is not a valid bool value."),
    ],
)
def test_other_options_are_refused(options, message):
    with pytest.raises(Exception, match=message) as raised:
        run(options)
    assert "INVALID_ARGUMENT" in str(raised.value)
    assert run(None) == 2


def test_programs_are_written_to_a_folder(tmp_path):
    options = {"xla_dump_to": str(tmp_path)}
    assert run(options) == 2
    (after,) = tmp_path.glob("module_*.cpu_after_optimizations.txt")
    (before,) = tmp_path.glob("module_*.before_optimizations.txt")
    assert all("stablehlo.sqrt" in file.read_text() for file in (before, after))
    # The compiler option does not apply to other programs.
    assert jax.jit(lambda x: x * 3)(1.0) == 3
    assert len(list(tmp_path.iterdir())) == 2
    run({**options, "xla_dump_hlo_as_proto": True})
    (proto,) = tmp_path.glob("module_*.cpu_after_optimizations.hlo.pb")
    assert b"sqrt" in proto.read_bytes()
