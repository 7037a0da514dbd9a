// dma_transpose: swaps the first and last axes of a tensor with the DMA engines.
#include <algorithm>
#include <cstring>

#include "isa/ops/shared/dma.hpp"

namespace nkisim::isa::ops::dma_transpose {
namespace {

enum { kDst, kSrc, kAxes, kPriority, kDgeMode, kOobMode };

using Shape = std::vector<std::int64_t>;

constexpr std::array<Param, 6> kParams = {{
    {.name = "dst",
     .kind = ParamKind::kOut,
     .spaces = kHbmOrSbuf,
     .dtypes = kAnyDtype,
     .doc = "the permuted shape of src"},
    {.name = "src",
     .kind = ParamKind::kIn,
     .spaces = kHbmOrSbuf,
     .dtypes = kAnyDtype,
     .doc = "2 to 4 dimensions; in HBM its rows may be gathered through a vector_offset (trn2 and "
            "later)",
     .gather = true},
    {.name = "axes",
     .kind = ParamKind::kIntList,
     .optional = true,
     .doc = "(1, 0), (2, 1, 0) or (3, 1, 2, 0); absent: the one of src's rank"},
    {.name = "priority", .kind = ParamKind::kInt, .optional = true, .doc = kPriorityDoc},
    {.name = "dge_mode",
     .kind = ParamKind::kEnum,
     .optional = true,
     .choices = kDgeModes,
     .doc = "unknown (absent), hwdge or none; gathers: unknown or swdge"},
    {.name = "oob_mode",
     .kind = ParamKind::kEnum,
     .optional = true,
     .choices = kOobModes,
     .doc = "error (absent), or skip what an out-of-range dynamic index addresses"},
}};

const IntList& axes_of_rank(std::size_t rank) {
  static const std::array<IntList, 3> kAllowed = {{{1, 0}, {2, 1, 0}, {3, 1, 2, 0}}};
  if (rank < 2 || rank > 4) {
    fail(Rule::operand_size, "src", "of " + std::to_string(rank) + " dimensions",
         "2, 3 or 4 dimensions");
  }
  return kAllowed.at(rank - 2);
}

std::string text_of(const Shape& list) {
  std::string text = "(";
  for (std::size_t i = 0; i < list.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(list[i]);
  }
  return text + ")";
}

const DynamicOffset* gathered(const TensorRef& src) {
  return find_dynamic(src, DynamicOffset::Kind::kVector);
}

// The reason why the hardware descriptor generator cannot transpose `src`; "" if it can.
std::string hwdge_obstacle(const TensorRef& src) {
  const Shape shape = src.shape();
  if (size_bytes(src.dtype) != 2) return "a 2-byte dtype";
  if (shape.back() > 128) return "a last dimension of at most 128";
  if (shape.size() == 2) return shape[0] == 16 ? "" : "a first dimension of 16";
  const bool power = shape[0] <= 16 && (shape[0] & (shape[0] - 1)) == 0;
  if (!power) return "a first dimension of 1, 2, 4, 8 or 16";
  if (shape[0] * shape[shape.size() - 2] % 16 != 0) {
    return "shape[0] * shape[-2] that is a multiple of 16";
  }
  return "";
}

DgeMode mode_of(const Inst& inst, const Machine& machine) {
  const auto asked = inst.choice(kDgeMode, DgeMode::kUnknown);
  if (asked != DgeMode::kUnknown) return asked;
  const TensorRef& src = inst.tensor(kSrc);
  if (gathered(src) != nullptr) return DgeMode::kSwdge;
  if (machine.generation >= Generation::kV3 && hwdge_obstacle(src).empty()) return DgeMode::kHwdge;
  return src.dynamic == nullptr && inst.tensor(kDst).dynamic == nullptr ? DgeMode::kNone
                                                                        : DgeMode::kSwdge;
}

Engine pick_engine(const Inst& inst, const Machine& machine) {
  return mode_of(inst, machine) == DgeMode::kSwdge ? Engine::kGpSimd : Engine::kSync;
}

void check_shapes(const Inst& inst) {
  const Shape src = inst.tensor(kSrc).shape(), dst = inst.tensor(kDst).shape();
  const IntList& axes = axes_of_rank(src.size());
  if (inst.has(kAxes) && inst.list(kAxes) != axes) {
    fail(Rule::axes, "axes", text_of(inst.list(kAxes)),
         text_of(axes) + " for " + std::to_string(src.size()) + " dimensions");
  }
  Shape wanted;
  for (std::int64_t axis : axes) wanted.push_back(src[static_cast<std::size_t>(axis)]);
  if (dst != wanted) fail(Rule::operand_shape, "dst", "of shape " + text_of(dst), text_of(wanted));
}

void check_gathered(const TensorRef& src, const Machine& machine) {
  const Shape shape = src.shape();
  const TensorRef& index = *gathered(src)->index;
  if (machine.generation < Generation::kV3) {
    fail(Rule::not_on_target, "dma_transpose with a vector_offset is not available on " +
                                  std::string(machine.target) +
                                  "; trn2 is the first target that has it");
  }
  if (size_bytes(src.dtype) != 2) {
    fail(Rule::operand_dtype, "src", std::string(name(src.dtype)),
         "a 2-byte dtype with a vector_offset");
  }
  if (shape.back() > 128) {
    fail(Rule::operand_size, "src", describe(src),
         "a last dimension of at most 128 with a vector_offset");
  }
  if (shape[0] % 16 != 0) {
    fail(Rule::operand_size, "src", describe(src), "a first dimension that is a multiple of 16");
  }
  if (shape.size() == 4 && shape[1] != 1 && shape[2] != 1) {
    fail(Rule::operand_size, "src", describe(src),
         "shape[1] or shape[2] of 1 with a vector_offset");
  }
  check_dtype("index of src", index, {Dtype::kUint32}, "uint32");
  if (index.shape().size() != 2)
    fail(Rule::operand_size, "index of src", describe(index), "two dimensions");
  if (index.rows() < 16 || index.rows() % 16 != 0) {
    fail(Rule::partition_count, "index of src", describe(index),
         "16 to 128 partitions, a multiple of 16,");
  }
  if (index.columns() > 1 && index.rows() != 128) {
    fail(Rule::partition_count, "index of src", describe(index),
         "128 partitions where it has more than one column");
  }
}

void check_mode(const Inst& inst, const Machine& machine) {
  const TensorRef& src = inst.tensor(kSrc);
  const DgeMode mode = mode_of(inst, machine);
  const std::string mode_name(kDgeModes.at(static_cast<std::size_t>(mode)));
  if (gathered(src) != nullptr && mode != DgeMode::kSwdge) {
    fail(Rule::dge_mode, "dge_mode", mode_name, "unknown or swdge with a vector_offset");
  }
  if (gathered(src) == nullptr && inst.choice(kDgeMode, DgeMode::kUnknown) == DgeMode::kSwdge) {
    fail(Rule::dge_mode, "dge_mode", mode_name, "unknown, hwdge or none without a vector_offset");
  }
  check_dge(dma_request({&src, &inst.tensor(kDst)}, mode), inst.engine, machine);
  if (mode == DgeMode::kHwdge && !hwdge_obstacle(src).empty()) {
    fail(Rule::dge_mode, "src", describe(src), hwdge_obstacle(src) + " for hwdge");
  }
}

void check(const Inst& inst, const Machine& machine) {
  const TensorRef &dst = inst.tensor(kDst), &src = inst.tensor(kSrc);
  if (dst.dtype != src.dtype) {
    fail(Rule::dtypes_differ, "dst", std::string(name(dst.dtype)),
         "the dtype of src, " + std::string(name(src.dtype)) + ",");
  }
  if (size_bytes(src.dtype) == 1)
    fail(Rule::operand_dtype, "src", std::string(name(src.dtype)), "a 2- or 4-byte dtype");
  check_shapes(inst);
  if (gathered(src) != nullptr) check_gathered(src, machine);
  check_mode(inst, machine);
  check_priority(inst, kPriority, machine);
  if (inst.integer(kOobMode) == 1 && src.dynamic == nullptr) {
    fail(Rule::oob_mode, "oob_mode skip without a dynamic address of src; error is required");
  }
}

// Since SDK 2.33.1 the device halts where a group of 16 indices is valid in part; before, it hangs.
void check_groups_of_16(const TensorRef& src, const std::vector<bool>& dropped) {
  constexpr std::size_t kGroup = 16;
  if (gathered(src) == nullptr) return;
  for (std::size_t i = 0; i < dropped.size(); ++i) {
    const std::size_t first = i / kGroup * kGroup;
    if (dropped[i] == dropped[first]) continue;
    fail(Rule::gather_transpose_groups, "index " + std::to_string(dropped[i] ? i : first),
         "skipped and index " + std::to_string(dropped[i] ? first : i) + " is not",
         "groups of 16 indices that are all valid or all skipped");
  }
}

// All supported permutations swap the first and the last axis and keep those between.
void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef &dst = inst.tensor(kDst), &src = inst.tensor(kSrc);
  ctx.set_skip_out_of_bounds(inst.integer(kOobMode) == 1);
  const Shape shape = src.shape();
  const std::int64_t size = size_bytes(src.dtype), first = shape.front(), last = shape.back();
  const std::int64_t middle = src.elements() / (first * last);
  const Tile<std::byte> in = ctx.load_raw(src);
  const std::vector<bool> dropped = ctx.skipped_rows();
  check_groups_of_16(src, dropped);
  const Tile<std::byte> out = ctx.make<std::byte>(dst.rows(), dst.columns() * size);
  const Tile<std::uint8_t> keep = ctx.make<std::uint8_t>(dst.rows(), dst.columns());
  const std::int64_t per_row =
      dropped.empty() ? 1 : src.elements() / static_cast<std::int64_t>(dropped.size());
  std::vector<std::int64_t> becomes;  // only where they may overlap
  if (dst.tensor == src.tensor) becomes.resize(static_cast<std::size_t>(src.elements()));
  for (std::int64_t i = 0; i < src.elements(); ++i) {
    const std::int64_t a = i / (middle * last), m = i / last % middle, z = i % last;
    const std::int64_t to = (z * middle + m) * first + a;
    std::memcpy(out.data + to * size, in.data + i * size, static_cast<std::size_t>(size));
    if (!becomes.empty()) becomes[static_cast<std::size_t>(i)] = to;
    const bool lost = !dropped.empty() && dropped[static_cast<std::size_t>(i / per_row)];
    keep.data[to] = lost ? 0 : 1;
  }
  ctx.undefine_overlap(dst, src, out, becomes);
  ctx.undefine_repeated(dst, out);
  if (std::find(dropped.begin(), dropped.end(), true) == dropped.end()) {
    ctx.store_raw(dst, out);
  } else {
    ctx.store_raw_where(dst, out, keep);
  }
}

// The source's contiguous pieces are what the engines read; they write blocks of 16 columns.
void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  const TensorRef &dst = inst.tensor(kDst), &src = inst.tensor(kSrc);
  expand_dma(inst, src, dst, mode_of(inst, machine), out);
  const Pieces pieces = dma_pieces(src, src);
  out.dma.descriptors = pieces.count;
  out.dma.descriptor_bytes = pieces.bytes;
  out.parts.front().elements = pieces.count;
  out.parts.front().features |= kFeatTranspose;
  out.dma.transpose = true;
  out.dma.priority = static_cast<std::uint8_t>(inst.integer(kPriority));
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "dma_transpose",
    .doc = "Swaps the first and last axes of a tensor with the DMA engines.",
    .semantics =
        "dst = transpose(src, axes), bit exact; gather: dst = transpose(src[idx], axes) with "
        "idx = index.T.flatten()[:src.shape[0]]",
    .cost =
        "as dma_copy at up to 90 % (HBM to SBUF) or 50 % (SBUF to SBUF) of its rate on trn2 "
        "(config: dma)",
    .sources =
        "nki.isa.dma_transpose; trainium2_arch DMA transpose; release notes of SDK "
        "2.33.1 (groups of 16 indices); nki dge guide (dge_mode none for "
        "direct transposes). Assumed: the mode chosen for unknown, 1-byte dtypes are refused",
    .engines = kDmaTriggers,
    .params = kParams,
    .opcode = Opcode::kDMA_DIRECT2D,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .moves = OpSpec::Moves::kRearranges,
    .exact_shapes = true,
    .dma = true,
    .pick_engine = pick_engine,
};

}  // namespace nkisim::isa::ops::dma_transpose
