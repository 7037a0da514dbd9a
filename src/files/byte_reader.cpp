// Reads bytes from a file or from memory, and decompresses gzip on the way.

#include "src/files/byte_reader.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "isa/base/error.hpp"

namespace nkisim {
namespace {
constexpr std::size_t kChunk = std::size_t{1} << 18U;
constexpr std::size_t kMaxBuffered = std::size_t{1} << 26U;  // longest line or record
}  // namespace

struct ByteReader::Inflater {
  z_stream stream{};
  std::vector<char> input = std::vector<char>(kChunk);
  bool member_open = false;  // inside a gzip member: the end of the file is then a truncation
  Inflater() {
    if (inflateInit2(&stream, 15 + 16) != Z_OK) {
      throw isa::Error(isa::Rule::zlib, "zlib cannot start");
    }
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
};

ByteReader::ByteReader(std::string name) : name_(std::move(name)), buffer_(kChunk) {}
ByteReader::ByteReader(ByteReader&&) noexcept = default;
ByteReader& ByteReader::operator=(ByteReader&&) noexcept = default;
ByteReader::~ByteReader() = default;

ByteReader ByteReader::open(const std::string& path) {
  ByteReader reader(path);
  std::error_code ec;
  if (std::filesystem::is_directory(path, ec))
    reader.fail(isa::Rule::file_unreadable, "is a directory; a file is required");
  reader.file_.reset(std::fopen(path.c_str(), "rb"));
  if (!reader.file_)
    reader.fail(isa::Rule::file_unreadable,
                "cannot be opened: " + std::string(std::strerror(errno)));
  const auto size = std::filesystem::file_size(path, ec);
  reader.total_ = ec ? 0 : size;
  reader.start();
  return reader;
}

ByteReader ByteReader::from_memory(std::string_view data, std::string name) {
  ByteReader reader(std::move(name));
  reader.memory_ = data;
  reader.total_ = data.size();
  reader.start();
  return reader;
}

void ByteReader::start() {
  const std::string_view head = peek(2);
  if (head != "\x1f\x8b") return;
  inflater_ = std::make_unique<Inflater>();
  auto& in = *inflater_;
  in.input.resize(std::max(end_, kChunk));
  std::memcpy(in.input.data(), buffer_.data(), end_);
  in.stream.next_in = reinterpret_cast<Bytef*>(in.input.data());
  in.stream.avail_in = static_cast<uInt>(end_);
  in.member_open = true;
  position_ = end_ = 0;
}

std::size_t ByteReader::raw(char* out, std::size_t capacity) {
  std::size_t n = 0;
  if (file_) {
    n = std::fread(out, 1, capacity, file_.get());
    if (n == 0 && std::ferror(file_.get()) != 0) fail(isa::Rule::file_unreadable, "cannot be read");
  } else {
    n = static_cast<std::size_t>(std::min<std::uint64_t>(capacity, memory_.size() - consumed_));
    std::memcpy(out, memory_.data() + consumed_, n);
  }
  consumed_ += n;
  return n;
}

void ByteReader::next_input() {
  auto& in = *inflater_;
  in.stream.avail_in = static_cast<uInt>(raw(in.input.data(), in.input.size()));
  in.stream.next_in = reinterpret_cast<Bytef*>(in.input.data());
}

std::size_t ByteReader::inflate_some(char* out, std::size_t capacity) {
  auto& in = *inflater_;
  in.stream.next_out = reinterpret_cast<Bytef*>(out);
  in.stream.avail_out = static_cast<uInt>(capacity);
  while (in.stream.avail_out == capacity) {
    if (in.stream.avail_in == 0) next_input();
    if (in.stream.avail_in == 0) {
      if (in.member_open) fail(isa::Rule::file_damaged, "is truncated: the gzip stream has no end");
      return 0;
    }
    if (!in.member_open) {  // concatenated members, as gzip allows
      inflateReset(&in.stream);
      in.member_open = true;
    }
    const int status = inflate(&in.stream, Z_NO_FLUSH);
    if (status == Z_STREAM_END) {
      in.member_open = false;
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      fail(isa::Rule::file_damaged,
           "is corrupt: bad gzip data after " + std::to_string(in.stream.total_out) + " bytes");
    }
  }
  return capacity - in.stream.avail_out;
}

bool ByteReader::refill() {
  if (position_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + position_, end_ - position_);
    end_ -= position_;
    position_ = 0;
  }
  if (end_ == buffer_.size()) {
    if (buffer_.size() >= kMaxBuffered)
      fail(isa::Rule::file_too_large, "has a line or record of over 64 MiB");
    buffer_.resize(buffer_.size() * 2);
  }
  char* out = buffer_.data() + end_;
  const std::size_t capacity = buffer_.size() - end_;
  const std::size_t n = inflater_ ? inflate_some(out, capacity) : raw(out, capacity);
  end_ += n;
  return n != 0;
}

std::string_view ByteReader::peek(std::size_t n) {
  while (end_ - position_ < n && refill()) {
  }
  return {buffer_.data() + position_, std::min(n, end_ - position_)};
}

bool ByteReader::read_line(std::string_view& line) {
  std::size_t searched = 0;
  for (;;) {
    const char* begin = buffer_.data() + position_;
    const std::size_t have = end_ - position_;
    const void* eol =
        have > searched ? std::memchr(begin + searched, '\n', have - searched) : nullptr;
    if (eol != nullptr) {
      line = {begin, static_cast<std::size_t>(static_cast<const char*>(eol) - begin)};
      position_ += line.size() + 1;
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      return true;
    }
    searched = have;
    if (refill()) continue;
    line = {buffer_.data() + position_, end_ - position_};
    position_ = end_;
    return !line.empty();
  }
}

std::string_view ByteReader::read(std::size_t n) {
  const std::string_view bytes = n > kMaxBuffered ? std::string_view{} : peek(n);
  if (bytes.size() < n) fail(isa::Rule::file_damaged, "is truncated");
  position_ += n;
  return bytes;
}

std::uint64_t ByteReader::read_varint_slowly() {
  (void)peek(kMaxVarint);
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (position_ == end_) fail(isa::Rule::file_damaged, "is truncated");
    const auto byte = static_cast<std::uint8_t>(buffer_[position_++]);
    value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
    if (byte < 0x80U) return value;
  }
  fail_varint();
}

void ByteReader::fail_varint() const {
  fail(isa::Rule::file_damaged, "is corrupt: a number is longer than 64 bits");
}

void ByteReader::fail(isa::Rule rule, const std::string& what) const {
  throw isa::Error(rule, name_ + " " + what);
}

}  // namespace nkisim
