// Fuzzes a user's changes of machine description values, lines "path=value".
#include "src/config/config.hpp"
#include "tests/fuzz/readers/reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nkisim;
  static const nlohmann::json kWhole = load_config_json("trn2");
  std::string_view text = fuzz::text_of(data, size);
  fuzz::accepted([&] {
    nlohmann::json config = kWhole;
    while (!text.empty()) {
      const std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(text.size(), line.size() + 1));
      const std::size_t sign = line.find('=');
      if (sign == line.npos) continue;
      apply_override(config, line.substr(0, sign), line.substr(sign + 1));
    }
    (void)parse_config(config);
  });
  return 0;
}
