// Lists for each tensor of a program the instructions that write or read it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "isa/program/operands.hpp"

namespace nkisim::isa {

/// The uses of all tensors as the program was when they were looked for, by the numbers of its
/// instructions; index tensors of dynamic addresses count as read.
class Uses {
 public:
  using Numbers = std::span<const std::uint32_t>;  // of instructions, each once

  explicit Uses(const Program& program);
  explicit Uses(std::shared_ptr<const Operands> operands);

  /// The operands that are counted.
  [[nodiscard]] const Operands& operands() const { return *operands_; }

  [[nodiscard]] bool any(std::uint32_t tensor) const { return of_[tensor].used; }
  /// The first and the last that use it; they count only if there is any.
  [[nodiscard]] std::uint32_t first(std::uint32_t tensor) const { return of_[tensor].first; }
  [[nodiscard]] std::uint32_t last(std::uint32_t tensor) const { return of_[tensor].last; }
  /// Instructions that read it and do not write it as well; ascending until uses are redirected to
  /// it.
  [[nodiscard]] Numbers readers(std::uint32_t tensor) const;
  /// Instructions that write it, ascending.
  [[nodiscard]] Numbers writers(std::uint32_t tensor) const;
  /// The number of operands that write it: an instruction may have several.
  [[nodiscard]] std::uint32_t writes(std::uint32_t tensor) const { return of_[tensor].writes; }
  /// Readers and writers, ascending.
  [[nodiscard]] std::vector<std::uint32_t> users(std::uint32_t tensor) const;
  /// Appends them to `all`.
  void add_users(std::uint32_t tensor, std::vector<std::uint32_t>& all) const;
  /// True if every use is an operand of its own: none in a list of operands, none as an index.
  [[nodiscard]] bool direct(std::uint32_t tensor) const { return of_[tensor].direct; }
  /// True if no use is at an address that is known at run time only.
  [[nodiscard]] bool fixed(std::uint32_t tensor) const { return of_[tensor].fixed; }

  /// Moves the readers of `from` to `to`, after the program was changed in that way.
  void redirect(std::uint32_t from, std::uint32_t to);

 private:
  struct Range {
    std::uint32_t begin = 0, count = 0;
  };
  struct OfTensor {
    std::uint32_t first = 0, last = 0, writes = 0;
    Range readers, writers;
    bool used = false, direct = true, fixed = true;
    bool redirected = false;  // some of its readers came by redirect()
  };
  template <typename Fn>
  void each_use(Fn&& fn) const;
  void note(const Operand& operand, std::uint32_t inst);

  std::shared_ptr<const Operands> operands_;
  std::vector<OfTensor> of_;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> redirected_;  // all such readers
  std::vector<std::uint32_t> readers_, writers_;  // by tensor, each tensor's in a row
};

}  // namespace nkisim::isa
