// Finds the kernel's source files, whose names the instructions contain.

#include "src/report/sources.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

#include "src/files/files.hpp"

namespace nkisim {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMaxFile = std::uintmax_t{4} << 20U, kMaxTogether = kMaxFile * 16;
constexpr std::array<std::string_view, 9> kEndings = {".py",  ".pyi", ".c",   ".cc", ".cpp",
                                                      ".cxx", ".h",   ".hpp", ".rs"};

bool is_source(const fs::path& file) {
  const std::string ending = file.extension().string();
  return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}

// A kernel that is run where it is recorded has no trace.
fs::path folder_of(const fs::path& trace) {
  return trace.empty() ? fs::current_path() : fs::absolute(trace).parent_path();
}

std::vector<fs::path> folders_of(const fs::path& trace, const SourceRules& rules) {
  const fs::path own = folder_of(trace);
  std::vector<fs::path> folders = {own, own.parent_path(), own.parent_path().parent_path(), "."};
  folders.insert(folders.end(), rules.roots.begin(), rules.roots.end());
  return folders;
}

// The names by which a file is looked for: a kernel's place is where it was recorded, another
// folder or machine, so that an absolute name counts by as many of its last parts as are found.
std::vector<fs::path> tails_of(const fs::path& name) {
  if (!name.is_absolute()) return {name};
  std::vector<fs::path> names;
  const fs::path inside = name.relative_path();
  for (auto from = inside.begin(); from != inside.end(); ++from) {
    fs::path rest;
    for (auto part = from; part != inside.end(); ++part) rest /= *part;
    names.push_back(std::move(rest));
  }
  return names;
}

std::optional<fs::path> find(const std::string& name, const std::vector<fs::path>& folders,
                             const PermittedFiles& reach) {
  for (const fs::path& tried : tails_of(name)) {
    for (const fs::path& folder : folders) {
      auto file = reach.find_visible(folder, tried);
      if (file && is_source(*file)) return file;
    }
  }
  return std::nullopt;
}

}  // namespace

std::map<std::string, std::string> read_sources(const std::vector<std::string>& names,
                                                const fs::path& trace, const SourceRules& rules) {
  std::vector<fs::path> roots = rules.roots;
  roots.push_back(folder_of(trace));
  const PermittedFiles reach(roots);
  const std::vector<fs::path> folders = folders_of(trace, rules);
  std::map<std::string, std::string> texts;
  std::uintmax_t together = 0;
  for (const std::string& name : names) {
    std::error_code ec;
    const auto file = rules.own_kernel ? std::optional<fs::path>(name) : find(name, folders, reach);
    if (!file || !is_source(*file) || !fs::is_regular_file(*file, ec)) continue;
    const std::uintmax_t size = fs::file_size(*file, ec);
    if (ec || size > kMaxFile || together + size > kMaxTogether) continue;
    std::ifstream in(*file, std::ios::binary);
    if (!in) continue;
    std::string text(size, '\0');
    in.read(text.data(), static_cast<std::streamsize>(size));
    text.resize(static_cast<std::size_t>(in.gcount()));
    together += text.size();
    texts.emplace(name, std::move(text));
  }
  return texts;
}

std::map<std::string, std::string> sources_of(const isa::Program& program,
                                              const SourceRules& rules) {
  std::map<std::string, std::string> texts = program.sources();
  const auto &files = program.files(), &shared = program.shared_files();
  std::vector<std::string> names;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!texts.contains(shared[i])) names.push_back(files[i]);
  }
  const auto read = read_sources(names, program.trace_file(), rules);
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (const auto it = read.find(files[i]); it != read.end()) texts.emplace(shared[i], it->second);
  }
  return texts;
}

}  // namespace nkisim
