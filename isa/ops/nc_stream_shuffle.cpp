// nc_stream_shuffle: moves partitions within each quadrant of 32.
#include <algorithm>
#include <cstring>

#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::nc_stream_shuffle {
namespace {

enum { kDst, kSrc, kShuffleMask };
constexpr std::int64_t kKeep = 255;

constexpr std::array<Param, 3> kParams = {{
    {.name = "dst",
     .kind = ParamKind::kInOut,
     .spaces = kOnChip,
     .dtypes = kAnyDtype,
     .doc = "keeps its partitions where the mask says 255"},
    {.name = "src", .kind = ParamKind::kIn, .spaces = kOnChip, .dtypes = kAnyDtype},
    {.name = "shuffle_mask",
     .kind = ParamKind::kIntList,
     .doc = "32 source partitions within the quadrant, or 255"},
}};

// Start partition legal for the quadrants the instruction activates, which src and dst share.
void check_active_start(std::string_view operand, const TensorRef& ref, int quadrants) {
  const int start = ref.partition;
  const bool legal =
      start == 0 || (quadrants == 2 && start == 64) || (quadrants == 1 && start % kQuadrant == 0);
  if (legal) return;
  fail(Rule::start_partition, operand, "at partition " + std::to_string(start),
       quadrants > 2    ? "start partition 0 (96 or 128 active partitions)"
       : quadrants == 2 ? "start partition 0 or 64 (64 active partitions)"
                        : "start partition 0, 32, 64 or 96 (32 active partitions)");
}

void check_mask(const IntList& mask, const TensorRef& dst, const TensorRef& src) {
  if (mask.size() != kQuadrant) {
    fail(Rule::shuffle_mask, "shuffle_mask", std::to_string(mask.size()) + " entries",
         "32 entries");
  }
  for (std::int64_t m : mask) {
    if ((m >= 0 && m < kQuadrant) || m == kKeep) continue;
    fail(Rule::shuffle_mask, "shuffle_mask", "an entry of " + std::to_string(m),
         "0 to 31, or 255 to keep");
  }
  for (std::int64_t r = 0; r < dst.rows(); ++r) {
    const std::int64_t m = mask[static_cast<std::size_t>(r % kQuadrant)];
    const std::int64_t from = r / kQuadrant * kQuadrant + m;
    if (m == kKeep || from < src.rows()) continue;
    fail(Rule::shuffle_mask, "shuffle_mask",
         "reading partition " + std::to_string(from) + " of src",
         "entries within its " + std::to_string(src.rows()) + " partitions");
  }
}

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef &dst = inst.tensor(kDst), &src = inst.tensor(kSrc);
  if (dst.dtype != src.dtype) {
    fail(Rule::dtypes_differ, "dst", std::string(name(dst.dtype)),
         "src's dtype, " + std::string(name(src.dtype)) + ",");
  }
  if (dst.columns() != src.columns()) {
    fail(Rule::operand_shape, "dst", describe(dst),
         "the elements per partition of src, " + describe(src) + ",");
  }
  const auto active = static_cast<int>((std::max(dst.rows(), src.rows()) + kQuadrant - 1));
  check_active_start("src", src, active / kQuadrant);
  check_active_start("dst", dst, active / kQuadrant);
  check_mask(inst.list(kShuffleMask), dst, src);
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef& dst = inst.tensor(kDst);
  const IntList& mask = inst.list(kShuffleMask);
  const auto in = ctx.load_raw(inst.tensor(kSrc));
  const auto out = ctx.make<std::byte>(dst.rows(), in.columns);
  const auto write = ctx.make<std::uint8_t>(dst.rows(), dst.columns());
  for (std::int64_t r = 0; r < out.rows; ++r) {
    const std::int64_t m = mask[static_cast<std::size_t>(r % kQuadrant)];
    std::fill_n(write.row(r), write.columns, m == kKeep ? 0 : 1);
    if (m == kKeep) continue;
    std::memcpy(out.row(r), in.row(r / kQuadrant * kQuadrant + m),
                static_cast<std::size_t>(in.columns));
  }
  ctx.store_raw_where(dst, out, write);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "nc_stream_shuffle",
    .doc = "Moves partitions within each quadrant of 32.",
    .semantics =
        "dst[32q+i] = src[32q+shuffle_mask[i]] for every quadrant q, unless shuffle_mask[i] is "
        "255; bits untouched",
    .cost = "max(64, N)",
    .sources = "nki.isa.nc_stream_shuffle; 2.26 cost notes",
    .engines = kVectorOnly,
    .params = kParams,
    .opcode = Opcode::kSTREAM_SHUFFLE,
    .check = check,
    .eval = eval,
    .expand = expand_over_dst,
    .moves = OpSpec::Moves::kRearranges,
};

}  // namespace nkisim::isa::ops::nc_stream_shuffle
