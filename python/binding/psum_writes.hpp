// Tracks the parts of PSUM tensors written since allocation. They decide if a matmul for which the
// kernel does not set `accumulate` overwrites or adds.
#pragma once

#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "isa/program/program.hpp"

namespace nkisim::python {

/// One bit per 2-byte cell and quadrant of 32 partitions, of the tensors whose writes differ. Most
/// are written by one operand, perhaps several times, which says all.
class PsumWrites {
 public:
  /// True if any cell of `ref` was written before.
  [[nodiscard]] bool any(const isa::Program& program, const isa::TensorRef& ref) {
    if (const isa::TensorRef* one = only(ref.tensor)) {
      if (key(*one) == key(ref)) return true;
      mark_cells(program, *std::exchange(only_[ref.tensor], nullptr), true);
    }
    const auto it = tiles_.find(ref.tensor);
    if (it == tiles_.end()) return false;
    if (it->second.whole.contains(key(ref))) return true;
    bool found = false;
    visit(program, ref, it->second.cells,
          [&](std::uint8_t& cell, std::uint8_t mask) { found |= (cell & mask) != 0; });
    return found;
  }
  /// Marks the cells of `ref` as written, or (a memset to zero) as fresh. The program owns `ref`.
  void mark(const isa::Program& program, const isa::TensorRef& ref, bool written) {
    const isa::TensorRef* one = only(ref.tensor);
    if (one == nullptr && !tiles_.contains(ref.tensor)) {
      if (written) set_only(ref);
      return;
    }
    if (one != nullptr) {
      if (key(*one) == key(ref)) {
        if (!written) only_[ref.tensor] = nullptr;
        return;
      }
      mark_cells(program, *std::exchange(only_[ref.tensor], nullptr), true);
    }
    mark_cells(program, ref, written);
  }

 private:
  using Key = std::tuple<const isa::Pattern*, std::int64_t, int, int, isa::Dtype>;
  struct Tile {
    std::vector<std::uint8_t> cells;
    std::set<Key> whole;  // operands known to be written completely
  };
  static Key key(const isa::TensorRef& ref) {
    return {ref.pattern, ref.offset, ref.partition, ref.partitions, ref.dtype};
  }
  [[nodiscard]] const isa::TensorRef* only(std::uint32_t tensor) const {
    return tensor < only_.size() ? only_[tensor] : nullptr;
  }
  void set_only(const isa::TensorRef& ref) {
    if (ref.tensor >= only_.size()) only_.resize(ref.tensor + 1U);
    only_[ref.tensor] = &ref;
  }
  void mark_cells(const isa::Program& program, const isa::TensorRef& ref, bool written) {
    Tile& tile = tiles_[ref.tensor];
    if (!written) tile.whole.clear();
    if (written && !tile.whole.insert(key(ref)).second) return;
    visit(program, ref, tile.cells, [&](std::uint8_t& cell, std::uint8_t mask) {
      cell = static_cast<std::uint8_t>(written ? cell | mask : cell & ~mask);
    });
  }
  template <typename Fn>
  static void visit(const isa::Program& program, const isa::TensorRef& ref,
                    std::vector<std::uint8_t>& cells, Fn&& fn) {
    const isa::Tensor& tensor = program.tensor(ref);
    if (cells.empty()) cells.resize(static_cast<std::size_t>((tensor.extent_bytes() + 1) / 2));
    const int first = ref.partition / isa::kQuadrant;
    const int last = (ref.partition + ref.partitions - 1) / isa::kQuadrant;
    std::uint8_t mask = 0;
    for (int q = first; q <= last && q < 8; ++q) mask = static_cast<std::uint8_t>(mask | 1U << q);
    const std::int64_t size = isa::size_bytes(ref.dtype);
    walk(*ref.pattern, 0, ref.offset, size, [&](std::int64_t byte) {
      const auto at = static_cast<std::size_t>(byte / 2);
      if (byte >= 0 && at < cells.size()) fn(cells[at], mask);
    });
  }
  template <typename Fn>
  static void walk(const isa::Pattern& pattern, std::size_t d, std::int64_t byte, std::int64_t size,
                   Fn&& fn) {
    if (d == pattern.dims.size()) {
      fn(byte);
      return;
    }
    for (std::int64_t i = 0; i < pattern.dims[d].num; ++i) {
      walk(pattern, d + 1, byte + i * pattern.dims[d].step * size, size, fn);
    }
  }
  std::vector<const isa::TensorRef*> only_;        // by tensor; null: none, or it is in tiles_
  std::unordered_map<std::uint32_t, Tile> tiles_;  // by tensor: of several operands
};

}  // namespace nkisim::python
