// Declares Program: tensors and instructions in program order, with everything that they point to.
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "isa/base/inst.hpp"
#include "isa/program/blocks.hpp"
#include "isa/program/op_spec.hpp"
#include "isa/program/operand_store.hpp"
#include "isa/program/source_places.hpp"
#include "isa/program/tensor_names.hpp"
#include "isa/program/version.hpp"

namespace nkisim::isa {

/// Owns tensors and instructions. Pointers handed out stay valid for its lifetime.
class Program : public OperandStore, public SourcePlaces {
 public:
  explicit Program(const Machine& machine, std::string trace_file = {});
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  [[nodiscard]] const Machine& machine() const { return machine_; }
  [[nodiscard]] const std::deque<Tensor>& tensors() const { return tensors_; }
  [[nodiscard]] const Tensor& tensor(std::uint32_t id) const { return tensors_[id]; }
  [[nodiscard]] const Tensor& tensor(const TensorRef& ref) const { return tensors_[ref.tensor]; }
  [[nodiscard]] const std::deque<Inst>& insts() const { return insts_; }
  [[nodiscard]] const std::vector<std::string>& queues() const { return queues_; }
  /// Indices of the loop and branch instructions, of all cores.
  [[nodiscard]] const std::vector<std::size_t>& control_flow() const { return control_flow_; }
  [[nodiscard]] int cores() const { return cores_; }
  /// The number of changes of tensors or instructions. Findings about the program hold while it
  /// stays the same. Addresses and roles do not count.
  [[nodiscard]] std::uint64_t edits() const { return edits_; }
  /// The same without changes of engines: for what only operands and their order decide.
  [[nodiscard]] std::uint64_t operand_edits() const { return edits_ - engine_edits_; }
  /// True if `core` has an instruction other than control flow for `engine`.
  [[nodiscard]] bool uses(Engine engine, int core) const;
  /// True if the trace carries its own waits and posts; otherwise dependences are derived.
  [[nodiscard]] bool explicit_semaphores() const { return explicit_semaphores_; }
  /// True if the program has no data (an imported profile): it can only be timed.
  [[nodiscard]] bool timing_only() const { return timing_only_; }

  /// Ranks that are to run it together (docs/collectives.md); a run may say otherwise.
  [[nodiscard]] int ranks() const { return ranks_; }
  void set_ranks(int ranks) { ranks_ = ranks; }

  void set_explicit_semaphores(bool on) { explicit_semaphores_ = on; }
  void set_timing_only(bool on) { timing_only_ = on; }
  /// On-chip tensors have no addresses yet: each gets storage of its own, capacity is not checked.
  void set_virtual_addresses(bool on) { virtual_addresses_ = on; }
  [[nodiscard]] bool virtual_addresses() const { return virtual_addresses_; }
  /// Lets a program exceed SBUF or PSUM (a switch for exploring; off by default).
  void set_allow_over_capacity(bool on) { allow_over_capacity_ = on; }

  /// Adds a tensor after checking shape, dtype, address and capacity. Throws Error.
  std::uint32_t add_tensor(Tensor tensor);
  [[nodiscard]] const std::uint32_t* find_tensor(std::string_view tensor_name) const;
  /// Moves an on-chip tensor (allocation after recording). Partition is unchanged.
  void set_address(std::uint32_t id, std::int64_t address);
  /// Says that an on-chip tensor's address is the kernel's own (Tensor::fixed).
  void fix_address(std::uint32_t id) { tensors_.at(id).fixed = true; }
  /// Lets an on-chip tensor start at another partition; its uses are the caller's to move.
  void set_partition(std::uint32_t id, std::uint16_t partition) {
    tensors_[id].partition = partition;
    ++edits_;
  }
  /// Sets the final role of a tensor: a kernel says what it returns when it ends.
  void set_role(std::uint32_t id, TensorRole role) { tensors_[id].role = role; }

  /// The whole of a tensor, row-major.
  const TensorRef* whole(std::uint32_t id);
  std::uint32_t add_ordering(Ordering ordering);  // value for Inst::ordering
  std::uint16_t add_queue(std::string_view queue);
  Opcode add_opcode(std::string_view opcode);  // built-in or the program's own
  [[nodiscard]] std::string_view opcode_name(Opcode opcode) const;
  /// Built-in opcodes and the program's own.
  [[nodiscard]] std::size_t opcode_count() const {
    return static_cast<std::size_t>(Opcode::kCount) + opcodes_.size();
  }

  /// Copies the arguments, or shares those of an earlier instruction that are equal, resolves the
  /// engine, checks the instruction and appends it. Throws Error with the instruction's name and
  /// location; the program is then unchanged.
  const Inst& append(Inst inst, std::span<const Arg> args);

  /// Gives instruction i, whose engine was left open, another one. Throws Error if it cannot run
  /// there; the program is then unchanged.
  void set_engine(std::size_t i, Engine engine);
  /// The order that the kernel asks for; empty where Inst::ordering is 0.
  [[nodiscard]] const Ordering& ordering(const Inst& inst) const;
  /// True if any instruction has one.
  [[nodiscard]] bool ordered() const { return orderings_.size() > 1; }
  /// Instruction `later` is to start when `earlier`, of the same core, has completed.
  void order_after(std::size_t later, std::size_t earlier);
  /// Says that instruction i is a copy made for its readers (Inst::forward).
  void mark_forward(std::size_t i) { insts_.at(i).forward = true; }
  /// Replaces the arguments of instruction i by ones of the same kinds and shapes.
  void set_args(std::size_t i, std::span<const Arg> args);
  /// Drops instructions, none of which opens or closes a loop or branch. `numbers` ascend.
  void remove(std::span<const std::uint32_t> numbers);
  /// Instruction order[k] becomes the k-th. `order` is a permutation that keeps every core's loops
  /// and branches in place; pointers to instructions become invalid.
  void reorder(std::span<const std::uint32_t> order);

  using Version = ProgramVersion;
  /// The program as it is now, to come back to.
  [[nodiscard]] Version version();
  /// True if an instruction belongs to a region (Inst::region).
  [[nodiscard]] bool has_regions() const;
  /// Makes a version of this program the current one; pointers to instructions and tensors become
  /// invalid.
  void restore(const Version& version);
  /// The same, and keeps the current one in `other`.
  void exchange(Version& other);

  /// The minor number of the SDK release, 2.20 to 2.33, whose values instructions have where
  /// AWS's documents say that a release changed them; see isa/ops/quantize_mx.cpp.
  void set_sdk(int minor) { sdk_ = minor; }
  [[nodiscard]] int sdk() const { return sdk_; }
  static constexpr int kOldestSdk = 20, kNewestSdk = 33;

  /// To be called once after the last instruction: throws Error if a loop or branch is still open,
  /// or a collective in two parts is not (isa/program/split.hpp).
  void finish() const;

 private:
  void check_capacity(const Tensor& tensor) const;
  [[nodiscard]] Engine default_engine(const OpSpec& op, const Inst& inst) const;
  void track_use(const OpSpec& op, const Inst& inst);
  Machine machine_;
  int sdk_ = kNewestSdk;
  std::deque<Tensor> tensors_;
  TensorNames names_{tensors_};
  std::optional<std::size_t> common_tensors_;  // the first so many, which all versions have
  std::deque<Inst> insts_;
  std::deque<Ordering> orderings_{1};  // the first stands for none
  std::uint32_t last_id_ = 0;          // of the orderings
  std::vector<std::string> queues_, opcodes_;
  Blocks blocks_;
  // Per core and engine (kAny too): instructions other than control flow.
  std::vector<std::array<std::uint32_t, kEngineCount + 1>> uses_;
  std::vector<std::size_t> control_flow_;
  bool splits_ = false;  // it has a collective in two parts
  std::uint64_t edits_ = 0, engine_edits_ = 0;
  int cores_ = 1, ranks_ = 1;
  bool explicit_semaphores_ = false, timing_only_ = false, virtual_addresses_ = false;
  bool allow_over_capacity_ = false;
};

}  // namespace nkisim::isa
