// Executes a program and lists its steps with their run-time addresses, as input of the race check.
#include "checks/stream.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>

namespace nkisim::checks {
namespace {

bool in_memory(const isa::TensorRef& ref) {
  for (const isa::DynamicOffset* d = ref.dynamic; d != nullptr; d = d->next) {
    if (d->kind != isa::DynamicOffset::Kind::kRegister) return true;
  }
  return false;
}

// Bytes [first, last) on one row, put together with what is there already if it continues it.
void add_run(Places& places, std::int32_t partition, std::int64_t first, std::int64_t last) {
  if (!places.empty()) {
    isa::Footprint& f = places.back();
    if (f.partition == partition && f.first <= first && first <= f.last) {
      f.last = std::max(f.last, last);
      f.run = f.last - f.first;
      return;
    }
  }
  isa::Footprint f;
  f.first = first;
  f.last = last;
  f.run = last - first;
  f.partition = partition;
  f.partition_end = partition + 1;
  places.push_back(f);
}

constexpr int kCollectives = -1;  // in place of a mode: queues of their own

class Recorder {
 public:
  Recorder(const isa::Program& program, bool values, Stream::Unknown unknown)
      : program_(program), values_(values), cores_(static_cast<std::size_t>(program.cores())) {
    out_.unknown = unknown;
    out_.values = values;
  }

  void add(const isa::Inst& inst, isa::EvalContext& context) {
    auto& core = cores_.at(inst.core);
    Step step{.inst = &inst};
    step.number = ++core.issued.at(static_cast<std::size_t>(inst.engine));
    step.holder = core.holder;
    if (isa::spec(inst).rendezvous) ++core.meetings;
    if (may_transfer(inst)) {
      isa::expand(inst, program_.machine(), expansion_);
    } else {
      expansion_.is_dma = expansion_.is_collective = false;
    }
    if (expansion_.is_collective) step.collective = ++core.collectives;
    if (expansion_.is_dma || expansion_.is_collective) {
      step.queue = queue_of(inst);
      step.transfer = ++transfers_[step.queue];
    }
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool) {
      if (ref.dynamic == nullptr) return;
      if (step.dynamic == kNone) step.dynamic = static_cast<std::uint32_t>(out_.places.size());
      out_.places.push_back(places(ref, context));
    });
    if (isa::spec(inst).loads_register) core.holder = static_cast<std::uint32_t>(out_.steps.size());
    out_.steps.push_back(step);
    keep(inst, context);
  }

  // An instruction of a device profile is whatever its opcode says.
  static bool may_transfer(const isa::Inst& inst) {
    const isa::OpSpec& op = isa::spec(inst);
    return op.dma || op.combine != nullptr || op.raw;
  }

  // After the instruction that was added last.
  void finish() {
    std::size_t at = 0;
    bool same = !kept_.empty() && !fresh_;
    for (const auto& [place, size, tensor] : kept_) {
      same = same && std::memcmp(place, old_.data() + at, size) == 0;
      at += size;
      written(tensor, place, size);
    }
    if (same) out_.steps.back().same = true;
    kept_.clear();
  }
  // Keeps the contents of HBM where the instruction will write: several cores may write the same
  // values. Memory that no instruction has written holds no value.
  void keep(const isa::Inst& inst, isa::EvalContext& context) {
    kept_.clear();
    old_.clear();
    fresh_ = false;
    if (!values_ || program_.cores() < 2) return;
    const bool computed = isa::spec(inst).eval != nullptr;
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
      if (!write || ref.on_chip()) return;
      if (!computed) return unlike_.push_back(ref.tensor);
      const std::int64_t size = isa::size_bytes(ref.dtype);
      context.set_skip_out_of_bounds(true);
      const isa::Placement whole = context.memory().place(ref);
      context.for_each_run(ref, [&](const isa::EvalContext::Run& run) {
        if (run.data == nullptr) return;
        const std::int64_t dense = run.step_bytes == size ? run.count : 1;
        for (std::int64_t i = 0; i < run.count; i += dense) {
          const std::byte* place = run.data + i * run.step_bytes;
          kept_.push_back({place, static_cast<std::size_t>(dense * size), ref.tensor});
          const std::int64_t bit = whole.bit(place - whole.region->data(), run.row);
          fresh_ = fresh_ || whole.bits->find_undefined(bit, dense * size) >= 0;
          old_.insert(old_.end(), place, place + dense * size);
        }
      });
    });
  }

  // Loops without end are looked at for so long only.
  bool full() {
    out_.cut = out_.steps.size() >= kMostSteps;
    return out_.cut;
  }
  Stream take() {
    find_alike();
    return std::move(out_);
  }

 private:
  struct Core {
    std::array<std::uint32_t, isa::kEngineCount + 1> issued{};
    std::uint32_t holder = kNone;
    std::uint32_t collectives = 0;
    std::uint32_t meetings = 0;
    std::map<std::uint32_t, std::uint64_t> written;  // by tensor in HBM: what and in which order
  };
  struct Kept {  // bytes that an instruction writes
    const std::byte* place;
    std::size_t size;
    std::uint32_t tensor;
  };

  // FNV-1a of the places and values that a core writes, and of the meetings between them.
  void written(std::uint32_t tensor, const std::byte* place, std::size_t size) {
    Core& core = cores_[out_.steps.back().inst->core];
    std::uint64_t& hash = core.written.try_emplace(tensor, 0xcbf29ce484222325U).first->second;
    const auto mix = [&](std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3U; };
    mix(reinterpret_cast<std::uintptr_t>(place));
    mix(size);
    mix(core.meetings);
    for (std::size_t i = 0; i < size; ++i) mix(static_cast<std::uint64_t>(place[i]));
  }
  void find_alike() {
    if (cores_.empty()) return;
    for (const auto& [tensor, hash] : cores_.front().written) {
      const bool all =
          std::all_of(cores_.begin(), cores_.end(), [&, t = tensor, h = hash](auto& c) {
            const auto own = c.written.find(t);
            return own != c.written.end() && own->second == h;
          });
      if (all && std::count(unlike_.begin(), unlike_.end(), tensor) == 0) out_.alike.insert(tensor);
    }
  }

  Places places(const isa::TensorRef& ref, isa::EvalContext& context) const {
    Places found;
    if (in_memory(ref) && out_.unknown == Stream::Unknown::kLeftOut) return found;
    if (!in_memory(ref) || out_.unknown == Stream::Unknown::kWholeTensor) {
      found.emplace_back();
      isa::find_footprint(ref, program_, context.state(), found.back());
      return found;
    }
    const std::int64_t size = isa::size_bytes(ref.dtype);
    const std::int64_t base = ref.on_chip() ? program_.tensor(ref).address : 0;
    const isa::Placement place = context.memory().place(ref);
    const std::byte* start =
        place.region->data() + place.start - ref.offset;  // of the tensor's row
    context.set_skip_out_of_bounds(true);  // whether they may be, the instruction says itself
    context.for_each_run(ref, [&](const isa::EvalContext::Run& run) {
      if (run.data == nullptr) return;
      const std::int64_t byte = run.data - start;
      const std::int64_t row = place.pitch > 0 ? byte / place.pitch : 0;
      const std::int64_t at = base + byte - row * place.pitch;
      const auto partition = static_cast<std::int32_t>(ref.on_chip() ? ref.partition + row : 0);
      const std::int64_t dense = run.step_bytes == size ? run.count : 1;
      for (std::int64_t i = 0; i < run.count; i += dense) {
        add_run(found, partition, at + i * run.step_bytes, at + i * run.step_bytes + dense * size);
      }
    });
    return found;
  }

  std::uint32_t queue_of(const isa::Inst& inst) {
    const bool named = inst.dma != nullptr && inst.dma->queue_name < program_.queues().size();
    const int name = named ? inst.dma->queue_name : -1;
    const int mode = named                      ? 0
                     : expansion_.is_collective ? kCollectives
                                                : static_cast<int>(expansion_.dma.dge);
    const auto key = std::tuple(inst.core, inst.engine, mode, name);
    const auto [at, fresh] = queue_ids_.emplace(key, out_.queues.size());
    if (fresh) {
      out_.queues.push_back({inst.core, inst.engine,
                             named ? program_.queues()[inst.dma->queue_name] : std::string()});
      transfers_.push_back(0);
    }
    return static_cast<std::uint32_t>(at->second);
  }

  const isa::Program& program_;
  bool values_;
  std::vector<Kept> kept_;
  std::vector<std::byte> old_;         // what was there
  bool fresh_ = false;                 // a byte of it is undefined
  std::vector<std::uint32_t> unlike_;  // tensors that a collective writes
  Stream out_;
  std::vector<Core> cores_;
  std::map<std::tuple<std::uint8_t, isa::Engine, int, int>, std::size_t> queue_ids_;
  std::vector<std::uint32_t> transfers_;
  isa::Expansion expansion_;
};

}  // namespace

ValueNeeds needs_values(const isa::Program& program) {
  ValueNeeds needs;
  for (const isa::Inst& inst : program.insts()) {
    needs.control |= isa::spec(inst).loads_register;
    if (needs.addresses) continue;
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool) {
      needs.addresses |= in_memory(ref);
    });
  }
  return needs;
}

Stream record(const isa::Program& program, isa::Memory* memory, Stream::Unknown unknown,
              isa::InterpretOptions options) {
  Recorder recorder(program, memory != nullptr,
                    memory != nullptr ? Stream::Unknown::kNothing : unknown);
  options.values = memory != nullptr;
  options.world.ranks = program.ranks();
  options.lockstep = true;  // what other ranks hold decides nothing about races of this one
  options.conditions.unwritten = isa::Unwritten::kAllow;  // what is undefined, the run itself finds
  options.before = [&](const isa::Inst& inst, isa::EvalContext& context) {
    try {
      recorder.add(inst, context);
    } catch (isa::Error& e) {
      e.at(isa::spec(inst).name, inst.loc);
      program.locate(e);
      throw;
    }
  };
  options.after = [&](const isa::Inst&) { recorder.finish(); };
  options.progress = [&recorder, asked = std::move(options.progress)](std::uint64_t n) {
    if (asked && !asked(n)) throw Stopped{};
    return !recorder.full();
  };
  std::unique_ptr<isa::Memory> scratch;
  if (memory == nullptr) {
    scratch = std::make_unique<isa::Memory>(program);
    memory = scratch.get();
  }
  isa::interpret(program, *memory, options);
  return recorder.take();
}

}  // namespace nkisim::checks
