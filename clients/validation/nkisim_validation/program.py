"""Calls the nkisim program for each simulation that `nkisim validate` and `nkisim calibrate` need."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from nkisim_work import Ended, Workers, message, program


class Failed(Exception):
    """An error for the user; `code` is the exit code (2 usage, 3 bad input)."""

    def __init__(self, message, code=3):
        super().__init__(message)
        self.code = code


class Program:
    """Calls nkisim: `path`, or the program that started this process, or the one in PATH."""

    def __init__(self, path=None):
        try:
            self.path = path or program()
        except FileNotFoundError:
            raise Failed("no nkisim in PATH; --nkisim names the program", code=2) from None
        self._workers = Workers(self.path)

    def call(self, *words):
        """Standard output; Failed with nkisim's own message if it does not end well."""
        try:
            done = subprocess.run([self.path, *map(str, words)], capture_output=True, text=True,
                                  check=False)
        except OSError as problem:
            raise Failed(f"cannot start {self.path}: {problem.strerror}") from None
        if done.returncode:
            message = done.stderr.strip() or f"{self.path} ended with {done.returncode}"
            raise Failed(message.removeprefix("nkisim: "))
        return done.stdout

    def summary(self, trace, config, overrides=()):
        """The profiler's figures of a run over all cores (times in s) by name, `bottleneck`, and
        `uncertain`: the share of its busy time at rates or sizes that are not measured, and `open`: the range,
        times the latency, of what it takes with and without the rules of few measurements."""
        try:
            said = self._workers.run({"trace": str(trace), "config": str(config), "set": list(map(str, overrides)),
                                      "want": "time", "allow_unwritten": True, "over_capacity": True})
        except (Ended, OSError) as problem:
            raise Failed(f"{self.path}: {problem}") from None
        if "error" in said:
            raise Failed(message(said).removeprefix("nkisim: "))
        confidence, interval = said["confidence"], said["confidence"]["interval"] or {}
        without = interval.get("without", {"low_us": said["latency_us"], "high_us": said["latency_us"]})
        return {**said["totals"], "bottleneck": said["bottleneck"].split(";")[0], "uncertain": confidence["uncertain"],
                "open": [without[end] / (said["latency_us"] or 1) for end in ("low_us", "high_us")]}

    def config(self, name, overrides=()):
        """A config as plain JSON, with what it inherits."""
        changes = [word for item in overrides for word in ("--set", item)]
        return json.loads(self.call("config", "show", name, *changes))


def on_threads(work, items, progress, jobs=None):
    """[work(item)], in order, several at a time; the first failure ends it."""
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            results = []
            for done, future in enumerate(futures):
                progress(done, len(items))
                results.append(future.result())
            return results
        finally:
            progress.clear()
            pool.shutdown(cancel_futures=True)


class Progress:
    """One line on a terminal's standard error; nothing elsewhere."""

    def __init__(self, what):
        self._what, self._on = what, sys.stderr.isatty()

    def __call__(self, done, number):
        if self._on:
            sys.stderr.write(f"\r{self._what} {done} of {number}\x1b[K")
            sys.stderr.flush()

    def clear(self):
        if self._on:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
