// The file formats of a timeline: Perfetto's protobuf and Chrome's trace events.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "models/time.hpp"

namespace nkisim {

/// Timelines are in whole nanoseconds.
inline constexpr models::Fs kFsPerNsInteger = 1'000'000;

/// What a slice can tell; the names are AWS's.
enum class ArgKey : std::uint8_t {
  kTimestamp,
  kDuration,
  kOpcode,
  kId,
  kInstruction,
  kElements,
  kPc,
  kSource,
  kOperands,
  kLabel,
  kSubgroup,
  kMode,
  kThrottled,
  kWaitedFor,
  kSize,
  kPackets,
  kFirstPacket,
  kAlgorithm,
  kGroup,
  kWaitedForRank,
};
inline constexpr std::size_t kArgKeys = 20;
[[nodiscard]] std::string_view name(ArgKey key);

/// An argument of a slice: a text, or a number where `text` is null.
struct TimelineArg {
  ArgKey key{};
  std::int64_t number = 0;
  std::string_view text = {};
};

/// Views are valid during the call they are passed to.
struct TimelineSlice {
  std::string_view name = {};
  models::Fs start = 0, end = 0;
  std::vector<TimelineArg> args = {};
  std::uint64_t flow = 0, ends_flow = 0;  // ids of the arrows that leave and reach it; 0 = none
};

/// Takes the bytes of a file in order.
using ByteSink = std::function<void(std::string_view)>;

/// One format. Tracks are announced before their events; times are written in whole nanoseconds.
class TimelineWriter {
 public:
  virtual ~TimelineWriter() = default;
  virtual void begin() = 0;
  virtual void process(std::uint64_t track, const std::string& name) = 0;
  /// `unit` is of a counter, null for rows of slices.
  virtual void track(std::uint64_t track, std::uint64_t process, const std::string& name,
                     const std::string* unit) = 0;
  virtual void slice(std::uint64_t track, const TimelineSlice& slice) = 0;
  virtual void instant(std::uint64_t track, models::Fs time, std::string_view name) = 0;
  virtual void counter(std::uint64_t track, models::Fs time, double value) = 0;
  virtual void end() = 0;
};

/// TracePacket messages (perfetto/protos/perfetto/trace/*.proto), compressed in blocks if `packed`.
/// Texts of arguments are written once.
class PerfettoWriter : public TimelineWriter {
 public:
  explicit PerfettoWriter(ByteSink out, bool packed = false);
  void begin() override;
  void process(std::uint64_t track, const std::string& name) override;
  void track(std::uint64_t track, std::uint64_t process, const std::string& name,
             const std::string* unit) override;
  void slice(std::uint64_t track, const TimelineSlice& slice) override;
  void instant(std::uint64_t track, models::Fs time, std::string_view name) override;
  void counter(std::uint64_t track, models::Fs time, double value) override;
  void end() override;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  void write_block();
  std::uint64_t number_of(std::string_view text);
  ByteSink file_, out_;  // what packets go to: the file, or a block of it
  std::string block_;    // to be compressed
  std::string packet_;   // being written
  std::unordered_map<std::string, std::uint64_t, Hash, std::equal_to<>> texts_;
  std::vector<std::pair<std::uint64_t, std::string_view>> new_texts_;  // of the packet
  std::uint64_t processes_ = 0;
};

/// The JSON object format of chrome://tracing: times in microseconds with three decimals.
class ChromeWriter : public TimelineWriter {
 public:
  explicit ChromeWriter(ByteSink out) : out_(std::move(out)) {}
  void begin() override;
  void process(std::uint64_t track, const std::string& name) override;
  void track(std::uint64_t track, std::uint64_t process, const std::string& name,
             const std::string* unit) override;
  void slice(std::uint64_t track, const TimelineSlice& slice) override;
  void instant(std::uint64_t track, models::Fs time, std::string_view name) override;
  void counter(std::uint64_t track, models::Fs time, double value) override;
  void end() override;

 private:
  struct Track {
    std::uint64_t process = 0;
    std::string name;
  };
  void open(char phase, std::uint64_t track, models::Fs time);
  void flow(char phase, std::uint64_t track, models::Fs time, std::uint64_t id);
  ByteSink out_;
  std::string line_;  // the event being written
  bool first_ = true;
  std::vector<Track> tracks_;
};

}  // namespace nkisim
