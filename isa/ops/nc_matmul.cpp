// nc_matmul: matrix product stationary.T @ moving on the tensor engine, accumulated in PSUM.
#include <algorithm>
#include <utility>

#include "isa/machine/gemm.hpp"
#include "isa/ops/shared/tensor_engine.hpp"

namespace nkisim::isa::ops::nc_matmul {
namespace {

enum {
  kDst,
  kStationary,
  kMoving,
  kStationaryOneZero,
  kMovingOneZero,
  kIsTranspose,
  kAccumulate,
  kTilePosition,
  kTileSize,
  kPerfMode
};

constexpr Dtypes kInputs = {Dtype::kFloat32,      Dtype::kTfloat32,   Dtype::kBfloat16,
                            Dtype::kFloat16,      Dtype::kFloat8E3m4, Dtype::kFloat8E4m3,
                            Dtype::kFloat8E4m3fn, Dtype::kFloat8E5m2};
constexpr Dtypes kFp8 = {Dtype::kFloat8E4m3, Dtype::kFloat8E4m3fn, Dtype::kFloat8E5m2};
constexpr Dtypes kIndirectDtypes = kFp8 | Dtypes{Dtype::kFloat16, Dtype::kBfloat16};
constexpr Dtypes kOutputs = kInputs | Dtypes{Dtype::kInt16, Dtype::kUint16};

constexpr std::array<std::string_view, 2> kPerfModes = {"none", "double_row"};

constexpr std::array<Param, 10> kParams = {{
    {.name = "dst",
     .kind = ParamKind::kOut,
     .spaces = kPsumOnly,
     .dtypes = kOutputs,
     .doc = "[M, N] in PSUM: float32; trn3 also bfloat16; in transpose mode from trn2 on also the "
            "16-bit dtype of the input",
     .indirect = true,
     .one_bank = true},
    {.name = "stationary",
     .kind = ParamKind::kIn,
     .spaces = kSbufOnly,
     .dtypes = kInputs,
     .doc = "[K, M], or [K, 2, M] in double_row mode; K and M at most 128",
     .indirect = true},
    {.name = "moving",
     .kind = ParamKind::kIn,
     .spaces = kSbufOnly,
     .dtypes = kInputs,
     .doc = "[K, N], or [K, 2, N] in double_row mode; N at most 512 (trn3: 4096, or 8192 into "
            "bfloat16)",
     .indirect = true},
    {.name = "is_stationary_onezero",
     .kind = ParamKind::kBool,
     .optional = true,
     .doc = "stationary holds only 0 and 1: one float32 pass instead of two, at twice the rate"},
    {.name = "is_moving_onezero",
     .kind = ParamKind::kBool,
     .optional = true,
     .doc = "moving holds only 0 and 1: float32 passes at twice the rate"},
    {.name = "is_transpose",
     .kind = ParamKind::kBool,
     .optional = true,
     .doc = "transpose mode: moving is an identity and bits move unchanged (trn1: a label only)"},
    {.name = "accumulate",
     .kind = ParamKind::kBool,
     .optional = true,
     .doc = "true adds to dst, false or absent overwrites it"},
    {.name = "tile_position",
     .kind = ParamKind::kIntList,
     .optional = true,
     .doc = "(start_row, start_column) on the array"},
    {.name = "tile_size",
     .kind = ParamKind::kIntList,
     .optional = true,
     .doc = "(row_size, column_size): 128, 64, or 32 (trn2 and later)"},
    {.name = "perf_mode",
     .kind = ParamKind::kEnum,
     .optional = true,
     .choices = kPerfModes,
     .doc = "double_row: two fp8 rows per cycle (trn2 and later)"},
}};

bool is_double_row(const Inst& inst) { return inst.integer(kPerfMode) == 1; }
// True if a product takes several passes through the array.
bool takes_passes(const Inst& inst) {
  return inst.tensor(kStationary).dtype == Dtype::kFloat32 ||
         inst.tensor(kMoving).dtype == Dtype::kFloat32;
}
bool is_wide(Dtype d) { return d == Dtype::kFloat32 || d == Dtype::kTfloat32; }

// Native transpose mode moves bits; before v3 the flag only labels the instruction.
bool moves_bits(const Inst& inst, const Machine& machine) {
  return inst.flag(kIsTranspose) && machine.generation >= Generation::kV3;
}

struct Shape {
  std::int64_t k = 0, m = 0, n = 0;
};

Shape shape_of(const Inst& inst) {
  const TensorRef &st = inst.tensor(kStationary), &mv = inst.tensor(kMoving);
  const std::int64_t pair = is_double_row(inst) ? 2 : 1;
  return {st.rows(), st.columns() / pair, mv.columns() / pair};
}

void check_dtypes(const Inst& inst, const Machine& machine) {
  const TensorRef &dst = inst.tensor(kDst), &st = inst.tensor(kStationary),
                  &mv = inst.tensor(kMoving);
  if (is_wide(st.dtype) != is_wide(mv.dtype)) {
    fail(Rule::dtypes_differ, "moving",
         std::string(name(mv.dtype)) + " with stationary " + std::string(name(st.dtype)),
         "both float32 or tfloat32, or neither");
  }
  const auto has = [&](Dtype d) { return st.dtype == d || mv.dtype == d; };
  if (has(Dtype::kFloat8E4m3fn) && machine.generation < Generation::kV4) {
    fail(Rule::not_on_target, "float8_e4m3fn is not available in nc_matmul on " +
                                  std::string(machine.target) +
                                  "; trn3 is the first target that has it");
  }
  if (has(Dtype::kFloat8E4m3) && has(Dtype::kFloat8E4m3fn)) {
    fail(Rule::dtypes_differ,
         "stationary and moving mix float8_e4m3 and float8_e4m3fn; one of the two is required");
  }
  if (dst.dtype == Dtype::kFloat32) return;
  if (dst.dtype == Dtype::kBfloat16 && machine.generation >= Generation::kV4) return;
  if (!moves_bits(inst, machine)) {
    fail(Rule::operand_dtype, "dst", std::string(name(dst.dtype)),
         machine.generation >= Generation::kV4
             ? "float32 or bfloat16"
             : "float32 on " + std::string(machine.target) +
                   (machine.generation == Generation::kV3 ? " outside transpose mode" : ""));
  }
}

void check_sizes(const Inst& inst, const Machine& machine, const ArrayTile& tile) {
  const TensorRef &dst = inst.tensor(kDst), &st = inst.tensor(kStationary),
                  &mv = inst.tensor(kMoving);
  const Shape s = shape_of(inst);
  check_same_rows("stationary", st, "moving", mv);
  if (s.k > tile.rows) {
    fail(Rule::partition_count, "stationary", describe(st),
         "at most " + std::to_string(tile.rows) + " partitions (K)");
  }
  if (s.m > tile.columns) {
    fail(Rule::operand_size, "stationary", describe(st),
         "at most " + std::to_string(tile.columns) + " columns (M)");
  }
  const int limit =
      dst.dtype == Dtype::kFloat32 ? machine.matmul_moving_max : machine.matmul_moving_max_bf16;
  if (s.n > limit) {
    fail(Rule::operand_size, "moving", describe(mv),
         "at most " + std::to_string(limit) + " columns (N) on " + std::string(machine.target));
  }
  if (dst.rows() != s.m || dst.columns() != s.n) {
    fail(Rule::operand_shape, "dst", describe(dst),
         "[" + std::to_string(s.m) + " x " + std::to_string(s.n) +
             "], the columns of stationary by those of moving,");
  }
}

void check_double_row(const Inst& inst, const Machine& machine, const ArrayTile& tile) {
  if (machine.generation < Generation::kV3) {
    fail(Rule::not_on_target, "perf_mode double_row is not available on " +
                                  std::string(machine.target) +
                                  "; trn2 is the first target that has it");
  }
  if (inst.flag(kIsTranspose))
    fail(Rule::arguments_exclude, "perf_mode double_row cannot be combined with is_transpose");
  if (tile.columns != kArrayColumns) {
    fail(Rule::arguments_exclude, "perf_mode double_row cannot be combined with column tiling");
  }
  for (int i : {kStationary, kMoving}) {
    const TensorRef& ref = inst.tensor(i);
    const std::string_view operand = kParams[static_cast<std::size_t>(i)].name;
    check_dtype(operand, ref, kFp8, "float8_e4m3, float8_e5m2 or float8_e4m3fn in double_row mode");
    if (ref.pattern->dims.size() < 2 || ref.pattern->dims.front().num != 2) {
      fail(Rule::double_row_shape, operand, describe(ref), "[K, 2, columns] in double_row mode");
    }
  }
}

void check_indirect(const Inst& inst, const ArrayTile& tile) {
  bool any = false;
  for (int i : {kDst, kStationary, kMoving}) {
    if (find_dynamic(inst.tensor(i), DynamicOffset::Kind::kIndirect) == nullptr) continue;
    any = true;
    const std::string_view operand = kParams[static_cast<std::size_t>(i)].name;
    if (i == kMoving && inst.flag(kIsTranspose)) {
      fail(Rule::arguments_exclude, "moving cannot use tensor indirection with is_transpose");
    }
    if (i != kDst) {
      check_dtype(operand, inst.tensor(i), kIndirectDtypes,
                  "float16, bfloat16 or fp8 with tensor indirection");
    }
  }
  if (any) check_indirect_product(inst.tensor(kDst), inst.tensor(kStationary), tile);
}

void check(const Inst& inst, const Machine& machine) {
  const ArrayTile tile = array_tile(inst, kTilePosition, kTileSize, machine);
  check_dtypes(inst, machine);
  if (is_double_row(inst)) check_double_row(inst, machine, tile);
  check_sizes(inst, machine, tile);
  check_indirect(inst, tile);
  if (!moves_bits(inst, machine)) return;
  const TensorRef &dst = inst.tensor(kDst), &st = inst.tensor(kStationary);
  check_transpose_dst(st, dst);
  if (inst.flag(kAccumulate) && dst.dtype != Dtype::kFloat32) {
    fail(Rule::operand_dtype, "accumulate in transpose mode into " + std::string(name(dst.dtype)) +
                                  "; float32 is required to accumulate");
  }
}

// Row of `moving` that holds the single 1 of each column, -1 for a column of zeros.
std::vector<std::int64_t> identity_rows(const TensorRef& moving, OpContext& ctx) {
  const Tile<float> mv = ctx.load(moving);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(mv.columns), -1);
  for (std::int64_t k = 0; k < mv.rows; ++k) {
    const float* row = mv.row(k);
    for (std::int64_t n = 0; n < mv.columns; ++n) {
      if (row[n] == 0.0F) continue;
      std::int64_t& at = rows[static_cast<std::size_t>(n)];
      if (row[n] != 1.0F || at >= 0) {
        fail(Rule::identity_required, "moving", "without a single 1 in column " + std::to_string(n),
             "an identity (or other 0/1 selection of rows) in transpose mode");
      }
      at = k;
    }
  }
  return rows;
}

// Operands that are said to hold only 0 and 1 save passes of float32: they must.
void check_zeros_and_ones(const Inst& inst, OpContext& ctx) {
  if (!takes_passes(inst)) return;
  for (const auto& [said, operand] :
       {std::pair{kStationaryOneZero, kStationary}, std::pair{kMovingOneZero, kMoving}}) {
    if (!inst.flag(said)) continue;
    const Tile<float> tile = ctx.load(inst.tensor(operand));
    const float *begin = tile.data, *end = begin + tile.size();
    const float* other = std::find_if(begin, end, [](float x) { return x != 0.0F && x != 1.0F; });
    if (other == end) continue;
    fail(Rule::argument_value, kParams[static_cast<std::size_t>(said)].name,
         "true, but an element of " + std::string(kParams[static_cast<std::size_t>(operand)].name) +
             " is " + std::to_string(*other),
         "0 and 1 alone in that operand, or false");
  }
}

void round_to_tf32(Tile<float> tile) {
  for (std::int64_t i = 0; i < tile.size(); ++i) {
    tile.data[i] = round_to(Dtype::kTfloat32, tile.data[i]);
  }
}

// In SBUF, and so apart from the result in PSUM, it stays where it is if its rows are dense.
// In double_row mode [K, 2, M] read row-major is [2K, M]: the pair of a row is added next to it.
MatmulOperand load_operand(const TensorRef& ref, bool double_row, OpContext& ctx) {
  const bool bf16 = ref.dtype == Dtype::kBfloat16;
  if ((bf16 || ref.dtype == Dtype::kFloat32) && ref.space == Space::kSbuf) {
    const OpContext::InPlace place = ctx.in_place(ref, false);
    if (place.data != nullptr)
      return {place.data, static_cast<std::ptrdiff_t>(place.pitch_bytes), bf16};
  }
  const Tile<float> tile = ctx.load(ref);
  if (ref.dtype == Dtype::kTfloat32) round_to_tf32(tile);
  return fp32_rows(tile.data, double_row ? tile.columns / 2 : tile.columns);
}

void multiply(const Inst& inst, const MatmulOperand& st, const MatmulOperand& mv, float* out,
              std::int64_t stride, bool accumulate) {
  const Shape s = shape_of(inst);
  const std::int64_t depth = is_double_row(inst) ? 2 * s.k : s.k;
  matmul(st, mv, out, stride, static_cast<int>(depth), static_cast<int>(s.m), static_cast<int>(s.n),
         accumulate, takes_passes(inst) ? Products::kRounded : Products::kExact);
}

void add_to(Tile<float> sum, const TensorRef& dst, OpContext& ctx) {
  const Tile<float> old = ctx.load(dst);
  apply(AluOp::kAdd, old.data, sum.data, sum.data, static_cast<std::size_t>(sum.size()));
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef& dst = inst.tensor(kDst);
  const bool accumulate = inst.flag(kAccumulate);
  check_dynamic_bank(dst, ctx);
  if (accumulate) check_can_accumulate(dst, ctx);
  check_zeros_and_ones(inst, ctx);
  if (moves_bits(inst, ctx.machine())) {
    const std::vector<std::int64_t> rows = identity_rows(inst.tensor(kMoving), ctx);
    if (!accumulate) return store_transposed(dst, inst.tensor(kStationary), rows, ctx);
  }
  const MatmulOperand st = load_operand(inst.tensor(kStationary), is_double_row(inst), ctx);
  const MatmulOperand mv = load_operand(inst.tensor(kMoving), is_double_row(inst), ctx);
  if (dst.dtype == Dtype::kFloat32) {  // straight into PSUM where its rows are dense
    if (accumulate) (void)ctx.in_place(dst, false);
    const auto place = ctx.in_place(dst, true);
    if (place.data != nullptr && place.pitch_bytes % 4 == 0 &&
        reinterpret_cast<std::uintptr_t>(place.data) % alignof(float) == 0) {
      multiply(inst, st, mv, reinterpret_cast<float*>(place.data), place.pitch_bytes / 4,
               accumulate);
      return;
    }
  }
  const Tile<float> sum = ctx.make<float>(dst.rows(), dst.columns());
  multiply(inst, st, mv, sum.data, sum.columns, false);
  if (accumulate) add_to(sum, dst, ctx);
  ctx.store(dst, sum);
}

// A float32 product takes two passes, LOW then HIGH weights; one where the weights are 0/1 (their
// low half is zero) or where transpose mode moves bits. A moving operand of 0 and 1 saves none.
// Either doubles the rate of a pass.
void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  const Shape s = shape_of(inst);
  const TensorRef &st = inst.tensor(kStationary), &mv = inst.tensor(kMoving);
  const bool fp32 = takes_passes(inst);
  const std::int64_t flops = 2 * s.k * s.m * s.n * (is_double_row(inst) ? 2 : 1);
  Pass pass{.stationary = &st,
            .moving = &mv,
            .dst = &inst.tensor(kDst),
            .load_operands = 1U << kStationary,
            .multiply_operands = 1U << kMoving | 1U << kDst,
            .rows = s.k,
            .columns = s.m,
            .elements = s.n,
            .flops = flops,
            .tile = array_tile(inst, kTilePosition, kTileSize, machine),
            .accumulate = inst.flag(kAccumulate)};
  if (fp32) pass.features |= kFeatFp32;
  if (size_bytes(st.dtype) == 1 && size_bytes(mv.dtype) == 1) pass.features |= kFeatFp8;
  if (inst.flag(kIsTranspose)) pass.features |= kFeatTranspose;
  if (is_double_row(inst)) pass.features |= kFeatDoubleRow;
  if (inst.flag(kStationaryOneZero) || inst.flag(kMovingOneZero)) pass.features |= kFeatOneZero;
  const std::array<const TensorRef*, 3> refs = {&st, &mv, pass.dst};
  for (const TensorRef* ref : refs) {
    if (find_dynamic(*ref, DynamicOffset::Kind::kIndirect) != nullptr) {
      pass.features |= kFeatIndirect;
    }
  }
  const bool two_passes = fp32 && !inst.flag(kStationaryOneZero) && !moves_bits(inst, machine);
  if (two_passes) {
    pass.features |= kFeatFp32LowPass;
    add_pass(pass, machine, out);
    pass.features &= ~static_cast<std::uint32_t>(kFeatFp32LowPass);
    pass.accumulate = true;  // the HIGH pass adds to the LOW one
  }
  add_pass(pass, machine, out);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "nc_matmul",
    .doc = "Matrix product stationary.T @ moving on the tensor engine, accumulated in PSUM.",
    .semantics =
        "dst[m,n] = (accumulate ? dst[m,n] : 0) + sum over k of stationary[k,m] * moving[k,n], "
        "in FP32, k in order (assumed); double_row sums both halves of [K, 2, .]; transpose mode "
        "(trn2 and later) moves bits: dst[m,n] = stationary[k,m] where moving[k,n] = 1",
    .cost =
        "LDWEIGHTS, then MATMUL: max(min(64, M), N) cycles; float32: twice that in each of two "
        "passes, once if an operand is 0/1; one pass if that is stationary or in transpose mode; "
        "double_row: as bfloat16",
    .sources =
        "nki.isa.nc_matmul; trainium_inferentia2_arch and trainium2_arch (tensor engine); 2.26 "
        "cost notes; profiler FP32 passes; 0/1 operands: flops and PSUM bytes of NKIBench's "
        "profiles (trn1). Assumed: order of the sum, one rounding per addition, exact FP32 "
        "products, a 0/1 selection as moving operand in transpose mode",
    .engines = kTensorOnly,
    .params = kParams,
    .opcode = Opcode::kMATMUL,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
};

}  // namespace nkisim::isa::ops::nc_matmul
