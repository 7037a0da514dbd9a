// Tests that the table of instructions describes every instruction fully and has tests for it.
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

TEST_CASE("operations between ranks say what they are") {
  int found = 0;
  for (const OpSpec* op : op_table()) {
    INFO(op->name);
    const Collective& c = op->collective;
    const bool prepares = c.part == Collective::Part::kPrepare;
    REQUIRE((op->combine != nullptr) == (c.kind != Collective::Kind::kNone && !prepares));
    CHECK((c.part == Collective::Part::kWhole) == (op->name.find("_v_") == std::string::npos));
    if (op->combine == nullptr) continue;
    ++found;
    const auto kind = [&](int param) { return op->params[static_cast<std::size_t>(param)].kind; };
    CHECK(kind(c.srcs) == ParamKind::kInList);
    CHECK(kind(c.dsts) == ParamKind::kOutList);
    CHECK(kind(c.groups) == ParamKind::kGroups);
    CHECK(c.priority == static_cast<int>(op->params.size()) - 1);
    CHECK(c.counts() == ((std::string(op->name) + '_').find("_v_") != std::string::npos));
    CHECK(c.pairs == (param_index(*op, "source_target_pairs") >= 0));
    CHECK(c.reduce == param_index(*op, "op"));
    CHECK(c.dim == param_index(*op, "collective_dim"));
    CHECK(c.channels == param_index(*op, "channel_ids"));
    CHECK(c.displs == param_index(*op, "has_rdispls"));
    CHECK(c.known == param_index(*op, "recv_counts_known"));
  }
  CHECK(found == 11);
}

TEST_CASE("the properties that an instruction states fit its parameters") {
  for (const OpSpec* op : op_table()) {
    INFO(op->name);
    if (op->fills) CHECK(param_index(*op, "value") >= 0);
    if (op->moves != OpSpec::Moves::kNone) CHECK(op->eval != nullptr);
    if (op->asks_rank) CHECK(op->params[0].kind == ParamKind::kRegister);
    for (const Param& param : op->params) {
      INFO(param.name);
      CHECK((!param.selects || traits(param.kind).role == ParamKindTraits::Role::kReads));
    }
  }
}
