// Declares OperandStore: owns what the instructions of a program point to.
#pragma once

#include <deque>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "isa/base/inst.hpp"

namespace nkisim::isa {

/// Pointers handed out stay valid for its lifetime. Most equal things are kept once.
class OperandStore {
 public:
  const Pattern* intern(const std::vector<Dim>& dims);
  /// One that was lately given is kept once; so are lists and texts.
  const TensorRef* add_ref(const TensorRef& ref);
  const DynamicOffset* add_dynamic(const DynamicOffset& dynamic);
  const RefList* add_refs(RefList refs);
  const IntList* add_list(IntList list);
  /// A text such as the region of many instructions.
  const std::string* add_text(std::string_view text);
  const Sync* add_sync(Sync sync);
  const DmaPlan* add_plan(DmaPlan plan);

 protected:
  OperandStore();
  /// A copy of the arguments of one of so many instructions; the same one for equal arguments that
  /// come soon after each other.
  std::span<const Arg> keep(std::span<const Arg> args, std::size_t instructions);

 private:
  std::pmr::monotonic_buffer_resource arena_;
  std::vector<std::span<const Arg>> kept_;  // arguments lately added, by their hash
  std::unordered_map<std::uint64_t, std::vector<const Pattern*>> patterns_;
  std::deque<Pattern> pattern_store_;
  struct Recent {  // what was lately added, by its hash
    std::vector<const TensorRef*> refs;
    std::vector<const IntList*> lists;
    std::vector<const std::string*> texts;
  };
  Recent recent_;
  std::deque<RefList> ref_lists_;
  std::deque<IntList> int_lists_;
  std::deque<std::string> texts_;
  std::deque<Sync> syncs_;
  std::deque<DmaPlan> plans_;
};

}  // namespace nkisim::isa
