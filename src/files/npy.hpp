// Reads and writes NumPy's .npy and .npz files, and converts their arrays to tensor bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isa/base/dtype.hpp"

namespace nkisim {

/// An array as stored: little-endian, row-major bytes and NumPy's dtype text ("<f4", "|V1").
struct NpyArray {
  std::string descr;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;
  [[nodiscard]] std::int64_t elements() const;
};

/// Readers throw isa::Error naming the file; nothing is allocated beyond what the file can hold.
[[nodiscard]] NpyArray parse_npy(std::string_view bytes, const std::string& name);
/// `most`: bytes that the file (or the member of an .npz by its key) may have.
[[nodiscard]] NpyArray read_npy(const std::filesystem::path& path, std::uint64_t most);
[[nodiscard]] NpyArray read_npz(const std::filesystem::path& path, const std::string& key,
                                std::uint64_t most);
/// The members that `limit` wants: it gives the most bytes a key's member may have, or throws for a
/// key that does not belong; none: the member is not read. Nothing is unpacked beyond that. Empty:
/// all are read.
using NpySizeLimit = std::function<std::optional<std::uint64_t>(const std::string& key)>;
[[nodiscard]] std::map<std::string, NpyArray> read_npz(const std::filesystem::path& path,
                                                       const NpySizeLimit& limit = {});
/// An .npy file as it is, not copied. Throws isa::Error unless it is a regular file in row-major
/// order; nothing may shorten it meanwhile.
class MappedNpy {
 public:
  explicit MappedNpy(const std::filesystem::path& path);
  [[nodiscard]] const NpyArray& header() const { return header_; }  // without data
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::size_t size_ = 0;
  std::unique_ptr<const char, std::function<void(const char*)>> file_;
  NpyArray header_;
  std::span<const std::byte> bytes_;
};
/// The most bytes that an .npy file with the values of `elements` of `dtype` may have, whatever
/// number type NumPy stored them in.
[[nodiscard]] std::uint64_t npy_bytes(std::int64_t elements, isa::Dtype dtype);

[[nodiscard]] std::string npy_header(const NpyArray& array);
[[nodiscard]] std::string format_npy(const NpyArray& array);
/// Replaces the file only once everything is written.
void write_npz(const std::filesystem::path& path,
               const std::vector<std::pair<std::string, NpyArray>>& arrays);

class ZipWriter;

/// An .npz written array by array and piece by piece, compressed; it appears on commit().
class NpzWriter {
 public:
  explicit NpzWriter(const std::filesystem::path& path);
  ~NpzWriter();
  NpzWriter(const NpzWriter&) = delete;
  NpzWriter& operator=(const NpzWriter&) = delete;
  /// The bytes of array `key` follow by write(), row-major, up to end().
  void begin(const std::string& key, std::string_view descr, std::vector<std::int64_t> shape);
  void write(std::string_view bytes);
  void end();
  void commit();

 private:
  std::unique_ptr<ZipWriter> zip_;
};

/// The array's elements as `dtype`, rounded as the hardware would if the array holds another number
/// type. Raw 'V' and unsigned arrays of the same width count as the dtype's own bits where NumPy
/// has no such dtype (bfloat16, fp8, packed). Throws isa::Error naming `what`.
[[nodiscard]] std::vector<std::byte> to_dtype(const NpyArray& array, isa::Dtype dtype,
                                              const std::string& what);
/// True if an array's bytes are those of `dtype` without conversion.
[[nodiscard]] bool holds(const NpyArray& array, isa::Dtype dtype);
/// The dtype an array holds; empty for raw bytes.
[[nodiscard]] std::optional<isa::Dtype> dtype_of(const NpyArray& array);
/// An array of a tensor's bytes under the descr that NumPy with ml_dtypes writes for it.
[[nodiscard]] NpyArray make_array(isa::Dtype dtype, std::vector<std::int64_t> shape,
                                  std::vector<std::byte> bytes);

}  // namespace nkisim
