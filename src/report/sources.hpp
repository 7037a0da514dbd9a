// Reads the kernel's source files, as far as a report may show them.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "isa/program/program.hpp"

namespace nkisim {

/// The rules by which a report takes the files that a program's instructions name.
struct SourceRules {
  /// The names come from this process's own kernel: any source file is taken.
  bool own_kernel = false;
  /// Otherwise: folders apart from the trace's own.
  std::vector<std::filesystem::path> roots = {};
};

/// Text by name. A trace's `loc` is a name somebody wrote: only regular files with the ending of a
/// source file, of at most 4 MiB each, below the trace's folder or a root are taken; names are
/// without ".." and hidden files are none. A name counts from the trace's folder, the two above it,
/// the working folder or a root; of an absolute one as many of its last parts as are found there.
[[nodiscard]] std::map<std::string, std::string> read_sources(const std::vector<std::string>& names,
                                                              const std::filesystem::path& trace,
                                                              const SourceRules& rules);
/// Texts by shared name (isa::Program::shared_files): what travels with the program, else what
/// read_sources() finds of the files that its instructions name.
[[nodiscard]] std::map<std::string, std::string> sources_of(const isa::Program& program,
                                                            const SourceRules& rules);

}  // namespace nkisim
