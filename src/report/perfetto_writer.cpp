// Writes a run's timeline as Perfetto's protobuf.
#include <bit>
#include <cstring>
#include <protozero/varint.hpp>

#include "src/files/files.hpp"
#include "src/report/timeline_writer.hpp"

namespace nkisim {
namespace {

using models::Fs;

// Field numbers of perfetto/protos/perfetto/trace/*.proto.
namespace field {
constexpr std::uint32_t kTracePacket = 1;  // Trace.packet
constexpr std::uint32_t kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kSequenceFlags = 13;
constexpr std::uint32_t kTrackDescriptor = 60, kCompressedPackets = 50;
constexpr std::uint32_t kUuid = 1, kTrackName = 2, kProcess = 3, kParent = 5, kCounter = 8;
constexpr std::uint32_t kPid = 1, kProcessName = 6, kUnitName = 6;
constexpr std::uint32_t kAnnotation = 4, kType = 9, kTrackUuid = 11, kName = 23;
constexpr std::uint32_t kDoubleCounterValue = 44, kFlowIds = 47, kTerminatingFlowIds = 48;
constexpr std::uint32_t kAnnotationNameId = 1, kAnnotationInt = 4, kAnnotationText = 6;
constexpr std::uint32_t kAnnotationTextId = 17, kInternedAnnotationTexts = 29;
constexpr std::uint32_t kInternedData = 12, kInternedAnnotationNames = 3;
constexpr std::uint32_t kInternedId = 1, kInternedName = 2;
}  // namespace field
enum EventType : std::uint64_t { kBegin = 1, kEnd = 2, kInstant = 3, kCount = 4 };
constexpr std::uint64_t kSequenceId = 1;
constexpr std::size_t kBlockBytes = std::size_t{1} << 19U;
constexpr std::uint64_t kStateCleared = 1, kNeedsState = 2;

// Argument names are interned once: a slice carries a byte instead of the name.
std::uint64_t interned(ArgKey key) { return static_cast<std::uint64_t>(key) + 1; }

}  // namespace

std::string_view name(ArgKey key) {
  constexpr std::array<std::string_view, kArgKeys> kNames = {"timestamp",
                                                             "duration",
                                                             "opcode",
                                                             "id",
                                                             "instruction",
                                                             "elements",
                                                             "pc",
                                                             "nki_source_location",
                                                             "operands",
                                                             "label",
                                                             "subgroup",
                                                             "performance_mode",
                                                             "throttled",
                                                             "waited_for",
                                                             "transfer_size",
                                                             "packets",
                                                             "first_packet",
                                                             "algorithm",
                                                             "replica_group",
                                                             "waited_for_rank"};
  return kNames.at(static_cast<std::size_t>(key));
}

/// A message of protobuf, written from its end to its start: how long what is within is, is known
/// when it is next.
class PerfettoWriter::Message {
 public:
  /// `texts`: of how many bytes the texts within are.
  Message(std::string& storage, std::size_t texts, std::size_t fields) {
    const std::size_t most = texts + kMostOfField * fields;
    if (storage.size() < most) storage.resize(most);
    end_ = storage.data() + storage.size();
    at_ = end_;
  }
  void number(std::uint32_t field, std::uint64_t value) {
    varint(value);
    varint(field << 3U);
  }
  void fixed(std::uint32_t field, std::uint64_t value) {
    at_ -= sizeof value;
    std::memcpy(at_, &value, sizeof value);
    varint(field << 3U | 1U);
  }
  void text(std::uint32_t field, std::string_view value) {
    at_ -= value.size();
    std::memcpy(at_, value.data(), value.size());
    head(field, value.size());
  }
  /// Everything written since `mark` becomes the content of a field.
  [[nodiscard]] std::size_t mark() const { return static_cast<std::size_t>(end_ - at_); }
  void close(std::uint32_t field, std::size_t mark) { head(field, this->mark() - mark); }
  [[nodiscard]] std::string_view bytes() const { return {at_, mark()}; }

 private:
  static constexpr std::size_t kMostOfField = 24;  // without its text
  void head(std::uint32_t field, std::size_t size) {
    varint(size);
    varint(field << 3U | 2U);
  }
  void varint(std::uint64_t value) {
    if (value < 0x80U) {
      *--at_ = static_cast<char>(value);
      return;
    }
    at_ -= protozero::length_of_varint(value);
    protozero::add_varint_to_buffer(at_, value);
  }
  char *end_ = nullptr, *at_ = nullptr;
};

PerfettoWriter::PerfettoWriter(ByteSink out, bool packed) : out_(std::move(out)), packed_(packed) {
  block_.reserve(kBlockBytes + kBlockBytes / 4);
}

void PerfettoWriter::flush() {
  if (packed_ && !block_.empty()) {
    const std::string bytes = deflater_.zlib_packed(block_);
    Message message(scratch_, bytes.size(), 2);
    message.text(field::kCompressedPackets, bytes);
    message.close(field::kTracePacket, 0);
    out_(message.bytes());
  } else {
    out_(block_);
  }
  block_.clear();
}

void PerfettoWriter::end() { flush(); }

/// Writes a packet whose fields `fill` writes, the last one first.
template <typename Fill>
void PerfettoWriter::packet(std::size_t texts, std::size_t fields, Fill&& fill) {
  Message message(scratch_, texts, fields + 1);
  fill(message);
  message.close(field::kTracePacket, 0);
  block_ += message.bytes();
  if (block_.size() >= kBlockBytes) flush();
}

/// A packet of an event, whose own fields behind its track `fill` writes; `also` those of the
/// packet behind the event.
template <typename Fill, typename Also>
void PerfettoWriter::event(const EventHead& head, std::size_t texts, std::size_t fields,
                           Fill&& fill, Also&& also) {
  packet(texts, fields + 6, [&](Message& message) {
    also(message);
    message.number(field::kSequenceFlags, kNeedsState);
    message.number(field::kSequence, kSequenceId);
    const std::size_t mark = message.mark();
    fill(message);
    message.number(field::kTrackUuid, head.track);
    message.number(field::kType, head.type);
    message.close(field::kTrackEvent, mark);
    message.number(field::kTimestamp, static_cast<std::uint64_t>(head.time / kFsPerNsInteger));
  });
}

void PerfettoWriter::begin() {
  std::size_t texts = 0;
  for (std::size_t i = 0; i < kArgKeys; ++i) texts += name(static_cast<ArgKey>(i)).size();
  packet(texts, 3 * kArgKeys + 3, [](Message& message) {
    for (std::size_t i = kArgKeys; i-- > 0;) {
      const auto key = static_cast<ArgKey>(i);
      const std::size_t mark = message.mark();
      message.text(field::kInternedName, name(key));
      message.number(field::kInternedId, interned(key));
      message.close(field::kInternedAnnotationNames, mark);
    }
    message.close(field::kInternedData, 0);
    message.number(field::kSequenceFlags, kStateCleared | kNeedsState);
    message.number(field::kSequence, kSequenceId);
  });
}

void PerfettoWriter::process(std::uint64_t track, const std::string& process_name) {
  packet(process_name.size(), 6, [&](Message& message) {
    message.number(field::kSequence, kSequenceId);
    const std::size_t mark = message.mark();
    message.text(field::kProcessName, process_name);
    message.number(field::kPid, ++processes_);
    message.close(field::kProcess, mark);
    message.number(field::kUuid, track);
    message.close(field::kTrackDescriptor, mark);
  });
}

void PerfettoWriter::track(std::uint64_t track, std::uint64_t process,
                           const std::string& track_name, const std::string* unit) {
  const std::size_t texts = track_name.size() + (unit == nullptr ? 0 : unit->size());
  packet(texts, 7, [&](Message& message) {
    message.number(field::kSequence, kSequenceId);
    const std::size_t mark = message.mark();
    if (unit != nullptr) {
      message.text(field::kUnitName, *unit);
      message.close(field::kCounter, mark);
    }
    message.number(field::kParent, process);
    message.text(field::kTrackName, track_name);
    message.number(field::kUuid, track);
    message.close(field::kTrackDescriptor, mark);
  });
}

void PerfettoWriter::write_annotation(Message& message, const TimelineArg& arg) {
  const std::size_t mark = message.mark();
  if (arg.text.data() == nullptr) {
    message.number(field::kAnnotationInt, static_cast<std::uint64_t>(arg.number));
  } else if (arg.number != 0) {
    message.number(field::kAnnotationTextId, static_cast<std::uint64_t>(arg.number));
  } else {
    message.text(field::kAnnotationText, arg.text);
  }
  message.number(field::kAnnotationNameId, interned(arg.key));
  message.close(field::kAnnotation, mark);
}

// Texts that have not been written, each once.
void PerfettoWriter::write_texts(Message& message, std::span<const TimelineArg> args) {
  if (new_texts_.empty()) return;
  const std::size_t whole = message.mark();
  for (std::size_t i = new_texts_.size(); i-- > 0;) {
    const TimelineArg& arg = args[new_texts_[i]];
    const std::size_t mark = message.mark();
    message.text(field::kInternedName, arg.text);
    message.number(field::kInternedId, static_cast<std::uint64_t>(arg.number));
    message.close(field::kInternedAnnotationTexts, mark);
  }
  message.close(field::kInternedData, whole);
  new_texts_.clear();
}

void PerfettoWriter::slice(std::uint64_t track, const TimelineSlice& slice) {
  const auto args = slice.arguments();
  std::size_t texts = slice.name.size();
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i].text.data() == nullptr) continue;
    if (args[i].number > texts_) {
      texts_ = args[i].number;
      new_texts_.push_back(i);
    }
    texts += args[i].text.size();
  }
  const auto fill = [&](Message& message) {
    for (std::size_t i = args.size(); i-- > 0;) write_annotation(message, args[i]);
    if (slice.ends_flow != 0) message.fixed(field::kTerminatingFlowIds, slice.ends_flow);
    if (slice.flow != 0) message.fixed(field::kFlowIds, slice.flow);
    message.text(field::kName, slice.name);
  };
  event({slice.start, kBegin, track}, texts, 6 * args.size() + 4, fill,
        [&](Message& message) { write_texts(message, args); });
  event(
      {slice.end, kEnd, track}, 0, 0, [](Message&) {}, [](Message&) {});
}

void PerfettoWriter::instant(std::uint64_t track, Fs time, std::string_view event_name) {
  event(
      {time, kInstant, track}, event_name.size(), 1,
      [&](Message& message) { message.text(field::kName, event_name); }, [](Message&) {});
}

void PerfettoWriter::counter(std::uint64_t track, Fs time, double value) {
  event(
      {time, kCount, track}, 0, 1,
      [&](Message& message) {
        message.fixed(field::kDoubleCounterValue, std::bit_cast<std::uint64_t>(value));
      },
      [](Message&) {});
}

}  // namespace nkisim
