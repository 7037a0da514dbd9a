// Implements version.hpp: packs a program's instructions and places, and makes a version current.

#include "isa/program/version.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "isa/program/program.hpp"

namespace nkisim::isa {

void ProgramVersion::pack(const Inst& inst) {
  if (runs_.empty() || !runs_.back().same(inst)) {
    runs_.push_back(
        {static_cast<std::uint32_t>(insts_.size()), inst.sync, inst.dma, inst.label, inst.region});
  }
  insts_.push_back({.args = inst.args.data(),
                    .loc = inst.loc,
                    .ordering = inst.ordering,
                    .op = inst.op,
                    .engine = inst.engine,
                    .core = inst.core,
                    .args_count = static_cast<std::uint8_t>(inst.args.size()),
                    .engine_open = inst.engine_open,
                    .forward = inst.forward,
                    .registers = inst.registers});
}

// `run`: of the instruction before it.
Inst ProgramVersion::unpacked(std::size_t i, std::size_t& run) const {
  if (run + 1 < runs_.size() && runs_[run + 1].first == i) ++run;
  const PackedInst& packed = insts_[i];
  const Run& rest = runs_[run];
  Inst inst;
  inst.op = packed.op;
  inst.engine = packed.engine;
  inst.core = packed.core;
  inst.engine_open = packed.engine_open;
  inst.forward = packed.forward;
  inst.registers = packed.registers;
  inst.ordering = packed.ordering;
  inst.loc = packed.loc;
  inst.args = {packed.args, packed.args_count};
  inst.sync = rest.sync;
  inst.dma = rest.dma;
  inst.label = rest.label;
  inst.region = rest.region;
  return inst;
}

Program::Version Program::version() {
  // No version has fewer tensors than the first: passes add some, and drop none.
  if (!common_tensors_) common_tensors_ = tensors_.size();
  Version out;
  out.insts_.reserve(insts_.size());
  for (const Inst& inst : insts_) out.pack(inst);
  out.places_.reserve(*common_tensors_);
  const auto common = tensors_.begin() + static_cast<std::ptrdiff_t>(*common_tensors_);
  std::transform(tensors_.begin(), common, std::back_inserter(out.places_), [](const Tensor& t) {
    return Version::Place{t.address, t.partition, t.role, t.written, t.fixed};
  });
  out.further_.assign(common, tensors_.end());
  out.uses_ = uses_;
  out.control_flow_ = control_flow_;
  out.virtual_addresses_ = virtual_addresses_;
  return out;
}

void Program::restore(const Version& version) {
  insts_.clear();
  for (std::size_t i = 0, run = 0; i < version.insts_.size(); ++i) {
    insts_.push_back(version.unpacked(i, run));
  }
  for (std::size_t i = 0; i < version.places_.size(); ++i) {
    const Version::Place& place = version.places_[i];
    Tensor& t = tensors_[i];
    t.address = place.address;
    t.partition = place.partition;
    t.role = place.role;
    t.written = place.written;
    t.fixed = place.fixed;
  }
  tensors_.resize(version.places_.size());
  tensors_.insert(tensors_.end(), version.further_.begin(), version.further_.end());
  names_.assign();
  ++edits_;
  uses_ = version.uses_;
  control_flow_ = version.control_flow_;
  virtual_addresses_ = version.virtual_addresses_;
}

void Program::exchange(Version& other) {
  Version current = version();
  restore(other);
  other = std::move(current);
}

}  // namespace nkisim::isa
