// Reads which reports `nkisim run` shall write, and writes its HTML page.
#pragma once

#include <functional>
#include <string>

#include "src/cli/command.hpp"
#include "src/report/report.hpp"

namespace nkisim::cli {

[[nodiscard]] ReportFiles report_files(const Args& args);

/// Writes the page of a session: `session` if that is a file, else one that `write` makes for it.
void write_page(const std::string& html, const std::string& session,
                const std::function<void(const std::string&)>& write);

}  // namespace nkisim::cli
