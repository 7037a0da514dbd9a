// The profile reports of `nkisim run`: what each option writes.
#pragma once

#include <fstream>
#include <memory>
#include <vector>

#include "models/observer.hpp"
#include "src/cli/command.hpp"
#include "src/observers/accounting.hpp"
#include "src/observers/perfetto.hpp"
#include "src/observers/session.hpp"
#include "src/observers/summary.hpp"
#include "src/simulation.hpp"
#include "src/what_if.hpp"

namespace nkisim::cli {

void add_report_options(boost::program_options::options_description& named);

/// Observers for the reports asked for; finish() puts the files in place.
class RunReports {
 public:
  explicit RunReports(const Args& args);
  ~RunReports();
  RunReports(const RunReports&) = delete;
  RunReports& operator=(const RunReports&) = delete;
  void observe(std::vector<models::Observer*>& observers);
  void finish(const models::Config& config, const Summary& summary, const SimResult& result,
              const MakeMemory& make_memory);

 private:
  void finish_perfetto();
  void save_session(const std::string& file, const Summary& summary, const SimResult& result,
                    const std::vector<WhatIf>& changes) const;
  const Args& args_;
  std::unique_ptr<Accounting> accounting_;
  std::unique_ptr<Session> session_;
  std::ofstream trace_;
  std::unique_ptr<Perfetto> perfetto_;
};

}  // namespace nkisim::cli
