// tensor_copy: copies a tile on chip, casting if the dtypes differ.
#include "isa/ops/shared/copy.hpp"

namespace nkisim::isa::ops::tensor_copy {
namespace {

bool always(const Inst& /*inst*/) { return true; }

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "tensor_copy",
    .doc = "Copies a tile on chip, casting if the dtypes differ.",
    .semantics = "dst[p,i] = src[p,i]: the same bits if the dtypes match, else through FP32",
    .cost =
        "max(64, N) cycles of the engine; trn2 VectorE: N/4 with SBUF, 16-bit and contiguous "
        "operands, N/2 with one of these missing; trn3 ScalarE: up to twice as fast for 16-bit",
    .sources =
        "nki.isa.tensor_copy; 2.26 cost notes; trainium2_arch; profiler opcodes COPY and CAST "
        "(default engine vector: assumed)",
    .engines = kCopyEngines,
    .params = kCopyParams,
    .opcode = Opcode::kCOPY,
    .check = check_copy,
    .eval = eval_copy,
    .expand = expand_copy,
    .depends = OpSpec::Depends::kElement,
    .moves = OpSpec::Moves::kCopies,
    .only_copies = always,
};

}  // namespace nkisim::isa::ops::tensor_copy
