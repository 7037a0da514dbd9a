// dma_compute: adds tensors element by element inside the DMA engines.
#include <algorithm>

#include "isa/ops/shared/dma.hpp"

namespace nkisim::isa::ops::dma_compute {
namespace {

enum { kDst, kSrcs, kReduceOp, kScales, kUniqueIndices, kOobMode };

constexpr std::size_t kMostSources = 16;

constexpr std::array<Param, 6> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kHbmOrSbuf, .gather = true},
    {.name = "srcs",
     .kind = ParamKind::kInList,
     .spaces = kHbmOrSbuf,
     .doc = "1 to 16 tensors of dst's element count; with a vector_offset exactly two, one of them "
            "dst",
     .gather = true},
    {.name = "reduce_op", .kind = ParamKind::kAlu, .doc = "add"},
    {.name = "scales", .kind = ParamKind::kIntList, .optional = true, .doc = "all 1"},
    {.name = "unique_indices",
     .kind = ParamKind::kBool,
     .optional = true,
     .doc = "true (absent): no index occurs twice"},
    {.name = "oob_mode",
     .kind = ParamKind::kEnum,
     .optional = true,
     .choices = kOobModes,
     .doc = "error (absent), or skip what an out-of-range index addresses"},
}};

const RefList& sources(const Inst& inst) { return *inst.arg(kSrcs).tensors; }

const DynamicOffset* gathered(const TensorRef& ref) {
  return find_dynamic(ref, DynamicOffset::Kind::kVector);
}

bool is_gather(const Inst& inst) {
  const RefList& srcs = sources(inst);
  return gathered(inst.tensor(kDst)) != nullptr ||
         std::any_of(srcs.begin(), srcs.end(),
                     [](const TensorRef* ref) { return gathered(*ref) != nullptr; });
}

DgeMode mode_of(const Inst& inst) { return is_gather(inst) ? DgeMode::kSwdge : DgeMode::kNone; }

Engine pick_engine(const Inst& inst, const Machine& /*machine*/) {
  return is_gather(inst) ? Engine::kGpSimd : Engine::kSync;
}

bool same_place(const TensorRef& a, const TensorRef& b) {
  const DynamicOffset *x = gathered(a), *y = gathered(b);
  const bool same_index = x == nullptr || y == nullptr
                              ? x == y
                              : x->index->tensor == y->index->tensor &&
                                    x->index->offset == y->index->offset && x->stride == y->stride;
  return a.tensor == b.tensor && a.offset == b.offset && a.partition == b.partition &&
         a.pattern == b.pattern && same_index;
}

void check_read_modify_write(const Inst& inst) {
  const RefList& srcs = sources(inst);
  const TensorRef& dst = inst.tensor(kDst);
  if (srcs.size() != 2) {
    fail(Rule::vector_offset, "srcs", "a list of " + std::to_string(srcs.size()),
         "exactly 2 sources with a vector_offset");
  }
  if (!same_place(*srcs[0], dst) && !same_place(*srcs[1], dst)) {
    fail(Rule::vector_offset, "neither source is dst; with a vector_offset one of the two must be");
  }
  if (!inst.flag(kUniqueIndices, true)) {
    fail(Rule::vector_offset, "unique_indices is false; true is required with a vector_offset");
  }
}

void check_static(std::string_view operand, const TensorRef& ref) {
  if (ref.dynamic == nullptr || gathered(ref) != nullptr) return;
  fail(Rule::run_time_address, operand, "at an address known only at run time",
       "a fixed address or a vector_offset");
}

bool adds_to(const Inst& inst) {
  const RefList& srcs = sources(inst);
  return std::any_of(srcs.begin(), srcs.end(),
                     [&](const TensorRef* src) { return same_place(*src, inst.tensor(kDst)); });
}

[[noreturn]] void fail_repeated(const std::string& of) {
  fail(Rule::scatter_repeats_element, "dst", "a pattern that comes to an element " + of + "twice",
       "each element once: each sum reads what was there before");
}

// The pattern alone shows a step of 0; check_once finds the rest.
void check_steps(const Inst& inst) {
  if (inst.tensor(kDst).dynamic != nullptr) return;
  const auto& dims = inst.tensor(kDst).pattern->dims;
  const bool again =
      std::any_of(dims.begin(), dims.end(), [](const Dim& d) { return d.step == 0 && d.num > 1; });
  if (again && adds_to(inst)) fail_repeated("");
}

void check(const Inst& inst, const Machine& machine) {
  const RefList& srcs = sources(inst);
  const TensorRef& dst = inst.tensor(kDst);
  if (srcs.empty() || srcs.size() > kMostSources) {
    fail(Rule::argument_value, "srcs", "a list of " + std::to_string(srcs.size()),
         "1 to 16 sources");
  }
  const AluOp op = inst.choice(kReduceOp, AluOp::kAdd);
  if (op != AluOp::kAdd) fail(Rule::operator_not_taken, "reduce_op", std::string(name(op)), "add");
  check_static("dst", dst);
  for (const TensorRef* src : srcs) {
    check_static("srcs", *src);
    if (src->elements() != dst.elements()) {
      fail(Rule::operand_shape, "srcs", describe(*src),
           std::to_string(dst.elements()) + " elements, as dst has,");
    }
  }
  if (inst.has(kScales)) {
    if (inst.list(kScales).size() != srcs.size())
      fail(Rule::sources_count, "scales must have one value per source");
    for (std::int64_t s : inst.list(kScales)) {
      if (s != 1) fail(Rule::argument_value, "scales", "holding " + std::to_string(s), "all 1");
    }
  }
  if (is_gather(inst)) check_read_modify_write(inst);
  check_steps(inst);
  check_dge({.mode = mode_of(inst), .gather = is_gather(inst)}, inst.engine, machine);
}

// With a vector_offset each index may occur once: unique_indices must be true
// (nki.isa.dma_compute).
void check_unique(const TensorRef& dst, OpContext& ctx) {
  if (gathered(dst) == nullptr) return;
  const std::vector<std::int64_t> earlier = ctx.repeated_rows(dst);
  for (std::size_t r = 0; r < earlier.size(); ++r) {
    if (earlier[r] < 0) continue;
    fail(Rule::scatter_repeats_element,
         "index " + std::to_string(r) + " of tensor " + ctx.program().tensor(dst).name,
         "the same as index " + std::to_string(earlier[r]),
         "an index of its own (unique_indices): each sum reads what was there before");
  }
}

// The same of a pattern that adds to an element twice.
void check_once(const Inst& inst, OpContext& ctx) {
  const TensorRef& dst = inst.tensor(kDst);
  if (!adds_to(inst) || !ctx.comes_back(dst)) return;
  fail_repeated("of " + ctx.program().tensor(dst).name + " ");
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef& dst = inst.tensor(kDst);
  ctx.set_skip_out_of_bounds(inst.integer(kOobMode) == 1);
  check_unique(dst, ctx);
  check_once(inst, ctx);
  Tile<float> sum;
  std::vector<bool> dropped;
  for (const TensorRef* src : sources(inst)) {
    const Tile<float> x = ctx.load(*src);
    if (!ctx.skipped_rows().empty()) dropped = ctx.skipped_rows();
    if (sum.data == nullptr) {
      sum = x;
    } else {
      apply(AluOp::kAdd, sum.data, x.data, sum.data, static_cast<std::size_t>(x.size()));
    }
  }
  const Tile<std::byte> raw = ctx.cast(dst, sum);
  for (const TensorRef* src : sources(inst)) ctx.undefine_overlap(dst, *src, raw);
  dma_store(dst, raw, dropped, ctx);
}

// True if the memory adds what comes to what it holds (ReadAddWrite, trainium3_arch).
bool added_in_place(const TensorRef& src, const TensorRef& dst, const Machine& machine) {
  return machine.generation >= Generation::kV4 && dst.on_chip() && same_place(src, dst) &&
         (dst.dtype == Dtype::kFloat32 || dst.dtype == Dtype::kBfloat16);
}

// Every source is read once; the pieces are those of the most cut up of them.
void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  const TensorRef& dst = inst.tensor(kDst);
  const TensorRef* main = sources(inst).front();
  std::int64_t bytes = 0;
  for (const TensorRef* src : sources(inst)) {
    if (!added_in_place(*src, dst, machine)) bytes += src->bytes();
    if (dma_pieces(*src, dst).count > dma_pieces(*main, dst).count) main = src;
  }
  expand_dma(inst, *main, dst, mode_of(inst), out);
  move_bytes(std::max(bytes, dst.bytes()), out.dma);
  out.dma.compute = true;
  out.dma.indirect = is_gather(inst);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "dma_compute",
    .doc = "Adds tensors element by element inside the DMA engines.",
    .semantics =
        "dst = cast(sum over k of FP32(srcs[k])), in order of the list; with a vector_offset: "
        "dst[index] += src or dst += src[index]",
    .cost =
        "that of copying each source (config: dma): adding to dst takes two copies' time; "
        "trn3 adds to float32 and bfloat16 in SBUF at a copy's",
    .sources = "nki.isa.dma_compute; trainium3_arch. Assumed: order of the sum",
    .engines = kDmaTriggers,
    .params = kParams,
    .opcode = Opcode::kDMA_DIRECT2D,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .dma = true,
    .pick_engine = pick_engine,
};

}  // namespace nkisim::isa::ops::dma_compute
