// Declares CastWatch, which rounds stored values and looks for those that a dtype cannot hold.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <vector>

#include "isa/base/alu.hpp"
#include "isa/machine/casts.hpp"
#include "isa/machine/operand_places.hpp"

namespace nkisim::isa {

class CastWatch : public OperandPlaces {
 public:
  /// FP32 values as elements of dst, each rounded once, row-major. For an op that writes them
  /// itself; store() and map_rows() do the same.
  [[nodiscard]] Tile<std::byte> cast(const TensorRef& dst, const Tile<float>& values);
  /// Looks for values that `dst`, to whose elements from `first` on they are going to be cast,
  /// cannot hold. The first of them is named when the instruction ends (Rule::cast_overflow), once
  /// for each place in the kernel.
  void watch(const TensorRef& dst, const float* values, std::size_t count, std::size_t first = 0);
  /// The same of exact integer arithmetic, op(a, b), whose results `dst` gets: signed ones that
  /// wrap are named. Unsigned arithmetic, as of hashes, is modular and not looked at.
  void watch_words(const TensorRef& dst, AluOp op, const std::uint32_t* a, const std::uint32_t* b,
                   std::size_t count, std::size_t first = 0);

 protected:
  using OperandPlaces::OperandPlaces;
  ~CastWatch() = default;

  struct Overflow {
    const TensorRef* ref;
    std::size_t element;
    float value;
    bool unsure;  // found in a replay: it counts if it is defined in the end
    std::optional<std::int64_t> exact = std::nullopt;  // of an integer that wraps
    Rule rule = Rule::cast_overflow;                   // or integer_rounded
  };
  void say_overflow();
  // Stores of `ref` are rounded stochastically; `values` as they then are.
  [[nodiscard]] bool rounds(const TensorRef& ref) const;
  [[nodiscard]] Tile<float> rounded(const TensorRef& ref, const Tile<float>& values);

  bool watches_ = false;            // Rule::cast_overflow or integer_rounded is on
  std::vector<Overflow> overflow_;  // of the running instruction: the first, or candidates

 private:
  struct Found {
    std::int64_t row = 0, column = 0;
    bool defined = false;
  };
  [[nodiscard]] Found find_element(const TensorRef& ref, std::size_t element);
  [[nodiscard]] bool rounds_integers(const TensorRef& dst) const;

  std::set<IntegerCastsByPlace::Line> reported_;  // the places whose casts have been reported
};

}  // namespace nkisim::isa
