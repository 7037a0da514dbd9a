// What every instruction must say about itself.
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <string>

#include "isa/program/op_spec.hpp"
#include "tests/support/source_folder.hpp"

using namespace nkisim::isa;

namespace {

// Their effects are on the sequencer or timing only: tests/isa and tests/src cover them in C++.
bool needs_cases(const OpSpec& op) {
  const std::set<std::string_view> kTimingOnly = {"isa", "event_semaphore"};
  const bool sequencer = op.control != OpSpec::Control::kNone || op.on_sequencer ||
                         op.name.substr(0, 9) == "register_";
  const bool of_several_ranks = op.combine != nullptr;  // tests/python/world/test_world.py
  return !sequencer && !of_several_ranks && kTimingOnly.count(op.name) == 0;
}

}  // namespace

TEST_CASE("every instruction is described and has cases") {
  const auto folder = std::filesystem::path(source_folder()) / "isa" / "ops";
  std::set<std::string_view> names;
  for (const OpSpec* op : op_table()) {
    INFO(op->name);
    CHECK(names.insert(op->name).second);
    CHECK_FALSE(op->doc.empty());
    CHECK_FALSE(op->semantics.empty());
    CHECK_FALSE(op->cost.empty());
    CHECK_FALSE(op->sources.empty());
    CHECK_FALSE(op->engines.empty());
    CHECK((op->params.empty() || op->params.size() < 32));
    for (const Param& param : op->params) {
      INFO(param.name);
      CHECK_FALSE(param.name.empty());
      CHECK((param.kind != ParamKind::kEnum || !param.choices.empty()));
    }
    if (!needs_cases(*op)) continue;
    CHECK(std::filesystem::exists(folder / (std::string(op->name) + ".cases.json")));
  }
}
