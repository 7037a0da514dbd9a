// Writes the reports of a simulated run as files, and attaches the observers that they need.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/files/atomic_file.hpp"
#include "src/report/accounting.hpp"
#include "src/report/session.hpp"
#include "src/report/summary.hpp"
#include "src/report/timeline.hpp"
#include "src/report/waves.hpp"
#include "src/report/what_if.hpp"
#include "src/run/simulation.hpp"

namespace nkisim {

/// The files to write; an empty name is a file that is not wanted. A `chrome` or `vcd` name that
/// ends in .gz is compressed.
struct ReportFiles {
  std::string accounting_json = {}, session = {}, perfetto = {}, chrome = {}, vcd = {};
  bool flows = false;        // arrows in the timelines
  bool accounting = false;   // keep the accounting for the caller
  bool events = false;       // keep all events, for write_session
  SourceRules sources = {};  // of the session
  /// True if the accounting has to keep all causes.
  [[nodiscard]] bool all_causes() const {
    return accounting || events || !accounting_json.empty() || !session.empty();
  }
};

/// The facts of a run apart from its events.
struct RunFacts {
  const Summary& summary;
  const SimResult& result;
  nlohmann::ordered_json confidence;              // Confidence::json
  const nlohmann::ordered_json* world = nullptr;  // of a rank, what is known of all of them
};

/// Observers of one run. Files appear complete or not at all, also those of a run that was stopped:
/// they then say that they are partial.
class Reports {
 public:
  /// `accounting` observes the run by itself; null if nothing of `files` needs it. Throws
  /// isa::Error if a file cannot be written.
  explicit Reports(const ReportFiles& files, const Accounting* accounting);
  ~Reports();
  Reports(const Reports&) = delete;
  Reports& operator=(const Reports&) = delete;
  void observe(std::vector<models::Observer*>& observers);
  /// After the run: the timelines and the accounting.
  void write_files();
  /// The waveforms, if ReportFiles::vcd asked for some, as those of a rank of this number.
  void write_waves(const std::string& file, std::size_t rank);
  /// All events in one .npz.
  void write_session(const std::string& file, const RunFacts& run,
                     const std::vector<WhatIf>& changes) const;

 private:
  class Stream;
  struct Timelines;
  ReportFiles files_;
  const Accounting* accounting_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Timelines> timelines_;
  std::unique_ptr<Stream> waves_file_;  // ReportFiles::vcd, then those of other ranks
  std::unique_ptr<Waves> waves_;
};

}  // namespace nkisim
