// Decides which files an untrusted input may name: it must not read files that its author could
// not.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace nkisim {

/// Folders below which files may be read that a trace or a config names.
class PermittedFiles {
 public:
  /// Roots that do not exist hold nothing; nor does "/", where a service may have been started.
  explicit PermittedFiles(const std::vector<std::filesystem::path>& roots);
  /// The file with its links resolved, if it is a regular one below a root.
  [[nodiscard]] std::optional<std::filesystem::path> find(const std::filesystem::path& file) const;
  /// The same of `name` as a name below a root: relative, without "..", and without a folder or
  /// file that begins with a dot (.git, .env) on the way from the root.
  [[nodiscard]] std::optional<std::filesystem::path> find_visible(
      const std::filesystem::path& folder, const std::filesystem::path& name) const;

 private:
  [[nodiscard]] const std::filesystem::path* root_of(const std::filesystem::path& file) const;
  std::vector<std::filesystem::path> roots_;  // canonical
};

/// True if a relative name stays below where it starts: no "..", not absolute.
[[nodiscard]] bool stays_below(const std::filesystem::path& name);

}  // namespace nkisim
