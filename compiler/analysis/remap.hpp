// Replaces tensors in instructions by others, as the passes for renaming and spilling need.
#pragma once

#include <cstdint>
#include <vector>

#include "isa/program/program.hpp"

namespace nkisim::compiler {

/// Maps each tensor to the one that stands for it at the moment.
class Remap {
 public:
  explicit Remap(isa::Program& program) : program_(program) {}
  /// From now on `other`, of the same shape, dtype and place, stands for `tensor`.
  void set(std::uint32_t tensor, std::uint32_t other);
  [[nodiscard]] std::uint32_t operator()(std::uint32_t tensor) const {
    return tensor < now_.size() && now_[tensor] != kItself ? now_[tensor] : tensor;
  }
  /// The arguments of an instruction with all tensors replaced, those of indices and lists too.
  [[nodiscard]] std::vector<isa::Arg> arguments(const isa::Inst& inst);
  /// Gives instruction `i` these arguments.
  void apply(std::size_t i) { program_.set_args(i, arguments(program_.insts()[i])); }

 private:
  static constexpr std::uint32_t kItself = ~std::uint32_t{0};
  const isa::TensorRef* moved(const isa::TensorRef* ref);
  const isa::DynamicOffset* moved(const isa::DynamicOffset* d);

  isa::Program& program_;
  std::vector<std::uint32_t> now_;  // by tensor
};

}  // namespace nkisim::compiler
