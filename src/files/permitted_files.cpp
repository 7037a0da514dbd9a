// Finds a file that an input names, below the permitted folders only.

#include "src/files/permitted_files.hpp"

#include <algorithm>

namespace nkisim {
namespace {

namespace fs = std::filesystem;

bool is_below(const fs::path& file, const fs::path& root) {
  const auto [at, end] = std::mismatch(root.begin(), root.end(), file.begin(), file.end());
  return at == root.end() && end != file.end();
}

std::optional<fs::path> regular(const fs::path& file) {
  std::error_code ec;
  fs::path real = fs::canonical(file, ec);
  if (ec || !fs::is_regular_file(real, ec)) return std::nullopt;
  return real;
}

}  // namespace

PermittedFiles::PermittedFiles(const std::vector<fs::path>& roots) {
  for (const fs::path& root : roots) {
    std::error_code ec;
    fs::path real = fs::canonical(root.empty() ? fs::path(".") : root, ec);
    if (!ec && real != real.root_path()) roots_.push_back(std::move(real));
  }
}

const fs::path* PermittedFiles::root_of(const fs::path& file) const {
  const auto root = std::find_if(roots_.begin(), roots_.end(),
                                 [&](const fs::path& r) { return is_below(file, r); });
  return root == roots_.end() ? nullptr : &*root;
}

std::optional<fs::path> PermittedFiles::find(const fs::path& file) const {
  auto real = regular(file);
  return real && root_of(*real) != nullptr ? real : std::nullopt;
}

std::optional<fs::path> PermittedFiles::find_visible(const fs::path& folder,
                                                     const fs::path& name) const {
  if (!stays_below(name)) return std::nullopt;
  auto real = regular(folder / name);
  const fs::path* root = real ? root_of(*real) : nullptr;
  if (root == nullptr) return std::nullopt;
  const fs::path inside = real->lexically_relative(*root);
  const bool hidden = std::any_of(inside.begin(), inside.end(), [](const fs::path& part) {
    return part.native().starts_with('.');
  });
  return hidden ? std::nullopt : real;
}

bool stays_below(const fs::path& name) {
  return !name.empty() && name.is_relative() &&
         std::find(name.begin(), name.end(), fs::path("..")) == name.end();
}

}  // namespace nkisim
