// Spreads a transfer over the DMA engines, and computes the times of their packets.
#include "models/dma/dma_plan.hpp"

#include <algorithm>
#include <cmath>

namespace nkisim::models {
namespace {

Fs transfer_time(std::int64_t bytes, double bytes_per_ns) {
  return from_ns(static_cast<double>(bytes) / bytes_per_ns);
}

// Different transfers remembered before starting afresh.
constexpr std::size_t kMaxPlans = 4096;

// The rates of all packets of one transfer.
struct PacketRates {
  double bytes_per_ns = 1;
  Fs floor = 0;  // least time per descriptor, where descriptors are small
  Fs gap = 0;    // after every descriptor: the ring fetches the next
  std::int64_t descriptor_bytes = 1;
  bool compute = false;
};

// The share of the gap that pieces of a row pay for their distance in HBM: none near to each other,
// all of it far apart, and by the logarithm between, where nothing was measured.
double far_share(const isa::DmaWork& work, const DmaConfig& config) {
  const std::int64_t near = config.piece_near_bytes, far = config.piece_far_bytes;
  if (near <= 0) return 1;
  if (work.step_bytes <= near) return 0;
  if (work.step_bytes >= far) return 1;
  const auto ratio = [near](std::int64_t bytes) {
    return std::log(static_cast<double>(bytes) / static_cast<double>(near));
  };
  return ratio(work.step_bytes) / ratio(far);
}

PacketRates rates(const isa::DmaWork& work, const DmaConfig& config) {
  PacketRates r{.bytes_per_ns = config.bytes_per_ns, .compute = work.compute};
  if (work.transpose) {
    r.bytes_per_ns *=
        work.src == isa::Space::kHbm ? config.transpose_from_hbm : config.transpose_from_sbuf;
  }
  r.descriptor_bytes = std::max<std::int64_t>(1, work.descriptor_bytes);
  const bool load = work.src == isa::Space::kHbm && work.dst != isa::Space::kHbm;
  const bool pieces = work.descriptors > work.rows && work.descriptor_bytes > work.element_bytes;
  // GpSimd's descriptors of known addresses are made without.
  const bool made = work.dge == isa::DgeMode::kSwdge && !work.dynamic;
  if (load && !work.transpose && pieces && !made && config.piece_full_bytes > 0) {
    const auto size = static_cast<double>(std::min(r.descriptor_bytes, config.piece_full_bytes));
    r.gap = static_cast<Fs>(static_cast<double>(config.piece_gap) * size /
                            static_cast<double>(config.piece_full_bytes) * far_share(work, config));
  }
  if (r.descriptor_bytes <= config.floor_max_bytes) {
    const bool store = work.dst == isa::Space::kHbm && work.src != isa::Space::kHbm;
    const bool within = work.dst != isa::Space::kHbm && work.src != isa::Space::kHbm;
    if (!store) r.floor = within && config.copy_floor > 0 ? config.copy_floor : config.load_floor;
    if (store && work.scattered) r.floor = config.store_floor;
  }
  return r;
}

PacketRun run_of(std::int64_t count, std::int64_t bytes, const PacketRates& r,
                 const DmaConfig& config) {
  const std::int64_t descriptors = std::max<std::int64_t>(1, bytes / r.descriptor_bytes);
  const Fs interval =
      std::max(transfer_time(bytes, r.bytes_per_ns) + config.packet_gap, descriptors * r.floor) +
      descriptors * r.gap;
  const Fs tail = r.compute ? config.compute_extra : config.packet_overlap;
  return {.count = count,
          .bytes = bytes,
          .interval = interval,
          .duration = interval + tail,
          .gap = descriptors * r.gap};
}

// `count` descriptors of one engine as packets.
std::vector<PacketRun> packets(std::int64_t count, const isa::DmaWork& work, const DgeConfig& dge,
                               const PacketRates& r, const DmaConfig& config) {
  std::vector<PacketRun> runs;
  const auto add = [&](std::int64_t n, std::int64_t bytes) {
    if (n > 0 && bytes > 0) runs.push_back(run_of(n, bytes, r, config));
  };
  const std::int64_t bytes = r.descriptor_bytes;
  if (dge.packet_bytes > 0 && !work.compute) {
    add(count * bytes / dge.packet_bytes, dge.packet_bytes);
    add(1, count * bytes % dge.packet_bytes);
  } else if (dge.max_packet_bytes > 0 && bytes > dge.max_packet_bytes) {
    add(count * (bytes / dge.max_packet_bytes), dge.max_packet_bytes);
    add(count, bytes % dge.max_packet_bytes);
  } else {
    add(count, bytes);
  }
  return runs;
}

// The write that ends a share; behind it the engine goes past what is skipped.
PacketRun semaphore_write(std::int64_t skipped, const DmaConfig& config) {
  return {.count = 1,
          .bytes = kSemaphoreBytes,
          .interval =
              config.semaphore_packet - config.packet_overlap + skipped * config.skipped_descriptor,
          .duration = config.semaphore_packet};
}

// True if a share moves its bytes too slowly to matter to a stack: element by element. Its use of
// the stack's windows, of which there can be 10^8, is then not followed.
bool is_trickle(const LaneLoad& load, const DmaConfig& config) {
  constexpr double kShare = 0.03;  // of an engine's rate
  return static_cast<double>(load.bytes) <
         kShare * config.bytes_per_ns * to_ns(std::max<Fs>(load.work, 1));
}

// Sums, stagger and HBM effects of a share whose payload runs are in place.
void finish_lane(LanePlan& lane, const isa::DmaWork& work, double engines_share,
                 const DmaConfig& config) {
  for (const PacketRun& r : lane.load.runs) {
    lane.packet_bytes = std::max(lane.packet_bytes, r.bytes);
  }
  lane.bytes = lane.load.bytes;
  lane.packets = lane.load.packets;
  const bool trickle = is_trickle(lane.load, config);
  lane.load.add(semaphore_write(work.skipped / config.engines, config));
  if (!trickle) {
    lane.load.hbm_passes =
        (work.src == isa::Space::kHbm ? 1 : 0) + (work.dst == isa::Space::kHbm ? 1 : 0);
  }
  const auto e =
      static_cast<std::size_t>(lane.engine) % std::max<std::size_t>(1, config.stagger.size());
  double offset = config.stagger.empty() ? 0 : static_cast<double>(config.stagger[e]);
  if (work.src == isa::Space::kHbm) {
    if (lane.bytes >= config.read_stagger_bytes) offset *= config.read_stagger_factor;
    const double share =
        static_cast<double>(lane.bytes) / static_cast<double>(config.cold_full_bytes);
    lane.load.cold = static_cast<Fs>(static_cast<double>(config.cold_penalty) * engines_share *
                                     std::min(1.0, share));
    lane.load.stall = config.hbm_stall_fraction / config.bytes_per_ns * kFsPerNs;
  }
  if (work.dst == isa::Space::kHbm) {
    lane.load.stall += config.hbm_write_stall_fraction / config.bytes_per_ns * kFsPerNs;
  }
  lane.offset = static_cast<Fs>(offset);
}

void from_packets(const isa::DmaPlan& plan, const PacketRates& r, const DmaConfig& config,
                  std::vector<LanePlan>& lanes) {
  std::vector<PacketRun> last(lanes.size());
  const auto flush = [&](std::size_t e) {
    if (last[e].count > 0) lanes[e].load.add(last[e]);
  };
  for (const isa::DmaPacket& p : plan.packets) {
    const std::size_t e = p.engine % lanes.size();
    const std::int64_t bytes = std::max<std::int64_t>(1, p.bytes);
    if (last[e].count > 0 && last[e].bytes == bytes) {
      ++last[e].count;
    } else {
      flush(e);
      last[e] = run_of(1, bytes, r, config);
    }
  }
  for (std::size_t e = 0; e < lanes.size(); ++e) flush(e);
}

bool within_hbm(const isa::DmaWork& work) {
  return work.src == isa::Space::kHbm && work.dst == isa::Space::kHbm;
}

// Cuts up every piece, if fewer pieces than engines are copied within HBM.
isa::DmaWork cut_up(isa::DmaWork work, std::int64_t engines) {
  if (!within_hbm(work) || work.descriptors >= engines || work.descriptors == 0) return work;
  const std::int64_t parts = (engines + work.descriptors - 1) / work.descriptors;
  work.descriptors *= parts;
  work.descriptor_bytes = (work.descriptor_bytes + parts - 1) / parts;
  return work;
}

}  // namespace

bool copies_within_hbm(const isa::Program& program) {
  return std::any_of(program.insts().begin(), program.insts().end(), [](const isa::Inst& inst) {
    if (!isa::spec(inst).dma) return false;
    int operands = 0, on_chip = 0;
    for (const isa::Arg& arg : inst.args) {
      if (arg.kind != isa::Arg::Kind::kTensor) continue;
      ++operands;
      on_chip += arg.tensor->on_chip() ? 1 : 0;
    }
    return operands > 1 && on_chip == 0;
  });
}

int lanes_in_use(const isa::DmaWork& work, const DmaConfig& config) {
  std::int64_t rows = std::max<std::int64_t>(1, work.rows);
  if (within_hbm(work) && config.split_bytes > 0) {  // no partitions that tie a piece to an engine
    rows = std::max(rows, config.rows_per_engine * (work.bytes / config.split_bytes));
  }
  const std::int64_t by_rows = (rows + config.rows_per_engine - 1) / config.rows_per_engine;
  return static_cast<int>(std::clamp<std::int64_t>(by_rows, 1, config.engines));
}

std::vector<LanePlan> plan_dma(const isa::DmaWork& whole, const isa::DmaPlan* explicit_plan,
                               const DgeConfig& dge, const DmaConfig& config) {
  const int used = lanes_in_use(whole, config);
  const isa::DmaWork work = cut_up(whole, used);
  const PacketRates r = rates(work, config);
  std::vector<LanePlan> lanes(static_cast<std::size_t>(config.engines));
  for (std::size_t e = 0; e < lanes.size(); ++e) lanes[e].engine = static_cast<int>(e);
  if (explicit_plan != nullptr && !explicit_plan->packets.empty()) {
    from_packets(*explicit_plan, r, config, lanes);
  } else {
    for (int e = 0; e < used; ++e) {
      const std::int64_t count = work.descriptors / used + (e < work.descriptors % used ? 1 : 0);
      for (const PacketRun& run : packets(count, work, dge, r, config)) {
        lanes[static_cast<std::size_t>(e)].load.add(run);
      }
    }
  }
  const auto busy = std::count_if(lanes.begin(), lanes.end(),
                                  [](const LanePlan& l) { return !l.load.runs.empty(); });
  const double share = static_cast<double>(busy) / static_cast<double>(config.engines);
  for (LanePlan& lane : lanes) finish_lane(lane, work, share, config);
  return lanes;
}

std::size_t DmaPlanner::Hash::operator()(const Key& key) const {
  std::uint64_t h = 0;
  for (const std::int64_t k : key) {
    h = (h ^ static_cast<std::uint64_t>(k)) * 0x9e3779b97f4a7c15U;
    h ^= h >> 32U;
  }
  return h;
}

std::shared_ptr<const TransferPlan> DmaPlanner::plan(const isa::DmaWork& work,
                                                     const isa::DmaPlan* explicit_plan,
                                                     const DgeConfig& dge) {
  const auto make = [&] {
    auto made = std::make_shared<TransferPlan>();
    made->lanes = plan_dma(work, explicit_plan, dge, config_);
    for (const LanePlan& lane : made->lanes) made->packets += lane.packets;
    return made;
  };
  if (explicit_plan != nullptr && !explicit_plan->packets.empty()) return make();
  const auto bit = [](bool on, int n) { return static_cast<std::int64_t>(on) << n; };
  // Everything plan_dma() reads of the work, and which mode.
  const Key key = {work.descriptors,
                   work.descriptor_bytes,
                   work.rows,
                   work.bytes * 8 + work.element_bytes,
                   work.skipped,
                   static_cast<std::int64_t>(work.src) * 16 + static_cast<std::int64_t>(work.dst),
                   bit(work.transpose, 0) | bit(work.compute, 1) | bit(work.scattered, 2) |
                       bit(work.dynamic, 3) |
                       std::clamp(work.step_bytes, config_.piece_near_bytes,
                                  std::max(config_.piece_near_bytes + 1, config_.piece_far_bytes)) *
                           16,
                   static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(&dge))};
  auto& known = known_[key];
  if (known == nullptr) {
    if (known_.size() > kMaxPlans) {
      known_.clear();
      return make();
    }
    known = make();
  }
  return known;
}

}  // namespace nkisim::models
