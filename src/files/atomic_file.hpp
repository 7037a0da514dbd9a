// Writes files that appear complete or not at all.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "isa/base/error.hpp"

namespace nkisim {

/// Writes a new file next to the target and renames it on commit(); without it the target stays as
/// it was, and of two that write the same target each commits a whole file. A link to a file is
/// replaced, not followed. Targets that are not regular files (a pipe, /dev/null, /dev/stdout) are
/// written directly.
class AtomicFile {
 public:
  /// Throws isa::Error if the folder cannot be written.
  explicit AtomicFile(std::filesystem::path target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  void write(std::string_view bytes);
  void commit();

 private:
  [[noreturn]] void fail(isa::Rule rule, const std::string& what) const;
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  static constexpr std::size_t kPiece = std::size_t{1} << 16U;  // written at a time
  std::filesystem::path target_, written_;
  std::vector<char> buffer_;  // the file's; lives longer
  std::unique_ptr<std::FILE, Close> file_;
};

/// gzip of a stream of bytes; the same bytes always give the same file (no time stamp).
class GzipWriter {
 public:
  explicit GzipWriter(AtomicFile& out);
  ~GzipWriter();
  GzipWriter(const GzipWriter&) = delete;
  GzipWriter& operator=(const GzipWriter&) = delete;
  void write(std::string_view bytes);
  void finish();

 private:
  void deflate_all(int flush);
  struct State;
  AtomicFile& out_;
  std::unique_ptr<State> state_;
};

}  // namespace nkisim
