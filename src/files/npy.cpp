// Parses and writes NumPy's .npy and .npz files, and converts elements between types.

#include "src/files/npy.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "isa/base/error.hpp"
#include "isa/host/host.hpp"
#include "src/files/byte_reader.hpp"
#include "src/files/zip_file.hpp"

namespace nkisim {
namespace {

using isa::Dtype;

constexpr std::string_view kMagic = "\x93NUMPY";

[[noreturn]] void fail_file(isa::Rule rule, const std::string& file, const std::string& what) {
  throw isa::Error(rule, file + " " + what);
}

/// The value of `key` in the Python dictionary of an .npy header, up to its end.
std::string_view header_value(std::string_view header, std::string_view key) {
  const std::string quoted = "'" + std::string(key) + "':";
  std::size_t at = header.find(quoted);
  if (at == std::string_view::npos) return {};
  at += quoted.size();
  while (at < header.size() && header[at] == ' ') ++at;
  if (at == header.size()) return {};
  const char close = header[at] == '\'' ? '\'' : header[at] == '(' ? ')' : ',';
  const std::size_t end = header.find(close, at + 1);
  if (end == std::string_view::npos) return {};
  return header.substr(at, end - at + (close == ',' ? 0 : 1));
}

bool parse_shape(std::string_view text, std::vector<std::int64_t>& shape) {
  if (text.size() < 2 || text.front() != '(') return false;
  text = text.substr(1, text.size() - 2);
  std::int64_t elements = 1;
  while (!text.empty()) {
    if (text.front() == ' ' || text.front() == ',') {
      text.remove_prefix(1);
      continue;
    }
    std::int64_t value = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
    constexpr std::int64_t kMax = std::int64_t{1} << 46U;
    if (ec != std::errc{} || value < 0 || (value > 0 && elements > kMax / value)) return false;
    elements *= std::max<std::int64_t>(value, 1);
    shape.push_back(value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
  return true;
}

/// kind ('f', 'i', 'u', 'b', 'V') and bytes of a descr; size 0 if it is not supported.
struct Element {
  char kind = 0;
  std::size_t size = 0;
};

Element element_of(std::string_view descr) {
  if (descr.size() < 3 || descr.size() > 4 || descr[0] == '>') return {};
  std::size_t size = 0;
  const auto [end, ec] = std::from_chars(descr.data() + 2, descr.data() + descr.size(), size);
  const bool ok = ec == std::errc{} && end == descr.data() + descr.size() && size >= 1 && size <= 8;
  if (!ok || std::string_view("fiubV").find(descr[1]) == std::string_view::npos) return {};
  // NumPy prints fp8 types of one byte as 'f1', a type it cannot read itself: raw bits.
  return {descr[1] == 'f' && size == 1 ? 'V' : descr[1], size};
}

void to_row_major(NpyArray& array, std::size_t size) {
  const std::vector<std::byte> in = std::move(array.data);
  array.data.resize(in.size());
  std::vector<std::int64_t> index(array.shape.size(), 0);
  const auto count = static_cast<std::size_t>(array.elements());
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t from = 0;
    for (std::size_t d = array.shape.size(); d-- > 0;) from = from * array.shape[d] + index[d];
    std::memcpy(array.data.data() + i * size, in.data() + static_cast<std::size_t>(from) * size,
                size);
    for (std::size_t d = array.shape.size(); d-- > 0;) {
      if (++index[d] < array.shape[d]) break;
      index[d] = 0;
    }
  }
}

std::string_view descr_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
    case Dtype::kTfloat32:
      return "<f4";
    case Dtype::kFloat16:
      return "<f2";
    case Dtype::kBfloat16:
      return "<V2";
    case Dtype::kInt8:
      return "|i1";
    case Dtype::kUint8:
      return "|u1";
    case Dtype::kInt16:
      return "<i2";
    case Dtype::kUint16:
      return "<u2";
    case Dtype::kInt32:
      return "<i4";
    case Dtype::kUint32:
      return "<u4";
    case Dtype::kInt64:
      return "<i8";
    case Dtype::kBool:
      return "|b1";
    case Dtype::kFloat4E2m1fnX4:
      return "<u2";
    case Dtype::kFloat8E5m2X4:
    case Dtype::kFloat8E4m3fnX4:
      return "<u4";
    default:
      return "|V1";
  }
}

template <typename T>
T load_as(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

double to_double(Element e, const std::byte* p) {
  switch (e.kind) {
    case 'f':
      if (e.size == 8) return load_as<double>(p);
      if (e.size == 4) return static_cast<double>(load_as<float>(p));
      return static_cast<double>(isa::decode_one(Dtype::kFloat16, p));
    case 'u':
      if (e.size == 8) return static_cast<double>(load_as<std::uint64_t>(p));
      if (e.size == 4) return load_as<std::uint32_t>(p);
      return e.size == 2 ? load_as<std::uint16_t>(p) : load_as<std::uint8_t>(p);
    case 'i':
      if (e.size == 8) return static_cast<double>(load_as<std::int64_t>(p));
      if (e.size == 4) return load_as<std::int32_t>(p);
      return e.size == 2 ? load_as<std::int16_t>(p) : load_as<std::int8_t>(p);
    default:
      return load_as<std::uint8_t>(p) != 0 ? 1.0 : 0.0;
  }
}

struct Range {
  double low, high;
};

Range range_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kInt8:
      return {-128, 127};
    case Dtype::kUint8:
      return {0, 255};
    case Dtype::kInt16:
      return {-32768, 32767};
    case Dtype::kUint16:
      return {0, 65535};
    case Dtype::kInt32:
      return {-2147483648.0, 2147483647.0};
    case Dtype::kUint32:
      return {0, 4294967295.0};
    case Dtype::kInt64:  // the largest double below 2^63
      return {-0x1p63, 0x1.fffffffffffffp62};
    default:
      return {0, 1};
  }
}

// From here on a float64 is rounded to an infinity: half a unit above the largest float32.
constexpr double kFloatEnd = 0x1.ffffffp127;

std::string scientific(double v) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), v).ptr;
  return {text.data(), end};
}

std::vector<std::byte> convert(const NpyArray& array, Element e, Dtype dtype,
                               const std::string& what) {
  const auto count = static_cast<std::size_t>(array.elements());
  const auto size = static_cast<std::size_t>(isa::size_bytes(dtype));
  std::vector<std::byte> out(count * size);
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) {
    const double v = to_double(e, array.data.data() + i * e.size);
    if (isa::is_integer(dtype)) {
      const Range r = range_of(dtype);
      if (v < r.low || v > r.high) {
        isa::fail(isa::Rule::array_dtype, what, "an array with element " + std::to_string(v),
                  "values that fit " + std::string(isa::name(dtype)));
      }
      const auto bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(v));
      std::memcpy(out.data() + i * size, &bits, size);
    } else {
      if (std::isfinite(v) && std::abs(v) >= kFloatEnd) {
        isa::fail(isa::Rule::array_dtype, what, "an array with element " + scientific(v),
                  "values that float32 can hold");
      }
      values.push_back(static_cast<float>(v));
    }
  }
  if (!values.empty()) isa::encode(dtype, values.data(), count, out.data());
  return out;
}

}  // namespace

std::int64_t NpyArray::elements() const {
  std::int64_t n = 1;
  for (const std::int64_t s : shape) n *= s;
  return n;
}

namespace {

// An .npy file as it lies in memory.
struct NpyView {
  NpyArray header;  // without data
  std::string_view body;
  bool column_major = false;
};

NpyView view_npy(std::string_view bytes, const std::string& name) {
  if (bytes.size() < 10 || bytes.substr(0, 6) != kMagic)
    fail_file(isa::Rule::file_damaged, name, "is not an .npy file");
  const int version = static_cast<std::uint8_t>(bytes[6]);
  if (version < 1 || version > 3)
    fail_file(isa::Rule::file_damaged, name, "is of .npy version " + std::to_string(version));
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  std::size_t length = 0;
  if (bytes.size() < 8 + length_bytes) fail_file(isa::Rule::file_damaged, name, "is truncated");
  for (std::size_t i = length_bytes; i-- > 0;) {
    length = (length << 8U) | static_cast<std::uint8_t>(bytes[8 + i]);
  }
  if (bytes.size() - 8 - length_bytes < length)
    fail_file(isa::Rule::file_damaged, name, "is truncated");
  const std::string_view header = bytes.substr(8 + length_bytes, length);
  const std::string_view body = bytes.substr(8 + length_bytes + length);
  NpyView view;
  NpyArray& array = view.header;
  const std::string_view descr = header_value(header, "descr");
  if (descr.size() > 2) array.descr = std::string(descr.substr(1, descr.size() - 2));
  const Element e = element_of(array.descr);
  if (e.size == 0) {
    fail_file(
        isa::Rule::file_damaged, name,
        "holds dtype " + std::string(descr) + "; little-endian numbers or raw bytes are required");
  }
  if (!parse_shape(header_value(header, "shape"), array.shape))
    fail_file(isa::Rule::file_damaged, name, "has a bad shape");
  const std::uint64_t need = static_cast<std::uint64_t>(array.elements()) * e.size;
  if (body.size() < need) {
    fail_file(
        isa::Rule::file_damaged, name,
        "is truncated: " + std::to_string(body.size()) + " of " + std::to_string(need) + " bytes");
  }
  view.body = body.substr(0, need);
  view.column_major = header_value(header, "fortran_order") == "True" && array.shape.size() > 1;
  return view;
}

}  // namespace

NpyArray parse_npy(std::string_view bytes, const std::string& name) {
  NpyView view = view_npy(bytes, name);
  NpyArray array = std::move(view.header);
  array.data.resize(view.body.size());
  if (!view.body.empty()) std::memcpy(array.data.data(), view.body.data(), view.body.size());
  if (view.column_major) to_row_major(array, element_of(array.descr).size);
  return array;
}

MappedNpy::MappedNpy(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat s {};
  const bool plain = file >= 0 && ::fstat(file, &s) == 0 && S_ISREG(s.st_mode) && s.st_size > 0;
  const char* at = nullptr;
  if (plain) {
    size_ = static_cast<std::size_t>(s.st_size);
    at = isa::host::map_to_read(file, size_);
  }
  if (file >= 0) ::close(file);
  if (at == nullptr)
    fail_file(isa::Rule::file_unreadable, path.string(), "cannot be opened as a regular file");
  file_ = {at, [size = size_](const char* p) { isa::host::unmap(const_cast<char*>(p), size); }};
  NpyView view = view_npy({file_.get(), size_}, path.string());
  if (view.column_major)
    fail_file(isa::Rule::file_damaged, path.string(), "is in column-major order");
  header_ = std::move(view.header);
  bytes_ = std::as_bytes(std::span(view.body));
}

namespace {

void check_size(const std::string& what, std::uint64_t size, std::uint64_t most) {
  if (size <= most) return;
  fail_file(isa::Rule::file_too_large, what,
            "has " + std::to_string(size) + " bytes; at most " + std::to_string(most) +
                " are required for the tensor of this name");
}

std::string read_whole(const std::filesystem::path& path, std::uint64_t most) {
  std::error_code ec;
  if (!std::filesystem::is_regular_file(path, ec)) {
    fail_file(isa::Rule::file_unreadable, path.string(), "cannot be opened as a regular file");
  }
  const auto size = std::filesystem::file_size(path, ec);
  std::ifstream in(path, std::ios::binary);
  if (ec || !in) fail_file(isa::Rule::file_unreadable, path.string(), "cannot be opened");
  check_size(path.string(), size, most);
  std::string bytes(size, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(size));
  if (!in) fail_file(isa::Rule::file_unreadable, path.string(), "cannot be read");
  return bytes;
}

std::string key_of(const ZipMember& member) {
  const std::string& n = member.name;
  return n.size() > 4 && n.ends_with(".npy") ? n.substr(0, n.size() - 4) : n;
}

}  // namespace

NpyArray read_npy(const std::filesystem::path& path, std::uint64_t most) {
  return parse_npy(read_whole(path, most), path.string());
}

namespace {

NpyArray read_member(ZipReader& zip, const ZipMember& member, const std::string& file,
                     std::uint64_t most) {
  const std::string what = file + "[" + key_of(member) + "]";
  check_size(what, std::max(member.size, member.packed), most);
  return parse_npy(zip.read(member), what);
}

}  // namespace

NpyArray read_npz(const std::filesystem::path& path, const std::string& key, std::uint64_t most) {
  ZipReader zip(path);
  std::string keys;
  for (const ZipMember& member : zip.members()) {
    if (key_of(member) == key) return read_member(zip, member, path.string(), most);
    keys += (keys.empty() ? "" : ", ") + key_of(member);
  }
  fail_file(isa::Rule::array_missing, path.string(),
            "has no array " + key + "; it holds " + (keys.empty() ? "none" : keys));
}

std::map<std::string, NpyArray> read_npz(const std::filesystem::path& path,
                                         const NpySizeLimit& limit) {
  ZipReader zip(path);
  std::map<std::string, NpyArray> arrays;
  for (const ZipMember& member : zip.members()) {
    const std::string key = key_of(member);
    const auto most = limit ? limit(key) : std::optional(std::numeric_limits<std::uint64_t>::max());
    if (most) arrays.insert_or_assign(key, read_member(zip, member, path.string(), *most));
  }
  return arrays;
}

std::uint64_t npy_bytes(std::int64_t elements, Dtype dtype) {
  constexpr std::uint64_t kHeader = 1U << 16U, kWidest = 8;
  const std::uint64_t lanes = isa::is_packed(dtype) ? 4 : 1;
  return static_cast<std::uint64_t>(elements) * lanes * kWidest + kHeader;
}

std::string npy_header(const NpyArray& array) {
  std::string shape;
  for (const std::int64_t s : array.shape) shape += std::to_string(s) + ", ";
  if (array.shape.size() > 1) shape.resize(shape.size() - 2);
  if (array.shape.size() == 1) shape.resize(shape.size() - 1);
  std::string header =
      "{'descr': '" + array.descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string out(kMagic);
  out += '\x01';
  out += '\0';
  out += static_cast<char>(header.size() & 0xffU);
  out += static_cast<char>(header.size() >> 8U);
  return out + header;
}

namespace {

std::string_view body_of(const NpyArray& array) {
  return {reinterpret_cast<const char*>(array.data.data()), array.data.size()};
}

}  // namespace

std::string format_npy(const NpyArray& array) {
  std::string out = npy_header(array);
  out += body_of(array);
  return out;
}

void write_npz(const std::filesystem::path& path,
               const std::vector<std::pair<std::string, NpyArray>>& arrays) {
  ZipWriter zip(path);
  for (const auto& [name, array] : arrays) zip.add(name + ".npy", format_npy(array));
  zip.commit();
}

NpzWriter::NpzWriter(const std::filesystem::path& path) : zip_(std::make_unique<ZipWriter>(path)) {}
NpzWriter::~NpzWriter() = default;

void NpzWriter::begin(const std::string& key, std::string_view descr,
                      std::vector<std::int64_t> shape) {
  zip_->begin(key + ".npy");
  zip_->write(npy_header({std::string(descr), std::move(shape), {}}));
}

void NpzWriter::write(std::string_view bytes) { zip_->write(bytes); }
void NpzWriter::end() { zip_->end(); }
void NpzWriter::commit() { zip_->commit(); }

std::optional<Dtype> dtype_of(const NpyArray& array) {
  for (int i = 0; i < isa::kDtypeCount; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    if (isa::is_packed(dtype) || descr_of(dtype)[1] == 'V') continue;
    if (descr_of(dtype).substr(1) == std::string_view(array.descr).substr(1)) return dtype;
  }
  return std::nullopt;
}

bool holds(const NpyArray& array, Dtype dtype) {
  const Element e = element_of(array.descr);
  const std::string_view own = descr_of(dtype);
  const bool no_numpy_type = own[1] == 'V' || isa::is_packed(dtype);
  return e.size == static_cast<std::size_t>(isa::size_bytes(dtype)) &&
         (e.kind == 'V' || (no_numpy_type && e.kind == 'u') || e.kind == own[1]);
}

std::vector<std::byte> to_dtype(const NpyArray& array, Dtype dtype, const std::string& what) {
  if (holds(array, dtype)) return array.data;
  const Element e = element_of(array.descr);
  const bool numbers = e.kind != 'V' && !isa::is_packed(dtype);
  const bool narrows = isa::is_integer(dtype) && e.kind == 'f';
  if (!numbers || narrows) {
    isa::fail(isa::Rule::array_dtype, what, "an array of " + array.descr,
              "an array of " + std::string(isa::name(dtype)));
  }
  return convert(array, e, dtype, what);
}

NpyArray make_array(Dtype dtype, std::vector<std::int64_t> shape, std::vector<std::byte> bytes) {
  return {std::string(descr_of(dtype)), std::move(shape), std::move(bytes)};
}

}  // namespace nkisim
