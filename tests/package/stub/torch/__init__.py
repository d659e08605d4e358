"""A stub of PyTorch, with what `torch_tpu_plugin.py` uses. As in PyTorch, the import loads all backends. torch_tpu comes
first, which is the harder order.
"""

import importlib.metadata
import importlib.util
import os

bfloat16 = "torch.bfloat16"
#: Calls of the functions below.
CALLS = []


def set_autocast_dtype(device, dtype):
    CALLS.append(("autocast", device, dtype))


class backends:
    class cuda:
        @staticmethod
        def enable_flash_sdp(enabled):
            CALLS.append(("flash", enabled))


if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1":
    if importlib.util.find_spec("torch_tpu") is not None:
        import torch_tpu  # noqa: F401
    for entry in importlib.metadata.entry_points(group="torch.backends"):
        entry.load()()
