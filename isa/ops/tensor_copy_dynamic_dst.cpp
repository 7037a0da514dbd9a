// tensor_copy_dynamic_dst: neuronxcc.nki's tensor_copy to an address known only at run time.
#include "isa/ops/shared/copy.hpp"

namespace nkisim::isa::ops::tensor_copy_dynamic_dst {
namespace {

void check(const Inst& inst, const Machine& machine) {
  check_copy(inst, machine);
  check_dynamic("dst", inst.tensor(kCopyDst));
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "tensor_copy_dynamic_dst",
    .doc = "Legacy tensor_copy to an address known only at run time.",
    .semantics = "as tensor_copy; dst starts at a dynamic offset",
    .cost = "max(600, N)",
    .sources =
        "nki.isa.tensor_copy_dynamic_dst up to SDK 2.28; 2.26 cost notes (never on trn3: assumed)",
    .engines = kCopyEngines,
    .params = kCopyParams,
    .until = Generation::kV3,
    .opcode = Opcode::kCOPY,
    .check = check,
    .eval = eval_copy,
    .expand = expand_copy,
};

}  // namespace nkisim::isa::ops::tensor_copy_dynamic_dst
