// Lists what the compiler of each SDK release refuses, a row for each refusal.

#include "src/run/release.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "isa/base/alu.hpp"
#include "isa/program/check.hpp"
#include "isa/program/op_spec.hpp"

namespace nkisim {
namespace {

using isa::Dtype;
using isa::Inst;

constexpr int kAny = isa::Program::kOldestSdk;

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

// A transpose by the hardware's descriptor generator of another block than 16 rows x 128 columns.
std::string small_block(const Inst& inst) {
  const int mode = param(inst, "dge_mode"), src = param(inst, "src");
  if (inst.choice(mode, isa::DgeMode::kUnknown) != isa::DgeMode::kHwdge) return {};
  const std::vector<std::int64_t> shape = inst.tensor(src).shape();
  if (shape.front() == 16 && shape.back() == 128) return {};
  return "dge_mode hwdge of " + std::to_string(shape.front()) + " rows and " +
         std::to_string(shape.back()) + " columns";
}

std::string integer_operand(const Inst& inst, int least_bytes) {
  std::string found;
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param& p, bool) {
    const bool counts = p.dtypes.contains(Dtype::kFloat32) && isa::is_integer(ref.dtype);
    if (counts && isa::size_bytes(ref.dtype) >= least_bytes) found = isa::name(ref.dtype);
  });
  return found.empty() ? "" : "a sum of " + found;
}

std::string wide_integers(const Inst& inst) {
  const bool adds = !is_operator(inst, "op", {isa::AluOp::kAdd}).empty();
  return adds ? integer_operand(inst, 4) : "";
}

std::string scattered_integers(const Inst& inst) {
  const isa::TensorRef& dst = inst.tensor(param(inst, "dst"));
  const bool scatters = isa::find_dynamic(dst, isa::DynamicOffset::Kind::kVector) != nullptr;
  return scatters && isa::is_integer(dst.dtype) ? integer_operand(inst, 1) : "";
}

std::string wide_integer(const Inst& inst) {
  return uses_dtype(inst, Dtype::kInt64) ? "an operand of int64" : "";
}

std::string split(const Inst& inst) {
  return isa::spec(inst).collective.part != isa::Collective::Part::kWhole ? itself(inst) : "";
}

std::string on_gpsimd(const Inst& inst) {
  return inst.engine == isa::Engine::kGpSimd ? itself(inst) + " on GpSimd" : "";
}

std::string reducing(const Inst& inst) {
  return inst.has(param(inst, "reduce_op")) ? "reduce_op" : "";
}

std::string exclusive_or(const Inst& inst) {
  return is_operator(inst, "op", {isa::AluOp::kBitwiseXor});
}

std::string sorted(const Inst& inst) { return inst.flag(param(inst, "sorted")) ? "sorted" : ""; }

std::string reversed_tile(const Inst& inst) {
  const bool tile = inst.is_tensor(param(inst, "src"));
  return tile && inst.flag(param(inst, "reverse_pred")) ? "reverse_pred with a tile as src" : "";
}

constexpr Rule kRules[] = {
    {"activation", 33, 0, "SDK 2.33 for this engine (NKI 0.7.0)", on_gpsimd},
    {"activate2", 33, 0, "SDK 2.33 for this engine (NKI 0.7.0)", on_gpsimd},
    {"scalar_tensor_tensor", 33, 0, "SDK 2.33 for a reduction (NKI 0.7.0)", reducing},
    {"tensor_partition_reduce", 33, 0, "SDK 2.33 for this operator (NKI 0.7.0)", exclusive_or},
    {"topk", 33, 0, "SDK 2.33 for this argument (NKI 0.7.0)", sorted},
    {"tensor_copy_predicated", 0, 33, "a number as src (NKI 0.7.0)", reversed_tile},
    {"sendrecv_compute", 33, 0, "SDK 2.33 (NKI 0.7.0 adds it)", itself},
    {"scalar_load", 33, 0, "SDK 2.33 (NKI 0.7.0 adds it)", itself},
    {"scalar_store", 33, 0, "SDK 2.33 (NKI 0.7.0 adds it)", itself},
    {"scalar_alu", 33, 0, "SDK 2.33 for scalars (NKI 0.7.0)", itself},
    {"", 33, 0, "SDK 2.33 for int64 (NKI 0.7.0)", wide_integer},
    {"", 33, 0, "SDK 2.33 for collectives in two parts (NKI 0.7.0)", split},
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
    {"dma_transpose", 32, 0, "16 rows and 128 columns before SDK 2.32 (NKI 0.6.0)", small_block},
    {"dma_compute", 0, kAny, "floats, which a scatter that adds computes in (NCC_EVRF060)",
     scattered_integers},
    {"all_reduce", 0, kAny, "floats, which it adds in (NCC_EVRF061)", wide_integers},
    {"reduce_scatter", 0, kAny, "floats, which it adds in (NCC_EVRF063)", wide_integers},
};

isa::Error refusal(const isa::Program& program, const Inst& inst, Release release,
                   const std::string& what, std::string_view required) {
  isa::Error error(isa::Rule::sdk_refuses, "the compiler of SDK 2." +
                                               std::to_string(release.minor) + " refuses " + what +
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

// An instruction from which on the loops and branches of two cores are not the same (known issue of
// NKI 0.3.0: they may deadlock or be wrong, and the compiler does not say so).
const Inst* first_difference(const isa::Program& program) {
  std::vector<std::vector<const Inst*>> of_core(static_cast<std::size_t>(program.cores()));
  for (const std::size_t i : program.control_flow()) {
    const Inst& inst = program.insts()[i];
    of_core.at(inst.core).push_back(&inst);
  }
  const auto same = [](const Inst* a, const Inst* b) { return a->op == b->op; };
  const auto& first = of_core.front();
  for (const auto& other : of_core) {
    const auto [a, b] = std::mismatch(first.begin(), first.end(), other.begin(), other.end(), same);
    if (a != first.end()) return *a;
    if (b != other.end()) return *b;
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
    isa::fail(isa::Rule::sdk_release, "the SDK release", std::string(text), "2.20 to 2.33");
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
  if (program.cores() > isa::cores_of_rank(program.machine()) && !program.insts().empty()) {
    found.push_back(refusal(program, program.insts().front(), release,
                            std::to_string(program.cores()) + " cores as one on " +
                                std::string(target) + " (NCC_EARG001)",
                            "one core, or trn2"));
  }
  const Inst* differs = release.minor >= 29 ? first_difference(program) : nullptr;
  if (differs != nullptr) {
    found.push_back(refusal(program, *differs, release,
                            "loops and branches that differ between the cores",
                            "the same ones on each core (known issue)"));
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
