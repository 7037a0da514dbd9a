// How full SBUF and PSUM are over time: a tensor lives from its first to its last use.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "isa/program/program.hpp"
#include "models/time.hpp"

namespace nkisim {

/// Collects when each instruction was at work; the tensors' lifetimes follow.
class Occupancy {
 public:
  explicit Occupancy(const isa::Program& program) : program_(program) {}
  void add(const isa::Inst& inst, models::Fs start, models::Fs end);
  /// Changes of the share (0 to 1) of `space` that is live on `core`, in no order.
  [[nodiscard]] std::vector<std::pair<models::Fs, double>> changes(isa::Space space,
                                                                   int core) const;

 private:
  struct Span {
    models::Fs first = models::kNever, last = -1;
    void cover(models::Fs start, models::Fs end);
  };
  [[nodiscard]] std::vector<Span> lifetimes() const;
  const isa::Program& program_;
  std::unordered_map<const isa::Inst*, Span> insts_;
};

}  // namespace nkisim
