// Checks that no file that a command writes is also read; a link counts as its target.

#include "src/files/file_roles.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "isa/base/error.hpp"

namespace nkisim {
namespace {
namespace of_file_roles {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 2> kTraces = {".nisa", ".jsonl"};

// The name of a trace without its endings; none for other files.
std::optional<std::string> trace_stem(std::string_view name) {
  if (name.ends_with(".gz")) name.remove_suffix(3);
  for (const std::string_view ending : kTraces) {
    if (name.ends_with(ending)) return std::string(name.substr(0, name.size() - ending.size()));
  }
  return std::nullopt;
}

// True for what writing replaces nothing of: standard output, a device or a pipe.
bool is_stream(const std::string& path) {
  if (path.empty() || path == "-" || path.starts_with("/dev/") || path.starts_with("/proc/"))
    return true;
  std::error_code ec;
  const fs::file_status status = fs::status(path, ec);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

// A file's own keys: its place with links resolved, and for one that exists its number in the file
// system, which all its names share.
std::vector<std::string> identities(const std::string& path) {
  std::error_code ec;
  std::vector<std::string> all;
  const fs::path whole = fs::weakly_canonical(fs::absolute(path, ec), ec);
  all.push_back(ec ? path : whole.string());
  struct stat s {};
  if (::stat(path.c_str(), &s) == 0)
    all.push_back(std::to_string(s.st_dev) + ":" + std::to_string(s.st_ino));
  return all;
}

[[noreturn]] void refuse(const NamedFile& out, const std::string& why) {
  throw isa::Error(isa::Rule::file_lost, out.option + " " + out.path + " would replace " + why +
                                             "; another name is required");
}

}  // namespace of_file_roles
}  // namespace

std::string data_next_to(std::string_view trace) {
  const auto stem = of_file_roles::trace_stem(trace);
  return stem ? *stem + ".npz" : std::string();
}

std::vector<std::string> files_in(const std::string& word) {
  std::vector<std::string> parts = {word};
  for (std::size_t at = 0; at != std::string::npos && at < word.size();) {
    const std::size_t end = word.find_first_of(",=", at);
    parts.push_back(word.substr(at, end == std::string::npos ? end : end - at));
    at = end == std::string::npos ? end : end + 1;
  }
  std::vector<std::string> found;
  const auto take = [&found](const std::string& path) {
    std::error_code ec;
    const bool known = std::find(found.begin(), found.end(), path) != found.end();
    if (!path.empty() && !known && std::filesystem::exists(path, ec)) found.push_back(path);
  };
  for (const std::string& part : parts) {
    take(part);
    if (const std::size_t colon = part.rfind(':'); colon != std::string::npos) {
      take(part.substr(0, colon));
      take(part.substr(colon + 1));
    }
    take(data_next_to(part));
  }
  return found;
}

void require_apart(std::span<const NamedFile> written, std::span<const NamedFile> read) {
  using namespace of_file_roles;
  if (written.empty()) return;
  std::map<std::string, const NamedFile*> readers, writers;
  for (const NamedFile& in : read) {
    for (std::string& id : identities(in.path)) readers.emplace(std::move(id), &in);
  }
  for (const NamedFile& out : written) {
    if (is_stream(out.path)) continue;
    for (const std::string& id : identities(out.path)) {
      if (const auto in = readers.find(id); in != readers.end())
        refuse(out, "what " + in->second->option + " reads");
      if (const auto other = writers.find(id); other != writers.end())
        refuse(out, "what " + other->second->option + " writes");
    }
    for (std::string& id : identities(out.path)) writers.emplace(std::move(id), &out);
    std::error_code ec;
    if (out.path.ends_with(".py") && fs::is_regular_file(fs::symlink_status(out.path, ec)))
      refuse(out, "a Python source");
  }
}

}  // namespace nkisim
