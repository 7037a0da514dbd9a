// Groups the packets of each DMA queue of a device profile, and links them to their triggers.

#include "src/device_profile/profile_dma.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "isa/base/names.hpp"
#include "isa/base/stable_order.hpp"

namespace nkisim {
namespace {

using QueueKey = std::pair<int, std::string>;  // core, queue
using Group = std::vector<const HwPacket*>;

std::string engine_word(isa::Unit unit) {
  return unit == isa::Unit::kTensorMatrix ? "Tensor" : std::string(isa::name(unit));
}

bool is_software(std::string_view kind) { return kind.find("software") != std::string_view::npos; }
bool is_hardware(std::string_view kind) { return kind.find("hardware") != std::string_view::npos; }

// Packets of one core by queue, engine and order, cut into groups.
class Queues {
 public:
  explicit Queues(const HwProfile& profile) {
    std::map<QueueKey, std::map<int, Group>> packets;
    for (const HwPacket& p : profile.packets) {
      if (p.kind == "instruction" || p.collective || p.core < 0) continue;
      packets[{p.core, p.queue}][p.engine].push_back(&p);
      kinds_[{p.core, p.queue}] = p.kind;
    }
    for (auto& [key, engines] : packets) {
      for (auto& [engine, list] : engines) groups_[key][engine] = cut(list);
    }
  }

  [[nodiscard]] const std::map<QueueKey, std::string>& kinds() const { return kinds_; }
  /// Payload of the k-th transfer of a queue; `whole` is false if some engine has fewer groups
  /// than the queue has transfers.
  [[nodiscard]] Group transfer(const QueueKey& key, std::size_t k) const {
    Group all;
    const auto it = groups_.find(key);
    if (it == groups_.end()) return all;
    for (const auto& [engine, groups] : it->second) {
      if (k < groups.size()) all.insert(all.end(), groups[k].begin(), groups[k].end());
    }
    return all;
  }
  [[nodiscard]] std::size_t count(const QueueKey& key) const {
    std::size_t most = 0;
    const auto it = groups_.find(key);
    if (it == groups_.end()) return 0;
    for (const auto& [engine, groups] : it->second) most = std::max(most, groups.size());
    return most;
  }

 private:
  static std::vector<Group> cut(Group& list) {
    isa::sort_stably(list, [](const HwPacket* a, const HwPacket* b) {
      return a->index != b->index ? a->index < b->index : a->start < b->start;
    });
    std::vector<Group> groups;
    Group open;
    for (const HwPacket* p : list) {
      if (p->bytes > kSemaphorePacketBytes) {
        open.push_back(p);
      } else {
        groups.push_back(std::move(open));
        open.clear();
      }
    }
    if (!open.empty()) groups.push_back(std::move(open));
    return groups;
  }
  std::map<QueueKey, std::map<int, std::vector<Group>>> groups_;
  std::map<QueueKey, std::string> kinds_;
};

// "qSyncPIOParam0 block_id=1": the queue a compiler-level trigger names.
std::string named_queue(const HwInstruction& inst) {
  std::string_view text = inst.compiler_operands;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (word.size() > 2 && word[0] == 'q' && word[1] >= 'A' && word[1] <= 'Z' &&
        word.find('=') == std::string_view::npos) {
      return std::string(word);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

class Linker {
 public:
  Linker(const HwProfile& profile, const ProfileBody& body) : queues_(profile), body_(body) {
    for (const BodyInstruction& b : body.instructions) {
      for (const ProfileWait& w : b.operands.waits) {
        if (!w.owner.empty() && w.owner.front() == 'q') {
          owners_[{b.inst->core, w.wait.semaphore}] = w.owner;
        }
      }
    }
  }

  std::vector<LinkedDma> link(std::vector<std::string>& warnings) {
    std::vector<LinkedDma> out(body_.instructions.size());
    std::map<QueueKey, std::size_t> used;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const BodyInstruction& b = body_.instructions[i];
      if (!b.dma) continue;
      LinkedDma& l = out[i];
      l.semaphore = b.operands.dma.semaphore;
      l.increment = l.semaphore >= 0 ? std::max(1, b.operands.dma.increment) : 0;
      l.queue = queue_of(b);
      const QueueKey key{b.inst->core, l.queue};
      l.payload = queues_.transfer(key, used[key]++);
      l.mode = mode(key, *b.inst);
      if (l.semaphore < 0) take_semaphore(l);
    }
    for (const auto& [key, kind] : queues_.kinds()) {
      const std::size_t triggers = used.count(key) != 0 ? used[key] : 0;
      const std::size_t transfers = queues_.count(key);
      if (triggers == transfers) continue;
      warnings.push_back("queue " + key.second + ": " + std::to_string(transfers) +
                         " transfers in the profile, " + std::to_string(triggers) +
                         " triggers in the kernel");
    }
    return out;
  }

 private:
  // By the instruction itself, by who raises its semaphore, else by the engine's name.
  std::string queue_of(const BodyInstruction& b) const {
    const std::string named = named_queue(*b.inst);
    if (!named.empty()) return named;
    const int core = b.inst->core;
    if (b.operands.dma.semaphore >= 0) {
      const auto it = owners_.find({core, b.operands.dma.semaphore});
      if (it != owners_.end()) return it->second;
    }
    const std::string prefix = "q" + engine_word(b.inst->unit);
    std::string by_kind;
    for (const auto& [key, kind] : queues_.kinds()) {
      if (key.first != core) continue;
      const bool dynamic = is_software(kind) || is_hardware(kind);
      if (key.second.rfind(prefix, 0) == 0 && dynamic) return key.second;
      if (is_software(kind) == (b.inst->unit == isa::Unit::kGpSimd) && dynamic) {
        by_kind = by_kind.empty() ? key.second : "?";
      }
    }
    if (!by_kind.empty() && by_kind != "?") return by_kind;
    return prefix + (b.inst->unit == isa::Unit::kGpSimd ? "Dynamic" : "DynamicHW");
  }

  isa::DgeMode mode(const QueueKey& key, const HwInstruction& inst) const {
    const auto it = queues_.kinds().find(key);
    if (it != queues_.kinds().end()) {
      if (is_software(it->second)) return isa::DgeMode::kSwdge;
      if (is_hardware(it->second)) return isa::DgeMode::kHwdge;
      if (it->second != "unknown" && !it->second.empty()) return isa::DgeMode::kNone;
    }
    if (inst.opcode != "DMA_DIRECT2D") return isa::DgeMode::kUnknown;
    return inst.unit == isa::Unit::kGpSimd ? isa::DgeMode::kSwdge : isa::DgeMode::kHwdge;
  }

  // Static rings: the packets say which semaphore they raise, one step per engine.
  static void take_semaphore(LinkedDma& l) {
    std::set<int> engines;
    for (const HwPacket* p : l.payload) {
      if (p->semaphore >= 0) l.semaphore = p->semaphore;
      engines.insert(p->engine);
    }
    if (l.semaphore >= 0) l.increment = static_cast<std::int32_t>(engines.size());
  }

  Queues queues_;
  const ProfileBody& body_;
  std::map<std::pair<int, int>, std::string> owners_;  // core, semaphore -> queue
};

}  // namespace

std::vector<LinkedDma> link_dma(const HwProfile& profile, const ProfileBody& body,
                                std::vector<std::string>& warnings) {
  return Linker(profile, body).link(warnings);
}

}  // namespace nkisim
