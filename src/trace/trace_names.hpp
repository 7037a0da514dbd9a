// Looks up names of parameters and enumerators in a trace (a file of NKI instructions), and reports
// misspelt ones.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isa/base/nearest.hpp"
#include "isa/program/program.hpp"

namespace nkisim {

using isa::edit_distance;
using isa::nearest;
using isa::suggest;

inline constexpr std::array<std::string_view, 2> kStreamNames = {"program", "executed"};
inline constexpr std::array<std::string_view, 2> kSemaphoreModes = {"derived", "explicit"};
inline constexpr std::array<std::string_view, 3> kAddressModes = {"physical", "virtual", "open"};
inline constexpr std::array<std::string_view, 2> kApiNames = {"nki", "neuronxcc"};

inline constexpr int kTraceVersion = 1;

/// Keys of an instruction line that are not parameters of its op. No op may have a parameter of
/// these names (tests check it).
inline constexpr std::array<std::string_view, 12> kInstKeys = {
    "i",   "engine", "core",   "loc",     "wait", "post",
    "dma", "label",  "region", "forward", "id",   "after"};
/// The largest `id` of an instruction; ids begin at 1.
inline constexpr std::int64_t kMaxOrderId = (std::int64_t{1} << 31U) - 1;
inline constexpr std::array<std::string_view, 3> kSpaceNames = {"hbm", "sbuf", "psum"};
inline constexpr std::array<std::string_view, 5> kRoleNames = {"internal", "input", "output",
                                                               "inputoutput", "constant"};
inline constexpr std::array<std::string_view, 5> kCompareNames = {">=", "==", "<=", ">", "<"};
inline constexpr std::array<std::string_view, 5> kActionNames = {"++", "--", "+=", "-=", "="};

template <std::size_t N>
[[nodiscard]] std::optional<std::size_t> find_name(const std::array<std::string_view, N>& names,
                                                   std::string_view name) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == name) return i;
  }
  return std::nullopt;
}

/// "a, b or c".
[[nodiscard]] std::string list_names(const std::vector<std::string_view>& names);
/// A tensor may be called anything that cannot be mistaken for a number, a slice or a raw operand.
[[nodiscard]] bool valid_tensor_name(std::string_view name);

/// The value of an enumerated parameter (kAlu, kAct, kDtype, kEnum, kOpcode) by name; throws
/// isa::Error. Unknown opcodes become the program's own.
[[nodiscard]] std::int64_t parse_choice(isa::Program& program, const isa::Param& param,
                                        std::string_view text);
/// The inverse; empty if `value` names nothing.
[[nodiscard]] std::string_view choice_name(const isa::Program& program, const isa::Param& param,
                                           std::int64_t value);
[[nodiscard]] constexpr bool is_choice(isa::ParamKind kind) {
  return isa::traits(kind).role == isa::ParamKindTraits::Role::kChoice;
}
/// The releases of the SDK that a header may name, from Program::kOldestSdk to kNewestSdk.
inline constexpr std::array<std::string_view, 14> kSdks = {"2.20", "2.21", "2.22", "2.23", "2.24",
                                                           "2.25", "2.26", "2.27", "2.28", "2.29",
                                                           "2.30", "2.31", "2.32", "2.33"};
static_assert(kSdks.size() == isa::Program::kNewestSdk - isa::Program::kOldestSdk + 1);
/// The shortest JSON that reads back as exactly `ref`: "x[0:64, 128:256]" in quotes, where a slice
/// says it all.
[[nodiscard]] std::string operand_json(const isa::Program& program, const isa::TensorRef& ref);
/// The kind of Arg that holds such a value.
[[nodiscard]] inline isa::Arg::Kind choice_kind(isa::ParamKind kind) {
  const bool integer = kind == isa::ParamKind::kDtype || kind == isa::ParamKind::kOpcode;
  return integer ? isa::Arg::Kind::kInt : isa::Arg::Kind::kEnum;
}

}  // namespace nkisim
