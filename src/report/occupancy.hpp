// Computes how full SBUF and PSUM are over time. A tensor lives from its first to its last use.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "isa/program/program.hpp"
#include "models/time.hpp"
#include "src/report/pointer_table.hpp"

namespace nkisim {

/// Collects when each instruction was at work; the tensors' lifetimes follow.
class Occupancy {
 public:
  explicit Occupancy(const isa::Program& program)
      : program_(program), tensors_(program.tensors().size()) {}
  void add(const isa::Inst& inst, models::Fs start, models::Fs end);
  /// Changes of the share (0 to 1) of `space` that is live on `core`, in no order.
  [[nodiscard]] std::vector<std::pair<models::Fs, double>> changes(isa::Space space,
                                                                   int core) const;

 private:
  struct Span {
    models::Fs first = models::kNever, last = -1;
    void cover(models::Fs start, models::Fs end);
  };
  // Instructions of equal arguments use the same tensors.
  struct Use {
    const isa::Inst* inst = nullptr;  // one of them
    Span span;
  };
  [[nodiscard]] std::vector<Span> lifetimes() const;
  void cover_tensors(std::vector<Span>& tensors, const isa::Inst& inst, Span span) const;
  const isa::Program& program_;
  PointerTable<Use> uses_;     // by their arguments
  std::vector<Span> tensors_;  // of other ops with these arguments
};

}  // namespace nkisim
