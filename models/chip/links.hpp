// Models the links between chips and servers as one SystemC module.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "models/chip/link_if.hpp"

namespace nkisim::models {

/// A channel. Collectives is its arithmetic, made for the first operation: most runs have none.
class Links : public sc_core::sc_module, public link_if {
 public:
  [[nodiscard]] const char* kind() const override { return "Links"; }
  Links(const sc_core::sc_module_name& name, std::reference_wrapper<const Config> config, int lnc,
        int ranks)
      : sc_module(name), config_(config), lnc_(lnc), ranks_(ranks) {}
  Collectives::Id start(CollectiveRequest request, Fs now) override {
    if (model_ == nullptr) model_ = std::make_unique<Collectives>(config_, lnc_, ranks_);
    return model_->start(std::move(request), now);
  }
  [[nodiscard]] Fs next() const override { return model_ == nullptr ? kNever : model_->next(); }
  void advance(Fs now, std::vector<Collectives::RankDone>& done) override {
    if (model_ != nullptr) model_->advance(now, done);
  }
  [[nodiscard]] std::vector<Collectives::Moving> moving() override {
    return model_ == nullptr ? std::vector<Collectives::Moving>() : model_->moving();
  }
  [[nodiscard]] RankPart part(Collectives::Id id, int position) const override {
    return model_->part(id, position);
  }
  CollectiveTiming take(Collectives::Id id) override { return model_->take(id); }
  [[nodiscard]] std::unique_ptr<Collectives> copy() const override {
    return model_ == nullptr ? nullptr : std::make_unique<Collectives>(*model_);
  }

 private:
  const Config& config_;
  int lnc_, ranks_;
  std::unique_ptr<Collectives> model_;
};

}  // namespace nkisim::models
