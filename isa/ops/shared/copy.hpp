// Declares the code that tensor_copy shares with its forms in neuronxcc.nki with a dynamic address.
#pragma once

#include "isa/ops/shared/common.hpp"

namespace nkisim::isa {

enum CopyParam { kCopyDst, kCopySrc };

inline constexpr std::array<Param, 2> kCopyParams = {{
    {.name = "dst",
     .kind = ParamKind::kOut,
     .spaces = kOnChip,
     .dtypes = kAnyDtype,
     .indirect = true},
    {.name = "src",
     .kind = ParamKind::kIn,
     .spaces = kOnChip,
     .dtypes = kAnyDtype,
     .indirect = true},
}};

[[nodiscard]] bool is_indirect(const TensorRef& ref);
void check_copy(const Inst& inst, const Machine& machine);
void eval_copy(const Inst& inst, OpContext& ctx);
void expand_copy(const Inst& inst, const Machine& machine, Expansion& out);
/// Fails unless `ref` has a dynamic start address.
void check_dynamic(std::string_view operand, const TensorRef& ref);

}  // namespace nkisim::isa
