"""Tests the factorisations. JAX lowers them only for its own platforms, and the device's package registers the
lowerings.
"""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import needs_package
from jax._src.lax import linalg as lax_linalg

pytestmark = needs_package

OURS = jax.devices("pjrt_cpu")[0]
THEIRS = jax.devices("cpu")[0]
DTYPES = ["float32", "float64", "complex64", "complex128"]
SHAPES = [(1, 1), (2, 2), (5, 5), (3, 4, 4), (2, 2, 3, 3), (0, 3, 3), (40, 40)]
RNG = np.random.default_rng(7)


def matrix(dtype, *shape):
    x = RNG.standard_normal(shape)
    if dtype.startswith("complex"):
        x = x + 1j * RNG.standard_normal(shape)
    return x.astype(dtype)


def tolerance(dtype):
    return 2e-4 if dtype in ("float32", "complex64") else 1e-10


def ours(function, *arguments, device=OURS):
    """Runs on our device. Returns NumPy arrays of a wider type, so that computations of the tests add no error."""
    with jax.default_device(device):
        out = jax.jit(function)(*jax.device_put(arguments, device))
    for leaf in jax.tree.leaves(out):
        assert leaf.devices() == {device}
    wide = lambda x: np.asarray(x).astype(np.complex128 if jnp.iscomplexobj(x) else np.float64)
    return jax.tree.map(wide, out)


def near(a, b, dtype):
    np.testing.assert_allclose(a, b, rtol=tolerance(dtype), atol=tolerance(dtype) * 10)


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def orthonormal(q, dtype):
    near(adjoint(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), q.shape[:-2] + (q.shape[-1],) * 2), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("triangle", ["L", "U"])
def test_eigh(dtype, shape, triangle):
    x = matrix(dtype, *shape)
    half = np.tril(x) if triangle == "L" else np.triu(x)
    diagonal = np.eye(shape[-1]) * x
    a = half + adjoint(half) - np.real(diagonal)
    a = a - 1j * np.imag(np.eye(shape[-1]) * a) if np.iscomplexobj(a) else a
    # Only that triangle is read. The other one may contain anything.
    w, v = ours(lambda x: jnp.linalg.eigh(x, UPLO=triangle, symmetrize_input=False), half.astype(dtype))
    near(a @ v, v * w[..., None, :], dtype)
    orthonormal(v, dtype)
    assert np.all(np.diff(w, axis=-1) >= 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES + [(4, 2), (2, 4), (3, 7, 5), (3, 5, 7)])
@pytest.mark.parametrize("full", [True, False])
def test_svd(dtype, shape, full):
    a = matrix(dtype, *shape)
    u, s, vt = ours(lambda a: jnp.linalg.svd(a, full_matrices=full), a)
    k = min(shape[-2:])
    near((u[..., :k] * s[..., None, :]) @ vt[..., :k, :], a, dtype)
    orthonormal(u, dtype)
    orthonormal(adjoint(vt), dtype)
    values = ours(lambda a: jnp.linalg.svd(a, compute_uv=False), a)
    near(values, np.linalg.svd(a, compute_uv=False), dtype)
    near(s, values, dtype)
    assert np.all(np.diff(s, axis=-1) <= 0)


@pytest.mark.parametrize("algorithm", ["QR", "DIVIDE_AND_CONQUER"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_algorithms_of_the_svd(algorithm, dtype):
    if not hasattr(getattr(lax_linalg, "SvdAlgorithm", None), "DIVIDE_AND_CONQUER"):
        pytest.skip("SKIPPED: this JAX has no choice of algorithms on its platform cpu")
    a = matrix(dtype, 3, 5, 4)
    chosen = getattr(lax_linalg.SvdAlgorithm, algorithm)
    u, s, vt = ours(lambda a: lax_linalg.svd(a, full_matrices=False, algorithm=chosen), a)
    near((u * s[..., None, :]) @ vt, a, dtype)
    near(s, np.linalg.svd(a, compute_uv=False), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (2,), (7,), (2, 3, 5), (0,)])
def test_tridiagonal_solve(dtype, shape):
    dl, d, du = (matrix(dtype, *shape) for _ in range(3))
    # With zeros on the diagonal, rows must be exchanged.
    d[..., ::3] *= np.array(0 if shape[-1] > 1 else 1, dtype)
    b = matrix(dtype, *shape, 2)
    x = ours(lax_linalg.tridiagonal_solve, dl, d, du, b)
    product = d[..., None] * x
    product[..., 1:, :] += dl[..., 1:, None] * x[..., :-1, :]
    product[..., :-1, :] += du[..., :-1, None] * x[..., 1:, :]
    scale = 1 + np.abs(x).max(initial=0)
    near(product / scale, b / scale, dtype)


def test_tridiagonal_solve_of_a_singular_matrix():
    args = [np.array(x, "float32") for x in ([0, 1], [1, 3], [3, 0], [[1], [4]])]
    assert np.isnan(ours(lax_linalg.tridiagonal_solve, *args)).all()
    if "perturb_singular" not in inspect.signature(lax_linalg.tridiagonal_solve).parameters:
        pytest.skip("SKIPPED: the rest needs a JAX with perturb_singular")
    x = ours(lambda *args: lax_linalg.tridiagonal_solve(*args, perturb_singular=True), *args)
    assert np.isfinite(x).all() and (np.abs(x) > 1e6).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_eig(dtype, shape):
    a = matrix(dtype, *shape)
    w, left, right = ours(lambda a: lax_linalg.eig(a), a)
    near(a @ right, right * w[..., None, :], dtype)
    near(adjoint(left) @ a, w[..., :, None] * adjoint(left), dtype)
    for vectors in (left, right):
        near(np.linalg.norm(vectors, axis=-2), np.ones(shape[:-1]), dtype)
    # LAPACK scales the vectors so that the largest element is real.
    if a.size:
        largest = np.take_along_axis(right, np.abs(right).argmax(-2)[..., None, :], -2)
        near(np.imag(largest), np.zeros_like(np.imag(largest)), dtype)
    near(np.sort_complex(ours(jnp.linalg.eigvals, a)), np.sort_complex(np.linalg.eigvals(a)), dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_eigenvalues_of_a_real_matrix_come_in_pairs(dtype):
    a = np.array([[0, -2, 0], [2, 0, 0], [0, 0, 3]], dtype)
    w = ours(jnp.linalg.eigvals, a)
    near(np.sort(w.imag), [-2, 0, 2], dtype)
    assert w.imag.sum() == 0 and (w.imag == 0).sum() == 1


@pytest.mark.parametrize("n", [2, 3, 4])
def test_schur_forms_of_small_matrices_are_lapacks(n):
    """Rounding determines the signs for larger matrices, and the phases for complex ones."""
    scipy_linalg = pytest.importorskip("scipy.linalg")
    for _ in range(5):
        a = matrix("float64", n, n)
        for mine, their in zip(ours(jax.scipy.linalg.schur, a), scipy_linalg.schur(a)):
            np.testing.assert_allclose(mine, their, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_eigenvalues_are_in_lapacks_order(dtype):
    for _ in range(5):
        a = matrix(dtype, 2, 2)
        w, v = ours(lambda a: jnp.linalg.eig(a), a)
        near(w, np.linalg.eigvals(a), dtype)
        near(ours(jnp.linalg.eigvals, a), w, dtype)
        near(a @ v, v * w, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [s for s in SHAPES if 0 not in s])
def test_schur(dtype, shape):
    a = matrix(dtype, *shape)
    t, z = ours(lambda a: lax_linalg.schur(a), a)
    near(z @ t @ adjoint(z), a, dtype)
    orthonormal(z, dtype)
    n = shape[-1]
    below = np.tril(t, -1 if dtype.startswith("complex") else -2)
    assert not below.any()
    for block in t.reshape(-1, n, n):
        under = np.diag(block, -1)
        # Blocks of two do not touch. Their diagonal elements are equal, and their eigenvalues are not real.
        assert not np.any((under[:-1] != 0) & (under[1:] != 0))
        for i in np.flatnonzero(under):
            near(block[i, i], block[i + 1, i + 1], dtype)
            assert block[i, i + 1] * block[i + 1, i] < 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_schur_of_matrices_with_structure(dtype):
    rotation = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]])
    jordan = np.array([[2, 1, 0, 0], [0, 2, 1, 0], [0, 0, 2, 1], [0, 0, 0, 2]])
    for a in [np.zeros((3, 3)), np.eye(4), rotation, jordan, jordan.T, np.ones((5, 5)), np.diag([1.0, 1, 1])[::-1]]:
        t, z = ours(lambda a: lax_linalg.schur(a), a.astype(dtype))
        near(z @ t @ adjoint(z), a, dtype)
        orthonormal(z, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (6, 6), (2, 5, 5)])
@pytest.mark.parametrize("name", ["hessenberg", "lower", "upper"])
def test_packed_forms_are_lapacks(dtype, shape, name):
    a = matrix(dtype, *shape)
    if name == "hessenberg":
        function = lax_linalg.hessenberg
    else:
        a = a + adjoint(a)
        function = lambda a: lax_linalg.tridiagonal(a, lower=name == "lower")
    if name == "hessenberg" and shape == (1, 1):
        pytest.skip("SKIPPED: JAX's own CPU backend passes LAPACK a wrong size")
    for mine, their in zip(ours(function, a), ours(function, a, device=THEIRS)):
        near(mine, their, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (3, 5), (5, 3), (2, 4, 4), (30, 30)])
def test_lu(dtype, shape):
    a = matrix(dtype, *shape)
    for mine, their in zip(ours(lax_linalg.lu, a), ours(lax_linalg.lu, a, device=THEIRS)):
        near(mine, their, dtype)


def test_lu_of_singular_matrices():
    for a in [np.zeros((3, 3)), np.ones((3, 3)), np.array([[0.0, 1], [0, 2]])]:
        for mine, their in zip(ours(lax_linalg.lu, a), ours(lax_linalg.lu, a, device=THEIRS)):
            np.testing.assert_array_equal(mine, their)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
def test_qr_with_pivots(dtype, shape):
    if not hasattr(lax_linalg, "geqp3"):
        pytest.skip("SKIPPED: this JAX has no QR with pivots")
    a, free = matrix(dtype, *shape), np.zeros(shape[-1], np.int32)
    for mine, their in zip(ours(lax_linalg.geqp3, a, free), ours(lax_linalg.geqp3, a, free, device=THEIRS)):
        near(mine, their, dtype)


@pytest.mark.parametrize("name", ["eigh", "svd", "eig"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_gives_nan(name, bad):
    a = np.eye(3)
    a[1, 1] = bad
    both = np.stack([a, np.eye(3)])
    for leaf in jax.tree.leaves(ours(getattr(jnp.linalg, name), both)):
        assert np.isnan(leaf[0]).all() and np.isfinite(leaf[1]).all()


def functions():
    a, b = matrix("float64", 5, 5), matrix("float64", 5, 3)
    symmetric = a @ a.T + np.eye(5)
    scipy = jax.scipy.linalg
    return {
        "pinv": (jnp.linalg.pinv, b),
        "lstsq": (lambda a, b: jnp.linalg.lstsq(a, b)[0], b, a[:, :2]),
        "matrix_rank": (jnp.linalg.matrix_rank, np.outer(a[0], a[1])),
        "cond": (jnp.linalg.cond, a),
        "norm": (lambda a: jnp.linalg.norm(a, "nuc"), a),
        "det": (jnp.linalg.det, a),
        "slogdet": (jnp.linalg.slogdet, a),
        "inv": (jnp.linalg.inv, a),
        "solve": (jnp.linalg.solve, a, b),
        "sqrtm": (scipy.sqrtm, symmetric),
        "expm": (scipy.expm, a),
        "polar": (scipy.polar, a),
        "eigh_tridiagonal": (lambda d, e: scipy.eigh_tridiagonal(d, e, eigvals_only=True), a[0], a[1, :4]),
        "multivariate_normal": (
            lambda c: jax.random.multivariate_normal(jax.random.key(0), jnp.zeros(5), c, method="cholesky"),
            symmetric,
        ),
        "gradient of eigh": (jax.grad(lambda a: jnp.sum(jnp.linalg.eigh(a)[0] ** 3)), symmetric),
        "gradient of svd": (jax.grad(lambda a: jnp.sum(jnp.linalg.svd(a, compute_uv=False) ** 3)), b),
        "gradient of eigvals": (jax.grad(lambda a: jnp.sum(jnp.abs(jnp.linalg.eigvals(a)))), a),
        "vmap": (jax.vmap(lambda x: jnp.linalg.eigvalsh(jnp.outer(x, x))), a),
        "in a loop": (lambda a: jax.lax.fori_loop(0, 3, lambda _, x: jnp.linalg.svd(x)[1][:, None] * a, a), a),
    }


@pytest.mark.parametrize("name", functions())
def test_what_is_made_of_them(name):
    function, *arguments = functions()[name]
    mine, their = ours(function, *arguments), ours(function, *arguments, device=THEIRS)
    assert jax.tree.structure(mine) == jax.tree.structure(their)
    for a, b in zip(jax.tree.leaves(mine), jax.tree.leaves(their)):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7)


def test_programs_exported_for_the_platform_cpu():
    """The programs that JAX lowers for `cpu` call the same routines. QR consists of two of them."""
    try:
        from jax import export
    except ImportError as error:
        pytest.skip(f"SKIPPED: this JAX exports nothing without another package: {error}")
    a = matrix("float32", 4, 4)
    anywhere = [export.DisabledSafetyCheck.platform()]
    exported = export.export(jax.jit(jnp.linalg.qr), platforms=["cpu"], disabled_checks=anywhere)(a)
    assert "lapack_sgeqrf_ffi" in exported.mlir_module()
    q, r = ours(exported.call, a)
    near(q @ r, a, "float32")
    orthonormal(q, "float32")
