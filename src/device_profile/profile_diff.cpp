// Pairs the instructions of a simulated run and a device profile, and sums up their differences.

#include "src/device_profile/profile_diff.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>

#include "isa/base/stable_order.hpp"
#include "src/device_profile/align.hpp"

namespace nkisim {
namespace {

class Errors {
 public:
  void add(double error) { values_.push_back(std::abs(error)); }
  [[nodiscard]] ErrorSpread spread() {
    if (values_.empty()) return {};
    std::sort(values_.begin(), values_.end());
    const auto at = [this](double q) {
      return values_[static_cast<std::size_t>(q * static_cast<double>(values_.size() - 1))];
    };
    return {values_.size(), at(0.5), at(0.9), values_.back()};
  }

 private:
  std::vector<double> values_;
};

using Span = std::pair<double, double>;

double covered(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end());
  double total = 0, end = -HUGE_VAL;
  for (const auto& [a, b] : spans) {
    total += std::max(0.0, b - std::max(a, end));
    end = std::max(end, b);
  }
  return total;
}

using TimedPairs =
    std::vector<std::pair<const TimedInst*, const TimedInst*>>;  // simulated, measured

TimedPairs match_by_key(const TimedRun& simulated, const TimedRun& measured) {
  std::unordered_map<std::string_view, const TimedInst*> known;
  for (const TimedInst& i : measured.instructions) {
    if (!i.key.empty()) known.emplace(i.key, &i);
  }
  TimedPairs pairs;
  for (const TimedInst& i : simulated.instructions) {
    const auto it = i.key.empty() ? known.end() : known.find(i.key);
    if (it == known.end()) continue;
    pairs.emplace_back(&i, it->second);
    known.erase(it);
  }
  return pairs;
}

using Streams = std::map<std::pair<int, isa::Unit>, std::vector<const TimedInst*>>;

Streams streams(const TimedRun& run) {
  Streams out;
  for (const TimedInst& i : run.instructions) out[{i.core, i.unit}].push_back(&i);
  return out;
}

std::vector<std::string_view> opcodes(const std::vector<const TimedInst*>& stream) {
  std::vector<std::string_view> names;
  for (const TimedInst* i : stream) names.push_back(i->opcode);
  return names;
}

TimedPairs match_by_order(const TimedRun& simulated, const TimedRun& measured) {
  TimedPairs pairs;
  Streams theirs = streams(measured);
  for (const auto& [key, stream] : streams(simulated)) {
    const auto& other = theirs[key];
    for (const auto& [a, b] : align(opcodes(stream), opcodes(other))) {
      pairs.emplace_back(stream[a], other[b]);
    }
  }
  return pairs;
}

void diff_instructions(const TimedPairs& pairs, ProfileDiff& out) {
  struct Group {
    OpcodeDiff row;
    Errors duration, start, wait;
  };
  std::map<std::pair<isa::Unit, std::string>, Group> groups;
  Errors duration, start, wait;
  for (const auto& [s, m] : pairs) {
    Group& g = groups[{m->unit, m->opcode}];
    ++g.row.count;
    g.row.measured_mean += m->duration;
    g.row.simulated_mean += s->duration;
    g.row.excess += std::abs(s->duration - m->duration);
    const double error = relative(s->duration, m->duration);
    for (Errors* e : {&duration, &g.duration}) e->add(error);
    for (Errors* e : {&start, &g.start}) e->add(s->start - m->start);
    if (s->wait >= 0 && m->wait >= 0) {
      for (Errors* e : {&wait, &g.wait}) e->add(s->wait - m->wait);
    }
    out.pairs.push_back({*m, *s});
  }
  for (auto& [key, g] : groups) {
    g.row.unit = isa::name(key.first);
    g.row.opcode = key.second;
    g.row.measured_mean /= static_cast<double>(g.row.count);
    g.row.simulated_mean /= static_cast<double>(g.row.count);
    g.row.duration = g.duration.spread();
    g.row.start = g.start.spread();
    g.row.wait = g.wait.spread();
    out.opcodes.push_back(g.row);
  }
  isa::sort_stably(out.opcodes,
                   [](const OpcodeDiff& a, const OpcodeDiff& b) { return a.excess > b.excess; });
  out.duration = duration.spread();
  out.start = start.spread();
  out.wait = wait.spread();
}

void diff_engines(const TimedRun& simulated, const TimedRun& measured, ProfileDiff& out) {
  using Spans = std::map<std::pair<int, isa::Engine>, std::vector<Span>>;
  const auto spans = [](const TimedRun& run) {
    Spans all;
    for (const TimedInst& i : run.instructions) {
      all[{i.core, isa::engine_of(i.unit)}].emplace_back(i.start, i.start + i.duration);
    }
    return all;
  };
  Spans s = spans(simulated), m = spans(measured);
  for (const auto& [key, unused] : s) m.try_emplace(key);
  for (auto& [key, list] : m) {
    out.engines.push_back({key.first, std::string(isa::name(isa::unit_of(key.second))),
                           covered(list), covered(s[key])});
  }
}

// Packets have no identity: on each queue and engine the k-th is compared with the k-th.
void diff_packets(const TimedRun& simulated, const TimedRun& measured, ProfileDiff& out) {
  using Key = std::tuple<int, std::string, int>;
  std::map<Key, std::pair<std::vector<const TimedPacket*>, std::vector<const TimedPacket*>>> lanes;
  std::vector<Span> s_spans, m_spans;
  for (const TimedPacket& p : simulated.packets) {
    lanes[{p.core, p.queue, p.engine}].first.push_back(&p);
    s_spans.emplace_back(p.start, p.start + p.duration);
    out.simulated_packet_time += p.duration;
  }
  for (const TimedPacket& p : measured.packets) {
    lanes[{p.core, p.queue, p.engine}].second.push_back(&p);
    m_spans.emplace_back(p.start, p.start + p.duration);
    out.measured_packet_time += p.duration;
  }
  Errors duration, start;
  for (const auto& [key, lane] : lanes) {
    const std::size_t n = std::min(lane.first.size(), lane.second.size());
    for (std::size_t i = 0; i < n; ++i) {
      duration.add(relative(lane.first[i]->duration, lane.second[i]->duration));
      start.add(lane.first[i]->start - lane.second[i]->start);
    }
  }
  out.simulated_packets = simulated.packets.size();
  out.measured_packets = measured.packets.size();
  out.packet_duration = duration.spread();
  out.packet_start = start.spread();
  out.simulated_dma_active = covered(std::move(s_spans));
  out.measured_dma_active = covered(std::move(m_spans));
}

}  // namespace

double relative(double simulated, double measured) {
  if (measured == 0) return simulated == 0 ? 0 : 1;
  return simulated / measured - 1;
}

ProfileDiff diff_runs(const TimedRun& simulated, const TimedRun& measured) {
  ProfileDiff out;
  out.measured_total = measured.total();
  out.simulated_total = simulated.total();
  TimedPairs pairs = match_by_key(simulated, measured);
  out.by_key = !pairs.empty();
  if (!out.by_key) pairs = match_by_order(simulated, measured);
  out.only_simulated = simulated.instructions.size() - pairs.size();
  out.only_measured = measured.instructions.size() - pairs.size();
  diff_instructions(pairs, out);
  diff_engines(simulated, measured, out);
  diff_packets(simulated, measured, out);
  return out;
}

}  // namespace nkisim
