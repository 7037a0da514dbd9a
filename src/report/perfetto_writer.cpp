#include "src/report/timeline_writer.hpp"

namespace nkisim {
namespace {

using models::Fs;

// Field numbers of perfetto/protos/perfetto/trace/*.proto.
namespace field {
constexpr std::uint32_t kTracePacket = 1;  // Trace.packet
constexpr std::uint32_t kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kSequenceFlags = 13;
constexpr std::uint32_t kTrackDescriptor = 60;
constexpr std::uint32_t kUuid = 1, kTrackName = 2, kProcess = 3, kParent = 5, kCounter = 8;
constexpr std::uint32_t kPid = 1, kProcessName = 6, kUnitName = 6;
constexpr std::uint32_t kAnnotation = 4, kType = 9, kTrackUuid = 11, kName = 23;
constexpr std::uint32_t kDoubleCounterValue = 44, kFlowIds = 47, kTerminatingFlowIds = 48;
constexpr std::uint32_t kAnnotationNameId = 1, kAnnotationInt = 4, kAnnotationText = 6;
constexpr std::uint32_t kInternedData = 12, kInternedAnnotationNames = 3;
constexpr std::uint32_t kInternedId = 1, kInternedName = 2;
}  // namespace field
enum EventType : std::uint64_t { kBegin = 1, kEnd = 2, kInstant = 3, kCount = 4 };
constexpr std::uint64_t kSequenceId = 1;
constexpr std::uint64_t kStateCleared = 1, kNeedsState = 2;

// Argument names are interned once: a slice carries a byte instead of the name.
std::uint64_t interned(ArgKey key) { return static_cast<std::uint64_t>(key) + 1; }

ProtoMessage event_of(EventType type, std::uint64_t track) {
  ProtoMessage event;
  event.integer(field::kType, type).integer(field::kTrackUuid, track);
  return event;
}

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
                                                             "first_packet"};
  return kNames.at(static_cast<std::size_t>(key));
}

void PerfettoWriter::write(const ProtoMessage& packet) {
  ProtoMessage trace;
  trace.message(field::kTracePacket, packet);
  out_(trace.bytes());
}

void PerfettoWriter::begin() {
  ProtoMessage packet, names;
  for (std::size_t i = 0; i < kArgKeys; ++i) {
    const auto key = static_cast<ArgKey>(i);
    ProtoMessage entry;
    entry.integer(field::kInternedId, interned(key)).text(field::kInternedName, name(key));
    names.message(field::kInternedAnnotationNames, entry);
  }
  packet.integer(field::kSequence, kSequenceId)
      .integer(field::kSequenceFlags, kStateCleared | kNeedsState)
      .message(field::kInternedData, names);
  write(packet);
}

void PerfettoWriter::write_descriptor(const ProtoMessage& descriptor) {
  ProtoMessage packet;
  packet.message(field::kTrackDescriptor, descriptor).integer(field::kSequence, kSequenceId);
  write(packet);
}

void PerfettoWriter::process(std::uint64_t track, const std::string& process_name) {
  ProtoMessage process, descriptor;
  process.integer(field::kPid, ++processes_).text(field::kProcessName, process_name);
  descriptor.integer(field::kUuid, track).message(field::kProcess, process);
  write_descriptor(descriptor);
}

void PerfettoWriter::track(std::uint64_t track, std::uint64_t process,
                           const std::string& track_name, const std::string* unit) {
  ProtoMessage descriptor;
  descriptor.integer(field::kUuid, track)
      .text(field::kTrackName, track_name)
      .integer(field::kParent, process);
  if (unit != nullptr) {
    ProtoMessage details;
    details.text(field::kUnitName, *unit);
    descriptor.message(field::kCounter, details);
  }
  write_descriptor(descriptor);
}

void PerfettoWriter::write_event(Fs time, const ProtoMessage& event) {
  ProtoMessage packet;
  packet.integer(field::kTimestamp, static_cast<std::uint64_t>(time / kFsPerNsInteger))
      .message(field::kTrackEvent, event)
      .integer(field::kSequence, kSequenceId)
      .integer(field::kSequenceFlags, kNeedsState);
  write(packet);
}

void PerfettoWriter::slice(std::uint64_t track, const TimelineSlice& slice) {
  ProtoMessage event = event_of(kBegin, track);
  event.text(field::kName, slice.name);
  if (slice.flow != 0) event.integer(field::kFlowIds, slice.flow);
  if (slice.ends_flow != 0) event.integer(field::kTerminatingFlowIds, slice.ends_flow);
  for (const TimelineArg& arg : slice.args) {
    ProtoMessage annotation;
    annotation.integer(field::kAnnotationNameId, interned(arg.key));
    if (arg.text.data() != nullptr) {
      annotation.text(field::kAnnotationText, arg.text);
    } else {
      annotation.integer(field::kAnnotationInt, static_cast<std::uint64_t>(arg.number));
    }
    event.message(field::kAnnotation, annotation);
  }
  write_event(slice.start, event);
  write_event(slice.end, event_of(kEnd, track));
}

void PerfettoWriter::instant(std::uint64_t track, Fs time, std::string_view event_name) {
  ProtoMessage event = event_of(kInstant, track);
  event.text(field::kName, event_name);
  write_event(time, event);
}

void PerfettoWriter::counter(std::uint64_t track, Fs time, double value) {
  ProtoMessage event = event_of(kCount, track);
  event.real(field::kDoubleCounterValue, value);
  write_event(time, event);
}

}  // namespace nkisim
