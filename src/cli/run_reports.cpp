// Lists the report files that `nkisim run` shall write, and has Python write the HTML page.

#include "src/cli/run_reports.hpp"

#include <stdlib.h>

#include <filesystem>

#include "isa/base/error.hpp"
#include "src/cli/python_command.hpp"

namespace nkisim::cli {

ReportFiles report_files(const Args& args) {
  return {.accounting_json = text(args, "accounting-json"),
          .session = text(args, "session"),
          .perfetto = text(args, "perfetto"),
          .chrome = text(args, "chrome"),
          .vcd = text(args, "vcd"),
          .flows = given(args, "perfetto-flows"),
          .accounting = given(args, "explain")};
}

namespace {

// A folder of its own for the events of a report that keeps none; gone at the end.
class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "nkisim-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      isa::fail(isa::Rule::file_unwritable, "no folder can be made as " + name);
    folder_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] std::string file(const char* name) const { return (folder_ / name).string(); }

 private:
  std::filesystem::path folder_;
};

void write_html(const std::string& session, const std::string& html) {
  const int code = call_python("nkisim_profile", {"report", session, "-o", html});
  if (code != 0) isa::fail(isa::Rule::file_unwritable, "cannot write " + html);
}

}  // namespace

void write_page(const std::string& html, const std::string& session,
                const std::function<void(const std::string&)>& write) {
  if (!session.empty() && std::filesystem::is_regular_file(session)) {
    write_html(session, html);
    return;
  }
  const Scratch scratch;
  write(scratch.file("session.npz"));
  write_html(scratch.file("session.npz"), html);
}

}  // namespace nkisim::cli
