// local_gather: gathers elements with one list of indices per 16 partitions.
#include <algorithm>
#include <cstring>

#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::local_gather {
namespace {

enum { kDst, kSrcBuffer, kIndex, kNumElemPerIdx, kNumValidIndices };
constexpr std::int64_t kCorePartitions = 16;
constexpr std::int64_t kMaxIndices = 4096;

constexpr std::array<Param, 5> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kSbufOnly, .dtypes = kAnyDtype},
    {.name = "src_buffer", .kind = ParamKind::kIn, .spaces = kSbufOnly, .dtypes = kAnyDtype},
    {.name = "index", .kind = ParamKind::kIn, .spaces = kSbufOnly, .dtypes = {Dtype::kUint16}},
    {.name = "num_elem_per_idx",
     .kind = ParamKind::kInt,
     .optional = true,
     .doc = "1, 2, 4, 8, 16 or 32"},
    {.name = "num_valid_indices",
     .kind = ParamKind::kInt,
     .optional = true,
     .doc = "per core; default: all of its 16 partitions"},
}};

std::int64_t elements_per_index(const Inst& inst) { return inst.integer(kNumElemPerIdx, 1); }
std::int64_t all_indices(const Inst& inst) {
  return kCorePartitions * inst.tensor(kIndex).columns();
}
std::int64_t valid_indices(const Inst& inst) {
  return inst.integer(kNumValidIndices, all_indices(inst));
}

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef &dst = inst.tensor(kDst), &src = inst.tensor(kSrcBuffer);
  check_same_rows("src_buffer", src, "index", inst.tensor(kIndex));
  check_same_rows("src_buffer", src, "dst", dst);
  if (src.rows() % kCorePartitions != 0) {
    fail(Rule::partition_count, "src_buffer", describe(src), "a multiple of 16 partitions");
  }
  if (dst.dtype != src.dtype) {
    fail(Rule::dtypes_differ, "dst", std::string(name(dst.dtype)),
         "src_buffer's dtype, " + std::string(name(src.dtype)) + ",");
  }
  const std::int64_t width = elements_per_index(inst), valid = valid_indices(inst);
  if (width < 1 || width > 32 || (width & (width - 1)) != 0) {
    fail(Rule::argument_value, "num_elem_per_idx", std::to_string(width), "1, 2, 4, 8, 16 or 32");
  }
  if (valid < 1 || valid > all_indices(inst)) {
    fail(Rule::argument_value, "num_valid_indices", std::to_string(valid),
         "1 to " + std::to_string(all_indices(inst)) + " (16 partitions of index)");
  }
  if (valid > kMaxIndices) {
    fail(Rule::argument_value, "index", std::to_string(valid) + " indices per core",
         "at most 4096");
  }
  if (dst.columns() != valid * width) {
    fail(Rule::operand_shape, "dst", describe(dst),
         std::to_string(valid * width) + " elements per partition (indices times elements each)");
  }
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef& src = inst.tensor(kSrcBuffer);
  const std::int64_t width = elements_per_index(inst), valid = valid_indices(inst);
  const auto index = ctx.load_bits(inst.tensor(kIndex));
  const auto in = ctx.load_raw(src);
  const auto size = static_cast<std::int64_t>(size_bytes(src.dtype));
  const auto out = ctx.make<std::byte>(in.rows, valid * width * size);
  const auto at_of = [&](std::int64_t core, std::int64_t k) {
    return index.row(core + k % kCorePartitions)[k / kCorePartitions];
  };
  for (std::int64_t k = 0; k < valid; ++k) {
    for (std::int64_t core = 0; core < in.rows; core += kCorePartitions) {
      const std::int64_t at = at_of(core, k);
      if (at + width > src.columns()) {
        fail(Rule::index_out_of_bounds,
             "index " + std::to_string(k) + " of partitions from " + std::to_string(core),
             std::to_string(at),
             "an element offset that leaves " + std::to_string(width) + " of " +
                 std::to_string(src.columns()) + " elements");
      }
    }
  }
  const auto list = ctx.make<std::uint32_t>(1, valid);
  for (std::int64_t core = 0; core < in.rows; core += kCorePartitions) {
    for (std::int64_t k = 0; k < valid; ++k) list.data[k] = at_of(core, k);
    for (std::int64_t p = core; p < core + kCorePartitions; ++p) {
      gather_pieces(in.row(p), size, list.data, valid, width * size, out.row(p));
    }
  }
  ctx.store_raw(inst.tensor(kDst), out);
}

void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  Part part = default_part(inst, machine);
  part.elements = inst.tensor(kDst).columns();
  part.columns = static_cast<std::int32_t>(elements_per_index(inst));
  part.rows = static_cast<std::int32_t>(valid_indices(inst));
  part.sbuf_read_bytes = inst.tensor(kIndex).bytes() + inst.tensor(kDst).bytes();
  out.parts.push_back(part);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "local_gather",
    .doc = "Gathers elements with one list of indices per 16 partitions.",
    .semantics =
        "core c of 16 partitions: idx[k] = index[16c + k%16, k/16]; dst[p, k*E + e] = "
        "src_buffer[p, idx[k] + e] for its partitions p and e < E = num_elem_per_idx; an index out "
        "of range is an error (documented as undefined)",
    .cost =
        "150 + num_valid_indices*num_elem_per_idx/C, C = ((28 + t*E)/(t*E)) / min(4/dtype size, "
        "E), t = 4",
    .sources =
        "nki.isa.local_gather; 2.26 cost notes (as printed; dividing by C looks like a slip)",
    .engines = kGpSimdOnly,
    .params = kParams,
    .opcode = Opcode::kLOCAL_GATHER,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .moves = OpSpec::Moves::kGathers,
};

}  // namespace nkisim::isa::ops::local_gather
