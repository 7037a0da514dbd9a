// Lists changes of the machine (a faster engine or DMA), and simulates with each.

#include "src/report/what_if.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include "isa/base/stable_order.hpp"
#include "isa/host/copies.hpp"
#include "src/run/simulation.hpp"

namespace nkisim {
namespace {

using models::Config;

// A run that takes longer than this is worth the start of a copy of this process.
constexpr std::chrono::milliseconds kForCopies(5);

struct Change {
  std::string text;
  std::function<void(Config&)> apply;
};

void halve(models::Fs& time) { time /= 2; }

void faster_dma(Config& c) {
  c.dma.bytes_per_ns *= 2;
  for (models::Fs* t : {&c.dma.packet_gap, &c.dma.store_floor, &c.dma.load_floor}) halve(*t);
}

void quicker_dma(Config& c) {
  models::DmaConfig& d = c.dma;
  for (models::Fs* t :
       {&d.hbm_read_latency, &d.semaphore_latency, &d.semaphore_packet, &d.cold_penalty,
        &d.software.first_packet, &d.hardware.first_packet, &d.fixed.first_packet}) {
    halve(*t);
  }
}

// An engine's work for each DMA, or that of its generator of descriptors.
void quicker_starts(Config& c) {
  for (models::DgeConfig* g : {&c.dma.software, &c.dma.hardware, &c.dma.fixed}) {
    for (models::Fs& t : g->trigger) halve(t);
    for (models::Fs* t : {&g->wake_base, &g->wake_per_descriptor, &g->interval_base,
                          &g->interval_per_descriptor, &g->trigger_per_outstanding}) {
      halve(*t);
    }
  }
}

void quicker_semaphores(Config& c) {
  for (models::EngineConfig& e : c.engines) {
    for (models::Fs* t : {&e.wake, &e.wake_sequencer, &e.update}) halve(*t);
  }
}

// Streaming and fixed latency of one engine's instructions.
void faster_engine(Config& c, isa::Engine engine) {
  c.engines.at(static_cast<std::size_t>(engine)).clock_ghz *= 2;
  for (models::CostRule& r : c.rules) {
    if (engine_of(r.unit) != engine) continue;
    halve(r.fixed);
    halve(r.overlap);
  }
  for (models::CostExtra& e : c.extras) {
    if (engine_of(e.unit) == engine) halve(e.fixed);
  }
}

std::vector<Change> changes(const isa::Program& program, const Config& config) {
  std::vector<Change> list = {
      {"DMA were twice as fast", faster_dma},
      {"DMA latency (first packet, completion) were half", quicker_dma},
      {"DMAs were started twice as quickly", quicker_starts},
      {"semaphores were twice as quick", quicker_semaphores},
  };
  for (int e = 0; e < isa::kEngineCount; ++e) {
    const auto engine = static_cast<isa::Engine>(e);
    const bool used = std::any_of(program.insts().begin(), program.insts().end(),
                                  [&](const isa::Inst& inst) { return inst.engine == engine; });
    if (!used || engine == isa::Engine::kSync) continue;
    list.push_back({std::string(isa::name(isa::unit_of(engine))) + " Engine were twice as fast",
                    [engine](Config& c) { faster_engine(c, engine); }});
  }
  if (config.throttle.enabled) {
    list.push_back(
        {"the PE array had no utilisation limit", [](Config& c) { c.throttle.enabled = false; }});
  }
  if (!config.ports.empty()) {
    list.push_back({"engines never shared a memory port", [](Config& c) { c.ports.clear(); }});
  }
  // Only an imported profile leaves modes open: nki.isa's functions choose one by their engine.
  if (program.timing_only() && config.dma.hardware.available &&
      std::any_of(config.dma.default_mode.begin(), config.dma.default_mode.end(),
                  [](isa::DgeMode m) { return m == isa::DgeMode::kSwdge; })) {
    list.push_back({"DMAs without a dge_mode used hardware descriptors (dge_mode.hwdge)",
                    [](Config& c) { c.dma.default_mode.fill(isa::DgeMode::kHwdge); }});
  }
  list.push_back({"each engine spread its DMAs over four queues", [](Config& c) {
                    c.compiler.dma_queues_per_engine =
                        std::max(4, c.compiler.dma_queues_per_engine);
                  }});
  return list;
}

// True if time does not depend on values: no branch, loop or address is loaded from memory.
bool timing_only_suffices(const isa::Program& program, const Config& config, models::Fs end,
                          const models::RunOptions& options) {
  try {
    const SimResult r = simulate(program, config, nullptr, {}, options);
    return r.partial || r.end == end;
  } catch (const isa::Error&) {
    return false;  // it needs a value
  }
}

}  // namespace

std::vector<WhatIf> what_if(const isa::Program& program, const Config& config, models::Fs end,
                            const MakeMemory& make_memory,
                            const std::function<bool(int, int)>& progress) {
  const std::vector<Change> list = changes(program, config);
  std::vector<std::optional<models::Fs>> ends(list.size());
  int known = 0;
  bool stopped = false;
  const auto go_on = [&] {
    stopped = stopped || (progress && !progress(known, static_cast<int>(list.size())));
    return !stopped;
  };
  models::RunOptions options;
  options.progress = [&](std::uint64_t, models::Fs) { return go_on(); };
  const bool timing_only = !make_memory || timing_only_suffices(program, config, end, options);
  const auto simulated = [&](std::size_t i, const models::RunOptions& how) {
    Config changed = config;
    list[i].apply(changed);
    std::unique_ptr<isa::Memory> memory = timing_only ? nullptr : make_memory();
    return simulate(program, changed, memory.get(), {}, how);
  };
  const auto note = [&](std::size_t i, models::Fs at) {
    ends[i] = at;
    ++known;
  };
  const auto simulate_here = [&](std::size_t i) {
    if (ends[i] || stopped) return;
    const SimResult r = simulated(i, options);
    if (!r.partial) note(i, r.end);
  };
  const auto begin = std::chrono::steady_clock::now();
  simulate_here(0);
  const bool is_long = std::chrono::steady_clock::now() - begin > kForCopies;
  const std::size_t copies = timing_only && is_long && !stopped ? isa::host::copies_at_once() : 1;
  if (copies > 1) {
    const auto end_of = [&](std::size_t k) { return simulated(k + 1, {}).end; };
    isa::host::compute_in_copies(
        {list.size() - 1, end_of, [&](std::size_t k, models::Fs at) { note(k + 1, at); }, go_on},
        copies);
  }
  for (std::size_t i = 0; i < list.size(); ++i) simulate_here(i);
  std::vector<WhatIf> results;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!ends[i]) continue;
    const double gain = end > 0 ? 1 - static_cast<double>(*ends[i]) / static_cast<double>(end) : 0;
    results.push_back({list[i].text, *ends[i], gain});
  }
  isa::sort_stably(results, [](const WhatIf& a, const WhatIf& b) { return a.end < b.end; });
  return results;
}

}  // namespace nkisim
