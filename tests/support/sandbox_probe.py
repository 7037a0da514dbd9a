"""Runs texts as untrusted submitted kernels, by the interpreter that is started with this file, and
says which flags each has: sandbox_probe.py FOLDER NOTIFIER. The folder holds nkisim_evaluate's
modules that need nothing else of nkisim; without NOTIFIER ("") system calls are decided on by no
process, as on old Linux. With "elsewhere" nothing is there that Linux alone has. Prints JSON:
[what is lacking, [kind, flags] of each text on standard input].
"""

import builtins
import json
import os
import sys

folder, notifier = sys.argv[1:]
sys.path[0] = folder
from nkisim_evaluate import overseer, sandbox, witness  # noqa: E402

own, scratch = os.path.join(folder, "own", "k.py"), os.path.join(folder, "scratch")
roots = overseer.library_folders()
if not notifier:
    sandbox.confine.filtered = lambda *_: None
if notifier == "elsewhere":
    sandbox.confine.LINUX = False
missing = sandbox.isolate(scratch)
with open(witness.__file__, encoding="utf-8") as source:
    code = compile(source.read(), witness.__file__, "exec")


def flags(text):
    def candidate(secret, channel, watched):
        space = {"__name__": "witness", "__builtins__": dict(vars(builtins))}
        exec(code, space)
        space["install"](secret.pop(), channel, own, tuple(r + os.sep for r in roots),
                         [(vars(os), "getcwd", os.getcwd, "os.getcwd")], dict(sys.modules), not watched)
        exec(compile(text, own, "exec"), {"__name__": "candidate"})
        sys.audit(witness.FINISH, b"{}")

    watch = overseer.Overseer(own, os.path.join(folder, "reference.py"), scratch, roots)
    ended = sandbox.run(candidate, 10, 1 << 29, watch, [*roots, os.path.dirname(own)], scratch)
    return ended.kind, sorted(watch.flags)


print(json.dumps([missing, [flags(text) for text in json.load(sys.stdin)]]))
