#include "src/cli/rule_options.hpp"

#include <sstream>

namespace nkisim::cli {
namespace {

std::vector<std::string> rules(const Args& args, const std::string& option) {
  std::vector<std::string> all;
  for (const std::string& list : texts(args, option)) {
    std::istringstream words(list);
    for (std::string word; std::getline(words, word, ',');) all.push_back(word);
  }
  return all;
}

}  // namespace

void add_rule_options(boost::program_options::options_description& named) {
  namespace po = boost::program_options;
  auto add = named.add_options();
  add("suppress", po::value<std::vector<std::string>>(),
      "do not warn of this rule (nkisim explain); may be repeated");
  add("error", po::value<std::vector<std::string>>(),
      "a warning of this rule is an error, exit code 3; may be repeated");
  add("unread", "also warn of results and parts of inputs that nothing reads (docs/hazards.md)");
}

isa::RuleWishes rule_wishes(const Args& args) {
  return {.suppress = rules(args, "suppress"),
          .error = rules(args, "error"),
          .unread = given(args, "unread")};
}

}  // namespace nkisim::cli
