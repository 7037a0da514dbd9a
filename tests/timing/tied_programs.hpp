// Builds programs with many events at one instant, on cores and ranks, and records their times.
#pragma once

#include <algorithm>
#include <random>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "models/run.hpp"
#include "src/trace/trace_reader.hpp"

namespace nkisim::test {

using models::CollectiveEvent;
using models::DmaEvent;
using models::DmaLaneEvent;
using models::DmaPacketEvent;
using models::Fs;
using models::Observer;
using models::ObserverList;
using models::PartEvent;
using models::RankSetup;

inline constexpr int kTiles = 6, kWidth = 512, kBanks = 2;

// A rank's program: loads and stores of its cores, which meet now and then, and the collectives
// that all ranks have. Much is due at the same instants, since ranks draw from few different
// things.
class Writer {
 public:
  Writer(unsigned seed, const std::string& target, int rank, int ranks, int cores)
      : shared_(seed),
        own_(seed * 16 + static_cast<unsigned>(rank) / 2),
        target_(target),
        ranks_(ranks),
        cores_(cores) {}
  std::string program() {
    text_ << R"({"nisa": 1, "target": ")" << target_ << R"(", "name": "ties", "cores": )" << cores_
          << "}\n";
    hbm("x", "[128, 4096]");
    hbm("z", "[128, 4096]");
    hbm("a", "[128, 256]");
    hbm("b", "[128, 256]");
    for (int core = 0; core < cores_; ++core) {
      for (int t = 0; t < kTiles; ++t) {
        text_ << R"({"tensor": {"name": ")" << tile(core, t)
              << R"(", "space": "sbuf", "shape": [128, 512], "dtype": "float32", "address": )"
              << t * kWidth * 4 << R"(, "core": )" << core << "}}\n";
      }
      for (int bank = 0; bank < kBanks; ++bank) {
        text_ << R"({"tensor": {"name": "p)" << core << bank
              << R"(", "space": "psum", "shape": [128, 512], "dtype": "float32", "address": )"
              << bank * 2048 << R"(, "core": )" << core << "}}\n";
      }
    }
    const int parts = 2 + draw(shared_, 3);
    for (int part = 0; part < parts; ++part) {
      for (int core = 0; core < cores_; ++core) {
        for (int i = draw(own_, 6); i >= 0; --i) step(core);
      }
      meet(draw(shared_, 3));
    }
    return text_.str();
  }

 private:
  using Random = std::mt19937;
  static int draw(Random& random, int n) {
    return static_cast<int>(random() % static_cast<unsigned>(n));
  }
  static std::string tile(int core, int t) {
    return "t" + std::to_string(core) + std::to_string(t);
  }
  void hbm(const std::string& name, const std::string& shape) {
    text_ << R"({"tensor": {"name": ")" << name << R"(", "space": "hbm", "shape": )" << shape
          << R"(, "dtype": "float32"}})" << '\n';
  }
  void inst(int core, const std::string& rest) {
    text_ << R"({"core": )" << core << ", " << rest << "}\n";
  }
  void step(int core) {
    const int t = draw(own_, kTiles), kind = draw(own_, 7);
    const int width = 64 << draw(own_, 4);
    const std::string part = tile(core, t) + "[:, 0:" + std::to_string(width) + "]";
    const std::string at =
        "[:, " + std::to_string(t * kWidth) + ":" + std::to_string(t * kWidth + width) + "]";
    const std::string engine = draw(own_, 2) == 0 ? "sync" : "scalar";
    if (kind < 2) {
      inst(core, R"("i": "dma_copy", "engine": ")" + engine + R"(", "dst": ")" + part +
                     R"(", "src": "x)" + at + '"');
    } else if (kind == 2) {
      inst(core, R"("i": "memset", "engine": "vector", "value": 1, "dst": ")" + part + '"');
    } else if (kind == 3) {
      inst(core,
           R"("i": "activation", "op": "exp", "dst": ")" + part + R"(", "data": ")" + part + '"');
    } else {
      const std::string bank = "p" + std::to_string(core) + std::to_string(draw(own_, kBanks));
      const std::string of = bank + "[:, 0:" + std::to_string(width) + "]";
      const std::string what = kind == 4 ? R"("i": "tensor_copy", "engine": "vector")"
                                         : R"("i": "activation", "op": "copy")";
      inst(core, what + R"(, "dst": ")" + (kind == 6 ? of : part) + R"(", ")" +
                     (kind == 4 ? "src" : "data") + R"(": ")" + (kind == 6 ? part : of) + '"');
    }
  }
  void meet(int kind) {
    for (int core = 0; core < cores_ && cores_ > 1; ++core) {
      const std::string pair = tile(core, 0) + "[:, 0:64]";
      inst(core, R"("i": "sendrecv", "engine": "sync", "src": ")" + pair + R"(", "dst": ")" + pair +
                     R"(", "send_to_rank": )" + std::to_string(1 - core) +
                     R"(, "recv_from_rank": )" + std::to_string(1 - core) + R"(, "pipe_id": 0)");
    }
    if (ranks_ == 1 || kind == 0) return;
    for (int core = 0; core < cores_; ++core) {
      inst(core, R"("i": "all_reduce", "srcs": ["a"], "dsts": ["b"], "op": "add", )"
                 R"("replica_group": )" +
                     std::string(ranks_ == 2 ? "[[0, 1]]"
                                 : kind == 1 ? "[[0, 1, 2, 3]]"
                                             : "[[0, 2], [1, 3]]"));
    }
  }
  Random shared_, own_;
  std::string target_;
  int ranks_, cores_;
  std::ostringstream text_;
};

// Moments of everything that took place on one rank, whoever announced it first.
struct Times : Observer {
  void on_event(const PartEvent& e) override {
    all.emplace_back(e.core, e.sequence, e.part_index, e.start, e.end);
  }
  void on_event(const DmaEvent& e) override {
    all.emplace_back(e.core, e.sequence, 1000, e.first_packet, e.visible);
  }
  void on_event(const DmaLaneEvent& e) override {
    all.emplace_back(e.core, e.sequence, 2000 + e.engine, e.start, e.end);
  }
  void on_event(const CollectiveEvent& e) override {
    all.emplace_back(e.core, e.sequence, 3000, e.part == nullptr ? 0 : e.part->timing.start,
                     e.part == nullptr ? 0 : e.part->timing.end);
  }
  std::vector<std::tuple<int, std::uint64_t, int, Fs, Fs>> all;
};
using AllTimes = std::vector<decltype(Times::all)>;

/// Ranks that `times` watches.
inline std::vector<RankSetup> setups_of(const std::vector<TraceFile>& traces,
                                        std::vector<Times>& times) {
  times = std::vector<Times>(traces.size());
  std::vector<RankSetup> setups;
  for (std::size_t r = 0; r < traces.size(); ++r) {
    RankSetup setup{.program = traces[r].program.get(), .observers = ObserverList({&times[r]})};
    setup.options.rank = static_cast<int>(r);
    setups.push_back(std::move(setup));
  }
  return setups;
}

inline AllTimes sorted(std::vector<Times>& times) {
  AllTimes all;
  for (Times& t : times) {
    std::sort(t.all.begin(), t.all.end());
    all.push_back(std::move(t.all));
  }
  return all;
}

/// One core of `one_core` (on trn1 engines share ports); or, with `several`, two or four ranks of
// trn2, or ranks of two cores, of which two share a stack that can serve one and a half of them.
inline std::vector<TraceFile> programs_of(unsigned seed, bool several,
                                          const std::string& one_core = "trn1") {
  std::vector<TraceFile> traces;
  const int cores = several && seed % 3 == 0 ? 2 : 1;
  const int ranks = !several ? 1 : seed % 2 == 0 ? 4 : 2;
  for (int r = 0; r < ranks; ++r) {
    Writer writer(seed, several ? "trn2" : one_core, r, ranks, cores);
    traces.push_back(read_trace_text(writer.program(), "ties.jsonl"));
  }
  return traces;
}

}  // namespace nkisim::test
