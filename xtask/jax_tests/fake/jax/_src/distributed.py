"""Remembers the arguments with which the runner joins the processes."""

joined = None


def initialize(address, num_processes, process_id, **_):
    global joined
    joined = (address, num_processes, process_id)
