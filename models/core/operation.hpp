// Describes one executed instruction on its way through a simulated core, and what it waits for.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "isa/machine/rendezvous.hpp"
#include "isa/program/op_spec.hpp"
#include "isa/program/walker.hpp"
#include "models/issue/forms.hpp"
#include "models/issue/wait_placer.hpp"
#include "models/memory/memory_use.hpp"

namespace nkisim::models {

struct Operation {
  isa::Step step;
  Form* form = nullptr;
  std::vector<Need> needs;
  std::vector<std::pair<std::int64_t, std::int64_t>> registers;  // values its operands refer to
  isa::Engine engine = isa::Engine::kSync;
  QueueIndex queue = 0;           // where its completion is counted
  std::uint64_t number = 0;       // ... and its number there; 0 = nothing can wait for it
  std::uint16_t added_waits = 0;  // parts before the form's that only wait for a semaphore
  isa::DgeMode dge = isa::DgeMode::kNone;
  MemoryUse memory;
  Fs trigger_start = 0, trigger_end = 0;  // DMA
  std::optional<isa::DmaWork> moved;      // ... of which indices skip rows
  int pending = 0;                        // events still to come: its own end, and the transfer's
  std::uint32_t rendezvous = 0;           // how many-th meeting of its core this is; 0 = none
  Fs met = kNever;                        // ... and when the last of them came
  isa::Parcel received;                   // ... and what the partner sent
  bool evaluate = false;                  // has an eval still to run
  bool holds_walk = false;                // the walker waits for it

  [[nodiscard]] const isa::Expansion& expansion() const { return form->expansion; }
  /// The transfer of a DMA.
  [[nodiscard]] const isa::DmaWork& dma() const { return moved ? *moved : expansion().dma; }
  /// Runs in parallel with its engine: a transfer or a collective.
  [[nodiscard]] bool detached() const { return expansion().is_dma || expansion().is_collective; }
  [[nodiscard]] std::size_t parts() const { return added_waits + expansion().parts.size(); }
};

}  // namespace nkisim::models
