// Escapes control characters in text for a terminal, so that names from an untrusted file cannot
// act as commands to it.
#pragma once

#include <ostream>
#include <streambuf>
#include <string>

namespace nkisim::cli {

/// While it exists, what is written to `out` reaches it as UTF-8 without control characters: other
/// than line feeds and tabs they are written as JSON writes them (\\u001b), and so are the marks
/// that change the direction of text; bytes that are no UTF-8 become U+FFFD.
class PlainText : public std::streambuf {
 public:
  explicit PlainText(std::ostream& out);
  ~PlainText() override;
  PlainText(const PlainText&) = delete;
  PlainText& operator=(const PlainText&) = delete;

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int sync() override;

 private:
  void put(unsigned char c);
  void finish();
  void pass(std::string_view text);
  std::ostream& out_;
  std::streambuf* inner_;
  std::string pending_;       // the beginning of a character
  std::size_t expected_ = 0;  // its length
};

}  // namespace nkisim::cli
