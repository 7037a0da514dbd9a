// Implements bound.hpp: sums the critical path by what it was spent on and puts the largest in
// words.

#include "src/report/bound.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "isa/base/stable_order.hpp"
#include "src/report/decimals.hpp"

namespace nkisim {
namespace {
namespace of_bound {

using models::Fs;

constexpr double kMostly = 0.5;  // of an engine's or DMA engine's time

double ratio(Fs part, Fs all) {
  return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 0;
}

std::string counted(std::int64_t n, const std::string& what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

std::string bytes_text(double bytes) {
  constexpr double kKiB = 1024;
  if (bytes < kKiB) return fixed(bytes, 0) + " bytes";
  return bytes < kKiB * kKiB ? fixed(bytes / kKiB, 1) + " KiB"
                             : fixed(bytes / kKiB / kKiB, 1) + " MiB";
}

// "VectorEngine", as people call it.
std::string title(isa::Engine engine) {
  return std::string(isa::name(isa::unit_of(engine))) + "Engine";
}

bool meets(const PathItem& item) {
  return item.inst != nullptr && isa::spec(*item.inst).rendezvous;
}

bool starts_dma(const PathItem& item) { return item.inst != nullptr && isa::spec(*item.inst).dma; }

PathShare share_of(const PathItem& item) {
  const bool engine = item.where < isa::kEngineCount;
  const auto who = engine ? static_cast<isa::Engine>(item.where) : isa::Engine::kAny;
  if (engine && meets(item)) return {.on = Spent::kCores};
  switch (item.cause) {
    case Cause::kBusy:
      return {.on = starts_dma(item) ? Spent::kStarts : Spent::kEngine, .engine = who};
    case Cause::kIssue:  // a queue takes the next DMA some time after the one before
      if (engine && starts_dma(item)) return {.on = Spent::kStarts, .engine = who};
      return {.on = Spent::kIssue};
    case Cause::kDmaLatency:
      return {.on = Spent::kLatency};
    case Cause::kWaitDma:
    case Cause::kDmaEngines:
    case Cause::kHbm:
      return {.on = Spent::kMoving};
    case Cause::kSemaphore:  // of a queue: from the last packet until the end is visible
      if (!engine) return {.on = Spent::kLatency};
      // GpSimd's software writes a DMA's descriptors once what it waits for is there.
      if (who == isa::Engine::kGpSimd && starts_dma(item)) {
        return {.on = Spent::kStarts, .engine = who};
      }
      return {.on = Spent::kSemaphores};
    case Cause::kWaitRank:
      return {.on = Spent::kRanks};
    case Cause::kCollective:
      return {.on = Spent::kCollective};
    default:
      return {.on = Spent::kIssue};
  }
}

// The longest that something else is at work: with `share` gone, the run takes as long at least.
Fs other_work(const PathShare& share, const CoreWork& work) {
  Fs most = 0;
  for (std::size_t e = 0; e < work.active.size(); ++e) {
    const bool own = share.engine == static_cast<isa::Engine>(e);
    if (!own) most = std::max(most, work.active.at(e));
  }
  const bool dma =
      share.on == Spent::kStarts || share.on == Spent::kLatency || share.on == Spent::kMoving;
  return dma ? most : std::max(most, work.dma);
}

struct Cure {
  std::string text;
  bool many = false;  // "... save", not "... saves"
};

Cure cure_of(const PathShare& share, const CoreWork& work) {
  switch (share.on) {
    case Spent::kStarts:
      return share.count > 1 ? Cure{"fewer and larger DMAs", true} : Cure{"a start in advance"};
    case Spent::kLatency:
      return {
          share.count > 2 ? "loads that start earlier, into more buffers," : "pieces that overlap",
          true};
    case Spent::kMoving:
      return {ratio(work.dma_ideal, work.dma) < kMostly ? "longer rows" : "fewer bytes", true};
    case Spent::kEngine: {
      const auto e = static_cast<std::size_t>(share.engine);
      const bool fixed_cost = ratio(work.streaming.at(e), work.active.at(e)) < kMostly;
      if (fixed_cost && share.count > 1) return {"fewer and wider instructions", true};
      return {"less work there, or on another engine,"};
    }
    case Spent::kSemaphores:
      return {"fewer changes from engine to engine", true};
    case Spent::kCollective:
      return {"smaller operations, or work next to them,", true};
    case Spent::kRanks:
      return {"equal work on all ranks"};
    case Spent::kCores:
      return {"equal work on both cores"};
    case Spent::kIssue:
      return {"fewer instructions", true};
  }
  return {};
}

std::string cause_of(const PathShare& share, const CoreWork& work) {
  const double each = models::to_ns(share.time) / 1000 /
                      static_cast<double>(std::max<std::int64_t>(1, share.count));
  const std::string us = fixed(each, 3) + " us";
  switch (share.on) {
    case Spent::kStarts:
      return counted(share.count, "DMA start") + " of " + us + " on " + title(share.engine);
    case Spent::kLatency:
      return "latency of " + counted(share.count, "DMA") + ", " + us +
             (share.count > 1 ? " each, one after the other" : "");
    case Spent::kMoving:
      return "DMA engines moving " + bytes_text(static_cast<double>(work.bytes)) +
             " in packets of " +
             bytes_text(static_cast<double>(work.bytes) /
                        static_cast<double>(std::max<std::int64_t>(1, work.packets)));
    case Spent::kEngine:
      return counted(share.count, "instruction") + " of " + us + " on " + title(share.engine);
    case Spent::kSemaphores:
      return counted(share.count, "wait") + " of " + us + " for semaphores";
    case Spent::kCollective:
      return "operations between ranks";
    case Spent::kRanks:
      return "waiting for other ranks";
    case Spent::kCores:
      return counted(share.count, "wait") + " of " + us + " for the other core";
    case Spent::kIssue:
      return "issue and start-up";
  }
  return {};
}

constexpr std::array<const char*, 9> kNames = {"engine",     "dma_starts",  "dma_latency",
                                               "dma_moving", "semaphores",  "issue",
                                               "collective", "other_ranks", "other_core"};

}  // namespace of_bound
}  // namespace

std::string describe(const PathShare& share) {
  const std::string who = share.engine == isa::Engine::kAny
                              ? std::string()
                              : std::string(isa::name(isa::unit_of(share.engine)));
  constexpr std::array<const char*, 9> kTexts = {" at work",
                                                 " starting DMAs",
                                                 "DMA latency",
                                                 "DMA moving data",
                                                 "semaphores",
                                                 "issue and start-up",
                                                 "in collectives",
                                                 "waiting for other ranks",
                                                 "waiting for the other core"};
  return who + kTexts.at(static_cast<std::size_t>(share.on));
}

std::vector<PathShare> path_shares(const Accounting& accounting, int core, models::Fs from) {
  struct Sum {
    PathShare share;
    std::uint64_t last = 0;  // the instruction counted last
    models::QueueIndex where = models::kNoQueue;
  };
  std::array<std::array<Sum, isa::kEngineCount + 1>, of_bound::kNames.size()> sums;
  trace_back(accounting, core, [&](const PathItem& item) {
    if (item.from < from || item.inst == nullptr) return;  // before the first instruction
    const PathShare one = of_bound::share_of(item);
    Sum& sum = sums[static_cast<std::size_t>(one.on)][static_cast<std::size_t>(one.engine)];
    if (sum.share.count == 0) sum.share = one;
    sum.share.time += item.to - item.from;
    const bool same = sum.share.count > 0 && sum.last == item.sequence && sum.where == item.where;
    if (!same) ++sum.share.count;
    sum.last = item.sequence;
    sum.where = item.where;
  });
  std::vector<PathShare> list;
  for (const auto& engines : sums) {
    for (const Sum& sum : engines) {
      if (sum.share.count > 0) list.push_back(sum.share);
    }
  }
  isa::sort_stably(list, [](const PathShare& x, const PathShare& y) { return x.time > y.time; });
  return list;
}

Bound bound_of(const std::vector<PathShare>& shares, const CoreWork& work) {
  using namespace of_bound;
  Fs all = 0;
  for (const PathShare& s : shares) all += s.time;
  Bound best;
  for (const PathShare& s : shares) {
    const double path = ratio(s.time, all);
    const double others = ratio(other_work(s, work), work.latency);
    const double gain = std::max(0.0, std::min(path, 1 - others));
    if (best.path > 0 && gain <= best.gain) continue;
    best.share = s;
    best.path = path;
    best.gain = gain;
  }
  if (best.path > 0) {
    best.cause = cause_of(best.share, work);
    auto [cure, many] = cure_of(best.share, work);
    best.cure = std::move(cure);
    best.many = many;
  }
  return best;
}

std::string Bound::text() const {
  if (cause.empty()) return "nothing ran";
  std::string line = cause + ", " + fixed(100 * path, 0) + " % of the critical path";
  return line + ": " + cure + (many ? " save" : " saves") + " at most " + fixed(100 * gain, 0) +
         " %";
}

nlohmann::ordered_json Bound::json() const {
  if (cause.empty()) return nullptr;
  return {{"cause", of_bound::kNames.at(static_cast<std::size_t>(share.on))},
          {"engine", share.engine == isa::Engine::kAny
                         ? nlohmann::ordered_json(nullptr)
                         : nlohmann::ordered_json(isa::name(share.engine))},
          {"count", share.count},
          {"time_us", models::to_ns(share.time) / 1000},
          {"of_critical_path", path},
          {"gain_at_most", gain},
          {"what", cause},
          {"do", cure}};
}

}  // namespace nkisim
