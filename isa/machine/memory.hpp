// Holds the bytes of a simulated device: HBM is shared by all cores, SBUF and PSUM are per core.
// For every byte of a tensor it records if the value was written (isa/machine/definedness.hpp).
#pragma once

#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "isa/machine/casts.hpp"
#include "isa/machine/definedness.hpp"
#include "isa/machine/pages.hpp"
#include "isa/program/program.hpp"

namespace nkisim::isa {

/// Bytes that several memories begin with: each sees the same host memory until it writes there.
class SharedBytes {
 public:
  explicit SharedBytes(std::span<const std::byte> bytes);
  ~SharedBytes();
  SharedBytes(const SharedBytes&) = delete;
  SharedBytes& operator=(const SharedBytes&) = delete;
  [[nodiscard]] std::int64_t size() const { return size_; }

 private:
  friend class Region;
  std::int64_t size_ = 0;
  int file_ = -1;                // in memory; -1: `copy_` holds them
  std::vector<std::byte> copy_;  // where the host cannot share
};

/// A lazily zeroed run of bytes.
class Region {
 public:
  explicit Region(std::int64_t bytes, bool filled = false);  // as Pages
  /// The same; copy() is free then, where the host can share.
  static std::unique_ptr<Region> to_copy(std::int64_t bytes);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  /// The bytes, to write to apart from these; empty where the host would have to copy them. To be
  /// called when nothing more is written here.
  [[nodiscard]] Pages copy() const;
  /// Begins as `shared`, whose pages become its own where it writes.
  explicit Region(const SharedBytes& shared);
  /// The same `rows` with a larger pitch.
  Region(const Region& other, std::int64_t rows, std::int64_t pitch);
  /// A copy; `copied` grows by the bytes that are not zeros. Pages of zeros stay untouched.
  Region(const Region& other, std::int64_t& copied);
  [[nodiscard]] std::byte* data() { return static_cast<std::byte*>(data_.data()); }
  [[nodiscard]] const std::byte* data() const {
    return static_cast<const std::byte*>(data_.data());
  }
  [[nodiscard]] std::int64_t size() const { return size_; }
  /// PSUM of generations that cannot accumulate onto what another engine wrote: remembers per byte
  /// whether the last write came from an engine other than the tensor engine.
  void mark_foreign(std::int64_t first, std::int64_t count, bool foreign);
  /// First byte in [first, first+count) last written by another engine, or -1.
  [[nodiscard]] std::int64_t find_foreign(std::int64_t first, std::int64_t count) const;

 private:
  std::int64_t size_;
  int file_ = -1;  // whose bytes these are; -1: they are of no file
  Pages data_;
  ZeroedArray<std::uint64_t> foreign_;  // null until another engine writes
};

/// The place of a tensor's rows: byte `start` of `region`, rows `pitch` bytes apart. Whether byte b
/// of row r is defined is bit `b + shift + r * row_shift` of `bits`, which belong to the tensor
/// alone.
struct Placement {
  Region* region = nullptr;
  std::int64_t start = 0;
  std::int64_t pitch = 0;  // on chip: bytes between partitions; HBM: 0
  Definedness* bits = nullptr;
  std::int64_t shift = 0, row_shift = 0;
  [[nodiscard]] std::int64_t bit(std::int64_t byte, std::int64_t row) const {
    return byte + shift + row * row_shift;
  }
};

/// Memory of all cores of a program. On-chip tensors share one SBUF/PSUM per core at their
/// addresses, or (virtual addresses) each has a region of its own.
class Memory {
 public:
  explicit Memory(const Program& program);
  /// Start of `ref` (dynamic offsets not applied).
  [[nodiscard]] Placement place(const TensorRef& ref);
  /// All bytes of an HBM tensor, row-major.
  [[nodiscard]] Region& hbm(std::uint32_t tensor);
  /// Fills an HBM tensor with defined values. `bytes` must have the tensor's size.
  void load(std::uint32_t tensor, std::span<const std::byte> bytes);
  /// The same with bytes that other memories begin with as well.
  void load(std::uint32_t tensor, const SharedBytes& bytes);
  /// The same for a tensor in any memory: rows as read() gives them.
  void write(std::uint32_t tensor, std::span<const std::byte> bytes);
  /// Copy of a tensor's bytes, row-major, partitions first for on-chip tensors.
  [[nodiscard]] std::vector<std::byte> read(std::uint32_t tensor);
  /// The same into `out`, which must have the tensor's size.
  void read(std::uint32_t tensor, std::span<std::byte> out);
  /// Before the run: its outputs are wanted as copies (copy()).
  void copy_outputs() { copies_outputs_ = true; }
  /// After it: the bytes of an output to write to apart from these; empty where read() is required.
  [[nodiscard]] Pages copy(std::uint32_t tensor) const;
  /// Forgets the bytes of a tensor with a region of its own (HBM, virtual addresses), which nothing
  /// reads any more.
  void release(std::uint32_t tensor);
  /// The most bytes that the tensors may take together, and an instruction's operands as well;
  /// without a call, whatever the host gives. An Error beyond it says how much was asked for.
  void limit(std::int64_t bytes) { limit_ = bytes; }
  /// The same values, known and unknown. Tensors that are not `written` (by number) are shared with
  /// the copy: neither may write them from now on.
  [[nodiscard]] std::unique_ptr<Memory> copy(const std::vector<bool>& written) const;
  /// The host's bytes that copy() took for this one.
  [[nodiscard]] std::int64_t copied_bytes() const { return copied_; }
  /// Throws unless `bytes` more for `what` stay within the limit.
  void require_memory(std::int64_t bytes, const std::string& what) const;

  /// To be called before the first instruction, once the program is complete: finds tensors that
  /// share addresses while both are in use, and when the bits of each can go.
  void begin_run();
  /// Before begin_run(): what these tensors hold is asked for in the end. A write of any other
  /// tensor to their address undefines it, also where nothing reads it any more.
  void keep(std::vector<std::uint32_t> tensors) { kept_ = std::move(tensors); }
  /// Tensors of which a write undefines what `tensor` holds at the same address, and the reverse.
  [[nodiscard]] const std::vector<std::uint32_t>& sharing(std::uint32_t tensor) const {
    return sharing_.empty() ? kNone : sharing_.at(tensor);
  }
  [[nodiscard]] bool any_sharing() const { return !sharing_.empty(); }
  /// A write to `count` bytes of a row of `tensor`, from `bit` of its bits, undefines them for the
  /// tensors that share the address; raw memory has what any tensor wrote, and they what it wrote.
  void overwrite_sharing(std::uint32_t tensor, std::int64_t bit, std::int64_t count,
                         const Inst& writer);
  /// Marks the bytes as undefined, for `tensor` and in raw memory; for all tensors if it is raw
  /// memory.
  void undefine(std::uint32_t tensor, std::int64_t bit, std::int64_t count, std::uint32_t origin);
  /// `inst` has been evaluated.
  void done(const Inst& inst) {
    if (!uses_left_.empty()) count_uses(inst);
  }
  [[nodiscard]] Origins& origins() { return origins_; }
  [[nodiscard]] IntegerCastsByPlace& integer_casts() { return integer_casts_; }
  [[nodiscard]] Definedness& bits(std::uint32_t tensor);

 private:
  static const std::vector<std::uint32_t> kNone;
  void count_uses(const Inst& inst);
  template <typename Fn>
  void each_sharing(std::uint32_t tensor, std::int64_t bit, std::int64_t count, Fn&& fn);
  Region& tensor_region(std::uint32_t tensor);
  void size_on_chip();
  void require_size(std::uint32_t tensor, std::int64_t bytes) const;
  const Program& program_;
  std::int64_t limit_ = std::numeric_limits<std::int64_t>::max();
  bool copies_outputs_ = false;
  std::int64_t taken_ = 0;  // by tensors with a region of their own
  std::int64_t copied_ = 0;
  std::vector<std::shared_ptr<Region>> tensors_;      // HBM, and on chip with virtual addresses
  std::vector<std::unique_ptr<Region>> sbuf_, psum_;  // per core, made when first used
  std::size_t sized_for_ = 0;                         // for so many tensors
  std::vector<std::unique_ptr<Definedness>> bits_;    // per tensor
  std::vector<std::vector<std::uint32_t>> sharing_;   // per tensor; empty: none shares
  std::vector<std::uint32_t> uses_left_;  // per tensor, 0: bits stay; empty: of all tensors
  std::vector<std::uint32_t> kept_;       // keep()
  Origins origins_;
  IntegerCastsByPlace integer_casts_;
};

}  // namespace nkisim::isa
