// Tests the race check against an enumeration of all interleavings of small random programs,
// correct ones and ones in which a wait was removed or weakened.
#include "tests/hazards/oracle.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "checks/races.hpp"
#include "tests/hazards/generator.hpp"
#include "tests/support/program_builder.hpp"

using namespace nkisim;
using test::CellRange;
using test::SmallOp;
using test::SmallProgram;
using PB = test::ProgramBuilder;

namespace {

constexpr std::int64_t kWidth = 4;  // elements per cell

// The same program for the checker: cells are columns of one tile.
struct Found {
  bool race = false, stuck = false;
  std::string text;
};

Found check(const SmallProgram& program) {
  PB b;
  const auto tile = b.sbuf("tile", isa::Dtype::kFloat32, {128, test::kCells * kWidth});
  const auto constants = b.sbuf("constants", isa::Dtype::kFloat32, {128, test::kCells * kWidth});
  b.program().set_explicit_semaphores(true);
  const auto view = [&](const CellRange& r) {
    return PB::arg(b.view(tile, {{1, r.count * kWidth}}, r.first * kWidth));
  };
  for (const SmallOp& op : program) {
    isa::Inst inst;
    const isa::OpSpec& spec = *isa::find_op(op.dma ? "dma_copy" : "tensor_copy");
    std::vector<isa::Arg> args(spec.params.size());
    const auto set = [&](const char* param, isa::Arg arg) {
      args[static_cast<std::size_t>(isa::param_index(spec, param))] = arg;
    };
    set("dst", view(op.dst));
    set("src",
        op.src.count > 0 ? view(op.src) : PB::arg(b.view(constants, {{1, op.dst.count * kWidth}})));
    inst.op = isa::op_id(spec);
    inst.engine = op.engine;
    inst.sync = b.program().add_sync({op.waits, op.posts});
    b.program().append(inst, args);
  }
  const checks::RaceReport report = checks::find_races(b.program(), {});
  Found found{!report.races.empty(), !report.stuck.empty(), ""};
  for (const auto& race : report.races) {
    found.text += std::to_string(race.first_step) + " and " + std::to_string(race.second_step) +
                  ": " + checks::describe(b.program(), race) + "\n";
  }
  return found;
}

int programs_wanted() {
  const char* wanted = std::getenv("NKISIM_RACE_PROGRAMS");
  return wanted == nullptr ? 2500 : std::atoi(wanted);
}

// The answers so far.
struct Tally {
  int asked = 0, races = 0, missed = 0, false_alarms = 0, stuck = 0;

  // Asks both about a program. A race is found if it is named or the program is said to get stuck:
  // where a wait can pass or be missed for good, both are true.
  void ask(const SmallProgram& program) {
    const auto answer = test::Oracle(program).ask();
    REQUIRE_FALSE(answer.gave_up);
    const Found found = check(program);
    ++asked;
    races += answer.race ? 1 : 0;
    stuck += answer.deadlock && !answer.race ? 1 : 0;
    const bool miss = answer.race && !found.race && !found.stuck;
    const bool alarm = !answer.race && (found.race || (found.stuck && !answer.deadlock));
    missed += miss ? 1 : 0;
    false_alarms += alarm ? 1 : 0;
    INFO(test::text(program) << (answer.deadlock ? "may get stuck\n" : "") << found.text);
    CHECK_FALSE(miss);
    CHECK_FALSE(alarm);
  }
  [[nodiscard]] bool enough() const { return missed + false_alarms > 5; }
  [[nodiscard]] std::string text(const char* what) const {
    return std::to_string(asked) + " " + what + ": " + std::to_string(races) + " with a race, " +
           std::to_string(missed) + " missed, " + std::to_string(false_alarms) + " false alarms; " +
           std::to_string(stuck) + " can get stuck without a race";
  }
};

}  // namespace

TEST_CASE("right programs raise no alarm, and weakened ones are judged as all interleavings do") {
  Tally right, weak;
  for (std::uint32_t seed = 1; weak.asked < programs_wanted(); ++seed) {
    test::Generator generator(seed);
    SmallProgram program = generator.correct();
    INFO("seed " << seed);
    right.ask(program);
    if (!generator.weaken(program)) continue;
    weak.ask(program);
    if (right.enough() || weak.enough()) break;
  }
  WARN(right.text("right programs") << "\n" << weak.text("weakened programs"));
  CHECK(right.races == 0);
  CHECK(right.stuck == 0);
  CHECK(weak.races > weak.asked / 4);
}

TEST_CASE(
    "counters raised by anybody and waited for at random are judged as all interleavings do") {
  Tally wild;
  for (std::uint32_t seed = 1; wild.asked < programs_wanted(); ++seed) {
    INFO("seed " << seed);
    wild.ask(test::Generator(seed).wild());
    if (wild.enough()) break;
  }
  WARN(wild.text("random programs"));
  CHECK(wild.races > wild.asked / 10);
  CHECK(wild.races + wild.stuck < wild.asked * 19 / 20);
}
