#!/usr/bin/env python3
"""Runs PyTorch programs on a PJRT plugin through PyTorch/XLA and compares the results with PyTorch's CPU.

    python tests/torch/run.py target/release/libpjrt_plugin_cpu.so [--format hlo|stablehlo] [NAME...]

needs `pip install torch==2.9.0 torch_xla==2.9.0` (a few gigabytes, so it is not part of the tests of every change).
Without them, it prints that it skips. PyTorch/XLA sends HLO unless XLA_STABLEHLO_COMPILE is set. By default both forms
are tried, one after the other. Every name of `ops.py` and `programs.py` is a case. If a case ends the process, this is
recorded and the other cases continue. A case that fails is tried again on the CPU device within PyTorch/XLA. If it
fails there too, the plugin is not the cause.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

#: Allowed relative and absolute error, by element type.
TOLERANCES = {"float64": (1e-9, 1e-9), "float32": (2e-4, 2e-5), "bfloat16": (4e-2, 4e-2), "float16": (6e-3, 6e-3)}
#: Larger errors, with the reasons.
LOOSE = {
    "mlp_autocast_bf16": (5e-2, 2e-2),  # Each framework chooses for itself which operations are done in bf16.
    "large": (1e-3, 1e-3),
}


def tensors(value):
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    return [part for item in value for part in tensors(item)]


def host(value):
    return [tensor.detach().cpu() for tensor in tensors(value)]


def leaf(tensor, device, grad):
    import torch

    if not isinstance(tensor, torch.Tensor):
        return tensor
    moved = tensor.clone().to(device)
    return moved.requires_grad_() if grad and tensor.is_floating_point() else moved


def operation(case, device):
    """The results, followed by the gradients of a weighted sum of them."""
    import torch

    function, arguments, grad = case
    inputs = [leaf(argument, device, grad) for argument in arguments]
    torch.manual_seed(0)
    results = tensors(function(*inputs))
    if not grad:
        return results
    sums = [
        (result.float() * torch.linspace(0.5, 1.5, result.numel(), device=device).reshape(result.shape)).sum()
        for result in results
        if result.is_floating_point() and result.requires_grad
    ]
    wanted = [value for value in inputs if isinstance(value, torch.Tensor) and value.requires_grad]
    grads = torch.autograd.grad(sum(sums), wanted, allow_unused=True) if sums else []
    return [*results, *(g for g in grads if g is not None)]


def compare(name, got, want):
    import torch

    if len(got) != len(want):
        return f"{len(got)} results, not {len(want)}"
    for number, (g, w) in enumerate(zip(got, want)):
        if g.dtype != w.dtype or g.shape != w.shape:
            return f"result {number} is {g.dtype} {list(g.shape)}, not {w.dtype} {list(w.shape)}"
        kind = str(w.dtype).removeprefix("torch.")
        relative, absolute = LOOSE.get(name) or TOLERANCES.get(kind, (0, 0))
        if w.is_floating_point():
            g, w = g.double(), w.double()
        if not torch.allclose(g, w, rtol=relative, atol=absolute, equal_nan=True):
            off = (g.double() - w.double()).abs().nan_to_num(float("inf"))
            return f"result {number} ({kind} {list(w.shape)}) is off by {off.max().item():.3g}: {g.flatten()[:6].tolist()}, not {w.flatten()[:6].tolist()}"
    return None


def run(name, device):
    from ops import OPS
    from programs import PROGRAMS

    if name in OPS:
        return operation(OPS[name], device)
    return PROGRAMS[name](device)


def child(names):
    """Runs cases. Prints one line of JSON before and after each of them."""
    import torch
    import torch_xla
    import torch_xla.debug.metrics as metrics

    xla, cpu = torch_xla.device(), torch.device("cpu")
    say = lambda **fields: print("@" + json.dumps(fields), flush=True)  # noqa: E731
    for name in names:
        say(start=name)
        try:
            want = host(run(name, cpu))
        except Exception as error:  # PyTorch itself cannot: nothing to compare with.
            say(name=name, outcome="no reference", why=f"{type(error).__name__}: {error}")
            continue
        before = fallbacks(metrics)
        try:
            got = host(run(name, xla))
            why = compare(name, got, want)
            outcome = "different" if why else "ok"
        except Exception as error:
            outcome, why = "error", f"{type(error).__name__}: {error}"
        fell = sorted(key for key, count in fallbacks(metrics).items() if count != before.get(key, 0))
        say(name=name, outcome=outcome, why=why, fallbacks=fell)


def fallbacks(metrics):
    """Operations that PyTorch/XLA ran on PyTorch's CPU, with their counts."""
    return {name: metrics.counter_value(name) for name in metrics.counter_names() if name.startswith("aten::")}


def drive(plugin, form, names):
    """The results by name. Without a plugin, those of PyTorch/XLA's own device."""
    chosen = dict(PJRT_DEVICE="LIBRARY", PJRT_LIBRARY_PATH=str(plugin)) if plugin else dict(PJRT_DEVICE="CPU")
    environment = dict(os.environ, **chosen)
    environment["XLA_STABLEHLO_COMPILE"] = "1" if form == "stablehlo" else "0"
    results, left = {}, list(names)
    while left:
        command = [sys.executable, __file__, "--child", str(plugin or "none"), *left]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        current = None
        for line in process.stdout:
            if not line.startswith("@"):
                continue
            fields = json.loads(line[1:])
            current = fields.get("start")
            if "name" in fields:
                results[fields["name"]] = fields
        trouble = process.stderr.read()
        process.wait()
        if current is None and process.returncode:
            sys.exit(f"{form}: the process ended with {process.returncode}:\n{trouble[-3000:]}")
        if current is not None:
            results[current] = {"outcome": "crash", "why": f"exit code {process.returncode}: {trouble[-1500:]}"}
        left = [name for name in left if name not in results]
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plugin", type=Path, help="shared library of the plugin")
    parser.add_argument("names", nargs="*", help="cases; all by default")
    parser.add_argument("--format", choices=["hlo", "stablehlo"], action="append", help="what PyTorch/XLA sends; both by default")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for package in ("torch", "torch_xla"):
        if importlib.util.find_spec(package) is None:
            print(f"SKIPPED tests/torch: no package {package} in {sys.executable}")
            return
    if options.child:
        return child(options.names)
    from ops import OPS
    from programs import PROGRAMS

    names = options.names or [*OPS, *PROGRAMS]
    unknown = [name for name in names if name not in OPS and name not in PROGRAMS]
    if unknown:
        sys.exit(f"no such case: {', '.join(unknown)}")
    bad = 0
    for form in options.format or ["hlo", "stablehlo"]:
        results = drive(options.plugin.resolve(), form, names)
        failed = [name for name in names if results[name]["outcome"] not in ("ok", "no reference")]
        for name, result in (drive(None, form, failed) if failed else {}).items():
            if result["outcome"] != "ok":
                short = [" ".join(why.split())[:200] for why in (results[name]["why"], result["why"])]
                results[name].update(outcome="not the plugin's", why="; PyTorch/XLA alone: ".join(short))
        counts = {}
        for name in names:
            result = results[name]
            counts[result["outcome"]] = counts.get(result["outcome"], 0) + 1
            if result["outcome"] != "ok":
                print(f"{form}: {name}: {result['outcome']}: {' '.join(result['why'].split())[:600]}")
        fell = sorted({key for result in results.values() for key in result.get("fallbacks", [])})
        print(f"{form}: {len(names)} cases: " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
        print(f"{form}: PyTorch's CPU did {', '.join(fell) or 'nothing'}")
        bad += sum(count for outcome, count in counts.items() if outcome not in ("ok", "not the plugin's"))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
