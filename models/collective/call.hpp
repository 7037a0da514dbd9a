// What a collective instruction asks of the model of links and stacks.
#pragma once

#include "isa/inst.hpp"
#include "isa/part.hpp"
#include "isa/world.hpp"
#include "models/collective/request.hpp"

namespace nkisim::models {

[[nodiscard]] CollectiveKind kind_of(isa::Op op);
/// The request of a group of ranks of `cores` cores, without its triggers and lengths.
[[nodiscard]] CollectiveRequest request_of(const isa::Inst& inst, const isa::CollectiveWork& work,
                                           std::size_t cores,
                                           const std::vector<std::int64_t>& group,
                                           const isa::World& world);

}  // namespace nkisim::models
