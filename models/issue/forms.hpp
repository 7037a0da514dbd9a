// Caches the machine operations that an instruction expands to: programs repeat few different ones.
#pragma once

#include <optional>
#include <vector>

#include "isa/program/program.hpp"
#include "models/issue/cost.hpp"
#include "models/memory/memory_use.hpp"
#include "models/pool.hpp"

namespace nkisim::models {

/// Everything that operations of the same op, arguments and engine share.
struct Form {
  isa::Expansion expansion;
  std::vector<Cost> costs;                      // of its parts; without a rule: not asked for yet
  MemoryUse memory = {};                        // where no register decides it
  std::optional<std::uint64_t> memory_of = {};  // edits of the program that `memory` is of

 private:
  friend class Forms;
  const isa::Arg* args = nullptr;
  isa::Op op{};
  isa::Engine engine{};
  bool known = false;      // found under its key
  std::uint32_t uses = 0;  // operations that have it
};

/// Forms by what they depend on. Arguments that a program keeps once for several instructions
/// (Program::append) make them one form.
class Forms {
 public:
  explicit Forms(const isa::Machine& machine) : machine_(machine), known_(kKnown) {}
  /// The form of `inst` on `engine`, to be given back with release().
  [[nodiscard]] Form& take(const isa::Inst& inst, isa::Engine engine);
  void release(Form& form) {
    if (--form.uses == 0 && !form.known) store_.give_back(form);
  }

 private:
  static constexpr std::size_t kKnown = 4096;
  Form* make(const isa::Inst& inst, isa::Engine engine);
  void replace(Form*& known, Form* made);
  const isa::Machine& machine_;
  std::vector<Form*> known_;  // by a hash of the key, at one of two places
  Pool<Form> store_;
};

}  // namespace nkisim::models
