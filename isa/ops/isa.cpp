// isa: a machine instruction by its opcode, as neuron-profile prints it; it has a time but no
// values.
#include <algorithm>

#include "isa/base/names.hpp"
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::isa {
namespace {

enum {
  kOpcodeArg,
  kDst,
  kDst2,
  kSrcs,
  kPointers,
  kElements,
  kPartitions,
  kRows,
  kColumns,
  kMultiply,
  kFp32Mode,
  kTranspose,
  kAccFlags,
  kFunction,
  kMode,
  kBytes,
  kFrom,
  kTo,
  kElementBytes,
  kDge,
  kCompute,
  kScattered,
};

constexpr std::array<std::string_view, 3> kFp32Modes = {"low", "high", "low_high"};
constexpr std::array<std::string_view, 3> kSpaces = {"hbm", "sbuf", "psum"};
constexpr std::array<std::string_view, 4> kDgeModes = {"unknown", "software", "hardware", "none"};

constexpr std::array<Param, 23> kParams = {{
    {.name = "opcode", .kind = ParamKind::kOpcode, .doc = "as the profiler prints it"},
    {.name = "dst", .kind = ParamKind::kOut, .dtypes = kAnyDtype, .optional = true},
    {.name = "dst2", .kind = ParamKind::kOut, .dtypes = kAnyDtype, .optional = true},
    {.name = "srcs", .kind = ParamKind::kInList, .dtypes = kAnyDtype, .optional = true},
    {.name = "pointers",
     .kind = ParamKind::kInList,
     .dtypes = kAnyDtype,
     .optional = true,
     .doc = "scalar operands read from memory, one element per partition"},
    {.name = "elements",
     .kind = ParamKind::kInt,
     .optional = true,
     .doc = "per partition (DMA: descriptors); default: of the widest operand"},
    {.name = "partitions", .kind = ParamKind::kInt, .optional = true},
    {.name = "rows", .kind = ParamKind::kInt, .optional = true, .doc = "PE array rows in use"},
    {.name = "columns", .kind = ParamKind::kInt, .optional = true, .doc = "PE array columns"},
    {.name = "multiply",
     .kind = ParamKind::kBool,
     .optional = true,
     .doc = "runs on the TensorMatrix row; default: MATMUL and MATMUL_MX do"},
    {.name = "fp32_mode",
     .kind = ParamKind::kEnum,
     .optional = true,
     .choices = kFp32Modes,
     .doc = "pass of an FP32 matmul"},
    {.name = "transpose", .kind = ParamKind::kBool, .optional = true},
    {.name = "acc_flags",
     .kind = ParamKind::kInt,
     .optional = true,
     .doc = "PSUM accumulation: 1 first, 2 last of a group"},
    {.name = "function",
     .kind = ParamKind::kText,
     .optional = true,
     .doc = "activation function or ALU operators, separated by commas"},
    {.name = "mode", .kind = ParamKind::kText, .optional = true, .doc = "performance mode"},
    {.name = "bytes",
     .kind = ParamKind::kInt,
     .optional = true,
     .doc = "payload of the DMA this instruction triggers"},
    {.name = "from", .kind = ParamKind::kEnum, .optional = true, .choices = kSpaces},
    {.name = "to", .kind = ParamKind::kEnum, .optional = true, .choices = kSpaces},
    {.name = "element_bytes", .kind = ParamKind::kInt, .optional = true, .doc = "DMA element size"},
    {.name = "dge", .kind = ParamKind::kEnum, .optional = true, .choices = kDgeModes},
    {.name = "compute", .kind = ParamKind::kBool, .optional = true, .doc = "DMA casts or adds"},
    {.name = "scattered",
     .kind = ParamKind::kBool,
     .optional = true,
     .doc = "DMA elements do not follow each other at the destination"},
    {.name = "attributes",
     .kind = ParamKind::kText,
     .optional = true,
     .doc = "the rest of the profile's operands, for people"},
}};

// True if every one of the comma-separated operators of `text` is in `ops`; bypass is ignored.
bool all_of(std::string_view text, Set<AluOp> ops) {
  bool any = false;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string word = lower_case(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (word == "bypass") continue;
    const auto op = parse_alu(word);
    if (!op || !ops.contains(*op)) return false;
    any = true;
  }
  return any;
}

std::uint32_t function_features(const Inst& inst, Opcode opcode) {
  if (!inst.has(kFunction)) return 0;
  const std::string_view text = *inst.arg(kFunction).text;
  std::uint32_t f = 0;
  if (all_of(text, {AluOp::kAdd, AluOp::kSubtract, AluOp::kMultiply})) f |= kFeatAddMulSub;
  if (opcode == Opcode::kTENSOR_REDUCE && all_of(text, {AluOp::kAdd, AluOp::kMaximum})) {
    f |= kFeatReduceAddMax;
  }
  if (opcode == Opcode::kSCALAR_TENSOR_TENSOR && lower_case(text) == "subtract,multiply") {
    f |= kFeatSubMul;
  }
  return f;
}

std::uint32_t array_features(const Inst& inst, Dtype dtype) {
  std::uint32_t f = 0;
  if (inst.has(kFp32Mode) || dtype == Dtype::kFloat32) f |= kFeatFp32;
  if (inst.has(kFp32Mode) && inst.integer(kFp32Mode) == 0) f |= kFeatFp32LowPass;
  if (is_float(dtype) && size_bytes(dtype) == 1) f |= kFeatFp8;
  if (inst.flag(kTranspose)) f |= kFeatTranspose;
  if (inst.has(kMode) && lower_case(*inst.arg(kMode).text).find("double") != std::string::npos) {
    f |= kFeatDoubleRow;
  }
  return f;
}

bool is_multiply(const Inst& inst, Opcode opcode) {
  const bool usual = opcode == Opcode::kMATMUL || opcode == Opcode::kMATMUL_MX;
  return inst.engine == Engine::kTensor && inst.flag(kMultiply, usual);
}

void set_array(const Inst& inst, Part& part) {
  const Opcode opcode = part.opcode;
  if (is_multiply(inst, opcode)) part.unit = Unit::kTensorMatrix;
  part.features |= array_features(inst, part.dtype);
  part.rows = static_cast<std::int32_t>(inst.integer(kRows));
  part.columns = static_cast<std::int32_t>(inst.integer(kColumns));
  if (part.unit == Unit::kTensorMatrix) part.flops = 2 * part.elements * part.rows * part.columns;
}

void set_dma(const Inst& inst, const Part& part, DmaWork& dma) {
  dma.dge = inst.choice(kDge, DgeMode::kUnknown);
  dma.bytes = inst.integer(kBytes);
  dma.src = inst.choice(kFrom, Space::kHbm);
  dma.dst = inst.choice(kTo, Space::kSbuf);
  dma.descriptors = std::max<std::int64_t>(1, inst.integer(kElements, 1));
  dma.element_bytes =
      static_cast<std::int32_t>(inst.integer(kElementBytes, dma.bytes / dma.descriptors));
  dma.descriptor_bytes = dma.element_bytes;
  dma.rows = std::max<std::int64_t>(part.partitions, 1);
  dma.compute = inst.flag(kCompute);
  dma.scattered = inst.flag(kScattered);
}

void expand_part(const Inst& inst, const Machine& machine, Expansion& out) {
  Part part = default_part(inst, machine);
  part.opcode = static_cast<Opcode>(inst.integer(kOpcodeArg));
  if (inst.has(kSrcs) && !inst.arg(kSrcs).tensors->empty()) {
    part.dtype = inst.arg(kSrcs).tensors->front()->dtype;
  }
  if (inst.has(kPointers)) part.features |= kFeatPointer;
  part.features |= function_features(inst, part.opcode);
  part.elements = inst.integer(kElements, part.elements);
  part.partitions = static_cast<std::int32_t>(inst.integer(kPartitions, part.partitions));
  if (inst.engine == Engine::kTensor) set_array(inst, part);
  if (inst.has(kBytes)) {
    out.is_dma = true;
    set_dma(inst, part, out.dma);
    part.elements = 0;
  }
  out.parts.push_back(part);
}

void check(const Inst& inst, const Machine& /*machine*/) {
  constexpr std::int64_t kMost = 4 * kMostElements;
  for (int i : {kElements, kPartitions, kRows, kColumns, kBytes, kElementBytes}) {
    const std::int64_t value = inst.integer(i);
    const std::int64_t limit = i == kElements || i == kBytes || i == kElementBytes ? kMost : 128;
    if (value < 0 || value > limit) {
      fail(Rule::integer_range, kParams.at(static_cast<std::size_t>(i)).name, std::to_string(value),
           "0 to " + std::to_string(limit));
    }
  }
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "isa",
    .doc = "One instruction of the hardware, as a device profile shows it; timing only.",
    .semantics = "none: it has quantities, addresses and semaphores but no values",
    .cost = "the row of the config's cost table for its opcode and engine",
    .sources = "decoded device profiles (neuron-profile view --output-format json)",
    .engines = kAnySequencer,
    .params = kParams,
    .opcode = Opcode::kNOP,
    .check = check,
    .expand = expand_part,
    .raw = true,
};

}  // namespace nkisim::isa::ops::isa
