// Describes a collective instruction for the timing model of links and HBM stacks.
#pragma once

#include "isa/base/inst.hpp"
#include "isa/base/part.hpp"
#include "isa/program/world.hpp"
#include "models/collective/request.hpp"

namespace nkisim::models {

[[nodiscard]] CollectiveKind kind_of(isa::Op op);
/// The request of a group of ranks of `cores` cores, without its triggers and lengths.
[[nodiscard]] CollectiveRequest request_of(const isa::Inst& inst, const isa::CollectiveWork& work,
                                           std::size_t cores,
                                           const std::vector<std::int64_t>& group,
                                           const isa::World& world);

}  // namespace nkisim::models
