// Simulates small programs with timing, and collects when each instruction ran.
#pragma once

#include <string>
#include <vector>

#include "src/config/config_json.hpp"
#include "src/run/simulation.hpp"
#include "tests/support/program_builder.hpp"

namespace nkisim::test {

struct Timeline : models::Observer {
  std::vector<models::PartEvent> parts;
  std::vector<models::DmaEvent> transfers;
  void on_event(const models::PartEvent& e) override { parts.push_back(e); }
  void on_event(const models::DmaEvent& e) override { transfers.push_back(e); }
};

inline SimResult run(ProgramBuilder& b, Timeline& events,
                     const std::vector<std::string>& overrides = {}) {
  const std::string target(b.program().machine().target);
  return simulate(b.program(), load_config(target, overrides), nullptr, {&events});
}

}  // namespace nkisim::test
