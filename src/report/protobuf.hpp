// Writes the protobuf wire format: enough for messages of varints, fixed64 and bytes.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace nkisim {

/// One message under construction.
class ProtoMessage {
 public:
  ProtoMessage& integer(std::uint32_t field, std::uint64_t value) {
    tag(field, 0);
    varint(value);
    return *this;
  }
  ProtoMessage& real(std::uint32_t field, double value) {
    tag(field, 1);
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (unsigned i = 0; i < 8; ++i) bytes_ += static_cast<char>(bits >> (8U * i) & 0xffU);
    return *this;
  }
  ProtoMessage& text(std::uint32_t field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  ProtoMessage& message(std::uint32_t field, const ProtoMessage& value) {
    return text(field, value.bytes_);
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  void tag(std::uint32_t field, std::uint32_t wire_type) { varint(field << 3U | wire_type); }
  void varint(std::uint64_t value) {
    while (value >= 0x80U) {
      bytes_ += static_cast<char>(value | 0x80U);
      value >>= 7U;
    }
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

}  // namespace nkisim
