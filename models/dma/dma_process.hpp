// The process of DMA rings whose core has none of its own.
#pragma once

#include <algorithm>
#include <exception>

#include "models/dma/dma_rings.hpp"
#include "models/sim_session.hpp"

namespace nkisim::models {

class DmaProcess : public sc_core::sc_module {
 public:
  DmaProcess(const sc_core::sc_module_name& name, DmaRings& rings, SimSession& session)
      : sc_module(name), rings_(rings), session_(session) {
    SC_HAS_PROCESS(DmaProcess);
    SC_METHOD(step);
    sensitive << wake_;
  }
  void wake() { wake_.notify(); }

 private:
  void step() {
    if (session_.stopped()) return;
    try {
      const Fs now = SimSession::now();
      rings_.step(now);
      const Fs next = rings_.next();
      if (next != kNever) wake_.notify(SimSession::time(std::max(next, now) - now));
    } catch (...) {
      session_.fail(std::current_exception());
    }
  }
  DmaRings& rings_;
  SimSession& session_;
  sc_core::sc_event wake_{"wake"};
};

}  // namespace nkisim::models
