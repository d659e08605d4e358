"""A stub of `torch_xla._internal.utils`."""

import re


def parse_xla_device(device):
    found = re.match(r"([A-Z]+):(\d+)$", device)
    return (found[1], int(found[2])) if found else None
