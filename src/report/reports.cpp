// Attaches the observers that a run's reports need, and writes each file that is asked for.

#include "src/report/reports.hpp"

#include "src/report/explain.hpp"
#include "src/report/totals.hpp"

namespace nkisim {

// A file that a report streams into; .gz compresses.
class Reports::Stream {
 public:
  explicit Stream(const std::string& name) : file_(name) {
    if (name.ends_with(".gz")) gzip_ = std::make_unique<GzipWriter>(file_);
  }
  void write(std::string_view bytes) { gzip_ ? gzip_->write(bytes) : file_.write(bytes); }
  void commit() {
    if (gzip_) gzip_->finish();
    file_.commit();
  }

 private:
  AtomicFile file_;
  std::unique_ptr<GzipWriter> gzip_;  // in front of the file
};

struct Reports::Timelines {
  std::vector<std::unique_ptr<Stream>> streams;
  std::unique_ptr<Timeline> timeline;

  explicit Timelines(const ReportFiles& files) {
    Timeline::Writers writers;
    if (!files.perfetto.empty()) {
      writers.push_back(
          std::make_unique<PerfettoWriter>(sink(files.perfetto), !files.perfetto.ends_with(".gz")));
    }
    if (!files.chrome.empty()) {
      writers.push_back(std::make_unique<ChromeWriter>(sink(files.chrome)));
    }
    timeline = std::make_unique<Timeline>(std::move(writers), files.flows);
  }

  ByteSink sink(const std::string& name) {
    Stream* stream = streams.emplace_back(std::make_unique<Stream>(name)).get();
    return [stream](std::string_view bytes) { stream->write(bytes); };
  }
};

Reports::Reports(const ReportFiles& files, const Accounting* accounting)
    : files_(files), accounting_(accounting) {
  if (files.events || !files.session.empty()) session_ = std::make_unique<Session>();
  if (!files.perfetto.empty() || !files.chrome.empty()) {
    timelines_ = std::make_unique<Timelines>(files);
  }
  if (!files.vcd.empty()) {
    waves_file_ = std::make_unique<Stream>(files.vcd);
    waves_ = std::make_unique<Waves>();
  }
}

Reports::~Reports() = default;

void Reports::observe(std::vector<models::Observer*>& observers) {
  if (timelines_) observers.push_back(timelines_->timeline.get());
  if (session_) observers.push_back(session_.get());
  if (waves_) observers.push_back(waves_.get());
}

void Reports::write_files() {
  if (timelines_) {
    for (const auto& stream : timelines_->streams) stream->commit();
    timelines_.reset();
  }
  if (files_.accounting_json.empty()) return;
  AtomicFile file(files_.accounting_json);
  write_accounting(*accounting_, [&file](std::string_view bytes) { file.write(bytes); });
  file.commit();
}

void Reports::write_waves(const std::string& file, std::size_t rank) {
  if (!waves_ || file.empty()) return;
  if (file != files_.vcd) waves_file_ = std::make_unique<Stream>(file);
  waves_->write(rank, [this](std::string_view bytes) { waves_file_->write(bytes); });
  waves_file_->commit();
}

void Reports::write_session(const std::string& file, const RunFacts& run,
                            const std::vector<WhatIf>& changes) const {
  nlohmann::ordered_json facts = {{"partial", run.result.partial}, {"summary", run.summary.json()}};
  Totals(run.summary).put(facts);
  const Interval span = run.summary.span();
  facts["span_fs"] = {span.start, span.end};
  if (!run.result.partial) facts["confidence"] = run.confidence;
  facts["verdict"] = verdict(*accounting_, Totals(run.summary).bottleneck(), changes);
  for (const WhatIf& w : changes) {
    facts["what_if"].push_back({{"change", w.change}, {"end_fs", w.end}, {"gain", w.gain}});
  }
  if (run.world != nullptr) facts["world"] = *run.world;
  session_->save(file, *accounting_, files_.sources, std::move(facts));
}

}  // namespace nkisim
