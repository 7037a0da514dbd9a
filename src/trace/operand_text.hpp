// Reads operands in the JSON of a trace (a file of NKI instructions): "a", "a[0:64, 128:256]",
// {"tensor": ...} and {"space": ...}.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "isa/program/program.hpp"
#include "src/trace/json_line.hpp"

namespace nkisim {

/// Name of the tensor that stands for the whole SBUF or PSUM of a core in raw operands.
[[nodiscard]] std::string raw_tensor_name(isa::Space space, int core);
/// The id of the tensor that covers a raw memory; it is added on first use.
[[nodiscard]] std::uint32_t raw_tensor(isa::Program& program, isa::Space space, int core);
/// An operand at a tensor's first byte, over all its partitions and without a pattern yet.
[[nodiscard]] isa::TensorRef tensor_start(const isa::Tensor& tensor, std::uint32_t id);

/// Makes of JSON operands interned TensorRefs of one program.
class OperandReader {
 public:
  explicit OperandReader(isa::Program& program) : program_(program) {}
  /// Throws isa::Error naming `param`. `core` owns raw on-chip addresses.
  const isa::TensorRef* read(std::string_view param, Json value, int core);
  /// A slice string alone (the part before any dynamic offset).
  const isa::TensorRef* read_text(std::string_view param, std::string_view text);

 private:
  isa::TensorRef slice(std::string_view param, std::string_view text) const;
  isa::TensorRef explicit_ref(std::string_view param, Json value, int core);
  isa::TensorRef start_ref(std::string_view param, Json value, int core);
  isa::TensorRef raw_start(std::string_view param, Json value, int core);
  const isa::DynamicOffset* dynamic(std::string_view param, Json list, const isa::TensorRef& ref,
                                    int core);
  const isa::DynamicOffset* dynamic_part(std::string_view param, Json part,
                                         const isa::TensorRef& ref, int core,
                                         const isa::DynamicOffset* next);
  std::uint32_t find_tensor(std::string_view param, std::string_view name) const;

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
  };
  isa::Program& program_;
  std::unordered_map<std::string, const isa::TensorRef*, Hash, std::equal_to<>> cache_;
};

/// Appends the shortest JSON that reads back as exactly `ref`; with `pattern` that of its access
/// pattern, no slice.
void append_operand(std::string& out, const isa::Program& program, const isa::TensorRef& ref,
                    bool pattern = false);

/// Required integer member within [low, high]; `fallback` where it is absent.
[[nodiscard]] std::int64_t int_member(std::string_view what, Json object, std::string_view key,
                                      std::int64_t low, std::int64_t high,
                                      std::optional<std::int64_t> fallback);
/// Fails if `object` has a member outside `known`.
void check_keys(std::string_view what, Json object, std::initializer_list<std::string_view> known);
/// Limits that keep all address arithmetic within 64 bits.
inline constexpr std::int64_t kMaxAddress = std::int64_t{1} << 52U;
inline constexpr std::size_t kMaxDims = 8;
/// Fails unless `dims` is a pattern whose reach fits comfortably in 64 bits.
void check_dims(std::string_view what, const std::vector<isa::Dim>& dims);

}  // namespace nkisim
