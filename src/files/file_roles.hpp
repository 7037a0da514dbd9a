// Checks the files that a command reads and writes: none may be both, and none may be written
// twice.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nkisim {

/// A file that a command is given, and the option or argument that names it.
struct NamedFile {
  std::string option;  // "--session", "TRACE"
  std::string path;
};

/// Throws a usage Error where a file of `written` is one of `read`, or is there twice. Links and
/// other spellings of a path are the file that they lead to. "-" and devices are no files.
void require_apart(std::span<const NamedFile> written, std::span<const NamedFile> read);

/// The files that a word of a command line may stand for and that exist: itself, its parts where it
/// is a list (A,B), an assignment (NAME=FILE), a function (FILE.py:NAME) or ends in a file
/// (DTYPE[SHAPE]:FILE), and the data next to a trace.
[[nodiscard]] std::vector<std::string> files_in(const std::string& word);

/// The archive of inputs that `nkisim kernel -o` and Result.save write next to a trace.
[[nodiscard]] std::string data_next_to(std::string_view trace);

}  // namespace nkisim
