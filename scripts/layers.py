#!/usr/bin/env python3
"""Checks that includes and imports point one way, from upper folders to lower ones, and that sizes
hold.

    scripts/layers.py [--root FOLDER]

Says what is wrong, a line each, and exits with 1:
- C++: an include of a folder that stands later in CPP_FOLDERS, a circle of includes, a long file, a
  question which instruction one is where OpSpec should say what it is, a class with many data
  members, one that may keep a temporary config, a library's header outside the folders that LIBRARIES
  admits it in;
- Python: an import of a package that stands later in PYTHON_FOLDERS, also inside a function or by
  importlib or for annotations alone, a client's import of the core's inside, a circle of modules, a long file, a
  class with many attributes;
- C++ and Python: a call, file or header of one operating system's outside HOST_FOLDERS, which know what else to do;
- both: a function that is longer or has more branches than CONTRIBUTING.md allows (needs lizard,
  which scripts/setup installs).
"""

import argparse
import ast
import pathlib
import re
import sys

import packages

try:
    import lizard
except ImportError:
    lizard = None

#: Each includes only its own files and those of folders before it. The longest prefix counts.
CPP_FOLDERS = ("isa/host", "isa/rules", "isa/base", "isa/program", "isa/machine", "isa/world", "isa/ops",
             "models", "compiler", "checks", "src/files", "src/log", "src/config", "src/trace", "src/run",
             "src/device_profile", "src/report", "src/job", "include/nkisim", "src/api", "src/cli", "python/binding")
#: Beginnings of libraries' headers, and the folders that may include them; isa has the standard library alone.
LIBRARIES = {"boost/": ("models", "compiler", "checks"), "boost/program_options": ("src/cli",),
             "systemc": ("models",), "tlm": ("models",), "libdeflate.h": ("src/files",), "zlib.h": ("src/files",),
             "nlohmann/": ("src", "python/binding"), "protozero/": ("src",), "simdjson": ("src",),
             "spdlog/": ("src/log",), "pybind11/": ("python/binding",)}
#: Packages of python/ and clients/; a package that is not named itself is in its parent's place.
PYTHON_FOLDERS = ("nkisim_work", "nkisim_profile", "nkisim_advise",
                "nkisim.values", "nkisim.record", "nkisim.isa", "nkisim.compat",
                "nkisim.lowering", "nkisim.run", "nkisim.api", "nkisim.tools", "nkisim", "nki", "nkisim_kernels",
                "neuron_dtypes", "nkisim_legacy", "neuronxcc", "nki_cpu_simulator", "nkisim_torch", "nkisim_jax",
                "torch_neuronx", "jax_neuronx", "nkisim_model", "nkisim_evaluate",
                "nkisim_adapters", "nkisim_debug", "nkisim_editor", "nkisim_validation")
#: The extension module belongs to no folder: it is made before any of them.
NATIVE = "nkisim._core"

#: Imports upwards, made only where a client is installed: for users' names (nkisim.evaluate, nkisim.tune), for torch.
DEFERRED = {("nkisim", "nkisim_evaluate"), ("nkisim.tools.install", "nkisim_torch")}

#: Packages of the core; all others are clients'.
CORE = ("nkisim", "nki", "nkisim_work", "nkisim_kernels", "neuron_dtypes")
#: A client imports packages of the core, and not the inside of nkisim but for these: an API for front ends of their own
#: (docs/front-end.md), and single modules, which are to become fewer.
FRONT_ENDS = ("nkisim_legacy", "neuronxcc", "nki_cpu_simulator", "nkisim_torch", "torch_neuronx", "nkisim_jax",
              "jax_neuronx")
FRONT_END_API = ("nkisim.values", "nkisim.record.legacy_rules", "nkisim.record.recorder", "nkisim.record.refusals",
                 "nkisim.record.targets", "nkisim.record.traced", "nkisim.isa", "nkisim.compat", "nkisim.lowering",
                 "nkisim.run.hostarrays", "nkisim.run.inspecting", "nkisim.run.kernel", "nkisim.run.session",
                 "nkisim.run.shapes", "nkisim.api", "nkisim.tools.frameworks", "nkisim.tools.install")
INSIDE = {
    "nkisim_debug": ("values.dtypes",),
    "nkisim_editor": ("record.launch", "record.strict", "record.targets", "run.kernel", "run.options", "run.session",
                      "tools.example_call", "tools.install", "tools.kernel_cli", "values.errors", "values.links"),
    "nkisim_evaluate": ("lowering", "record.targets", "run.comparing", "run.hostarrays", "run.kernel", "run.options",
                        "run.recording", "run.session", "tools.install", "tools.kernel_report", "values.dtypes",
                        "values.errors", "values.shape", "values.storage"),
    "nkisim_model": ("record.recorder", "record.targets", "run.compiling", "run.kernel", "run.options", "values.errors",
                     "values.shape")}

FILE_LINES, FUNCTION_LINES, BRANCHES, ATTRIBUTES, MEMBERS = 500, 60, 25, 30, 35
SIZED = ("isa", "models", "compiler", "checks", "src", "python", "scripts", "bench", "traces", "examples",
         "clients", "tests")
#: Code that may name instructions: it defines, makes or replaces them. Other code asks their OpSpec.
NAMING = ("isa/ops/", "compiler/", "src/device_profile/")
#: Files that may depend on the operating system, and the headers, calls and files of Linux alone.
HOST_FOLDERS = ("isa/host/", "python/nkisim_work/host.py", "scripts/layers.py",
              *(f"clients/evaluate/nkisim_evaluate/{name}.py" for name in ("confine", "overseer", "syscalls")),
              "tests/", "bench/run.py", "bench/memory.py")
_HOST = re.compile(
    r"<(?:malloc|sched|features|byteswap|endian|mntent|(?:sys/(?:auxv|epoll|eventfd|fanotify|inotify|mman|prctl|ptrace|"
    r"sendfile|signalfd|syscall|sysinfo|timerfd|vfs)|asm/\w+|linux/[\w/]+|mach/\w+|mach-o/\w+))\.h>"
    r"|\b(?:memfd_create|prctl|prlimit|malloc_trim|mallopt|pipe2|accept4|epoll_create1?|eventfd|st_mtim|madvise|"
    r"sched_[gs]etaffinity|pthread_setname_np|O_PATH|O_TMPFILE|__linux__|__APPLE__|__GLIBC__)\b"
    r"|\bMA(?:P|DV)_[A-Z]+|/proc/(?:self|sys|cpuinfo|meminfo)|/sys/(?:fs|kernel)|CDLL\(None"
    r"|sys\.platform\b")
_NAMED = re.compile(r"\bOp::k_[a-z]\w*")
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
_LIBRARY = re.compile(r"^\s*#\s*include\s+<([^>]+)>")


def folder_of(name, folders, separator):
    """The place in `folders` of a file or module, or None."""
    found = [r for r in folders if name == r or name.startswith(r + separator)]
    return folders.index(max(found, key=len)) if found else None


def circles(graph):
    """Sets of nodes that reach each other (Tarjan's strongly connected components)."""
    number, low, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            group = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(group) > 1 or node in graph.get(node, ()):
                found.append(sorted(group))

    for node in list(graph):
        if node not in number:
            visit(node)
    return found


def check_directions(edges, folders, separator, verb):
    """Complaints about {name: {other name: place}}: what stands above."""
    for name, others in edges.items():
        own = folder_of(name, folders, separator)
        for other, place in others.items():
            there = None if other.endswith(".def") else folder_of(other, folders, separator)  # data
            if own is not None and there is not None and there > own:
                yield f"{place}: {folders[own]} {verb} {other}, which stands above it"


def check_graph(edges, folders, separator, verb, what):
    """The same, and about circles."""
    yield from check_directions(edges, folders, separator, verb)
    for group in circles({n: list(o) for n, o in edges.items()}):
        yield f"circle of {what}: {', '.join(group)}"


def cpp_lines(root):
    """(file, number, line) of our own C++."""
    for folder in sorted({r.split("/")[0] for r in CPP_FOLDERS}):
        for path in sorted((root / folder).rglob("*.[ch]pp")):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                yield path.relative_to(root).as_posix(), number, line


def includes(root):
    """{file: {included file: place}} of our own C++ files."""
    edges = {}
    for name, number, line in cpp_lines(root):
        match = _INCLUDE.match(line)
        if match:
            edges.setdefault(name, {})[match[1]] = f"{name}:{number}"
    return edges


def check_libraries(root):
    for name, number, line in cpp_lines(root):
        match = _LIBRARY.match(line)
        of = max((prefix for prefix in LIBRARIES if match and match[1].startswith(prefix)), key=len, default=None)
        if of and not name.startswith(tuple(f"{folder}/" for folder in LIBRARIES[of])):
            yield f"{name}:{number}: <{match[1]}> belongs in {', '.join(LIBRARIES[of])}"


def check_named(root):
    for name, number, line in cpp_lines(root):
        if not name.startswith(NAMING):
            for found in _NAMED.findall(line):
                yield f"{name}:{number}: asks for {found}; a fact of OpSpec is required"


def check_host(root):
    for path in sized_files(root):
        name = path.relative_to(root).as_posix()
        if name.startswith(HOST_FOLDERS) or "/tests/" in name:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for found in _HOST.findall(line):
                yield f"{name}:{number}: {found} is one operating system's; {HOST_FOLDERS[0]} is the folder for it"


def module_name(path, folder):
    parts = path.relative_to(folder).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _named_by_call(node):
    """The module that importlib.import_module("NAME") or __import__("NAME") imports, in a list."""
    called = getattr(node.func, "attr", getattr(node.func, "id", None))
    name = node.args[0] if node.args else None
    return [name.value] if called in ("import_module", "__import__") and isinstance(
        name, ast.Constant) and isinstance(name.value, str) else []


def _imported(node, module, is_package, modules):
    """The modules an import names; of a package, what it takes out of it."""
    if isinstance(node, ast.Call):
        return _named_by_call(node)
    if isinstance(node, ast.Import):
        return [a.name for a in node.names]
    base = module.split(".")
    base = base[:len(base) - node.level + (1 if is_package else 0)] if node.level else []
    target = ".".join(base + ([node.module] if node.module else []))
    inner = [f"{target}.{a.name}" for a in node.names]
    own = [] if all(name in modules or name == NATIVE for name in inner) else [target]
    return own + [name for name in inner if name in modules]


def _for_types(tree):
    """The nodes below `if TYPE_CHECKING:`, which never run: they make no circle."""
    return {inner for node in ast.walk(tree) if isinstance(node, ast.If)
            and getattr(node.test, "id", "") == "TYPE_CHECKING"
            for part in node.body for inner in ast.walk(part)}


def imports(root):
    """{module: {imported module: place}} of our own modules, imports within functions as well; and of those for
    annotations alone."""
    files = {module_name(p, folder.parent): p for folder in packages.packages(root).values()
             for p in sorted(folder.rglob("*.py"))}
    edges, typed = {}, {}
    for module, path in files.items():
        place, tree = path.relative_to(root).as_posix(), ast.parse(path.read_text())
        for_types = _for_types(tree)
        for node in ast.walk(tree):
            if not isinstance(node, (ast.Import, ast.ImportFrom, ast.Call)):
                continue
            for name in _imported(node, module, path.name == "__init__.py", files):
                if name in files and (module, name) not in DEFERRED:
                    (typed if node in for_types else edges).setdefault(module, {}).setdefault(
                        name, f"{place}:{node.lineno}")
    return edges, typed


def check_clients(edges):
    """Complaints about imports of the core's inside by clients."""
    for module, others in edges.items():
        client = module.split(".")[0]
        allowed = FRONT_END_API if client in FRONT_ENDS else [f"nkisim.{name}" for name in INSIDE.get(client, ())]
        for other, place in others.items():
            if client not in CORE and other.startswith("nkisim.") and folder_of(other, allowed, ".") is None:
                yield f"{place}: {client} imports {other}, which is inside the core"


def sized_files(root):
    return [p for folder in SIZED for end in ("*.cpp", "*.hpp", "*.py")
            for p in sorted((root / folder).rglob(end))]


def check_sizes(root):
    for path in sized_files(root):
        name = path.relative_to(root).as_posix()
        lines = len(path.read_text().splitlines())
        if lines > FILE_LINES:
            yield f"{name}: {lines} lines; at most {FILE_LINES} are allowed"
        if lizard is None:
            continue
        for f in lizard.analyze_file(str(path)).function_list:
            where = f"{name}:{f.start_line}: {f.name} has"
            if f.length > FUNCTION_LINES:
                yield f"{where} {f.length} lines; at most {FUNCTION_LINES} are allowed"
            if f.cyclomatic_complexity > BRANCHES:
                yield (f"{where} a cyclomatic complexity of {f.cyclomatic_complexity}; at most "
                       f"{BRANCHES} is allowed")


def attributes(definition):
    """The names of what each object of a class keeps: fields, slots, and what its methods set."""
    found = set()
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        elif isinstance(node, ast.Assign) and any(
                getattr(t, "id", None) == "__slots__" for t in node.targets):
            found.update(c.value for c in ast.walk(node.value) if isinstance(c, ast.Constant))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.args.args:
            own = node.args.args[0].arg
            found.update(n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute) and isinstance(
                n.ctx, ast.Store) and getattr(n.value, "id", None) == own)
    return found


def check_classes(root):
    for path in packages.modules(root):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and len(attributes(node)) > ATTRIBUTES:
                yield (f"{path.relative_to(root).as_posix()}:{node.lineno}: {node.name} has "
                       f"{len(attributes(node))} attributes; at most {ATTRIBUTES} are allowed")


_NOISE = re.compile(r"""//[^\n]*|/\*.*?\*/|^[ \t]*\#[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""", re.S | re.M)
_CLASS = re.compile(r"\b(?:class|struct)\s+(?:\[\[\w+\]\]\s*)?([\w:]+)(?:\s+final)?\s*(?::[^;{()]*)?\{")
_FUNCTION = re.compile(r"\)\s*(?:const|noexcept|override|final|->[^;{]*|:[^;{]*|\s)*\{\}$")
_NO_MEMBER = re.compile(r"^(?:using|friend|typedef|static|enum|struct|class|union|template|explicit|virtual|"
                        r"constexpr|~)\b|\boperator\b")


def statements(text, start):
    """The text directly in a C++ class from `start` on, without the bodies in it."""
    depth, now = 0, ""
    for c in text[start:]:
        depth += {"{": 1, "}": -1}.get(c, 0)
        if depth < 0:
            return
        if c == "{" and depth == 1 or c == "}" and depth == 0:
            now += c
            if _FUNCTION.search(now):
                now = ""
        elif depth == 0 and c == ";":
            yield now.strip()
            now = ""
        elif depth == 0:
            now += c


def members(text, start):
    """The number of data members of the class whose body begins at `start`."""
    count = 0
    for statement in statements(text, start):
        statement = re.sub(r"\b(?:public|private|protected)\s*:(?!:)|\[\[\w+\]\]", "", statement).strip()
        while "<" in statement and re.search(r"<[^<>]*>", statement):
            statement = re.sub(r"<[^<>]*>", "", statement)
        if not statement or _NO_MEMBER.search(statement):
            continue
        declared = re.sub(r"=[^,]*", "", statement)
        if re.search(r"\(\s*\*\s*\w+\s*\)\s*\(", statement):  # a pointer to a function
            count += 1
        elif "(" not in declared:
            count += 1 + declared.count(",")
    return count


def check_members(root):
    for folder in sorted({r.split("/")[0] for r in CPP_FOLDERS}):
        for path in sorted((root / folder).rglob("*.[ch]pp")):
            text = _NOISE.sub("", path.read_text())
            for match in _CLASS.finditer(text):
                if members(text, match.end()) > MEMBERS:
                    yield (f"{path.relative_to(root).as_posix()}: {match[1]} has {members(text, match.end())} "
                           f"data members; at most {MEMBERS} are allowed")


_KEPT = re.compile(r"const (?:\w+::)*\w*Config& \w+$")
_PASSED = re.compile(r"const (?:\w+::)*\w*Config& \w+\s*[,)]")


def check_kept(root):
    """A class that keeps a reference to a config takes it by std::reference_wrapper, which refuses temporaries; one
    without a constructor holds that."""
    for folder in ("models", "compiler", "src"):
        for path in sorted((root / folder).rglob("*.hpp")):
            text = _NOISE.sub("", path.read_text())
            for match in _CLASS.finditer(text):
                own = list(statements(text, match.end()))
                made = re.search(rf"\b{match[1]}\(((?:[^()]|\([^()]*\))*\))", text[match.end():])
                if any(_KEPT.search(s) for s in own) and not (made and not _PASSED.search(made[1])):
                    where = "in its constructor" if made else "as its member"
                    yield (f"{path.relative_to(root).as_posix()}: {match[1]} keeps a reference to a config; "
                           f"std::reference_wrapper<const Config> {where} is required")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[1])
    root = parser.parse_args().root
    imported, for_types = imports(root)
    wrong = [*check_graph(includes(root), CPP_FOLDERS, "/", "includes", "includes"),
             *check_graph(imported, PYTHON_FOLDERS, ".", "imports", "imports"),
             *check_directions(for_types, PYTHON_FOLDERS, ".", "imports"),
             *check_clients(imported), *check_clients(for_types),
             *check_sizes(root), *check_classes(root), *check_named(root), *check_host(root),
             *check_members(root), *check_libraries(root), *check_kept(root)]
    for line in wrong:
        print(f"layers: {line}")
    if lizard is None:
        print("layers: functions are not measured, as Python's lizard is missing (scripts/setup)",
              file=sys.stderr)
    return 1 if wrong or lizard is None else 0


if __name__ == "__main__":
    sys.exit(main())
