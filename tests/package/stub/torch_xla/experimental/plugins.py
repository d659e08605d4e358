"""A stub of `torch_xla.experimental.plugins`: a base class with its defaults, and the registry by name."""

import importlib.metadata


class DevicePlugin:
    """The defaults of PyTorch/XLA for functions that a plugin does not implement."""

    def library_path(self):
        raise NotImplementedError()

    def host_index(self):
        return 0

    def configure_single_process(self):
        raise NotImplementedError()

    def configure_multiprocess(self, local_rank, local_world_size):
        pass

    def physical_chip_count(self):
        return 1

    def client_create_options(self):
        return {}

    def requires_xla_coordinator(self):
        return False


_plugin_registry = {}


def register_installed_plugins():
    """Behaves like the import of PyTorch/XLA, which any exception here would break."""
    for entry_point in importlib.metadata.entry_points(group="torch_xla.plugins"):
        _plugin_registry[entry_point.name.upper()] = entry_point.load()()
