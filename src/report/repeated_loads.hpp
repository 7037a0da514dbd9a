// Finds loads from HBM that one statement of a kernel repeats, which AWS's compiler does once in
// some kernels.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "models/config.hpp"
#include "models/observer.hpp"

namespace nkisim {

/// Collects the transfers of one run.
class RepeatedLoads {
 public:
  void start(const isa::Program& program, const models::Config& config);
  void add(const models::DmaEvent& event);

  struct Found {
    std::size_t loads = 0;  // of the core with the longest
    models::Fs time = 0;    // that they take at least, one after the other
  };
  /// Without loads into addresses that the kernel gave, and of statements whose data exceed SBUF.
  /// None if the program loads single rows.
  [[nodiscard]] Found found() const;

 private:
  // The data of a load: line, tensor, offset and pattern of an input.
  using Data =
      std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::int64_t, const isa::Pattern*>;
  struct Loads {
    const isa::Inst* first = nullptr;
    std::int64_t bytes = 0;  // of a partition
    std::size_t again = 0;
    models::Fs time = 0;
  };
  const isa::Program* program_ = nullptr;
  const models::Config* config_ = nullptr;
  std::map<std::pair<int, Data>, Loads> loads_;  // by core
  bool rows_ = false;
};

}  // namespace nkisim
