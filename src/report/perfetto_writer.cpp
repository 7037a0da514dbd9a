#include <protozero/pbf_writer.hpp>

#include "src/files/files.hpp"
#include "src/report/timeline_writer.hpp"

namespace nkisim {
namespace {

using models::Fs;
using protozero::pbf_writer;

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
constexpr std::size_t kMostTexts = std::size_t{1} << 16U;  // kept; others stand where they are used
constexpr std::uint64_t kStateCleared = 1, kNeedsState = 2;

// Argument names are interned once: a slice carries a byte instead of the name.
std::uint64_t interned(ArgKey key) { return static_cast<std::uint64_t>(key) + 1; }

void add_text(pbf_writer& message, std::uint32_t field, std::string_view text) {
  message.add_string(field, text.data(), text.size());
}

/// Calls `fill` with an empty TracePacket and passes the packet on; `bytes` is storage to reuse.
template <typename Fill>
void write_packet(const ByteSink& out, std::string& bytes, Fill fill) {
  bytes.clear();
  pbf_writer trace(bytes);
  {
    pbf_writer packet(trace, field::kTracePacket);
    fill(packet);
  }
  out(bytes);
}

template <typename Fill>
void write_descriptor(const ByteSink& out, std::string& bytes, std::uint64_t track, Fill fill) {
  write_packet(out, bytes, [&](pbf_writer& packet) {
    {
      pbf_writer descriptor(packet, field::kTrackDescriptor);
      descriptor.add_uint64(field::kUuid, track);
      fill(descriptor);
    }
    packet.add_uint64(field::kSequence, kSequenceId);
  });
}

/// `also` adds to the packet what belongs to the event.
template <typename Fill, typename Also>
void write_event(const ByteSink& out, std::string& bytes, Fs time, EventType type,
                 std::uint64_t track, Fill fill, Also also) {
  write_packet(out, bytes, [&](pbf_writer& packet) {
    packet.add_uint64(field::kTimestamp, static_cast<std::uint64_t>(time / kFsPerNsInteger));
    {
      pbf_writer event(packet, field::kTrackEvent);
      event.add_uint64(field::kType, type);
      event.add_uint64(field::kTrackUuid, track);
      fill(event);
    }
    packet.add_uint64(field::kSequence, kSequenceId);
    packet.add_uint64(field::kSequenceFlags, kNeedsState);
    also(packet);
  });
}

template <typename Fill>
void write_event(const ByteSink& out, std::string& bytes, Fs time, EventType type,
                 std::uint64_t track, Fill fill) {
  write_event(out, bytes, time, type, track, fill, [](pbf_writer&) {});
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
                                                             "first_packet",
                                                             "algorithm",
                                                             "replica_group",
                                                             "waited_for_rank"};
  return kNames.at(static_cast<std::size_t>(key));
}

PerfettoWriter::PerfettoWriter(ByteSink out, bool packed) : file_(std::move(out)) {
  out_ = file_;
  if (!packed) return;
  out_ = [this](std::string_view bytes) {
    block_ += bytes;
    if (block_.size() >= kBlockBytes) write_block();
  };
}

void PerfettoWriter::write_block() {
  const std::string packed = Deflater().zlib_packed(block_);
  std::string bytes;
  write_packet(file_, bytes,
               [&](pbf_writer& packet) { packet.add_bytes(field::kCompressedPackets, packed); });
  block_.clear();
}

void PerfettoWriter::end() {
  if (!block_.empty()) write_block();
}

// 0: it has none.
std::uint64_t PerfettoWriter::number_of(std::string_view text) {
  const auto found = texts_.find(text);
  if (found != texts_.end()) return found->second;
  if (texts_.size() >= kMostTexts) return 0;
  const auto added = texts_.emplace(text, texts_.size() + 1).first;
  new_texts_.emplace_back(added->second, added->first);
  return added->second;
}

void PerfettoWriter::begin() {
  write_packet(out_, packet_, [](pbf_writer& packet) {
    packet.add_uint64(field::kSequence, kSequenceId);
    packet.add_uint64(field::kSequenceFlags, kStateCleared | kNeedsState);
    pbf_writer names(packet, field::kInternedData);
    for (std::size_t i = 0; i < kArgKeys; ++i) {
      const auto key = static_cast<ArgKey>(i);
      pbf_writer entry(names, field::kInternedAnnotationNames);
      entry.add_uint64(field::kInternedId, interned(key));
      add_text(entry, field::kInternedName, name(key));
    }
  });
}

void PerfettoWriter::process(std::uint64_t track, const std::string& process_name) {
  write_descriptor(out_, packet_, track, [&](pbf_writer& descriptor) {
    pbf_writer process(descriptor, field::kProcess);
    process.add_uint64(field::kPid, ++processes_);
    add_text(process, field::kProcessName, process_name);
  });
}

void PerfettoWriter::track(std::uint64_t track, std::uint64_t process,
                           const std::string& track_name, const std::string* unit) {
  write_descriptor(out_, packet_, track, [&](pbf_writer& descriptor) {
    add_text(descriptor, field::kTrackName, track_name);
    descriptor.add_uint64(field::kParent, process);
    if (unit == nullptr) return;
    pbf_writer details(descriptor, field::kCounter);
    add_text(details, field::kUnitName, *unit);
  });
}

void PerfettoWriter::slice(std::uint64_t track, const TimelineSlice& slice) {
  const auto fill = [&](pbf_writer& event) {
    add_text(event, field::kName, slice.name);
    if (slice.flow != 0) event.add_fixed64(field::kFlowIds, slice.flow);
    if (slice.ends_flow != 0) event.add_fixed64(field::kTerminatingFlowIds, slice.ends_flow);
    for (const TimelineArg& arg : slice.args) {
      pbf_writer annotation(event, field::kAnnotation);
      annotation.add_uint64(field::kAnnotationNameId, interned(arg.key));
      if (arg.text.data() == nullptr) {
        annotation.add_int64(field::kAnnotationInt, arg.number);
      } else if (const std::uint64_t number = number_of(arg.text); number != 0) {
        annotation.add_uint64(field::kAnnotationTextId, number);
      } else {
        add_text(annotation, field::kAnnotationText, arg.text);
      }
    }
  };
  const auto texts = [&](pbf_writer& packet) {
    if (new_texts_.empty()) return;
    pbf_writer data(packet, field::kInternedData);
    for (const auto& [number, text] : new_texts_) {
      pbf_writer entry(data, field::kInternedAnnotationTexts);
      entry.add_uint64(field::kInternedId, number);
      add_text(entry, field::kInternedName, text);
    }
    new_texts_.clear();
  };
  write_event(out_, packet_, slice.start, kBegin, track, fill, texts);
  write_event(out_, packet_, slice.end, kEnd, track, [](pbf_writer&) {});
}

void PerfettoWriter::instant(std::uint64_t track, Fs time, std::string_view event_name) {
  write_event(out_, packet_, time, kInstant, track,
              [&](pbf_writer& event) { add_text(event, field::kName, event_name); });
}

void PerfettoWriter::counter(std::uint64_t track, Fs time, double value) {
  write_event(out_, packet_, time, kCount, track,
              [&](pbf_writer& event) { event.add_double(field::kDoubleCounterValue, value); });
}

}  // namespace nkisim
