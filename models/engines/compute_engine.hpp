// Defines the base class of engines with a data path (all but Sync), which use ports of SBUF and
// PSUM.
#pragma once

#include "models/engines/engine.hpp"
#include "models/memory/psum.hpp"
#include "models/memory/sbuf.hpp"

namespace nkisim::models {

/// A part on a shared port of a memory starts at its own time alone: until then another engine may
/// take the port.
class ComputeEngine : public Engine {
 public:
  using Engine::Engine;
  sc_core::sc_port<sbuf_if> sbuf{"sbuf"};
  sc_core::sc_port<psum_if> psum{"psum"};

 protected:
  void end_of_elaboration() override {
    Engine::end_of_elaboration();
    sbuf_ = sbuf->shared_by(id_) ? sbuf.operator->() : nullptr;
    psum_ = psum->shared_by(id_) ? psum.operator->() : nullptr;
  }
  [[nodiscard]] bool shares(const Operation& op, const Cost& cost) const override {
    return cost.kind != PartKind::kSequencer && ((sbuf_ != nullptr && op.memory.sbuf) ||
                                                 (psum_ != nullptr && op.memory.psum_banks != 0));
  }
  [[nodiscard]] Grant probe(const Operation& op, Fs at) const override {
    Grant grant{.at = at};
    if (sbuf_ != nullptr && op.memory.sbuf) sbuf_->probe(id_, grant);
    if (psum_ != nullptr) psum_->probe(id_, op.memory.psum_banks, grant);
    return grant;
  }
  void reserve(const Operation& op, Fs until) override {
    if (sbuf_ != nullptr && op.memory.sbuf) sbuf_->reserve(id_, until);
    if (psum_ != nullptr) psum_->reserve(id_, op.memory.psum_banks, until);
  }

 private:
  sbuf_if* sbuf_ = nullptr;  // null: it shares no port of it
  psum_if* psum_ = nullptr;
};

}  // namespace nkisim::models
