"""Implements `nkisim debug`: it steps through a run at a prompt, or serves an editor by the Debug Adapter Protocol."""

from __future__ import annotations

import cmd
import sys

from nkisim import Error
from nkisim_work.options import Parser

from .engine import Debugger, time_of
from .lines import engine_lines
from .watch import BadExpression

EXAMPLES = """
nkisim debug k.py                       # a file with one kernel; the comment above it has the arguments
nkisim debug k.py:matmul --arg a=bf16[128,128] --arg b=bf16[128,512]
nkisim debug traces/softmax.jsonl"""
NOTES = """
At the prompt, `help` lists the commands. `nkisim debug --dap` serves an editor on standard input and output
(docs/debug.md). Options that are not named here are those of nkisim kernel."""


def arguments(words):
    parser = Parser("debug", "KERNEL.py[:FUNCTION]|TRACE [--arg NAME=SPEC] [options]",
                    "Steps through a run: tiles, engines, semaphores, watches; backwards too.", EXAMPLES, NOTES)
    parser.add_argument("program", metavar="KERNEL.py[:FUNCTION]|TRACE", nargs="?")
    for name in ("target", "config", "set", "inputs"):
        parser.option(name)
    parser.option("timing-only")
    parser.option("dap")
    args, rest = parser.parse_known_args(words)
    if args.dap and (args.program or rest):
        parser.error("--dap takes no program: the editor's launch request names it")
    if not args.dap and not args.program:
        parser.error("KERNEL.py[:FUNCTION] or a trace is required")
    return args, rest


class Prompt(cmd.Cmd):
    """Commands may be shortened to their first letters where these are unique."""
    prompt = "(nkisim) "

    def __init__(self, debugger, stdin=None, stdout=None):
        super().__init__(stdin=stdin, stdout=stdout)
        self.debugger = debugger
        self.use_rawinput = stdin is None and sys.stdin.isatty()
        if not self.use_rawinput:
            self.prompt = ""
        d = debugger
        end = f"; it ends with an error: {d.error}" if d.error else ""
        self.intro = f"{d.instructions} instructions and transfers; the last ends at {d.end / 1e9:.3f} us{end}"
        self.failed = False

    def say(self, text):
        print(text, file=self.stdout)

    def show(self):
        self.say(self.debugger.where())
        for text, value in self.debugger.watched():
            self.say(f"  {text} = {value}")

    def onecmd(self, line):
        try:
            return super().onecmd(line)
        except (Error, BadExpression) as problem:
            self.failed = True
            self.say(f"error: {problem}")
            return False

    def default(self, line):
        word, _, rest = line.partition(" ")
        names = [name[3:] for name in self.get_names() if name.startswith(f"do_{word}")]
        if len(names) == 1:
            return self.onecmd(f"{names[0]} {rest}")
        if line == "EOF":
            return True
        self.failed = True
        return self.say(f"error: {word!r} is no command" + (f"; {', '.join(names)}?" if names else "; see help"))

    def emptyline(self):
        return False

    def do_break(self, text):
        """break [FILE:]LINE [if EXPRESSION]: stop where an instruction of the line is complete."""
        place, _, condition = text.partition(" if ")
        file, _, line = place.strip().rpartition(":")
        if not line.isdigit():
            self.say("; ".join(f"{b.number}: {b.file}:{b.line}" + (f" if {b.condition}" if b.condition else "")
                               for b in self.debugger.breakpoints) or "no breakpoints")
            return
        file = file or next((f for f in self.debugger.files[1:] if f.endswith(".py") and self.debugger.lines_of(f)),
                            self.debugger.files[0])
        point = self.debugger.add(file, int(line), condition.strip())
        self.say(f"breakpoint {point.number} at {point.file}:{point.line}")

    def do_delete(self, text):
        """delete [N]: removes a breakpoint, or all."""
        points = self.debugger.breakpoints
        self.debugger.breakpoints = [b for b in points if text.strip() and str(b.number) != text.strip()]

    def do_continue(self, _):
        """continue: to the next breakpoint or the end."""
        self._proceeded(self.debugger.proceed())

    def do_reverse(self, _):
        """reverse: back to the last breakpoint before here, or the begin."""
        self._proceeded(self.debugger.proceed(backwards=True))

    def _proceeded(self, hits):
        for point in hits:
            self.say(f"breakpoint {point.number}: {point.file}:{point.line}")
        self.show()
        if self.debugger.at_end and self.debugger.error:
            self.say(f"the run ends here: {self.debugger.error}")

    def _move(self, text, sign):
        fs = time_of(text)
        if fs is not None:
            self.debugger.step_time(sign * fs)
        else:
            self.debugger.step(sign * int(text) if text.strip().isdigit() else sign)
        self.show()

    def do_step(self, text):
        """step [N|TIME]: until the next instruction (the N-th) is complete, or so much later: step 2us."""
        self._move(text, 1)

    def do_back(self, text):
        """back [N|TIME]: as step, backwards."""
        self._move(text, -1)

    def do_next(self, _):
        """next: until an instruction of another line is complete."""
        self.debugger.step_line()
        self.show()

    def do_goto(self, text):
        """goto TIME: to an instant, such as goto 12.3us."""
        fs = time_of(text)
        if fs is None:
            self.say(f"error: {text!r} is no time; 12.3us is")
            return
        self.debugger.go(fs)
        self.show()

    def do_where(self, _):
        """where: the instant, and what has just ended."""
        self.show()

    def do_engines(self, _):
        """engines: what each engine runs or waits for, and the transfers under way."""
        for line in engine_lines(self.debugger.state):
            self.say(line)

    def do_semaphores(self, _):
        """semaphores: what each of them holds."""
        rows = self.debugger.state["semaphores"]
        self.say("\n".join(f"core {s['core']} S[{s['semaphore']}] = {s['value']}" for s in rows)
                 or "no semaphore has been set")

    def do_tiles(self, text):
        """tiles [NAME ...]: tensors on chip (or these), one a line."""
        d = self.debugger
        names = text.split() or [name for name, (space, *_) in d.tensors.items() if space != "hbm"]
        for name, tile in d.tiles(names).items():
            self.say(f"{name:<12} {tile.space:<5} {tile}")

    def do_table(self, text):
        """table NAME: its elements; ? was never written."""
        self.say(self.debugger.tile(text.strip()).shown("table"))

    def do_picture(self, text):
        """picture NAME: shades from its least to its greatest value; ! NaN, ^ infinite, ? never written."""
        self.say(self.debugger.tile(text.strip()).shown("picture"))

    def do_print(self, text):
        """print EXPRESSION: of tiles and NumPy, such as np.abs(t - u).max()."""
        self.say(str(self.debugger.evaluate(text)))

    def do_watch(self, text):
        """watch EXPRESSION: printed at every stop."""
        self.debugger.evaluate(text)
        self.debugger.watches.append(text)

    def do_quit(self, _):
        """quit: ends."""
        return True


def main(words):
    args, rest = arguments(words)
    if args.dap:
        from .dap import serve
        return serve(sys.stdin.buffer, sys.stdout.buffer)
    try:
        debugger = Debugger(args.program, rest, target=args.target or "", config=args.config or "",
                            overrides=args.set, inputs=args.inputs or "", values=not args.timing_only)
        prompt = Prompt(debugger, stdin=None if sys.stdin.isatty() else sys.stdin)
        prompt.cmdloop()
        return 3 if prompt.failed and not sys.stdin.isatty() else 0
    except Error as problem:
        print(f"nkisim debug: {problem}", file=sys.stderr)
        return {"usage": 2, "internal": 4}.get(problem.code, 3)
    except KeyboardInterrupt:
        print("nkisim debug: interrupted", file=sys.stderr)
        return 130
