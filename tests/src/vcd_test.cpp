// Tests the writer of waveforms (VCD, value change dump).
#include "src/report/vcd.hpp"

#include <catch2/catch.hpp>
#include <set>
#include <sstream>

using namespace nkisim;

namespace {

std::string written(Vcd& vcd, models::Fs end, const std::string& note = "") {
  std::string text;
  vcd.write("rank0", end, note, [&](std::string_view bytes) { text += bytes; });
  return text;
}

}  // namespace

TEST_CASE("a value change dump has its changes by time, and of one instant the last") {
  Vcd vcd;
  const auto busy = vcd.add("nc0.tensor", "busy", Vcd::Kind::kBit);
  const auto count = vcd.add("nc0.tensor", "count", Vcd::Kind::kNumber);
  const auto who = vcd.add("nc0.vector", "waits_for", Vcd::Kind::kText);
  vcd.change(count, 30, 5);
  vcd.change(busy, 10, 1);
  vcd.change(who, 10, vcd.text("x[0:4, 0:2]"));  // a text has no spaces in this format
  vcd.change(busy, 30, 0);
  vcd.change(count, 30, 6);
  vcd.change(busy, 20, 1);  // no change
  vcd.change(who, 40, Vcd::idle());
  CHECK(written(vcd, 50, "partial") == R"($version nkisim $end
$comment partial $end
$timescale 1 fs $end
$scope module rank0 $end
$scope module nc0 $end
$scope module tensor $end
$var wire 1 ! busy $end
$var integer 64 " count $end
$upscope $end
$scope module vector $end
$var string 1 # waits_for $end
$upscope $end
$upscope $end
$upscope $end
$enddefinitions $end
#0
$dumpvars
0!
b0 "
s- #
$end
#10
1!
sx[0:4,_0:2] #
#30
0!
b110 "
#40
s- #
#50
)");
}

TEST_CASE("every signal of a value change dump has a code of its own") {
  Vcd vcd;
  constexpr int kSignals = 94 * 94 + 200;
  for (int i = 0; i < kSignals; ++i) vcd.add("m", "s" + std::to_string(i), Vcd::Kind::kBit);
  std::istringstream lines(written(vcd, 1));
  std::set<std::string> codes;
  for (std::string word; lines >> word;) {
    if (word != "wire") continue;
    std::string width, code;
    lines >> width >> code;
    codes.insert(code);
  }
  CHECK(codes.size() == kSignals);
}
