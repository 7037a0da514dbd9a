#include "src/files/json_text.hpp"
#include "src/report/timeline_writer.hpp"

namespace nkisim {
namespace {

using models::Fs;

constexpr int kNsPerUs = 1000;

// Whole nanoseconds as microseconds: "12.345".
void append_us(std::string& to, Fs ns) {
  append_json_int(to, ns / kNsPerUs);
  std::array<char, 5> tail = {'.', '0', '0', '0', '\0'};
  auto rest = static_cast<int>(ns % kNsPerUs);
  for (std::size_t i = 3; i > 0; --i, rest /= 10) {
    tail.at(i) = static_cast<char>('0' + rest % 10);
  }
  to += tail.data();
}

}  // namespace

void ChromeWriter::begin() { out_("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"); }

// Leaves the event open for its own members.
void ChromeWriter::open(char phase, std::uint64_t track, Fs time) {
  line_ = first_ ? "" : ",\n";
  first_ = false;
  line_ += "{\"ph\":\"";
  line_ += phase;
  line_ += "\",\"pid\":";
  append_json_int(line_, tracks_.at(track).process);
  line_ += ",\"tid\":";
  append_json_int(line_, track);
  line_ += ",\"ts\":";
  append_us(line_, time / kFsPerNsInteger);
}

void ChromeWriter::process(std::uint64_t track, const std::string& process_name) {
  tracks_.resize(std::max<std::size_t>(tracks_.size(), track + 1));
  tracks_[track] = {track, process_name};
  open('M', track, 0);
  line_ += ",\"name\":\"process_name\",\"args\":{\"name\":";
  append_json_string(line_, process_name);
  line_ += "}}";
  out_(line_);
}

void ChromeWriter::track(std::uint64_t track, std::uint64_t process, const std::string& track_name,
                         const std::string* unit) {
  tracks_.resize(std::max<std::size_t>(tracks_.size(), track + 1));
  tracks_[track] = {
      process, unit == nullptr || unit->empty() ? track_name : track_name + " [" + *unit + "]"};
  if (unit != nullptr) return;  // a counter has no thread
  for (const std::string_view what : {"thread_name", "thread_sort_index"}) {
    open('M', track, 0);
    line_ += ",\"name\":\"";
    line_ += what;
    line_ += "\",\"args\":{";
    if (what == "thread_name") {
      line_ += "\"name\":";
      append_json_string(line_, track_name);
    } else {
      line_ += "\"sort_index\":";
      append_json_int(line_, track);
    }
    line_ += "}}";
    out_(line_);
  }
}

void ChromeWriter::flow(char phase, std::uint64_t track, Fs time, std::uint64_t id) {
  open(phase, track, time);
  line_ += ",\"name\":\"waits for\",\"cat\":\"flow\",\"bp\":\"e\",\"id\":";
  line_ += std::to_string(id);
  line_ += "}";
  out_(line_);
}

void ChromeWriter::slice(std::uint64_t track, const TimelineSlice& slice) {
  open('X', track, slice.start);
  line_ += ",\"dur\":";
  append_us(line_, slice.end / kFsPerNsInteger - slice.start / kFsPerNsInteger);
  line_ += ",\"name\":";
  append_json_string(line_, slice.name);
  line_ += ",\"args\":{";
  bool first = true;
  for (const TimelineArg& arg : slice.args) {
    line_ += first ? "\"" : ",\"";
    first = false;
    line_ += name(arg.key);
    line_ += "\":";
    if (arg.text.data() != nullptr) {
      append_json_string(line_, arg.text);
    } else {
      append_json_int(line_, arg.number);
    }
  }
  line_ += "}}";
  out_(line_);
  if (slice.flow != 0) flow('s', track, slice.start, slice.flow);
  if (slice.ends_flow != 0) flow('f', track, slice.start, slice.ends_flow);
}

void ChromeWriter::instant(std::uint64_t track, Fs time, std::string_view event_name) {
  open('i', track, time);
  line_ += ",\"s\":\"t\",\"name\":";
  append_json_string(line_, event_name);
  line_ += "}";
  out_(line_);
}

void ChromeWriter::counter(std::uint64_t track, Fs time, double value) {
  open('C', track, time);
  line_ += ",\"name\":";
  append_json_string(line_, tracks_.at(track).name);
  line_ += ",\"args\":{\"value\":";
  append_json_real(line_, value);
  line_ += "}}";
  out_(line_);
}

void ChromeWriter::end() { out_("\n]}\n"); }

}  // namespace nkisim
