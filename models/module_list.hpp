// Provides a list that owns SystemC modules and destroys them from the last to the first.
#pragma once

#include <memory>
#include <utility>
#include <vector>

namespace nkisim::models {

/// SystemC finds the module that was constructed last at once (SimSession). Like a vector of
/// pointers, whose own order of destruction is the other one.
template <typename Module>
class ModuleList : public std::vector<std::unique_ptr<Module>> {
 public:
  using std::vector<std::unique_ptr<Module>>::vector;
  ModuleList() = default;
  ModuleList(const ModuleList&) = delete;
  ModuleList& operator=(const ModuleList&) = delete;
  ~ModuleList() {
    while (!this->empty()) this->pop_back();
  }
};

}  // namespace nkisim::models
