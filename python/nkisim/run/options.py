"""Defines the options of a kernel's run: target, compiler switches, and their environment
variables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ..record.targets import default_target, resolve_target
from ..values.environment import variable
from ..values.errors import Error, is_strict, sdk
from .compiling import Choices


def chosen_rules(given: Mapping[str, Any] | None) -> tuple[list[str], list[str], bool]:
    """(suppressed rules, rules that are errors, whether to look for what nothing reads) of `given`, {"suppress":
    ids, "error": ids, "unread": bool}, and of NKISIM_SUPPRESS and NKISIM_ERROR (ids with commas between) and
    NKISIM_UNREAD. `nkisim explain` has the ids. Raises Error for another key."""
    given = dict(given or {})
    unknown = sorted(set(given) - {"suppress", "error", "unread"})
    if unknown:
        raise Error(rule="option_value", operand="rules", found=repr(unknown[0]),
                    required="suppress, error or unread", code="usage")

    def named(key: str) -> list[str]:
        ids = given.get(key, ())
        wanted = [ids] if isinstance(ids, str) else list(ids)
        return wanted + [i for i in variable(f"NKISIM_{key.upper()}", "").split(",") if i]

    return named("suppress"), named("error"), bool(given.get("unread", variable("NKISIM_UNREAD")))


#: Reports that a run writes itself; "explain" is none: with it a result has `explanation`.
REPORTS = ("perfetto", "chrome", "vcd", "accounting_json", "session")


def report_files(files: Mapping[str, str | os.PathLike], more: tuple[str, ...] = ("explain",)) -> dict[str, str]:
    """Paths by the kind of the report; Error for a kind that there is not."""
    for name in files:
        if name not in REPORTS and name not in more:
            known = (*REPORTS, *(n for n in more if n != "explain"))
            raise Error(rule="option_value", operand="report", found=repr(name), required=f"one of {', '.join(known)}",
                        code="usage")
    return {name: os.fspath(path) for name, path in files.items()}


class Options:
    """The options of a run. Environment variables give the defaults."""

    def __init__(self, target: str | None = None, over_capacity: bool | None = None,
                 allow_unwritten: bool | None = None, timing: bool | Literal["only"] | None = None,
                 config: str | os.PathLike | None = None, overrides: Mapping[str, Any] | None = None,
                 files: Mapping[str, str | os.PathLike] | None = None, keep_partial: bool = False,
                 compiler: Choices | None = None,
                 undefined: str = "partly", allow_races: bool | None = None,
                 ranks: int = 1, ring_order: str = "group", fold: bool = True,
                 any_world: bool = False, processes: int | None = None, client: Any = None,
                 confidence: Literal["quick", "full"] | None = None,
                 rules: Mapping[str, Any] | None = None, stop_at: str | None = None,
                 dump: Sequence[str] | None = None) -> None:
        env = variable
        self.target = default_target() if target is None else resolve_target(target)
        if over_capacity is None:  # without rounding tensors take more space than on the device
            over_capacity = bool(env("NKISIM_OVER_CAPACITY")) or env("NKI_PRECISE_FP") == "0"
        self.over_capacity = over_capacity
        if allow_unwritten is None:
            allow_unwritten = bool(env("NKISIM_ALLOW_UNWRITTEN"))
        #: Undefined values in outputs: "partly", what the rules say (undefined_value is an error,
        #: output_partly_written a warning); "error", both errors; "warn", both warnings (memory never written is
        #: NaN, 4 in integers, as in AWS's simulator); or "zeros": nothing is tracked and unwritten bytes
        #: read as zero.
        self.undefined = "zeros" if allow_unwritten else undefined
        self.allow_races = (  # between the cores of a kernel: a warning instead of an error
            bool(env("NKISIM_ALLOW_RACES")) if allow_races is None else allow_races)
        stochastic = env("NEURON_RT_STOCHASTIC_ROUNDING_EN", "0").lower() in ("1", "true")
        #: Seed of stochastic rounding, None for nearest even (the runtime's variables).
        self.stochastic_rounding = (
            int(env("NEURON_RT_STOCHASTIC_ROUNDING_SEED", "0")) % 2 ** 32 if stochastic else None)
        self.timing = env("NKISIM_TIMING", "1") != "0" if timing is None else timing
        self.config = os.fspath(config) if config else env("NKISIM_CONFIG")
        #: "full": the compiler's switches are tried, too (docs/evidence.md).
        self.confidence = confidence or env("NKISIM_CONFIDENCE") or "quick"
        if self.confidence not in ("quick", "full"):
            raise Error(rule="option_value", operand="confidence", found=repr(self.confidence),
                        required="quick or full", code="usage")
        self.overrides = dict(overrides or {})
        #: The same as path=value.
        self.set = [f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in self.overrides.items()]
        #: Reports to write with the run: see Result.write.
        self.files = report_files(files) if files else {}
        self.files_of: set[int] | None = None  # the ranks that write them; None: all
        self.keep_partial = keep_partial  # Ctrl-C gives what ran instead of KeyboardInterrupt
        self.compiler = Choices() if compiler is None else compiler
        self.ranks = ranks            # of the world; run.world.run_world runs more than one
        self.rank = 0                 # whose values a kernel sees while it is recorded
        self.ring_order = ring_order  # of implicit permutes: group, reverse, shuffle:SEED
        self.fold = fold              # ranks that cannot differ are simulated once
        self.any_world = any_world    # takes what the device refuses but has a clear meaning
        self.processes = processes    # over which the ranks are spread; None: one, or all of `client`
        self.rules = chosen_rules(rules)  # what is done about those that are warnings
        self.fixed_arguments = False  # whether a kernel may write only arguments that are annotated as mutable
        self.stop_at = stop_at        # an instant at which the result shows the run (run.stop)
        self.dump = dump              # whose values there; None: those of all tensors in HBM
        self.client = client          # a dask.distributed.Client, whose workers these are

    def policy(self) -> tuple[list[str], list[str], bool, list[str], bool, int]:
        """The levels of rules in this run, as the extension's set_rules takes them; decided before it starts."""
        suppress, error, unread = self.rules
        mode = self.undefined
        if mode == "error":
            error = [*error, "output_partly_written"]
        warn = ["undefined_value", "output_partly_written"] if mode == "warn" else []
        return suppress, error, unread, warn, is_strict(), sdk()
