// Assigns addresses to tensors in SBUF and PSUM (place_tensors), by this algorithm:
//
//   for each on-chip tensor: its life is from the first use to the last,
//     and all of each loop that it was allocated before and is used in
//   for each core and memory: place its tensors (allocator.cpp, or packing.cpp if narrow)
//   a shortage is an error that lists the largest live tensors
#include "compiler/placement/place.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "compiler/analysis/loops.hpp"
#include "compiler/placement/allocator.hpp"
#include "compiler/placement/packing.hpp"
#include "compiler/placement/partitions.hpp"

namespace nkisim::compiler {
namespace {

constexpr std::size_t kListed = 8;  // largest live tensors that an error names

std::string padded(std::string text, std::size_t width, bool left) {
  const auto characters =
      static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
      }));
  const std::string blanks(width > characters ? width - characters : 0, ' ');
  return left ? text + blanks : blanks + text;
}

// The tensors of one memory of one core.
class MemoryPlacer {
 public:
  MemoryPlacer(Unit& unit, isa::Space space, std::vector<Item> items)
      : unit_(unit),
        program_(unit.program),
        sbuf_(space == isa::Space::kSbuf),
        items_(std::move(items)),
        capacity_(sbuf_ ? program_.machine().sbuf_partition_bytes
                        : program_.machine().psum_partition_bytes) {}

  // `groups` as partition_groups gives them, empty unless tensors may be put side by side. The
  // highest byte.
  std::int64_t run(bool thorough, const std::vector<std::int32_t>& groups) {
    Placing placing = sbuf_ && !groups.empty() ? pack_narrow(groups)
                                               : allocate(items_, {.capacity = capacity_,
                                                                   .bank = bank(),
                                                                   .strict = !unit_.over_capacity,
                                                                   .thorough = thorough});
    if (const auto* shortage = std::get_if<Shortage>(&placing)) fail_for(*shortage);
    const auto& placed = std::get<Placement>(placing);
    if (placed.peak > capacity_ && !unit_.over_capacity) fail_beyond(placed);
    for (const auto& [id, address] : placed.addresses) program_.set_address(id, address);
    return placed.peak;
  }

 private:
  [[nodiscard]] std::int64_t bank() const {
    return sbuf_ ? 0 : program_.machine().psum_bank_bytes();
  }
  [[nodiscard]] std::string label() const { return sbuf_ ? "SBUF" : "PSUM"; }
  // The capacity, and which key of a config changed it.
  [[nodiscard]] std::string capacity() const {
    return std::to_string(capacity_) +
           changed_note(program_.machine(),
                        sbuf_ ? "sbuf_partition_bytes" : "psum_partition_bytes");
  }

  Placing pack_narrow(const std::vector<std::int32_t>& groups) {
    std::vector<NarrowItem> narrow;
    for (const Item& item : items_) {
      const isa::Tensor& t = program_.tensor(item.id);
      narrow.push_back({item, groups[item.id], t.partition, t.shape[0]});
    }
    auto packed = pack(narrow, capacity_);
    if (auto* shortage = std::get_if<Shortage>(&packed)) return std::move(*shortage);
    auto& done = std::get<Packed>(packed);
    if (move_partitions(program_, done.starts)) return std::move(done.placement);
    // Instructions that no group foresaw.
    Shortage shortage{
        *std::max_element(items_.begin(), items_.end(),
                          [](const Item& a, const Item& b) { return a.bytes < b.bytes; }),
        {}};
    for (const Item& item : items_) {
      if (item.id != shortage.item.id) shortage.live.push_back(item);
    }
    return shortage;
  }

  [[noreturn]] void fail_at(std::uint32_t tensor, const std::string& message) const {
    isa::Error e(isa::Rule::over_capacity, message);
    const isa::Tensor& t = program_.tensor(tensor);
    e.at("ndarray", {.kernel_file = t.file, .kernel_line = t.line});
    program_.locate(e);
    throw e;
  }

  [[noreturn]] void fail_beyond(const Placement& placed) const {
    std::unordered_map<std::uint32_t, std::int64_t> ends;
    for (const auto& [id, address] : placed.addresses) ends[id] = address;
    for (const Item& i : items_) ends[i.id] += i.bytes;
    const Item& worst = *std::max_element(
        items_.begin(), items_.end(),
        [&](const Item& a, const Item& b) { return ends.at(a.id) < ends.at(b.id); });
    fail_at(worst.id, name_of(worst) + " ends at byte " + std::to_string(placed.peak) +
                          " of a partition; " + label() + " has " + capacity());
  }

  [[noreturn]] void fail_for(const Shortage& shortage) const {
    std::vector<Item> live = shortage.live;
    live.push_back(shortage.item);
    std::stable_sort(live.begin(), live.end(),
                     [](const Item& a, const Item& b) { return a.bytes > b.bytes; });
    std::int64_t total = 0;
    for (const Item& i : live) total += i.bytes;
    std::string text = label() + " is full: " + name_of(shortage.item) + " needs " +
                       std::to_string(shortage.item.bytes) + " bytes per partition while " +
                       std::to_string(live.size() - 1) + " other tensors are live (" +
                       std::to_string(total) + " bytes together, " + capacity() +
                       " exist). The largest live tensors:";
    for (std::size_t k = 0; k < std::min(live.size(), kListed); ++k) {
      text += "\n    " + padded(std::to_string(live[k].bytes), 8, false) + " bytes  " +
              padded(name_of(live[k]), 20, true) + " " + place_of(live[k]);
    }
    text += "\n    (over_capacity=True or NKISIM_OVER_CAPACITY=1 runs it all the same)";
    fail_at(shortage.item.id, text);
  }

  [[nodiscard]] std::string name_of(const Item& item) const {
    return program_.tensor(item.id).name;
  }

  // FILE:LINE of its allocation, without folders.
  [[nodiscard]] std::string place_of(const Item& item) const {
    const isa::Tensor& t = program_.tensor(item.id);
    const std::string file = t.file > 0 ? program_.files().at(t.file - 1) : std::string();
    return file.substr(file.rfind('/') + 1) + ":" + std::to_string(t.line);
  }

  Unit& unit_;
  isa::Program& program_;
  bool sbuf_;
  std::vector<Item> items_;
  std::int64_t capacity_;
};

// The tensor with its life; what is allocated before a loop and used inside must live through all
// iterations.
Item item_of(const isa::Tensor& tensor, std::uint32_t id, const isa::Uses& uses,
             const std::vector<Loop>& loops) {
  std::int64_t first = uses.first(id), last = uses.last(id);
  for (const Loop& loop : loops) {
    if (!uses.any(id) || loop.core != tensor.core) continue;
    if (tensor.born <= loop.begin && first <= loop.end && last >= loop.begin) {
      first = std::min(first, loop.begin);
      last = std::max(last, loop.end);
    }
  }
  return {id, uses.operands().bytes(id), first, last, tensor.fixed ? tensor.address : -1};
}

}  // namespace

void place_tensors(Unit& unit, bool thorough) {
  isa::Program& program = unit.program;
  const isa::Uses& uses = unit.uses();
  const std::vector<Loop> loops = loops_of(program);
  std::vector<std::int32_t> groups;
  if (unit.packed) groups = partition_groups(program, unit.final_addresses());
  std::vector<std::array<std::vector<Item>, 2>> items(static_cast<std::size_t>(program.cores()));
  for (std::uint32_t id = 0; id < program.tensors().size(); ++id) {
    const isa::Tensor& t = program.tensor(id);
    if (t.space == isa::Space::kHbm || (!uses.any(id) && !t.fixed)) continue;
    items[t.core][t.space == isa::Space::kSbuf ? 0 : 1].push_back(item_of(t, id, uses, loops));
  }
  unit.peaks.clear();
  for (std::size_t core = 0; core < items.size(); ++core) {
    for (const isa::Space space : {isa::Space::kSbuf, isa::Space::kPsum}) {
      std::vector<Item>& mine = items[core][space == isa::Space::kSbuf ? 0 : 1];
      if (mine.empty()) continue;
      const std::int64_t peak = MemoryPlacer(unit, space, std::move(mine)).run(thorough, groups);
      unit.peaks.push_back({static_cast<int>(core), space, peak});
    }
  }
}

bool can_be_placed(Unit& unit) {
  try {
    place_tensors(unit, true);
    return true;
  } catch (const isa::Error&) {
    return false;
  }
}

}  // namespace nkisim::compiler
