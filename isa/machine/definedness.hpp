// Tracks which bytes of a tensor hold a written (defined) value, and where undefined ones come
// from. A byte is undefined until an instruction writes it. It is undefined again when an
// instruction writes there what depends on undefined bytes, or when a tensor at the same address
// overwrites it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "isa/machine/pages.hpp"

namespace nkisim::isa {

struct Inst;
class Program;

/// The origin of an undefined byte: unwritten, overwritten by another tensor, or written twice by
/// one DMA with different values; or an instruction made it of such bytes.
struct Origin {
  enum class Kind : std::uint8_t {
    kNeverWritten,
    kOverwritten,
    kWrittenTwice,
    kReadAndWritten,  // an element of a DMA's source that the DMA itself overwrote
    kComputed
  };
  Kind kind = Kind::kNeverWritten;
  std::uint32_t tensor = 0;    // roots: whose byte
  std::uint32_t other = 0;     // kOverwritten: by which tensor; kComputed: the origin it came from
  const Inst* inst = nullptr;  // of all but kNeverWritten: the instruction
  std::int64_t byte = 0;       // roots: of the tensor's row
  int partition = -1;          // roots: physical, -1 in HBM
  int depth = 0;
  /// One of two known values, and only their order is undefined.
  [[nodiscard]] bool order_only() const {
    return kind == Kind::kWrittenTwice || kind == Kind::kReadAndWritten;
  }
};

/// The origins of one run, by number; 0 is none. Equal ones have one number, and a way longer than
/// kLongest instructions is cut there, so that loops do not make more and more of them.
class Origins {
 public:
  static constexpr int kLongest = 64;
  std::uint32_t root(const Origin& origin);
  /// The origin of a value that `inst` computed from one of origin `from`.
  std::uint32_t computed(const Inst& inst, std::uint32_t from);
  /// "byte 0 of tensor t on partition 3 (allocated at k.py:4), which was never written; first used
  /// by tensor_copy at k.py:7, then tensor_scalar at k.py:9".
  [[nodiscard]] std::string describe(std::uint32_t origin, const Program& program) const;
  /// The last instruction on the way; null for a root.
  [[nodiscard]] const Inst* last(std::uint32_t origin) const;
  /// `inst` multiplies undefined elements by zeros: its result is right unless they, of which one
  /// comes from `origin`, are NaN or infinite. The first instruction of each line is kept.
  void times_zero(const Inst& inst, std::uint32_t origin);
  struct TimesZero {
    const Inst* inst;
    std::uint32_t origin;
  };
  using Line = std::pair<std::uint32_t, std::uint32_t>;  // of a kernel; or 0 and that of the trace
  [[nodiscard]] const std::map<Line, TimesZero>& times_zero() const { return times_zero_; }
  /// The first origin of a chain.
  [[nodiscard]] const Origin& root_of(std::uint32_t origin) const;

 private:
  std::vector<Origin> all_;
  std::map<Line, TimesZero> times_zero_;
  std::map<std::pair<const void*, std::uint64_t>, std::uint32_t> known_;
};

/// One bit per byte of a tensor: defined or not. Undefined bytes that an instruction computed have
/// an origin, kept per word of 4 bytes.
class Definedness {
 public:
  explicit Definedness(std::int64_t bytes);
  /// A copy; `copied` grows by the bytes it took.
  Definedness(const Definedness& other, std::int64_t& copied);
  /// Bytes [first, first+count) hold a defined value.
  void define(std::int64_t first, std::int64_t count);
  /// They hold a value that depends on undefined bytes.
  void undefine(std::int64_t first, std::int64_t count, std::uint32_t origin);
  /// First byte in [first, first+count) that is undefined, or -1.
  [[nodiscard]] std::int64_t find_undefined(std::int64_t first, std::int64_t count) const;
  /// The origin of undefined byte `at`; 0 if it was never written.
  [[nodiscard]] std::uint32_t origin(std::int64_t at) const;

 private:
  std::uint64_t* words();
  std::int64_t size_;
  // True if all bytes are known to be defined. Once as many bytes have been asked for as there are,
  // all are checked: a tile written row by row and read again and again costs its readers nothing.
  mutable bool whole_ = false;
  mutable std::int64_t looked_at_ = 0;
  ZeroedArray<std::uint64_t> defined_;  // null until some are defined and some are not
  ZeroedArray<std::uint32_t> origins_;  // null until an instruction undefines a byte
};

/// Sets or clears bits [first, first+count); finds the first of them that is `on`, or -1.
void set_bits(std::uint64_t* words, std::int64_t first, std::int64_t count, bool on);
[[nodiscard]] std::int64_t find_bit(const std::uint64_t* words, std::int64_t first,
                                    std::int64_t count, bool on);

}  // namespace nkisim::isa
