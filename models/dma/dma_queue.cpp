// Finds the DMA queues that a program uses on a core, and makes their names.
#include "models/dma/dma_queue.hpp"

#include <array>

#include "isa/program/op_spec.hpp"

namespace nkisim::models {

std::string dma_queue_name(isa::DgeMode mode, isa::Engine engine, std::uint32_t number, int count) {
  std::string text = "q";
  text += isa::name(isa::unit_of(engine));
  text += mode == isa::DgeMode::kHwdge   ? "DynamicHW"
          : mode == isa::DgeMode::kSwdge ? "Dynamic"
                                         : "IO";
  if (count > 1 || mode == isa::DgeMode::kNone) text += std::to_string(number);
  return text;
}

namespace {

// The mode of an instruction's transfer, if it is one. Programs keep equal arguments once, so few
// instructions have to be expanded.
class TransferModes {
 public:
  explicit TransferModes(const isa::Machine& machine) : machine_(machine) {}
  std::optional<isa::DgeMode> find(const isa::Inst& inst) {
    const auto key = reinterpret_cast<std::uintptr_t>(inst.args.data()) / alignof(isa::Arg);
    Known& known = known_.at(key % known_.size());
    if (known.args == inst.args.data() && known.op == inst.op && known.engine == inst.engine) {
      return known.mode;
    }
    isa::expand(inst, machine_, expansion_);
    known = {inst.args.data(), inst.op, inst.engine, std::nullopt};
    if (expansion_.is_dma) known.mode = expansion_.dma.dge;
    return known.mode;
  }

 private:
  struct Known {
    const isa::Arg* args = nullptr;
    isa::Op op{};
    isa::Engine engine{};
    std::optional<isa::DgeMode> mode = {};
  };
  const isa::Machine& machine_;
  isa::Expansion expansion_;
  std::array<Known, 256> known_{};
};

}  // namespace

std::vector<std::string> dma_queue_names(const isa::Program& program, const Config& config,
                                         int core) {
  std::vector<std::string> names;
  std::array<std::array<bool, 4>, isa::kEngineCount> seen{};
  std::vector<bool> named(program.queues().size());
  TransferModes modes(program.machine());
  const int count = std::max(1, config.compiler.dma_queues_per_engine);
  for (const isa::Inst& inst : program.insts()) {
    const isa::OpSpec& spec = isa::spec(inst);
    if (inst.core != core || !(spec.dma || spec.raw)) continue;
    if (inst.dma != nullptr && inst.dma->queue_name < named.size()) {
      if (named[inst.dma->queue_name]) continue;
      named[inst.dma->queue_name] = true;
      names.push_back(program.queues()[inst.dma->queue_name]);
      continue;
    }
    const auto mode = modes.find(inst);
    if (!mode) continue;
    const isa::DgeMode dge = config.dma.resolve(*mode, inst.engine);
    bool& known = seen.at(static_cast<std::size_t>(inst.engine)).at(static_cast<std::size_t>(dge));
    if (known) continue;
    known = true;
    for (int number = 0; number < count; ++number) {
      names.push_back(dma_queue_name(dge, inst.engine, static_cast<std::uint32_t>(number), count));
    }
  }
  return names;
}

}  // namespace nkisim::models
