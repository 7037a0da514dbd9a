// Writes a run's timeline as Chrome's trace events.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "src/files/json_text.hpp"
#include "src/report/timeline_writer.hpp"

namespace nkisim {
namespace {

using models::Fs;

constexpr std::int64_t kNsPerUs = 1000;
constexpr std::size_t kPassedOn = std::size_t{1} << 16U;  // passed on at a time

// `,"duration":` by argument.
const std::array<std::string, kArgKeys>& quoted_keys() {
  static const std::array<std::string, kArgKeys> kKeys = [] {
    std::array<std::string, kArgKeys> keys;
    for (std::size_t i = 0; i < kArgKeys; ++i) {
      keys.at(i) = ",\"" + std::string(name(static_cast<ArgKey>(i))) + "\":";
    }
    return keys;
  }();
  return kKeys;
}

}  // namespace

void ChromeWriter::put(std::string_view text) {
  if (text_.size() - used_ < text.size()) {
    flush();
    if (text_.size() < text.size()) text_.resize(std::max(kPassedOn, text.size()));
  }
  std::memcpy(text_.data() + used_, text.data(), text.size());
  used_ += text.size();
}

void ChromeWriter::flush() {
  if (used_ > 0) out_(std::string_view(text_).substr(0, used_));
  used_ = 0;
}

void ChromeWriter::put_number(std::int64_t number) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  put({digits.data(), static_cast<std::size_t>(end - digits.data())});
}

// Whole nanoseconds as microseconds: "12.345".
void ChromeWriter::put_time(std::int64_t ns) {
  std::array<char, 32> digits{};
  char* end = std::to_chars(digits.data(), digits.data() + digits.size(), ns / kNsPerUs).ptr;
  *end = '.';
  std::int64_t rest = ns % kNsPerUs;
  for (int i = 3; i > 0; --i, rest /= 10) end[i] = static_cast<char>('0' + rest % 10);
  put({digits.data(), static_cast<std::size_t>(end - digits.data()) + 4});
}

void ChromeWriter::put_text(std::string_view text) {
  quoted_.clear();
  append_json_string(quoted_, text);
  put(quoted_);
}

void ChromeWriter::begin() { put("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"); }

// Leaves the event open for its own members.
void ChromeWriter::begin_event(char phase, std::uint64_t track, Fs time) {
  if (!first_) put(",\n");
  first_ = false;
  put("{\"ph\":\"");
  put({&phase, 1});
  put(tracks_.at(track).head);
  put_time(time / kFsPerNsInteger);
}

void ChromeWriter::set_track(std::uint64_t track, std::uint64_t process,
                             const std::string& track_name) {
  tracks_.resize(std::max<std::size_t>(tracks_.size(), track + 1));
  quoted_.clear();
  append_json_string(quoted_, track_name);
  tracks_[track] = {
      process, quoted_,
      "\",\"pid\":" + std::to_string(process) + ",\"tid\":" + std::to_string(track) + ",\"ts\":"};
}

void ChromeWriter::process(std::uint64_t track, const std::string& process_name) {
  set_track(track, track, process_name);
  begin_event('M', track, 0);
  put(",\"name\":\"process_name\",\"args\":{\"name\":");
  put_text(process_name);
  put("}}");
}

void ChromeWriter::track(std::uint64_t track, std::uint64_t process, const std::string& track_name,
                         const std::string* unit) {
  set_track(track, process,
            unit == nullptr || unit->empty() ? track_name : track_name + " [" + *unit + "]");
  if (unit != nullptr) return;  // a counter has no thread
  begin_event('M', track, 0);
  put(",\"name\":\"thread_name\",\"args\":{\"name\":");
  put_text(track_name);
  put("}}");
  begin_event('M', track, 0);
  put(",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":");
  put_number(static_cast<std::int64_t>(track));
  put("}}");
}

void ChromeWriter::flow(char phase, std::uint64_t track, Fs time, std::uint64_t id) {
  begin_event(phase, track, time);
  put(",\"name\":\"waits for\",\"cat\":\"flow\",\"bp\":\"e\",\"id\":");
  put(std::to_string(id));
  put("}");
}

// Texts of a number are made JSON once.
void ChromeWriter::put_argument(const TimelineArg& arg) {
  if (arg.text.data() == nullptr) {
    put_number(arg.number);
  } else if (arg.number == 0) {
    put_text(arg.text);
  } else {
    const auto number = static_cast<std::size_t>(arg.number);
    if (number >= texts_.size()) texts_.resize(number + 1);
    if (texts_[number].empty()) append_json_string(texts_[number], arg.text);
    put(texts_[number]);
  }
}

void ChromeWriter::slice(std::uint64_t track, const TimelineSlice& slice) {
  const auto& keys = quoted_keys();
  begin_event('X', track, slice.start);
  put(",\"dur\":");
  put_time(slice.end / kFsPerNsInteger - slice.start / kFsPerNsInteger);
  put(",\"name\":");
  put_text(slice.name);
  put(",\"args\":{");
  bool first = true;
  for (const TimelineArg& arg : slice.arguments()) {
    const std::string_view key = keys[static_cast<std::size_t>(arg.key)];
    put(first ? key.substr(1) : key);
    first = false;
    put_argument(arg);
  }
  put("}}");
  if (slice.flow != 0) flow('s', track, slice.start, slice.flow);
  if (slice.ends_flow != 0) flow('f', track, slice.start, slice.ends_flow);
}

void ChromeWriter::instant(std::uint64_t track, Fs time, std::string_view event_name) {
  begin_event('i', track, time);
  put(",\"s\":\"t\",\"name\":");
  put_text(event_name);
  put("}");
}

void ChromeWriter::counter(std::uint64_t track, Fs time, double value) {
  begin_event('C', track, time);
  put(",\"name\":");
  put(tracks_.at(track).name);
  put(",\"args\":{\"value\":");
  quoted_.clear();
  append_json_real(quoted_, value);
  put(quoted_);
  put("}}");
}

void ChromeWriter::end() {
  put("\n]}\n");
  flush();
}

}  // namespace nkisim
