"""PyTorch/XLA: the plugin's class, which `import torch_xla` finds through its entry point.

PyTorch/XLA creates an object of every installed plugin's class, even if the program does not use it. Creating one
therefore sets no variables. They are set when the library is about to be loaded.
"""

import functools
import json
import logging
import os
import re
from typing import Any, Dict, Optional

from torch_xla.experimental import plugins

from . import FOLDER, MANIFEST, NAME, disabled_by, library_path, options, process, shutdown

logger = logging.getLogger(__name__)

#: Variables that correspond to capabilities, and capabilities without a variable.
LEGACY: Dict[str, Any] = json.loads((FOLDER / "torch_xla.json").read_text(encoding="utf-8"))

_PLAN: Dict[str, Any] = MANIFEST.get("process", {})


class Plugin(plugins.DevicePlugin):
    """Implements the queries of PyTorch/XLA with the data of the manifest."""

    def __init__(self) -> None:
        super().__init__()
        # To set up a process, PyTorch/XLA cuts PJRT_DEVICE at its first underscore and looks for a plugin with that
        # name.
        device = NAME.upper()
        registry = getattr(plugins, "_plugin_registry", {})
        if os.environ.get("PJRT_DEVICE", "").upper() == device:
            registry[device.split("_")[0]] = self
        else:
            registry.setdefault(device.split("_")[0], self)

    def library_path(self) -> str:
        """The library. PyTorch/XLA calls this once, just before it loads the library, so variables are set here."""
        variable = disabled_by()
        if variable:
            raise RuntimeError(f"the PJRT plugin {NAME} is disabled by {variable}")
        for setting in LEGACY["environment"]:
            os.environ.setdefault(setting["variable"], setting["value"])
        for field in LEGACY["unhonoured"]:
            logger.info("%s for %s: PyTorch/XLA has no setting for it", field, NAME)
        self._plan().apply()
        _read_any_device_name()
        return library_path()

    def host_index(self) -> int:
        """Index of this host."""
        return process.host_index(_PLAN, self._topology())

    def configure_single_process(self) -> None:
        """Sets up a single process with one device."""
        self._configure(process.Topology(one_device=True))

    def configure_multiprocess(self, local_rank: int, local_world_size: int) -> None:
        """Sets up one of several processes, each with one device."""
        self._configure(process.of_torch(local_rank, local_world_size))

    def physical_chip_count(self) -> int:
        """Number of devices of this host, which is also the number of processes to start."""
        # Without a device there is still one process, which reports the missing device.
        return process.chip_count(_PLAN) or 1

    def client_create_options(self) -> Dict[str, Any]:
        """The options for a client, in the types that the plugin takes. Queried after the library is loaded."""
        shutdown.register()
        planned = self._plan().options
        schema = MANIFEST.get("create_options", {})
        if any(option["name"] == "plain_platform_name" for option in schema.get("options", [])):
            # PyTorch/XLA names devices after the platform. Programs expect names such as `TPU:0`, and compare them with
            # `xr.device_type()`, which ends at an underscore.
            planned = {"plain_platform_name": True, **planned}
        return options.resolve(schema, planned)

    def requires_xla_coordinator(self) -> bool:
        """Whether the processes need a shared key-value store."""
        return process.needs_coordinator(_PLAN, self._topology())

    # The position of this process, as PyTorch/XLA configured it. It belongs to the class, because PyTorch/XLA creates
    # an object for each name of the plugin, and may query a different object than it configured.
    _place: Optional[process.Topology] = None
    # The plan for this place. It is resolved once, because templates refer to the variables as they were before.
    _resolved: Optional[process.Resolved] = None

    def _configure(self, topology: process.Topology) -> None:
        Plugin._place = topology
        _read_any_device_name()
        Plugin._resolved = process.resolve(_PLAN, topology)
        self._plan().apply()

    def _plan(self) -> process.Resolved:
        if Plugin._resolved is None:
            Plugin._resolved = process.resolve(_PLAN, self._topology())
        return Plugin._resolved

    def _topology(self) -> process.Topology:
        if self._place is None:
            rank, count = os.environ.get("LOCAL_RANK"), os.environ.get("LOCAL_WORLD_SIZE")
            if rank and count and count != "1":
                return process.of_torch(int(rank), int(count))
        return self._place or process.Topology()


def _read_any_device_name() -> None:
    """Lets PyTorch/XLA's spawn read all names of devices. It reads only names in capital letters, such as `TPU:0`."""
    try:
        from torch_xla._internal import utils

        parse = utils.parse_xla_device
        if parse(f"{NAME.upper()}:0"):
            return

        @functools.wraps(parse)
        def parse_any(device: str) -> Any:
            found = re.fullmatch(r"([A-Z][A-Z0-9_]*):([0-9]+)", device)
            return parse(device) or (found and (found[1], int(found[2])))

        utils.parse_xla_device = parse_any
    except (ImportError, AttributeError) as error:
        logger.info("names of devices with digits and underscores: not in this PyTorch/XLA (%s)", error)
