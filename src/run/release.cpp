#include "src/run/release.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "isa/alu.hpp"
#include "isa/op_spec.hpp"

namespace nkisim {
namespace {

using isa::Dtype;
using isa::Inst;

// One sentence of the release notes of NKI: what an instruction must not be, `from` a release on or
// `before` one (0: no bound). `found` is empty where the instruction is none of it.
struct Rule {
  std::string_view op;  // empty: any
  int before, from;
  std::string_view required;
  std::string (*found)(const Inst&);
};

int param(const Inst& inst, std::string_view name) {
  return isa::param_index(isa::spec(inst), name);
}

bool uses_dtype(const Inst& inst, Dtype dtype) {
  bool found = false;
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool) {
    found = found || ref.dtype == dtype;
  });
  return found;
}

std::string itself(const Inst& inst) { return std::string(isa::spec(inst).name); }

std::string indirect(const Inst& inst) {
  std::string found;
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param& p, bool) {
    for (const isa::DynamicOffset* d = ref.dynamic; d != nullptr; d = d->next) {
      if (d->kind == isa::DynamicOffset::Kind::kIndirect) found = std::string(p.name) + " indirect";
    }
  });
  return found;
}

std::string e8m0(const Inst& inst) {
  return uses_dtype(inst, Dtype::kFloat8E8m0fnu) ? "an operand of float8_e8m0fnu" : "";
}

std::string e4m3fn(const Inst& inst) {
  return uses_dtype(inst, Dtype::kFloat8E4m3fn) ? "an operand of float8_e4m3fn" : "";
}

std::string without_result(const Inst& inst) {
  return inst.has(param(inst, "reduce_res")) ? "" : "without reduce_res";
}

std::string is_operator(const Inst& inst, std::string_view name,
                        std::initializer_list<isa::AluOp> operators) {
  const int i = param(inst, name);
  if (i < 0 || !inst.has(i)) return {};
  const auto op = inst.choice(i, isa::AluOp{});
  const bool listed = std::find(operators.begin(), operators.end(), op) != operators.end();
  return listed ? std::string(name) + " " + std::string(isa::name(op)) : "";
}

std::string newer_operator(const Inst& inst) {
  const auto find = [](std::string_view text) { return *isa::parse_alu(text); };
  return is_operator(inst, "op0", {find("abs_max"), find("abs_min"), find("square"), find("relu")});
}

std::string partial_rows(const Inst& inst) {
  const int src = param(inst, "src");
  const std::int64_t rows = inst.is_tensor(src) ? inst.tensor(src).rows() : 0;
  return rows % 16 == 0 ? "" : "src of " + std::to_string(rows) + " partitions";
}

constexpr std::array<Rule, 12> kRules = {{
    {"topk", 32, 0, "SDK 2.32 (NKI 0.6.0 adds it)", itself},
    {"activate2", 30, 0, "SDK 2.30 (NKI 0.4.0 adds it)", itself},
    {"exponential", 29, 0, "SDK 2.29 (NKI 0.3.0 adds it)", itself},
    {"tensor_copy_dynamic_src", 0, 30, "tensor_copy with scalar_offset (removed in NKI 0.4.0)",
     itself},
    {"tensor_copy_dynamic_dst", 0, 30, "tensor_copy with scalar_offset (removed in NKI 0.4.0)",
     itself},
    {"tensor_scalar_reduce", 32, 0, "reduce_res before SDK 2.32 (optional since NKI 0.6.0)",
     without_result},
    {"", 31, 0, "SDK 2.31 for tensor indirection (NKI 0.5.0)", indirect},
    {"", 31, 0, "SDK 2.31 for float8_e8m0fnu (NKI 0.5.0); uint8 before", e8m0},
    {"nc_matmul", 30, 0, "SDK 2.30 for float8_e4m3fn in nc_matmul (NKI 0.4.0)", e4m3fn},
    {"tensor_scalar", 30, 0, "SDK 2.30 for this operator (NKI 0.4.0)", newer_operator},
    {"tensor_scalar_reduce", 30, 0, "SDK 2.30 for this operator (NKI 0.4.0)", newer_operator},
    {"sendrecv", 30, 0, "a multiple of 16 partitions before SDK 2.30 (NKI 0.4.0)", partial_rows},
}};

isa::Error refusal(const isa::Program& program, const Inst& inst, Release release,
                   const std::string& what, std::string_view required) {
  isa::Error error(isa::ErrorCode::kBadInput,
                   "the compiler of SDK 2." + std::to_string(release.minor) + " refuses " + what +
                       "; " + std::string(required) + " is required");
  error.at(isa::spec(inst).name, inst.loc);
  program.locate(error);
  return error;
}

// A register that a loop within a loop sets and that is older than both (known issue of NKI 0.4.0).
const Inst* carried_through_nested(const isa::Program& program) {
  using Control = isa::OpSpec::Control;
  std::vector<bool> older;
  int open = 0;
  for (const Inst& inst : program.insts()) {
    const isa::OpSpec& op = isa::spec(inst);
    if (op.control == Control::kLoopBegin || op.control == Control::kWhileBegin) ++open;
    if (op.control == Control::kLoopEnd || op.control == Control::kWhileEnd) --open;
    if (op.control != Control::kNone || op.params.empty() || op.params[0].name != "dst" ||
        op.params[0].kind != isa::ParamKind::kRegister) {
      continue;
    }
    const auto reg = static_cast<std::size_t>(inst.arg(0).integer);
    if (older.size() <= reg) older.resize(reg + 1);
    if (open == 0) older[reg] = true;
    if (open > 1 && older[reg]) return &inst;
  }
  return nullptr;
}

bool applies(const Rule& rule, const Inst& inst, Release release) {
  if (!rule.op.empty() && rule.op != isa::spec(inst).name) return false;
  return release.minor < rule.before || (rule.from > 0 && release.minor >= rule.from);
}

}  // namespace

Release parse_release(std::string_view text) {
  int minor = 0;
  const std::string_view digits = text.starts_with("2.") ? text.substr(2) : std::string_view{};
  const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), minor);
  if (digits.empty() || ec != std::errc{} || end != digits.data() + digits.size() ||
      minor < isa::Program::kOldestSdk || minor > kNewestRelease.minor) {
    isa::fail("the SDK release", std::string(text), "2.28 to 2.32");
  }
  return {minor};
}

std::vector<isa::Error> refusals(const isa::Program& program, Release release) {
  std::vector<isa::Error> found;
  for (const Inst& inst : program.insts()) {
    for (const Rule& rule : kRules) {
      if (!applies(rule, inst, release)) continue;
      const std::string what = rule.found(inst);
      if (what.empty()) continue;
      found.push_back(refusal(program, inst, release, what, rule.required));
    }
  }
  const std::string_view target = program.machine().target;
  if (program.cores() > 1 && !program.insts().empty() && (target == "trn1" || target == "inf2")) {
    found.push_back(refusal(program, program.insts().front(), release,
                            std::to_string(program.cores()) + " cores as one on " +
                                std::string(target) + " (NCC_EARG001)",
                            "one core, or trn2"));
  }
  const Inst* carried = release.minor >= 30 ? carried_through_nested(program) : nullptr;
  if (carried != nullptr) {
    found.push_back(refusal(program, *carried, release,
                            "a register carried through nested dynamic loops",
                            "one dynamic loop, or static_range outside (known issue)"));
  }
  return found;
}

}  // namespace nkisim
