"""Tests artifacts of `jax.export` that were made for the device, for several platforms, and for JAX's own `cpu`."""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_package

try:
    from jax import export
except ImportError as error:
    pytest.skip(f"SKIPPED: jax.export needs a package that is not installed ({error})", allow_module_level=True)

pytestmark = needs_package

OURS = jax.devices("pjrt_cpu")[0]


@pytest.fixture(autouse=True)
def ours():
    with jax.default_device(OURS):
        yield


def f(x):
    return jnp.sin(x) @ x.T


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def artifact(function, *platforms):
    """Exports a function of `X`."""
    return export.export(jax.jit(function), platforms=platforms)(X)


def check(exported, function=f):
    result = jax.jit(exported.call)(X)
    assert result.devices() == {OURS}
    with jax.default_device(jax.devices("cpu")[0]):
        np.testing.assert_allclose(np.asarray(result), np.asarray(function(jnp.asarray(X))), rtol=1e-5)


def test_for_the_device():
    check(artifact(f, "pjrt_cpu"))


@pytest.mark.parametrize("platforms", [("cpu", "pjrt_cpu"), ("pjrt_cpu", "cpu", "tpu")])
def test_for_several_platforms(platforms):
    check(artifact(f, *platforms))


@pytest.mark.parametrize("platforms", [("cpu",), ("tpu", "cpu"), ("cpu", "tpu", "cuda")])
def test_for_cpu(platforms):
    from pjrt_plugin_pjrt_cpu import jax_export

    exported = artifact(f, *platforms)
    with pytest.raises(ValueError, match="was exported for"):
        jax.jit(exported.call)(X)
    ours = jax_export.for_platform(exported)
    check(ours)
    # The original is unchanged.
    assert exported.platforms == platforms
    assert jax_export.for_platform(ours) is ours


def test_for_cpu_as_bytes():
    from pjrt_plugin_pjrt_cpu import jax_export

    if importlib.util.find_spec("flatbuffers") is None:
        pytest.skip("SKIPPED: flatbuffers, which JAX needs to serialize artifacts, is not installed")
    exported = export.deserialize(artifact(f, "cpu").serialize(vjp_order=1))
    ours = jax_export.for_platform(exported)
    check(ours)
    check(export.deserialize(ours.serialize(vjp_order=1)))


def test_for_cpu_with_its_gradient():
    from pjrt_plugin_pjrt_cpu import jax_export

    exported = jax_export.for_platform(artifact(f, "cpu"))
    gradient = jax.grad(lambda x: exported.call(x).sum())(X)
    np.testing.assert_allclose(np.asarray(gradient), np.asarray(jax.grad(lambda x: f(x).sum())(jnp.asarray(X))), rtol=1e-5)


def test_for_cpu_with_calls_of_lapack():
    from pjrt_plugin_pjrt_cpu import jax_export

    def singular_values(x):
        return jnp.linalg.svd(x, compute_uv=False)

    check(jax_export.for_platform(artifact(singular_values, "cpu")), singular_values)


def test_for_neither_platform():
    from pjrt_plugin_pjrt_cpu import jax_export

    with pytest.raises(ValueError, match="was exported for tpu, not for cpu; pass one of these as `instead_of`"):
        jax_export.for_platform(artifact(f, "tpu"))
    check(jax_export.for_platform(artifact(f, "tpu"), instead_of="tpu"))
