// NumPy's .npy and .npz files, and their arrays as tensor bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isa/dtype.hpp"

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
[[nodiscard]] NpyArray read_npy(const std::filesystem::path& path);
/// One member of an .npz by its key.
[[nodiscard]] NpyArray read_npz(const std::filesystem::path& path, const std::string& key);
[[nodiscard]] std::map<std::string, NpyArray> read_npz(const std::filesystem::path& path);

/// Writers replace the file only once everything is written.
[[nodiscard]] std::string format_npy(const NpyArray& array);
void write_npy(const std::filesystem::path& path, const NpyArray& array);
void write_npz(const std::filesystem::path& path,
               const std::vector<std::pair<std::string, NpyArray>>& arrays);

/// The array's elements as `dtype`, rounded as the hardware would if the array holds another number
/// type. Raw 'V' and unsigned arrays of the same width count as the dtype's own bits where NumPy
/// has no such dtype (bfloat16, fp8, packed). Throws isa::Error naming `what`.
[[nodiscard]] std::vector<std::byte> to_dtype(const NpyArray& array, isa::Dtype dtype,
                                              const std::string& what);
/// The dtype an array holds; empty for raw bytes.
[[nodiscard]] std::optional<isa::Dtype> dtype_of(const NpyArray& array);
/// An array of a tensor's bytes under the descr that NumPy with ml_dtypes writes for it.
[[nodiscard]] NpyArray make_array(isa::Dtype dtype, std::vector<std::int64_t> shape,
                                  std::vector<std::byte> bytes);
/// Elements as doubles (comparisons).
[[nodiscard]] std::vector<double> to_doubles(const NpyArray& array, const std::string& what);

}  // namespace nkisim
