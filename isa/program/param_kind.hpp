// Declares the kinds of values that a parameter of an instruction may hold (param_kinds.def).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "isa/base/inst.hpp"

namespace nkisim::isa {

enum class ParamKind : std::uint8_t {
#define NKISIM_PARAM_KIND(kind, takes, role, catalogue, required, help, annotation) kind,
#include "isa/program/param_kinds.def"
#undef NKISIM_PARAM_KIND
};

struct ParamKindTraits {
  enum class Role : std::uint8_t {
    kReads,   // tensors that the instruction reads
    kWrites,  // tensors that it writes
    kChoice,  // one of some names
    kPlain
  };
  std::uint32_t takes = 0;  // mask of Arg::Kind bits
  Role role = Role::kPlain;
  std::string_view catalogue, required, help, annotation;

  [[nodiscard]] constexpr bool holds_tensors() const { return role <= Role::kWrites; }
};

namespace detail {
template <typename... Kinds>
constexpr std::uint32_t bits_of(Kinds... kinds) {
  return (0U | ... | (1U << static_cast<unsigned>(kinds)));
}
constexpr auto param_kinds() {
  using enum Arg::Kind;
  using enum ParamKindTraits::Role;
  return std::to_array<ParamKindTraits>({
#define NKISIM_PARAM_KIND(kind, takes, role, catalogue, required, help, annotation) \
  {bits_of takes, role, catalogue, required, help, annotation},
#include "isa/program/param_kinds.def"
#undef NKISIM_PARAM_KIND
  });
}
}  // namespace detail

inline constexpr auto kParamKinds = detail::param_kinds();
[[nodiscard]] constexpr const ParamKindTraits& traits(ParamKind kind) {
  return kParamKinds[static_cast<std::size_t>(kind)];
}

namespace detail {
constexpr std::uint32_t written_kinds() {
  std::uint32_t mask = 0;
  for (std::size_t i = 0; i < kParamKinds.size(); ++i) {
    if (kParamKinds[i].role == ParamKindTraits::Role::kWrites) mask |= 1U << i;
  }
  return mask;
}
}  // namespace detail

/// True if an instruction writes the tensors of such a parameter.
[[nodiscard]] constexpr bool is_written(ParamKind kind) {
  return ((detail::written_kinds() >> static_cast<unsigned>(kind)) & 1U) != 0;
}

}  // namespace nkisim::isa
