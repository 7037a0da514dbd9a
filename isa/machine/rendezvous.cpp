// Checks that the instructions at which two cores wait for each other belong together.

#include "isa/machine/rendezvous.hpp"

#include "isa/program/program.hpp"

namespace nkisim::isa {

void fail_alone(const Program& program, const Inst& waiting, const Inst* other) {
  std::string why = "which ends without the matching instruction";
  if (other != nullptr) {
    const std::string place = program.kernel_place(*other);
    why =
        "which waits in " + std::string(spec(*other).name) + (place.empty() ? "" : " at " + place);
  }
  Error e(Rule::core_deadlock,
          "core " + std::to_string(waiting.core) + " waits here for another core, " + why);
  e.at(spec(waiting).name, waiting.loc);
  program.locate(e);
  throw e;
}

void check_meeting(const Program& program, std::span<const Inst* const> met) {
  for (const Inst* inst : met) {
    if (inst->op != met.front()->op) fail_alone(program, *met.front(), inst);
  }
  const OpSpec& op = spec(*met.front());
  if (op.check_partner == nullptr || met.size() < 2) return;
  for (std::size_t c = 0; c < met.size(); ++c) {
    try {
      op.check_partner(*met[c], *met[partner_of(c)]);
    } catch (Error& e) {
      e.at(op.name, met[c]->loc);
      program.locate(e);
      throw;
    }
  }
}

}  // namespace nkisim::isa
