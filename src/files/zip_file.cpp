// Reads and writes the part of the zip format that .npz files use.

#include "src/files/zip_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <system_error>

#include "isa/base/error.hpp"
#include "isa/host/host.hpp"
#include "src/files/deflate.hpp"

namespace nkisim {
namespace {

constexpr std::uint32_t kLocalMagic = 0x04034b50, kCentralMagic = 0x02014b50;
constexpr std::uint32_t kEndMagic = 0x06054b50, kEnd64Magic = 0x06064b50;
constexpr std::uint16_t kDeflated = 8;  // method
constexpr std::size_t kEndSize = 22, kCentralSize = 46, kLocalSize = 30;
constexpr std::uint32_t kIn64 = 0xffffffff;  // "look in the zip64 record"
constexpr std::uint64_t kMaxRatio = 1032;    // of deflate

std::uint64_t get(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = size; i-- > 0;) {
    value = (value << 8U) | static_cast<std::uint8_t>(bytes[at + i]);
  }
  return value;
}

void put(std::string& out, std::uint64_t value, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) out += static_cast<char>((value >> (8 * i)) & 0xffU);
}

/// Replaces the sizes that did not fit 32 bits by those of the zip64 extra field.
bool apply_zip64(std::string_view extra, ZipMember& m) {
  while (extra.size() >= 4) {
    const auto id = get(extra, 0, 2), size = get(extra, 2, 2);
    if (extra.size() - 4 < size) return false;
    std::string_view field = extra.substr(4, size);
    extra.remove_prefix(4 + size);
    if (id != 1) continue;
    for (std::uint64_t* value : {&m.size, &m.packed, &m.offset}) {
      if (*value != kIn64) continue;
      if (field.size() < 8) return false;
      *value = get(field, 0, 8);
      field.remove_prefix(8);
    }
  }
  return true;
}

}  // namespace

ZipReader::ZipReader(const std::filesystem::path& path)
    : name_(path.string()), in_(path, std::ios::binary) {
  std::error_code ec;
  if (!std::filesystem::is_regular_file(path, ec))
    fail(isa::Rule::file_unreadable, "cannot be opened as a regular file");
  file_size_ = std::filesystem::file_size(path, ec);
  if (!in_ || ec) fail(isa::Rule::file_unreadable, "cannot be opened");
  read_directory();
}

std::string ZipReader::bytes(std::uint64_t offset, std::uint64_t size) {
  if (offset > file_size_ || size > file_size_ - offset)
    fail(isa::Rule::file_damaged, "is truncated");
  std::string out(size, '\0');
  in_.clear();
  in_.seekg(static_cast<std::streamoff>(offset));
  in_.read(out.data(), static_cast<std::streamsize>(size));
  if (!in_) fail(isa::Rule::file_unreadable, "cannot be read");
  return out;
}

void ZipReader::read_directory() {
  const std::uint64_t tail_size = std::min<std::uint64_t>(file_size_, kEndSize + 65535);
  const std::string tail = bytes(file_size_ - tail_size, tail_size);
  std::size_t at = tail.size() < kEndSize ? std::string::npos : tail.size() - kEndSize;
  while (at != std::string::npos && get(tail, at, 4) != kEndMagic) {
    at = at == 0 ? std::string::npos : at - 1;
  }
  if (at == std::string::npos) fail(isa::Rule::file_damaged, "is not a complete .npz (zip) file");
  std::uint64_t count = get(tail, at + 10, 2), size = get(tail, at + 12, 4);
  std::uint64_t offset = get(tail, at + 16, 4);
  if (at >= 20 && (offset == kIn64 || size == kIn64 || count == 0xffff)) {
    const std::string end = bytes(get(tail, at - 20 + 8, 8), 56);
    if (get(end, 0, 4) != kEnd64Magic)
      fail(isa::Rule::file_damaged, "is corrupt: bad zip64 record");
    count = get(end, 32, 8), size = get(end, 40, 8), offset = get(end, 48, 8);
  }
  const std::string directory = bytes(offset, size);
  std::size_t p = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (directory.size() - p < kCentralSize || get(directory, p, 4) != kCentralMagic) {
      fail(isa::Rule::file_damaged, "is corrupt: bad zip directory");
    }
    const auto name = get(directory, p + 28, 2), extra = get(directory, p + 30, 2);
    const auto comment = get(directory, p + 32, 2);
    ZipMember m{.name = {},
                .method = static_cast<std::uint16_t>(get(directory, p + 10, 2)),
                .crc = static_cast<std::uint32_t>(get(directory, p + 16, 4)),
                .packed = get(directory, p + 20, 4),
                .size = get(directory, p + 24, 4),
                .offset = get(directory, p + 42, 4)};
    p += kCentralSize;
    if (directory.size() - p < name + extra + comment)
      fail(isa::Rule::file_damaged, "is corrupt: bad zip directory");
    m.name = directory.substr(p, name);
    if (!apply_zip64(std::string_view(directory).substr(p + name, extra), m)) {
      fail(isa::Rule::file_damaged, "is corrupt: bad zip64 field");
    }
    p += name + extra + comment;
    members_.push_back(std::move(m));
  }
}

std::string ZipReader::read(const ZipMember& m) {
  const std::string local = bytes(m.offset, kLocalSize);
  if (get(local, 0, 4) != kLocalMagic)
    fail(isa::Rule::file_damaged, "is corrupt: bad zip member " + m.name);
  std::string packed =
      bytes(m.offset + kLocalSize + get(local, 26, 2) + get(local, 28, 2), m.packed);
  std::string out;
  if (m.method == 0) {
    out = std::move(packed);
  } else if (m.method == kDeflated) {
    if (m.size > m.packed * kMaxRatio + 64)
      fail(isa::Rule::file_damaged, "is corrupt: impossible size of " + m.name);
    out.resize(m.size);
    z_stream s{};
    if (inflateInit2(&s, -15) != Z_OK) fail(isa::Rule::file_damaged, "cannot be inflated");
    std::size_t in_at = 0, out_at = 0;
    int status = Z_OK;
    while (status == Z_OK) {
      constexpr std::size_t kStep = std::size_t{1} << 30U;
      const std::size_t in_step = std::min(kStep, packed.size() - in_at);
      const std::size_t out_step = std::min(kStep, out.size() - out_at);
      s.next_in = reinterpret_cast<Bytef*>(packed.data() + in_at);
      s.avail_in = static_cast<uInt>(in_step);
      s.next_out = reinterpret_cast<Bytef*>(out.data() + out_at);
      s.avail_out = static_cast<uInt>(out_step);
      status = inflate(&s, Z_NO_FLUSH);
      in_at += in_step - s.avail_in;
      out_at += out_step - s.avail_out;
    }
    inflateEnd(&s);
    if (status != Z_STREAM_END || out_at != out.size())
      fail(isa::Rule::file_damaged, "is corrupt: cannot inflate " + m.name);
  } else {
    fail(isa::Rule::file_damaged, "has member " + m.name + " of compression method " +
                                      std::to_string(m.method) + "; stored or deflate is required");
  }
  if (out.size() != m.size || crc32_of(out) != m.crc) {
    fail(isa::Rule::file_damaged, "is corrupt: wrong checksum of " + m.name);
  }
  return out;
}

void ZipReader::fail(isa::Rule rule, const std::string& what) const {
  throw isa::Error(rule, name_ + " " + what);
}

ZipWriter::ZipWriter(const std::filesystem::path& path) : out_(path) {}

void ZipWriter::check_size(const std::string& name, std::uint64_t more) const {
  constexpr std::uint64_t kLimit = kIn64;
  if (more < kLimit && offset_ < kLimit - more) return;
  isa::fail(isa::Rule::file_too_large,
            name + " makes the .npz larger than 4 GiB; use .npy files for arrays of this size");
}

void ZipWriter::put_head(const ZipMember& m) {
  std::string head;
  put(head, kLocalMagic, 4);
  put(head, 20, 2);  // version needed: 2.0
  put(head, 0, 2);   // flags
  put(head, m.method, 2);
  put(head, 0, 2);  // time and date: 1980-01-01, so that equal arrays give equal files
  put(head, 0x21, 2);
  put(head, m.crc, 4);
  put(head, m.packed, 4);
  put(head, m.size, 4);
  put(head, m.name.size(), 2);
  put(head, 0, 2);
  head += m.name;
  out_.write(head);
  offset_ += head.size();
}

void ZipWriter::add(const std::string& name, std::string_view bytes) {
  write_pending(0);
  put_member(name, 0, bytes, crc32_of(bytes), bytes.size());
}

void ZipWriter::begin(const std::string& name) {
  name_ = name;
  kept_.clear();
}

ZipWriter::Packed ZipWriter::pack(const std::string& bytes) {
  return {Deflater().packed(bytes), crc32_of(bytes), bytes.size()};
}

void ZipWriter::end() {
  constexpr std::size_t kSmall = std::size_t{1} << 16U;  // a thread takes longer to start
  const std::size_t processors = isa::host::processors();
  const bool parallel = processors > 1 && kept_.size() > kSmall;
  const auto work = [bytes = std::make_shared<const std::string>(std::move(kept_))] {
    return pack(*bytes);
  };
  try {
    pending_.push_back(
        {name_, std::async(parallel ? std::launch::async : std::launch::deferred, work)});
  } catch (const std::system_error&) {  // no more threads
    pending_.push_back({name_, std::async(std::launch::deferred, work)});
  }
  kept_.clear();
  write_pending(processors);
}

// All but the last `left`.
void ZipWriter::write_pending(std::size_t left) {
  for (; pending_.size() > left; pending_.pop_front()) {
    const Packed packed = pending_.front().packed.get();
    put_member(pending_.front().name, kDeflated, packed.bytes, packed.crc, packed.size);
  }
}

void ZipWriter::put_member(const std::string& name, std::uint16_t method, std::string_view packed,
                           std::uint32_t crc, std::uint64_t size) {
  check_size(name, std::max<std::uint64_t>(size, packed.size()));
  ZipMember m{.name = name,
              .method = method,
              .crc = crc,
              .packed = packed.size(),
              .size = size,
              .offset = offset_};
  put_head(m);
  out_.write(packed);
  offset_ += packed.size();
  members_.push_back(std::move(m));
}

void ZipWriter::commit() {
  write_pending(0);
  std::string directory;
  for (const ZipMember& m : members_) {
    put(directory, kCentralMagic, 4);
    put(directory, 20, 2);
    put(directory, 20, 2);
    put(directory, 0, 2);
    put(directory, m.method, 2);
    put(directory, 0, 2);
    put(directory, 0x21, 2);
    put(directory, m.crc, 4);
    put(directory, m.packed, 4);
    put(directory, m.size, 4);
    put(directory, m.name.size(), 2);
    put(directory, 0, 8);  // no extra field, comment, disk number, internal attributes
    put(directory, 0, 4);  // external attributes
    put(directory, m.offset, 4);
    directory += m.name;
  }
  const std::size_t size = directory.size();
  put(directory, kEndMagic, 4);
  put(directory, 0, 4);
  put(directory, members_.size(), 2);
  put(directory, members_.size(), 2);
  put(directory, size, 4);
  put(directory, offset_, 4);
  put(directory, 0, 2);
  out_.write(directory);
  out_.commit();
}

}  // namespace nkisim
