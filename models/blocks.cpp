// Builds the SystemC modules of a program's chips, and walks SystemC's hierarchy to list them.
#include "models/blocks.hpp"

#include "isa/world/shard.hpp"
#include "models/elaboration.hpp"

namespace nkisim::models {
namespace {

// The module that a port is bound to.
std::string bound_to(sc_core::sc_port_base& port) {
  const auto* object = dynamic_cast<const sc_core::sc_object*>(port.get_interface());
  return object == nullptr ? "" : object->name();
}

void find_blocks(const std::vector<sc_core::sc_object*>& objects, std::vector<Block>& found) {
  for (sc_core::sc_object* object : objects) {
    if (dynamic_cast<sc_core::sc_module*>(object) == nullptr) continue;
    Block block{.name = object->name(), .kind = object->kind(), .ports = {}};
    for (sc_core::sc_object* child : object->get_child_objects()) {
      auto* port = dynamic_cast<sc_core::sc_port_base*>(child);
      if (port == nullptr) continue;
      block.ports.push_back({child->basename(), bound_to(*port)});
    }
    found.push_back(std::move(block));
    find_blocks(object->get_child_objects(), found);
  }
}

}  // namespace

std::vector<Block> blocks(const isa::Program& program, const Config& config,
                          const isa::World& world) {
  std::vector<RankSetup> ranks(static_cast<std::size_t>(world.ranks));
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].program = &program;
    ranks[r].options.rank = static_cast<int>(r);
  }
  const isa::Shard shard;
  SimSession session(has_many_modules(ranks));
  const Elaboration elaboration(session.clock(), &session, ranks, config, world, shard);
  const SimSession::Ending ending(session);
  session.elaborate();
  std::vector<Block> found;
  find_blocks(sc_core::sc_get_top_level_objects(), found);
  return found;
}

}  // namespace nkisim::models
