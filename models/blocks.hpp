// Lists the modules of a simulated chip and the bindings of their ports, without SystemC's types.
#pragma once

#include <string>
#include <vector>

#include "isa/program/world.hpp"
#include "models/config.hpp"

namespace nkisim::isa {
class Program;
}  // namespace nkisim::isa

namespace nkisim::models {

/// One module of the hierarchy.
struct Block {
  struct Port {
    std::string name, to;  // the module that it is bound to
  };
  std::string name;  // hierarchical: "rank0.nc0.tensor"
  std::string kind;  // its class
  std::vector<Port> ports;
};

/// Every module of the chips on which `world.ranks` ranks of `program` run, in SystemC's order.
[[nodiscard]] std::vector<Block> blocks(const isa::Program& program, const Config& config,
                                        const isa::World& world);

}  // namespace nkisim::models
