"""A stub; see `torch_xla`."""
