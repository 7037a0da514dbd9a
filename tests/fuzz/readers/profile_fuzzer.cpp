// Fuzzes the import of a device profile: its tables, and the program made of it.
#include "src/device_profile/device_profile.hpp"
#include "src/trace/trace.hpp"
#include "tests/fuzz/readers/reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nkisim;
  fuzz::accepted([&] {
    const HwProfile profile = read_hw_profile_text(fuzz::text_of(data, size), "fuzz");
    (void)throttle_phase(profile);
    for (const bool packets : {true, false}) {
      ImportOptions options;
      options.packets = packets;
      options.keep_preamble = !packets;
      std::string text;
      if (!fuzz::accepted([&] {
            text = format_trace(import_profile(profile, options).trace, TraceForm::kText);
          }))
        continue;
      const bool read = fuzz::accepted([&] { (void)read_trace_text(text, "imported"); });
      fuzz::require(read, "an imported trace is refused");
    }
  });
  return 0;
}
