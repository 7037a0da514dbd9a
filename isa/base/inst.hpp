// Declares Inst, one instruction of a program: an operation with its arguments, its engine, its
// semaphores and its source location. It holds plain values; the Program owns what they point to.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "isa/base/error.hpp"
#include "isa/base/machine.hpp"
#include "isa/base/tensor.hpp"

namespace nkisim::isa {

/// Every op of isa/ops/ops.def, in that order; the order is part of the binary trace format.
enum class Op : std::uint16_t {
#define NKISIM_OP(op_name) k_##op_name,
#include "isa/ops/ops.def"
#undef NKISIM_OP
};
inline constexpr int kOpCount = 0
#define NKISIM_OP(op_name) +1
#include "isa/ops/ops.def"
#undef NKISIM_OP
    ;

using IntList = std::vector<std::int64_t>;
using RefList = std::vector<const TensorRef*>;

/// One argument. Which kinds a parameter accepts is said by its Param in the OpSpec.
struct Arg {
  enum class Kind : std::uint8_t {
    kNone,      // absent: the op's documented default
    kTensor,    // tensor
    kTensors,   // tensors (dma_compute sources)
    kReal,      // real
    kInt,       // integer (also dtype codes)
    kBool,      // integer, 0 or 1
    kEnum,      // integer: an AluOp, ActFn or an index into Param::choices
    kRegister,  // integer: register number
    kList,      // list
    kText,      // text
  };
  Kind kind = Kind::kNone;
  union {
    std::int64_t integer = 0;
    double real;
    const TensorRef* tensor;
    const RefList* tensors;
    const IntList* list;
    const std::string* text;
  };
  [[nodiscard]] bool present() const { return kind != Kind::kNone; }
};

/// A semaphore condition an instruction waits for before it issues.
struct SemaphoreWait {
  enum class Compare : std::uint8_t { kGe, kEq, kLe, kGt, kLt };
  std::uint16_t semaphore = 0;
  Compare compare = Compare::kGe;
  std::int32_t value = 0;
};

/// A semaphore update an instruction makes when it completes (or issues).
struct SemaphorePost {
  enum class Action : std::uint8_t { kIncrement, kDecrement, kAdd, kSubtract, kSet };
  std::uint16_t semaphore = 0;
  Action action = Action::kIncrement;
  bool at_issue = false;
  std::int32_t value = 1;
};

struct Sync {
  std::vector<SemaphoreWait> waits;
  std::vector<SemaphorePost> posts;
};

/// An order that the kernel asks for and its operands do not (with_schedule, depends_on,
/// no_reorder).
struct Ordering {
  std::uint32_t id = 0;              // by which others of its core name the instruction; 0: none do
  std::vector<std::uint32_t> after;  // ids of those that have completed before it starts
};

/// Descriptors of a DMA given packet by packet (imported device profiles).
struct DmaPacket {
  std::uint16_t engine = 0;  // 0..15
  std::uint16_t queue = 0;
  std::int64_t bytes = 0;
};
struct DmaPlan {
  std::uint16_t queue_name = 0;    // index in Program::queues()
  std::vector<DmaPacket> packets;  // empty: as the op's DmaWork says
  /// Semaphore the transfer itself raises: each DMA engine adds its share of `increment` when its
  /// part is done. -1: the instruction's posts happen when the whole transfer is done.
  std::int32_t semaphore = -1;
  std::int32_t increment = 0;
};

struct Inst {
  Op op = Op{};
  Engine engine = Engine::kAny;  // resolved by Program::append, never kAny for datapath ops
  std::uint8_t core = 0;
  bool engine_open = false;    // the program named no engine: a compiler may choose another
  bool forward = false;        // a copy out of PSUM made for its readers: they may read its source
  bool registers = true;       // false: its arguments certainly name none
  std::uint32_t ordering = 0;  // Program::ordering(); 0: none
  SourceLoc loc;
  std::span<const Arg> args;            // parallel to OpSpec::params
  const Sync* sync = nullptr;           // explicit semaphores, if the trace has them
  const DmaPlan* dma = nullptr;         // explicit DMA packets, if the trace has them
  const std::string* label = nullptr;   // the kernel's name= argument
  const std::string* region = nullptr;  // the part of the kernel that it belongs to: "layer 3/mlp"

  /// Compilers leave it as it is: semaphores or other instructions count on it.
  [[nodiscard]] bool pinned() const { return sync != nullptr || ordering != 0; }
  [[nodiscard]] const Arg& arg(int i) const { return args[static_cast<std::size_t>(i)]; }
  [[nodiscard]] bool has(int i) const { return arg(i).present(); }
  /// The tensor argument i; must be present.
  [[nodiscard]] const TensorRef& tensor(int i) const { return *arg(i).tensor; }
  [[nodiscard]] bool is_tensor(int i) const { return arg(i).kind == Arg::Kind::kTensor; }
  [[nodiscard]] std::int64_t integer(int i, std::int64_t absent = 0) const {
    return has(i) ? arg(i).integer : absent;
  }
  [[nodiscard]] double real(int i, double absent = 0) const {
    if (!has(i)) return absent;
    return arg(i).kind == Arg::Kind::kReal ? arg(i).real : static_cast<double>(arg(i).integer);
  }
  [[nodiscard]] bool flag(int i, bool absent = false) const {
    return has(i) ? arg(i).integer != 0 : absent;
  }
  template <typename E>
  [[nodiscard]] E choice(int i, E absent) const {
    return has(i) ? static_cast<E>(arg(i).integer) : absent;
  }
  [[nodiscard]] const IntList& list(int i) const { return *arg(i).list; }
};

}  // namespace nkisim::isa
