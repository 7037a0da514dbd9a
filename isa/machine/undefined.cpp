// Looks for undefined (never-written) bytes in a program's outputs, and says where they come from.

#include "isa/machine/undefined.hpp"

#include <cstdio>

namespace nkisim::isa {
namespace {

bool is_output(const Tensor& t) {
  return t.space == Space::kHbm &&
         (t.role == TensorRole::kOutput || t.role == TensorRole::kInputOutput);
}

// "[64, 0]" for element `at` of the tensor.
std::string coordinates(const Tensor& t, std::int64_t at) {
  std::vector<std::int64_t> index(t.shape.size());
  for (std::size_t d = t.shape.size(); d-- > 0; at /= t.shape[d]) index[d] = at % t.shape[d];
  std::string text = "[";
  for (const std::int64_t i : index) text += (text.size() > 1 ? ", " : "") + std::to_string(i);
  return text + "]";
}

struct Finding {
  std::int64_t elements = 0, first = -1, first_byte = -1;
  bool order_only = true;
};

constexpr std::int64_t kCounted = std::int64_t{1} << 28;  // elements; of more, the first is enough

// Counts the undefined elements and fills the unwritten ones.
Finding look(const Tensor& t, Region& region, const Definedness& bits, const Origins& origins) {
  Finding found;
  const std::int64_t size = size_bytes(t.dtype), bytes = region.size();
  for (std::int64_t at = bits.find_undefined(0, bytes); at >= 0;) {
    const std::int64_t element = at / size;
    const std::uint32_t origin = bits.origin(at);
    const bool order = origin != 0 && origins.root_of(origin).order_only();
    if (found.elements++ == 0 || (found.order_only && !order)) {
      found.first = element;
      found.first_byte = at;
    }
    found.order_only = found.order_only && order;
    if (origins.last(origin) == nullptr) {
      fill_sentinel(t.dtype, region.data() + element * size);
    }
    if (t.elements() > kCounted && !order) break;
    const std::int64_t next = (element + 1) * size;
    at = next < bytes ? bits.find_undefined(next, bytes - next) : -1;
  }
  return found;
}

constexpr std::string_view kFilled = "; memory never written is NaN here, and 4 in integers";

Error describe(const Program& program, std::uint32_t id, const Finding& found, Memory& memory,
               std::string_view more) {
  const Tensor& t = program.tensor(id);
  const std::uint32_t origin = memory.bits(id).origin(found.first_byte);
  const Inst* last = memory.origins().last(origin);
  std::string text = "output " + t.name + " is undefined";
  if (t.elements() <= kCounted) {
    text += " in " + std::to_string(found.elements) + " of " + std::to_string(t.elements()) +
            " elements";
  }
  text += ", first at " + coordinates(t, found.first) + ": ";
  if (last == nullptr) {
    text +=
        "no instruction wrote them (never written); nl.store or nisa.dma_copy to all of it is "
        "required";
  } else {
    text += memory.origins().describe(origin, program);
  }
  // In a large tensor only the first undefined element is known; every element before it was
  // written.
  const bool partly =
      last == nullptr &&
      (found.first > 0 || (t.elements() <= kCounted && found.elements < t.elements()));
  text += more;
  Error error(partly ? Rule::output_partly_written : Rule::undefined_value, text);
  if (last != nullptr) {
    error.at(spec(*last).name, last->loc);
  } else {
    error.at("", {.kernel_file = t.file, .kernel_line = t.line});
  }
  program.locate(error);
  return error;
}

Error describe(const Program& program, const Origins& origins, const Origins::TimesZero& found) {
  Error error(Rule::undefined_times_zero,
              "multiplies undefined elements by zeros, which is right unless they hold NaN or "
              "infinity: " +
                  origins.describe(found.origin, program));
  error.at(spec(*found.inst).name, found.inst->loc);
  program.locate(error);
  return error;
}

Error describe(const Program& program, const IntegerCasts& found) {
  char most[32];
  (void)std::snprintf(most, sizeof most, "%.4g", static_cast<double>(found.most));
  Error error(Rule::fractions_lost,
              "rounds " + std::to_string(found.fractions) + " of " + std::to_string(found.values) +
                  " numbers to integers of " + std::string(name(found.dtype)) +
                  ", and none is larger than " + most + ": their fractions are lost");
  error.at(spec(*found.inst).name, found.inst->loc);
  program.locate(error);
  return error;
}

}  // namespace

void check_outputs(const Program& program, Memory& memory, const Conditions& conditions) {
  struct Report {
    Error error;
    Level level;
  };
  const RulePolicy& rules = conditions.rules;
  std::vector<Report> reports;
  for (std::uint32_t id = 0; id < program.tensors().size(); ++id) {
    const Tensor& t = program.tensor(id);
    if (!is_output(t)) continue;
    const Finding found = look(t, memory.hbm(id), memory.bits(id), memory.origins());
    if (found.elements == 0) continue;
    const Error error = describe(program, id, found, memory, {});
    const Level level = found.order_only ? rules.of_warning(error.rule()) : rules.of(error.rule());
    const bool filled = level == Level::kWarning && !found.order_only;
    reports.push_back({filled ? describe(program, id, found, memory, kFilled) : error, level});
  }
  for (const auto& [line, found] : memory.origins().times_zero()) {
    const Error error = describe(program, memory.origins(), found);
    reports.push_back({error, rules.of_warning(error.rule())});
  }
  for (const auto& [line, casts] : memory.integer_casts().places()) {
    if (!casts.loses_fractions()) continue;
    reports.push_back({describe(program, casts), rules.of(Rule::fractions_lost)});
  }
  for (const Report& report : reports) {
    if (report.level == Level::kError) throw report.error;
    if (report.level == Level::kWarning && conditions.warn) conditions.warn(report.error);
  }
}

}  // namespace nkisim::isa
