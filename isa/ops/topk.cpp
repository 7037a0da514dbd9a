// topk: the K largest values, with their positions, of each group of 16 partitions. Element i of a
// group is in partition i % 16, column i / 16 (the pages call this order a snake).
#include <algorithm>
#include <cmath>
#include <vector>

#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::topk {
namespace {

enum { kValDst, kIdxDst, kSrc, kN, kSorted };
constexpr std::int64_t kGroup = 16;  // partitions that share one snake
// The page of SDK 2.32 gives each partition all results; from 2.33 on they are a snake as well.
constexpr int kSnakeSince = 33;

constexpr std::array<Param, 5> kParams = {{
    {.name = "val_dst",
     .kind = ParamKind::kOut,
     .spaces = kSbufOnly,
     .dtypes = {Dtype::kBfloat16},
     .doc = "[P,K]"},
    {.name = "idx_dst",
     .kind = ParamKind::kOut,
     .spaces = kSbufOnly,
     .dtypes = {Dtype::kUint32},
     .doc = "[P,K]"},
    {.name = "src",
     .kind = ParamKind::kIn,
     .spaces = kSbufOnly,
     .dtypes = {Dtype::kBfloat16},
     .doc = "16-partition snake: element i at partition i%16, column i/16"},
    {.name = "n", .kind = ParamKind::kInt, .doc = "elements of the snake"},
    {.name = "sorted",
     .kind = ParamKind::kBool,
     .optional = true,
     .doc = "asks for an order; the results are ascending in any case (assumed)"},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef &values = inst.tensor(kValDst), &indices = inst.tensor(kIdxDst);
  const TensorRef& src = inst.tensor(kSrc);
  const std::int64_t n = inst.integer(kN), k = values.columns();
  if (src.rows() % kGroup != 0)
    fail(Rule::partition_count, "src", describe(src), "a multiple of 16 partitions");
  check_same_rows("src", src, "val_dst", values);
  check_same_shape("val_dst", values, "idx_dst", indices);
  if (n < 8 || n >= 65536) fail(Rule::argument_value, "n", std::to_string(n), "8 to 65535");
  if (k >= 32768 || k > n) {
    fail(Rule::operand_size, "val_dst", describe(values),
         "at most 32767 and at most n elements per partition");
  }
  if (src.columns() * kGroup < n) {
    fail(Rule::operand_size, "src", describe(src),
         std::to_string((n + kGroup - 1) / kGroup) +
             " columns or more for n = " + std::to_string(n));
  }
}

// The k largest of one group, ascending; among equals the lower positions win.
void select(const Tile<float>& x, std::int64_t first_row, std::int64_t n,
            std::vector<std::uint32_t>& order, std::int64_t k) {
  order.resize(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    order[static_cast<std::size_t>(i)] = static_cast<std::uint32_t>(i);
  }
  const auto value = [&](std::uint32_t i) { return x.row(first_row + i % kGroup)[i / kGroup]; };
  const auto before = [&](std::uint32_t a, std::uint32_t b) {
    const float va = value(a), vb = value(b);
    if (std::isnan(va) != std::isnan(vb)) return std::isnan(va);
    if (va > vb || va < vb) return va > vb;
    return a < b;
  };
  std::partial_sort(order.begin(), order.begin() + k, order.end(), before);
  std::reverse(order.begin(), order.begin() + k);
}

// Result j at partition j%16, column j/16; what is behind the k results is left as it is.
void eval_snake(const Inst& inst, OpContext& ctx) {
  const auto x = ctx.load(inst.tensor(kSrc));
  const std::int64_t k = inst.tensor(kValDst).columns();
  constexpr auto kValue = static_cast<std::int64_t>(sizeof(std::uint16_t)),
                 kIndex = static_cast<std::int64_t>(sizeof(std::uint32_t));
  const auto values = ctx.make<std::byte>(x.rows, k * kValue);
  const auto indices = ctx.make<std::byte>(x.rows, k * kIndex);
  const auto mask = ctx.make<std::uint8_t>(x.rows, k);
  std::fill_n(mask.data, mask.size(), std::uint8_t{0});
  std::vector<std::uint32_t> order;
  for (std::int64_t group = 0; group < x.rows; group += kGroup) {
    select(x, group, inst.integer(kN), order, k);
    for (std::int64_t j = 0; j < k; ++j) {
      const std::uint32_t i = order[static_cast<std::size_t>(j)];
      const std::int64_t row = group + j % kGroup, column = j / kGroup;
      mask.row(row)[column] = 1;
      encode_one(Dtype::kBfloat16, x.row(group + i % kGroup)[i / kGroup],
                 values.row(row) + column * kValue);
      encode_bits(Dtype::kUint32, &i, 1, indices.row(row) + column * kIndex);
    }
  }
  ctx.store_raw_where(inst.tensor(kValDst), values, mask);
  ctx.store_raw_where(inst.tensor(kIdxDst), indices, mask);
}

void eval(const Inst& inst, OpContext& ctx) {
  if (ctx.program().sdk() >= kSnakeSince) return eval_snake(inst, ctx);
  const auto x = ctx.load(inst.tensor(kSrc));
  const std::int64_t k = inst.tensor(kValDst).columns();
  const auto values = ctx.make<float>(x.rows, k);
  const auto indices = ctx.make<std::uint32_t>(x.rows, k);
  std::vector<std::uint32_t> order;
  for (std::int64_t group = 0; group < x.rows; group += kGroup) {
    select(x, group, inst.integer(kN), order, k);
    for (std::int64_t p = group; p < group + kGroup; ++p) {
      for (std::int64_t j = 0; j < k; ++j) {
        const std::uint32_t i = order[static_cast<std::size_t>(j)];
        indices.row(p)[j] = i;
        values.row(p)[j] = x.row(group + i % kGroup)[i / kGroup];
      }
    }
  }
  ctx.store(inst.tensor(kValDst), values);
  ctx.store_bits(inst.tensor(kIdxDst), indices);
}

// elements = n and columns = K: the documented cost needs both.
void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  Part part = default_part(inst, machine);
  part.elements = inst.integer(kN);
  part.columns = static_cast<std::int32_t>(inst.tensor(kValDst).columns());
  out.parts.push_back(part);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "topk",
    .doc = "The K largest values, with their positions, of each 16-partition snake.",
    .semantics =
        "per group of 16 partitions: the K largest of elements 0..n-1 of src (element i at "
        "partition i%16, column i/16) ascending (assumed), with their positions; result j at "
        "partition j%16, column j/16 (before SDK 2.33: all on each of the 16 partitions); among "
        "equals the lower positions win (assumed)",
    .cost = "4n + K",
    .sources = "nki.isa.topk (SDK 2.32; layout of the results: SDK 2.33)",
    .engines = kGpSimdOnly,
    .params = kParams,
    .opcode = Opcode::kTOPK,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
};

}  // namespace nkisim::isa::ops::topk
