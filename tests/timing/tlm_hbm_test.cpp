// Tests an HBM model of another SystemC design behind our TLM-2.0 adaptor: one that answers as ours
// gives its times, and one that does not delays the right accesses.
#include "models/memory/tlm_hbm.hpp"

#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/hosted_chip.hpp"
#include "models/memory/hbm.hpp"
#include "src/config/config_json.hpp"
#include "tests/support/program_builder.hpp"
#include "tests/timing/host.hpp"
#include "tests/timing/tied_programs.hpp"

using namespace nkisim;
using namespace nkisim::models;
using namespace nkisim::test;
using PB = test::ProgramBuilder;

namespace {

using Payload = tlm::tlm_generic_payload;

// Accepts one request in `accept`, and answers each at a time of its own.
struct Memory : sc_core::sc_module, tlm::tlm_fw_transport_if<> {
  enum class Way : std::uint8_t { kBackward, kCompleted, kUpdated };
  Memory(const sc_core::sc_module_name& name, std::function<Fs(const HbmRequest&)> latency_fs)
      : sc_module(name), latency(std::move(latency_fs)) {
    socket.bind(*this);
    SC_HAS_PROCESS(Memory);
    SC_METHOD(act);
    sensitive << wake;
    dont_initialize();
  }
  static Fs tick() { return std::llround(sc_core::sc_get_time_resolution().to_seconds() * 1e15); }
  static Fs now() { return static_cast<Fs>(sc_core::sc_time_stamp().value()) * tick(); }
  static sc_core::sc_time time(Fs fs) {
    return sc_core::sc_time::from_value(static_cast<std::uint64_t>((fs + tick() - 1) / tick()));
  }
  tlm::tlm_sync_enum nb_transport_fw(Payload& p, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override {
    if (phase == tlm::END_RESP) {
      ++ended;
      return tlm::TLM_COMPLETED;
    }
    CHECK_FALSE(busy);
    const HbmRequest& request = p.get_extension<HbmAccess>()->request;
    ++transactions;
    bytes += p.get_data_length();
    longest = std::max<std::int64_t>(longest, p.get_data_length());
    (p.is_write() ? written : read).emplace_back(p.get_address(), p.get_data_length());
    p.set_response_status(status);
    const Fs takes = latency(request);
    if (way == Way::kCompleted || way == Way::kUpdated) {
      delay += time(takes);
      phase = tlm::BEGIN_RESP;
      return way == Way::kCompleted ? tlm::TLM_COMPLETED : tlm::TLM_UPDATED;
    }
    p.acquire();
    answers.emplace(now() + accept + takes, &p);
    wake.notify(time(std::min(answers.begin()->first - now(), accept)));
    if (accept == 0) {
      phase = tlm::END_REQ;
      return tlm::TLM_UPDATED;
    }
    busy = &p;
    accepted = now() + accept;
    return tlm::TLM_ACCEPTED;
  }
  void act() {
    sc_core::sc_time none;
    if (busy != nullptr && accepted <= now()) {
      tlm::tlm_phase phase = tlm::END_REQ;
      Payload& p = *busy;
      busy = nullptr;
      CHECK(socket->nb_transport_bw(p, phase, none) == tlm::TLM_ACCEPTED);
    }
    while (!answers.empty() && answers.begin()->first <= now()) {
      Payload& p = *answers.begin()->second;
      answers.erase(answers.begin());
      tlm::tlm_phase phase = tlm::BEGIN_RESP;
      CHECK(socket->nb_transport_bw(p, phase, none) == tlm::TLM_COMPLETED);
      p.release();
    }
    Fs next = answers.empty() ? kNever : answers.begin()->first;
    if (busy != nullptr) next = std::min(next, accepted);
    if (next != kNever) wake.notify(time(next - now()));
  }
  void b_transport(Payload& /*p*/, sc_core::sc_time& /*delay*/) override { FAIL("blocking"); }
  bool get_direct_mem_ptr(Payload& /*p*/, tlm::tlm_dmi& /*dmi*/) override { return false; }
  unsigned transport_dbg(Payload& /*p*/) override { return 0; }

  tlm::tlm_target_socket<> socket{"socket"};
  std::function<Fs(const HbmRequest&)> latency;
  Way way = Way::kBackward;
  Fs accept = 0;
  tlm::tlm_response_status status = tlm::TLM_OK_RESPONSE;
  int transactions = 0, ended = 0;
  std::int64_t bytes = 0, longest = 0;
  std::vector<std::pair<std::uint64_t, std::int64_t>> read, written;
  Payload* busy = nullptr;
  Fs accepted = 0;
  std::multimap<Fs, Payload*> answers;
  sc_core::sc_event wake;
};

Fs at_once(const HbmRequest& /*request*/) { return 0; }

// The ranks' outcome with an adaptor on each core, all of them at one memory of that latency.
std::vector<RunResult> with_memory(const std::vector<TraceFile>& traces, const Config& config,
                                   double resolution_fs,
                                   const std::function<Fs(const HbmRequest&)>& latency,
                                   std::int64_t* bytes = nullptr) {
  isa::World world;
  world.ranks = static_cast<int>(traces.size());
  std::vector<Times> times;
  Host host(resolution_fs);
  HostedChip chip("chip", setups_of(traces, times), config, world);
  std::vector<std::unique_ptr<TlmHbm>> adaptors;
  std::vector<std::unique_ptr<Memory>> memories;
  for (std::size_t r = 0; r < traces.size(); ++r) {
    for (int c = 0; c < traces[r].program->cores(); ++c) {
      const std::string number = std::to_string(adaptors.size());
      adaptors.push_back(
          std::make_unique<TlmHbm>(("hbm" + number).c_str(), chip.clock(), TlmHbm::Options{}));
      memories.push_back(std::make_unique<Memory>(("memory" + number).c_str(), latency));
      adaptors.back()->socket.bind(memories.back()->socket);
      chip.core(static_cast<std::size_t>(c), r).hbm.bind(*adaptors.back());
    }
  }
  host.run();
  CHECK(chip.finished());
  for (const auto& memory : memories) {
    if (bytes != nullptr) *bytes += memory->bytes;
  }
  return chip.outcome();
}

// `rows` rows of `bytes` bytes from HBM and back.
PB there_and_back(std::int64_t rows, std::int64_t columns) {
  PB b;
  const auto x = b.hbm("x", isa::Dtype::kFloat32, {rows, columns}),
             y = b.hbm("y", isa::Dtype::kFloat32, {rows, columns});
  const auto t = b.sbuf("t", isa::Dtype::kFloat32, {rows, columns});
  b.op("dma_copy", {{"dst", PB::arg(b.all(t))}, {"src", PB::arg(b.all(x))}});
  b.op("dma_copy", {{"dst", PB::arg(b.all(y))}, {"src", PB::arg(b.all(t))}});
  return b;
}

// Starts of packets.
struct Packets : Observer {
  [[nodiscard]] bool wants_packets() const override { return true; }
  void on_event(const DmaPacketEvent& e) override { starts.push_back(e.start); }
  std::vector<Fs> starts;
};

struct One {
  Fs end = 0;
  int transactions = 0, ended = 0;
  std::int64_t longest = 0;
  std::vector<std::pair<std::uint64_t, std::int64_t>> read, written;
  std::string error;
  std::vector<Fs> starts;
};
One one(PB& b, const Config& config, TlmHbm::Options options,
        const std::function<Fs(const HbmRequest&)>& latency,
        const std::function<void(Memory&)>& set = {}, double resolution_fs = 1) {
  Packets packets;
  Host host(resolution_fs);
  HostedChip chip("chip", b.program(), config, nullptr, ObserverList({&packets}));
  TlmHbm adaptor("hbm", chip.clock(), options);
  Memory memory("memory", latency);
  if (set) set(memory);
  adaptor.socket.bind(memory.socket);
  chip.core().hbm.bind(adaptor);
  host.run();
  CHECK(chip.finished());
  One found;
  found.transactions = memory.transactions;
  found.ended = memory.ended;
  found.longest = memory.longest;
  found.read = memory.read;
  found.written = memory.written;
  found.error = PB::error_of([&] { (void)chip.outcome(); });
  found.starts = packets.starts;
  if (found.error.empty()) found.end = chip.outcome().front().end;
  return found;
}

// As the model's stacks do.
std::function<Fs(const HbmRequest&)> as_the_model(const Config& config,
                                                  const std::vector<TraceFile>& traces) {
  const int cores = traces.front().program->cores();
  const int ranks = ranks_per_stack(config, cores);
  const int engines = std::min(ranks, static_cast<int>(traces.size())) * cores * config.dma.engines;
  const auto stacks = std::make_shared<std::map<int, Hbm>>();
  return [=, &config](const HbmRequest& request) {
    const auto [stack, fresh] = stacks->try_emplace(request.core.rank / ranks, config.hbm,
                                                    engines * config.dma.bytes_per_ns, engines);
    return request.span + stack->second.delay(Memory::now(), request.span,
                                              static_cast<double>(request.stack_bytes));
  };
}

// Alone, and next to a memory that answers as the model's stacks do.
std::pair<std::vector<RunResult>, std::vector<RunResult>> compare(
    const std::vector<TraceFile>& traces, const Config& config) {
  std::vector<Times> times;
  isa::World world;
  world.ranks = static_cast<int>(traces.size());
  std::vector<RunResult> alone = run_world(setups_of(traces, times), config, world);
  return {std::move(alone), with_memory(traces, config, 1, as_the_model(config, traces))};
}

// Loads and stores of so many tiles of 1 MiB, twelve of which are in SBUF at a time.
std::string stream(const std::string& target, int tiles) {
  std::ostringstream text;
  text << R"({"nisa": 1, "target": ")" << target << R"(", "name": "stream"})"
       << "\n"
       << R"({"tensor": {"name": "x", "space": "hbm", "shape": [128, 98304], "dtype": "float32"}})"
       << "\n"
       << R"({"tensor": {"name": "y", "space": "hbm", "shape": [128, 98304], "dtype": "float32"}})"
       << "\n";
  for (int t = 0; t < tiles; ++t) {
    const std::string at =
        "[:, " + std::to_string(t * 2048) + ":" + std::to_string(t * 2048 + 2048) + "]";
    const int slot = t % 12;
    if (t == slot) {
      text << R"({"tensor": {"name": "t)" << t
           << R"(", "space": "sbuf", "shape": [128, 2048], "dtype": "float32", "address": )"
           << t * 8192 << "}}\n";
    }
    text << R"({"i": "dma_copy", "engine": "sync", "dst": "t)" << slot << R"(", "src": "x)" << at
         << "\"}\n"
         << R"({"i": "dma_copy", "engine": "scalar", "dst": "y)" << at << R"(", "src": "t)" << slot
         << "\"}\n";
  }
  return text.str();
}

std::int64_t total(const std::vector<std::pair<std::uint64_t, std::int64_t>>& list) {
  std::int64_t bytes = 0;
  for (const auto& [address, length] : list) bytes += length;
  return bytes;
}

}  // namespace

TEST_CASE("a memory that answers at once leaves all times as they are") {
  const bool several = GENERATE(false, true);
  // A stack that can serve everybody, as this memory.
  const Config config =
      several ? load_config("trn2", {"hbm.bytes_per_ns=10000"}) : load_config("trn1");
  for (unsigned seed = 1; seed <= 8; ++seed) {
    const std::vector<TraceFile> traces = programs_of(seed, several);
    std::vector<Times> times;
    isa::World world;
    world.ranks = static_cast<int>(traces.size());
    const std::vector<RunResult> alone = run_world(setups_of(traces, times), config, world);
    const std::vector<RunResult> hosted = with_memory(traces, config, 1, at_once);
    const std::vector<RunResult> at_ps = with_memory(traces, config, 1000, at_once);
    INFO("seed " << seed);
    for (std::size_t r = 0; r < alone.size(); ++r) {
      CHECK(hosted[r].end == alone[r].end);
      CHECK(static_cast<double>(at_ps[r].end) ==
            Approx(static_cast<double>(alone[r].end)).epsilon(1e-3));
    }
  }
}

// A stack of each target can serve the engines of one core.
TEST_CASE("a memory that answers as the model's stack does gives its times within 0.1 %") {
  const std::string target = GENERATE("trn1", "trn2", "trn3");
  const Config config = load_config(target);
  std::vector<TraceFile> traces;
  traces.push_back(read_trace_text(stream(target, 12), "stream.jsonl"));
  const auto [alone, hosted] = compare(traces, config);
  INFO(target);
  CHECK(alone.front().end > from_ns(40000));
  CHECK(hosted.front().end == Approx(alone.front().end).epsilon(1e-3));
}

// The engines of two cores ask for more than that. Both serve them in the order of time: were the
// model to serve core by core within its windows, 48 tiles would differ by 1 %.
TEST_CASE("a memory that answers as a stack of two cores does gives its times within 0.1 %") {
  const std::string target = GENERATE("trn2", "trn3");
  const int tiles = GENERATE(6, 12, 48);
  const Config config = load_config(target);
  std::vector<TraceFile> traces;
  for (int r = 0; r < 2; ++r) {
    traces.push_back(read_trace_text(stream(target, tiles), "stream.jsonl"));
  }
  const auto [alone, hosted] = compare(traces, config);
  INFO(target << ", " << tiles << " tiles");
  for (std::size_t r = 0; r < 2; ++r) {
    CHECK(hosted[r].end == Approx(alone[r].end).epsilon(1e-3));
  }
}

// At one instant the model serves engine by engine, the memory as requests come. So short programs
// may end a part of a window of 256 ns earlier or later.
TEST_CASE("a memory that answers as the model's stack does is off by less than half a window") {
  const bool several = GENERATE(false, true);
  const double rate = GENERATE(250., 300., 600.);
  const Config config = load_config("trn2", {"hbm.bytes_per_ns=" + std::to_string(rate)});
  for (unsigned seed = 1; seed <= 12; ++seed) {
    const auto [alone, hosted] = compare(programs_of(seed, several, "trn2"), config);
    INFO("seed " << seed << " at " << rate << (several ? ", several" : ""));
    for (std::size_t r = 0; r < alone.size(); ++r) {
      CHECK(std::abs(hosted[r].end - alone[r].end) < from_ns(128));
    }
  }
}

// Eight rows are one engine's. A packet takes the engine's own time, or the memory's if that is
// longer, and the next starts then.
TEST_CASE("a slow memory adds to each packet what it takes longer") {
  PB b = there_and_back(8, 512);
  const Config config = load_config("trn2");
  const Fs alone = run(b.program(), config, nullptr, {}).end;
  const Fs latency = from_ns(1000);
  Fs longer = 0;
  const auto slow = [&](const HbmRequest& request) {
    CHECK(request.engine == 0);
    CHECK(request.span < latency);
    longer += latency - request.span;
    return latency;
  };
  const One found = one(b, config, {}, slow);
  CHECK(found.error.empty());
  CHECK(found.transactions > 2);
  CHECK(found.end == alone + longer);
  REQUIRE(static_cast<int>(found.starts.size()) == found.transactions);
  const std::size_t loads = found.starts.size() / 2;  // then come the stores
  for (std::size_t i = 1; i < found.starts.size(); ++i) {
    if (i != loads) CHECK(found.starts[i] == found.starts[i - 1] + latency);
  }
}

// A transfer waits for its last packet alone.
TEST_CASE("packets that are on their way together hide a memory's latency") {
  PB b = there_and_back(8, 512);
  const Config config = load_config("trn2");
  const Fs alone = run(b.program(), config, nullptr, {}).end;
  const Fs latency = from_ns(1000);
  std::map<bool, Fs> last;  // by whether it is written
  const auto slow = [&](const HbmRequest& request) {
    last[request.write] = request.span;
    return latency;
  };
  const One found = one(b, config, {.outstanding = 64}, slow);
  CHECK(found.end == alone + 2 * latency - last[false] - last[true]);
}

TEST_CASE("a memory that accepts slowly holds all engines back") {
  PB b = there_and_back(128, 512);
  const Config config = load_config("trn2");
  const Fs alone = run(b.program(), config, nullptr, {}).end;
  const Fs accept = from_ns(60);
  for (const int outstanding : {1, 16}) {
    const One found = one(b, config, {.outstanding = outstanding}, at_once,
                          [&](Memory& memory) { memory.accept = accept; });
    CHECK(found.end > found.transactions * accept);
    CHECK(found.end < found.transactions * accept + alone);
  }
}

// One engine's packets: 20 ns longer, each.
TEST_CASE("a memory may answer in each way of the base protocol") {
  PB b = there_and_back(8, 512);
  const Config config = load_config("trn2");
  const Fs alone = run(b.program(), config, nullptr, {}).end;
  const auto latency = [](const HbmRequest& request) { return request.span + from_ns(20); };
  for (const auto way : {Memory::Way::kBackward, Memory::Way::kCompleted, Memory::Way::kUpdated}) {
    const One found = one(b, config, {}, latency, [&](Memory& memory) { memory.way = way; });
    CHECK(found.end == alone + found.transactions * from_ns(20));
    CHECK(found.ended == (way == Memory::Way::kUpdated ? found.transactions : 0));
  }
}

TEST_CASE("transactions cover the bytes of the operands, each once, in bursts as asked for") {
  PB b = there_and_back(128, 512);
  const Config config = load_config("trn2");
  One found = one(b, config, {.outstanding = 4, .most_bytes = 64}, at_once);
  CHECK(found.longest == 64);
  constexpr std::int64_t kBytes = 128 * 512 * 4;
  std::uint64_t next = 0;
  for (auto* list : {&found.read, &found.written}) {
    std::sort(list->begin(), list->end());
    for (const auto& [address, length] : *list) {
      REQUIRE(address == next);
      next += static_cast<std::uint64_t>(length);
    }
    CHECK(total(*list) == kBytes);
  }
}

TEST_CASE("a response that is no OK is the error of the outcome") {
  PB b = there_and_back(8, 512);
  const One found = one(b, load_config("trn2"), {}, at_once,
                        [](Memory& memory) { memory.status = tlm::TLM_ADDRESS_ERROR_RESPONSE; });
  CHECK(found.error ==
        "hbm: the response to a transaction is TLM_ADDRESS_ERROR_RESPONSE; TLM_OK_RESPONSE is "
        "required");
}

// A sum of B bytes over two ranks of one chip: each reads its half and the other's and writes the
// sum (3 halves), then reads the other's sum and writes it (2 halves).
TEST_CASE("the data of a collective cross the memory of a host") {
  constexpr std::int64_t kBytes = 128 * 256 * 4;
  const std::string text =
      R"({"nisa": 1, "target": "trn2", "name": "sum"}
{"tensor": {"name": "a", "space": "hbm", "shape": [128, 256], "dtype": "float32"}}
{"tensor": {"name": "b", "space": "hbm", "shape": [128, 256], "dtype": "float32"}}
{"i": "all_reduce", "srcs": ["a"], "dsts": ["b"], "op": "add", "replica_group": [[0, 1]]}
)";
  std::vector<TraceFile> traces;
  for (int r = 0; r < 2; ++r) traces.push_back(read_trace_text(text, "sum.jsonl"));
  const Config config = load_config("trn2");
  std::int64_t bytes = 0;
  const std::vector<RunResult> with = with_memory(traces, config, 1, at_once, &bytes);
  CHECK(bytes == 2 * 5 * kBytes / 2);
  std::vector<Times> times;
  isa::World world;
  world.ranks = 2;
  const std::vector<RunResult> alone = run_world(setups_of(traces, times), config, world);
  REQUIRE(with.size() == 2);
  CHECK(with[0].end == alone[0].end);
}
