// Implements source_places.hpp: names of a kernel's files and lines.

#include "isa/program/source_places.hpp"

#include <algorithm>
#include <utility>

namespace nkisim::isa {
namespace {

// True if `name` ends in the parts `tail` of a path.
bool ends_in(std::string_view name, std::string_view tail) {
  return name.ends_with(tail) &&
         (name.size() == tail.size() || name[name.size() - tail.size() - 1] == '/');
}

// An absolute name is its last part, with folders before it while another name ends so, too.
std::vector<std::string> shared_names(const std::vector<std::string>& files) {
  std::vector<std::string> names = files;
  for (std::string& name : names) {
    if (!name.starts_with('/')) continue;
    std::size_t from = name.rfind('/');
    const auto others = [&] {
      return std::count_if(files.begin(), files.end(), [&](const std::string& file) {
        return ends_in(file, std::string_view(name).substr(from + 1));
      });
    };
    while (from > 0 && others() > 1) from = name.rfind('/', from - 1);
    name.erase(0, from + 1);
  }
  return names;
}

}  // namespace

SourcePlaces::SourcePlaces(std::string trace_file) : trace_file_(std::move(trace_file)) {}

std::uint32_t SourcePlaces::add_file(std::string_view file) {
  auto found = std::find(files_.begin(), files_.end(), file);
  if (found == files_.end()) found = files_.emplace(found, file);
  return static_cast<std::uint32_t>(found - files_.begin()) + 1;
}

std::string SourcePlaces::kernel_place(const Inst& inst) const {
  if (inst.loc.kernel_file == 0 || inst.loc.kernel_file > files_.size()) return {};
  return files_[inst.loc.kernel_file - 1] + ":" + std::to_string(inst.loc.kernel_line);
}

std::string SourcePlaces::shared_place(const Inst& inst) const {
  if (inst.loc.kernel_file == 0 || inst.loc.kernel_file > files_.size()) return {};
  return shared_files()[inst.loc.kernel_file - 1] + ":" + std::to_string(inst.loc.kernel_line);
}

std::string SourcePlaces::shared_trace() const {
  return trace_file_.starts_with('/') ? trace_file_.substr(trace_file_.rfind('/') + 1)
                                      : trace_file_;
}

const std::vector<std::string>& SourcePlaces::shared_files() const {
  if (shared_.whole) return files_;
  if (shared_.files.size() != files_.size()) shared_.files = shared_names(files_);
  return shared_.files;
}

void SourcePlaces::locate(Error& error) const {
  const std::uint32_t file = error.loc().kernel_file;
  error.in(trace_file_, file > 0 && file <= files_.size() ? files_[file - 1] : std::string());
}

}  // namespace nkisim::isa
