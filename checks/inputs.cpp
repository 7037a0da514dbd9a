// Finds elements of a program's inputs that no instruction reads.
#include <algorithm>
#include <array>
#include <unordered_map>

#include "checks/unread.hpp"
#include "checks/words.hpp"
#include "isa/program/footprint.hpp"

namespace nkisim::checks {
namespace {

// The elements of an input that are read.
struct Coverage {
  std::vector<bool> read;  // by element
  const isa::Inst* last = nullptr;
  bool known = true;
};

// Larger inputs are not looked at.
constexpr std::int64_t kMostElements = std::int64_t{1} << 28;

void cover(Coverage& c, const isa::Footprint& f, std::int64_t element) {
  std::array<std::int64_t, isa::Footprint::kMaxDims> at{};
  for (std::int64_t start = f.first;;) {
    const auto begin = c.read.begin();
    std::fill(begin + start / element, begin + (start + f.run + element - 1) / element, true);
    int d = f.dim_count;
    while (d-- > 0) {
      const auto i = static_cast<std::size_t>(d);
      start += f.dims.at(i).stride;
      if (++at.at(i) < f.dims.at(i).count) break;
      start -= f.dims.at(i).stride * f.dims.at(i).count;
      at.at(i) = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace

std::vector<Remark> input_remarks(const isa::Program& program) {
  std::unordered_map<std::uint32_t, Coverage> inputs;
  const auto& tensors = program.tensors();
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].role != isa::TensorRole::kInput || tensors[i].space != isa::Space::kHbm)
      continue;
    if (tensors[i].elements() > kMostElements) continue;
    inputs[i].read.resize(static_cast<std::size_t>(tensors[i].elements()));
  }
  for (const isa::Inst& inst : program.insts()) {
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
      const auto input = inputs.find(ref.tensor);
      if (input == inputs.end()) return;
      Coverage& c = input->second;
      c.last = &inst;
      if (write || ref.dynamic != nullptr) c.known = false;
      if (c.known) {
        cover(c, isa::static_footprint(ref, program), isa::size_bytes(tensors[ref.tensor].dtype));
      }
    });
  }
  std::vector<Remark> remarks;
  for (std::uint32_t i = 0; i < tensors.size() && remarks.size() < kMostRemarks; ++i) {
    const auto input = inputs.find(i);
    if (input == inputs.end() || !input->second.known || program.insts().empty()) continue;
    const std::vector<bool>& read = input->second.read;
    const auto left = std::count(read.begin(), read.end(), false);
    if (left == 0) continue;
    const auto first = std::find(read.begin(), read.end(), false) - read.begin();
    const isa::Inst* at = input->second.last;
    remarks.push_back({at != nullptr ? at : &program.insts().front(), isa::Rule::input_unread,
                       "nothing reads " + std::to_string(left) + " of the " +
                           std::to_string(read.size()) + " elements of " + tensors[i].name +
                           ", the first of them " + element_text(tensors[i], first)});
  }
  return remarks;
}

}  // namespace nkisim::checks
