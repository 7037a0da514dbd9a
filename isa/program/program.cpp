// Adds tensors and instructions to a program, and checks them.

#include "isa/program/program.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <functional>
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

constexpr std::size_t kArenaBytes = std::size_t{1} << 20U;
constexpr std::size_t kMostKept = std::size_t{1} << 18U;  // argument lists to compare with
constexpr std::size_t kKeptAdded = 256, kKeptRefs = 2048;

std::uint64_t mix(std::uint64_t h, std::uint64_t value) {
  h = (h ^ value) * 0x9e3779b97f4a7c15U;
  return h ^ h >> 32U;
}

std::uint64_t hash_args(std::span<const Arg> args) {
  std::uint64_t h = args.size();
  for (const Arg& a : args) {
    if (!a.present()) continue;
    h = mix(h, static_cast<std::uint64_t>(a.integer) + static_cast<std::uint64_t>(a.kind));
  }
  return h;
}

// Equal pointers suffice: an argument's target is kept once or compared by its address.
bool same_args(std::span<const Arg> a, std::span<const Arg> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Arg& x, const Arg& y) {
    return x.kind == y.kind && (x.integer == y.integer || !x.present());
  });
}

std::uint64_t hash_dims(const std::vector<Dim>& dims) {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (const Dim& d : dims) {
    h = (h ^ static_cast<std::uint64_t>(d.step)) * 0x100000001b3ULL;
    h = (h ^ static_cast<std::uint64_t>(d.num)) * 0x100000001b3ULL;
  }
  return h;
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

using Control = OpSpec::Control;

// The op that ends a block; kNone for ops that open none.
Control closer_of(Control opener) {
  switch (opener) {
    case Control::kLoopBegin:
      return Control::kLoopEnd;
    case Control::kWhileBegin:
      return Control::kWhileEnd;
    case Control::kIfBegin:
      return Control::kIfEnd;
    default:
      return Control::kNone;
  }
}

bool is_closer(Control c) {
  return c == Control::kLoopEnd || c == Control::kWhileEnd || c == Control::kIfEnd;
}

}  // namespace

Program::Program(const Machine& machine, std::string trace_file)
    : machine_(machine), trace_file_(std::move(trace_file)), arena_(kArenaBytes) {}

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

const Pattern* Program::intern(const std::vector<Dim>& dims) {
  auto& bucket = patterns_[hash_dims(dims)];
  for (const Pattern* p : bucket) {
    if (p->dims == dims) return p;
  }
  pattern_store_.push_back(make_pattern(dims));
  bucket.push_back(&pattern_store_.back());
  return bucket.back();
}

const TensorRef* Program::add_ref(const TensorRef& ref) {
  std::uint64_t h = mix(ref.tensor, static_cast<std::uint64_t>(ref.offset));
  h = mix(h, reinterpret_cast<std::uintptr_t>(ref.pattern));
  h = mix(h, std::uint64_t{ref.partition} << 16U | ref.partitions);
  recent_.refs.resize(kKeptRefs);
  const TensorRef*& kept = recent_.refs[h % kKeptRefs];
  if (kept == nullptr || *kept != ref) {
    kept = new (arena_.allocate(sizeof(TensorRef), alignof(TensorRef))) TensorRef(ref);
  }
  return kept;
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

const DynamicOffset* Program::add_dynamic(const DynamicOffset& dynamic) {
  return new (arena_.allocate(sizeof(DynamicOffset), alignof(DynamicOffset)))
      DynamicOffset(dynamic);
}

const RefList* Program::add_refs(RefList refs) { return &ref_lists_.emplace_back(std::move(refs)); }
const IntList* Program::add_list(IntList list) {
  std::uint64_t h = list.size();
  for (const std::int64_t i : list) h = mix(h, static_cast<std::uint64_t>(i));
  recent_.lists.resize(kKeptAdded);
  const IntList*& kept = recent_.lists[h % kKeptAdded];
  if (kept == nullptr || *kept != list) kept = &int_lists_.emplace_back(std::move(list));
  return kept;
}
const std::string* Program::add_text(std::string_view text) {
  recent_.texts.resize(kKeptAdded);
  const std::string*& kept = recent_.texts[std::hash<std::string_view>()(text) % kKeptAdded];
  if (kept == nullptr || *kept != text) kept = &texts_.emplace_back(text);
  return kept;
}
const Sync* Program::add_sync(Sync sync) { return &syncs_.emplace_back(std::move(sync)); }
const DmaPlan* Program::add_plan(DmaPlan plan) { return &plans_.emplace_back(std::move(plan)); }

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

namespace {

// True if `name` ends in the parts `tail` of a path.
bool ends_in(std::string_view name, std::string_view tail) {
  return name.ends_with(tail) &&
         (name.size() == tail.size() || name[name.size() - tail.size() - 1] == '/');
}

// An absolute name is its last part, with folders before it while another name ends so, too.
std::vector<std::string> shared_names(const std::vector<std::string>& files) {
  std::vector<std::string> names = files;
  for (std::string& name : names) {
    if (!name.starts_with('/')) continue;
    std::size_t from = name.rfind('/');
    const auto others = [&] {
      return std::count_if(files.begin(), files.end(), [&](const std::string& file) {
        return ends_in(file, std::string_view(name).substr(from + 1));
      });
    };
    while (from > 0 && others() > 1) from = name.rfind('/', from - 1);
    name.erase(0, from + 1);
  }
  return names;
}

}  // namespace

std::uint32_t Program::add_file(std::string_view file) {
  return static_cast<std::uint32_t>(index_of(files_, file)) + 1;
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

// A copy of the arguments; the same one for equal arguments that come soon after each other.
std::span<const Arg> Program::keep(std::span<const Arg> args) {
  if (insts_.size() >= kept_.size() && kept_.size() < kMostKept) {
    const auto old = std::exchange(kept_, {});
    kept_.resize(std::max<std::size_t>(64, 4 * old.size()));
    for (const auto& kept : old) {
      if (!kept.empty()) kept_[hash_args(kept) % kept_.size()] = kept;
    }
  }
  std::span<const Arg>& kept = kept_[hash_args(args) % kept_.size()];
  if (!same_args(kept, args) || args.empty()) {
    auto* copy = static_cast<Arg*>(arena_.allocate(args.size() * sizeof(Arg), alignof(Arg)));
    std::uninitialized_copy(args.begin(), args.end(), copy);
    kept = {copy, args.size()};
  }
  return kept;
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
  inst.args = keep(args);
  inst.registers = may_name_registers(args);
  try {
    const bool choose = inst.engine == Engine::kAny && !op.engines.empty();
    if (choose) {
      check_arg_kinds(inst);  // pick_engine reads the arguments
      inst.engine = default_engine(op, inst);
      inst.engine_open = true;
    }
    choose ? check_all_but_kinds(inst, *this) : check_inst(inst, *this);
    track_blocks(op, inst);
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

std::string Program::kernel_place(const Inst& inst) const {
  if (inst.loc.kernel_file == 0 || inst.loc.kernel_file > files_.size()) return {};
  return files_[inst.loc.kernel_file - 1] + ":" + std::to_string(inst.loc.kernel_line);
}

std::string Program::shared_place(const Inst& inst) const {
  if (inst.loc.kernel_file == 0 || inst.loc.kernel_file > files_.size()) return {};
  return shared_files()[inst.loc.kernel_file - 1] + ":" + std::to_string(inst.loc.kernel_line);
}

std::string Program::shared_trace() const {
  return trace_file_.starts_with('/') ? trace_file_.substr(trace_file_.rfind('/') + 1)
                                      : trace_file_;
}

const std::vector<std::string>& Program::shared_files() const {
  if (shared_.whole) return files_;
  if (shared_.files.size() != files_.size()) shared_.files = shared_names(files_);
  return shared_.files;
}

void Program::track_use(const OpSpec& op, const Inst& inst) {
  for_each_tensor(inst, [&](const TensorRef& ref, const Param&, bool write) {
    if (write) tensors_[ref.tensor].written = true;
  });
  splits_ |= op.collective.part != Collective::Part::kWhole;
  if (op.control != Control::kNone) {
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
  insts_.at(i).args = keep(args);
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

// The register of an open loop is the loop's own (documented for nl.dynamic_range since NKI 0.4).
void Program::check_loop_registers(const OpSpec& op, const Inst& inst) const {
  const auto c = static_cast<std::size_t>(inst.core);
  const std::int64_t written = written_register(inst);
  if (written < 0 || c >= open_blocks_.size()) return;
  for (const OpenBlock& block : open_blocks_[c]) {
    if (block.loop_register != written) continue;
    fail(Rule::loop_register_written, op.params.front().name,
         "register " + std::to_string(block.loop_register) + ", which counts a loop that is open",
         "a register of its own");
  }
}

void Program::track_blocks(const OpSpec& op, const Inst& inst) {
  check_loop_registers(op, inst);
  if (op.control == Control::kNone) return;
  const auto c = static_cast<std::size_t>(inst.core);
  if (c >= open_blocks_.size()) open_blocks_.resize(c + 1);
  std::vector<OpenBlock>& open = open_blocks_[c];
  if (closer_of(op.control) != Control::kNone) {
    open.push_back({&op, op.control == Control::kLoopBegin ? inst.arg(0).integer : -1});
    return;
  }
  const Control wanted = open.empty() ? Control::kNone : closer_of(open.back().op->control);
  const bool match = is_closer(op.control) ? wanted == op.control : wanted == Control::kIfEnd;
  if (!match) {
    fail(Rule::block_structure,
         std::string(op.name) + " closes no open block" +
             (open.empty() ? ""
                           : "; the innermost open one is " + std::string(open.back().op->name)));
  }
  if (is_closer(op.control)) open.pop_back();
}

void Program::finish() const {
  for (const auto& open : open_blocks_) {
    if (!open.empty()) {
      Error e(Rule::block_structure, std::string(open.back().op->name) + " is never closed");
      locate(e);
      throw e;
    }
  }
  if (splits_) check_splits(*this);
}

void Program::locate(Error& error) const {
  const std::uint32_t file = error.loc().kernel_file;
  error.in(trace_file_, file > 0 && file <= files_.size() ? files_[file - 1] : std::string());
}

}  // namespace nkisim::isa
