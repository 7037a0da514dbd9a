// Finds an instruction's description and parameters, and expands it to machine operations (parts).

#include "isa/program/op_spec.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace nkisim::isa {

namespace ops {
#define NKISIM_OP(op_name)   \
  namespace op_name {        \
  extern const OpSpec kSpec; \
  }
#include "isa/ops/ops.def"
#undef NKISIM_OP
}  // namespace ops

namespace detail {
constexpr std::array<const OpSpec*, kOpCount> kOpTable = {
#define NKISIM_OP(op_name) &ops::op_name::kSpec,
#include "isa/ops/ops.def"
#undef NKISIM_OP
};
}  // namespace detail

namespace {

constexpr const std::array<const OpSpec*, kOpCount>& kTable = detail::kOpTable;

constexpr std::array<std::string_view, static_cast<std::size_t>(Opcode::kCount)> kOpcodeNames = {
#define NKISIM_OPCODE(opcode_name) #opcode_name,
#include "isa/base/opcodes.def"
#undef NKISIM_OPCODE
};

constexpr std::array<std::string_view, kUnitCount> kUnitNames = {"Tensor", "TensorMatrix", "Vector",
                                                                 "Scalar", "GpSimd",       "Sync"};

bool is_16bit_float(Dtype d) { return d == Dtype::kBfloat16 || d == Dtype::kFloat16; }
bool is_fp8(Dtype d) { return is_float(d) && size_bytes(d) == 1; }

// Feature bits that hold for all full-size operands, narrowed operand by operand.
struct FeatureScan {
  std::uint32_t all = kFeatAll16Bit | kFeatAll8Or16Bit | kFeatContiguous | kFeatBf16;
  std::uint32_t any = 0;
  int inputs = 0, sbuf_inputs = 0;
  bool seen = false;

  void add(const TensorRef& ref, bool written) {
    constexpr std::int64_t kWideStrideBytes = 16;  // ARCH1: beyond this the bandwidth halves
    seen = true;
    if (!is_16bit_float(ref.dtype)) all &= ~kFeatAll16Bit;
    if (!is_16bit_float(ref.dtype) && !is_fp8(ref.dtype)) all &= ~kFeatAll8Or16Bit;
    if (ref.dtype != Dtype::kBfloat16) all &= ~kFeatBf16;
    if (size_bytes(ref.dtype) == 1) any |= kFeat8Bit;
    const std::int64_t step = std::abs(ref.pattern->inner_step());
    if (ref.pattern->elements > 1 && step > 1) all &= ~kFeatContiguous;
    if (ref.pattern->elements > 1 && step * size_bytes(ref.dtype) > kWideStrideBytes) {
      any |= kFeatWideStride;
    }
    if (ref.space == Space::kPsum) any |= written ? kFeatDstPsum : kFeatSrcPsum;
    if (!written) {
      ++inputs;
      if (ref.space == Space::kSbuf) ++sbuf_inputs;
    }
  }
  [[nodiscard]] std::uint32_t features() const {
    std::uint32_t f = any | (seen ? all : 0U);
    if (inputs >= 2) f |= kFeatTwoInputs;
    if (sbuf_inputs >= 2) f |= kFeatTwoSbufInputs;
    return f;
  }
};

std::uint32_t indirect_feature(const TensorRef& ref) {
  using Kind = DynamicOffset::Kind;
  for (const DynamicOffset* d = ref.dynamic; d != nullptr; d = d->next) {
    if (d->kind == Kind::kVector || d->kind == Kind::kIndirect) return kFeatIndirect;
  }
  return 0;
}

void add_bytes(Part& part, const TensorRef& ref, bool written) {
  const std::int64_t bytes = ref.bytes();
  if (ref.space == Space::kSbuf) (written ? part.sbuf_write_bytes : part.sbuf_read_bytes) += bytes;
  if (ref.space == Space::kPsum) (written ? part.psum_write_bytes : part.psum_read_bytes) += bytes;
}

}  // namespace

std::string_view name(Opcode opcode) { return kOpcodeNames.at(static_cast<std::size_t>(opcode)); }
std::string_view name(Unit unit) { return kUnitNames.at(static_cast<std::size_t>(unit)); }

Engine engine_of(Unit unit) {
  constexpr std::array<Engine, kUnitCount> kEngines = {Engine::kTensor, Engine::kTensor,
                                                       Engine::kVector, Engine::kScalar,
                                                       Engine::kGpSimd, Engine::kSync};
  return kEngines.at(static_cast<std::size_t>(unit));
}

Unit unit_of(Engine engine) {
  constexpr std::array<Unit, 6> kUnits = {Unit::kTensor, Unit::kVector, Unit::kScalar,
                                          Unit::kGpSimd, Unit::kSync,   Unit::kSync};
  return kUnits.at(static_cast<std::size_t>(engine));
}

std::span<const OpSpec* const> op_table() { return kTable; }

const OpSpec* find_op(std::string_view op_name) {
  const auto it = std::find_if(kTable.begin(), kTable.end(),
                               [&](const OpSpec* s) { return s->name == op_name; });
  return it == kTable.end() ? nullptr : *it;
}

Op op_id(const OpSpec& op) {
  return static_cast<Op>(std::find(kTable.begin(), kTable.end(), &op) - kTable.begin());
}

int param_index(const OpSpec& op, std::string_view param_name) {
  const std::size_t size = param_name.size();
  for (std::size_t i = 0; i < op.params.size(); ++i) {
    const std::string_view own = op.params[i].name;  // its last letter saves most comparisons
    if (own.size() != size || own.back() != param_name.back() || own != param_name) continue;
    return static_cast<int>(i);
  }
  return -1;
}

Part default_part(const Inst& inst, const Machine& /*machine*/, std::uint32_t operands) {
  const OpSpec& op = spec(inst);
  Part part{.opcode = op.opcode, .unit = unit_of(inst.engine), .operands = operands};
  std::int64_t widest = 0;
  bool have_input = false;
  // A tensor where a constant could stand: usually one column, which every element shares.
  const auto is_pointer = [](const TensorRef& ref, const Param& param) {
    return param.kind == ParamKind::kScalarOrTensor && ref.columns() == 1;
  };
  for_each_tensor(
      inst,
      [&](const TensorRef& ref, const Param& param, bool written) {
        add_bytes(part, ref, written);
        if (param.kind == ParamKind::kInOut) add_bytes(part, ref, false);
        if (ref.dynamic != nullptr) part.features |= kFeatDynamic | indirect_feature(ref);
        if (is_pointer(ref, param)) part.features |= kFeatPointer;
        widest = std::max(widest, ref.columns());
        part.partitions = std::max(part.partitions, static_cast<std::int32_t>(ref.rows()));
        if (!written && !have_input && !is_pointer(ref, param) && &param != &kIndexParam) {
          part.dtype = ref.dtype;
          have_input = true;
        }
      },
      operands);
  FeatureScan scan;
  for_each_tensor(
      inst,
      [&](const TensorRef& ref, const Param& param, bool written) {
        // One-column scalars ([P,1] operands) do not decide the data path's mode.
        if (is_pointer(ref, param) || &param == &kIndexParam) return;
        if (ref.columns() == 1 && widest > 1) return;
        scan.add(ref, written);
      },
      operands);
  part.elements = widest;
  part.features |= scan.features();
  return part;
}

void expand(const Inst& inst, const Machine& machine, Expansion& out) {
  out.clear();
  const OpSpec& op = spec(inst);
  if (op.expand != nullptr) {
    op.expand(inst, machine, out);
  } else {
    out.parts.push_back(default_part(inst, machine));
  }
}

}  // namespace nkisim::isa
