// Declares the file formats of a run's timeline: Perfetto's protobuf and Chrome's trace events.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/time.hpp"
#include "src/files/deflate.hpp"

namespace nkisim {

/// Timelines are in whole nanoseconds.
inline constexpr models::Fs kFsPerNsInteger = 1'000'000;

/// The arguments of a slice; the names are AWS's.
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

/// An argument of a slice: a text, or a number where `text` is null. Of a text `number` says which
/// it is: texts are numbered from 1 in the order of their first use; 0: it has no number.
struct TimelineArg {
  ArgKey key{};
  std::int64_t number = 0;
  std::string_view text = {};
};

/// Views are valid during the call they are passed to.
struct TimelineSlice {
  std::string_view name = {};
  models::Fs start = 0, end = 0;
  std::array<TimelineArg, kArgKeys> args = {};
  std::size_t arg_count = 0;
  std::uint64_t flow = 0, ends_flow = 0;  // ids of the arrows that leave and reach it; 0 = none
  [[nodiscard]] std::span<const TimelineArg> arguments() const { return {args.data(), arg_count}; }
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
  class Message;
  struct EventHead {
    models::Fs time = 0;
    std::uint64_t type = 0, track = 0;
  };
  template <typename Fill>
  void packet(std::size_t texts, std::size_t fields, Fill&& fill);
  template <typename Fill, typename Also>
  void event(const EventHead& head, std::size_t texts, std::size_t fields, Fill&& fill,
             Also&& also);
  static void write_annotation(Message& message, const TimelineArg& arg);
  void write_texts(Message& message, std::span<const TimelineArg> args);
  void flush();
  ByteSink out_;
  bool packed_;
  Deflater deflater_;
  std::string block_;                   // packets, not yet passed on
  std::string scratch_;                 // for the one being written
  std::int64_t texts_ = 0;              // how many are written
  std::vector<std::size_t> new_texts_;  // arguments of the packet whose text is not
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
    std::string name;  // in the form of JSON
    std::string head;  // of its events, from their phase on
  };
  void begin_event(char phase, std::uint64_t track, models::Fs time);
  void set_track(std::uint64_t track, std::uint64_t process, const std::string& name);
  void flow(char phase, std::uint64_t track, models::Fs time, std::uint64_t id);
  void put(std::string_view text);
  void put_number(std::int64_t number);
  void put_time(std::int64_t ns);
  void put_text(std::string_view text);
  void put_argument(const TimelineArg& arg);
  void flush();
  ByteSink out_;
  std::string text_;  // what is written goes here; of its size only `used_` holds
  std::size_t used_ = 0;
  std::string quoted_;              // a text in the form of JSON
  std::vector<std::string> texts_;  // by their number, in the form of JSON
  bool first_ = true;
  std::vector<Track> tracks_;
};

}  // namespace nkisim
