// Checks that a command line names no file both for reading and for writing.
#pragma once

#include <string>
#include <vector>

#include "src/cli/command.hpp"

namespace nkisim::cli {

/// Throws a usage Error where an option names for writing what the command reads, or what another
/// option writes. options.def says which options write.
void require_files_apart(const Command& command, const Args& args);
/// The same of the log's file (NKISIM_LOG) and all other words of a command line.
void require_log_apart(const std::vector<std::string>& words);

}  // namespace nkisim::cli
