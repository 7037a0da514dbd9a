// Moves work from VectorE to ScalarE (pass `engines`, choice `scalar`), by this algorithm:
//
//   for each instruction of VectorE, engine open, that ScalarE computes to the same bits:
//     a copy out of PSUM goes to ScalarE
//     a sum or product with a constant or a value per row may move
//   sum the estimated busy times of all engines
//   bisect the share of them for which ScalarE is not the engine that is busy longest
//   give ScalarE that share, spread evenly over the program; constants get a column of their own
//   undo everything if the columns do not fit
#include "compiler/passes/engines.hpp"

#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/analysis/estimate.hpp"
#include "compiler/analysis/rewrite.hpp"
#include "compiler/placement/place.hpp"
#include "isa/base/act.hpp"
#include "isa/base/alu.hpp"

namespace nkisim::compiler {
namespace {

// An activation that computes the same bits on ScalarE, on all generations: copy(data * scale +
// bias).
struct ScalarForm {
  const isa::TensorRef *dst = nullptr, *data = nullptr;
  const isa::Arg *scale = nullptr, *bias = nullptr;
};

bool is_constant(const isa::Arg& arg) {
  return arg.kind == isa::Arg::Kind::kInt ||
         (arg.kind == isa::Arg::Kind::kReal && !std::isnan(arg.real));
}

// The order of a sum or product matters only to two NaN, and no constant is NaN.
bool commutes(const isa::Inst& inst, const isa::Arg& operand, std::string_view reverse) {
  return is_constant(operand) || (operand.kind == isa::Arg::Kind::kTensor &&
                                  !inst.flag(isa::param_index(isa::spec(inst), reverse)));
}

std::optional<ScalarForm> scalar_form_of_copy(const isa::Inst& inst) {
  const isa::OpSpec& op = isa::spec(inst);
  return ScalarForm{&inst.tensor(isa::param_index(op, "dst")),
                    &inst.tensor(isa::param_index(op, "src"))};
}

// data * a, data + a and data * a + b, with constants or a value per partition.
std::optional<ScalarForm> scalar_form_of_arithmetic(const isa::Inst& inst) {
  const isa::OpSpec& op = isa::spec(inst);
  const auto at = [&](std::string_view name) { return isa::param_index(op, name); };
  const auto op0 = inst.choice(at("op0"), isa::AluOp::kBypass);
  const bool two = inst.has(at("op1"));
  const isa::Arg &first = inst.arg(at("operand0")), &second = inst.arg(at("operand1"));
  if (!commutes(inst, first, "reverse0")) return std::nullopt;
  ScalarForm form{&inst.tensor(at("dst")), &inst.tensor(at("data"))};
  if (op0 == isa::AluOp::kAdd && !two) {
    form.bias = &first;
    return form;
  }
  if (op0 != isa::AluOp::kMultiply) return std::nullopt;
  form.scale = &first;
  if (!two) return form;
  if (inst.choice(at("op1"), isa::AluOp::kBypass) != isa::AluOp::kAdd ||
      !commutes(inst, second, "reverse1")) {
    return std::nullopt;
  }
  form.bias = &second;
  return form;
}

// The form of an open instruction of VectorE on ScalarE; nothing if ScalarE cannot do it.
std::optional<ScalarForm> scalar_form(const isa::Inst& inst) {
  const bool arithmetic = inst.op == isa::Op::k_tensor_scalar;
  if (!inst.engine_open || inst.engine != isa::Engine::kVector || inst.sync != nullptr ||
      (!arithmetic && inst.op != isa::Op::k_tensor_copy)) {
    return std::nullopt;
  }
  bool plain = true;
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool) {
    plain &= ref.dynamic == nullptr && isa::kFloats.contains(ref.dtype);
  });
  if (!plain) return std::nullopt;
  return arithmetic ? scalar_form_of_arithmetic(inst) : scalar_form_of_copy(inst);
}

bool reads_psum(const isa::Inst& inst) {
  bool psum = false;
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
    psum |= !write && ref.space == isa::Space::kPsum;
  });
  return psum;
}

// Gives ScalarE what it can do as well: all copies out of PSUM, and of the arithmetic as much as
// does not make it the engine that is busy longest.
class Mover {
 public:
  Mover(isa::Program& program, const models::Config& config)
      : program_(program), estimator_(config, program), rewrite_(program) {}

  std::size_t run() {
    find();
    const double share = share_of_arithmetic();
    double given = 0;
    std::size_t moved = 0;
    for (const auto& [i, form] : found_) {
      if (program_.insts()[i].op == isa::Op::k_tensor_scalar) {
        given += share;
        if (given < 1) continue;
        given -= 1;
      }
      move(i, form);
      ++moved;
    }
    rewrite_.finish();
    return moved;
  }
  [[nodiscard]] bool made_tiles() const { return !constants_.empty(); }

 private:
  using Load = std::array<double, isa::kEngineCount>;

  void find() {
    const auto count = static_cast<std::uint32_t>(program_.insts().size());
    for (std::uint32_t i = 0; i < count; ++i) {
      const isa::Inst& inst = program_.insts()[i];
      const Estimate now = estimator_.estimate(inst);
      const auto form = scalar_form(inst);
      const bool copy = inst.op == isa::Op::k_tensor_copy;
      if (!form || (copy && !reads_psum(inst))) {
        fixed_.at(static_cast<std::size_t>(now.engine)) += static_cast<double>(now.interval);
        transfers_ += static_cast<double>(now.transfer);
        continue;
      }
      found_.emplace_back(i, *form);
      const double there = static_cast<double>(on_scalar(inst, *form).interval);
      if (copy) {
        fixed_.at(static_cast<std::size_t>(isa::Engine::kScalar)) += there;
      } else {
        on_vector_ += static_cast<double>(now.interval);
        on_scalar_ += there;
      }
    }
  }

  Estimate on_scalar(const isa::Inst& inst, const ScalarForm& form) {
    isa::Inst made = inst;
    made.op = isa::Op::k_activation;
    made.engine = isa::Engine::kScalar;
    const std::vector<isa::Arg> args = arguments(form);
    made.args = args;
    return estimator_.estimate(made);
  }

  // The largest with which ScalarE is not busy longer than the busiest of the others.
  [[nodiscard]] double share_of_arithmetic() const {
    const auto of = [&](isa::Engine e) { return fixed_.at(static_cast<std::size_t>(e)); };
    const double elsewhere =
        std::max({of(isa::Engine::kTensor), of(isa::Engine::kGpSimd), transfers_});
    double low = 0, high = 1;
    for (int step = 0; step < 20; ++step) {
      const double share = step == 0 ? 1 : (low + high) / 2;
      const double scalar = of(isa::Engine::kScalar) + share * on_scalar_;
      const double vector = of(isa::Engine::kVector) + (1 - share) * on_vector_;
      (scalar <= std::max(vector, elsewhere) ? low : high) = share;
    }
    return low;
  }

  [[nodiscard]] static std::vector<isa::Arg> arguments(const ScalarForm& form) {
    const isa::OpSpec& op = isa::spec(isa::Op::k_activation);
    std::vector<isa::Arg> args =
        tensor_arguments(isa::Op::k_activation, {{"dst", form.dst}, {"data", form.data}});
    const auto at = [&](std::string_view name) -> isa::Arg& {
      return args.at(static_cast<std::size_t>(isa::param_index(op, name)));
    };
    at("op").kind = isa::Arg::Kind::kEnum;
    at("op").integer = static_cast<std::int64_t>(isa::ActFn::kCopy);
    if (form.scale != nullptr) at("scale") = *form.scale;
    if (form.bias != nullptr) at("bias") = *form.bias;
    return args;
  }

  void move(std::uint32_t i, const ScalarForm& form) {
    isa::Inst made = program_.insts()[i];
    made.op = isa::Op::k_activation;
    made.engine = isa::Engine::kScalar;
    made.engine_open = made.forward = false;
    std::vector<isa::Arg> args = arguments(form);
    const bool columns_only = program_.machine().generation < isa::Generation::kV3;
    if (form.bias != nullptr && form.bias->kind != isa::Arg::Kind::kTensor && columns_only) {
      isa::Arg& bias = args.at(
          static_cast<std::size_t>(isa::param_index(isa::spec(isa::Op::k_activation), "bias")));
      bias = {};
      bias.kind = isa::Arg::Kind::kTensor;
      bias.tensor = column_of(i, *form.bias, *form.data);
    }
    rewrite_.put(i, made, args);
    rewrite_.drop(i);
  }

  // A column that holds the constant in data's partitions, filled before its first use.
  const isa::TensorRef* column_of(std::uint32_t i, const isa::Arg& constant,
                                  const isa::TensorRef& data) {
    const double value = constant.kind == isa::Arg::Kind::kReal
                             ? constant.real
                             : static_cast<double>(constant.integer);
    const isa::Inst& user = program_.insts()[i];
    const auto [found, is_new] = constants_.try_emplace(
        {value, std::signbit(value), user.core, static_cast<std::uint16_t>(data.partition),
         static_cast<std::int64_t>(data.partitions)},
        nullptr);
    if (!is_new) return found->second;
    isa::Inst fill;
    fill.op = isa::Op::k_memset;
    fill.core = user.core;
    fill.loc = user.loc;
    found->second = program_.whole(
        program_.add_tensor({.name = "constant~" + std::to_string(constants_.size()),
                             .space = isa::Space::kSbuf,
                             .dtype = isa::Dtype::kFloat32,
                             .core = user.core,
                             .shape = {data.partitions, 1},
                             .partition = static_cast<std::uint16_t>(data.partition)}));
    std::vector<isa::Arg> args = tensor_arguments(fill.op, {{"dst", found->second}});
    isa::Arg& filled =
        args.at(static_cast<std::size_t>(isa::param_index(isa::spec(isa::Op::k_memset), "value")));
    filled.kind = isa::Arg::Kind::kReal;
    filled.real = value;
    rewrite_.put(i, fill, args);
    return found->second;
  }

  using Constant = std::tuple<double, bool, std::uint8_t, std::uint16_t, std::int64_t>;
  isa::Program& program_;
  Estimator estimator_;
  Rewrite rewrite_;
  std::vector<std::pair<std::uint32_t, ScalarForm>> found_;
  Load fixed_{};  // busy time per engine without the arithmetic that may move
  double transfers_ = 0, on_vector_ = 0, on_scalar_ = 0;
  std::map<Constant, const isa::TensorRef*> constants_;
};

}  // namespace

bool may_copy_elsewhere(const isa::Inst& inst) {
  return inst.op == isa::Op::k_tensor_copy && scalar_form(inst).has_value();
}

PassResult engines(Unit& unit) {
  PassResult done{0, "engines=" + std::string(name(unit.choices.engines))};
  if (unit.choices.engines != Engines::k_scalar || !unit.may_drop()) return done;
  if (!unit.program.machine().has(isa::Engine::kScalar)) return done;
  const isa::Program::Version own = unit.program.version();
  Mover mover(unit.program, unit.config());
  done.changed = mover.run();
  if (mover.made_tiles() && unit.origin.open && !can_be_placed(unit)) {
    unit.program.restore(own);
    done = {0, done.text + ", no space for constants"};
  }
  return done;
}

}  // namespace nkisim::compiler
