"""Single operations of PyTorch, each with a function and its arguments. The results and gradients must equal those of
PyTorch's CPU.
"""

import torch
import torch.nn.functional as F

#: name: (function, arguments, whether to compare gradients as well)
OPS = {}
_generator = torch.Generator().manual_seed(0)


def floats(*shape, low=-2.0, high=2.0, dtype=torch.float32):
    return (torch.rand(shape, generator=_generator) * (high - low) + low).to(dtype)


def positive(*shape, dtype=torch.float32):
    return floats(*shape, low=0.25, dtype=dtype)


def integers(*shape, low=0, high=9, dtype=torch.int64):
    return torch.randint(low, high, shape, generator=_generator).to(dtype)


def op(name, function, *arguments, grad=True):
    assert name not in OPS, name
    OPS[name] = (function, arguments, grad and any(isinstance(a, torch.Tensor) and a.is_floating_point() for a in arguments))


# Elementwise.
for name in (
    "abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor frac lgamma "
    "log log10 log1p log2 logit neg rad2deg reciprocal relu round rsqrt sigmoid sgn sign sin sinc sinh sqrt square tan tanh trunc"
).split():
    low, high = {"acosh": (1.1, 3), "acos": (-0.9, 0.9), "asin": (-0.9, 0.9), "atanh": (-0.9, 0.9), "erfinv": (-0.9, 0.9),
                 "logit": (0.1, 0.9)}.get(name, (0.3, 2.7))
    op(name, getattr(torch, name), floats(3, 5, low=low, high=high))
for name in "isnan isinf isfinite logical_not signbit".split():
    op(name, getattr(torch, name), torch.tensor([0.0, -0.0, 1.5, float("nan"), float("inf"), -float("inf")]), grad=False)
for name in "add sub mul div pow atan2 maximum minimum fmax fmin hypot remainder fmod logaddexp copysign".split():
    op(name, getattr(torch, name), positive(4, 3), positive(3))
for name in "eq ne lt le gt ge".split():
    op(name, getattr(torch, name), integers(8, high=3), integers(8, high=3), grad=False)
for name in "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift".split():
    op(name, getattr(torch, name), integers(8, high=30, dtype=torch.int32), integers(8, high=7, dtype=torch.int32), grad=False)
for name in "logical_and logical_or logical_xor".split():
    op(name, getattr(torch, name), integers(8, high=2) > 0, integers(8, high=2) > 0, grad=False)
for rounding in (None, "floor", "trunc"):
    op(f"div_{rounding}", lambda a, b, r=rounding: torch.div(a, b, rounding_mode=r), integers(9, low=-20, high=20), integers(9, low=1), grad=False)
op("scalars", lambda a: (a + 1, 2 - a, a * 3, 1 / a, a**2, a**0.5, 2**a, a % 0.7), positive(5))
op("addcmul_addcdiv", lambda a, b, c: (torch.addcmul(a, b, c, value=0.5), torch.addcdiv(a, b, c)), positive(4), positive(4), positive(4))
op("where_clamp", lambda a, b: (torch.where(a > b, a, b * 2), a.clamp(-1, 1), a.clamp_min(0.1), torch.nan_to_num(a / 0)), floats(9), floats(9))
op("lerp_mix", lambda a, b: (torch.lerp(a, b, 0.25), torch.dist(a, b), torch.nn.functional.cosine_similarity(a, b, dim=0)), floats(9), floats(9))
op("complex", lambda a, b: ((torch.complex(a, b) * torch.complex(b, a)).real, torch.complex(a, b).exp().imag, torch.view_as_real(torch.complex(a, b))), floats(5), floats(5), grad=False)
op("polar_angle", lambda a, b: (torch.angle(torch.complex(a, b)), torch.complex(a, b).conj().imag), floats(5), floats(5), grad=False)

# Activations.
for name in (
    "celu elu gelu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu6 rrelu selu silu softplus "
    "softshrink softsign tanhshrink"
).split():
    op(f"F.{name}", getattr(F, name), floats(3, 6))
op("gelu_tanh", lambda a: F.gelu(a, approximate="tanh"), floats(3, 6))
op("prelu", lambda a, w: F.prelu(a, w), floats(2, 3, 4), positive(3))
op("softmax", lambda a: (F.softmax(a, 1), F.log_softmax(a, 0), F.softmin(a, -1)), floats(4, 7))
op("softmax_masked", lambda a: F.softmax(a.masked_fill(torch.ones_like(a).triu(1) > 0, float("-inf")), -1), floats(5, 5))

# Reductions and scans.
for name in "sum mean prod amax amin logsumexp std var".split():
    op(name, lambda a, f=getattr(torch, name): (f(a, 1), f(a, (0, 2), keepdim=True) if f is not torch.prod else f(a, 0, keepdim=True)), positive(3, 4, 5))
op("max_min", lambda a: (*a.max(1), *a.min(0), a.max(), a.min()), floats(4, 6))
op("argmax_argmin", lambda a: (a.argmax(1), a.argmin(0), a.argmax()), floats(4, 6), grad=False)
op("any_all", lambda a: ((a > 1).any(1), (a > -1).all(0), (a > 0).any(), (a > 0).sum()), floats(4, 6), grad=False)
op("norms", lambda a: (a.norm(), a.norm(1, dim=1), a.norm(float("inf"), dim=0), F.normalize(a, dim=1)), floats(4, 6))
op("cumulative", lambda a: (a.cumsum(1), a.cumprod(0), a.logcumsumexp(1)), positive(3, 6))
op("cummax", lambda a: (*a.cummax(1), *a.cummin(0)), floats(3, 6), grad=False)
op("median_mode", lambda a: (a.median(), a.median(1)[0], a.kthvalue(2, 1)[0], a.quantile(0.25)), floats(3, 7), grad=False)
op("var_mean_trace", lambda a: (*torch.var_mean(a, 1), a.trace(), a.diagonal(), a.tril(), a.triu(1)), floats(4, 4))
op("histograms", lambda a: (torch.bincount(a, minlength=10), torch.histc(a.float(), 5, 0, 9)), integers(20), grad=False)

# Shapes.
op("views", lambda a: (a.reshape(6, 4), a.permute(2, 0, 1), a.transpose(0, 1), a.unsqueeze(1), a.flatten(1), a.mT, a.expand(2, 2, 3, 4)), floats(2, 3, 4))
op("slices", lambda a: (a[1:, ::2], a[:, -1], a[..., None], a.narrow(1, 1, 2), a.select(0, 1), a.unfold(1, 2, 1)), floats(3, 5))
op("cat_stack", lambda a, b: (torch.cat([a, b], 1), torch.stack([a, b], 1), *torch.chunk(a, 2, 1), *torch.split(b, [1, 3], 1), *a.unbind(0)), floats(2, 4), floats(2, 4))
op("flip_roll_repeat", lambda a: (a.flip(1), a.roll(2, 1), a.repeat(2, 3), a.tile(2), torch.rot90(a), a.repeat_interleave(2, 0)), floats(2, 4))
op("pads", lambda a: (F.pad(a, (1, 2)), F.pad(a, (1, 1, 2, 0), value=3.0), F.pad(a, (-1, 1)), F.pad(a, (1, 1, 1, 1), mode="reflect"), F.pad(a, (1, 1, 1, 1), mode="replicate")), floats(1, 2, 4, 5))
op("creation", lambda a: (torch.arange(5, device=a.device), torch.linspace(0, 1, 7, device=a.device), torch.eye(3, device=a.device), torch.full((2, 2), 1.5, device=a.device), torch.zeros_like(a), torch.tril(torch.ones(3, 3, device=a.device)), torch.empty(0, 3, device=a.device) + 1), floats(3), grad=False)
op("meshgrid_outer", lambda a, b: (*torch.meshgrid(a, b, indexing="ij"), torch.outer(a, b), torch.cartesian_prod(a, b), torch.kron(a, b)), floats(3), floats(4))
op("in_place", lambda a: (a.clone().add_(1).mul_(2), a.clone().zero_(), a.clone().fill_(3), a.clone().copy_(a.flip(0))), floats(4), grad=False)
op("slice_assign", lambda a, b: _assigned(a, b), floats(4, 5), floats(2), grad=False)


def _assigned(a, b):
    c = a.clone()
    c[1:3, 2] = b
    c[0] = 7.0
    c[:, 0] += 1
    c[c > 1.5] = -1.0
    return c


# Indexing.
op("index", lambda a, i: (a[i], a[:, i], a[i, i], a[i[:, None], i]), floats(9, 9), integers(4))
op("index_select_take", lambda a, i: (a.index_select(0, i), torch.take(a, i), torch.take_along_dim(a, i[None, :], 1)), floats(9, 9), integers(4))
op("gather", lambda a, i: a.gather(1, i), floats(4, 9), integers(4, 3))
op("scatter", lambda a, i, s: (a.scatter(1, i, s), a.scatter_add(1, i, s)), floats(4, 9), torch.tensor([[0, 3, 7]] * 4), floats(4, 3))
op("scatter_reduce", lambda a, i, s: (a.scatter_reduce(1, i, s, "sum"), a.scatter_reduce(1, i, s, "amax"), a.scatter_reduce(1, i, s, "amin", include_self=False), a.scatter_reduce(1, i, s, "prod"), a.scatter_reduce(1, i, s, "mean")), floats(4, 9), integers(4, 3), floats(4, 3), grad=False)
op("index_put", lambda a, i, s: (a.index_put((i,), s), a.index_put((i,), s, accumulate=True)), floats(9, 3), torch.tensor([1, 5, 2]), floats(3, 3))
op("index_add_copy_fill", lambda a, i, s: (a.index_add(0, i, s), a.index_copy(0, i, s), a.index_fill(0, i, 2.0)), floats(9, 3), torch.tensor([1, 5, 2]), floats(3, 3))
op("masked_scatter", lambda a, m: a.masked_scatter(m, a.flip(0)), floats(6, 3), integers(6, 3, high=2) > 0, grad=False)
op("masked", lambda a, m: (a.masked_fill(m, 3.0), torch.masked_select(a, m), torch.nonzero(m)), floats(6, 3), integers(6, 3, high=2) > 0, grad=False)
op("embedding", lambda w, i: (F.embedding(i, w), F.embedding(i, w, padding_idx=0)), floats(9, 4), integers(3, 5))
op("embedding_bag", lambda w, i: (F.embedding_bag(i, w, mode="sum"), F.embedding_bag(i, w, mode="mean")), floats(9, 4), integers(3, 5), grad=False)
op("one_hot", lambda i: F.one_hot(i, 9), integers(7))
op("searchsorted", lambda a, b: (torch.searchsorted(a.sort()[0], b), torch.bucketize(b, a.sort()[0])), floats(7), floats(4), grad=False)

# Order.
op("sort", lambda a: (*a.sort(1), *a.sort(0, descending=True), *a.sort(dim=1, stable=True)), floats(5, 7), grad=False)
op("sort_values", lambda a: a.sort(1, descending=True)[0], floats(5, 7))
op("argsort_topk", lambda a: (a.argsort(1), *a.topk(3, 1), *a.topk(2, 0, largest=False)), floats(5, 7), grad=False)
op("topk_values", lambda a: a.topk(3, 1)[0], floats(5, 7))
op("unique_isin", lambda a: (torch.unique(a), torch.isin(a, a[:3])), integers(12), grad=False)

# Linear algebra.
op("matmul", lambda a, b: (a @ b, a @ b[:, 0], torch.mm(a, b)), floats(4, 5), floats(5, 3))
op("bmm_einsum", lambda a, b: (torch.bmm(a, b), torch.einsum("bij,bjk->ik", a, b), torch.baddbmm(a @ b, a, b)), floats(2, 3, 4), floats(2, 4, 5))
op("linear", lambda x, w, b: (F.linear(x, w, b), F.linear(x, w), torch.addmm(b, x, w.T, beta=0.5, alpha=2)), floats(6, 5), floats(3, 5), floats(3))
op("bilinear", lambda a, b, w: F.bilinear(a, b, w), floats(3, 4), floats(3, 5), floats(2, 4, 5))
op("factorizations", lambda a: (torch.linalg.cholesky(a @ a.T + 5 * torch.eye(4, device=a.device)), torch.linalg.qr(a)[1].abs(), torch.linalg.det(a), torch.linalg.svdvals(a)), floats(4, 4) + 3 * torch.eye(4), grad=False)
op("inverse", torch.linalg.inv, floats(4, 4) + 3 * torch.eye(4), grad=False)
op("eigh", lambda a: (torch.linalg.eigvalsh(a + a.T), torch.linalg.eigh(a + a.T)[1].abs()), floats(4, 4), grad=False)
op("solves", lambda a, b: (torch.linalg.solve(a, b), torch.linalg.solve_triangular(a.triu(), b, upper=True)), floats(4, 4) + 4 * torch.eye(4), floats(4, 2), grad=False)
op("cdist_cross", lambda a, b: (torch.cdist(a, b), torch.linalg.cross(a, b), torch.tensordot(a, b, 2)), floats(4, 3), floats(4, 3), grad=False)
op("fft", lambda a: (torch.view_as_real(torch.fft.fft(a)), torch.view_as_real(torch.fft.rfft(a))), floats(3, 8), grad=False)

# Networks.
op("conv1d", lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1), floats(2, 3, 9), floats(4, 3, 3), floats(4))
op("conv2d", lambda x, w, b: (F.conv2d(x, w, b), F.conv2d(x, w, None, stride=(2, 1), padding=(1, 2), dilation=(1, 2)), F.conv2d(x, w, padding="same")), floats(2, 3, 8, 9), floats(4, 3, 3, 3), floats(4))
op("conv2d_groups", lambda x, w: F.conv2d(x, w, groups=2, padding=1), floats(2, 4, 6, 6), floats(6, 2, 3, 3))
op("conv2d_depthwise", lambda x, w: F.conv2d(x, w, groups=4), floats(2, 4, 6, 6), floats(4, 1, 3, 3))
op("conv3d", lambda x, w: F.conv3d(x, w, padding=1), floats(1, 2, 4, 5, 5), floats(3, 2, 3, 3, 3))
op("conv_transpose2d", lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1), floats(1, 3, 5, 5), floats(3, 4, 3, 3))
op("conv_transpose1d", lambda x, w: F.conv_transpose1d(x, w, stride=2), floats(1, 3, 5), floats(3, 4, 3))
op("max_pool2d", lambda x: (F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1)), floats(2, 3, 8, 8))
op("max_pool_indices", lambda x: F.max_pool2d(x, 2, return_indices=True), floats(2, 3, 8, 8), grad=False)
op("avg_pool2d", lambda x: (F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)), floats(2, 3, 8, 8))
op("pools_1d_3d", lambda x: (F.max_pool1d(x[0], 2), F.avg_pool1d(x[0], 2), F.max_pool3d(x[None], 2), F.avg_pool3d(x[None], 2)), floats(2, 3, 8, 8))
op("adaptive_pools", lambda x: (F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (4, 2)), F.adaptive_max_pool2d(x, 4)), floats(2, 3, 8, 8), grad=False)
op("adaptive_avg_pool", lambda x: F.adaptive_avg_pool2d(x, 2), floats(2, 3, 8, 8))
op("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), floats(4, 3, 5, 5), positive(3), floats(3))
op("batch_norm_running", lambda x, m, v: F.batch_norm(x, m, v), floats(4, 3), floats(3), positive(3), grad=False)
op("layer_norm", lambda x, w, b: (F.layer_norm(x, (6,), w, b), F.layer_norm(x, (4, 6))), floats(3, 4, 6), positive(6), floats(6))
op("group_instance_norm", lambda x, w, b: (F.group_norm(x, 2, w, b), F.instance_norm(x)), floats(2, 4, 5, 5), positive(4), floats(4))
op("rms_norm", lambda x, w: F.rms_norm(x, (6,), w), floats(3, 6), positive(6))
op("local_response_norm", lambda x: F.local_response_norm(x, 3), floats(2, 4, 5, 5))
op("interpolate", lambda x: (F.interpolate(x, scale_factor=2, mode="nearest"), F.interpolate(x, size=(7, 9), mode="bilinear")), floats(1, 2, 4, 5), grad=False)
op("pixel_shuffle", lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2)), floats(1, 4, 4, 6))
op("grid_sample", lambda x, g: F.grid_sample(x, g, align_corners=False), floats(1, 2, 4, 5), floats(1, 3, 3, 2, low=-1, high=1), grad=False)
op("attention", lambda q, k, v: (F.scaled_dot_product_attention(q, k, v), F.scaled_dot_product_attention(q, k, v, is_causal=True)), floats(2, 2, 5, 4), floats(2, 2, 5, 4), floats(2, 2, 5, 4))
op("fold", lambda x: (F.unfold(x, 2), F.fold(F.unfold(x, 2), (4, 5), 2)), floats(1, 2, 4, 5))

# Losses.
op("cross_entropy", lambda x, t: (F.cross_entropy(x, t), F.cross_entropy(x, t, label_smoothing=0.1), F.cross_entropy(x, t, ignore_index=2), F.nll_loss(F.log_softmax(x, 1), t)), floats(6, 5), integers(6, high=5))
op("cross_entropy_weighted", lambda x, t, w: F.cross_entropy(x, t, weight=w.detach()), floats(6, 5), integers(6, high=5), positive(5))
op("cross_entropy_2d", lambda x, t: F.cross_entropy(x, t), floats(2, 5, 3, 3), integers(2, 3, 3, high=5))
op("binary_cross_entropy", lambda x, t: (F.binary_cross_entropy(x.sigmoid(), t), F.binary_cross_entropy_with_logits(x, t)), floats(6), floats(6, low=0, high=1))
op("regressions", lambda x, t: (F.mse_loss(x, t), F.l1_loss(x, t), F.smooth_l1_loss(x, t), F.huber_loss(x, t), F.kl_div(x.log_softmax(0), t.softmax(0), reduction="batchmean"), F.poisson_nll_loss(x, t)), floats(6), floats(6))
op("margins", lambda x, t: (F.hinge_embedding_loss(x, t.sign()), F.soft_margin_loss(x, t.detach().sign()), F.triplet_margin_loss(x, t, t.flip(0)), F.cosine_embedding_loss(x, t, t[:, 0].detach().sign())), floats(4, 6), floats(4, 6))

# Types.
for dtype in (torch.bfloat16, torch.float16, torch.float64):
    word = str(dtype).removeprefix("torch.")
    op(f"arithmetic_{word}", lambda a, b: (a + b, a * b, a / b, a.exp(), a.tanh(), a.sum(1), a @ b.T, F.softmax(a, 1), F.gelu(a)), positive(4, 6, dtype=dtype), positive(4, 6, dtype=dtype))
    op(f"network_{word}", lambda x, w: F.layer_norm(F.conv2d(x, w).relu().flatten(1), (16,)), floats(2, 3, 4, 4, dtype=dtype), floats(4, 3, 3, 3, dtype=dtype), grad=dtype != torch.float16)
for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64):
    word = str(dtype).removeprefix("torch.")
    op(f"arithmetic_{word}", lambda a, b: (a + b, a * b, a - b, a // b, a % b, -a, a.abs(), a.sum(1), a.max(1)[0], a.to(torch.float32) / 3, a.cumsum(0, dtype=torch.int64), a.clamp(2, 5), a.prod(0)), integers(4, 6, dtype=dtype), integers(4, 6, low=1, dtype=dtype))
op("casts", lambda a: [a.to(t) for t in (torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)], floats(9, low=-100, high=100), grad=False)
op("cast_uint8", lambda a: (a.to(torch.uint8), a.to(torch.uint8).float()), floats(9, low=0, high=200), grad=False)
op("view_dtype", lambda a: (a.view(torch.int32), a.to(torch.bfloat16).view(torch.int16)), floats(8), grad=False)
op("float8", lambda a: (a.to(torch.float8_e4m3fn).float(), a.to(torch.float8_e5m2).float()), floats(9), grad=False)
op("edge_values", lambda a: (a + 1, a * 0, a.exp(), a.log(), a.tanh(), a.sqrt(), a.round(), a.sign(), a.maximum(a.flip(0)), a.max(), a.sort()[0], a < a.flip(0)), torch.tensor([0.0, -0.0, 1e-40, -2.5, 0.5, 3e38, float("inf"), -float("inf")]), grad=False)
op("nan_values", lambda a: (a + 1, a.maximum(torch.zeros_like(a)), a.max(), a.sum(), a.nansum(), a.relu(), a.clamp(0, 1), a == a, a.sort()[0]), torch.tensor([0.0, float("nan"), -2.5, 0.5]), grad=False)
op("empty", lambda a: (a + 1, a.sum(), a.sum(0), torch.cat([a, a]), a.reshape(3, 0), a.T @ a), floats(0, 3), grad=False)
