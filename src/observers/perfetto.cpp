#include "src/observers/perfetto.hpp"

#include <algorithm>
#include <array>

#include "isa/disasm.hpp"

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
constexpr Fs kFsPerNsInteger = 1'000'000;

// Argument names, interned once: a slice carries a byte instead of the name.
constexpr std::array<std::string_view, 17> kKeys = {"timestamp",
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
constexpr std::uint64_t key_id(std::string_view key) {
  for (std::size_t i = 0; i < kKeys.size(); ++i) {
    if (kKeys.at(i) == key) return i + 1;
  }
  return 0;
}

void annotate(ProtoMessage& to, std::uint64_t key, std::string_view value) {
  ProtoMessage a;
  a.integer(field::kAnnotationNameId, key).text(field::kAnnotationText, value);
  to.message(field::kAnnotation, a);
}
void annotate(ProtoMessage& to, std::uint64_t key, std::int64_t value) {
  ProtoMessage a;
  a.integer(field::kAnnotationNameId, key)
      .integer(field::kAnnotationInt, static_cast<std::uint64_t>(value));
  to.message(field::kAnnotation, a);
}

std::uint64_t flow_id(int core, models::QueueIndex queue, std::uint64_t sequence) {
  return (static_cast<std::uint64_t>(core) << 60U) ^ (static_cast<std::uint64_t>(queue) << 44U) ^
         (sequence + 1);
}

}  // namespace

void Perfetto::write_packet(const ProtoMessage& packet) {
  ProtoMessage trace;
  trace.message(field::kTracePacket, packet);
  out_ << trace.bytes();
}

void Perfetto::on_start(const isa::Program& program, const models::Config& /*config*/) {
  program_ = &program;
  ProtoMessage packet, names;
  for (const std::string_view key : kKeys) {
    ProtoMessage entry;
    entry.integer(field::kInternedId, key_id(key)).text(field::kInternedName, key);
    names.message(field::kInternedAnnotationNames, entry);
  }
  packet.integer(field::kSequence, kSequenceId)
      .integer(field::kSequenceFlags, kStateCleared | kNeedsState)
      .message(field::kInternedData, names);
  write_packet(packet);
}

void Perfetto::on_queue(const models::QueueName& queue) {
  queue_names_[{queue.core, queue.index}] = queue.name;
}

std::uint64_t Perfetto::process_track(int core) {
  auto& track = tracks_[{core, ""}];
  if (track != 0) return track;
  track = next_track_++;
  ProtoMessage process, descriptor, packet;
  process.integer(field::kPid, static_cast<std::uint64_t>(core) + 1)
      .text(field::kProcessName, "Instructions " + std::to_string(core));
  descriptor.integer(field::kUuid, track).message(field::kProcess, process);
  packet.message(field::kTrackDescriptor, descriptor).integer(field::kSequence, kSequenceId);
  write_packet(packet);
  return track;
}

std::uint64_t Perfetto::instant_track(int core, const std::string& track_name) {
  const std::uint64_t parent = process_track(core);
  auto& track = tracks_[{core, track_name}];
  if (track != 0) return track;
  track = next_track_++;
  ProtoMessage descriptor, packet;
  descriptor.integer(field::kUuid, track)
      .text(field::kTrackName, track_name)
      .integer(field::kParent, parent);
  packet.message(field::kTrackDescriptor, descriptor).integer(field::kSequence, kSequenceId);
  write_packet(packet);
  return track;
}

std::uint64_t Perfetto::counter_track(int core, const std::string& counter,
                                      const std::string& unit) {
  const std::uint64_t parent = process_track(core);
  auto& track = tracks_[{core, counter}];
  if (track != 0) return track;
  track = next_track_++;
  ProtoMessage details, descriptor, packet;
  details.text(field::kUnitName, unit);
  descriptor.integer(field::kUuid, track)
      .text(field::kTrackName, counter)
      .integer(field::kParent, parent)
      .message(field::kCounter, details);
  packet.message(field::kTrackDescriptor, descriptor).integer(field::kSequence, kSequenceId);
  write_packet(packet);
  return track;
}

// The first row of the family that is free when the slice begins.
std::uint64_t Perfetto::row_for(int core, const std::string& family, const Slice& slice) {
  Rows& rows = rows_[{core, family}];
  std::size_t row = 0;
  while (row < rows.free_at.size() && rows.free_at[row] > slice.start) ++row;
  if (row == rows.free_at.size()) {
    rows.free_at.push_back(0);
    rows.tracks.push_back(instant_track(core, family + " - Row " + std::to_string(row)));
  }
  rows.free_at[row] = slice.end;
  return rows.tracks[row];
}

void Perfetto::write_event(Fs time, std::uint64_t type, std::uint64_t track, const Slice* slice) {
  ProtoMessage event, packet;
  event.integer(field::kType, type).integer(field::kTrackUuid, track);
  std::string fields = event.bytes();
  if (slice != nullptr) {
    ProtoMessage more;
    more.text(field::kName, slice->name);
    if (slice->flow != 0) more.integer(field::kFlowIds, slice->flow);
    if (slice->ends_flow != 0) more.integer(field::kTerminatingFlowIds, slice->ends_flow);
    fields += more.bytes() + slice->annotations.bytes();
  }
  packet.integer(field::kTimestamp, static_cast<std::uint64_t>(time / kFsPerNsInteger))
      .text(field::kTrackEvent, fields)
      .integer(field::kSequence, kSequenceId)
      .integer(field::kSequenceFlags, kNeedsState);
  write_packet(packet);
}

void Perfetto::write_slice(int core, const std::string& family, const Slice& slice) {
  const std::uint64_t track = row_for(core, family, slice);
  write_event(slice.start, kBegin, track, &slice);
  write_event(slice.end, kEnd, track, nullptr);
}

void Perfetto::write_counter(Fs time, std::uint64_t track, double value) {
  ProtoMessage event, packet;
  event.integer(field::kType, kCount)
      .integer(field::kTrackUuid, track)
      .real(field::kDoubleCounterValue, value);
  packet.integer(field::kTimestamp, static_cast<std::uint64_t>(time / kFsPerNsInteger))
      .message(field::kTrackEvent, event)
      .integer(field::kSequence, kSequenceId);
  write_packet(packet);
}

std::string Perfetto::location(const isa::Inst& inst) const {
  if (inst.loc.kernel_file == 0 || inst.loc.kernel_file > program_->files().size()) return {};
  return program_->files()[inst.loc.kernel_file - 1] + ":" + std::to_string(inst.loc.kernel_line);
}

// The parts of an instruction follow each other, so its text is made once.
std::string_view Perfetto::operands(const models::PartEvent& event) {
  Disassembled& last = disassembled_.at(static_cast<std::size_t>(engine_of(event.part->unit)));
  if (event.inst->args.size() != isa::spec(*event.inst).params.size())
    return {};  // not a program's
  if (last.inst != event.inst) last = {event.inst, isa::disasm_parts(*program_, *event.inst)};
  const auto part = static_cast<std::size_t>(event.part_index);
  return part < last.parts.size() ? std::string_view(last.parts[part]) : std::string_view();
}

void Perfetto::on_event(const models::PartEvent& event) {
  const isa::Part& part = *event.part;
  Slice slice{.name = std::string(program_->opcode_name(part.opcode)),
              .start = event.start,
              .end = event.end,
              .annotations = {}};
  ProtoMessage& a = slice.annotations;
  annotate(a, key_id("timestamp"), event.start / kFsPerNsInteger);
  annotate(a, key_id("duration"), (event.end - event.start) / kFsPerNsInteger);
  annotate(a, key_id("opcode"), slice.name);
  annotate(a, key_id("id"), static_cast<std::int64_t>(event.sequence));
  annotate(a, key_id("instruction"), isa::spec(*event.inst).name);
  annotate(a, key_id("elements"), part.elements);
  annotate(a, key_id("pc"), event.inst->loc.trace_line);
  annotate(a, key_id("label"), isa::name(part.unit));
  annotate(a, key_id("subgroup"), isa::name(isa::unit_of(engine_of(part.unit))));
  const std::string_view text = operands(event);
  if (!text.empty()) annotate(a, key_id("operands"), text);
  const std::string where = location(*event.inst);
  if (!where.empty()) annotate(a, key_id("nki_source_location"), where);
  if (!event.mode.empty()) annotate(a, key_id("performance_mode"), event.mode);
  if (event.throttled > 0) annotate(a, key_id("throttled"), event.throttled / kFsPerNsInteger);
  const bool waited = event.wait.producer != models::kNoQueue;
  if (waited) annotate(a, key_id("waited_for"), queue_names_[{event.core, event.wait.producer}]);
  if (options_.flows) {
    const auto queue = static_cast<models::QueueIndex>(engine_of(part.unit));
    slice.flow = flow_id(event.core, queue, event.sequence);
    if (waited) {
      slice.ends_flow = flow_id(event.core, event.wait.producer, event.wait.producer_sequence);
    }
  }
  write_slice(event.core, std::string(isa::name(part.unit)) + " Engine", slice);
  if (event.kind != models::PartKind::kArray || part.unit != isa::Unit::kTensorMatrix) return;
  changes_[{event.core, "Throttling"}].emplace_back(event.start, event.throttled > 0 ? 1.0 : 0.0);
}

void Perfetto::on_event(const models::DmaLaneEvent& event) {
  Slice slice{.name = queue_names_[{event.core, event.queue}],
              .start = event.start,
              .end = event.end,
              .annotations = {}};
  annotate(slice.annotations, key_id("transfer_size"), event.bytes);
  annotate(slice.annotations, key_id("packets"), event.packets);
  annotate(slice.annotations, key_id("id"), static_cast<std::int64_t>(event.sequence));
  write_slice(event.core, "DMA Engine " + std::to_string(event.engine), slice);
  const double rate =
      static_cast<double>(event.bytes) / std::max(1.0, models::to_ns(event.end - event.start));
  auto& changes = changes_[{event.core, "DMA Throughput"}];
  changes.emplace_back(event.start, rate);
  changes.emplace_back(event.end, -rate);
}

void Perfetto::on_event(const models::DmaEvent& event) {
  Slice slice{.name = std::string(isa::spec(*event.inst).name),
              .start = event.trigger_start,
              .end = event.visible,
              .annotations = {}};
  annotate(slice.annotations, key_id("transfer_size"), event.work->bytes);
  annotate(slice.annotations, key_id("packets"), event.packets);
  annotate(slice.annotations, key_id("id"), static_cast<std::int64_t>(event.sequence));
  annotate(slice.annotations, key_id("first_packet"), event.first_packet / kFsPerNsInteger);
  const std::string where = location(*event.inst);
  if (!where.empty()) annotate(slice.annotations, key_id("nki_source_location"), where);
  if (options_.flows) slice.flow = flow_id(event.core, event.queue, event.sequence);
  write_slice(event.core, queue_names_[{event.core, event.queue}], slice);
  auto& changes = changes_[{event.core, "Pending DMA Count"}];
  changes.emplace_back(event.trigger_start, 1);
  changes.emplace_back(event.visible, -1);
}

void Perfetto::on_event(const models::SemaphoreEvent& event) {
  const std::string label = "S[" + std::to_string(event.semaphore) + "]";
  Slice slice{.name = label + " = " + std::to_string(event.value),
              .start = event.time,
              .end = event.time,
              .annotations = {}};
  write_event(event.time, kInstant, instant_track(event.core, label), &slice);
}

// Sums of changes become values; the throttling series is a value already.
void Perfetto::write_counters() {
  for (auto& [key, changes] : changes_) {
    const bool absolute = key.second == "Throttling";
    const std::string unit = key.second == "DMA Throughput" ? "GB/s" : "";
    const std::uint64_t track = counter_track(key.first, key.second, unit);
    std::stable_sort(changes.begin(), changes.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    double value = 0;
    for (std::size_t i = 0; i < changes.size(); ++i) {
      value = absolute ? changes[i].second : value + changes[i].second;
      if (i + 1 < changes.size() && changes[i + 1].first == changes[i].first) continue;
      write_counter(changes[i].first, track, value);
    }
  }
}

void Perfetto::on_end(Fs /*end*/) {
  write_counters();
  out_.flush();
}

}  // namespace nkisim
