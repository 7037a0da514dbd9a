// Describes one DMA transfer that is under way.
#pragma once

#include <memory>

#include "models/core/operation.hpp"
#include "models/dma/dma_plan.hpp"

namespace nkisim::models {

class DmaQueue;

struct Transfer {
  Operation* op = nullptr;
  DmaQueue* queue = nullptr;
  std::shared_ptr<const TransferPlan> plan;
  int lanes_left = 0;
  int updates_left = 0;
  bool each_update = false;  // every engine's semaphore write counts, not only the last
  Fs first_packet = kNever, last_packet = 0, visible = 0;
  std::int64_t packets = 0;
};

}  // namespace nkisim::models
