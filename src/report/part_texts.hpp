// Formats the operands of executed instructions as text, and caches the texts: programs repeat few
// different instructions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "isa/program/program.hpp"

namespace nkisim {

class PartTexts {
 public:
  struct Lines {
    std::vector<std::string>
        texts;  // of the instruction's parts, as isa::disasm_parts() gives them
    std::vector<std::int64_t> numbers;  // the caller's of them; kNone before it gives one

   private:
    friend class PartTexts;
    bool known = false;
    const isa::Arg* args = nullptr;
    const isa::Sync* sync = nullptr;
    isa::Op op{};
    isa::Engine engine{};
  };
  static constexpr std::int64_t kNone = -1;

  explicit PartTexts(const isa::Program& program) : program_(program), known_(kKnown) {}
  /// The texts of `inst`, valid until the next call. Instructions share them if they have the same
  /// op, engine and semaphores, and arguments that the program keeps once.
  [[nodiscard]] Lines& of(const isa::Inst& inst);

 private:
  static constexpr std::size_t kKnown = 4096;
  const isa::Program& program_;
  std::vector<Lines> known_;  // by a hash of what they depend on
};

}  // namespace nkisim
