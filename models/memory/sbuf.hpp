// Models SBUF of one core as a SystemC module, with the port that engines share.
#pragma once

#include <systemc>
#include <vector>

#include "models/memory/shared_port.hpp"

namespace nkisim::models {

/// The engines' view of SBUF. Probe first; reserve at the time of the grant.
class sbuf_if : public virtual sc_core::sc_interface {
 public:
  /// True if `engine` has to share a port.
  [[nodiscard]] virtual bool shared_by(isa::Engine engine) const = 0;
  /// Moves `grant` to the earliest time, from grant.at on, at which `engine` may stream.
  virtual void probe(isa::Engine engine, Grant& grant) const = 0;
  virtual void reserve(isa::Engine engine, Fs until) = 0;
};

/// A channel. Its ports are the rows of the config's table `ports` for SBUF; without one engines do
/// not delay each other. What SBUF holds is isa::Memory's.
class Sbuf : public sc_core::sc_module, public sbuf_if {
 public:
  [[nodiscard]] const char* kind() const override { return "Sbuf"; }
  Sbuf(const sc_core::sc_module_name& name, const std::vector<PortRule>& rules) : sc_module(name) {
    for (const PortRule& rule : rules) {
      if (rule.space == isa::Space::kSbuf) ports_.emplace_back(rule);
    }
  }
  [[nodiscard]] bool shared_by(isa::Engine engine) const override {
    return models::shared_by(ports_, engine);
  }
  void probe(isa::Engine engine, Grant& grant) const override {
    for (const SharedPort& port : ports_) port.probe(engine, grant);
  }
  void reserve(isa::Engine engine, Fs until) override {
    for (SharedPort& port : ports_) port.reserve(engine, until);
  }
  [[nodiscard]] const std::vector<SharedPort>& ports() const { return ports_; }

 private:
  std::vector<SharedPort> ports_;
};

}  // namespace nkisim::models
