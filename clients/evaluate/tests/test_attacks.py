"""Tests submitted kernels that attack `nkisim evaluate`: none changes another kernel's result, the
cache or a flag.

Each runs between two honest kernels on one evaluator with a cache. Unless an attack ends its own
record, it must have the flags of what it does, or be worth what the honest kernel that it carries is.
"""

import json
import os

import numpy as np
import pytest

from nkisim_evaluate import Evaluator, Settings, confine
from nkisim_evaluate.overseer import Overseer
from nkisim_evaluate.sandbox import read_channel
from nkisim_evaluate.testimony import Outputs, Stop, error_of, read_constants, read_plain_file
from candidates import BODY, GOOD, HEAD, REFERENCE, kernel_with
from running import cli, python

pytestmark = [pytest.mark.process, pytest.mark.apart, pytest.mark.slow]

HONEST = BODY.replace("INSERT", "")
C = "C = sys.modules['nkisim_evaluate.candidate']\n"


def before(text):
    """An honest kernel behind code that its file runs first."""
    return HEAD + C + text + "\n" + HONEST


def patched(text):
    """An honest kernel of whose program a file is made otherwise: `text` runs behind what writes it, in its folder."""
    return before("""
old = C._SAVE
def saved(program, path, *more):
    folder = os.path.dirname(path)
    old(program, path, *more)
""" + "".join(f"    {line}\n" for line in text.splitlines()) + """
C._SAVE = saved
""")


def with_constants(said, text=""):
    """An honest kernel whose process says that it brings constants along."""
    return before(f"""
old = C._constants
def constants(recorder, given, folder):
    keys = old(recorder, given, folder)[1]
    {text}
    return {said}, keys
C._constants = constants
""")


def program(lines):
    """A candidate that hands in a program of its own in place of the recorded one."""
    return patched(f"""
import json
L = [{{"nisa": 1, "target": "trn2", "name": "kernel", "addresses": "open"}}]
def hbm(name, shape, **more):
    L.append({{"tensor": {{"name": name, "space": "hbm", "dtype": "float32", "shape": shape, **more}}}})
def sbuf(name, shape, dtype="float32"):
    L.append({{"tensor": {{"name": name, "space": "sbuf", "dtype": dtype, "shape": shape}}}})
def arguments():
    hbm("a", [128, 64], role="input", data={{"npz": "data.npz", "key": "arg0"}})
    hbm("b", [128, 64], role="input", data={{"npz": "data.npz", "key": "arg1"}})
    hbm("out", [128, 64], role="output")
def adds(**more):
    for name, source in (("x", "a"), ("y", "b")):
        sbuf(name, [128, 64])
        L.append({{"i": "dma_copy", "dst": name, "src": source, **more}})
    L.append({{"i": "tensor_tensor", "dst": "x", "data1": "x", "data2": "y", "op": "add", "engine": "vector"}})
    L.append({{"i": "dma_copy", "dst": "out", "src": "x", **more}})
C._layout = lambda t: {{"tensor": "out", "shape": [128, 64], "dtype": "float32", "offset": 0,
                        "strides": [64, 1]}}
{lines}
with open(os.path.join(folder, "program.nisa"), "w") as file:
    file.write("\\n".join(map(json.dumps, L)) + "\\n")""").replace("C._layout = lambda",
                                                                             "globals()['C']._layout = lambda")


#: name: (what it must come to, its text). A flag's kind; "ended": its own record says so; "nothing": it
#: is worth what an honest kernel is, and has no flag; "either": one of the last two.
ATTACKS = {
    # ---- its own flags ----
    "hides a file by a rebound overseer": ("files", before(
        "for m in list(sys.modules.values()):\n"
        "    for n in ('Overseer', 'Flags'):\n"
        "        if hasattr(m, n): getattr(m, n).add = lambda *a: None\n"
        "try: open('/etc/hostname').read()\nexcept OSError: pass")),
    "hides a rebinding by leaving early": ("ended", before(
        "np.allclose = None\nimport atexit\natexit.register(os._exit, 0)\nos._exit(0)")),
    "hides a rebinding by a description of its own": ("ended", before(
        "import json\nos.write(3, json.dumps({'ok': True, 'outputs': [], 'constants': []}).encode())\n"
        "np.allclose = None\nos._exit(0)")),
    "replaces what finishes": ("ended", before(
        "import types\nC.witness.FINISH = 'nothing'\nsys.audit = lambda *a: None\n"
        "C.describe.__code__ = (lambda *a: None).__code__")),
    "replaces what describes": ("rebinds", before(
        "C._described = C._layout = C._recorded.__class__\nC._layout = lambda t: {'tensor': t.st.name, "
        "'shape': list(t.shape), 'dtype': str(t.dtype), 'offset': 0, 'strides': [64, 1]}")),
    "closes the judge's descriptor": ("environment", before(
        "import errno\n"
        "for f in (lambda: os.close(3), lambda: os.dup2(1, 3), lambda: os.closerange(3, 9)):\n"
        "    try: f()\n    except OSError: pass\n"
        "os.environ['A'] = '1'")),
    "writes to the judge's descriptor": ("introspection", before(
        "os.write(3, b'\\x00' * 100 + b' rebinds 61\\n end 2\\n{}')")),
    "floods the judge's descriptor": ("ended", before(
        "np.allclose = None\nfor _ in range(40): os.write(3, b'x' * (1 << 19))")),
    "finishes before its time": ("ended", before(
        "sys.audit('nkisim_evaluate.finish', b'{\"ok\": true, \"outputs\": [], \"constants\": []}')")),
    "finishes with what is no text": ("ended", before("sys.audit('nkisim_evaluate.finish', object())")),
    "flags itself with nonsense": ("either", before(
        "for a in ((1, 2), ('x' * 99, 'y'), ('files',), ('\\udcff', '\\udcff')):\n"
        "    try: sys.audit('nkisim_evaluate.flag', *a)\n    except Exception: pass")),
    "adds a hook that raises": ("introspection", before(
        "def hook(event, args):\n    if event.startswith('nkisim_evaluate'): raise RuntimeError\n"
        "sys.addaudithook(hook)")),
    "searches the heap for the witness": ("introspection", before(
        "import gc\nfor o in gc.get_objects():\n"
        "    if getattr(o, '__name__', '') in ('on_audit', 'report'): o.__code__ = (lambda *a: None).__code__")),
    "walks up the stack from an exception": ("introspection", before(
        "try: 1 / 0\nexcept Exception as e:\n    f = e.__traceback__.tb_frame\n"
        "    while f: f = f.f_back")),
    "walks up the stack by a generator": ("introspection", before(
        "def g(): yield\nx = g()\nx.gi_frame")),
    "walks up the stack by a library": ("introspection", before(
        "import traceback\ntry: 1 / 0\nexcept Exception as e: list(traceback.walk_tb(e.__traceback__))")),
    "walks up the stack under another name": ("introspection", before(
        "exec(compile('import sys; sys._getframe(1)', 'other.py', 'exec'))")),
    "walks up the stack under a library's name": ("introspection", before(
        "exec(compile('import sys; sys._getframe(1)', os.__file__, 'exec'))")),
    "takes its callers in a signal's handler": ("ended", before(
        "import signal\nsignal.signal(signal.SIGALRM, lambda n, f: f.f_back)\nsignal.raise_signal(14)")),
    "makes code objects": ("introspection", before(
        "(lambda: 0).__code__.replace(co_filename=os.__file__)")),
    "asks for values and catches the error": ("reads_values", kernel_with(
        "try: x.numpy()\n    except Exception: pass")),
    "sets variables below Python": ("environment", before("os.putenv('NKISIM_X', '1')")),
    "hides a changed variable": ("rebinds", before(
        "os.environ = dict(os.environ); os.getenv = lambda *a: None")),
    # ---- files ----
    "writes outside": ("files", before("try: open('CANARY', 'w').write('x')\nexcept OSError: pass")),
    "removes a file outside": ("files", before("try: os.remove('CANARY')\nexcept OSError: pass")),
    "changes rights outside": ("files", before("try: os.chmod('CANARY', 0)\nexcept OSError: pass")),
    "changes times outside": ("files", before("try: os.utime('CANARY', (0, 0))\nexcept OSError: pass")),
    "links the reference into its folder": ("reference", before(
        "try: os.link('REFERENCE', 'mine.py')\nexcept OSError: pass")),
    "makes a name for a file outside": ("files", before(
        "try: os.symlink('CANARY', 'CANARY.link')\nexcept OSError: pass")),
    "writes a database": ("files", before(
        "import sqlite3\ntry:\n    c = sqlite3.connect('CANARY.db'); c.execute('create table t(x)')\n"
        "except sqlite3.Error: pass")),
    "poisons the cache": ("files", before(
        "import glob\nfor p in [*glob.glob('CACHE/*/*.json'), 'CACHE/new.json']:\n"
        "    try: open(p, 'w').write('{\"status\": \"wrong\"}')\n    except OSError: pass")),
    "poisons the cache in C": ("either", before(
        "np.ndarray((1,), np.uint8)\ntry: np.array([1]).tofile('CACHE/new.json')\nexcept OSError: pass")),
    "reads what the judge keeps": ("files", before(
        "import glob\nfor base in ('..', '../..', '/tmp'):\n    try: os.listdir(base)\n    except OSError: pass")),
    "reads the inputs": ("files", before(
        "for up in ('..', '../run', '../candidate'):\n    for n in ('seed0.npz', 'data.npz'):\n"
        "        try: np.load(os.path.join(os.path.dirname(__file__), up, n))\n        except OSError: pass\n"
        "try: open('/etc/passwd')\nexcept OSError: pass")),
    "reads the reference through its folder": ("reference", before(
        "try:\n    d = os.open(os.path.dirname('REFERENCE'), os.O_RDONLY | os.O_DIRECTORY)\n"
        "    os.open(os.path.basename('REFERENCE'), os.O_RDONLY, dir_fd=d)\nexcept OSError: pass")),
    "imports the reference past the finder": ("reference", before(
        "import importlib.util as u\ns = u.spec_from_file_location('r', 'REFERENCE')\nm = u.module_from_spec(s)\n"
        "try: s.loader.exec_module(m)\nexcept OSError: pass")),
    "takes root's way around": ("either", before(
        "import ctypes\nl = ctypes.CDLL(None)\n"
        "for f in ('setuid', 'chroot', 'unshare'): getattr(l, f)(0)\n"
        "l.mount(b'none', b'/', b'tmpfs', 0, 0)")),
    # ---- other processes ----
    "forges the next answer": ("files", before(
        "try:\n    for p in os.listdir('/proc'):\n        if p.isdigit():\n"
        "            try: os.write(os.open(f'/proc/{p}/fd/1', os.O_WRONLY), b'{\"kind\": \"crashed\"}\\n')\n"
        "            except OSError: pass\nexcept OSError: pass\ntry: open('/proc/1/mem')\nexcept OSError: pass\n"
        "try: open('/etc/passwd')\nexcept OSError: pass")),
    "kills everybody": ("either", before(
        "for p in range(1, 70000):\n    try: os.kill(p, 9) if p != os.getpid() else None\n    except OSError: pass")),
    "leaves a child that writes later": ("processes", before(
        "try:\n    if os.fork() == 0:\n        time.sleep(1); open('program.nisa', 'wb').write(b'x'); os._exit(0)\n"
        "except OSError: pass")),
    "leaves a thread that writes later": ("processes", before(
        "import threading\ndef later():\n    while True:\n        try: open('program.nisa', 'ab').write(b'x')\n"
        "        except OSError: pass\nthreading.Thread(target=later, daemon=True).start()")),
    "starts a program": ("processes", before(
        "import subprocess\ntry: subprocess.run(['/bin/true'])\nexcept OSError: pass")),
    "becomes a program": ("processes", before("try: os.execv('/bin/true', ['x'])\nexcept OSError: pass")),
    "talks to the network": ("network", before(
        "import socket\ntry: socket.create_connection(('127.0.0.1', 9))\nexcept OSError: pass")),
    "talks to a neighbour": ("network", before(
        "import socket\ntry: socket.socket(socket.AF_UNIX).connect('\\0nkisim')\nexcept OSError: pass")),
    "lifts its limits": ("ended", before(
        "import resource\ntry: resource.setrlimit(resource.RLIMIT_AS, (1 << 50, 1 << 50))\n"
        "except (OSError, ValueError): pass\nx = bytearray(6 << 30)")),
    "fills the disk": ("ended", before("with open('big', 'wb') as f: f.truncate(5 << 30)")),
    "reads the judge's lines": ("nothing", before("assert not os.read(0, 100)")),
    # ---- what it says of its program ----
    "names a tensor that is not there": ("ended", patched(
        "globals()['C']._layout = lambda t: dict(tensor='nonesuch', shape=[128, 64], dtype='float32', offset=0, "
        "strides=[64, 1])").replace("C._saved = saved", "C._saved = saved\nC._layout = lambda t: dict("
                                    "tensor='nonesuch', shape=[128, 64], dtype='float32', offset=0, strides=[64, 1])")),
    "describes 64 GiB": ("ended", before(
        "C._layout = lambda t: {'tensor': t.st.name, 'shape': [1 << 17, 1 << 17], 'dtype': 'float32', "
        "'offset': 0, 'strides': [0, 0]}")),
    "describes no dtype": ("ended", before(
        "C._layout = lambda t: {'tensor': t.st.name, 'shape': [128, 'x'], 'dtype': 'nonsense', 'offset': 0, "
        "'strides': [512, 1]}")),
    "describes an argument as written": ("either", before(
        "old = C._recorded\nC._recorded = lambda *a: (*old(*a), [{'argument': 99, 'tensor': 'x'}])[:4]")),
    "describes an error with other fields": ("ended", before(
        "C._described = lambda *a: {'status': 'ok', 'self': 1, 'latency_us': 0, 'message': 5, 'kernel_line': 1e9}\n"
        "C._attempt = lambda *a: 1 / 0")),
    "describes nothing but depth": ("ended", before(
        "import json\njson.dumps = lambda *a: '[' * 200000")),
    "brings constants along": ("ended", with_constants(
        "[{'key': 'const9', 'dtype': '|u1', 'shape': [3 << 30]}]",
        "with open(os.path.join(folder, 'constants.bin'), 'wb') as f: f.truncate(3 << 30)")),
    "calls constants by an input's name": ("ended", with_constants(
        "[{'key': 'arg0', 'dtype': '<f4', 'shape': [0]}]")),
    "makes its program a link": ("ended", patched(
        "p = os.path.join(folder, 'program.nisa'); os.remove(p)\ntry: os.symlink('CANARY', p)\nexcept OSError: pass")),
    "makes its program a pipe": ("ended", patched(
        "p = os.path.join(folder, 'program.nisa'); os.remove(p)\ntry: os.mkfifo(p)\nexcept OSError: pass")),
    # ---- its program ----
    "adds with packets of a byte": ("ended", program(
        "arguments(); adds(dma={'queue': 'q', 'packets': [[0, 0, 1]]})")),
    "adds for time only": ("ended", program("L[0]['timing_only'] = True; arguments(); adds()")),
    "orders by itself": ("ended", program(
        "L[0].update(semaphores='explicit', addresses='virtual'); arguments(); adds()")),
    "adds on another chip": ("either", program("L[0]['target'] = 'trn3'; arguments(); adds()")),
    "reads a table of its own": ("ended", program(
        "np.savez(os.path.join(folder, 'mine.npz'), T=np.zeros((128, 64), np.float32))\n"
        "arguments(); hbm('T', [128, 64], role='constant', data={'npz': 'mine.npz', 'key': 'T'})\n"
        "sbuf('x', [128, 64])\n"
        "L.append({'i': 'dma_copy', 'dst': 'x', 'src': 'T'}); L.append({'i': 'dma_copy', 'dst': 'out', 'src': 'x'})")),
    "reads the reference's folder as data": ("ended", program(
        "arguments(); hbm('T', [128, 64], role='constant', data={'npy': 'CANARY'})\n"
        "sbuf('x', [128, 64])\n"
        "L.append({'i': 'dma_copy', 'dst': 'x', 'src': 'T'}); L.append({'i': 'dma_copy', 'dst': 'out', 'src': 'x'})")),
    "knows the named seeds": ("ended", program(
        "E = [np.random.default_rng(s) for s in (0, 1)]\n"
        "K = [tuple(r.standard_normal((128, 64), dtype=np.float32) for _ in range(2)) for r in E]\n"
        "arguments()\n"
        "hbm('T', [256, 64], role='constant', data={'values': [float(v) for a, b in K for v in (a + b).ravel()]})\n"
        "sbuf('f', [1, 1]); sbuf('m', [1, 1]); sbuf('w', [1, 1], 'int32')\n"
        "L.append({'i': 'dma_copy', 'dst': 'f', 'src': 'a[0:1,0:1]'})\n"
        "L.append({'i': 'tensor_scalar', 'dst': 'm', 'data': 'f', 'op0': 'equal', 'operand0': float(K[1][0][0, 0]), "
        "'engine': 'vector'})\n"
        "L.append({'i': 'tensor_copy', 'dst': 'w', 'src': 'm', 'engine': 'vector'})\n"
        "L.append({'i': 'register_load', 'dst': 'r1', 'src': 'w', 'engine': 'sync'})\n"
        "L.append({'i': 'dma_copy', 'dst': 'out', 'src': {'tensor': 'T[0:128,:]', 'dynamic': [{'register': 1, "
        "'stride': 8192}]}})")),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacked")
    (folder / "ref").mkdir()
    (folder / "ref" / "reference.py").write_text(REFERENCE)
    (folder / "canary").write_text("as it was")
    return folder


@pytest.fixture(scope="module")
def judge(place):
    with Evaluator(Settings(place / "ref" / "reference.py", target="trn2", timeout=20, memory=1 << 30), 1,
                   place / "cache") as warm:
        yield warm


def bare(record):
    """The part of a record that is the same every time: without the times of stages and the seed that is drawn."""
    seeds = {s: v for s, v in record["seeds"].items() if s in ("0", "1")}
    return {**record, "stage_seconds": 0, "cached": False, "id": 0, "seeds": seeds}


@pytest.fixture(scope="module")
def honest(judge):
    record = judge.evaluate({"id": 0, "source": GOOD})
    assert record["status"] == "ok" and not record["flags"], record
    return record


def looks(folder):
    """All that an attack might change below a folder, but for the cache's own folders: a new record changes their
    times."""
    return {str(p): (p.stat().st_mode, p.stat().st_mtime, p.read_bytes() if p.is_file() else b"")
            for p in sorted(folder.rglob("*")) if p.is_file() or folder / "cache" not in (p, *p.parents)}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_changes_nothing(name, judge, honest, place):
    expected, text = ATTACKS[name]
    seen = looks(place)
    text = text.replace("CANARY", str(place / "canary")).replace("CACHE", str(place / "cache")).replace(
        "REFERENCE", str(place / "ref" / "reference.py"))
    record = json.loads(json.dumps(judge.evaluate({"id": 1, "source": text}), allow_nan=False))
    if expected == "ended":
        assert record["status"] != "ok", record
    elif expected in ("nothing", "either"):
        assert expected == "either" and record["status"] != "ok" or (
            record["latency_us"] == honest["latency_us"] and not record["flags"]), record
    else:
        assert expected in record["flags"] and record["status"] != "ok", record
    now = looks(place)
    own = [p for p in now if p not in seen and p.startswith(str(place / "cache"))]
    assert len(own) <= 1  # what the judge keeps of this candidate
    assert {p: what for p, what in now.items() if p not in own} == seen
    assert bare(judge.evaluate({"id": 2, "source": GOOD + f"\nN = {name!r}\n"})) == bare(honest)
    known = judge.evaluate({"id": 3, "source": GOOD})
    assert known["cached"] and bare(known) == bare(honest)


def test_there_are_sixty():
    assert len(ATTACKS) >= 60


# ---- parsed as hostile ---------------------------------------------------------------------------
def of(**more):
    return {"tensor": "o", "shape": [2], "strides": [1], "dtype": "float32", "offset": 0, **more}


@pytest.mark.parametrize("said", [
    5, [5], [of()] * 5000, [of(tensor=5)], [of(dtype="O")], [of(dtype="f4,f4")], [of(dtype="S4")], [of(dtype=None)],
    [of(dtype="V8")], [of(shape=[-1])], [of(shape=[1.5])], [of(shape=[True])], [of(shape=[1] * 40)],
    [of(shape=[2, 2])], [of(offset="x")], [of(offset=1e9)], [of(strides=["x"])], [of(shape=[1 << 60])]])
def test_outputs_that_make_no_sense(said):
    with pytest.raises(Stop):
        Outputs(said)


@pytest.mark.parametrize("change", [
    {"tensor": "other"}, {"shape": [1 << 20], "strides": [0]}, {"shape": [5]}, {"offset": -4}, {"strides": [-1]},
    {"offset": 1 << 40}, {"offset": 12}])
def test_outputs_that_are_not_there(change, tmp_path):
    np.save(tmp_path / "o.npy", np.zeros(4, np.float32))
    files = {"o": str(tmp_path / "o.npy")}
    with pytest.raises(Stop):
        Outputs([of(**change)]).read(files)
    assert [a.shape for a in Outputs([of(shape=[4])]).read(files)] == [(4,)]


def test_constants_have_the_bytes_they_say(tmp_path):
    (tmp_path / "constants.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    good = {"key": "const1", "dtype": "<f4", "shape": [2, 2]}
    assert read_constants(tmp_path, [good], 100)["const1"].tolist() == [[0, 1], [2, 3]]
    for change in ({"key": "arg0"}, {"key": 5}, {"dtype": "|O"}, {"dtype": "<f4,<f4"}, {"shape": [5]},
                   {"shape": [1 << 40]}, {"shape": "x"}):
        with pytest.raises(Stop):
            read_constants(tmp_path, [{**good, **change}], 100)
    with pytest.raises(Stop, match="at most 15"):
        read_constants(tmp_path, [good], 15)


def test_only_plain_files_are_taken(tmp_path):
    (tmp_path / "plain").write_text("x")
    assert read_plain_file(tmp_path, "plain", 10) == b"x"
    assert read_plain_file(tmp_path, "none", 10) is None
    os.symlink(tmp_path / "plain", tmp_path / "link")
    os.link(tmp_path / "plain", tmp_path / "second")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("link", "second", "pipe", "folder"):
        with pytest.raises(Stop):
            read_plain_file(tmp_path, name, 10)


def test_an_error_has_what_errors_have():
    assert error_of({"status": "ok", "message": 5, "kernel_line": True, "code": "x" * 9999, "seed": 1}) == {
        "code": "x" * 4000, "message": repr(int)}


def test_what_is_not_signed_is_a_flag():
    watch = Overseer("/k.py", None, "/s", ("/lib",))
    assert read_channel(b"N environment 61\nN end 2\n{}", b"N", watch) == b"{}"
    assert watch.flags == {"environment": "a"}
    for data in (b"rebinds 61\nN end 2\n{}", b"N end 2\n{", b"N end -1\n", b"N ENV 6\nN end 2\n{}"):
        watch = Overseer("/k.py", None, "/s", ("/lib",))
        assert read_channel(data, b"N", watch) is None or watch.flags


# ---- how it is started ---------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["tempfile", "json", "numpy", "sqlite3", "runpy", "random", "nkisim"])
def test_a_submitted_kernel_with_a_modules_name_runs_in_its_own_process_alone(name, place, tmp_path):
    """As a file of the working folder, from which `python -m` would take modules first."""
    (tmp_path / f"{name}.py").write_text(f"import pathlib, os\n"
                                         f"try: pathlib.Path({str(tmp_path / 'ran')!r}).write_text(str(os.getpid()))\n"
                                         f"except OSError: pass\n" + GOOD)
    done = cli("evaluate", "--reference", place / "ref" / "reference.py", "--candidates", f"{name}.py", "--target",
               "trn2", "--jobs", "1", "--json", cwd=tmp_path, code=None)
    assert not (tmp_path / "ran").exists(), done.stdout
    assert json.loads(done.stdout)["flags"].keys() == {"files"}, (done.stdout, done.stderr)
    if name != "runpy":  # which -m itself imports
        done = python("-m", "nkisim_evaluate", "evaluate", "--reference", place / "ref" / "reference.py",
                      "--candidates", f"{name}.py", "--target", "trn2", "--jobs", "1", "--json", cwd=tmp_path,
                      code=None)
        assert not (tmp_path / "ran").exists(), done.stdout


def test_submitted_kernels_see_no_secrets(judge, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "nkisim-secret")
    with Evaluator(judge.settings, 1) as fresh:
        record = fresh.evaluate({"id": 1, "source": before("print(dict(os.environ))")})
    assert "nkisim-secret" not in record.get("printed", "") and record["status"] == "ok"


def test_deep_text_is_a_record(judge):
    for text in ("x = " + "1+" * 3000 + "1", "(" * 5000, "x = " + "-" * 3000 + "1"):
        assert judge.evaluate({"id": 1, "source": text})["status"] != "ok"


def test_what_the_system_lacks_is_reported(judge):
    """A chroot has no read-only mounts, an old kernel no Landlock; docs/security.md has what does not hold there."""
    missing = set(judge._benches[0]._zygote.missing)
    assert missing <= {"network", "processes", "mounts", "landlock", "system calls"}
    assert ("landlock" in missing) == (confine.landlock_version() < 1)
    assert ("system calls" in missing) == (os.uname().machine not in ("x86_64", "aarch64"))
