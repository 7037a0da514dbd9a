// device_print: prints a tensor while the kernel runs.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::device_print {
namespace {

enum { kPrintPrefix, kTensor };
constexpr std::int64_t kEdge = 3;  // rows and columns shown at either end of a large tensor

constexpr std::array<Param, 2> kParams = {{
    {.name = "print_prefix", .kind = ParamKind::kText},
    {.name = "tensor", .kind = ParamKind::kIn, .spaces = kHbmOrSbuf},
}};

std::string number(const TensorRef& ref, float value, std::uint32_t bits) {
  std::array<char, 32> text{};
  if (ref.dtype == Dtype::kUint32) {
    std::snprintf(text.data(), text.size(), "%u", bits);
  } else if (is_integer(ref.dtype)) {
    std::snprintf(text.data(), text.size(), "%d", static_cast<int>(bits));
  } else if (std::isnan(value)) {
    return "nan";  // whatever its sign
  } else {
    std::snprintf(text.data(), text.size(), "%.8g", static_cast<double>(value));
  }
  return text.data();
}

// Indices to show of `count`: all, or both ends with -1 for the gap.
std::vector<std::int64_t> shown(std::int64_t count) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < count; ++i) {
    if (count > 4 * kEdge && i == kEdge) {
      out.push_back(-1);
      i = count - kEdge;
    }
    out.push_back(i);
  }
  return out;
}

void eval(const Inst& inst, OpContext& ctx) {
  if (!ctx.print) return;
  const TensorRef& ref = inst.tensor(kTensor);
  const auto values = ctx.load(ref);
  const auto bits = ctx.load_bits(ref);
  std::string text = *inst.arg(kPrintPrefix).text + " " + describe(ref) + "\n";
  for (std::int64_t r : shown(values.rows)) {
    if (r < 0) {
      text += " ...\n";
      continue;
    }
    text += " [";
    for (std::int64_t c : shown(values.columns)) {
      if (text.back() != '[') text += ' ';
      text += c < 0 ? "..." : number(ref, values.row(r)[c], bits.row(r)[c]);
    }
    text += "]\n";
  }
  ctx.print(text);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "device_print",
    .doc = "Prints a tensor while the kernel runs.",
    .semantics = "prints print_prefix and the values of tensor at this point of the program",
    .cost = "not documented; no effect on the data",
    .sources = "nki.language.device_print (engine sync assumed)",
    .engines = kAnySequencer,
    .params = kParams,
    .opcode = Opcode::kDEVICE_PRINT,
    .eval = eval,
    .state = OpSpec::State::kAlways,
};

}  // namespace nkisim::isa::ops::device_print
