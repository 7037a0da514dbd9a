// Writes the compiler's passes and the events of a simulated run as messages of the log. The
// compiler and the models do not know the log: they have callbacks and observers.
#pragma once

#include <memory>
#include <vector>

#include "compiler/pipeline.hpp"
#include "models/observer.hpp"
#include "src/log/logger.hpp"

namespace nkisim::log {

/// To be called after each pass.
void say_pass(const compiler::Compiled::Step& step);

/// Says what one rank does in time; null if nothing listens. `rank` -1: there is one alone.
[[nodiscard]] std::unique_ptr<models::Observer> run_log(int rank = -1);

/// Observers of a run and, where somebody wants to know, the one that says what it does.
class Watched {
 public:
  explicit Watched(std::vector<models::Observer*> observers, int rank = -1);
  [[nodiscard]] models::ObserverList list() const { return models::ObserverList(observers_); }

 private:
  std::unique_ptr<models::Observer> log_;
  std::vector<models::Observer*> observers_;
};

}  // namespace nkisim::log
