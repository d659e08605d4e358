"""A file that cannot be imported, for the test of the runner."""

raise ImportError("a module that is not installed")
