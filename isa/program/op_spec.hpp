// Declares OpSpec, the description of one kind of instruction: parameters, engines, checks, values,
// work. Reader, checks, interpreter, cost model, disassembler, documentation and Python all use it.
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "isa/base/inst.hpp"
#include "isa/base/part.hpp"
#include "isa/program/param_kind.hpp"
#include "isa/program/world.hpp"

namespace nkisim::isa {

class OpContext;
class Exchange;
struct Parcel;  // isa/machine/rendezvous.hpp

/// A small set of enumerators, usable in constant expressions.
template <typename E>
class Set {
 public:
  constexpr Set() = default;
  constexpr Set(std::initializer_list<E> items) {
    for (E e : items) bits_ |= std::uint64_t{1} << static_cast<unsigned>(e);
  }
  [[nodiscard]] constexpr bool contains(E e) const {
    return ((bits_ >> static_cast<unsigned>(e)) & 1U) != 0;
  }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  [[nodiscard]] constexpr Set operator|(Set other) const {
    Set s;
    s.bits_ = bits_ | other.bits_;
    return s;
  }
  [[nodiscard]] constexpr Set operator-(Set other) const {
    Set s;
    s.bits_ = bits_ & ~other.bits_;
    return s;
  }

 private:
  std::uint64_t bits_ = 0;
};
using Spaces = Set<Space>;
using Dtypes = Set<Dtype>;

inline constexpr Spaces kOnChip = {Space::kSbuf, Space::kPsum};
inline constexpr Spaces kSbufOnly = {Space::kSbuf};
inline constexpr Spaces kPsumOnly = {Space::kPsum};
inline constexpr Spaces kHbmOrSbuf = {Space::kHbm, Space::kSbuf};
inline constexpr Dtypes kFloats = {Dtype::kFloat32,      Dtype::kTfloat32,   Dtype::kBfloat16,
                                   Dtype::kFloat16,      Dtype::kFloat8E3m4, Dtype::kFloat8E4m3,
                                   Dtype::kFloat8E4m3fn, Dtype::kFloat8E5m2};
inline constexpr Dtypes kIntegers = {Dtype::kInt8,  Dtype::kUint8,  Dtype::kInt16, Dtype::kUint16,
                                     Dtype::kInt32, Dtype::kUint32, Dtype::kBool};
inline constexpr Dtypes kComputeDtypes = kFloats | kIntegers;
inline constexpr Dtypes kPackedDtypes = {Dtype::kFloat8E5m2X4, Dtype::kFloat8E4m3fnX4,
                                         Dtype::kFloat4E2m1fnX4};
/// Anything whose bytes can be moved.
inline constexpr Dtypes kAnyDtype = kComputeDtypes | kPackedDtypes | Dtypes{Dtype::kFloat8E8m0fnu};

/// The dtypes that DMAs move: also scalars of 64 bits.
inline constexpr Dtypes kMovedDtypes = kAnyDtype | Dtypes{Dtype::kInt64};

/// The dtypes of scalars of the device (nki.isa.NkiScalar).
inline constexpr Dtypes kScalars = {Dtype::kInt32, Dtype::kInt64};

inline constexpr int kScaleRows = 4;  // of MX scales, per quadrant of 32 data partitions

/// One parameter, named as in nki.isa.
struct Param {
  std::string_view name;
  ParamKind kind = ParamKind::kIn;
  Spaces spaces = {};  // tensors: where the operand may live
  Dtypes dtypes = kComputeDtypes;
  bool optional = false;
  std::span<const std::string_view> choices = {};
  std::string_view doc = {};
  bool indirect = false;  // may be a v4 indirect view (gather or scatter along the free dimension)
  bool gather = false;    // may be addressed row by row through an index tensor (kVector, DMA only)
  bool one_bank = false;  // written by the tensor engine: within one PSUM bank before v4
  bool mx_scale = false;  // MX scales: may also start 4, 8 or 12 partitions into a quadrant
  bool steers = false;    // an index, a register, a seed: an undefined value is an error at once
  bool selects = false;   // a predicate, a bound: what it decides is undefined where it is
  int free_dims = 0;      // most free dimensions by the pages of SDK 2.33; 0: no limit
};

/// An engine an op may run on, from which generation on.
struct EngineRule {
  Engine engine;
  Generation since = Generation::kV2;
};

/// An operation of the ranks of a group together (nki.collectives).
struct Collective {
  enum class Kind : std::uint8_t {
    kNone,
    kAllReduce,
    kAllGather,
    kReduceScatter,
    kAllToAll,
    kPermute  // round a ring, or between the pairs that the program names
  };
  /// The part of an operation in two parts (NKI 0.7): kPrepare sets it up ahead of its data.
  enum class Part : std::uint8_t { kWhole, kPrepare, kTrigger };
  Kind kind = Kind::kNone;
  Part part = Part::kWhole;
  bool pairs = false;         // its groups are pairs (source, target)
  bool same_for_all = false;  // of equal operands every rank of a group gets equal results
  bool in_sequence = false;   // the device takes groups of more than two ranks in sequence only
  /// Its parameters; -1: it has none of the kind.
  int srcs = -1, more_srcs = -1, dsts = -1, groups = -1, dim = -1, reduce = -1, channels = -1;
  int metadata = -1, known = -1, displs = -1, priority = -1;

  /// True if lengths are values in memory (metadata), so that ranks may differ in shapes.
  [[nodiscard]] constexpr bool counts() const { return metadata >= 0; }
};

struct OpSpec {
  std::string_view name;                // exactly the nki.isa name
  std::string_view doc;                 // one sentence
  std::string_view semantics;           // one formula
  std::string_view cost;                // the documented cost, in words
  std::string_view sources;             // where semantics, limits and cost were read
  std::span<const EngineRule> engines;  // first = default
  std::span<const Param> params;
  Generation since = Generation::kV2;
  std::optional<Generation> until = {};  // last generation that has it; none = still there
  Opcode opcode = Opcode{};              // of its main part

  /// Rules beyond the generic ones (spaces, dtypes, bounds, partitions); throws Error through
  /// fail().
  void (*check)(const Inst&, const Machine&) = nullptr;
  /// Same bytes in, same bytes out. Null for ops with no datapath effect (control, semaphores).
  void (*eval)(const Inst&, OpContext&) = nullptr;
  /// The ISA-level parts with their quantities. Null: one part made by default_part().
  void (*expand)(const Inst&, const Machine&, Expansion&) = nullptr;
  /// The cores of a program wait for each other here (core_barrier, sendrecv). Nothing else crosses
  /// from core to core but HBM: eval knows of its partner only what that one sent.
  bool rendezvous = false;
  /// Rendezvous: a program of one core, which has no partner, cannot have it.
  bool needs_partner = false;
  /// Rendezvous: rules between an instruction and its partner's; throws Error through fail().
  void (*check_partner)(const Inst&, const Inst& partner) = nullptr;
  /// Rendezvous: what the partner gets, read when the last core has come, before either evaluates
  /// (OpContext::received). Null: nothing.
  Parcel (*send)(const Inst&, OpContext&) = nullptr;
  /// The ranks of a group meet here (nki.collectives): `combine` computes what each of them gets,
  /// once all have come. The engine only triggers it and goes on.
  void (*combine)(Exchange&) = nullptr;
  Collective collective = {};
  /// Puts into a register what depends on which rank it is.
  bool asks_rank = false;
  /// The sequencer's action: control ops steer the walker and have no datapath effect.
  enum class Control : std::uint8_t {
    kNone,
    kLoopBegin,
    kLoopEnd,
    kWhileBegin,
    kWhileEnd,
    kIfBegin,
    kElseBegin,
    kIfEnd
  };
  Control control = Control::kNone;
  /// Writes a sequencer register from memory: later control flow and addresses depend on it.
  bool loads_register = false;
  /// Executed by the sequencer itself, in program order, with no memory operand (register moves).
  bool on_sequencer = false;
  /// Says when an instruction keeps its order, because it prints or uses its engine's state outside
  /// memory (reduce registers, random generators). kIfReducing: if it names reduce_res or a
  /// reduce_cmd other than idle.
  enum class State : std::uint8_t { kNone, kIfReducing, kAlways };
  State state = State::kNone;
  /// The spread of an undefined element of an operand where the result is the same for all values
  /// that were tried (isa/machine/eval_undefined.cpp): to the element at its place, if an operator
  /// compares; always; to its whole row.
  enum class Undefined : std::uint8_t { kNone, kIfComparing, kElements, kRows };
  Undefined undefined = Undefined::kNone;
  /// On which elements of its operands one of the result can depend: those at its place (of
  /// operands of another width: in its row), those in its row, any. kAll is always right; the
  /// others save evaluations.
  enum class Depends : std::uint8_t { kAll, kRow, kElement };
  Depends depends = Depends::kAll;
  /// The way in which the op moves elements without a change of bits or values: copies each to its
  /// place, to another one, or picks those that an operand names.
  enum class Moves : std::uint8_t { kNone, kCopies, kRearranges, kGathers };
  Moves moves = Moves::kNone;
  /// True if this instruction does nothing but copy one tile to another. Null: it never does.
  bool (*only_copies)(const Inst&) = nullptr;
  /// Every element of dst becomes the number `value`.
  bool fills = false;
  /// Kernels multiply unwritten padding by zeros: what only NaN or infinity there would
  /// change is not undefined.
  bool pads_with_zeros = false;
  /// Shapes as the kernel wrote them decide what it does: the front end merges no dimensions.
  bool exact_shapes = false;
  /// Stands for any instruction of a device profile: its opcode alone says which.
  bool raw = false;
  /// Its operands are reached by the DMA engines, which know no start-partition rules; `engine`
  /// only triggers the transfer.
  bool dma = false;
  /// Engine when the program leaves it open. Null: the first rule available on the generation.
  Engine (*pick_engine)(const Inst&, const Machine&) = nullptr;
};

/// All ops, indexed by Op.
[[nodiscard]] std::span<const OpSpec* const> op_table();
namespace detail {
extern const std::array<const OpSpec*, kOpCount> kOpTable;
}
[[nodiscard]] inline const OpSpec& spec(Op op) {
  return *detail::kOpTable[static_cast<std::size_t>(op)];
}
[[nodiscard]] inline const OpSpec& spec(const Inst& inst) { return spec(inst.op); }
/// By nki.isa name; null if unknown.
[[nodiscard]] const OpSpec* find_op(std::string_view op_name);
[[nodiscard]] Op op_id(const OpSpec& op);
/// Index of the parameter called `param_name`, -1 if there is none.
[[nodiscard]] int param_index(const OpSpec& op, std::string_view param_name);

/// A part on the inst's engine with the op's opcode, bytes and features derived from its operands;
/// elements = the largest column count of any tensor operand. `operands` limits it to some
/// parameters (bit i = parameter i; 0 = all).
[[nodiscard]] Part default_part(const Inst& inst, const Machine& machine,
                                std::uint32_t operands = 0);
/// Fills `out` through spec.expand, or with default_part().
void expand(const Inst& inst, const Machine& machine, Expansion& out);

/// Calls fn(const TensorRef&, const Param&, bool written) for every tensor argument, index tensors
/// of dynamic addresses included (as reads). `operands` as for default_part.
template <typename Fn>
void for_each_tensor(const Inst& inst, Fn&& fn, std::uint32_t operands = 0);

}  // namespace nkisim::isa

#include "isa/program/op_spec_inl.hpp"
