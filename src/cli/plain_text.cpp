// Escapes control characters in text for a terminal.

#include "src/cli/plain_text.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string_view>

namespace nkisim::cli {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

bool is_plain(unsigned char c) { return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\t'; }

// C1 controls, and the marks that embed, override and isolate directions.
bool acts(std::uint32_t c) {
  return (c >= 0x80 && c < 0xa0) || c == 0x200e || c == 0x200f || c == 0x61c ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

std::string escaped(std::uint32_t c) {
  char text[16];
  std::snprintf(text, sizeof text, "\\u%04x", c);
  return text;
}

std::size_t length_of(unsigned char first) {
  if (first >= 0xf0 && first < 0xf5) return 4;
  if (first >= 0xe0 && first < 0xf0) return 3;
  return first >= 0xc2 && first < 0xe0 ? 2 : 0;
}

std::uint32_t decode(std::string_view text) {
  auto c = static_cast<std::uint32_t>(static_cast<unsigned char>(text[0])) & (0x7fU >> text.size());
  for (const char next : text.substr(1)) c = c << 6U | (static_cast<unsigned char>(next) & 0x3fU);
  return c;
}

}  // namespace

PlainText::PlainText(std::ostream& out) : out_(out), inner_(out.rdbuf(this)) {}

PlainText::~PlainText() {
  finish();
  out_.rdbuf(inner_);
}

void PlainText::pass(std::string_view text) {
  inner_->sputn(text.data(), static_cast<std::streamsize>(text.size()));
}

void PlainText::finish() {
  if (!pending_.empty()) pass(kReplacement);
  pending_.clear();
}

void PlainText::put(unsigned char c) {
  if (!pending_.empty()) {
    if ((c & 0xc0U) == 0x80) {
      pending_ += static_cast<char>(c);
      if (pending_.size() < expected_) return;
      const std::uint32_t whole = decode(pending_);
      pass(acts(whole) ? escaped(whole) : pending_);
      pending_.clear();
      return;
    }
    finish();
  }
  if (is_plain(c)) {
    inner_->sputc(static_cast<char>(c));
  } else if (c < 0x80) {
    pass(escaped(c));
  } else if ((expected_ = length_of(c)) > 0) {
    pending_ = static_cast<char>(c);
  } else {
    pass(kReplacement);
  }
}

std::streambuf::int_type PlainText::overflow(int_type c) {
  if (!traits_type::eq_int_type(c, traits_type::eof())) {
    put(static_cast<unsigned char>(traits_type::to_char_type(c)));
  }
  return traits_type::not_eof(c);
}

std::streamsize PlainText::xsputn(const char* text, std::streamsize size) {
  std::string_view rest(text, static_cast<std::size_t>(size));
  while (!rest.empty()) {
    const auto* odd = std::find_if_not(
        rest.begin(), rest.end(), [](char c) { return is_plain(static_cast<unsigned char>(c)); });
    const auto plain = static_cast<std::size_t>(odd - rest.begin());
    if (plain > 0) {
      finish();
      pass(rest.substr(0, plain));
      rest.remove_prefix(plain);
      continue;
    }
    put(static_cast<unsigned char>(rest.front()));
    rest.remove_prefix(1);
  }
  return size;
}

int PlainText::sync() { return inner_->pubsync(); }

}  // namespace nkisim::cli
