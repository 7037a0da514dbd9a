// Searches each partition for eight values, for nc_find_index8 and nc_match_replace8.
#include "isa/ops/shared/match8.hpp"

#include <algorithm>

namespace nkisim::isa {

void check_match8(const TensorRef& data, const TensorRef& vals, std::int64_t least) {
  constexpr std::int64_t kMost = 16384;
  check_same_rows("data", data, "vals", vals);
  if (data.columns() < least || data.columns() > kMost) {
    fail(Rule::operand_size, "data", describe(data),
         std::to_string(least) + " to " + std::to_string(kMost) + " elements per partition");
  }
  if (vals.columns() != 8)
    fail(Rule::operand_size, "vals", describe(vals), "8 elements per partition");
}

void match8(const float* data, std::int64_t n, const float* vals, bool descending,
            std::int64_t* positions) {
  for (int i = 0; i < 8; ++i) {
    const int k = descending ? 7 - i : i;
    // Equal values before this one took the earlier occurrences.
    std::int64_t from = 0;
    bool absent = false;
    for (int j = 0; j < i; ++j) {
      const int earlier = descending ? 7 - j : j;
      if (vals[earlier] != vals[k]) continue;
      absent = positions[earlier] < 0;
      from = positions[earlier] + 1;
    }
    const float* hit = absent ? data + n : std::find(data + from, data + n, vals[k]);
    positions[k] = hit == data + n ? -1 : hit - data;
  }
}

void expand_match8(const Inst& inst, const Machine& machine, int vals_param, Expansion& out) {
  const std::uint32_t all = (1U << inst.args.size()) - 1U;
  const std::uint32_t vals = 1U << static_cast<unsigned>(vals_param);
  Part load = default_part(inst, machine, vals);
  load.opcode = Opcode::kMATCH_VALUE_LOAD;
  out.parts.push_back(load);
  out.parts.push_back(default_part(inst, machine, all & ~vals));
}

}  // namespace nkisim::isa
