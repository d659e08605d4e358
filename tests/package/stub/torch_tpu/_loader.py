#: The devices that were made available.
DEVICES = []


def _init_device(device):
    DEVICES.append(device)
