"""In JAX, this module starts the processes of a file. The runner starts them itself."""


def main():
    raise SystemExit("called")
