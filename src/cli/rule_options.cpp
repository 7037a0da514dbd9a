// Reads the options that make broken rules errors, warnings or neither.

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

isa::RuleChoices rule_choices(const Args& args) {
  return {.suppress = rules(args, "suppress"),
          .error = rules(args, "error"),
          .unread = given(args, "unread")};
}

}  // namespace nkisim::cli
