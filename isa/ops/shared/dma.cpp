// Implements what DMA instructions share: descriptor mode, triggering engine, pieces, stored
// values.
#include "isa/ops/shared/dma.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace nkisim::isa {
namespace {

// Elements in the longest contiguous piece every row-major walk of the operand is made of. A
// stretch over all dimensions in HBM continues across rows.
std::int64_t contiguous_elements(const TensorRef& ref) {
  std::int64_t run = 1;
  const bool rows_apart = find_dynamic(ref, DynamicOffset::Kind::kVector) != nullptr;
  const auto& dims = ref.pattern->dims;
  const std::size_t first = rows_apart && dims.size() > 1 ? 1 : 0;
  for (std::size_t d = dims.size(); d-- > first;) {
    if (dims[d].num == 1) continue;
    if (dims[d].step != run) break;
    run *= dims[d].num;
  }
  return run;
}

// Bytes from one contiguous piece of a row to the next; 0 where a row is one.
std::int64_t step_bytes(const TensorRef& ref) {
  std::int64_t run = 1;
  const auto& dims = ref.pattern->dims;
  for (std::size_t d = dims.size(); d-- > 1;) {
    if (dims[d].num == 1) continue;
    if (dims[d].step != run) return std::abs(dims[d].step) * size_bytes(ref.dtype);
    run *= dims[d].num;
  }
  return 0;
}

// True where pieces on chip begin at no multiple of their length from each other.
bool lies_unevenly(const TensorRef& ref) {
  const std::int64_t piece = contiguous_elements(ref);
  return ref.on_chip() &&
         std::any_of(ref.pattern->dims.begin(), ref.pattern->dims.end(), [&](const Dim& dim) {
           return dim.num > 1 && std::abs(dim.step) > piece && dim.step % piece != 0;
         });
}

}  // namespace

DmaRequest dma_request(std::initializer_list<const TensorRef*> operands, DgeMode mode) {
  DmaRequest request{.mode = mode};
  for (const TensorRef* ref : operands) {
    request.dynamic |= ref->dynamic != nullptr;
    request.gather |= find_dynamic(*ref, DynamicOffset::Kind::kVector) != nullptr;
    request.cast |= ref->dtype != (*operands.begin())->dtype;
  }
  return request;
}

DgeMode resolve_dge(const DmaRequest& request, Engine engine, const Machine& machine) {
  if (request.mode != DgeMode::kUnknown) return request.mode;
  if (engine == Engine::kGpSimd || request.gather) return DgeMode::kSwdge;
  if (machine.generation < Generation::kV3 || request.cast) return DgeMode::kNone;
  return DgeMode::kHwdge;
}

Engine pick_dma_engine(const DmaRequest& request, const Machine& machine) {
  if (request.mode == DgeMode::kSwdge || request.gather) return Engine::kGpSimd;
  if (request.mode != DgeMode::kUnknown) return Engine::kSync;
  const bool cast = machine.generation >= Generation::kV3 && request.cast;
  return request.dynamic || cast ? Engine::kGpSimd : Engine::kSync;
}

void check_dge(const DmaRequest& request, Engine engine, const Machine& machine) {
  const std::string engine_name(name(engine));
  // The DGE guide has indirect swdge from NeuronCore-v3 on; SDK 2.20, of trn1's time, has indirect
  // loads and stores of nl.load and nl.store, whose descriptors the compiler provides for.
  if (request.gather && request.mode == DgeMode::kSwdge && machine.generation < Generation::kV3) {
    fail(Rule::not_on_target, "dge_mode swdge with a vector_offset is not available on " +
                                  std::string(machine.target) +
                                  "; trn2 is the first target that has it");
  }
  switch (resolve_dge(request, engine, machine)) {
    case DgeMode::kHwdge:
      if (machine.generation < Generation::kV3) {
        fail(Rule::not_on_target, "dge_mode hwdge is not available on " +
                                      std::string(machine.target) +
                                      "; trn2 is the first target that has it");
      }
      if (request.gather)
        fail(Rule::vector_offset, "dge_mode hwdge cannot use a vector_offset; swdge is required");
      if (request.cast)
        fail(Rule::dge_mode, "dge_mode hwdge cannot cast: src and dst must have the same dtype");
      if (engine == Engine::kGpSimd)
        fail(Rule::engine_operand, "engine", engine_name, "sync or scalar for hwdge");
      break;
    case DgeMode::kSwdge:
      if (engine != Engine::kGpSimd)
        fail(Rule::engine_operand, "engine", engine_name, "gpsimd for swdge");
      break;
    default:
      if (request.dynamic) {
        fail(Rule::dge_mode,
             "dge_mode none cannot use an address that is known only at run time; swdge" +
                 std::string(machine.generation < Generation::kV3 ? "" : " or hwdge") +
                 " is required");
      }
      break;
  }
}

void check_priority(const Inst& inst, int param, const Machine& machine) {
  if (!inst.has(param)) return;
  if (machine.generation < Generation::kV4) {
    fail(Rule::not_on_target, "priority is not available on " + std::string(machine.target) +
                                  "; trn3 is the first target that has it");
  }
  const std::int64_t p = inst.integer(param);
  if (p < 0 || p > 3) fail(Rule::argument_value, "priority", std::to_string(p), "0 to 3");
}

// Boundaries of both sides cut the element order; where they coincide they count once.
Pieces dma_pieces(const TensorRef& src, const TensorRef& dst) {
  const std::int64_t total = dst.elements();
  const std::int64_t s = contiguous_elements(src), d = contiguous_elements(dst);
  const std::int64_t size = std::max(size_bytes(src.dtype), size_bytes(dst.dtype));
  const std::int64_t both = std::lcm(s, d);
  const std::int64_t count = total / s + total / d - (total + both - 1) / both;
  return {std::max<std::int64_t>(count, 1), std::min({s, d, total}) * size};
}

void expand_dma(const Inst& inst, const TensorRef& src, const TensorRef& dst, DgeMode mode,
                Expansion& out) {
  const Pieces pieces = dma_pieces(src, dst);
  const DmaRequest request = dma_request({&src, &dst}, mode);
  Part trigger{
      .opcode = mode == DgeMode::kNone ? Opcode::kPSEUDO_DMA_TRIGGER : Opcode::kDMA_DIRECT2D,
      .unit = unit_of(inst.engine),
      .dtype = src.dtype,
      .elements = pieces.count};
  if (request.dynamic) trigger.features |= kFeatDynamic;
  if (request.gather) trigger.features |= kFeatIndirect;
  out.parts.push_back(trigger);
  out.is_dma = true;
  out.dma = {.dge = mode,
             .src = src.space,
             .dst = dst.space,
             .bytes = std::max(src.bytes(), dst.bytes()),
             .descriptors = pieces.count,
             .descriptor_bytes = pieces.bytes,
             .rows = dst.on_chip() ? dst.rows() : src.rows(),
             .element_bytes = size_bytes(dst.dtype),
             .compute = request.cast,
             .indirect = request.gather,
             .scattered = !dst.on_chip() && contiguous_elements(dst) < dst.elements(),
             .dynamic = request.dynamic,
             .uneven = lies_unevenly(dst),
             .step_bytes = src.on_chip() ? 0 : step_bytes(src)};
}

void move_bytes(std::int64_t bytes, DmaWork& dma) {
  if (dma.bytes > 0) {
    const double times = static_cast<double>(bytes) / static_cast<double>(dma.bytes);
    dma.descriptors =
        static_cast<std::int64_t>(std::ceil(static_cast<double>(dma.descriptors) * times));
  }
  dma.bytes = bytes;
}

void dma_store(const TensorRef& dst, const Tile<std::byte>& raw, const std::vector<bool>& dropped,
               OpContext& ctx) {
  ctx.undefine_repeated(dst, raw);
  if (std::find(dropped.begin(), dropped.end(), true) == dropped.end()) {
    ctx.store_raw(dst, raw);
    return;
  }
  const Tile<std::uint8_t> keep = ctx.make<std::uint8_t>(dst.rows(), dst.columns());
  const auto rows = static_cast<std::int64_t>(dropped.size());
  const std::int64_t per_row = keep.size() / rows;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::fill_n(keep.data + r * per_row, per_row,
                static_cast<std::uint8_t>(dropped[static_cast<std::size_t>(r)] ? 0 : 1));
  }
  ctx.store_raw_where(dst, raw, keep);
}

// Between int32 and int64, into dst's dtype.
static void cast_integers(const Tile<std::byte>& given, const TensorRef& dst, std::byte* out,
                          OpContext& ctx) {
  using Narrow = std::numeric_limits<std::int32_t>;
  const std::byte* in = given.data;
  for (std::size_t i = 0; i < static_cast<std::size_t>(dst.elements()); ++i) {
    std::int32_t narrow = 0;
    std::int64_t wide = 0;
    if (dst.dtype == Dtype::kInt64) {
      std::memcpy(&narrow, in + i * sizeof narrow, sizeof narrow);
      wide = narrow;
      std::memcpy(out + i * sizeof wide, &wide, sizeof wide);
    } else {
      std::memcpy(&wide, in + i * sizeof wide, sizeof wide);
      narrow =
          static_cast<std::int32_t>(std::clamp<std::int64_t>(wide, Narrow::min(), Narrow::max()));
      if (const auto real = static_cast<float>(wide); narrow != wide) ctx.watch(dst, &real, 1, i);
      std::memcpy(out + i * sizeof narrow, &narrow, sizeof narrow);
    }
  }
}

// True if no address is found at run time and the transfer overwrites none of its later sources.
static bool moves_rows(const TensorRef& dst, const TensorRef& src, OpContext& ctx) {
  return dst.dtype == src.dtype && dst.dynamic == nullptr && src.dynamic == nullptr &&
         dst.tensor != src.tensor && dst.rows() == src.rows() && !ctx.comes_back(dst);
}

void dma_move(const TensorRef& dst, const TensorRef& src, bool skip, OpContext& ctx) {
  ctx.set_skip_out_of_bounds(skip);
  if (moves_rows(dst, src, ctx)) return ctx.copy_raw(dst, src);
  if (src.dtype == dst.dtype) {
    const Tile<std::byte> raw = ctx.load_raw(src);
    const std::vector<bool> dropped = ctx.skipped_rows();
    ctx.undefine_overlap(dst, src, raw);
    dma_store(dst, raw, dropped, ctx);
    return;
  }
  const bool wide = src.dtype == Dtype::kInt64 || dst.dtype == Dtype::kInt64;
  const Tile<std::byte> given = wide ? ctx.load_raw(src) : Tile<std::byte>{};
  const Tile<float> values = wide ? Tile<float>{} : ctx.load(src);
  const std::vector<bool> dropped = ctx.skipped_rows();
  Tile<std::byte> raw;
  if (wide) {
    raw = ctx.make<std::byte>(dst.rows(), dst.columns() * size_bytes(dst.dtype));
    cast_integers(given, dst, raw.data, ctx);
  } else {
    raw = ctx.cast(dst, values);
  }
  ctx.undefine_overlap(dst, src, raw);
  dma_store(dst, raw, dropped, ctx);
}

}  // namespace nkisim::isa
