// Computes the expression numbers of an instruction's result by what its OpSpec says of it (copies,
// rearranges, depends on the element at its place, on its row, on all). Additions, products and
// scalar operators that several instructions share are numbered alike.
#include <algorithm>
#include <random>

#include "compiler/analysis/expression_work.hpp"
#include "isa/base/act.hpp"
#include "isa/program/engine_state.hpp"

namespace nkisim::compiler {
namespace {

using isa::Dtype;
using isa::Inst;
using isa::Op;
using isa::OpSpec;
using isa::TensorRef;
using Tag = ExpressionTag;

// True if an element at one place is computed as at any other.
bool same_everywhere(Op op) {
  switch (op) {
    case Op::k_activation:
    case Op::k_activate2:
    case Op::k_exponential:
    case Op::k_reciprocal:
    case Op::k_tensor_copy:
    case Op::k_tensor_copy_predicated:
    case Op::k_tensor_tensor:
    case Op::k_tensor_scalar:
    case Op::k_scalar_tensor_tensor:
    case Op::k_tensor_reduce:
    case Op::k_activation_reduce:
    case Op::k_tensor_scalar_reduce:
    case Op::k_tensor_tensor_scan:
    case Op::k_select_reduce:
    case Op::k_bn_stats:
    case Op::k_bn_aggr:
    case Op::k_max8:
      return true;
    default:
      return false;
  }
}

int parameter(const Inst& inst, std::string_view name) {
  return isa::param_index(isa::spec(inst), name);
}

// The argument of that name; one that is absent where the op has none.
const isa::Arg& argument(const Inst& inst, std::string_view name) {
  static const isa::Arg kNone{};
  const int i = parameter(inst, name);
  return i < 0 ? kNone : inst.arg(i);
}

}  // namespace

const Mixer& mixing_key() {
  static const Mixer kKey = [] {
    std::random_device random;
    const auto word = [&] { return (std::uint64_t{random()} << 32U) | random(); };
    return Mixer{word(), word()};
  }();
  return kKey;
}

bool holds_values(Dtype to, Dtype from) {
  if (to == from) return true;
  const bool eight = from == Dtype::kFloat8E3m4 || from == Dtype::kFloat8E4m3 ||
                     from == Dtype::kFloat8E4m3fn || from == Dtype::kFloat8E5m2;
  const bool byte = from == Dtype::kInt8 || from == Dtype::kUint8 || from == Dtype::kBool;
  switch (to) {
    case Dtype::kFloat32:
      return eight || byte || from == Dtype::kBfloat16 || from == Dtype::kFloat16 ||
             from == Dtype::kTfloat32 || from == Dtype::kInt16 || from == Dtype::kUint16;
    case Dtype::kBfloat16:
    case Dtype::kFloat16:
      return byte || (eight && to == Dtype::kBfloat16);
    case Dtype::kInt32:
      return byte || from == Dtype::kInt16 || from == Dtype::kUint16;
    default:
      return false;
  }
}

bool Expressions::Work::floats() const {
  bool all_floats = true;
  isa::for_each_tensor(inst, [&](const TensorRef& ref, const isa::Param&, bool) {
    all_floats = all_floats && isa::is_float(ref.dtype);
  });
  return all_floats;
}

void Expressions::Work::check() const {
  const OpSpec& op = isa::spec(inst);
  isa::for_each_tensor(inst, [&](const TensorRef& ref, const isa::Param&, bool) {
    if (ref.dynamic != nullptr) give_up("has an address that is known at run time only");
  });
  if (op.rendezvous || op.combine != nullptr || op.asks_rank) give_up("involves other cores");
  if (op.loads_register) give_up("loads a register from memory");
  if (op.raw) give_up("is an instruction of a device profile");
  if (op.state == OpSpec::State::kAlways) give_up("uses random numbers or its engine's state");
  if (isa::uses_state(inst)) give_up("uses its engine's reduce registers");
}

void Expressions::Work::store(const TensorRef& dst, Values values) {
  for (Value& v : values) v = cast(v, dst.dtype);
  all.write(dst, values, ctx);
  all.note(inst, values);
}

void Expressions::Work::copy(const TensorRef& dst, const TensorRef& src) {
  store(dst, all.read(src, ctx).values);
}

void Expressions::Work::transpose(const TensorRef& dst, const TensorRef& src) {
  const Operand in = all.read(src, ctx);
  if (dst.rows() != in.columns || dst.columns() != in.rows) return generic();
  Values out(in.values.size());
  for (std::int64_t r = 0; r < in.rows; ++r) {
    for (std::int64_t c = 0; c < in.columns; ++c) {
      out[static_cast<std::size_t>(c * in.rows + r)] = in.at(r, c);
    }
  }
  store(dst, std::move(out));
}

// out += the sums over k of a(k, m) * b(k, n). A product's number is the product of its operands'
// numbers modulo 2^64, twice: sums of such products are equal only if the pairs are.
void Expressions::Work::products(const Operand& a, const Operand& b, Values& out) const {
  const auto k_count = static_cast<std::size_t>(a.rows),
             m_count = static_cast<std::size_t>(a.columns),
             n_count = static_cast<std::size_t>(b.columns);
  for (const int half : {0, 1}) {
    const auto numbers = [&](const Operand& o) {
      std::vector<std::uint64_t> all_of(o.values.size());
      for (std::size_t i = 0; i < all_of.size(); ++i) {
        const Value v = closed(o.values[i]);
        Mixer m = begin(Tag::kProduct);
        add(m, v);
        all_of[i] = (half == 0 ? m.first : m.second) | 1U;
      }
      return all_of;
    };
    const std::vector<std::uint64_t> x = numbers(a), y = numbers(b);
    std::vector<std::uint64_t> row(n_count);
    for (std::size_t m = 0; m < m_count; ++m) {
      std::fill(row.begin(), row.end(), 0);
      for (std::size_t k = 0; k < k_count; ++k) {
        const std::uint64_t factor = x[k * m_count + m];
        const std::uint64_t* from = y.data() + k * n_count;
        for (std::size_t n = 0; n < n_count; ++n) row[n] += factor * from[n];
      }
      for (std::size_t n = 0; n < n_count; ++n) {
        Value& v = out[m * n_count + n];
        (half == 0 ? v.first : v.second) += row[n];
      }
    }
  }
}

void Expressions::Work::multiply() {
  const TensorRef& dst = *argument(inst, "dst").tensor;
  const bool plain = !inst.flag(parameter(inst, "is_transpose")) &&
                     inst.integer(parameter(inst, "perf_mode")) == 0 && floats();
  if (!plain) return generic();
  const Operand a = all.read(*argument(inst, "stationary").tensor, ctx);
  const Operand b = all.read(*argument(inst, "moving").tensor, ctx);
  const Value empty{.first = 0,
                    .second = 0,
                    .dtype = Dtype::kFloat32,
                    .exact = Dtype::kFloat32,
                    .form = Form::kSum,
                    .with_zero = true};
  Values out(static_cast<std::size_t>(a.columns * b.columns), empty);
  products(a, b, out);
  const bool accumulates = inst.flag(parameter(inst, "accumulate"));
  Operand old;
  if (accumulates) old = all.read(dst, ctx);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (all.sums_ == Sums::kInOrder) {
      // The order of an array's own additions is the machine's: a product is one number.
      out[i] = closed(out[i]);
    }
    if (accumulates) out[i] = sum(old.values[i], out[i]);
  }
  store(dst, std::move(out));
}

// A number for every row: an immediate, or a column.
Expressions::Operand Expressions::Work::scalar(const isa::Arg& arg, std::int64_t rows) const {
  if (arg.kind == isa::Arg::Kind::kTensor) return all.read(*arg.tensor, ctx);
  const double value =
      arg.kind == isa::Arg::Kind::kReal ? arg.real : static_cast<double>(arg.integer);
  return {.ref = nullptr,
          .rows = rows,
          .columns = 1,
          .values = Values(static_cast<std::size_t>(rows), constant(value))};
}

// tensor_tensor, tensor_scalar and scalar_tensor_tensor: one or two operators in FP32.
void Expressions::Work::operators() {
  const bool two_tiles = inst.op == Op::k_tensor_tensor;
  const auto op_named = [&](const char* name) {
    return static_cast<isa::AluOp>(argument(inst, name).integer);
  };
  const TensorRef& dst = *argument(inst, "dst").tensor;
  Values out;
  const auto apply = [&](isa::AluOp op, const Operand& other, bool reverse, std::int64_t columns) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i) / columns;
      const Value& y = other.columns == columns ? other.values[i] : other.at(row, 0);
      out[i] = reverse ? alu(op, y, out[i]) : alu(op, out[i], y);
    }
  };
  const Operand data = all.read(*argument(inst, two_tiles ? "data1" : "data").tensor, ctx);
  out = data.values;
  if (two_tiles) {
    apply(op_named("op"), all.read(*argument(inst, "data2").tensor, ctx), false, data.columns);
    return store(dst, std::move(out));
  }
  const auto flag = [&](const char* name) { return argument(inst, name).integer != 0; };
  apply(op_named("op0"), scalar(argument(inst, "operand0"), data.rows), flag("reverse0"),
        data.columns);
  if (argument(inst, "op1").present()) {
    apply(op_named("op1"), scalar(argument(inst, "operand1"), data.rows), flag("reverse1"),
          data.columns);
  }
  store(dst, std::move(out));
}

// func(data * scale + bias)
void Expressions::Work::activate() {
  const Operand data = all.read(*argument(inst, "data").tensor, ctx);
  const isa::Arg &scale = argument(inst, "scale"), &bias = argument(inst, "bias");
  Values out = data.values;
  const auto of_row = [&](const isa::Arg& arg) {
    return arg.present() ? scalar(arg, data.rows) : Operand{};
  };
  const Operand factors = of_row(scale), offsets = of_row(bias);
  const auto function = static_cast<isa::ActFn>(argument(inst, "op").integer);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto row = static_cast<std::size_t>(static_cast<std::int64_t>(i) / data.columns);
    Value v = out[i];
    if (!factors.values.empty()) v = alu(isa::AluOp::kMultiply, v, factors.values[row]);
    if (!offsets.values.empty()) v = sum(v, offsets.values[row]);
    const bool itself = function == isa::ActFn::kCopy;
    out[i] =
        itself ? v : pair(Tag::kAct, static_cast<std::uint64_t>(function), v, constant(0), false);
  }
  store(*argument(inst, "dst").tensor, std::move(out));
}

// tensor_reduce: a sum, or the list of what an element is reduced from, whatever else the
// instruction reduces.
void Expressions::Work::reduce() {
  const Operand data = all.read(*argument(inst, "data").tensor, ctx);
  const TensorRef& dst = *argument(inst, "dst").tensor;
  const auto op = static_cast<isa::AluOp>(argument(inst, "op").integer);
  const bool sums = op == isa::AluOp::kAdd && all.sums_ == Sums::kAnyOrder;
  const std::int64_t count = data.columns / std::max<std::int64_t>(dst.columns(), 1);
  Values out;
  for (std::int64_t r = 0; r < data.rows; ++r) {
    for (std::int64_t c = 0; c < dst.columns(); ++c) {
      Value v = constant(0);
      Mixer m = begin(Tag::kOp);
      m.add(static_cast<std::uint64_t>(inst.op));
      m.add(static_cast<std::uint64_t>(op));
      for (std::int64_t i = 0; i < count; ++i) {
        const Value& x = data.at(r, c * count + i);
        if (sums) v = sum(v, x);
        if (!sums) add(m, closed(x));
      }
      out.push_back(sums ? v : atom(m));
    }
  }
  store(dst, std::move(out));
}

// The instruction with everything about it but its tensors' places: name, constants, dtypes.
Mixer Expressions::Work::described() const {
  const OpSpec& op = isa::spec(inst);
  Mixer m = begin(Tag::kOp);
  m.add(static_cast<std::uint64_t>(inst.op));
  if (!floats()) m.add(static_cast<std::uint64_t>(inst.engine));
  for (std::size_t i = 0; i < inst.args.size(); ++i) {
    const isa::Arg& arg = inst.args[i];
    if (op.params[i].name == "dge_mode" || op.params[i].name == "priority") continue;
    // Idle is as if it were absent (check() has refused every other command of such operations).
    if (op.params[i].name == "reduce_cmd" && op.state == OpSpec::State::kIfReducing) continue;
    m.add(i << 8U | static_cast<std::uint64_t>(arg.kind));
    switch (arg.kind) {
      case isa::Arg::Kind::kNone:
      case isa::Arg::Kind::kTensors:
        break;
      case isa::Arg::Kind::kTensor:
        m.add(static_cast<std::uint64_t>(arg.tensor->dtype));
        break;
      case isa::Arg::Kind::kReal:
        m.add(std::bit_cast<std::uint64_t>(arg.real));
        break;
      case isa::Arg::Kind::kList:
        for (const std::int64_t n : *arg.list) m.add(static_cast<std::uint64_t>(n));
        break;
      case isa::Arg::Kind::kText:
        m.add(std::hash<std::string>{}(*arg.text));
        break;
      default:
        m.add(static_cast<std::uint64_t>(arg.integer));
    }
  }
  return m;
}

// By what OpSpec::depends says; what an operand held that is only partly written counts as read.
void Expressions::Work::generic() {
  const OpSpec& op = isa::spec(inst);
  std::vector<Operand> in;
  std::vector<const TensorRef*> out;
  isa::for_each_tensor(inst, [&](const TensorRef& ref, const isa::Param& param, bool written) {
    if (!written || param.kind == isa::ParamKind::kInOut) in.push_back(all.read(ref, ctx));
    if (written) out.push_back(&ref);
  });
  const Mixer start = described();
  const auto list = [](Mixer m, const Operand& o, std::int64_t first, std::int64_t last) {
    m.add(static_cast<std::uint64_t>(o.columns));
    for (std::int64_t i = first; i < last; ++i)
      add(m, closed(o.values[static_cast<std::size_t>(i)]));
    return m;
  };
  const bool anywhere = same_everywhere(inst.op);
  for (std::size_t k = 0; k < out.size(); ++k) {
    const TensorRef& dst = *out[k];
    const std::int64_t rows = dst.rows(), columns = dst.columns();
    const bool by_row =
        std::all_of(in.begin(), in.end(), [&](const Operand& o) { return o.rows == rows; });
    const auto depends = by_row ? op.depends : OpSpec::Depends::kAll;
    Mixer whole = start;
    whole.add(k);
    if (depends == OpSpec::Depends::kAll) {
      for (const Operand& o : in) whole = list(whole, o, 0, o.rows * o.columns);
    }
    Values values;
    for (std::int64_t r = 0; r < rows; ++r) {
      Mixer row = whole;
      if (!anywhere)
        row.add(static_cast<std::uint64_t>(dst.partition) + static_cast<std::uint64_t>(r));
      if (depends != OpSpec::Depends::kAll) {
        for (const Operand& o : in) {
          const bool at_place = depends == OpSpec::Depends::kElement && o.columns == columns;
          if (!at_place) row = list(row, o, r * o.columns, (r + 1) * o.columns);
        }
      }
      for (std::int64_t c = 0; c < columns; ++c) {
        Mixer m = row;
        if (depends == OpSpec::Depends::kElement) {
          for (const Operand& o : in) {
            if (o.columns == columns) add(m, closed(o.at(r, c)));
          }
        }
        if (!anywhere || depends != OpSpec::Depends::kElement) m.add(static_cast<std::uint64_t>(c));
        values.push_back(atom(m));
      }
    }
    store(dst, std::move(values));
  }
}

// An instruction that reads no memory leaves constants: what its evaluation wrote.
void Expressions::Work::fill(const TensorRef& dst) { all.fills_.push_back(&dst); }

void Expressions::Work::number() {
  const OpSpec& op = isa::spec(inst);
  if (op.control != OpSpec::Control::kNone || op.on_sequencer || op.eval == nullptr) return;
  check();
  int reads = 0;
  const TensorRef* dst = nullptr;
  isa::for_each_tensor(inst, [&](const TensorRef& ref, const isa::Param& param, bool written) {
    reads += !written || param.kind == isa::ParamKind::kInOut ? 1 : 0;
    if (written) dst = &ref;
  });
  if (dst == nullptr) return;  // prints, barriers
  if (reads == 0) return fill(*dst);
  const bool one_to_one =
      op.moves == OpSpec::Moves::kCopies || (op.only_copies != nullptr && op.only_copies(inst));
  const isa::Arg& src = argument(inst, op.dma                        ? "src"
                                       : parameter(inst, "src") >= 0 ? "src"
                                                                     : "data");
  if (one_to_one && reads == 1 && src.kind == isa::Arg::Kind::kTensor)
    return copy(*dst, *src.tensor);
  compute(*dst);
}

// Everything but fills and copies.
void Expressions::Work::compute(const TensorRef& dst) {
  switch (inst.op) {
    case Op::k_nc_transpose: {
      // Before trn2 the tensor engine multiplies by an identity, and zero times infinity is NaN.
      const bool product = inst.engine == isa::Engine::kTensor &&
                           all.program_.machine().generation < isa::Generation::kV3;
      return product ? generic() : transpose(dst, *argument(inst, "data").tensor);
    }
    case Op::k_dma_transpose:
      return transpose(dst, *argument(inst, "src").tensor);
    case Op::k_nc_matmul:
      return multiply();
    case Op::k_tensor_tensor:
    case Op::k_tensor_scalar:
    case Op::k_scalar_tensor_tensor:
      return floats() ? operators() : generic();
    case Op::k_activation:
      return floats() ? activate() : generic();
    case Op::k_tensor_reduce:
      return floats() && !inst.flag(parameter(inst, "negate")) ? reduce() : generic();
    default:
      return generic();
  }
}

}  // namespace nkisim::compiler
