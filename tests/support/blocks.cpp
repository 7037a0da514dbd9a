// Records which basic blocks of a program ran, for scripts/mutate --map. It is linked into a build
// with -fsanitize-coverage=trace-pc, which calls the function below at the start of every block.
// Each program and module sets a byte per address of its code in a file of its own name in the
// folder $NKISIM_BLOCKS. Processes share it, and it stays as it is however they end. Of this file
// itself nothing is recorded.

#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace {

struct Code {
  std::uintptr_t base = 0;
  std::size_t size = 0;
  std::uint8_t* ran = nullptr;
};

Code code;

/** Finds the program or library in which this function is; 1 if it is this one. */
int find(dl_phdr_info* info, std::size_t, void* name) {
  const auto here = reinterpret_cast<std::uintptr_t>(&code) - info->dlpi_addr;
  std::size_t end = 0;
  bool mine = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    mine |= here >= part.p_vaddr && here < part.p_vaddr + part.p_memsz;
    if ((part.p_flags & PF_X) != 0) end = part.p_vaddr + part.p_memsz;
  }
  if (!mine) return 0;
  code.base = info->dlpi_addr;
  code.size = end;
  *static_cast<std::string*>(name) = info->dlpi_name;
  return 1;
}

__attribute__((constructor(101))) void open_file() {
  const char* folder = std::getenv("NKISIM_BLOCKS");
  std::string name;
  if (folder == nullptr || dl_iterate_phdr(find, &name) == 0) return;
  if (name.empty()) {
    char program[4096];
    const auto length = readlink("/proc/self/exe", program, sizeof program);
    if (length > 0) name.assign(program, static_cast<std::size_t>(length));
  }
  const auto path = std::string(folder) + "/" + name.substr(name.rfind('/') + 1);
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return;
  if (ftruncate(file, static_cast<off_t>(code.size)) == 0) {
    void* at = mmap(nullptr, code.size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at != MAP_FAILED) code.ran = static_cast<std::uint8_t*>(at);
  }
  close(file);
}

}  // namespace

// Hidden, so that a module calls its own.
extern "C" __attribute__((visibility("hidden"))) void __sanitizer_cov_trace_pc() {
  if (code.ran == nullptr) return;
  const auto at = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)) - code.base;
  if (at < code.size && code.ran[at] == 0) code.ran[at] = 1;
}
