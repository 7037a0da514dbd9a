// Adds up the summaries of cores and ranks to one, with the run's latency and bottleneck.

#include "src/report/totals.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <map>
#include <sstream>
#include <utility>

namespace nkisim {
namespace {

using Json = nlohmann::ordered_json;
using models::Fs;

Fs active(std::vector<Interval> intervals) { return merge_intervals(intervals); }

void append(std::vector<Interval>& to, const std::vector<Interval>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

void keep_longer(std::vector<Interval>& own, const std::vector<Interval>& other) {
  if (active(other) > active(own)) own = other;
}

void cover(Interval& own, const Interval& other) {
  if (other.end <= other.start) return;
  own = own.end <= own.start
            ? other
            : Interval{std::min(own.start, other.start), std::max(own.end, other.end)};
}

}  // namespace

std::string time_text(double us) {
  constexpr double kLong = 10000;  // from here on in milliseconds
  std::ostringstream text;
  text << std::fixed << std::setprecision(3) << (us < kLong ? us : us / 1000)
       << (us < kLong ? " us" : " ms");
  return text.str();
}

models::Fs latency(std::span<const Interval> ranks) {
  Interval all;
  for (const Interval& rank : ranks) cover(all, rank);
  return all.end - all.start;
}

models::Fs latency(const Summary& rank) {
  const Interval span = rank.span();
  return latency({&span, 1});
}

// Intervals by mode are those of the core where DMA works longest.
void Summary::join_dma(CoreTotals& all, const CoreTotals& c, int times) {
  std::vector<Interval> own, other;
  for (const DmaClass& d : all.dma) append(own, d.active);
  for (const DmaClass& d : c.dma) append(other, d.active);
  const bool longer = active(other) > active(own);
  for (std::size_t m = 0; m < c.dma.size(); ++m) {
    if (longer) all.dma.at(m).active = c.dma.at(m).active;
    all.dma.at(m).packets += times * c.dma.at(m).packets;
    all.dma.at(m).bytes += times * c.dma.at(m).bytes;
  }
  all.packet_time += times * c.packet_time;
  all.transfer_time += times * c.transfer_time;
  all.transfers += times * c.transfers;
  all.lanes += times * c.lanes;
  all.other_queues += times * static_cast<std::int64_t>(c.queues.size());
}

void Summary::join_counts(CoreTotals& all, const CoreTotals& c, int times) {
  using Count = std::int64_t CoreTotals::*;
  for (const Count count :
       {&CoreTotals::matmuls, &CoreTotals::activates, &CoreTotals::hbm_read, &CoreTotals::hbm_write,
        &CoreTotals::sbuf_read, &CoreTotals::sbuf_write, &CoreTotals::psum_read,
        &CoreTotals::psum_write, &CoreTotals::input_queue, &CoreTotals::output_queue,
        &CoreTotals::weight_queue, &CoreTotals::semaphore_updates}) {
    all.*count += times * c.*count;
  }
  for (std::size_t k = 0; k < c.spilled.size(); ++k) all.spilled.at(k) += times * c.spilled.at(k);
  all.evicted.count += times * c.evicted.count;
  all.evicted.bytes += times * c.evicted.bytes;
  using Work = double CoreTotals::*;
  for (const Work work : {&CoreTotals::flops, &CoreTotals::transpose_flops,
                          &CoreTotals::adjusted_flops, &CoreTotals::adjusted_transpose_flops}) {
    all.*work += times * c.*work;
  }
  all.activate_time += times * c.activate_time;
}

void Summary::join(const Summary& rank, const CoreTotals& c, int times) {
  CoreTotals& all = cores_.front();
  for (std::size_t e = 0; e < c.engines.size(); ++e) {
    EngineTotals& own = all.engines.at(e);
    append(busy_, c.engines.at(e).active);
    keep_longer(own.active, c.engines.at(e).active);
    own.time += times * c.engines.at(e).time;
    own.count += times * c.engines.at(e).count;
  }
  for (const DmaClass& d : c.dma) append(busy_, d.active);
  (void)merge_intervals(busy_);
  join_dma(all, c, times);
  join_counts(all, c, times);
  cover(all.span, c.span);
  cover(all.exec_span, c.exec_span);
  keep_longer(all.cc_ops, c.cc_ops);
  keep_longer(all.cc_instructions, c.cc_instructions);
  partial_ = partial_ || rank.partial_;
  joined_ += times;
}

Summary Summary::joined(const std::vector<const Summary*>& ranks) {
  std::map<const Summary*, int> times;
  for (const Summary* rank : ranks) ++times[rank];
  Summary all;
  all.config_ = ranks.front()->config_;
  all.joined_ = 0;
  all.cores_.resize(1);
  all.cores_.front().span = all.cores_.front().exec_span = {};
  for (const auto& [rank, n] : times) {
    for (const CoreTotals& c : rank->cores_) all.join(*rank, c, n);
    all.input_bytes_ += n * rank->input_bytes_;
    all.output_bytes_ += n * rank->output_bytes_;
    all.weight_bytes_ += n * rank->weight_bytes_;
  }
  return all;
}

Totals::Totals(const std::vector<const Summary*>& ranks, const Json& first) {
  std::vector<Interval> spans;
  for (const Summary* rank : ranks) spans.push_back(rank->span());
  latency_ = nkisim::latency(spans);
  if (ranks.size() == 1 && ranks.front()->cores() == 1) {
    metrics_ = first.is_null() ? ranks.front()->metrics() : first.front();
  } else {
    metrics_ = Summary::joined(ranks).metrics();
  }
  const auto last = std::max_element(
      ranks.begin(), ranks.end(),
      [](const Summary* a, const Summary* b) { return a->span().end < b->span().end; });
  bound_ = (*last)->bound();
}

std::vector<std::string> Totals::brief() const {
  const auto number = [this](const std::string& key) { return metrics_.at(key).get<double>(); };
  std::ostringstream text;
  text << "latency      " << time_text(number("total_time") * 1e6) << " ("
       << metrics_.at("neuroncore_cycle_count") << " cycles)\n"
       << "bottleneck   " << bottleneck() << '\n'
       << std::fixed << std::setprecision(1) << "engines      ";
  for (const std::string engine : {"tensor", "vector", "scalar", "gpsimd", "sync"}) {
    text << engine << ' ' << number(engine + "_engine_active_time_percent") * 100 << " %  ";
  }
  text << "\nDMA          active " << number("dma_active_time_percent") * 100 << " %, "
       << metrics_.at("dma_transfer_count") << " transfers, HBM read "
       << number("hbm_read_bytes") / 1024 << " KiB, written " << number("hbm_write_bytes") / 1024
       << " KiB, " << number("mbu_estimated_percent") * 100 << " % of HBM bandwidth\nflops        "
       << number("hardware_flops") / 1e9 << " GFLOP, MFU " << number("mfu_estimated_percent") * 100
       << " %";
  std::vector<std::string> lines;
  std::istringstream said(text.str());
  for (std::string line; std::getline(said, line);) lines.push_back(line);
  return lines;
}

void Totals::put(Json& out) const {
  out["latency_us"] = latency_us();
  out["totals"] = metrics_;
  if (!bound_) return;
  out["bottleneck"] = bottleneck();
  out["bound"] = bound_->json();
  out["brief"] = brief();
}

}  // namespace nkisim
