// Implements what the tensor engine's instructions share: tiles of the PE array, and transposes.
#include "isa/ops/shared/tensor_engine.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace nkisim::isa {
namespace {

std::string pair(const IntList& list) {
  std::string text = "(";
  for (std::size_t i = 0; i < list.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(list[i]);
  }
  return text + ")";
}

const IntList* given_list(const Inst& inst, int param) {
  return inst.has(param) && !inst.list(param).empty() ? &inst.list(param) : nullptr;
}

bool legal_size(std::int64_t size, const Machine& machine) {
  return size == 128 || size == 64 || (size == 32 && machine.generation >= Generation::kV3);
}

bool legal_start(std::int64_t start, std::int64_t size) {
  return start >= 0 && start % size == 0 && start + size <= kArrayRows;
}

}  // namespace

ArrayTile array_tile(const Inst& inst, int position_param, int size_param, const Machine& machine) {
  const IntList* position = given_list(inst, position_param);
  const IntList* size = given_list(inst, size_param);
  if (position == nullptr && size == nullptr) return {};
  if (position == nullptr || size == nullptr) {
    fail(Rule::tile_position,
         "only one of tile_position and tile_size is given; both or neither is required");
  }
  if (position->size() != 2)
    fail(Rule::tile_position, "tile_position", pair(*position), "(start_row, start_column)");
  if (size->size() != 2)
    fail(Rule::tile_position, "tile_size", pair(*size), "(row_size, column_size)");
  if (!legal_size((*size)[0], machine) || !legal_size((*size)[1], machine)) {
    fail(Rule::tile_position, "tile_size", pair(*size),
         machine.generation < Generation::kV3 ? "64 or 128 each on " + std::string(machine.target)
                                              : "32, 64 or 128 each");
  }
  if (!legal_start((*position)[0], (*size)[0]) || !legal_start((*position)[1], (*size)[1])) {
    fail(Rule::tile_position, "tile_position", pair(*position),
         "a multiple of tile_size " + pair(*size) + " inside the 128 x 128 array");
  }
  return {(*position)[0], (*position)[1], (*size)[0], (*size)[1]};
}

void check_indirect_product(const TensorRef& dst, const TensorRef& stationary,
                            const ArrayTile& tile) {
  const DynamicOffset* scatter = find_dynamic(dst, DynamicOffset::Kind::kIndirect);
  const int start = stationary.partition;
  if (scatter != nullptr && scatter->index->partition != start) {
    fail(Rule::start_partition, "index of dst",
         "on partition " + std::to_string(scatter->index->partition),
         "partition " + std::to_string(start) + ", where stationary starts,");
  }
  if (tile.row_start != 0 || tile.column_start != 0) {
    fail(Rule::arguments_exclude,
         "tensor indirection cannot be combined with a tile_position other than (0, 0)");
  }
}

namespace {

// A stretch of a product's rows or columns that the array holds at once: where in the product, how
// many, and the array's first line for it.
struct ArrayBlock {
  std::int64_t from, size, line;
};

// Calls `fn` with each block of a product's `size` lines. Tiles of the array lie modulo its size;
// what is larger than it starts at its first line.
template <typename Fn>
void for_array_blocks(std::int64_t start, std::int64_t size, std::int64_t lines, Fn&& fn) {
  const std::int64_t line = start % lines;
  if (line + size <= lines) return fn(ArrayBlock{0, size, line});
  for (std::int64_t at = 0; at < size; at += lines) {
    fn(ArrayBlock{at, std::min(lines, size - at), 0});
  }
}

// Bytes of `part` of the `all` lines of an operand.
std::int64_t share_of(std::int64_t bytes, std::int64_t part, std::int64_t all) {
  return part == all ? bytes : bytes * part / all;
}

void add_array_block(const Pass& pass, const ArrayBlock& rows, const ArrayBlock& columns,
                     Expansion& out) {
  Part load{.opcode = Opcode::kLDWEIGHTS,
            .unit = Unit::kTensor,
            .features = pass.features,
            .dtype = pass.stationary->dtype,
            .partitions =
                static_cast<std::int32_t>(share_of(pass.stationary->rows(), rows.size, pass.rows)),
            .elements = columns.size,
            .rows = static_cast<std::int32_t>(rows.size),
            .columns = static_cast<std::int32_t>(columns.size),
            .row_start = static_cast<std::int32_t>(rows.line),
            .column_start = static_cast<std::int32_t>(columns.line)};
  Part multiply = load;
  load.operands = pass.load_operands;
  load.sbuf_read_bytes = share_of(share_of(pass.stationary->bytes(), rows.size, pass.rows),
                                  columns.size, pass.columns);
  if (pass.stationary->dynamic != nullptr) load.features |= kFeatDynamic;

  multiply.opcode = pass.multiply;
  multiply.unit = Unit::kTensorMatrix;
  multiply.elements = pass.elements;
  multiply.flops = share_of(share_of(pass.flops, rows.size, pass.rows), columns.size, pass.columns);
  multiply.operands = pass.multiply_operands;
  multiply.features |= kFeatDstPsum;
  if (pass.moving != nullptr) {
    multiply.dtype = pass.moving->dtype;
    multiply.sbuf_read_bytes = share_of(pass.moving->bytes(), rows.size, pass.rows);
    if (pass.moving->dynamic != nullptr) multiply.features |= kFeatDynamic;
  }
  multiply.psum_write_bytes = share_of(pass.dst->bytes(), columns.size, pass.columns);
  if (pass.accumulate || rows.from > 0) multiply.psum_read_bytes = multiply.psum_write_bytes;
  if (pass.dst->dynamic != nullptr) multiply.features |= kFeatDynamic;
  out.parts.push_back(load);
  out.parts.push_back(multiply);
}

}  // namespace

void add_pass(const Pass& pass, const Machine& machine, Expansion& out) {
  for_array_blocks(
      pass.tile.column_start, pass.columns, machine.pe_columns, [&](const ArrayBlock& columns) {
        for_array_blocks(
            pass.tile.row_start, pass.rows, machine.pe_rows,
            [&](const ArrayBlock& rows) { add_array_block(pass, rows, columns, out); });
      });
}

void check_dynamic_bank(const TensorRef& dst, OpContext& ctx) {
  if (dst.dynamic == nullptr || !has_bank_rule(ctx.program())) return;
  const Placement place = ctx.memory().place(dst);
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = 0;
  ctx.for_each_run(dst, [&](const OpContext::Run& run) {
    const std::int64_t begin = (run.data - place.region->data()) % place.pitch;
    const std::int64_t end = begin + run.step_bytes * (run.count - 1);
    first = std::min({first, begin, end});
    last = std::max({last, begin, end});
  });
  check_bank("dst", first, last + size_bytes(dst.dtype), ctx.machine());
}

void check_can_accumulate(const TensorRef& dst, OpContext& ctx) {
  if (ctx.machine().generation >= Generation::kV4) return;
  const Level level = ctx.level(Rule::psum_written_by_two_engines);
  if (level == Level::kOff) return;
  const std::int64_t byte = ctx.find_foreign(dst);
  if (byte < 0) return;
  const std::string added =
      level == Level::kError ? "" : " since SDK 2.32; before, and here, the product is added";
  ctx.report(level, Rule::psum_written_by_two_engines,
             "accumulate onto byte " + std::to_string(byte) + " of tensor " +
                 ctx.program().tensor(dst).name + ", which another engine wrote last; on " +
                 std::string(ctx.machine().target) +
                 " the first write of an accumulation must be a matmul with accumulate=False" +
                 added);
}

void check_transpose_dst(const TensorRef& data, const TensorRef& dst) {
  const int from = size_bytes(data.dtype), to = size_bytes(dst.dtype);
  if (dst.dtype == data.dtype && from != 1) return;
  if (is_float(data.dtype) && dst.dtype == Dtype::kFloat32) return;
  if (from == 1 && to == 2) return;
  // One element per partition has no step.
  if (from == 1 && dst.dtype == data.dtype &&
      (dst.columns() == 1 || std::abs(dst.pattern->inner_step()) == 2)) {
    return;
  }
  fail(Rule::operand_dtype, "dst", describe(dst),
       from == 1 ? "a 16-bit dtype (8-bit data is transposed into 16-bit elements), " +
                       std::string(name(data.dtype)) + " with a step of 2, or float32"
                 : std::string(name(data.dtype)) + (from == 4 ? "" : " or float32"));
}

namespace {

// Rows of `in` become columns of `out`, zeros where `source_rows` is negative. Blocks keep a line
// of each of their rows in the first-level cache. `From` may be narrower than `To`, which then has
// zeros above.
template <typename From, typename To>
void transpose_elements(const std::byte* in, std::int64_t in_pitch,
                        const std::vector<std::int64_t>& source_rows, std::byte* out,
                        std::int64_t out_pitch, std::int64_t out_rows) {
  constexpr std::int64_t kBlock = 64 / static_cast<std::int64_t>(sizeof(From));
  const auto n_size = static_cast<std::int64_t>(source_rows.size());
  for (std::int64_t n0 = 0; n0 < n_size; n0 += kBlock) {
    const std::int64_t n1 = std::min(n0 + kBlock, n_size);
    for (std::int64_t m0 = 0; m0 < out_rows; m0 += kBlock) {
      const std::int64_t m1 = std::min(m0 + kBlock, out_rows);
      for (std::int64_t n = n0; n < n1; ++n) {
        const std::int64_t k = source_rows[static_cast<std::size_t>(n)];
        const std::byte* from = in + std::max<std::int64_t>(k, 0) * in_pitch;
        std::byte* to = out + n * static_cast<std::int64_t>(sizeof(To));
        for (std::int64_t m = m0; m < m1; ++m) {
          From element{};
          if (k >= 0)
            std::memcpy(&element, from + m * std::int64_t{sizeof element}, sizeof element);
          const To wide = static_cast<To>(element);
          std::memcpy(to + m * out_pitch, &wide, sizeof wide);
        }
      }
    }
  }
}

using Transpose = void (*)(const std::byte*, std::int64_t, const std::vector<std::int64_t>&,
                           std::byte*, std::int64_t, std::int64_t);

// Elements of `from` and `to` bytes; a wider one loses its upper bytes.
Transpose transpose_of(std::int64_t from, std::int64_t to) {
  if (from == 8) return transpose_elements<std::uint64_t, std::uint64_t>;
  if (from == 1) {
    if (to == 1) return transpose_elements<std::uint8_t, std::uint8_t>;
    if (to == 2) return transpose_elements<std::uint8_t, std::uint16_t>;
    return transpose_elements<std::uint8_t, std::uint32_t>;
  }
  if (from == 2) {
    if (to == 1) return transpose_elements<std::uint16_t, std::uint8_t>;
    if (to == 2) return transpose_elements<std::uint16_t, std::uint16_t>;
    return transpose_elements<std::uint16_t, std::uint32_t>;
  }
  if (to == 1) return transpose_elements<std::uint32_t, std::uint8_t>;
  if (to == 2) return transpose_elements<std::uint32_t, std::uint16_t>;
  return transpose_elements<std::uint32_t, std::uint32_t>;
}

}  // namespace

void store_transposed(const TensorRef& dst, const TensorRef& stationary,
                      const std::vector<std::int64_t>& source_rows, OpContext& ctx) {
  const bool exact_value = dst.dtype == Dtype::kFloat32 && size_bytes(stationary.dtype) < 4 &&
                           is_float(stationary.dtype);
  const std::int64_t from = exact_value ? 4 : size_bytes(stationary.dtype);
  const std::int64_t to = size_bytes(dst.dtype);
  const std::int64_t columns = stationary.columns();
  const Transpose transpose = transpose_of(from, to);
  // In place where that is a run of bytes each and they are apart.
  const bool apart = stationary.space != dst.space;
  OpContext::InPlace in;
  if (!exact_value && apart) in = ctx.in_place(stationary, false);
  if (in.data == nullptr) {
    in = {exact_value ? reinterpret_cast<std::byte*>(ctx.load(stationary).data)
                      : ctx.load_raw(stationary).data,
          columns * from};
  }
  if (apart) {
    if (const OpContext::InPlace out = ctx.in_place(dst, true); out.data != nullptr) {
      transpose(in.data, in.pitch_bytes, source_rows, out.data, out.pitch_bytes, dst.rows());
      return;
    }
  }
  const auto out = ctx.make<std::byte>(dst.rows(), dst.columns() * to);
  transpose(in.data, in.pitch_bytes, source_rows, out.data, out.columns, dst.rows());
  ctx.store_raw(dst, out);
}

}  // namespace nkisim::isa
