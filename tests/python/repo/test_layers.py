"""Tests scripts/layers.py, which checks includes, imports and sizes: our tree passes, and each rule
can fail.
"""

import importlib.util

import pytest

from running import ROOT, python

pytestmark = pytest.mark.process
SCRIPT = ROOT / "scripts" / "layers.py"
LIZARD = importlib.util.find_spec("lizard") is not None


def check(root):
    """(exit code, complaints) for a tree."""
    done = python(SCRIPT, "--root", root, code=None)
    return done.returncode, done.stdout


def tree(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


GOOD = {
    "isa/base/a.hpp": "#pragma once\n",
    "models/dma/b.hpp": '#include "isa/base/a.hpp"\n',
    "src/files/c.hpp": '#include "models/dma/b.hpp"\n',
    "src/cli/d.cpp": '#include "src/files/c.hpp"\n',
    "python/nkisim/__init__.py": "from .run.kernel import run\n",
    "python/nkisim/values/tensor.py": "from .. import _core\nfrom . import dtypes\n",
    "python/nkisim/values/dtypes.py": "import numpy\n",
    "python/nkisim/run/kernel.py": "from ..values import tensor\nfrom ..values.dtypes import numpy\n",
    "python/nki/__init__.py": "from nkisim.run import kernel\n",
}


def test_a_good_tree(tmp_path):
    assert check(tree(tmp_path, GOOD)) == (0, "")


@pytest.mark.parametrize("name, text, said", [
    ("isa/base/a.hpp", '#include "models/dma/b.hpp"\n',
     ["isa/base/a.hpp:1: isa/base includes models/dma/b.hpp", "circle of includes: isa/base/a.hpp, models/dma/b"]),
    ("src/files/c.hpp", '\n#  include "src/cli/d.hpp"\n',
     ["src/files/c.hpp:2: src/files includes src/cli/d.hpp"]),
    ("isa/base/a.hpp", "#include <boost/circular_buffer.hpp>\n",
     ["isa/base/a.hpp:1: <boost/circular_buffer.hpp> belongs in models, compiler, checks"]),
    ("models/dma/b.hpp", "#include <boost/container/flat_map.hpp>\n#include <boost/program_options.hpp>\n",
     ["models/dma/b.hpp:2: <boost/program_options.hpp> belongs in src/cli"]),
    ("isa/base/z.hpp", '#include "isa/base/z.hpp"\n', ["circle of includes: isa/base/z.hpp"]),
    ("models/dma/b.hpp", "\nbool f(isa::Op op) { return op == isa::Op::k_memset; }\n",
     ["models/dma/b.hpp:2: asks for Op::k_memset; a fact of OpSpec is required"]),
    ("isa/base/a.hpp", "struct Big {\n  int f() const { return 1; }\n"
     + "".join(f"  int a{i} = 0, b{i};  // c, d\n" for i in range(17))
     + "  void (*g)(int);\n  std::map<int, int> m{};\n};\n",
     ["isa/base/a.hpp: Big has 36 data members; at most 35"]),
    ("models/kept.hpp", "class A {\n  A(int x, const models::DmaConfig& config);\n  const DmaConfig& config_;\n};\n",
     ["models/kept.hpp: A keeps a reference to a config; std::reference_wrapper"]),
    ("models/kept.hpp", "struct A {\n  const Config& config;\n  int core = 0;\n};\n",
     ["models/kept.hpp: A keeps a reference to a config; std::reference_wrapper<const Config> as its member"]),
    ("src/files/c.hpp", "\n" * 501, ["src/files/c.hpp: 501 lines"]),
    ("src/files/c.hpp", "#include <sys/prctl.h>\n",
     ["src/files/c.hpp:1: <sys/prctl.h> is one operating system's; isa/host/ is the folder"]),
    ("src/cli/d.cpp", "#include <linux/seccomp.h>\nint f() { return mallopt(1, 2); }\n",
     ["src/cli/d.cpp:1: <linux/seccomp.h> is", "src/cli/d.cpp:2: mallopt is"]),
    ("isa/base/a.hpp", "#ifdef __linux__\nint x = MAP_NORESERVE | open(\"/proc/self/statm\");\n#endif\n",
     ["a.hpp:1: __linux__ is", "a.hpp:2: MAP_NORESERVE is", "a.hpp:2: /proc/self is"]),
    ("python/nkisim/run/kernel.py", "import sys\nx = sys.platform\n", ["run/kernel.py:2: sys.platform is"]),
    ("python/nkisim_work/worker.py", "resource.prlimit(1, 2)\n", ["nkisim_work/worker.py:1: prlimit is"]),
    ("python/nkisim/values/dtypes.py", "def f():\n    from ..run.kernel import run\n",
     ["values/dtypes.py:2: nkisim.values imports nkisim.run.kernel, which stands above",
      "circle of imports: nkisim.run.kernel, nkisim.values.dtypes, nkisim.values.tensor"]),
    ("python/nkisim/values/dtypes.py", "from .tensor import x\n",
     ["circle of imports: nkisim.values.dtypes, nkisim.values.tensor"]),
    ("python/nkisim/values/dtypes.py", "if TYPE_CHECKING:\n    from ..run.kernel import run\n",
     ["values/dtypes.py:2: nkisim.values imports nkisim.run.kernel, which stands above"]),
    ("python/nkisim/values/dtypes.py", "import nkisim.run.kernel\n",
     ["nkisim.values imports nkisim.run.kernel"]),
    ("python/nkisim/run/kernel.py", "import nki\n", ["nkisim.run imports nki, which"]),
    ("python/nkisim/run/kernel.py", "from .. import run\n", ["nkisim.run imports nkisim, which"]),
    ("python/nkisim/values/dtypes.py", "import importlib\nk = importlib.import_module('nkisim.run.kernel')\n",
     ["values/dtypes.py:2: nkisim.values imports nkisim.run.kernel, which stands above", "circle of imports"]),
    ("python/nkisim/values/dtypes.py", "def f():\n    return __import__('nki')\n",
     ["values/dtypes.py:2: nkisim.values imports nki, which"]),
    ("clients/advise/nkisim_advise/__init__.py", "from nkisim.values import tensor\n",
     ["advise/__init__.py:1: nkisim_advise imports nkisim.values.tensor, which is inside the core"]),
    ("python/nkisim/run/large.py", "class A:\n    def __init__(self):\n" + "".join(
        f"        self.a{i} = {i}\n" for i in range(31)), ["run/large.py:1: A has 31 attributes; at most 30"]),
    ("python/nkisim/run/large.py", "class A:\n    __slots__ = (" + "".join(f"'a{i}', " for i in range(30)) +
     ")\n    b: int\n    c = 1\n", ["run/large.py:1: A has 31 attributes; at most 30"]),
])
def test_a_broken_rule(tmp_path, name, text, said):
    code, found = check(tree(tmp_path, {**GOOD, name: text}))
    assert code == 1
    assert all(line in found for line in said), found


def test_a_front_end_of_its_own_has_an_api(tmp_path):
    name, text = "clients/legacy/nkisim_legacy/__init__.py", "import nki\nfrom nkisim.values import tensor\n"
    assert check(tree(tmp_path, {**GOOD, name: text})) == (0, "")


def test_the_folder_of_the_operating_system(tmp_path):
    linux = "#include <sys/prctl.h>\n#ifdef __linux__\n#endif\n"
    posix = "#include <sys/stat.h>\n#include <unistd.h>\n#include <csignal>\n"
    assert check(tree(tmp_path, {**GOOD, "isa/host/linux.cpp": linux, "src/cli/d.cpp": posix,
                                 "python/nkisim_work/host.py": "resource.prlimit(1, 2)\n"})) == (0, "")


def test_an_import_for_annotations_makes_no_circle(tmp_path):
    name, text = "python/nkisim/values/dtypes.py", "if TYPE_CHECKING:\n    from .tensor import x\n"
    assert check(tree(tmp_path, {**GOOD, name: text})) == (0, "")


@pytest.mark.skipif(not LIZARD, reason="needs lizard")
@pytest.mark.parametrize("name, text, said", [
    ("python/nkisim/run/long.py", "def f():\n" + "    pass\n" * 60, "f has 61 lines"),
    ("src/run/long.cpp", "int f() {\n" + "  g();\n" * 60 + "}\n", "f has 62 lines"),
    ("python/nkisim/run/twisted.py", "def f(x):\n" + "    if x: pass\n" * 25,
     "f has a cyclomatic complexity of 26"),
    ("isa/base/twisted.cpp", "int f(int x) {\n" + "  if (x) g();\n" * 25 + "}\n",
     "f has a cyclomatic complexity of 26"),
])
def test_a_function_too_large(tmp_path, name, text, said):
    code, found = check(tree(tmp_path, {**GOOD, name: text}))
    assert code == 1 and said in found
