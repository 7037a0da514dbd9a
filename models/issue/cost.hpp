// Computes the time of one machine operation on a free engine, from the machine's cost table.
#pragma once

#include <array>
#include <functional>
#include <string_view>
#include <vector>

#include "isa/program/program.hpp"
#include "models/config.hpp"

namespace nkisim::models {

struct Cost {
  PartKind kind = PartKind::kPipe;
  double stream_cycles = 0;  // of the engine's clock
  Fs stream = 0;
  Fs padding = 0;  // of `stream`, what a short one lasts for min_cycles alone
  Fs fixed = 0;
  Fs duration = 0;  // start to result: stream + fixed
  Fs interval = 0;  // start to the next start on the same data path
  const CostRule* rule = nullptr;
};

/// The rows of a config, resolved per opcode of one program when its first part asks. Not for two
/// threads at once.
class CostTable {
 public:
  /// otherwise: with the defaults of all numbers that fewer than three measurements give.
  CostTable(std::reference_wrapper<const Config> config, const isa::Program& program,
            bool otherwise = false);
  /// Throws Error (kBadInput) naming opcode and engine if no row matches.
  [[nodiscard]] Cost cost(const isa::Part& part) const;

 private:
  struct Rows {
    std::vector<const CostRule*> rules;
    std::vector<const CostExtra*> extras;
    bool resolved = false;
  };
  void resolve(isa::Unit unit, std::string_view opcode_name, Rows& rows) const;
  [[nodiscard]] const Rows& rows(isa::Unit unit, isa::Opcode opcode) const;
  const Config& config_;
  const isa::Program& program_;
  bool otherwise_;
  mutable std::vector<std::array<Rows, isa::kUnitCount>> rows_;
};

/// Remembers recent costs: programs repeat few different parts.
class CostCache {
 public:
  explicit CostCache(const CostTable& table) : table_(table), entries_(kEntries) {}
  [[nodiscard]] const Cost& cost(const isa::Part& part);

 private:
  static constexpr std::size_t kEntries = 64;
  struct Entry {
    isa::Part part;  // only what a cost depends on is compared
    Cost cost;
  };
  const CostTable& table_;
  std::vector<Entry> entries_;
};

}  // namespace nkisim::models
