// Selects from a device profile the instructions and DMA packets of the kernel, in their order.

#include "src/device_profile/profile_body.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>

#include "isa/base/stable_order.hpp"

namespace nkisim {
namespace {

// Opcodes the AWS profiler itself leaves out of a kernel's execution time.
constexpr std::array<std::string_view, 10> kControl = {"NOP",
                                                       "SET_ORDERING_MODE",
                                                       "EVENT_SEMAPHORE",
                                                       "EVENT_SEMAPHORE_RANGE_CLEAR",
                                                       "NOTIFY",
                                                       "DRAIN",
                                                       "COMPARE_BRANCH",
                                                       "WRITE",
                                                       "TENSOR_LOAD",
                                                       "MODIFY_POOL_CONFIG"};

bool triggers_dma(const HwInstruction& inst) {
  return inst.opcode.find("DMA") != std::string::npos ||
         inst.compiler_opcode.find("DMA") != std::string::npos;
}

bool is_kernel(const HwInstruction& inst, bool marked_by_compiler) {
  if (inst.core < 0 || inst.opcode == "SET_ORDERING_MODE") return false;
  return marked_by_compiler ? inst.from_compiler : is_data_path(inst.opcode);
}

using Stream = std::vector<const HwInstruction*>;

// Program order of one engine: by pc, or by time where loops execute a pc more than once.
void sort_stream(Stream& stream) {
  std::set<std::int64_t> pcs;
  bool unique = true;
  for (const HwInstruction* i : stream) unique = unique && i->pc >= 0 && pcs.insert(i->pc).second;
  isa::sort_stably(stream, [unique](const auto* a, const auto* b) {
    return unique ? a->pc < b->pc : a->start < b->start;
  });
}

// Merges the engines' streams by the time at which each instruction can have been issued.
Stream merge(std::map<std::pair<int, isa::Engine>, Stream>& streams) {
  struct Item {
    double time;
    std::size_t position;
    const HwInstruction* inst;
  };
  std::vector<Item> items;
  for (auto& [key, stream] : streams) {
    sort_stream(stream);
    double time = -std::numeric_limits<double>::infinity();
    for (const HwInstruction* i : stream) {
      time = std::max(time, i->start);
      items.push_back({time, items.size(), i});
    }
  }
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return a.time != b.time ? a.time < b.time : a.position < b.position;
  });
  Stream order;
  for (const Item& item : items) order.push_back(item.inst);
  return order;
}

}  // namespace

bool is_data_path(std::string_view opcode) {
  return std::find(kControl.begin(), kControl.end(), opcode) == kControl.end();
}

bool is_payload(const HwPacket& packet) {
  return packet.kind != "instruction" && !packet.collective && packet.core >= 0 &&
         packet.bytes > kSemaphorePacketBytes;
}

ProfileBody select_body(const HwProfile& profile, bool everything) {
  const auto& all = profile.instructions;
  const bool marked_by_compiler =
      std::any_of(all.begin(), all.end(), [](const auto& i) { return i.from_compiler; });
  ProfileBody body;
  body.start = std::numeric_limits<double>::infinity();
  std::map<std::pair<int, isa::Engine>, Stream> streams;
  for (const HwInstruction& i : all) {
    const bool kernel = is_kernel(i, marked_by_compiler);
    if (kernel) body.start = std::min(body.start, i.start);
    if (i.core >= 0 && (kernel || everything)) {
      streams[{i.core, isa::engine_of(i.unit)}].push_back(&i);
    } else {
      ++body.left_out;
    }
  }
  for (const HwInstruction* i : merge(streams)) {
    BodyInstruction b{.inst = i, .operands = parse_operands(i->operands)};
    b.dma = triggers_dma(*i);
    body.instructions.push_back(std::move(b));
  }
  return body;
}

}  // namespace nkisim
