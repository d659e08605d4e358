"""PyTorch: makes the plugin's device the device `tpu` of torch_tpu, PyTorch's backend for PJRT.

torch_tpu loads the library that `TPU_LIBRARY_PATH` names as soon as it is imported, and otherwise Google's. The order in
which `import torch` imports backends is not defined. Therefore Python runs `choose_library` when it starts, through a
`.pth` file. Unless `PJRT_DEVICE` is the plugin's name or `LIBRARY`, only `load` has an effect.
"""

import importlib.util
import logging
import os
import sys

from . import MANIFEST, NAME, capabilities, disabled_by, library_path, process, shutdown

logger = logging.getLogger(__name__)

_LIBRARY = "TPU_LIBRARY_PATH"


def choose_library() -> None:
    """Sets the variables that torch_tpu and the plugin read, unless the user chose a library. Call this before torch is
    imported.
    """
    if _LIBRARY in os.environ or disabled_by() or importlib.util.find_spec("torch_tpu") is None:
        return
    # torch_tpu has several processes only on TPUs.
    process.resolve(MANIFEST.get("process", {}), process.Topology()).apply()
    os.environ[_LIBRARY] = library_path()


def autoload() -> None:
    """Makes the device available if `PJRT_DEVICE` names the plugin. `import torch` calls this."""
    if importlib.util.find_spec("torch_tpu") is None:
        # With PyTorch/XLA, the same values of PJRT_DEVICE have another effect.
        return
    device = os.environ.get("PJRT_DEVICE", "").upper()
    if device in (NAME.upper(), NAME.replace("_", "").upper()):
        load()
    elif device == "LIBRARY" and _LIBRARY in os.environ:
        # `pjrt with` names the library with the layers, which loads a plugin's library.
        _add_device()


def load() -> None:
    """Makes the plugin's device the device `tpu` of PyTorch. Without `PJRT_DEVICE`, a program calls this before it
    imports torch.

    Raises RuntimeError if the plugin is disabled, if torch_tpu is not installed, or if torch_tpu uses another library.
    """
    variable = disabled_by()
    if variable:
        raise RuntimeError(f"the PJRT plugin {NAME} is disabled by {variable}; unset it")
    if importlib.util.find_spec("torch_tpu") is None:
        raise RuntimeError(f"the PJRT plugin {NAME} needs torch_tpu: run `pip install torch_tpu`")
    if "torch_tpu" not in sys.modules:
        choose_library()
    used, own = os.environ.get(_LIBRARY), library_path()
    if used != own:
        remedy = f"set {_LIBRARY}={own} before Python starts" if "torch_tpu" in sys.modules else f"unset {_LIBRARY}"
        raise RuntimeError(f"torch_tpu uses {used}, which is not the library of the PJRT plugin {NAME}; {remedy}")
    _add_device()
    shutdown.register()
    autocast = capabilities().get("autocast") or {}
    if "default_dtype" in autocast:
        import torch

        try:
            torch.set_autocast_dtype("tpu", getattr(torch, _TORCH_NAMES[autocast["default_dtype"]]))
        except (KeyError, ValueError, RuntimeError) as error:
            logger.info("the element type of autocast for %s was not set: %s", NAME, error)


def _add_device() -> None:
    import torch
    from torch_tpu import _loader

    # torch_tpu's public function makes the device available only if it finds Google's hardware.
    _loader._init_device("tpu")
    # torch_tpu's flash attention is a kernel for TPUs. PyTorch has one switch for all devices.
    torch.backends.cuda.enable_flash_sdp(False)


#: Element types of automatic mixed precision, as PyTorch names them.
_TORCH_NAMES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}
