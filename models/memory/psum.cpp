// Finds when an engine may use the shared ports of PSUM and of its banks.
#include "models/memory/psum.hpp"

#include <algorithm>
#include <bit>
#include <string>

namespace nkisim::models {
namespace {

// fn(bank) of each bit, ascending.
template <typename Fn>
void for_banks(std::uint32_t banks, const Fn& fn) {
  for (; banks != 0; banks &= banks - 1) fn(static_cast<std::size_t>(std::countr_zero(banks)));
}

std::vector<SharedPort> ports_of(const std::vector<PortRule>& rules, bool per_bank) {
  std::vector<SharedPort> ports;
  for (const PortRule& rule : rules) {
    if (rule.space == isa::Space::kPsum && rule.per_bank == per_bank) ports.emplace_back(rule);
  }
  return ports;
}

}  // namespace

PsumBank::PsumBank(const sc_core::sc_module_name& name, const std::vector<PortRule>& rules)
    : sc_module(name), ports_(ports_of(rules, true)) {}

Psum::Psum(const sc_core::sc_module_name& name, const std::vector<PortRule>& rules, int banks)
    : sc_module(name), whole_(ports_of(rules, false)) {
  for (int b = 0; b < banks; ++b) {
    banks_.push_back(std::make_unique<PsumBank>(("bank" + std::to_string(b)).c_str(), rules));
  }
}

bool Psum::shared_by(isa::Engine engine) const {
  return models::shared_by(whole_, engine) ||
         std::any_of(banks_.begin(), banks_.end(),
                     [&](const auto& bank) { return models::shared_by(bank->ports(), engine); });
}

void Psum::probe(isa::Engine engine, std::uint32_t banks, Grant& grant) const {
  if (banks == 0) return;
  for (const SharedPort& port : whole_) port.probe(engine, grant);
  for_banks(banks, [&](std::size_t b) {
    for (const SharedPort& port : banks_.at(b)->ports()) port.probe(engine, grant);
  });
}

void Psum::reserve(isa::Engine engine, std::uint32_t banks, Fs until) {
  if (banks == 0) return;
  for (SharedPort& port : whole_) port.reserve(engine, until);
  for_banks(banks, [&](std::size_t b) {
    for (SharedPort& port : banks_.at(b)->ports()) port.reserve(engine, until);
  });
}

}  // namespace nkisim::models
