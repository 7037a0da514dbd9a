// Checks the operands, choices, engine and memories of one instruction.

#include "isa/program/check.hpp"

#include <algorithm>

#include "isa/base/act.hpp"
#include "isa/base/alu.hpp"

namespace nkisim::isa {
namespace {

std::string upper(Space space) {
  return space == Space::kHbm ? "HBM" : space == Space::kSbuf ? "SBUF" : "PSUM";
}

std::string list_spaces(Spaces spaces) {
  std::string text;
  for (Space s : {Space::kHbm, Space::kSbuf, Space::kPsum}) {
    if (!spaces.contains(s)) continue;
    if (!text.empty()) text += " or ";
    text += upper(s);
  }
  return text;
}

std::string list_dtypes(Dtypes dtypes) {
  std::string text;
  for (int i = 0; i < kDtypeCount; ++i) {
    const auto d = static_cast<Dtype>(i);
    if (!dtypes.contains(d)) continue;
    if (!text.empty()) text += ", ";
    text += name(d);
  }
  return "one of " + text;
}

// Bytes touched relative to the tensor start; within a partition on chip.
void check_bounds(std::string_view operand, const TensorRef& ref, const Tensor& tensor) {
  const std::int64_t size = size_bytes(ref.dtype);
  const std::int64_t first = ref.offset + ref.pattern->first * size;
  const std::int64_t last = ref.offset + ref.pattern->last * size + size;
  const std::int64_t extent = tensor.extent_bytes();
  if (ref.pattern->elements > 0 && (first < 0 || last > extent)) {
    fail(Rule::access_out_of_bounds, operand,
         "bytes " + std::to_string(first) + ".." + std::to_string(last) + " of tensor " +
             tensor.name,
         "an access within its " + std::to_string(extent) + " bytes" +
             (ref.on_chip() ? " per partition" : ""));
  }
  if (!ref.on_chip()) return;
  const std::int64_t begin = tensor.partition;
  const std::int64_t end = begin + tensor.shape[0];
  if (ref.partition < begin || ref.partition + ref.partitions > end) {
    fail(Rule::access_out_of_bounds, operand,
         "partitions " + std::to_string(ref.partition) + ".." +
             std::to_string(ref.partition + ref.partitions - 1) + " of tensor " + tensor.name,
         "a range within its partitions " + std::to_string(begin) + ".." + std::to_string(end - 1));
  }
}

// Index tensors of dynamic addresses are read too: same core, inside their tensors.
void check_indices(const Param& param, const TensorRef& ref, const Program& program, int core) {
  for (const DynamicOffset* d = ref.dynamic; d != nullptr; d = d->next) {
    if (d->index == nullptr) continue;
    const Tensor& tensor = program.tensor(*d->index);
    const std::string operand = "index of " + std::string(param.name);
    check_bounds(operand, *d->index, tensor);
    if (d->index->dtype == Dtype::kInt64) {
      fail(Rule::operand_dtype, operand, "int64", "int32 (of 64 bits: scalar_load)");
    }
    if (d->index->on_chip() && tensor.core != core) {
      fail(Rule::operand_core, operand, "on core " + std::to_string(tensor.core),
           "a tensor of core " + std::to_string(core));
    }
    check_indices(param, *d->index, program, core);
  }
}

// MX scales of up to four tensors share a quadrant's first 16 partitions.
void check_scale_start(std::string_view operand, const TensorRef& ref) {
  constexpr int kRows = 4, kSharing = 4;
  const int inside = ref.partition % kQuadrant;
  if (inside % kRows == 0 && inside < kRows * kSharing) return;
  fail(Rule::start_partition, operand, "on partition " + std::to_string(ref.partition),
       "a start 0, 4, 8 or 12 partitions into a quadrant");
}

void check_operand(const Param& param, const TensorRef& ref, const Program& program,
                   const Inst& inst) {
  const Tensor& tensor = program.tensor(ref);
  if (!param.spaces.empty() && !param.spaces.contains(ref.space)) {
    fail(Rule::operand_memory, param.name, "in " + upper(ref.space), list_spaces(param.spaces));
  }
  const bool dma = spec(inst).dma || inst.engine == Engine::kSync;
  if (inst.engine == Engine::kGpSimd && !dma && ref.space == Space::kPsum) {
    fail(Rule::operand_memory, param.name, "in PSUM, which GpSimd cannot reach", "SBUF");
  }
  if (!param.dtypes.contains(ref.dtype)) {  // listing the dtypes costs more than all other checks
    check_dtype(param.name, ref, param.dtypes, list_dtypes(param.dtypes));
  }
  if (ref.on_chip() && tensor.core != inst.core) {
    fail(Rule::operand_core, param.name, "on core " + std::to_string(tensor.core),
         "a tensor of core " + std::to_string(inst.core));
  }
  if (ref.on_chip() && (ref.partitions < 1 || ref.partitions > kPartitions)) {
    fail(Rule::partition_count, param.name, "on " + std::to_string(ref.partitions) + " partitions",
         "1 to 128");
  }
  for (const Dim& d : ref.pattern->dims) {
    if (d.num < 1)
      fail(Rule::operand_size, param.name, "a dimension of size " + std::to_string(d.num),
           "at least 1");
  }
  if (too_deep(param, ref.pattern->dims.size(), program)) fail_rank(param, describe(ref));
  check_bounds(param.name, ref, tensor);
  check_indices(param, ref, program, inst.core);
  if (!ref.on_chip() || dma || program.timing_only()) return;
  if (param.mx_scale) {
    check_scale_start(param.name, ref);
  } else {
    check_start_partition(param.name, ref);
  }
}

const DynamicOffset* indirection(const TensorRef& ref) {
  const DynamicOffset* d = ref.dynamic;
  while (d != nullptr && d->kind != DynamicOffset::Kind::kIndirect) d = d->next;
  return d;
}

// Index i of the columns is at partition i % group, column i / group.
void check_index_count(const std::string& operand, const TensorRef& ref, const TensorRef& index,
                       std::int64_t group) {
  const std::int64_t count = ref.columns();
  const std::int64_t rows = std::min(count, group), columns = (count + group - 1) / group;
  if (index.rows() >= rows && index.columns() >= columns) return;
  fail(Rule::index_count, "index of " + operand, describe(index),
       "at least " + std::to_string(rows) + " partitions of " + std::to_string(columns) +
           " indices (" + std::to_string(count) + " columns, index i at partition i % " +
           std::to_string(group) + ")");
}

// Rules of one indirect view by itself: generation, parameter, engine, index and its place.
void check_indirect_view(const Param& param, const TensorRef& ref, const DynamicOffset& view,
                         const Inst& inst, const Machine& m) {
  const std::string operand(param.name);
  if (m.generation < Generation::kV4) {
    fail(Rule::not_on_target, operand, "an indirect view on " + std::string(m.target),
         "trn3 or a direct operand");
  }
  if (!param.indirect) {
    fail(Rule::indirect_operand, operand, "an indirect view, which this operand does not support",
         "a direct operand");
  }
  const TensorRef& index = *view.index;
  if (index.space != Space::kSbuf) {
    fail(Rule::operand_memory, "index of " + operand, "in " + upper(index.space), "SBUF");
  }
  if (!is_integer(index.dtype)) {
    fail(Rule::operand_dtype, "index of " + operand, std::string(name(index.dtype)),
         "an integer dtype");
  }
  if (index.partition % kQuadrant != 0) {
    fail(Rule::start_partition, "index of " + operand,
         "at partition " + std::to_string(index.partition), "a start on a multiple of 32");
  }
  const std::int64_t group = index_group(inst.engine == Engine::kTensor);
  if (view.group != 0 && view.group != group) {
    fail(Rule::engine_operand, "index of " + operand, "in groups of " + std::to_string(view.group),
         "groups of " + std::to_string(group) + " on the " + std::string(name(inst.engine)) +
             " engine");
  }
  const bool written = param.kind != ParamKind::kIn;
  if (!written && index.partition != ref.partition) {
    fail(Rule::start_partition, "index of " + operand,
         "at partition " + std::to_string(index.partition),
         "partition " + std::to_string(ref.partition) + ", where " + operand + " starts");
  }
  if (written && inst.engine == Engine::kScalar && ref.space == Space::kPsum) {
    fail(Rule::operand_memory, operand, "scattered to PSUM by the scalar engine", "SBUF");
  }
  check_index_count(operand, ref, index, group);
}

// Checks the start of a scattered destination's index: with the source in SBUF, on its partition;
// with an indirect source in PSUM, on the source's index.
void check_indirect_destination(const Inst& inst, const OpSpec& op) {
  const TensorRef* dst = nullptr;
  const TensorRef* src = nullptr;
  std::string_view src_name;
  for (std::size_t i = 0; i < op.params.size(); ++i) {
    if (!op.params[i].indirect || inst.args[i].kind != Arg::Kind::kTensor) continue;
    const bool written = op.params[i].kind != ParamKind::kIn;
    const TensorRef*& slot = written ? dst : src;
    if (slot != nullptr) continue;
    slot = inst.args[i].tensor;
    if (!written) src_name = op.params[i].name;
  }
  if (dst == nullptr || src == nullptr || indirection(*dst) == nullptr) return;
  const DynamicOffset* gathered = indirection(*src);
  if (src->space == Space::kPsum && gathered == nullptr) return;
  const int wanted = src->space == Space::kPsum ? gathered->index->partition : src->partition;
  const int found = indirection(*dst)->index->partition;
  if (found == wanted) return;
  fail(Rule::start_partition, "index of dst", "at partition " + std::to_string(found),
       "partition " + std::to_string(wanted) + ", where " +
           (src->space == Space::kPsum ? "the index of " : "") + std::string(src_name) + " starts");
}

void check_indirect(const Inst& inst, const OpSpec& op, const Machine& m) {
  bool any = false;
  for (std::size_t i = 0; i < op.params.size(); ++i) {
    const auto look = [&](const TensorRef& ref) {
      const DynamicOffset* view = indirection(ref);
      if (view == nullptr) return;
      any = true;
      check_indirect_view(op.params[i], ref, *view, inst, m);
    };
    if (inst.args[i].kind == Arg::Kind::kTensor) look(*inst.args[i].tensor);
    if (inst.args[i].kind != Arg::Kind::kTensors) continue;
    for (const TensorRef* ref : *inst.args[i].tensors) look(*ref);
  }
  if (any && inst.engine != Engine::kTensor) check_indirect_destination(inst, op);
}

// Outputs of the tensor engine whose address is known stay within one PSUM bank.
void check_banks(const Inst& inst, const OpSpec& op, const Program& program) {
  if (inst.engine != Engine::kTensor || !has_bank_rule(program)) return;
  for (std::size_t i = 0; i < op.params.size(); ++i) {
    if (!op.params[i].one_bank || inst.args[i].kind != Arg::Kind::kTensor) continue;
    const TensorRef& ref = *inst.args[i].tensor;
    if (ref.dynamic != nullptr) continue;
    const std::int64_t size = size_bytes(ref.dtype);
    const std::int64_t start = program.tensor(ref).address + ref.offset;
    check_bank(op.params[i].name, start + ref.pattern->first * size,
               start + (ref.pattern->last + 1) * size, program.machine());
  }
}

void check_hardware_operator(std::string_view param, const Arg& arg) {
  const AluTraits& op = traits(static_cast<AluOp>(arg.integer));
  if (op.kind != AluKind::kAbsent) return;
  fail(Rule::argument_value, param, std::string(op.name) + ", which no instruction has",
       std::string(op.doc));
}

// Enumerators in range, so that ops may index tables with them.
void check_choice(const Param& param, const Arg& arg) {
  std::int64_t count = 0;
  if (param.kind == ParamKind::kAlu) {
    count = kAluOpCount;
  } else if (param.kind == ParamKind::kAct) {
    count = kActFnCount;
  } else if (param.kind == ParamKind::kEnum) {
    count = static_cast<std::int64_t>(param.choices.size());
  } else if (param.kind == ParamKind::kDtype) {
    count = kDtypeCount;
  } else {
    return;
  }
  const bool known = arg.integer >= 0 && arg.integer < count;
  if (known && param.kind == ParamKind::kAlu) check_hardware_operator(param.name, arg);
  if (known) return;
  fail(Rule::argument_value, param.name, "choice number " + std::to_string(arg.integer),
       "one of " + std::to_string(count) + " choices");
}

// Groups as isa/program/world.hpp says: ranks, and an end behind each group.
void check_ranks(const Param& param, const Arg& arg) {
  const IntList& list = *arg.list;
  const bool good = (list.empty() || list.back() == kGroupEnd) &&
                    std::all_of(list.begin(), list.end(), [](std::int64_t rank) {
                      return rank >= kGroupEnd && rank < World::kMostRanks;
                    });
  if (good) return;
  fail(Rule::argument_value, param.name, "with a number that is no rank",
       "ranks from 0 to " + std::to_string(World::kMostRanks - 1));
}

void check_operands(const Inst& inst, const OpSpec& op, const Program& program) {
  for (std::size_t i = 0; i < op.params.size(); ++i) {
    const Param& param = op.params[i];
    const Arg& arg = inst.args[i];
    if (param.kind == ParamKind::kOpcode && arg.present() &&
        (arg.integer < 0 || static_cast<std::size_t>(arg.integer) >= program.opcode_count())) {
      fail(Rule::argument_value, param.name, "number " + std::to_string(arg.integer),
           "an opcode of the program");
    }
    if (arg.kind == Arg::Kind::kTensor) check_operand(param, *arg.tensor, program, inst);
    if (arg.kind == Arg::Kind::kTensors) {
      for (const TensorRef* ref : *arg.tensors) check_operand(param, *ref, program, inst);
    }
  }
}

void check_generation(const OpSpec& op, const Machine& m) {
  const bool early = m.generation < op.since;
  if (!early && (!op.until || m.generation <= *op.until)) return;
  fail(Rule::not_on_target, std::string(op.name) + " is not available on " + std::string(m.target) +
                                "; " + std::string(first_target(early ? op.since : *op.until)) +
                                " is the " + (early ? "first" : "last") + " target that has it");
}

void check_engine(const Inst& inst, const OpSpec& op, const Machine& m) {
  if (op.engines.empty()) return;
  if (!m.has(inst.engine)) {
    const std::string engine(name(inst.engine));
    fail(Rule::not_on_target, std::string(op.name) + " runs on " + engine +
                                  ", which the core lacks (engines." + engine +
                                  ".available of the config)");
  }
  std::string allowed;
  for (const EngineRule& rule : op.engines) {
    if (rule.engine == inst.engine && m.generation >= rule.since) return;
    if (!allowed.empty()) allowed += ", ";
    allowed += name(rule.engine);
    if (rule.since > Generation::kV2) {
      allowed += " (" + std::string(first_target(rule.since)) + " and later)";
    }
  }
  fail(Rule::engine_lacks_instruction, "engine",
       std::string(name(inst.engine)) + " on " + std::string(m.target), allowed);
}

void check_all(const Inst& inst, const Program& program, bool kinds) {
  const OpSpec& op = spec(inst);
  check_generation(op, program.machine());
  check_engine(inst, op, program.machine());
  if (kinds) check_arg_kinds(inst);
  check_operands(inst, op, program);
  check_indirect(inst, op, program.machine());
  check_gathers(inst, op, program);
  for (std::size_t i = 0; i < op.params.size(); ++i) {
    if (op.params[i].kind == ParamKind::kGroups) check_ranks(op.params[i], inst.args[i]);
  }
  if (op.check != nullptr) op.check(inst, program.machine());
  check_banks(inst, op, program);
}

}  // namespace

bool too_deep(const Param& param, std::size_t free_dims, const Program& program) {
  return param.free_dims != 0 && free_dims > static_cast<std::size_t>(param.free_dims) &&
         program.sdk() >= info(Rule::operand_rank).from;
}

void fail_rank(const Param& param, const std::string& found) {
  fail(Rule::operand_rank, param.name, found,
       "a tile of at most " + std::to_string(param.free_dims) + " free dimensions");
}

void check_arg_kinds(const Inst& inst) {
  const OpSpec& op = spec(inst);
  if (inst.args.size() != op.params.size()) {
    fail(Rule::argument_count, std::to_string(inst.args.size()) + " arguments given; " +
                                   std::to_string(op.params.size()) + " are required");
  }
  for (std::size_t i = 0; i < op.params.size(); ++i) {
    const Param& param = op.params[i];
    const Arg& arg = inst.args[i];
    if (!arg.present()) {
      if (!param.optional)
        fail(Rule::argument_missing, std::string(param.name) + " is missing; it is required");
      continue;
    }
    if (((traits(param.kind).takes >> static_cast<unsigned>(arg.kind)) & 1U) == 0) {
      fail(Rule::argument_kind,
           std::string(param.name) + " must be " + std::string(traits(param.kind).required));
    }
    check_choice(param, arg);
  }
}

void check_placement(const Program& program) {
  for (const Inst& inst : program.insts()) {
    try {
      check_banks(inst, spec(inst), program);
    } catch (Error& e) {
      e.at(spec(inst).name, inst.loc);
      program.locate(e);
      throw;
    }
  }
}

void check_inst(const Inst& inst, const Program& program) { check_all(inst, program, true); }

void check_all_but_kinds(const Inst& inst, const Program& program) {
  check_all(inst, program, false);
}

std::string describe(const TensorRef& ref) {
  std::string text = std::string(name(ref.space)) + "[";
  const auto shape = ref.shape();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += " x ";
    text += std::to_string(shape[i]);
  }
  return text + "] " + std::string(name(ref.dtype));
}

bool has_bank_rule(const Program& program) {
  return program.machine().generation < Generation::kV4 && !program.virtual_addresses();
}

void check_bank(std::string_view operand, std::int64_t first, std::int64_t last,
                const Machine& machine) {
  const std::int64_t bank = machine.psum_bank_bytes();
  if (first / bank == (last - 1) / bank) return;
  fail(Rule::psum_bank, operand,
       "at PSUM bytes " + std::to_string(first) + ".." + std::to_string(last) +
           ", in more than one bank",
       "a place within one bank of " + std::to_string(bank) + " bytes per partition on " +
           std::string(machine.target) + changed_note(machine, "psum_banks") +
           changed_note(machine, "psum_partition_bytes"));
}

void check_start_partition(std::string_view operand, const TensorRef& ref) {
  const int n = ref.partitions;
  const int start = ref.partition;
  const bool legal = start == 0 || (n <= 64 && start == 64) || (n <= 32 && start % 32 == 0);
  if (legal) return;
  fail(Rule::start_partition, operand,
       std::to_string(n) + " partitions from partition " + std::to_string(start),
       n > 64   ? "start partition 0 (more than 64 partitions)"
       : n > 32 ? "start partition 0 or 64 (33 to 64 partitions)"
                : "start partition 0, 32, 64 or 96 (up to 32 partitions)");
}

void check_same_rows(std::string_view a_name, const TensorRef& a, std::string_view b_name,
                     const TensorRef& b) {
  if (a.rows() == b.rows()) return;
  fail(Rule::partitions_differ, b_name, describe(b),
       std::to_string(a.rows()) + " partitions, as " + std::string(a_name) + " has " + describe(a) +
           ",");
}

void check_same_shape(std::string_view a_name, const TensorRef& a, std::string_view b_name,
                      const TensorRef& b) {
  if (a.rows() == b.rows() && a.columns() == b.columns()) return;
  const bool row = b.rows() == 1 && b.columns() == a.columns() && b.space != Space::kHbm;
  fail(Rule::operand_shape, b_name, describe(b),
       "the shape of " + std::string(a_name) + ", " + describe(a) +
           (row ? ", (nl.broadcast_to repeats a row on all partitions)" : ","));
}

void check_not_both_psum(std::string_view a_name, const TensorRef& a, std::string_view b_name,
                         const TensorRef& b) {
  if (a.space != Space::kPsum || b.space != Space::kPsum) return;
  fail(Rule::both_in_psum, std::string(a_name) + " and " + std::string(b_name) +
                               " are both in PSUM; at least one in SBUF is required");
}

void check_column(std::string_view operand, const Arg& arg, std::int64_t rows) {
  if (arg.kind != Arg::Kind::kTensor) return;
  const TensorRef& ref = *arg.tensor;
  if (ref.rows() == rows && ref.columns() == 1) return;
  fail(Rule::operand_size, operand, describe(ref),
       "a constant or a tensor of one column on " + std::to_string(rows) + " partitions" +
           (ref.rows() == rows ? " (nisa.tensor_tensor takes two tiles)" : ""));
}

void check_dtype(std::string_view operand, const TensorRef& ref, Dtypes allowed,
                 std::string_view required) {
  if (allowed.contains(ref.dtype)) return;
  fail(Rule::operand_dtype, operand, std::string(name(ref.dtype)), std::string(required));
}

}  // namespace nkisim::isa
