// Finds the rule of an error message by comparing it with all known messages.

#include "src/report/messages.hpp"

#include <algorithm>
#include <cctype>
#include <string>

namespace nkisim {
namespace {
namespace of_messages {

struct Form {
  isa::Rule rule;
  std::string_view text;  // "..." stands for what a run fills in
};

constexpr Form kForms[] = {
#define NKISIM_MESSAGE(rule, text) {isa::Rule::rule, text},
#include "src/report/messages.def"
#undef NKISIM_MESSAGE
};

constexpr std::string_view kAny = "...";
// Letters of "... is ...; ... is required", which say nothing.
constexpr std::size_t kSkeleton = 12;

bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Where a part of a form stands in a message as whole words, from `at` on.
std::size_t find_words(std::string_view message, std::string_view part, std::size_t at) {
  for (at = message.find(part, at); at != std::string_view::npos; at = message.find(part, at + 1)) {
    const std::size_t end = at + part.size();
    const bool begins = at == 0 || !is_letter(part.front()) || !is_letter(message[at - 1]);
    const bool ends = end == message.size() || !is_letter(part.back()) || !is_letter(message[end]);
    if (begins && ends) return at;
  }
  return std::string_view::npos;
}

// The number of letters of a form that a message has; 0 unless it has all of them, in order.
std::size_t likeness(std::string_view form, std::string_view message) {
  std::size_t at = 0, letters = 0;
  while (!form.empty()) {
    const std::size_t end = std::min(form.find(kAny), form.size());
    const std::string_view part = form.substr(0, end);
    form.remove_prefix(std::min(form.size(), end + kAny.size()));
    if (part.empty()) continue;
    at = find_words(message, part, at);
    if (at == std::string_view::npos) return 0;
    at += part.size();
    letters += static_cast<std::size_t>(std::count_if(part.begin(), part.end(), is_letter));
  }
  return letters;
}

// "[operand_size]", the last that is a rule's.
std::optional<isa::Rule> shown_id(std::string_view message) {
  for (std::size_t open = message.rfind('['); open != std::string_view::npos;
       open = open == 0 ? std::string_view::npos : message.rfind('[', open - 1)) {
    const std::size_t close = message.find(']', open);
    if (close == std::string_view::npos) continue;
    if (const auto rule = isa::find_rule(message.substr(open + 1, close - open - 1))) return rule;
  }
  return std::nullopt;
}

}  // namespace of_messages
}  // namespace

std::optional<isa::Rule> rule_of_message(std::string_view message) {
  using namespace of_messages;
  if (const auto shown = shown_id(message)) return shown;
  std::size_t best = kSkeleton;
  std::optional<isa::Rule> found;
  for (const Form& form : kForms) {
    const std::size_t like = likeness(form.text, message);
    if (like <= best) continue;
    best = like;
    found = form.rule;
  }
  return found;
}

}  // namespace nkisim
