// Tests that barriers and ends of collectives come after all other events of the same instant.
#include <catch2/catch.hpp>
#include <map>
#include <sstream>

#include "models/run.hpp"
#include "src/config/config_json.hpp"
#include "src/trace/trace_reader.hpp"

using namespace nkisim;
using namespace nkisim::models;

namespace {

// Instructions by core and name: start, time on the engine, end; and the end of the collective.
struct Begun : Observer {
  void on_event(const PartEvent& e) override {
    const std::string name(isa::spec(*e.inst).name);
    at[{e.core, name == "dma_copy" ? "dma of " + std::string(isa::name(e.inst->engine)) : name}] = {
        e.start, e.end - e.start, e.end};
  }
  void on_event(const CollectiveEvent& e) override { effect = e.part->timing.end; }
  struct Span {
    Fs start = 0, held = 0, end = 0;
  };
  std::map<std::pair<int, std::string>, Span> at;
  Fs effect = 0;
};

std::vector<Begun> run(const std::string& text, int ranks, const std::vector<std::string>& settings,
                       std::uint64_t shuffle = 0) {
  const TraceFile trace = read_trace_text(text, "instant.jsonl");
  const Config config = load_config("trn2", settings);
  std::vector<Begun> begun(static_cast<std::size_t>(ranks));
  std::vector<RankSetup> setups;
  for (int r = 0; r < ranks; ++r) {
    RankSetup setup{.program = trace.program.get(),
                    .observers = ObserverList({&begun[static_cast<std::size_t>(r)]})};
    setup.options.rank = r;
    setup.options.tie.shuffle_seed = shuffle;
    setups.push_back(std::move(setup));
  }
  isa::World world;
  world.ranks = ranks;
  (void)run_world(setups, config, world);
  return begun;
}

std::string tensor(const std::string& name, const std::string& rest) {
  return R"({"tensor": {"name": ")" + name + R"(", "shape": [128, 64], "dtype": "float32", )" +
         rest + "}}\n";
}

// The second of two DMAs that are triggered at one instant holds its engine for longer.
const std::vector<std::string> kCounted = {"dma.hardware.trigger.scalar=562",
                                           "dma.hardware.trigger.sync=562",
                                           "dma.hardware.trigger_per_outstanding=22"};

}  // namespace

// Both engines wait for the same memset, and wake at once: the store and the message are due at
// one instant on both cores. No core's message may come before its store.
TEST_CASE("cores that meet at an instant go on after what is due at it") {
  std::ostringstream text;
  text << R"({"nisa": 1, "target": "trn2", "name": "meeting", "cores": 2})" << '\n';
  text << tensor("y0", R"("space": "hbm")") << tensor("y1", R"("space": "hbm")");
  for (int core = 0; core < 2; ++core) {
    const std::string of = std::to_string(core), other = std::to_string(1 - core);
    const auto inst = [&](const std::string& rest) {
      text << R"({"core": )" << of << ", " << rest << "}\n";
    };
    text << tensor("a" + of, R"("space": "sbuf", "address": 0, "core": )" + of);
    text << tensor("b" + of, R"("space": "sbuf", "address": 256, "core": )" + of);
    inst(R"("i": "memset", "engine": "vector", "value": 1, "dst": "a)" + of + '"');
    inst(R"("i": "dma_copy", "engine": "sync", "dge_mode": "hwdge", "src": "a)" + of +
         R"(", "dst": "y)" + of + '"');
    inst(R"("i": "sendrecv", "engine": "scalar", "src": "a)" + of + R"(", "dst": "b)" + of +
         R"(", "send_to_rank": )" + other + R"(, "recv_from_rank": )" + other +
         R"(, "pipe_id": 0)");
  }
  std::vector<std::string> settings = kCounted;
  settings.insert(settings.end(), {"engines.scalar.wake_sequencer=0", "engines.sync.wake=0"});
  for (const std::uint64_t shuffle : {0, 1, 2, 3, 4, 5, 6, 7}) {
    std::vector<Begun> ranks = run(text.str(), 1, settings, shuffle);
    auto& at = ranks.front().at;
    for (int core = 0; core < 2; ++core) {
      INFO("core " << core << ", shuffle " << shuffle);
      CHECK(at[{core, "dma of sync"}].start == at[{core, "sendrecv"}].start);
      CHECK(at[{core, "dma of sync"}].held == from_ns(562));
    }
    CHECK(at[{0, "sendrecv"}].held == at[{1, "sendrecv"}].held);
  }
}

// A store is due at the very femtosecond at which an operation of the ranks ends, for which a load
// waits: the store comes first on every rank.
TEST_CASE("what a collective ends at an instant goes on after what is due at it") {
  const auto program = [](int more) {
    std::ostringstream text;
    text << R"({"nisa": 1, "target": "trn2", "name": "effect"})" << '\n';
    for (const char* name : {"in", "out", "y"}) text << tensor(name, R"("space": "hbm")");
    for (const char* name : {"a", "b", "c"}) {
      text << tensor(name, R"("space": "sbuf", "address": )" + std::to_string((*name - 'a') * 256));
    }
    text
        << R"({"i": "all_reduce", "srcs": ["in"], "dsts": ["out"], "op": "add", "replica_group": [[0, 1]]})"
        << '\n';
    text << R"({"i": "memset", "engine": "vector", "value": 1, "dst": "a"})" << '\n';
    text << R"({"i": "dma_copy", "engine": "sync", "dge_mode": "hwdge", "src": "a", "dst": "y"})"
         << '\n';
    text
        << R"({"i": "dma_copy", "engine": "scalar", "dge_mode": "hwdge", "src": "out", "dst": "b"})"
        << '\n';
    for (int i = 0; i < more; ++i) {
      text
          << R"({"i": "iota", "dst": "c", "pattern": [0, 64], "offset": 0, "channel_multiplier": 0})"
          << '\n';
    }
    return text.str();
  };
  for (const int more : {0, 10, 100, 200, 300}) {
    std::vector<std::string> settings = kCounted;
    settings.push_back("engines.scalar.wake=0");
    std::vector<Begun> first = run(program(more), 2, settings);
    const Fs written = first[0].at[{0, "memset"}].end + from_ns(12);
    std::ostringstream wake;
    wake.precision(18);
    wake << "engines.sync.wake=" << to_ns(first[0].effect - written);
    settings.push_back(wake.str());
    for (const std::uint64_t shuffle : {0, 1, 2, 3}) {
      std::vector<Begun> ranks = run(program(more), 2, settings, shuffle);
      for (Begun& rank : ranks) {
        INFO(more << " more, shuffle " << shuffle);
        CHECK(rank.at[{0, "dma of sync"}].start == rank.effect);
        CHECK(rank.at[{0, "dma of scalar"}].start == rank.effect);
        CHECK(rank.at[{0, "dma of sync"}].held == from_ns(562));
        CHECK(rank.at[{0, "dma of scalar"}].held == from_ns(562 + 22));
      }
    }
  }
}
