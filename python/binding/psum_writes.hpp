// Tracks the parts of PSUM tensors written since allocation. They decide if a matmul for which the
// kernel does not set `accumulate` overwrites or adds.
#pragma once

#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "isa/program/program.hpp"

namespace nkisim::python {

/// One bit per 2-byte cell and quadrant of 32 partitions.
class PsumWrites {
 public:
  /// True if any cell of `ref` was written before.
  [[nodiscard]] bool any(const isa::Program& program, const isa::TensorRef& ref) {
    const auto it = tiles_.find(ref.tensor);
    if (it == tiles_.end()) return false;
    if (it->second.whole.contains(key(ref))) return true;
    bool found = false;
    visit(program, ref, it->second.cells,
          [&](std::uint8_t& cell, std::uint8_t mask) { found |= (cell & mask) != 0; });
    return found;
  }
  /// Marks the cells of `ref` as written, or (a memset to zero) as fresh.
  void mark(const isa::Program& program, const isa::TensorRef& ref, bool written) {
    Tile& tile = tiles_[ref.tensor];
    if (!written) tile.whole.clear();
    if (written && !tile.whole.insert(key(ref)).second) return;
    visit(program, ref, tile.cells, [&](std::uint8_t& cell, std::uint8_t mask) {
      cell = static_cast<std::uint8_t>(written ? cell | mask : cell & ~mask);
    });
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
  std::unordered_map<std::uint32_t, Tile> tiles_;  // by tensor
};

}  // namespace nkisim::python
