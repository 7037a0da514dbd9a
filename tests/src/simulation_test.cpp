// Tests the simulation of small programs with timing: overlap, dependences, deadlocks.
#include "src/run/simulation.hpp"

#include <catch2/catch.hpp>
#include <cstring>

#include "isa/base/alu.hpp"
#include "isa/world/interpreter.hpp"
#include "src/config/config_json.hpp"

using namespace nkisim;
using isa::Arg;
using isa::Dtype;
using isa::Engine;
using isa::Space;

namespace {

struct Collect : models::Observer {
  std::vector<models::PartEvent> parts;
  void on_event(const models::PartEvent& e) override { parts.push_back(e); }
};

// A program of tensor_tensor additions between [128, columns] FP32 tiles.
struct Adds {
  isa::Program program{*isa::find_machine("trn2"), "test.jsonl"};
  std::vector<std::uint32_t> tiles;
  std::uint32_t tile(std::int64_t columns) {
    isa::Tensor t;
    t.name = "t" + std::to_string(tiles.size());
    t.space = Space::kSbuf;
    t.shape = {128, columns};
    t.address = next_;
    next_ += columns * 4;
    tiles.push_back(program.add_tensor(t));
    return tiles.back();
  }
  void add(std::uint32_t dst, std::uint32_t a, std::uint32_t b, Engine engine,
           const isa::Sync* sync = nullptr) {
    const isa::OpSpec& op = *isa::find_op("tensor_tensor");
    std::vector<Arg> args(op.params.size());
    const std::uint32_t ids[] = {dst, a, b};
    for (std::size_t i = 0; i < 3; ++i) {
      args[i].kind = Arg::Kind::kTensor;
      args[i].tensor = program.whole(ids[i]);
    }
    args[3].kind = Arg::Kind::kEnum;
    args[3].integer = static_cast<std::int64_t>(isa::AluOp::kAdd);
    isa::Inst inst;
    inst.op = isa::op_id(op);
    inst.engine = engine;
    inst.loc.trace_line = static_cast<std::uint32_t>(program.insts().size() + 1);
    inst.sync = sync;
    program.append(inst, args);
  }

 private:
  std::int64_t next_ = 0;
};

}  // namespace

TEST_CASE("independent engines overlap and dependent ones wait") {
  Adds p;
  const auto a = p.tile(512), b = p.tile(512), c = p.tile(512), d = p.tile(512);
  p.add(c, a, b, Engine::kVector);
  p.add(d, c, b, Engine::kGpSimd);
  Collect events;
  const auto r = simulate(p.program, load_config("trn2"), nullptr, {&events});
  CHECK(r.instructions == 2);
  REQUIRE(events.parts.size() == 2);
  // VectorE starts at its 40 ns offset: 160 ns + 512 cycles at 0.96 GHz.
  CHECK(events.parts[0].start == models::from_ns(40));
  CHECK(events.parts[0].end == models::from_ns(40 + 160) + models::from_cycles(512, 0.96));
  // GpSimd begins at 1290 ns anyway, after VectorE's semaphore.
  CHECK(events.parts[1].start == models::from_ns(1290));
  CHECK(r.end == events.parts[1].end);
}

TEST_CASE("a semaphore that nothing posts is a deadlock that names the waits") {
  Adds p;
  const auto a = p.tile(64), b = p.tile(64);
  p.program.set_explicit_semaphores(true);
  isa::Sync sync;
  sync.waits = {{.semaphore = 7, .compare = isa::SemaphoreWait::Compare::kGe, .value = 4}};
  p.add(b, a, a, Engine::kVector, p.program.add_sync(sync));
  CHECK_THROWS_WITH(
      simulate(p.program, load_config("trn2"), nullptr),
      Catch::Contains("deadlock") && Catch::Contains("S[7]>=4") && Catch::Contains("line 1"));
}

TEST_CASE("explicit semaphores order engines") {
  Adds p;
  const auto a = p.tile(4096), b = p.tile(4096), c = p.tile(64);
  p.program.set_explicit_semaphores(true);
  isa::Sync post, wait;
  post.posts = {{.semaphore = 3}};
  wait.waits = {{.semaphore = 3, .compare = isa::SemaphoreWait::Compare::kGe, .value = 1}};
  p.add(b, a, a, Engine::kVector, p.program.add_sync(post));
  p.add(c, c, c, Engine::kGpSimd, p.program.add_sync(wait));
  Collect events;
  simulate(p.program, load_config("trn2"), nullptr, {&events});
  REQUIRE(events.parts.size() == 2);
  // update 12 ns after the end, wake-up 23 ns
  CHECK(events.parts[1].start == events.parts[0].end + models::from_ns(12 + 23));
  CHECK(events.parts[1].wait.semaphore == 3);
  CHECK(events.parts[1].wait.producer == static_cast<int>(Engine::kVector));
  CHECK(events.parts[1].wait.producer_end == events.parts[0].end);
}

TEST_CASE("a thousand simulations in one process agree") {
  Adds p;
  const auto a = p.tile(512), b = p.tile(512);
  for (int i = 0; i < 10; ++i) p.add(b, a, b, i % 2 == 0 ? Engine::kVector : Engine::kGpSimd);
  const auto config = load_config("trn2");
  const auto first = simulate(p.program, config, nullptr);
  for (int i = 0; i < 1000; ++i) {
    CHECK(simulate(p.program, config, nullptr).end == first.end);
  }
}

TEST_CASE("a timed run computes what the interpreter computes") {
  Adds p;
  std::vector<std::uint32_t> t;
  for (int i = 0; i < 6; ++i) t.push_back(p.tile(32));
  for (unsigned i = 0; i < 300; ++i) {
    const auto x = i * 2654435761U;
    p.add(t[x % 6], t[(x >> 8U) % 6], t[(x >> 16U) % 6],
          (x >> 24U) % 2 == 0 ? Engine::kVector : Engine::kGpSimd);
  }
  isa::Memory timed(p.program), plain(p.program);
  for (isa::Memory* m : {&timed, &plain}) {
    for (std::size_t i = 0; i < t.size(); ++i) {
      std::vector<std::byte> bytes(std::size_t{128} * 32 * 4);
      const float value = static_cast<float>(i + 1) * 0.001F;
      for (std::size_t at = 0; at < bytes.size(); at += 4) std::memcpy(&bytes[at], &value, 4);
      m->write(t[i], bytes);
    }
  }
  isa::interpret(p.program, plain);
  simulate(p.program, load_config("trn2"), &timed);
  for (const auto id : t) CHECK(timed.read(id) == plain.read(id));
}
