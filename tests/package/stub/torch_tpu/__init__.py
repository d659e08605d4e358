"""A stub of torch_tpu, which loads a library when it is imported: Google's, unless a variable names another."""

import os

os.environ.setdefault("TPU_LIBRARY_PATH", "/google/libtpu.so")
LOADED = os.environ["TPU_LIBRARY_PATH"]
