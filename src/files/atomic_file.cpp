// Writes a temporary file and renames it when it is complete, so that no file appears half.

#include "src/files/atomic_file.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "isa/base/error.hpp"

namespace nkisim {

namespace {

constexpr int kAttempts = 1000;

// Names below /dev and /proc stand for something open, whatever is behind them (/dev/stdout).
bool is_special(const std::filesystem::path& target) {
  const std::string name = target.lexically_normal().string();
  return name.starts_with("/dev/") || name.starts_with("/proc/");
}

// A new file next to the target; never one that was there, nor through a link.
std::FILE* open_new(const std::filesystem::path& target, std::filesystem::path& written) {
  static std::atomic<unsigned> number{0};
  for (int i = 0; i < kAttempts; ++i) {
    written = target;
    written += ".part" + std::to_string(::getpid()) + "-" + std::to_string(number++);
    const int fd = ::open(written.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (fd >= 0) return ::fdopen(fd, "wb");
    if (errno != EEXIST) return nullptr;
  }
  return nullptr;
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path target) : target_(std::move(target)), buffer_(kPiece) {
  std::error_code ec;
  const auto status = std::filesystem::status(target_, ec);
  if (std::filesystem::is_directory(status))
    fail(isa::Rule::file_unwritable, "is a directory; a file is required");
  const bool direct = is_special(target_) || (std::filesystem::exists(status) &&
                                              !std::filesystem::is_regular_file(status));
  if (direct) {
    written_ = target_;
    file_.reset(std::fopen(written_.c_str(), "wb"));
  } else {
    file_.reset(open_new(target_, written_));
  }
  if (!file_)
    fail(isa::Rule::file_unwritable, "cannot be written: " + std::string(std::strerror(errno)));
  std::setvbuf(file_.get(), buffer_.data(), _IOFBF, buffer_.size());
}

AtomicFile::~AtomicFile() {
  if (!file_) return;
  file_.reset();
  std::error_code ec;
  if (written_ != target_) std::filesystem::remove(written_, ec);
}

// Longer pieces would be written as they are, which the system takes several times as long for:
// they have left the processor's caches when it copies them.
void AtomicFile::write(std::string_view bytes) {
  for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kPiece))) {
    const std::string_view piece = bytes.substr(0, kPiece);
    if (std::fwrite(piece.data(), 1, piece.size(), file_.get()) != piece.size()) {
      fail(isa::Rule::file_unwritable, "cannot be written: " + std::string(std::strerror(errno)));
    }
  }
}

void AtomicFile::commit() {
  if (std::fflush(file_.get()) != 0)
    fail(isa::Rule::file_unwritable, "cannot be written: " + std::string(std::strerror(errno)));
  file_.reset();
  if (written_ == target_) return;
  std::error_code ec;
  std::filesystem::rename(written_, target_, ec);
  if (!ec) return;
  std::error_code ignored;
  std::filesystem::remove(written_, ignored);
  fail(isa::Rule::file_unwritable, "cannot be written: " + ec.message());
}

void AtomicFile::fail(isa::Rule rule, const std::string& what) const {
  throw isa::Error(rule, target_.string() + " " + what);
}

struct GzipWriter::State {
  z_stream stream{};
  std::array<char, 1U << 16U> output{};
};

GzipWriter::GzipWriter(AtomicFile& out) : out_(out), state_(std::make_unique<State>()) {
  if (deflateInit2(&state_->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    throw isa::Error(isa::Rule::zlib, "zlib cannot start");
  }
}

GzipWriter::~GzipWriter() { deflateEnd(&state_->stream); }

void GzipWriter::write(std::string_view bytes) {
  // zlib never writes through next_in; its type predates const.
  state_->stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  state_->stream.avail_in = static_cast<uInt>(bytes.size());
  deflate_all(Z_NO_FLUSH);
}

void GzipWriter::finish() {
  state_->stream.avail_in = 0;
  deflate_all(Z_FINISH);
}

void GzipWriter::deflate_all(int flush) {
  z_stream& s = state_->stream;
  do {
    s.next_out = reinterpret_cast<Bytef*>(state_->output.data());
    s.avail_out = static_cast<uInt>(state_->output.size());
    deflate(&s, flush);
    out_.write({state_->output.data(), state_->output.size() - s.avail_out});
  } while (s.avail_out == 0);
}

}  // namespace nkisim
