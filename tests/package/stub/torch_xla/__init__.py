"""A stub of PyTorch/XLA, which is too large to install for a test. It contains only the parts that a plugin's class
uses.
"""
