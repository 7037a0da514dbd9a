// The profile reports of `nkisim run`: what each option writes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/cli/command.hpp"
#include "src/cli/limits.hpp"
#include "src/report/report.hpp"

namespace nkisim::cli {

void add_report_options(boost::program_options::options_description& named);
[[nodiscard]] ReportFiles report_files(const Args& args);

/// Writes what report_files asked for and simulates what would help if that is wanted (--explain,
/// --html); a run that was stopped gets no what-ifs.
[[nodiscard]] std::vector<WhatIf> finish_reports(const Args& args, Reports& reports,
                                                 const models::Config& config,
                                                 const RunFacts& facts,
                                                 const MakeMemory& make_memory, Limits& limits);

/// Writes the page of a session: `session` if that is a file, else one that `write` makes for it.
void write_page(const std::string& html, const std::string& session,
                const std::function<void(const std::string&)>& write);

}  // namespace nkisim::cli
