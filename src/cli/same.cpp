// Implements `nkisim same`, which proves or refutes that two programs compute the same outputs.
#include <iostream>

#include "src/cli/command.hpp"
#include "src/cli/options.hpp"
#include "src/files/files.hpp"
#include "src/run/run.hpp"
#include "src/trace/trace.hpp"

namespace nkisim::cli {
namespace {
namespace of_same {

namespace po = boost::program_options;

void options(po::options_description& named, po::positional_options_description& positional,
             po::options_description& hidden) {
  add_options(named, "same");
  hidden.add_options()("first", po::value<std::string>())("second", po::value<std::string>());
  positional.add("first", 1).add("second", 1);
}

const char* name(Sameness::Verdict verdict) {
  switch (verdict) {
    case Sameness::Verdict::kSame:
      return "same";
    case Sameness::Verdict::kDiffer:
      return "differ";
    default:
      return "undecided";
  }
}

nlohmann::ordered_json json_of(const Sameness& s) {
  nlohmann::ordered_json j = {{"verdict", name(s.verdict)},
                              {"elements", s.elements},
                              {"different_expressions", s.different}};
  const auto put = [&j](const char* key, const std::string& value) {
    if (!value.empty()) j[key] = value;
  };
  put("why", s.why);
  put("output", s.output);
  if (s.element >= 0) j["element"] = s.element;
  put("first_of_a", s.first_of_a);
  put("first_of_b", s.first_of_b);
  put("inputs", s.inputs);
  if (s.verdict == Sameness::Verdict::kDiffer) {
    j["a"] = s.expected;
    j["b"] = s.got;
  }
  return j;
}

void print(const Sameness& s, bool in_order) {
  std::cout << name(s.verdict);
  if (s.verdict == Sameness::Verdict::kSame) {
    std::cout << ": all " << s.elements
              << " elements of the outputs are the same expressions of the "
              << "inputs" << (in_order ? "" : ", up to the order of sums in FP32") << '\n';
    return;
  }
  if (s.verdict == Sameness::Verdict::kDiffer) {
    std::cout << ": " << s.inputs << " give " << s.expected << " and " << s.got << " in element "
              << s.element << " of " << s.output << '\n';
  } else {
    std::cout << ": " << s.why << '\n';
    if (s.element >= 0) {
      std::cout << s.different << " of " << s.elements << " elements, first element " << s.element
                << " of " << s.output << '\n';
    }
  }
  if (!s.first_of_a.empty()) std::cout << "only the first program has   " << s.first_of_a << '\n';
  if (!s.first_of_b.empty()) std::cout << "only the second program has  " << s.first_of_b << '\n';
}

int run(const Args& args) {
  const TraceFile a = read_trace(required(args, "first")), b = read_trace(required(args, "second"));
  const bool in_order = text(args, "sums") == "in-order";
  if (!in_order && text(args, "sums") != "any-order") {
    isa::fail(isa::Rule::option_value, "--sums", text(args, "sums"), "any-order or in-order");
  }
  SameOptions options{.sums = in_order ? compiler::Sums::kInOrder : compiler::Sums::kAnyOrder};
  options.tolerance = {.rtol = args["rtol"].as<double>(), .atol = args["atol"].as<double>()};
  const Sameness found = same(a, b, options);
  if (const std::string file = text(args, "witness"); !file.empty() && !found.witness.empty()) {
    write_npz(file, {found.witness.begin(), found.witness.end()});
  }
  if (wants_json(args))
    cli::print_json(json_of(found));
  else
    print(found, in_order);
  return found.verdict == Sameness::Verdict::kSame ? kOk : kDiffers;
}

}  // namespace of_same
}  // namespace

const Command& same_command() {
  static const Command kCommand{
      "same",
      "say whether two programs compute the same outputs",
      "nkisim same TRACE TRACE [options]",
      "  nkisim same naive.jsonl tiled.jsonl\n  nkisim same old.nisa new.nisa --witness "
      "inputs.npz\n",
      "Compares the expressions of all outputs' elements: equal ones are a proof. Else tries "
      "inputs\n"
      "that show the difference. Exit code 0: the same; 1: they differ, or it is undecided.\n",
      of_same::options,
      of_same::run};
  return kCommand;
}

}  // namespace nkisim::cli
