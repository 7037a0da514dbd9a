// Writes a VCD waveform file (IEEE 1800, clause 21.7): signals in a hierarchy of modules, and their
// changes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "models/time.hpp"
#include "src/report/timeline_writer.hpp"

namespace nkisim {

/// Changes come in any order; the file has them by time, in femtoseconds. Of several changes of a
/// signal at one instant the last one counts. Texts are GTKWave's string variables.
class Vcd {
 public:
  enum class Kind : std::uint8_t { kBit, kNumber, kText };
  using Signal = std::uint32_t;

  /// `module`: names with dots between, below the top one ("nc0.tensor"); what is in one module
  /// comes together. Signals begin as 0, texts as idle().
  Signal add(std::string module, std::string name, Kind kind);
  /// The value that stands for a text. Spaces, which the format does not have, become '_'.
  [[nodiscard]] std::int64_t text(std::string_view text);
  /// "-".
  [[nodiscard]] static std::int64_t idle() { return 0; }
  void change(Signal signal, models::Fs time, std::int64_t value) {
    changes_.push_back({time, signal, value});
  }
  /// A file of everything up to `end`, within module `top`; `note` is a comment, if not empty.
  void write(const std::string& top, models::Fs end, const std::string& note, const ByteSink& out);

 private:
  struct Declared {
    std::string module, name, code;
    Kind kind = Kind::kBit;
  };
  struct Change {
    models::Fs time = 0;
    Signal signal = 0;
    std::int64_t value = 0;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  [[nodiscard]] std::string header(const std::string& top, const std::string& note) const;
  void put(std::string& to, const Declared& signal, std::int64_t value) const;

  std::vector<Declared> signals_;
  std::vector<Change> changes_;
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> numbers_ = {{"-", 0}};
  std::vector<std::string> texts_ = {"-"};
};

}  // namespace nkisim
