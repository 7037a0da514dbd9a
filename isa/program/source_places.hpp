// Declares SourcePlaces: the files of a program, its trace and its kernel's, and what places in
// them are called.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isa/base/error.hpp"
#include "isa/base/inst.hpp"

namespace nkisim::isa {

class SourcePlaces {
 public:
  explicit SourcePlaces(std::string trace_file);
  [[nodiscard]] const std::string& trace_file() const { return trace_file_; }
  [[nodiscard]] const std::vector<std::string>& files() const { return files_; }
  std::uint32_t add_file(std::string_view file);  // value for SourceLoc::kernel_file
  /// FILE:LINE of an instruction in its kernel; empty if the trace does not say.
  [[nodiscard]] std::string kernel_place(const Inst& inst) const;
  /// The same as files have it that others are given: without the folders of whoever wrote them.
  [[nodiscard]] std::string shared_place(const Inst& inst) const;
  /// files() by such names: an absolute name is its last parts, as many as distinguish it.
  [[nodiscard]] const std::vector<std::string>& shared_files() const;
  /// From now on shared names are whole: what is written goes to a process of this run alone.
  void keep_folders(bool keep) { shared_.whole = keep; }
  /// Text of source files, by shared name; what travels with the program in a trace.
  void add_source(const std::string& name, std::string text) {
    shared_.texts[name] = std::move(text);
  }
  /// trace_file() for such files: an absolute name without its folders.
  [[nodiscard]] std::string shared_trace() const;
  [[nodiscard]] const std::map<std::string, std::string>& sources() const { return shared_.texts; }
  /// Adds trace and kernel file names to an Error raised for one of this program's instructions.
  void locate(Error& error) const;

 private:
  std::string trace_file_;
  std::vector<std::string> files_;
  struct Shared {
    mutable std::vector<std::string> files = {};  // names of the files known when asked for
    std::map<std::string, std::string> texts = {};
    bool whole = false;
  } shared_;
};

}  // namespace nkisim::isa
