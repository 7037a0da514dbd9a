// Models PSUM of one core and its banks as SystemC modules, with the ports that engines share.
#pragma once

#include <cstdint>
#include <systemc>
#include <vector>

#include "models/memory/shared_port.hpp"
#include "models/module_list.hpp"

namespace nkisim::models {

/// The engines' view of PSUM. `banks`: a bit for each bank that the engine touches.
class psum_if : public virtual sc_core::sc_interface {
 public:
  /// True if `engine` has to share a port, of a bank or of all.
  [[nodiscard]] virtual bool shared_by(isa::Engine engine) const = 0;
  /// Moves `grant` to the earliest time, from grant.at on, at which `engine` may stream.
  virtual void probe(isa::Engine engine, std::uint32_t banks, Grant& grant) const = 0;
  virtual void reserve(isa::Engine engine, std::uint32_t banks, Fs until) = 0;
};

/// One bank: the ports of the config's rows that hold per bank.
class PsumBank : public sc_core::sc_module {
 public:
  [[nodiscard]] const char* kind() const override { return "PsumBank"; }
  PsumBank(const sc_core::sc_module_name& name, const std::vector<PortRule>& rules);
  [[nodiscard]] std::vector<SharedPort>& ports() { return ports_; }
  [[nodiscard]] const std::vector<SharedPort>& ports() const { return ports_; }

 private:
  std::vector<SharedPort> ports_;
};

/// A channel. The ports of the config's rows that hold for the whole memory are its own.
class Psum : public sc_core::sc_module, public psum_if {
 public:
  [[nodiscard]] const char* kind() const override { return "Psum"; }
  Psum(const sc_core::sc_module_name& name, const std::vector<PortRule>& rules, int banks);
  [[nodiscard]] bool shared_by(isa::Engine engine) const override;
  void probe(isa::Engine engine, std::uint32_t banks, Grant& grant) const override;
  void reserve(isa::Engine engine, std::uint32_t banks, Fs until) override;
  [[nodiscard]] const PsumBank& bank(std::size_t number) const { return *banks_.at(number); }

 private:
  std::vector<SharedPort> whole_;
  ModuleList<PsumBank> banks_;
};

}  // namespace nkisim::models
