// Reads a device profile of neuron-profile as JSON, or has Python convert one from Parquet tables.

#include "src/cli/hw_input.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "isa/base/error.hpp"
#include "src/cli/python_command.hpp"

namespace nkisim::cli {
namespace {

namespace fs = std::filesystem;

// A file that is gone when this is.
class TemporaryFile {
 public:
  TemporaryFile() : path_((fs::temp_directory_path() / "nkisim-XXXXXX").string()) {
    const int file = mkstemp(path_.data());
    if (file < 0) throw isa::Error(isa::Rule::temporary_file, "cannot create " + path_);
    close(file);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::remove(path_.c_str()); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

HwProfile read_profile_input(const std::string& path) {
  if (!fs::is_directory(path)) return read_hw_profile(path);
  const TemporaryFile json;
  if (call_python("nkisim_profile", {"tables_json", path, json.path()}) != 0) {
    throw isa::Error(isa::Rule::file_unreadable,
                     path + ": its Parquet tables could not be read (the reason is above)");
  }
  return read_hw_profile(json.path(), path);
}

}  // namespace nkisim::cli
