// Collects the instructions that a compiler pass adds and removes, and applies them at its end.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "isa/program/program.hpp"

namespace nkisim::compiler {

/// Collects changes of a program without control flow; they take place in finish(). Instructions
/// are named by their numbers before it.
class Rewrite {
 public:
  explicit Rewrite(isa::Program& program)
      : program_(program), before_(program.insts().size()), dropped_(before_.size(), false) {}
  /// Puts an instruction before number `i`, behind those put there already. Its engine is chosen,
  /// and open, if it is kAny. Throws isa::Error if it is not one that the machine has.
  void put(std::size_t i, isa::Inst inst, std::span<const isa::Arg> args) {
    before_[i].push_back(static_cast<std::uint32_t>(program_.insts().size()));
    program_.append(inst, args);
  }
  void drop(std::size_t i) { dropped_[i] = true; }
  void finish();

 private:
  isa::Program& program_;
  std::vector<std::vector<std::uint32_t>> before_;
  std::vector<bool> dropped_;
};

/// Arguments of an op: these tensors by the names of its parameters, nothing else.
struct NamedTensor {
  std::string_view name;
  const isa::TensorRef* ref = nullptr;
};
[[nodiscard]] std::vector<isa::Arg> tensor_arguments(isa::Op op,
                                                     std::initializer_list<NamedTensor> tensors);

}  // namespace nkisim::compiler
