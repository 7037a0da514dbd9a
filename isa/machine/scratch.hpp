// Declares Tile, the dense values of an operand, and Scratch, whose memory tiles use.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "isa/machine/memory.hpp"

namespace nkisim::isa {

/// Dense row-major values of an operand. The memory is a Scratch's.
template <typename T>
struct Tile {
  T* data = nullptr;
  std::int64_t rows = 0, columns = 0;
  [[nodiscard]] T* row(std::int64_t r) const { return data + r * columns; }
  [[nodiscard]] std::int64_t size() const { return rows * columns; }
};

/// The memory of an instruction's tiles, which live until it ends.
class Scratch {
 public:
  /// Uninitialised scratch tile.
  template <typename T>
  Tile<T> make(std::int64_t rows, std::int64_t columns) {
    return {static_cast<T*>(take(static_cast<std::size_t>(rows * columns) * sizeof(T))), rows,
            columns};
  }

 protected:
  explicit Scratch(Memory& memory) : bound_(memory) {}
  /// No tile is in use any more.
  void free_tiles() { block_ = used_ = 0; }

 private:
  void* take(std::size_t bytes);

  struct Block {
    std::unique_ptr<std::byte[]> data;
    std::size_t size = 0;
  };
  Memory& bound_;  // says how much may be taken
  std::vector<Block> blocks_;
  std::size_t block_ = 0, used_ = 0;
};

}  // namespace nkisim::isa
