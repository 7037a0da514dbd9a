// tensor_copy_dynamic_src: neuronxcc.nki's tensor_copy from an address known only at run time.
#include "isa/ops/shared/copy.hpp"

namespace nkisim::isa::ops::tensor_copy_dynamic_src {
namespace {

void check(const Inst& inst, const Machine& machine) {
  check_copy(inst, machine);
  check_dynamic("src", inst.tensor(kCopySrc));
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "tensor_copy_dynamic_src",
    .doc = "Legacy tensor_copy from an address known only at run time.",
    .semantics = "as tensor_copy; src starts at a dynamic offset",
    .cost = "max(600, N)",
    .sources =
        "nki.isa.tensor_copy_dynamic_src up to SDK 2.28; 2.26 cost notes (never on trn3: assumed)",
    .engines = kCopyEngines,
    .params = kCopyParams,
    .until = Generation::kV3,
    .opcode = Opcode::kCOPY,
    .check = check,
    .eval = eval_copy,
    .expand = expand_copy,
};

}  // namespace nkisim::isa::ops::tensor_copy_dynamic_src
