"""Runs PyTorch's own database of operations on the device `tpu`, and compares with PyTorch's CPU.

`python tests/torch_tpu/op_db.py OUTPUT.json [NAME ...]` runs the forward pass of each operation, and the gradients of
those that have some, for `float32`, `bfloat16` and `int64`, on the first samples of the database. It starts processes
that run a part of the operations each, so that a crash affects one operation. Set `PJRT_DEVICE` to the plugin.
"""

import collections
import json
import os
import queue
import subprocess
import sys
import threading

DTYPES = ("float32", "bfloat16", "int64")
#: Samples of an operation and an element type.
SAMPLES = 4
#: Seconds for all samples of an operation and an element type.
LIMIT = 120


def main(output, names):
    import torch.testing._internal.common_methods_invocations as database

    known = sorted({op.full_name for op in database.op_db})
    if unknown := sorted(set(names) - set(known)):
        sys.exit(f"the database has no operations {unknown}")
    tasks = queue.SimpleQueue()
    for name in names or known:
        for dtype in DTYPES:
            tasks.put((name, dtype))
    results = {}
    threads = [threading.Thread(target=serve, args=(tasks, results)) for _ in range(int(os.environ.get("JOBS", "1")))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open(output, "w", encoding="utf-8") as file:
        json.dump(dict(sorted(results.items())), file, indent=1)
    counts = collections.Counter(result["outcome"] for result in results.values())
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))


def serve(tasks, results):
    """Runs tasks in a process, and starts another after each crash."""
    worker = None
    while True:
        try:
            name, dtype = tasks.get_nowait()
        except queue.Empty:
            break
        if worker is None:
            worker = subprocess.Popen(
                [sys.executable, __file__, "--worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        timer = threading.Timer(LIMIT, worker.kill)
        timer.start()
        try:
            worker.stdin.write(json.dumps([name, dtype]) + "\n")
            worker.stdin.flush()
            line = worker.stdout.readline()
        except OSError:
            line = ""
        late = not timer.is_alive()
        timer.cancel()
        if line:
            results[f"{name} {dtype}"] = json.loads(line)
        else:
            status = worker.wait()
            results[f"{name} {dtype}"] = {"outcome": "timeout" if late else "crash", "message": f"status {status}"}
            worker = None
    if worker is not None:
        worker.stdin.close()
        worker.wait()


def work():
    """Reads the names of operations and element types, and prints one result for each."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import torch
    import torch.testing._internal.common_methods_invocations as database

    ops = {op.full_name: op for op in database.op_db}
    for line in sys.stdin:
        name, dtype = json.loads(line)
        answers.write(json.dumps(check(torch, ops[name], getattr(torch, dtype))) + "\n")
        answers.flush()


def check(torch, op, dtype):
    if not op.supports_dtype(dtype, "cpu"):
        return {"outcome": "unsupported"}
    gradients = op.supports_autograd and dtype.is_floating_point
    try:
        torch.manual_seed(0)
        samples = [s for s, _ in zip(op.sample_inputs("cpu", dtype, requires_grad=gradients), range(SAMPLES))]
    except Exception as error:
        return {"outcome": "no samples", "message": text(error)}
    checked = 0
    for sample in samples:
        try:
            expected, expected_gradients = run(torch, op, sample, "cpu", gradients)
        except Exception:
            # PyTorch's CPU does not support this sample.
            continue
        try:
            actual, actual_gradients = run(torch, op, sample, "tpu", gradients)
        except Exception as error:
            return {"outcome": "error", "message": text(error), "sample": str(sample)[:400]}
        if op.name in RANDOM or "random" in op.name or "dropout" in str(sample.kwargs):
            checked += 1
            continue
        for what, left, right in (("result", expected, actual), ("gradient", expected_gradients, actual_gradients)):
            difference = differ(torch, left, right, dtype)
            if difference:
                return {"outcome": "wrong", "message": f"{what}: {difference}", "sample": str(sample)[:400]}
        checked += 1
    return {"outcome": "pass" if checked else "no samples", "samples": checked}


#: Operations whose results are random or not initialized, or not unique.
RANDOM = {
    "bernoulli", "cauchy", "empty", "empty_like", "empty_permuted", "empty_strided", "exponential", "geometric",
    "log_normal", "multinomial", "new_empty", "new_empty_strided", "normal", "rand_like", "randint", "randint_like",
    "randn", "randn_like", "uniform", "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
    "nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout", "nn.functional.rrelu",
    "nn.functional.multi_head_attention_forward",
    "linalg.eig", "linalg.eigh", "linalg.svd", "svd", "pca_lowrank", "svd_lowrank", "geqrf", "linalg.householder_product",
}


def run(torch, op, sample, device, gradients):
    """Returns the results and the gradients with respect to all inputs, as lists of tensors on the CPU."""
    from torch.utils import _pytree as pytree

    inputs = []

    def move(value):
        if isinstance(value, torch.Tensor):
            moved = value.detach().clone().to(device)
            if value.requires_grad:
                moved.requires_grad_()
                inputs.append(moved)
            return moved
        if isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu"):
            return torch.device(device)
        return value

    arguments = pytree.tree_map(move, (sample.input, sample.args, sample.kwargs))
    torch.manual_seed(0)
    results = op(arguments[0], *arguments[1], **arguments[2])
    results = sample.output_process_fn_grad(results) if gradients else results
    outputs = [value for value in pytree.tree_leaves(results) if isinstance(value, torch.Tensor)]
    found = []
    if gradients and inputs:
        differentiable = [value for value in outputs if value.requires_grad]
        if differentiable:
            seeds = [torch.ones_like(value) for value in differentiable]
            found = torch.autograd.grad(differentiable, inputs, seeds, allow_unused=True)
            found = [value for value in found if value is not None]
    return [value.detach().cpu() for value in outputs], [value.detach().cpu() for value in found]


def differ(torch, expected, actual, dtype):
    """Describes the first difference, or returns None."""
    if len(expected) != len(actual):
        return f"{len(actual)} tensors instead of {len(expected)}"
    for left, right in zip(expected, actual):
        # Integers are equal, unless they come from elements of bfloat16.
        tolerance = 4e-2 if dtype == torch.bfloat16 else 1e-3 if left.is_floating_point() or left.is_complex() else 0
        if left.dtype != right.dtype or left.shape != right.shape:
            return f"{right.dtype} {tuple(right.shape)} instead of {left.dtype} {tuple(left.shape)}"
        if left.is_sparse or left.is_quantized:
            left, right = left.to_dense(), right.to_dense()
        try:
            torch.testing.assert_close(right, left, rtol=tolerance, atol=tolerance, equal_nan=True)
        except AssertionError as error:
            return text(error)
    return None


def text(error):
    return f"{type(error).__name__}: {error}"[:600]


if __name__ == "__main__":
    if sys.argv[1:] == ["--worker"]:
        work()
    elif len(sys.argv) > 1:
        main(sys.argv[1], sys.argv[2:])
    else:
        sys.exit(__doc__)
