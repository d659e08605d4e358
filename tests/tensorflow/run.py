"""Runs jitted TensorFlow functions on a PJRT plugin, and shows what the plugin needs for it.

    python tests/tensorflow/run.py LIBRARY

needs `tensorflow-cpu` and `g++`. It builds `adapter.cc` against the headers of the installed TensorFlow, because a PJRT
plugin alone is not a device of TensorFlow. Each case runs in a process of its own, since some end it. The exit status is 1
if a case does not end as docs/what-frameworks-demand.md reports.
"""

import importlib.metadata
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

DEVICE_API = {"TF_XLA_FLAGS": "--tf_xla_use_device_api=true"}
CLIENT = {"PJRT_ADAPTER_CLIENT": "1"}
ON_DEMAND = {"PJRT_ADAPTER_ON_DEMAND": "1"}
# Name, program, environment, and a part of what the process prints.
CASES = [
    ("plugin without adapter", "devices", {"plain": "1"}, "RESULT 0 devices"),
    ("adapter with C functions only", "jit", DEVICE_API, "The PJRT client factory of `PJRT` is not registered"),
    ("default flags", "jit", CLIENT, "No JIT device registered for PJRT"),
    ("jit_compile", "jit", CLIENT | DEVICE_API, "RESULT [[4.0]] on PJRT:0"),
    ("training", "training", CLIENT | DEVICE_API, "RESULT losses agree"),
    ("second device", "second", CLIENT | DEVICE_API, "RESULT [2.0] on PJRT:1"),
    ("variable", "variable", CLIENT | DEVICE_API, "Check failed: IsAligned()"),
    ("variable, compiled on demand", "variable", CLIENT | DEVICE_API | ON_DEMAND, "RESULT [2.0, 3.0] on PJRT:0"),
    ("int32, compiled on demand", "int32", CLIENT | DEVICE_API | ON_DEMAND, "RESULT differs"),
]


def program(name):
    import tensorflow as tf

    def show(tensor):
        print("RESULT", tensor.numpy().tolist(), "on", tensor.device.split("device:")[-1])

    if name == "devices":
        print("RESULT", len(tf.config.list_physical_devices("PJRT")), "devices")
    elif name == "jit":
        with tf.device("PJRT:0"):
            f = tf.function(lambda a, b: tf.nn.relu(tf.matmul(a, b) - 1.0), jit_compile=True)
            show(f(tf.constant([[1.0, 2.0]]), tf.constant([[1.0], [2.0]])))
    elif name == "second":
        with tf.device("PJRT:1"):
            show(tf.function(lambda a: a + 1.0, jit_compile=True)(tf.constant([1.0])))
    elif name == "variable":
        with tf.device("PJRT:0"):
            variable = tf.Variable([1.0, 2.0])
            variable.assign_add([1.0, 1.0])
            show(variable)
    elif name == "int32":
        with tf.device("PJRT:0"):
            print("RESULT", "agrees" if tf.constant([2, 3]).numpy().tolist() == [2, 3] else "differs")
    elif name == "training":
        losses = [train(tf, device) for device in ("PJRT:0", "CPU:0")]
        agree = all(abs(a - b) <= 1e-5 * abs(b) for a, b in zip(*losses, strict=True))
        print("RESULT losses", "agree" if agree else losses)


def train(tf, device):
    import numpy

    @tf.function(jit_compile=True)
    def step(x, target, first, second):
        with tf.GradientTape() as tape:
            tape.watch([first, second])
            loss = tf.reduce_mean((tf.matmul(tf.tanh(tf.matmul(x, first)), second) - target) ** 2)
        gradients = tape.gradient(loss, [first, second])
        return loss, first - 0.1 * gradients[0], second - 0.1 * gradients[1]

    random = numpy.random.default_rng(0)
    with tf.device(device):
        shapes = [(8, 4), (8, 2), (4, 16), (16, 2)]
        x, target, first, second = (tf.constant(random.normal(size=shape).astype("f")) for shape in shapes)
        losses = []
        for _ in range(5):
            loss, first, second = step(x, target, first, second)
            assert loss.device.endswith(device), loss.device
            losses.append(float(loss))
    return losses


def build(folder):
    package = pathlib.Path(importlib.util.find_spec("tensorflow").origin).parent
    adapter = folder / "adapter.so"
    subprocess.run(
        ["g++", "-std=c++17", "-O1", "-w", "-fPIC", "-shared", "-o", adapter]
        + [pathlib.Path(__file__).with_name("adapter.cc"), f"-I{package / 'include'}", f"-L{package}"]
        + ["-l:libtensorflow_framework.so.2", "-l:libtensorflow_cc.so.2", f"-Wl,-rpath,{package}", "-ldl"],
        check=True,
    )
    return adapter


def main(library):
    if importlib.util.find_spec("tensorflow") is None:
        print("SKIPPED tensorflow: the Python package `tensorflow` is not installed")
        return 0
    if shutil.which("g++") is None:
        print("SKIPPED tensorflow: `g++` is not installed")
        return 0
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        adapter = build(pathlib.Path(folder))
        for name, case, environment, expected in CASES:
            variables = {"PJRT_ADAPTER_PLUGIN": str(library), "PJRT_ADAPTER_DEVICES": "2", "PJRT_CPU_DEVICES": "2"}
            variables |= {"TF_ENABLE_ONEDNN_OPTS": "0"} | environment
            variables["TF_PLUGGABLE_DEVICE_LIBRARY_PATH"] = str(library if variables.pop("plain", None) else adapter)
            child = subprocess.run(
                [sys.executable, __file__, "--program", case],
                env=os.environ | variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
            passed = expected in child.stdout
            failures += not passed
            print("as reported" if passed else "DIFFERS", f"{name}: {expected}", flush=True)
            if not passed:
                print(child.stdout)
    print(f"TensorFlow {importlib.metadata.version('tensorflow-cpu')}: {len(CASES)} cases, {failures} differ")
    return int(failures > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--program"]:
        program(sys.argv[2])
    elif len(sys.argv) == 2:
        sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
    else:
        sys.exit(__doc__)
