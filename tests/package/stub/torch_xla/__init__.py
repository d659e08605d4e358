"""A stub of PyTorch/XLA, which is too large to install for a test: only what a plugin's class touches."""
