// nc_transpose: swaps the partition axis and the flattened free axis of a tile.
#include <algorithm>
#include <numeric>

#include "isa/machine/gemm.hpp"
#include "isa/ops/shared/tensor_engine.hpp"

namespace nkisim::isa::ops::nc_transpose {
namespace {

enum { kDst, kData };

constexpr std::array<EngineRule, 2> kEngines = {{{Engine::kTensor}, {Engine::kVector}}};

constexpr std::array<Param, 2> kParams = {{
    {.name = "dst",
     .kind = ParamKind::kOut,
     .spaces = kOnChip,
     .dtypes = kAnyDtype,
     .doc = "[F, P]; in PSUM for the tensor engine",
     .one_bank = true},
    {.name = "data",
     .kind = ParamKind::kIn,
     .spaces = kOnChip,
     .dtypes = kAnyDtype,
     .doc = "[P, F], free dimensions flattened; tensor engine: in SBUF, at most 128 x 128; "
            "vector engine: at most 32 x 32"},
}};

std::int64_t limit_of(Engine engine) { return engine == Engine::kTensor ? 128 : 32; }

// Small tiles that the tensor engine could not write where asked go to the vector engine (assumed:
// the compiler's choice is not published).
Engine pick_engine(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef &dst = inst.tensor(kDst), &data = inst.tensor(kData);
  const bool fits_vector = data.rows() <= 32 && data.columns() <= 32;
  const bool fits_tensor = data.space == Space::kSbuf && dst.space == Space::kPsum;
  return fits_vector && !fits_tensor ? Engine::kVector : Engine::kTensor;
}

void check_tensor_engine(const TensorRef& dst, const TensorRef& data, const Machine& machine) {
  if (data.space != Space::kSbuf)
    fail(Rule::operand_memory, "data", "in PSUM", "SBUF for the tensor engine");
  if (dst.space != Space::kPsum)
    fail(Rule::operand_memory, "dst", "in SBUF", "PSUM for the tensor engine");
  if (is_packed(data.dtype)) return;
  if (machine.generation >= Generation::kV3) check_transpose_dst(data, dst);
}

void check(const Inst& inst, const Machine& machine) {
  const TensorRef &dst = inst.tensor(kDst), &data = inst.tensor(kData);
  const std::int64_t limit = limit_of(inst.engine);
  if (data.rows() > limit || data.columns() > limit) {
    fail(Rule::operand_size, "data", describe(data),
         "at most " + std::to_string(limit) + " x " + std::to_string(limit) + " on the " +
             std::string(name(inst.engine)) + " engine");
  }
  if (dst.rows() != data.columns() || dst.columns() != data.rows()) {
    fail(Rule::operand_shape, "dst", describe(dst),
         "[" + std::to_string(data.columns()) + " x " + std::to_string(data.rows()) + "]");
  }
  const bool widened = inst.engine == Engine::kTensor && machine.generation >= Generation::kV3 &&
                       size_bytes(data.dtype) == 1 && size_bytes(dst.dtype) == 2;
  if (dst.dtype != data.dtype && !widened) {
    fail(Rule::dtypes_differ, "dst", std::string(name(dst.dtype)),
         "the dtype of data, " + std::string(name(data.dtype)) + ",");
  }
  if (inst.engine == Engine::kTensor) check_tensor_engine(dst, data, machine);
}

// Before v3 the array multiplies by an identity: one NaN or infinity spoils its whole output row.
void multiply_by_identity(const TensorRef& dst, const TensorRef& data, OpContext& ctx) {
  const Tile<float> x = ctx.load(data);
  const Tile<float> identity = ctx.make<float>(x.rows, x.rows);
  std::fill_n(identity.data, identity.size(), 0.0F);
  for (std::int64_t i = 0; i < x.rows; ++i) identity.row(i)[i] = 1.0F;
  const Tile<float> out = ctx.make<float>(x.columns, x.rows);
  matmul(fp32_rows(x.data, x.columns), fp32_rows(identity.data, x.rows), out.data, x.rows,
         static_cast<int>(x.rows), static_cast<int>(x.columns), static_cast<int>(x.rows), false);
  ctx.store(dst, out);
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef &dst = inst.tensor(kDst), &data = inst.tensor(kData);
  if (inst.engine == Engine::kTensor) {
    check_dynamic_bank(dst, ctx);
    if (ctx.machine().generation < Generation::kV3 && !is_packed(data.dtype)) {
      multiply_by_identity(dst, data, ctx);
      return;
    }
  }
  std::vector<std::int64_t> rows(static_cast<std::size_t>(data.rows()));
  std::iota(rows.begin(), rows.end(), 0);
  store_transposed(dst, data, rows, ctx);
}

// On the tensor engine data is the stationary operand and the identity moves: P columns stream.
void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  const TensorRef& data = inst.tensor(kData);
  if (inst.engine == Engine::kVector) {
    Part part = default_part(inst, machine);
    part.opcode = Opcode::kTRANSPOSE;
    part.features |= kFeatTranspose;
    out.parts.push_back(part);
    return;
  }
  Pass pass{.stationary = &data,
            .dst = &inst.tensor(kDst),
            .load_operands = 1U << kData,
            .multiply_operands = 1U << kDst,
            .rows = data.rows(),
            .columns = data.columns(),
            .elements = data.rows(),
            .flops = 2 * data.rows() * data.columns() * data.rows(),
            .features = kFeatTranspose,
            .tile = {}};
  const bool wide = size_bytes(data.dtype) == 4 && data.dtype != Dtype::kTfloat32;
  if (wide) pass.features |= kFeatFp32;
  if (size_bytes(data.dtype) == 1) pass.features |= kFeatFp8;
  // Trn1 multiplies by an identity, a moving operand of 0 and 1: two passes, as by nc_matmul.
  if (wide && machine.generation < Generation::kV3) {
    pass.features |= kFeatOneZero | kFeatFp32LowPass;
    add_pass(pass, machine, out);
    pass.features &= ~static_cast<std::uint32_t>(kFeatFp32LowPass);
    pass.accumulate = true;
  }
  add_pass(pass, machine, out);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "nc_transpose",
    .doc = "Swaps the partition axis and the flattened free axis of a tile.",
    .semantics =
        "dst[f,p] = data[p,f], bit exact; trn1's tensor engine multiplies by an identity, so a NaN "
        "or infinity spoils its output row; trn2's tensor engine widens 8-bit data to 16 bits with "
        "a zero upper byte",
    .cost =
        "tensor engine: LDWEIGHTS, then MATMUL: max(P, min(64, F)), float32 on trn1 twice; vector "
        "engine: max(64, N)",
    .sources =
        "nki.isa.nc_transpose; trainium2_arch transpose mode; 2.26 cost notes; two passes of "
        "float32 on trn1: flops and PSUM bytes of NKIBench's profiles. Assumed: the engine chosen "
        "when none is given, 8-bit data into its own dtype with a step of 2",
    .engines = kEngines,
    .params = kParams,
    .opcode = Opcode::kMATMUL,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .moves = OpSpec::Moves::kRearranges,
    .pick_engine = pick_engine,
};

}  // namespace nkisim::isa::ops::nc_transpose
