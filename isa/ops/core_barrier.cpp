// core_barrier: waits until both cores of a logical core have come here.
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::core_barrier {
namespace {

enum { kData, kCores };

constexpr std::array<EngineRule, 5> kEngines = {
    {{Engine::kGpSimd}, {Engine::kSync}, {Engine::kTensor}, {Engine::kVector}, {Engine::kScalar}}};

constexpr std::array<Param, 2> kParams = {{
    {.name = "data",
     .kind = ParamKind::kInOut,
     .spaces = kHbmOrSbuf,
     .dtypes = kAnyDtype,
     .doc = "what the cores communicate through, in shared HBM: accesses before the barrier end "
            "before it, later ones start after it; of a tile in SBUF, which kernels of nki-library "
            "name, those of its own core"},
    {.name = "cores", .kind = ParamKind::kIntList, .doc = "(0, 1)"},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  const IntList both = {0, 1};
  if (inst.list(kCores) == both) return;
  std::string found = "(";
  for (std::int64_t core : inst.list(kCores)) {
    found += (found.size() > 1 ? ", " : "") + std::to_string(core);
  }
  fail(Rule::cores_disagree, "cores", found + ")", "(0, 1)");
}

void expand_parts(const Inst& inst, const Machine& /*machine*/, Expansion& out) {
  out.parts.push_back({.opcode = Opcode::kPSEUDO_CORE_BARRIER, .unit = unit_of(inst.engine)});
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "core_barrier",
    .doc = "Waits until both cores of a logical core have come here.",
    .semantics = "no data effect; a program of one core passes at once",
    .cost = "not documented; at least a remote semaphore update (config: sequencer)",
    .sources = "nki.isa.core_barrier; profiler opcode PSEUDO_CORE_BARRIER",
    .engines = kEngines,
    .params = kParams,
    .since = Generation::kV3,
    .opcode = Opcode::kPSEUDO_CORE_BARRIER,
    .check = check,
    .expand = expand_parts,
    .rendezvous = true,
    .dma = true,
};

}  // namespace nkisim::isa::ops::core_barrier
