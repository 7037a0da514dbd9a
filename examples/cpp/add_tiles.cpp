// Builds a program in memory, simulates it with values on trn2, and reads an observer: two tiles
// are loaded, added by the vector engine and stored. Prints what ran when, and the latency.
#include <cstring>
#include <iomanip>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "isa/base/alu.hpp"
#include "isa/machine/memory.hpp"
#include "isa/program/program.hpp"
#include "src/config/config.hpp"
#include "src/run/run.hpp"

namespace isa = nkisim::isa;
namespace models = nkisim::models;

namespace {

constexpr std::int64_t kRows = 128, kColumns = 512;

isa::Arg tensor(isa::Program& program, std::uint32_t id) {
  isa::Arg arg;
  arg.kind = isa::Arg::Kind::kTensor;
  arg.tensor = program.whole(id);
  return arg;
}

isa::Arg function(isa::AluOp op) {
  isa::Arg arg;
  arg.kind = isa::Arg::Kind::kEnum;
  arg.integer = static_cast<std::int64_t>(op);
  return arg;
}

/// Appends an instruction with its arguments by name, as in nki.isa. Throws isa::Error if a rule of
/// the machine is broken.
void append(isa::Program& program, const char* op_name,
            const std::vector<std::pair<const char*, isa::Arg>>& named) {
  const isa::OpSpec& op = *isa::find_op(op_name);
  std::vector<isa::Arg> args(op.params.size());
  for (const auto& [name, arg] : named) {
    args.at(static_cast<std::size_t>(isa::param_index(op, name))) = arg;
  }
  isa::Inst inst;
  inst.op = isa::op_id(op);
  program.append(inst, args);
}

/// Says when each part of an instruction ran, and waits that the machine inserts before one.
class Timeline : public models::Observer {
 public:
  void on_event(const models::PartEvent& e) override {
    std::cout << std::setw(10) << models::to_ns(e.start) << " to " << std::setw(8)
              << models::to_ns(e.end) << " ns  " << (e.part_index < 0 ? "wait of " : "")
              << isa::spec(*e.inst).name << " on " << isa::name(e.inst->engine) << '\n';
    ++parts;
  }
  void on_event(const models::DmaEvent& e) override {
    std::cout << std::setw(10) << models::to_ns(e.first_packet) << " to " << std::setw(8)
              << models::to_ns(e.visible) << " ns  data of " << isa::spec(*e.inst).name << '\n';
    ++transfers;
  }
  int parts = 0, transfers = 0;
};

int run() {
  isa::Program program(*isa::find_machine("trn2"));
  std::int64_t next = 0;
  const auto add = [&](const char* name, isa::Space space, isa::TensorRole role) {
    isa::Tensor t;
    t.name = name;
    t.space = space;
    t.role = role;
    t.dtype = isa::Dtype::kFloat32;
    t.shape = {kRows, kColumns};
    if (space == isa::Space::kSbuf) {
      t.address = next;  // bytes within every partition
      next += t.extent_bytes();
    }
    return program.add_tensor(t);
  };
  const auto a = add("a", isa::Space::kHbm, isa::TensorRole::kInput);
  const auto b = add("b", isa::Space::kHbm, isa::TensorRole::kInput);
  const auto c = add("c", isa::Space::kHbm, isa::TensorRole::kOutput);
  const auto x = add("x", isa::Space::kSbuf, isa::TensorRole::kInternal);
  const auto y = add("y", isa::Space::kSbuf, isa::TensorRole::kInternal);

  const auto copy = [&](std::uint32_t dst, std::uint32_t src) {
    append(program, "dma_copy", {{"dst", tensor(program, dst)}, {"src", tensor(program, src)}});
  };
  copy(x, a);
  copy(y, b);
  append(program, "tensor_tensor",
         {{"dst", tensor(program, x)},
          {"data1", tensor(program, x)},
          {"data2", tensor(program, y)},
          {"op", function(isa::AluOp::kAdd)}});
  copy(c, x);
  program.finish();

  std::vector<float> in_a(kRows * kColumns), in_b(in_a.size()), out(in_a.size());
  for (std::size_t i = 0; i < in_a.size(); ++i) {
    in_a[i] = static_cast<float>(i);
    in_b[i] = 0.5F;
  }
  isa::Memory memory(program);
  memory.load(a, std::as_bytes(std::span(in_a)));
  memory.load(b, std::as_bytes(std::span(in_b)));
  Timeline timeline;
  const nkisim::SimResult result =
      nkisim::simulate(program, nkisim::load_config("trn2"), &memory, {.observers = {&timeline}});
  memory.read(c, std::as_writable_bytes(std::span(out)));

  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] != in_a[i] + in_b[i]) {
      std::cerr << "wrong at " << i << ": " << out[i] << '\n';
      return 1;
    }
  }
  std::cout << "latency " << models::to_ns(result.end) / 1000 << " us, " << timeline.parts
            << " parts and " << timeline.transfers << " transfers; all " << out.size()
            << " sums are right\n";
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const isa::Error& e) {
    std::cerr << e.message() << '\n';
    return 3;
  }
}
