// Looks up the first row of the machine's cost table that matches an operation, and computes its
// time.
#include "models/issue/cost.hpp"

#include <algorithm>

namespace nkisim::models {
namespace {

bool names(const std::vector<std::string>& opcodes, std::string_view opcode) {
  return std::any_of(opcodes.begin(), opcodes.end(),
                     [&](const std::string& o) { return o == "*" || o == opcode; });
}

template <typename Row>
bool matches(const Row& row, const isa::Part& part) {
  if ((part.features & row.present) != row.present || (part.features & row.absent) != 0) {
    return false;
  }
  return row.dtypes == 0 || (row.dtypes >> static_cast<unsigned>(part.dtype) & 1U) != 0;
}

template <typename Row>
const Row* chosen(const Row& row, bool otherwise) {
  return otherwise && row.otherwise ? row.otherwise.get() : &row;
}

}  // namespace

CostTable::CostTable(std::reference_wrapper<const Config> config, const isa::Program& program,
                     bool otherwise)
    : config_(config), program_(program), otherwise_(otherwise), rows_(program.opcode_count()) {}

const CostTable::Rows& CostTable::rows(isa::Unit unit, isa::Opcode opcode) const {
  Rows& rows = rows_[static_cast<std::size_t>(opcode)][static_cast<std::size_t>(unit)];
  if (!rows.resolved) resolve(unit, program_.opcode_name(opcode), rows);
  return rows;
}

void CostTable::resolve(isa::Unit unit, std::string_view opcode_name, Rows& rows) const {
  rows.resolved = true;
  for (const CostRule& rule : config_.rules) {
    if (rule.unit != unit || !names(rule.opcodes, opcode_name)) continue;
    rows.rules.push_back(chosen(rule, otherwise_));
  }
  for (const CostExtra& extra : config_.extras) {
    if (extra.unit != unit || !names(extra.opcodes, opcode_name)) continue;
    rows.extras.push_back(chosen(extra, otherwise_));
  }
}

Cost CostTable::cost(const isa::Part& part) const {
  const Rows& row = rows(part.unit, part.opcode);
  const auto rule = std::find_if(row.rules.begin(), row.rules.end(),
                                 [&](const CostRule* r) { return matches(*r, part); });
  if (rule == row.rules.end()) {
    isa::fail(isa::Rule::cost_rule_missing, "config " + config_.name + " has no cost rule for " +
                                                std::string(program_.opcode_name(part.opcode)) +
                                                " on " + std::string(name(part.unit)));
  }
  const CostRule& r = **rule;
  double cycles = r.cycles_per_element * static_cast<double>(part.elements);
  double least = r.min_cycles, whole_gap = 0;
  Fs fixed = r.fixed, interval = r.min_interval;
  for (const CostExtra* extra : row.extras) {
    if (!matches(*extra, part)) continue;
    cycles *= extra->stream_factor;
    least = std::max(least, extra->min_cycles);
    fixed += extra->fixed;
    interval = std::max(interval, extra->min_interval);
    whole_gap = std::max(whole_gap, extra->whole_gap_cycles);
  }
  Cost c{.kind = r.kind, .rule = &r};
  c.stream_cycles = std::max(cycles, least) + r.fixed_cycles;
  const auto engine = static_cast<std::size_t>(engine_of(part.unit));
  c.stream = from_cycles(c.stream_cycles, config_.engines.at(engine).clock_ghz);
  c.padding = from_cycles(std::max(0.0, least - cycles), config_.engines.at(engine).clock_ghz);
  c.fixed = fixed;
  c.duration = c.stream + fixed;
  Fs gap = c.duration - r.overlap - c.stream;
  if (c.stream_cycles < whole_gap) {
    gap = static_cast<Fs>(static_cast<double>(gap) * c.stream_cycles / whole_gap);
  }
  c.interval = std::max({c.stream + gap, c.stream, interval});
  return c;
}

const Cost& CostCache::cost(const isa::Part& part) {
  const std::uint64_t key =
      static_cast<std::uint64_t>(part.opcode) * 31 + static_cast<std::uint64_t>(part.features) * 7 +
      static_cast<std::uint64_t>(part.elements) + static_cast<std::uint64_t>(part.unit);
  Entry& e = entries_[(key * 0x9e3779b97f4a7c15U >> 32U) % kEntries];
  const isa::Part& p = e.part;
  if (e.cost.rule == nullptr || p.opcode != part.opcode || p.unit != part.unit ||
      p.features != part.features || p.dtype != part.dtype || p.elements != part.elements) {
    e.cost = table_.cost(part);
    e.part = part;
  }
  return e.cost;
}

}  // namespace nkisim::models
