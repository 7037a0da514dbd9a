// Matches the tensors of two programs, then proves that both compute the same, or refutes it.

#include "src/run/same.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "isa/world/interpreter.hpp"

namespace nkisim {
namespace {
namespace of_same {

using Ids = std::vector<std::uint32_t>;

bool is_input(const isa::Tensor& t) {
  return t.space == isa::Space::kHbm &&
         (t.role == isa::TensorRole::kInput || t.role == isa::TensorRole::kInputOutput);
}

Ids ids_of(const isa::Program& program, bool (*wanted)(const isa::Tensor&)) {
  Ids ids;
  for (std::uint32_t id = 0; id < program.tensors().size(); ++id) {
    if (wanted(program.tensor(id))) ids.push_back(id);
  }
  return ids;
}

std::string describe(const isa::Program& program, const Ids& ids) {
  std::string text;
  for (const std::uint32_t id : ids) {
    const isa::Tensor& t = program.tensor(id);
    text += (text.empty() ? "" : ", ") + t.name + " " + std::string(isa::name(t.dtype)) + "[";
    for (std::size_t d = 0; d < t.shape.size(); ++d) {
      text += (d == 0 ? "" : ", ") + std::to_string(t.shape[d]);
    }
    text += "]";
  }
  return text.empty() ? "none" : text;
}

// b's tensors in the order of a's: by name if all names agree, else in their own order.
Ids matched(const isa::Program& a, const Ids& of_a, const isa::Program& b, Ids of_b,
            const char* what) {
  Ids by_name;
  for (const std::uint32_t id : of_a) {
    const auto found = std::find_if(of_b.begin(), of_b.end(), [&](std::uint32_t other) {
      return b.tensor(other).name == a.tensor(id).name;
    });
    if (found != of_b.end()) by_name.push_back(*found);
  }
  if (by_name.size() == of_b.size()) of_b = by_name;
  bool fits = of_a.size() == of_b.size();
  for (std::size_t i = 0; fits && i < of_a.size(); ++i) {
    const isa::Tensor &x = a.tensor(of_a[i]), &y = b.tensor(of_b[i]);
    fits = x.dtype == y.dtype && x.shape == y.shape;
  }
  if (!fits) {
    isa::fail(isa::Rule::programs_unlike, std::string(what) + " of the second program",
              describe(b, of_b), describe(a, of_a) + ", as the first has,");
  }
  return of_b;
}

// Values that meet the corners of most functions.
constexpr std::array<double, 16> kCorners = {0.0,
                                             -0.0,
                                             1.0,
                                             -1.0,
                                             0.5,
                                             -0.5,
                                             2.0,
                                             -2.0,
                                             1e-40,
                                             -1e-40,
                                             65504,
                                             3e38,
                                             -3e38,
                                             16777217.0,
                                             std::numeric_limits<double>::infinity(),
                                             -std::numeric_limits<double>::infinity()};

struct Draw {
  const char* name;
  DataSource source;  // of floats; integers are drawn from [0, 8)
  bool corners = false, nan = false;
  std::int64_t shift = 0;  // of the corners: so that each element meets each of them
};

DataSource generated(Generator generator, std::int64_t seed = 0) {
  DataSource s;
  s.kind = DataSource::Kind::kGenerator;
  s.generator = generator;
  s.seed = seed;
  return s;
}

std::vector<Draw> draws() {
  const auto normal = [](std::int64_t seed, double scale) {
    DataSource s = generated(Generator::kNormal, seed);
    s.scale = scale;
    return s;
  };
  DataSource small = generated(Generator::kIntegers);
  small.low = -3;
  small.high = 4;
  std::vector<Draw> all = {
      {"normal values, seed 1", normal(1, 1)},
      {"normal values, seed 2, times 1000", normal(2, 1000)},
      {"normal values, seed 3, times 0.001", normal(3, 0.001)},
      {"small whole numbers", small},
      {"zeros", generated(Generator::kZeros)},
      {"corners: zeros of both signs, subnormal and large values, infinities", small, true},
      {"corners with NaN", small, true, true}};
  for (std::int64_t shift = 1; shift < 17; ++shift) {
    all.push_back({"corners with NaN", small, true, true, shift});
  }
  return all;
}

DataSource source_of(const isa::Tensor& t, const Draw& draw, std::int64_t number) {
  DataSource s = draw.source;
  s.seed += 1000 * number;
  if (isa::is_integer(t.dtype)) {
    s.generator = Generator::kIntegers;
    s.low = 0;
    s.high = 8;
  } else if (draw.corners) {
    s.kind = DataSource::Kind::kValues;
    for (std::int64_t i = 0; i < t.elements() * (isa::is_packed(t.dtype) ? 4 : 1); ++i) {
      const auto pick = static_cast<std::size_t>(i * 7 + i / 16 + number * 5 + draw.shift) % 17;
      s.values.push_back(pick < 16  ? kCorners.at(pick)
                         : draw.nan ? std::numeric_limits<double>::quiet_NaN()
                                    : 3.0);
    }
  }
  return s;
}

// The outputs that a program computes of some inputs, by the names of the first program.
std::map<std::string, NpyArray> values(const TraceFile& trace, const Ids& inputs,
                                       const std::vector<std::vector<std::byte>>& bytes,
                                       const Ids& outputs, const isa::Program& names,
                                       const Ids& named) {
  const isa::Program& program = *trace.program;
  isa::Memory memory(program);
  load_inputs(trace, memory, {.allow_missing = true});
  for (std::size_t i = 0; i < inputs.size(); ++i) memory.load(inputs[i], bytes[i]);
  isa::InterpretOptions options;
  options.conditions.unwritten = isa::Unwritten::kAllow;
  isa::interpret(program, memory, options);
  std::map<std::string, NpyArray> out;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const isa::Tensor& t = program.tensor(outputs[i]);
    out.emplace(names.tensor(named[i]).name, make_array(t.dtype, t.shape, memory.read(outputs[i])));
  }
  return out;
}

class Proof {
 public:
  Proof(const TraceFile& a, const TraceFile& b, const SameOptions& options)
      : a_(a), b_(b), options_(options) {
    inputs_a_ = ids_of(program(a), is_input);
    inputs_b_ =
        matched(program(a), inputs_a_, program(b), ids_of(program(b), is_input), "the inputs");
    outputs_a_ = ids_of(program(a), is_output);
    if (outputs_a_.empty()) {
      isa::fail(isa::Rule::programs_unlike, "the outputs of the first program", "none",
                "an output at least");
    }
    outputs_b_ =
        matched(program(a), outputs_a_, program(b), ids_of(program(b), is_output), "the outputs");
  }

  Sameness run() {
    prove();
    if (out_.verdict != Sameness::Verdict::kSame) refute();
    return std::move(out_);
  }

 private:
  static const isa::Program& program(const TraceFile& trace) { return *trace.program; }

  void stage(const char* name) const {
    if (options_.stage) options_.stage(name);
  }

  struct Side {
    Side(const TraceFile& trace, const Ids& inputs, compiler::Sums sums, bool collects)
        : memory(*trace.program), expressions(*trace.program, memory, sums) {
      load_inputs(trace, memory, {.allow_missing = true});
      if (collects) expressions.collect();
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        expressions.name_input(inputs[i], static_cast<int>(i));
      }
    }
    isa::Memory memory;
    compiler::Expressions expressions;
  };

  void prove() {
    stage("numbering expressions");
    number();
    if (out_.different == 0 || !out_.why.empty()) return;
    out_.why = "the expressions differ, and no inputs that were tried show it";
    stage("finding the first difference");
    Side a(a_, inputs_a_, options_.sums, true), b(b_, inputs_b_, options_.sums, true);
    if (a.expressions.run() || b.expressions.run()) return;  // neither can fail now
    out_.first_of_a = place_of(program(a_), a.expressions.first_missing_in(b.expressions));
    out_.first_of_b = place_of(program(b_), b.expressions.first_missing_in(a.expressions));
  }

  // Counts the elements of outputs that differ; or says why it cannot.
  void number() {
    Side a(a_, inputs_a_, options_.sums, false), b(b_, inputs_b_, options_.sums, false);
    for (auto& [side, name] : {std::pair(&a, "first"), std::pair(&b, "second")}) {
      if (const auto why = side->expressions.run()) {
        out_.why = std::string("of the ") + name + " program, " + *why;
        return;
      }
    }
    for (std::size_t i = 0; i < outputs_a_.size(); ++i) {
      const auto x = a.expressions.of(outputs_a_[i]), y = b.expressions.of(outputs_b_[i]);
      out_.elements += static_cast<std::int64_t>(x.size());
      for (std::size_t e = 0; e < x.size(); ++e) {
        if (x[e] == y[e]) continue;
        if (out_.different++ == 0) {
          out_.output = program(a_).tensor(outputs_a_[i]).name;
          out_.element = static_cast<std::int64_t>(e);
        }
      }
    }
    if (out_.different == 0) out_.verdict = Sameness::Verdict::kSame;
  }

  [[nodiscard]] static std::string place_of(const isa::Program& program, const isa::Inst* inst) {
    if (inst == nullptr) return {};
    std::string place = program.kernel_place(*inst);
    if (place.empty()) place = "line " + std::to_string(inst->loc.trace_line);
    return std::string(isa::spec(*inst).name) + " at " + place;
  }

  // Tries inputs until one gives other values.
  void refute() {
    for (const Draw& draw : draws()) {
      stage("trying inputs");
      std::vector<std::vector<std::byte>> bytes;
      for (std::size_t i = 0; i < inputs_a_.size(); ++i) {
        const isa::Tensor& t = program(a_).tensor(inputs_a_[i]);
        bytes.push_back(tensor_bytes(t, source_of(t, draw, static_cast<std::int64_t>(i)), {}));
      }
      const auto expected = values(a_, inputs_a_, bytes, outputs_a_, program(a_), outputs_a_);
      const auto found = values(b_, inputs_b_, bytes, outputs_b_, program(a_), outputs_a_);
      if (differs(expected, found)) {
        out_.verdict = Sameness::Verdict::kDiffer;
        out_.why.clear();
        out_.inputs = draw.name;
        for (std::size_t i = 0; i < inputs_a_.size(); ++i) {
          const isa::Tensor& t = program(a_).tensor(inputs_a_[i]);
          out_.witness.emplace(t.name, make_array(t.dtype, t.shape, bytes[i]));
        }
        return;
      }
    }
  }

  bool differs(const std::map<std::string, NpyArray>& expected,
               const std::map<std::string, NpyArray>& found) {
    for (const std::uint32_t id : outputs_a_) {
      const isa::Tensor& t = program(a_).tensor(id);
      const NpyArray &x = found.at(t.name), &y = expected.at(t.name);
      const Difference d = compare({.dtype = t.dtype, .bytes = x.data},
                                   {.dtype = t.dtype, .bytes = y.data}, options_.tolerance);
      if (d.equal) continue;
      out_.output = t.name;
      out_.element = d.worst;
      out_.got = d.got;
      out_.expected = d.expected;
      return true;
    }
    return false;
  }

  const TraceFile &a_, &b_;
  const SameOptions& options_;
  Ids inputs_a_, inputs_b_, outputs_a_, outputs_b_;
  Sameness out_;
};

}  // namespace of_same
}  // namespace

Sameness same(const TraceFile& a, const TraceFile& b, const SameOptions& options) {
  return of_same::Proof(a, b, options).run();
}

}  // namespace nkisim
