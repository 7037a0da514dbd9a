// Executes a program on numbers of expressions instead of values, to prove that two programs are
// equal.
#include "compiler/analysis/expressions.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "compiler/analysis/expression_work.hpp"

namespace nkisim::compiler {

Expressions::Expressions(const isa::Program& program, isa::Memory& memory, Sums sums)
    : program_(program), memory_(memory), sums_(sums) {
  for (const isa::Tensor& t : program.tensors()) {
    unit_ = std::min<std::int64_t>(unit_, isa::size_bytes(t.dtype));
  }
  for (const isa::Inst& inst : program.insts()) {
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool) {
      unit_ = std::min<std::int64_t>(unit_, isa::size_bytes(ref.dtype));
    });
  }
}

void Expressions::name_input(std::uint32_t tensor, int number) { inputs_[tensor] = number; }

const isa::Inst* Expressions::first_missing_in(const Expressions& others) const {
  if (!others.all_collected_) return nullptr;
  std::vector<std::uint64_t> known = others.computed_;
  std::sort(known.begin(), known.end());
  std::size_t at = 0;
  for (const auto& [inst, end] : ends_) {
    for (; at < end; ++at) {
      if (!std::binary_search(known.begin(), known.end(), computed_[at])) return inst;
    }
  }
  return nullptr;
}

// The cells of a region; pages that nothing touches cost nothing.
Expressions::Value* Expressions::shadow(const isa::Region& region) {
  const auto found = shadows_.find(&region);
  if (found != shadows_.end()) return found->second.get();
  const auto cells = static_cast<std::size_t>(region.size() / unit_ + 1);
  auto* made = static_cast<Value*>(std::calloc(cells, sizeof(Value)));
  if (made == nullptr) throw std::bad_alloc();
  shadows_.emplace(&region, std::unique_ptr<Value, void (*)(void*)>(made, &std::free));
  return made;
}

Expressions::Operand Expressions::read(const isa::TensorRef& ref, isa::EvalContext& ctx) {
  Operand o{.ref = &ref, .rows = ref.rows(), .columns = ref.columns(), .values = {}};
  o.values.reserve(static_cast<std::size_t>(ref.elements()));
  const isa::Region& region = *memory_.place(ref).region;
  Value* cells = shadow(region);
  const std::int64_t each = isa::size_bytes(ref.dtype) / unit_;
  ctx.for_each_run(ref, [&](const isa::EvalContext::Run& run) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      const Value* cell = cells + (run.data + i * run.step_bytes - region.data()) / unit_;
      bool whole =
          cell->form != Form::kRest && cell->form != Form::kNone && cell->dtype == ref.dtype;
      for (std::int64_t k = 1; k < each; ++k) whole = whole && cell[k].form == Form::kRest;
      if (whole) {
        o.values.push_back(*cell);
        continue;
      }
      Mixer m = Work::begin(ExpressionTag::kBits);  // written as something else, in parts, or never
      m.add(static_cast<std::uint64_t>(ref.dtype));
      if (cell->form == Form::kNone) m.add(undefined_alike_ ? 0 : ++never_written_);
      for (std::int64_t k = 0; k < each; ++k) {
        m.add(static_cast<std::uint64_t>(cell[k].form) << 8U |
              static_cast<std::uint64_t>(cell[k].dtype));
        Work::add(m, cell[k]);
      }
      Value v = Work::atom(m, ref.dtype);
      v.dtype = ref.dtype;
      o.values.push_back(v);
    }
  });
  return o;
}

void Expressions::write(const isa::TensorRef& ref, const Values& values, isa::EvalContext& ctx) {
  const isa::Region& region = *memory_.place(ref).region;
  Value* cells = shadow(region);
  const std::int64_t each = isa::size_bytes(ref.dtype) / unit_;
  std::size_t at = 0;
  ctx.for_each_run(ref, [&](const isa::EvalContext::Run& run) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      Value* cell = cells + (run.data + i * run.step_bytes - region.data()) / unit_;
      *cell = values.at(at++);
      for (std::int64_t k = 1; k < each; ++k) {
        cell[k] = *cell;
        cell[k].form = Form::kRest;
      }
    }
  });
}

// An element as it lies in memory: equal numbers are equal constants in every dtype.
Expressions::Value Expressions::constant(isa::Dtype dtype, const std::byte* data) {
  const bool word = dtype == isa::Dtype::kInt32 || dtype == isa::Dtype::kUint32;
  Value v;
  if ((isa::is_float(dtype) || isa::is_integer(dtype)) && !word) {
    float value = 0;
    isa::decode(dtype, data, 1, &value);
    v = Work::constant(value);
  } else {
    std::uint64_t bits = 0;
    std::memcpy(&bits, data, static_cast<std::size_t>(isa::size_bytes(dtype)));
    Mixer m = Work::begin(ExpressionTag::kConstant);
    m.add(static_cast<std::uint64_t>(dtype));
    m.add(bits);
    v = Work::atom(m);
  }
  v.dtype = v.exact = dtype;
  return v;
}

Expressions::Values Expressions::constants(const isa::TensorRef& ref, isa::EvalContext& ctx) {
  Values out;
  ctx.for_each_run(ref, [&](const isa::EvalContext::Run& run) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      out.push_back(constant(ref.dtype, run.data + i * run.step_bytes));
    }
  });
  return out;
}

// The elements of an input, the `number`-th, or of a constant.
void Expressions::begin(const isa::Tensor& t, const isa::Region& region,
                        std::optional<int> number) {
  Value* cells = shadow(region);
  const std::int64_t size = isa::size_bytes(t.dtype), each = size / unit_;
  for (std::int64_t i = 0; i < t.elements(); ++i) {
    Value v;
    if (number) {
      Mixer m = Work::begin(ExpressionTag::kInput);
      m.add(static_cast<std::uint64_t>(*number));
      m.add(static_cast<std::uint64_t>(i));
      v = Work::atom(m, t.dtype);
      v.dtype = t.dtype;
    } else {
      v = constant(t.dtype, region.data() + i * size);
    }
    for (std::int64_t k = 0; k < each; ++k) {
      cells[i * each + k] = v;
      if (k > 0) cells[i * each + k].form = Form::kRest;
    }
  }
}

// ---- Running -----------------------------------------------------------------------------------

void Expressions::note(const isa::Inst& inst, const Values& values) {
  constexpr std::size_t kMost = std::size_t{1} << 27U;
  if (!collects_ || !all_collected_) return;
  all_collected_ = computed_.size() + values.size() <= kMost;
  if (!all_collected_) return;
  for (const Value& v : values) computed_.push_back(Work::closed(v).first);
  ends_.emplace_back(&inst, computed_.size());
}

void Expressions::before(const isa::Inst& inst, isa::EvalContext& ctx) {
  ctx_ = &ctx;
  Work{*this, inst, ctx}.number();
}

void Expressions::after(const isa::Inst& inst) {
  for (const isa::TensorRef* ref : fills_) {
    const Values values = constants(*ref, *ctx_);
    write(*ref, values, *ctx_);
    note(inst, values);
  }
  fills_.clear();
  if (uses_) forget_tiles(inst);
}

void Expressions::forget_tiles(const isa::Inst& inst) {
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool) {
    if (ref.on_chip() && &program_.insts()[uses_->last(ref.tensor)] == &inst) {
      shadows_.erase(memory_.place(ref).region);
    }
  });
}

std::optional<std::string> Expressions::run() {
  if (program_.cores() > 1) return "the program runs on several cores";
  if (program_.ranks() > 1) return "the program runs on several ranks";
  if (program_.timing_only()) return "the program has no data";
  int inputs = 0;
  for (std::uint32_t id = 0; id < program_.tensors().size(); ++id) {
    const isa::Tensor& t = program_.tensor(id);
    const bool input = t.role == isa::TensorRole::kInput || t.role == isa::TensorRole::kInputOutput;
    if (t.space != isa::Space::kHbm || (!input && t.role != isa::TensorRole::kConstant)) continue;
    const auto known = inputs_.find(id);
    const int number = known != inputs_.end() ? known->second : inputs;
    inputs += input ? 1 : 0;
    const bool named = input || names_constants_;
    begin(t, memory_.hbm(id),
          named ? std::optional<int>(input ? number : -1 - static_cast<int>(id)) : std::nullopt);
  }
  if (program_.virtual_addresses() && program_.control_flow().empty()) uses_.emplace(program_);
  isa::InterpretOptions options;
  options.conditions.unwritten = isa::Unwritten::kAllow;
  options.before = [this](const isa::Inst& inst, isa::EvalContext& ctx) { before(inst, ctx); };
  options.after = [this](const isa::Inst& inst) { after(inst); };
  try {
    isa::interpret(program_, memory_, options);
  } catch (const Undecided& e) {
    return e.why;
  }
  return std::nullopt;
}

std::vector<Expression> Expressions::of(std::uint32_t tensor) {
  const isa::Tensor& t = program_.tensor(tensor);
  const Value* cells = shadow(memory_.hbm(tensor));
  const std::int64_t each = isa::size_bytes(t.dtype) / unit_;
  std::vector<Expression> out;
  for (std::int64_t i = 0; i < t.elements(); ++i) {
    const Value v = Work::closed(cells[i * each]);
    out.push_back({v.first, v.second});
  }
  return out;
}

}  // namespace nkisim::compiler
