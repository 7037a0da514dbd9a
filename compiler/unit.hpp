// Holds a program between the compiler's passes, with the facts about it that they share.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/analysis/values.hpp"
#include "compiler/options.hpp"
#include "isa/program/uses.hpp"
#include "models/config.hpp"

namespace nkisim::compiler {

/// The highest byte per partition that the tensors of one memory end at.
struct MemoryPeak {
  int core = 0;
  isa::Space space = isa::Space::kSbuf;
  std::int64_t bytes = 0;
};

/// A cached analysis of a program; computed anew once the program has been edited.
template <typename T>
class Cached {
 public:
  /// `edits`: how often the program had been edited (Program::edits, operand_edits).
  template <typename Find>
  const T& operator()(std::uint64_t edits, Find&& find) {
    if (!holds(edits)) {
      is_.reset();
      is_.emplace(find());
    }
    edits_ = edits;
    return *is_;
  }
  /// Keeps it true to edits of the program, by change(T&).
  template <typename Change>
  void adapt(std::uint64_t edits, Change&& change) {
    change(*is_);
    edits_ = edits;
  }
  void forget() { is_.reset(); }
  void forget_unless(std::uint64_t edits) {
    if (!holds(edits)) forget();
  }
  [[nodiscard]] bool holds(std::uint64_t edits) const { return is_.has_value() && edits_ == edits; }

 private:
  std::optional<T> is_;
  std::uint64_t edits_ = 0;
};

/// A program on its way through the pipeline, and what passes have found out about it.
struct Unit {
  isa::Program& program;
  Choices choices;
  Origin origin;
  /// The costs of the machine it is compiled for; loaded when a pass asks.
  std::function<const models::Config&()> config;

  bool over_capacity = false;               // addresses may go on beyond SBUF and PSUM
  std::optional<isa::Error> overflow = {};  // why they do, if it was not asked for
  std::string_view delay =
      {};  // what waits in the order that fits (memory_saving_order.hpp); "": its own fits
  bool packed = false;  // narrow tensors lie side by side
  bool placed = false;  // every on-chip tensor has its final address
  std::vector<MemoryPeak> peaks = {};
  Cached<std::vector<bool>> cached_final = {};
  Cached<std::shared_ptr<isa::Operands>> cached_operands = {};
  Cached<isa::Uses> cached_uses = {};
  Cached<Values> cached_values = {};

  /// The uses of the program's tensors, and their values. Each is found once for all passes until
  /// one changes the program; a pass that goes on after its own changes keeps a copy true to them.
  [[nodiscard]] const isa::Uses& uses();
  [[nodiscard]] const Values& values();
  /// Program::reorder, after which the operands need not be looked for anew.
  void reorder(std::span<const std::uint32_t> order);
  /// Gives back the memory of what the program's edits have made untrue.
  void forget_untrue();
  /// By tensor: whether its address is final, so that no pass may change it. HBM: false.
  [[nodiscard]] const std::vector<bool>& final_addresses();
  /// True if passes may drop instructions or tensors. Loops and explicit semaphores count in the
  /// numbers of a program, which must then stay.
  [[nodiscard]] bool may_drop() const {
    return program.control_flow().empty() && !program.explicit_semaphores();
  }
  /// True if passes may make one instruction of several, in another order.
  [[nodiscard]] bool may_group() const { return origin.open && may_drop() && program.cores() == 1; }
};

/// The result of a pass: how many instructions or tensors it changed, and a text (empty: nothing to
/// say beyond the number).
struct PassResult {
  std::size_t changed = 0;
  std::string text = {};
};

}  // namespace nkisim::compiler
