// Adds tensors and instructions to a program, and checks them.

#include "isa/program/program.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "isa/program/check.hpp"
#include "isa/program/split.hpp"
#include "isa/program/writes.hpp"

namespace nkisim::isa {
namespace {

// Lists of tensors are not looked into.
bool may_name_registers(std::span<const Arg> args) {
  return std::any_of(args.begin(), args.end(), [](const Arg& arg) {
    return arg.kind == Arg::Kind::kRegister || arg.kind == Arg::Kind::kTensors ||
           (arg.kind == Arg::Kind::kTensor && arg.tensor->dynamic != nullptr);
  });
}

template <typename T>
std::size_t index_of(std::vector<T>& items, std::string_view item) {
  const auto it = std::find(items.begin(), items.end(), item);
  if (it != items.end()) return static_cast<std::size_t>(it - items.begin());
  items.emplace_back(item);
  return items.size() - 1;
}

std::int64_t partition_capacity(const Machine& m, Space space) {
  return space == Space::kSbuf ? m.sbuf_partition_bytes : m.psum_partition_bytes;
}

void check_shape(const Tensor& t) {
  const auto what = [&] { return "tensor " + t.name; };
  if (t.shape.empty())
    fail(Rule::tensor_shape, what() + " has no shape; at least one dimension is required");
  std::int64_t n = 1;
  for (std::int64_t s : t.shape) {
    if (s < 1)
      fail(Rule::tensor_shape, what(), "of shape with dimension " + std::to_string(s),
           "a size of at least 1");
    if (s > kMostElements / n) {
      fail(Rule::tensor_too_large, what(), "of more than 2^36 elements, larger than any HBM",
           "fewer elements");
    }
    n *= s;
  }
  if (t.space == Space::kHbm) return;
  if (t.partition + t.shape[0] > kPartitions) {
    fail(Rule::tensor_partitions, what(),
         "placed on partitions " + std::to_string(t.partition) + ".." +
             std::to_string(t.partition + t.shape[0] - 1),
         "a partition range within 0..127");
  }
}

}  // namespace

Program::Program(const Machine& machine, std::string trace_file)
    : SourcePlaces(std::move(trace_file)), machine_(machine) {}

void Program::check_capacity(const Tensor& tensor) const {
  if (tensor.space == Space::kHbm || virtual_addresses_ || allow_over_capacity_) return;
  const std::int64_t end = tensor.address + tensor.extent_bytes();
  const std::int64_t capacity = partition_capacity(machine_, tensor.space);
  if (tensor.address >= 0 && end <= capacity) return;
  fail(
      Rule::tensor_outside_memory, "tensor " + tensor.name,
      "at bytes " + std::to_string(tensor.address) + ".." + std::to_string(end) + " of a partition",
      std::string("a place within the ") + std::to_string(capacity) + " bytes per partition of " +
          (tensor.space == Space::kSbuf ? "SBUF" : "PSUM") + " on " + std::string(machine_.target) +
          changed_note(machine_, tensor.space == Space::kSbuf ? "sbuf_partition_bytes"
                                                              : "psum_partition_bytes"));
}

std::uint32_t Program::add_tensor(Tensor tensor) {
  check_shape(tensor);
  check_capacity(tensor);
  const auto id = static_cast<std::uint32_t>(tensors_.size());
  const Tensor& added = tensors_.emplace_back(std::move(tensor));
  if (!names_.add(id)) {
    const std::string taken = added.name;
    tensors_.pop_back();
    fail(Rule::tensor_name_twice, "tensor name " + taken + " is used twice; names must be unique");
  }
  cores_ = std::max(cores_, added.core + 1);
  ++edits_;
  return id;
}

const std::uint32_t* Program::find_tensor(std::string_view tensor_name) const {
  return names_.find(tensor_name);
}

void Program::set_address(std::uint32_t id, std::int64_t address) {
  tensors_[id].address = address;
}

const TensorRef* Program::whole(std::uint32_t id) {
  const Tensor& t = tensors_[id];
  TensorRef ref{.tensor = id, .space = t.space, .dtype = t.dtype};
  std::vector<std::int64_t> shape = t.shape;
  if (t.space != Space::kHbm) {
    ref.partition = t.partition;
    ref.partitions = static_cast<std::uint16_t>(shape.front());
    shape.erase(shape.begin());
  }
  ref.pattern = intern(row_major(shape));
  return add_ref(ref);
}

std::uint32_t Program::add_ordering(Ordering ordering) {
  last_id_ = std::max(last_id_, ordering.id);
  orderings_.push_back(std::move(ordering));
  return static_cast<std::uint32_t>(orderings_.size() - 1);
}

const Ordering& Program::ordering(const Inst& inst) const { return orderings_[inst.ordering]; }

void Program::order_after(std::size_t later, std::size_t earlier) {
  Inst &consumer = insts_.at(later), &producer = insts_.at(earlier);
  for (Inst* inst : {&producer, &consumer}) {
    if (inst->ordering == 0) inst->ordering = add_ordering({});
  }
  std::uint32_t& id = orderings_[producer.ordering].id;
  if (id == 0) id = ++last_id_;
  std::vector<std::uint32_t>& after = orderings_[consumer.ordering].after;
  if (std::find(after.begin(), after.end(), id) == after.end()) after.push_back(id);
}

std::uint16_t Program::add_queue(std::string_view queue) {
  return static_cast<std::uint16_t>(index_of(queues_, queue));
}

Opcode Program::add_opcode(std::string_view opcode) {
  for (int i = 0; i < static_cast<int>(Opcode::kCount); ++i) {
    if (name(static_cast<Opcode>(i)) == opcode) return static_cast<Opcode>(i);
  }
  constexpr std::size_t kMaxOpcodes = 4096;
  const std::size_t index = index_of(opcodes_, opcode);
  if (index >= kMaxOpcodes)
    fail(Rule::opcode_count, "opcode", "the 4097th unknown one", "at most 4096");
  return static_cast<Opcode>(static_cast<std::size_t>(Opcode::kCount) + index);
}

std::string_view Program::opcode_name(Opcode opcode) const {
  if (opcode < Opcode::kCount) return name(opcode);
  return opcodes_.at(static_cast<std::size_t>(opcode) - static_cast<std::size_t>(Opcode::kCount));
}

// The op's own choice; on a core that lacks it, the first other one that can. None writes
// descriptors but GpSimd.
Engine Program::default_engine(const OpSpec& op, const Inst& inst) const {
  const Engine own =
      op.pick_engine != nullptr ? op.pick_engine(inst, machine_) : op.engines.front().engine;
  if (machine_.has(own) || (op.dma && own == Engine::kGpSimd)) return own;
  for (const EngineRule& rule : op.engines) {
    if (machine_.has(rule.engine) && machine_.generation >= rule.since) return rule.engine;
  }
  return own;
}

const Inst& Program::append(Inst inst, std::span<const Arg> args) {
  const OpSpec& op = spec(inst.op);
  inst.args = keep(args, insts_.size());
  inst.registers = may_name_registers(args);
  try {
    const bool choose = inst.engine == Engine::kAny && !op.engines.empty();
    if (choose) {
      check_arg_kinds(inst);  // pick_engine reads the arguments
      inst.engine = default_engine(op, inst);
      inst.engine_open = true;
    }
    choose ? check_all_but_kinds(inst, *this) : check_inst(inst, *this);
    blocks_.track(op, inst);
  } catch (Error& e) {
    e.at(op.name, inst.loc);
    locate(e);
    throw;
  }
  cores_ = std::max(cores_, inst.core + 1);
  track_use(op, inst);
  ++edits_;
  return insts_.emplace_back(inst);
}

void Program::track_use(const OpSpec& op, const Inst& inst) {
  for_each_tensor(inst, [&](const TensorRef& ref, const Param&, bool write) {
    if (write) tensors_[ref.tensor].written = true;
  });
  splits_ |= op.collective.part != Collective::Part::kWhole;
  if (op.control != OpSpec::Control::kNone) {
    control_flow_.push_back(insts_.size());
    return;
  }
  if (inst.core >= uses_.size()) uses_.resize(inst.core + 1U);
  ++uses_[inst.core].at(static_cast<std::size_t>(inst.engine));
}

bool Program::uses(Engine engine, int core) const {
  const auto c = static_cast<std::size_t>(core);
  return c < uses_.size() && uses_[c].at(static_cast<std::size_t>(engine)) != 0;
}

void Program::set_engine(std::size_t i, Engine engine) {
  Inst changed = insts_.at(i);
  changed.engine = engine;
  try {
    check_inst(changed, *this);
  } catch (Error& e) {
    e.at(spec(changed).name, changed.loc);
    locate(e);
    throw;
  }
  --uses_[changed.core].at(static_cast<std::size_t>(insts_[i].engine));
  ++uses_[changed.core].at(static_cast<std::size_t>(engine));
  insts_[i] = changed;
  ++edits_;
  ++engine_edits_;
}

void Program::set_args(std::size_t i, std::span<const Arg> args) {
  insts_.at(i).args = keep(args, insts_.size());
  insts_[i].registers = may_name_registers(args);
  ++edits_;
}

void Program::reorder(std::span<const std::uint32_t> order) {
  assert(order.size() == insts_.size());
  std::vector<bool> there(order.size(), false);  // has its new instruction
  for (std::uint32_t k = 0; k < order.size(); ++k) {
    if (there[k] || order[k] == k) continue;
    const Inst first = insts_[k];
    std::uint32_t to = k;
    for (; order[to] != k; to = order[to]) {  // a circle of places
      insts_[to] = insts_[order[to]];
      there[to] = true;
    }
    insts_[to] = first;
    there[to] = true;
  }
  ++edits_;
}

void Program::remove(std::span<const std::uint32_t> numbers) {
  if (numbers.empty()) return;
  const std::vector<Inst> old(insts_.begin(), insts_.end());
  insts_.clear();
  ++edits_;
  control_flow_.clear();
  uses_.clear();
  auto next = numbers.begin();
  for (std::uint32_t i = 0; i < old.size(); ++i) {
    if (next != numbers.end() && *next == i) {
      ++next;
      continue;
    }
    track_use(spec(old[i]), old[i]);
    insts_.push_back(old[i]);
  }
}

bool Program::has_regions() const {
  return std::any_of(insts_.begin(), insts_.end(),
                     [](const Inst& i) { return i.region != nullptr; });
}

void Program::finish() const {
  if (const OpSpec* open = blocks_.open(); open != nullptr) {
    Error e(Rule::block_structure, std::string(open->name) + " is never closed");
    locate(e);
    throw e;
  }
  if (splits_) check_splits(*this);
}

}  // namespace nkisim::isa
