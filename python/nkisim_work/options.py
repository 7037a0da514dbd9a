"""Makes the argument parsers of Python's commands; options and help come from the table of all commands' options.

`--help` shows purpose, examples and common options on one screen; `--help-all` the rest, `--help-compiler` the
compiler's switches. `nkisim COMMAND` of C++ does the same (src/cli/help.cpp).
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
import textwrap
from collections.abc import Sequence
from typing import Any, NoReturn

from .file_roles import clash, files_in, written_next_to
from .option_table import ALIASES, OPTIONS, SWITCHES, WRITES
from .piped import Piped

_WIDTH, _COLUMN, _SWITCH_COLUMN = 100, 28, 44
_HELP = ("-h", "--help", "--help-all", "--help-compiler")


def _entry(commands, command):
    """A command's entry in the table: "" if it lacks the option, "*" at the end if --help shows it."""
    return next((word for word in commands.split() if word.rstrip("*") == command), "")


def _row(head, text, column=_COLUMN):
    lines = textwrap.wrap(text, _WIDTH - column, break_long_words=False, break_on_hyphens=False) or [""]
    first = f"  {head}"
    shown = [first.ljust(column) + lines.pop(0)] if len(first) + 2 <= column else [first]
    return "\n".join(line.rstrip() for line in [*shown, *(" " * column + line for line in lines)])


class Parser(argparse.ArgumentParser):
    """The parser of `nkisim COMMAND`. `option` adds an option of the table by its name; positional arguments are added
    as always. `purpose` is a line, `examples` up to three, `notes` what else --help-all says."""

    def __init__(self, command: str, usage: str, purpose: str, examples: str, notes: str = "",
                 switches: bool = False) -> None:
        super().__init__(prog=f"nkisim {command}", usage=f"nkisim {command} {usage}", add_help=False)
        self.command, self.purpose, self.notes, self.switches = command, purpose, notes.strip(), switches
        self.examples = textwrap.dedent(examples).strip().splitlines()
        self._rows = {name: row for row in OPTIONS for name in [row[1]] if _entry(row[5], command)}
        self._older = {old: now for old, now, commands in ALIASES if _entry(commands, command)}

    def option(self, name: str, **how: Any) -> None:
        """Adds --name with its letter and older spellings; what `how` says is argparse's (type, action, choices)."""
        kind, _, letter, value, standard, _, _ = self._rows[name]
        names = [f"-{letter}"] * bool(letter) + [f"--{name}"]
        names += [f"--{old}" for old, now in self._older.items() if now == name]
        how.setdefault("dest", name.replace("-", "_"))
        if kind == "flag":
            how.setdefault("action", "store_true")
        elif kind == "texts" and "nargs" not in how:
            how.setdefault("action", "append")
            how.setdefault("default", [])
        if kind in ("count", "real"):
            how.setdefault("type", int if kind == "count" else float)
        if standard and "default" not in how:
            how["default"] = how["type"](standard) if "type" in how else standard
        if kind != "flag":
            how.setdefault("metavar", value)
        self.add_argument(*names, **how)

    def parse_known_args(self, args: Sequence[str] | None = None,  # type: ignore[override]
                         namespace: Any = None) -> tuple[argparse.Namespace, list[str]]:
        words = list(sys.argv[1:] if args is None else args)
        asked = next((word for word in words if word in _HELP), None)
        if asked:
            self.print_message(asked, "--json" in words)
            sys.exit(0)
        found, rest = super().parse_known_args(words, namespace)
        lost = clash(*self._files(found, rest))
        if lost:
            self.refuse("file_lost", lost)
        return found, rest

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        found, rest = self.parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognised {'option' if rest[0].startswith('-') else 'argument'} {rest[0]!r}"
                       f"{self._meant(rest[0])}")
        return found

    def _meant(self, word):
        """"; did you mean --target?" of the options that the command has."""
        names = [name for action in self._actions for name in action.option_strings if name.startswith("--")]
        near = difflib.get_close_matches(word.split("=")[0], names, 1, 0.7) if word.startswith("-") else []
        return f"; did you mean {near[0]}?" if near else ""

    def refuse(self, rule: str, message: str) -> NoReturn:
        """Ends with a usage error of a rule; commands whose errors have rules say it with theirs."""
        self.error(message)

    def _files(self, found, rest):
        """The files that are written and those that are read: [(option, path), ...] each."""
        companions: dict[str, str] = {}  # of two forms of one program it is the same
        written, read = [], [("the command", file) for word in rest for file in files_in(word)]
        for action in self._actions:
            value = getattr(found, action.dest, None)
            option = next((name[2:] for name in action.option_strings if name[2:] in self._rows), "")
            for word in value if isinstance(value, list) else [value]:
                if not isinstance(word, str):
                    continue
                if option in WRITES:
                    written.append((f"--{option}", word))
                    companions |= dict.fromkeys(written_next_to(self.command, option, word), f"--{option}")
                else:
                    read += [(f"--{option}" if option else "the command", file) for file in files_in(word)]
        return [*written, *((option, path) for path, option in companions.items())], read

    def print_message(self, asked: str, as_json: bool) -> None:
        if as_json:
            table = [{"name": name, "letter": letter, "takes_value": kind != "flag", "default": standard, "text": text}
                     for kind, name, letter, _, standard, _, text in self._taken()]
            text = json.dumps({"ok": True, "command": self.command, "options": table}, indent=1)
        elif asked == "--help-compiler" and self.switches:
            text = self._compiler()
        else:
            text = self._text(asked == "--help-all")
        out = Piped(sys.stdout)  # the command's own may speak a protocol
        out.write(text + "\n")
        out.flush()

    def _taken(self):
        """The table's rows of the options that were added, in the table's order."""
        added = {name for action in self._actions for name in action.option_strings}
        return [row for row in self._rows.values() if f"--{row[1]}" in added]

    def _text(self, everything):
        lines = [f"usage: {self.usage}", "", self.purpose, "", "examples:",
                 *(f"  {line}" for line in self.examples), "", "options:"]
        for _, name, letter, value, standard, commands, text in self._taken():
            if everything or _entry(commands, self.command).endswith("*"):
                head = f"-{letter}, --{name} {value}" if letter else f"--{name} {value}"
                lines.append(_row(head.rstrip(), text + (f" (default: {standard})" if standard else "")))
        if any("--json" in action.option_strings for action in self._actions):
            lines.append(_row("--json", "result and errors as JSON on standard output"))
        if everything:
            lines += [f"  --{old} is an older spelling of --{now}" for old, now in self._older.items()]
            lines += ["", self.notes] if self.notes else []
        more = "" if everything else "--help-all has every option"
        if self.switches:
            more += (", --help-compiler" if more else "--help-compiler has") + " the compiler's switches"
        return "\n".join([*lines, *(["", more + "."] if more else [])])

    def _compiler(self):
        return "\n".join([f"usage: {self.usage}", "", "Switches of the compiler; the first choice is what kernels get. "
                          "docs/compiler.md describes them.", "",
                          *(_row(f"--{name} {choices}".rstrip(), text, _SWITCH_COLUMN)
                            for name, choices, text in SWITCHES)])
