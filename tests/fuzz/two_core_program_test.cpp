// Tests random race-free programs of two cores that synchronise: at any speed of engines and DMA
// queues the simulation with timing must leave the same bytes as an untimed run, in SBUF too.
#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <random>
#include <sstream>

#include "checks/races.hpp"
#include "isa/world/interpreter.hpp"
#include "src/config/config_json.hpp"
#include "src/report/race_report.hpp"
#include "src/run/simulation.hpp"
#include "src/trace/trace_reader.hpp"

namespace {

using namespace nkisim;

constexpr int kTiles = 6, kColumns = 64, kSlots = 12;

unsigned from_environment(const char* name, unsigned otherwise) {
  const char* given = std::getenv(name);
  return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : otherwise;
}

std::string text_of(int number) { return std::to_string(number); }

/// Two cores that compute on overlapping tiles, move data, and now and then meet: in a sendrecv of
/// either kind, one or both directions, or at a barrier that opens what both have stored: by plain
/// stores, scattered rows or sums, read whole, by a run-time row or as a register, overwritten by
/// the other core after a further barrier, and all of it in loops. Each core's part between two
/// meetings is drawn for itself, so either may be the late one.
class Writer {
 public:
  explicit Writer(unsigned s) : random_(s), target_(s % 3 == 0 ? "trn3" : "trn2") {}

  std::string program() {
    text_ << R"({"nisa": 1, "target": ")" << target_ << R"(", "name": "random", "cores": 2})"
          << '\n';
    declare();
    for (int core = 0; core < 2; ++core) begin(core);
    const int meetings = 1 + pick(6);
    for (int m = 0; m < meetings; ++m) {
      for (int core = 0; core < 2; ++core) work(core, pick(8));
      meet();
    }
    for (int core = 0; core < 2; ++core) {
      work(core, pick(6));
      for (int t = 0; t < kTiles; ++t) {
        dma(core, '"' + slice("y", core, t) + '"', '"' + tile(core, t) + '"');
      }
    }
    return text_.str();
  }
  [[nodiscard]] const std::string& target() const { return target_; }

 private:
  struct Place {  // of a rectangle in a tile: both ends of a transfer have the same
    int rows = 32, columns = 16;
  };

  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  static std::string tile(int core, int t) { return "t" + text_of(core) + text_of(t); }
  static std::string slice(const std::string& name, int core, int t) {
    return name + "[" + text_of(core) + ", :, " + text_of(t * kColumns) + ":" +
           text_of((t + 1) * kColumns) + "]";
  }

  void hbm(const std::string& name, const std::string& shape, const std::string& more) {
    text_ << R"({"tensor": {"name": ")" << name << R"(", "shape": )" << shape
          << R"(, "dtype": "float32")" << more << "}}\n";
  }
  void declare() {
    hbm("x", "[2, 128, 512]",
        R"(, "role": "input", "data": {"generator": "uniform", "seed": 3, "low": -2, "high": 2})");
    hbm("y", "[2, 128, 512]", R"(, "role": "output")");
    hbm("shared", "[" + text_of(kSlots) + ", 2, 128, 64]", "");
    for (int core = 0; core < 2; ++core) {
      for (int t = 0; t < kTiles; ++t) {  // neighbours share half their bytes
        text_ << R"({"tensor": {"name": ")" << tile(core, t)
              << R"(", "space": "sbuf", "shape": [128, 64], "dtype": "float32", "address": )"
              << t * 128 << R"(, "core": )" << core << "}}\n";
      }
      small("o", core, "[128, 1]", 4096);  // an order of rows
      small("n", core, "[1, 1]", 4104);    // a number that decides on an address
    }
  }
  void small(const std::string& name, int core, const std::string& shape, int address) {
    text_ << R"({"tensor": {"name": ")" << name << core << R"(", "space": "sbuf", "shape": )"
          << shape << R"(, "dtype": "int32", "address": )" << address << R"(, "core": )" << core
          << "}}\n";
  }
  // Every tile written, by loads of different sizes.
  void begin(int core) {
    for (int t = 0; t < kTiles; ++t)
      dma(core, '"' + tile(core, t) + '"', '"' + slice("x", core, t) + '"');
    inst(core, "register_alloc", "", R"("dst": "r0", "x": 1)");
    inst(core, "iota", "",
         R"("dst": "o)" + text_of(core) + R"(", "pattern": [1, 1], "offset": 127, )" +
             R"("channel_multiplier": -1)");
  }

  void inst(int core, const std::string& op, const std::string& engine, const std::string& rest) {
    text_ << R"({"i": ")" << op << R"(", "core": )" << core;
    if (!engine.empty()) text_ << R"(, "engine": ")" << engine << '"';
    text_ << ", " << rest << "}\n";
  }
  /// A rectangle of a tile, now and then at a column that a register says.
  std::string place(int core, const Place& size) {
    const int row = size.rows == 128 ? 0 : pick(4) * 32;
    const int column = size.columns == kColumns ? 0 : pick(3) * 16;
    const std::string view = "\"" + tile(core, pick(kTiles)) + "[" + text_of(row) + ":" +
                             text_of(row + size.rows) + ", " + text_of(column) + ":" +
                             text_of(column + size.columns) + "]\"";
    if (size.columns == kColumns || pick(4) != 0) return view;
    return R"({"tensor": )" + view + R"(, "dynamic": [{"register": 0, "stride": 4}]})";
  }
  std::string one_of(std::initializer_list<const char*> names) {
    return names.begin()[pick(static_cast<int>(names.size()))];
  }

  // Every kind of queue: descriptors of the compiler, of the hardware and of GpSimd's software.
  void dma(int core, const std::string& dst, const std::string& src) {
    const bool fixed = (dst + src).find("dynamic") == std::string::npos;
    const std::string mode = one_of({"unknown", "swdge", "hwdge", fixed ? "none" : "hwdge"});
    const std::string engine = mode == "swdge" ? "gpsimd" : one_of({"sync", "scalar"});
    inst(core, "dma_copy", engine,
         R"("dst": )" + dst + R"(, "src": )" + src + R"(, "dge_mode": ")" + mode + '"');
  }

  void work(int core, int count) {
    for (int i = 0; i < count; ++i) step(core);
  }
  void step(int core) {
    const Place small, large{128, kColumns};
    const auto any = [&] { return place(core, small); };
    switch (pick(8)) {
      case 0:
        return inst(core, "tensor_tensor", one_of({"vector", "gpsimd"}),
                    R"("op": "maximum", "dst": )" + any() + R"(, "data1": )" + any() +
                        R"(, "data2": )" + any());
      case 1:
        return inst(core, "activation", "",
                    R"("op": "copy", "scale": 0.5, "dst": )" + any() + R"(, "data": )" + any());
      case 2:
        return inst(core, "tensor_scalar", one_of({"vector", "scalar"}),
                    R"("op0": "add", "operand0": 0.25, "dst": )" + any() + R"(, "data": )" + any());
      case 3:
        return inst(core, "tensor_copy", one_of({"scalar", "gpsimd", "vector"}),
                    R"("dst": )" + any() + R"(, "src": )" + any());
      case 4:
        return inst(core, "register_move", "", R"("dst": "r0", "src": )" + text_of(pick(5)));
      case 5:  // a large transfer, under way for long
        return dma(core, place(core, large), '"' + slice("x", core, pick(8)) + '"');
      default:
        return dma(core, any(), any());
    }
  }

  void meet() {
    if (pick(3) == 0 && slot_ < kSlots) return share();
    const bool own = pick(2) == 0;  // GpSimd's own DMA
    const Place size = pick(4) == 0 ? Place{128, kColumns} : Place{};
    const int pipe = pick(4);
    const bool repeat = pick(4) == 0;
    const std::array<bool, 2> receives = {pick(6) != 0, pick(6) != 0};
    for (int core = 0; core < 2; ++core) {
      if (repeat) inst(core, "loop_begin", "", R"("register": "r0", "start": 0, "stop": 3)");
      exchange(core, own, size, pipe, receives);
      if (repeat) inst(core, "loop_end", "", R"("loc": "loop:1")");
      // Sent or received data are used, or overwritten, at once on one core and late on the other.
      work(core, pick(3));
    }
  }
  void exchange(int core, bool own, const Place& size, int pipe,
                const std::array<bool, 2>& receives) {
    const int other = 1 - core;
    const auto index = [](int c) { return static_cast<std::size_t>(c); };
    const int from = receives.at(index(core)) ? other : core;
    const int to = receives.at(index(other)) ? other : core;
    const std::string engine =
        own ? "gpsimd" : one_of({"sync", "scalar", "gpsimd", "vector", "tensor"});
    const std::string dst = place(core, size), src = place(core, size);
    inst(core, "sendrecv", engine,
         R"("src": )" + src + R"(, "dst": )" + dst + R"(, "send_to_rank": )" + text_of(to) +
             R"(, "recv_from_rank": )" + text_of(from) + R"(, "pipe_id": )" + text_of(pipe) +
             R"(, "dma_engine": ")" + (own ? "gpsimd_dma" : "dma") + '"');
  }
  // Both store a tile, meet at a barrier, and use what the other one stored; a second barrier lets
  // each overwrite what the other has read. In a loop that barrier is what keeps the rounds apart.
  void share() {
    const std::string slot = "shared[" + text_of(slot_++) + ", ";
    const bool repeat = pick(4) == 0, again = repeat || pick(2) == 0;
    const int stored = pick(3), used = pick(3);
    for (int core = 0; core < 2; ++core) {
      const std::string mine = slot + text_of(core) + "]", theirs = slot + text_of(1 - core) + "]";
      if (repeat) inst(core, "loop_begin", "", R"("register": "r1", "start": 0, "stop": 3)");
      store(core, mine, stored);
      work(core, pick(3));
      barrier(core, slot);
      work(core, pick(3));
      use(core, theirs, used);
      if (again) {
        barrier(core, slot);
        dma(core, '"' + theirs + '"', '"' + tile(core, pick(kTiles)) + '"');
        barrier(core, slot);
        dma(core, '"' + tile(core, pick(kTiles)) + '"', '"' + mine + '"');
        barrier(core, slot);
      }
      if (repeat) inst(core, "loop_end", "", R"("loc": "loop:2")");
    }
  }
  void barrier(int core, const std::string& slot) {
    inst(core, "core_barrier", one_of({"sync", "scalar", "gpsimd", "vector", "tensor"}),
         R"("data": ")" + slot + R"(0:2]", "cores": [0, 1])");
  }
  /// All of a slot, or first all of it and then rows in another order, or a sum onto it.
  void store(int core, const std::string& slot, int kind) {
    const auto any = [&] { return '"' + tile(core, pick(kTiles)) + '"'; };
    dma(core, '"' + slot + '"', any());
    if (kind == 1) {
      inst(core, "dma_copy", "gpsimd",
           R"("dst": {"tensor": ")" + slot + R"(", "dynamic": [{"vector": "o)" + text_of(core) +
               R"(", "stride": 64, "limit": 128}]}, "src": )" + any() + R"(, "dge_mode": "swdge")");
    }
    if (kind == 2) {
      inst(core, "dma_compute", "gpsimd",
           R"("dst": ")" + slot + R"(", "srcs": [")" + slot + R"(", )" + any() +
               R"(], "reduce_op": "add")");
    }
  }
  /// Uses the other core's data: loaded whole, gathered, or as the register of a later address.
  void use(int core, const std::string& slot, int kind) {
    const std::string any = '"' + tile(core, pick(kTiles)) + '"';
    if (kind == 1) {
      return inst(core, "dma_copy", "gpsimd",
                  R"("dst": )" + any + R"(, "src": {"tensor": ")" + slot +
                      R"(", "dynamic": [{"vector": "o)" + text_of(core) +
                      R"(", "stride": 64, "limit": 128}]}, "dge_mode": "swdge")");
    }
    dma(core, any, '"' + slot + '"');
    if (kind == 2) {  // an address that hangs on what crossed: 0 or 1, by the sign of a value
      inst(core, "tensor_scalar", "vector",
           R"("op0": "greater", "operand0": 0.0, "dst": "n)" + text_of(core) + R"(", "data": ")" +
               any.substr(1, any.size() - 2) + R"([0:1, 0:1]")");
      inst(core, "register_load", "", R"("dst": "r0", "src": "n)" + text_of(core) + '"');
      dma(core, place(core, Place{}), place(core, Place{}));
    }
  }

  std::mt19937 random_;
  std::string target_;
  std::ostringstream text_;
  int slot_ = 0;
};

/// Machines on which other things come first; none changes a value.
models::Config machine(const std::string& target, unsigned kind) {
  static const std::array<std::vector<std::string>, 4> kKinds = {{
      {},
      {"dma.bytes_per_ns=1"},
      {"dma.software.first_packet=9000", "engines.vector.wake=900"},
      {"dma.hardware.first_packet=9000", "engines.gpsimd.clock=0.05"},
  }};
  return load_config(target, kKinds.at(kind % kKinds.size()));
}

/// Names of the tensors in which the timed run differs from the interpreter.
std::string differing(const TraceFile& trace, const models::Config& config) {
  const isa::Program& program = *trace.program;
  isa::Memory expected(program), timed(program);
  load_inputs(trace, expected);
  load_inputs(trace, timed);
  isa::interpret(program, expected,
                 {.conditions = {.unwritten = isa::Unwritten::kAllow}, .progress = {}});
  simulate(program, config, &timed, {}, {.conditions = {.unwritten = isa::Unwritten::kAllow}});
  std::string names;
  for (std::uint32_t t = 0; t < program.tensors().size(); ++t) {
    if (expected.read(t) != timed.read(t)) names += program.tensor(t).name + " ";
  }
  return names;
}

/// The report of the check for races: empty, as the bytes do not depend on time.
std::string races(const TraceFile& trace) {
  const auto load = [&] {
    auto memory = std::make_unique<isa::Memory>(*trace.program);
    load_inputs(trace, *memory);
    return memory;
  };
  isa::InterpretOptions options;
  options.conditions.unwritten = isa::Unwritten::kAllow;
  std::string found;
  for (const std::string& line :
       race_lines(*trace.program, checks::find_races(*trace.program, load, options), {})) {
    found += line + "\n";
  }
  return found;
}

}  // namespace

// NKISIM_FUZZ_PROGRAMS=20000 for the large run.
TEST_CASE("two cores leave the same bytes timed and untimed", "[twocore]") {
  const unsigned seed = from_environment("NKISIM_FUZZ_SEED", 1);
  const unsigned count = from_environment("NKISIM_FUZZ_PROGRAMS", 400);
  INFO("NKISIM_FUZZ_SEED=" << seed);
  unsigned meetings = 0;
  for (unsigned s = seed; s < seed + count; ++s) {
    Writer writer(s);
    const std::string text = writer.program();
    const TraceFile trace = read_trace_text(text, "random.jsonl");
    for (const isa::Inst& inst : trace.program->insts())
      meetings += isa::spec(inst).rendezvous ? 1 : 0;
    const std::string differs = differing(trace, machine(writer.target(), s));
    INFO("seed " << s << " differs in " << differs << "\n" << text);
    REQUIRE(differs.empty());
    REQUIRE(races(trace).empty());
  }
  CHECK(meetings >= 4 * count);
}
