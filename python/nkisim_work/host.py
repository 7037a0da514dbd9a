"""Services of the operating system that not every one has."""

import glob
import os
import resource


def cores() -> int:
    """The number of cores that this process may use at a time: of the machine's, those that it is let run on, and the
    share of its control group."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            share, period = file.read().split()
    except (OSError, ValueError):
        return count
    return count if share == "max" else max(1, min(count, int(share) // int(period)))


def chips() -> int:
    """The number of Neuron devices of this machine."""
    return len(glob.glob("/dev/neuron[0-9]*"))


def limit_memory(pid: int, memory_bytes: int) -> bool:
    """Bounds the address space of a process; whether the system can (Linux), and else it stays as it is."""
    prlimit = getattr(resource, "prlimit", None)
    if prlimit is None:
        return False
    prlimit(pid, resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    return True
