"""Provides operating system services that not every system has, such as a memory limit."""

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


def memory_percent() -> float:
    """The percent of the machine's memory that this process may take (isa/host/memory_bound.hpp)."""
    try:
        given = float(os.environ.get("NKISIM_MEMORY_PERCENT", ""))
    except ValueError:
        return 80
    return given if 0 < given <= 100 else 80


def share_of_machine(processes: int) -> dict[str, str]:
    """The variables of the environment by which each of so many processes may take its part of what this one may."""
    processes = max(processes, 1)
    given = os.environ.get("NKISIM_THREADS", "")
    threads = int(given) if given.isdigit() and int(given) > 0 else cores()
    return {"NKISIM_MEMORY_PERCENT": f"{memory_percent() / processes:.6g}",
            "NKISIM_THREADS": str(max(1, threads // processes))}


def limit_memory(pid: int, memory_bytes: int) -> bool:
    """Bounds the address space of a process; whether the system can (Linux), and else it stays as it is."""
    prlimit = getattr(resource, "prlimit", None)
    if prlimit is None:
        return False
    prlimit(pid, resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    return True
