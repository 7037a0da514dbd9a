// Sends compiled programs to other processes, and connects the processes that simulate ranks
// together.
#pragma once

#include "isa/world/shard.hpp"
#include "python/binding/recorder.hpp"

namespace nkisim::python {

/// The way to the other shards, as Python has it: meet(all, [each]) gives [(all, mine)] by shard.
class PythonLink : public Link {
 public:
  explicit PythonLink(py::object meet) : meet_(std::move(meet)) {}
  std::vector<Message> meet(const std::string& all, const std::vector<std::string>& each) override;

 private:
  py::object meet_;
};

/// to_bytes, from_bytes and ranks_per_stack of a program that is compiled.
void bind_link(py::class_<Recorder>& program);

}  // namespace nkisim::python
