// Is the program `nkisim` of a wheel. The simulator and all commands are in the wheel's Python
// module, so that the wheel has them once. It opens that module without a Python, whose symbols are
// weak there, and calls its main().
#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

// The folders of packages, from that of programs: of an environment or a user, on systems with
// lib64, of Debian's own pip, of `pip install --home` and `--target`, of a build.
constexpr const char* kFolders[] = {"../lib/" NKISIM_PYTHON "/site-packages",
                                    "../lib64/" NKISIM_PYTHON "/site-packages",
                                    "../lib/" NKISIM_PYTHON "/dist-packages",
                                    "../lib/python",
                                    "..",
                                    "python"};

// Opens the module that was installed with the program in folder `home`; null if there is none.
void* module_of(const char* home) {
  char path[2 * PATH_MAX];
  for (const char* folder : kFolders) {
    std::snprintf(path, sizeof path, "%s/%s/%s", home, folder, NKISIM_MODULE);
    if (access(path, F_OK) == 0) return dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  }
  return nullptr;
}

}  // namespace

int main(int argc, char* argv[]) {
  char home[PATH_MAX] = "";
  if (readlink("/proc/self/exe", home, sizeof home - 1) < 0 && realpath(argv[0], home) == nullptr) {
    home[0] = '\0';
  }
  if (char* slash = std::strrchr(home, '/'); slash != nullptr) *slash = '\0';
  using Main = int (*)(int, char*[]);
  void* const module = module_of(home);
  auto* const run =
      module == nullptr ? nullptr : reinterpret_cast<Main>(dlsym(module, "nkisim_main"));
  if (run != nullptr) return run(argc, argv);
  const char* why = module == nullptr ? dlerror() : nullptr;
  std::fprintf(stderr,
               "nkisim: the package's " NKISIM_MODULE
               " is not next to %s%s%s; install the wheel again\n",
               home, why == nullptr ? "" : ": ", why == nullptr ? "" : why);
  return 4;
}
