#include "src/report/timeline.hpp"

#include <algorithm>

#include "isa/program/disasm.hpp"

namespace nkisim {
namespace {

using models::Fs;

std::uint64_t flow_id(int core, models::QueueIndex queue, std::uint64_t sequence) {
  return (static_cast<std::uint64_t>(core) << 60U) ^ (static_cast<std::uint64_t>(queue) << 44U) ^
         (sequence + 1);
}

}  // namespace

void Timeline::on_start(const isa::Program& program, const models::Config& config) {
  program_ = &program;
  config_ = config;
  occupancy_ = std::make_unique<Occupancy>(program);
  for (const auto& w : writers_) w->begin();
}

void Timeline::on_queue(const models::QueueName& queue) {
  queue_names_[{queue.core, queue.index}] = queue.name;
}

std::uint64_t Timeline::process_track(int core) {
  auto& track = tracks_[{core, ""}];
  if (track != 0) return track;
  track = next_track_++;
  for (const auto& w : writers_) w->process(track, "Instructions " + std::to_string(core));
  return track;
}

std::uint64_t Timeline::track_for(int core, const std::string& name, const std::string* unit) {
  const std::uint64_t parent = process_track(core);
  auto& track = tracks_[{core, name}];
  if (track != 0) return track;
  track = next_track_++;
  for (const auto& w : writers_) w->track(track, parent, name, unit);
  return track;
}

// The first row of the family that is free when the slice begins.
std::uint64_t Timeline::row_for(int core, const std::string& family) {
  Rows& rows = rows_[{core, family}];
  std::size_t row = 0;
  while (row < rows.free_at.size() && rows.free_at[row] > slice_.start) ++row;
  if (row == rows.free_at.size()) {
    rows.free_at.push_back(0);
    rows.tracks.push_back(track_for(core, family + " - Row " + std::to_string(row)));
  }
  rows.free_at[row] = slice_.end;
  return rows.tracks[row];
}

void Timeline::start_slice(std::string_view name, Fs start, Fs end) {
  slice_.name = name;
  slice_.start = start;
  slice_.end = end;
  slice_.args.clear();
  slice_.flow = slice_.ends_flow = 0;
}

void Timeline::argue(ArgKey key, std::string_view text) {
  if (!text.empty()) slice_.args.push_back({key, 0, text});
}

void Timeline::write_slice(int core, const std::string& family) {
  const std::uint64_t track = row_for(core, family);
  for (const auto& w : writers_) w->slice(track, slice_);
}

void Timeline::argue_source(const isa::Inst& inst) {
  source_ = program_->kernel_place(inst);
  argue(ArgKey::kSource, source_);
}

// The parts of an instruction follow each other, so its text is made once.
std::string_view Timeline::operands(const models::PartEvent& event) {
  Disassembled& last = disassembled_.at(static_cast<std::size_t>(engine_of(event.part->unit)));
  if (event.inst->args.size() != isa::spec(*event.inst).params.size())
    return {};  // not a program's
  if (last.inst != event.inst) last = {event.inst, isa::disasm_parts(*program_, *event.inst)};
  if (event.part_index < 0) return program_->opcode_name(event.part->opcode);  // added for it
  const auto part = static_cast<std::size_t>(event.part_index);
  return part < last.parts.size() ? std::string_view(last.parts[part]) : std::string_view();
}

void Timeline::on_event(const models::PartEvent& event) {
  const isa::Part& part = *event.part;
  start_slice(program_->opcode_name(part.opcode), event.start, event.end);
  argue(ArgKey::kTimestamp, event.start / kFsPerNsInteger);
  argue(ArgKey::kDuration, (event.end - event.start) / kFsPerNsInteger);
  argue(ArgKey::kOpcode, slice_.name);
  argue(ArgKey::kId, static_cast<std::int64_t>(event.sequence));
  argue(ArgKey::kInstruction, isa::spec(*event.inst).name);
  argue(ArgKey::kElements, part.elements);
  argue(ArgKey::kPc, event.inst->loc.trace_line);
  argue(ArgKey::kLabel, isa::name(part.unit));
  argue(ArgKey::kSubgroup, isa::name(isa::unit_of(engine_of(part.unit))));
  argue(ArgKey::kOperands, operands(event));
  argue_source(*event.inst);
  argue(ArgKey::kMode, event.mode);
  if (event.throttled > 0) argue(ArgKey::kThrottled, event.throttled / kFsPerNsInteger);
  const bool waited = event.wait.producer != models::kNoQueue;
  if (waited) argue(ArgKey::kWaitedFor, queue_names_[{event.core, event.wait.producer}]);
  if (flows_) {
    const auto queue = static_cast<models::QueueIndex>(engine_of(part.unit));
    slice_.flow = flow_id(event.core, queue, event.sequence);
    if (waited) {
      slice_.ends_flow = flow_id(event.core, event.wait.producer, event.wait.producer_sequence);
    }
  }
  write_slice(event.core, std::string(isa::name(part.unit)) + " Engine");
  occupancy_->add(*event.inst, event.start, event.end);
  if (event.kind != models::PartKind::kArray || part.unit != isa::Unit::kTensorMatrix) return;
  changes_[{event.core, "Throttling"}].emplace_back(event.start, event.throttled > 0 ? 1.0 : 0.0);
}

void Timeline::on_event(const models::DmaLaneEvent& event) {
  start_slice(queue_names_[{event.core, event.queue}], event.start, event.end);
  argue(ArgKey::kSize, event.bytes);
  argue(ArgKey::kPackets, event.packets);
  argue(ArgKey::kId, static_cast<std::int64_t>(event.sequence));
  write_slice(event.core, "DMA Engine " + std::to_string(event.engine));
  const double rate =
      static_cast<double>(event.bytes) / std::max(1.0, models::to_ns(event.end - event.start));
  auto& changes = changes_[{event.core, "DMA Throughput"}];
  changes.emplace_back(event.start, rate);
  changes.emplace_back(event.end, -rate);
}

void Timeline::on_event(const models::DmaEvent& event) {
  start_slice(isa::spec(*event.inst).name, event.trigger_start, event.visible);
  argue(ArgKey::kSize, event.work->bytes);
  argue(ArgKey::kPackets, event.packets);
  argue(ArgKey::kId, static_cast<std::int64_t>(event.sequence));
  argue(ArgKey::kFirstPacket, event.first_packet / kFsPerNsInteger);
  argue_source(*event.inst);
  if (flows_) slice_.flow = flow_id(event.core, event.queue, event.sequence);
  write_slice(event.core, queue_names_[{event.core, event.queue}]);
  occupancy_->add(*event.inst, event.trigger_start, event.visible);
  auto& changes = changes_[{event.core, "Pending DMA Count"}];
  changes.emplace_back(event.trigger_start, 1);
  changes.emplace_back(event.visible, -1);
}

// Each core of a rank has triggered it; it is drawn once.
void Timeline::on_event(const models::CollectiveEvent& event) {
  if (event.core != 0) return;
  const models::RankTiming& here = event.part->timing;
  const std::vector<models::CcInstruction> instructions =
      cc_instructions(here, config_.collectives,
                      cc_core(config_.topology, program_->cores(), event.rank, event.part->stream));
  const std::string group = models::group_text(event.part->group);
  const std::string row = "CC-core " + std::to_string(cc_core(config_.topology, program_->cores(),
                                                              event.rank, event.part->stream));
  start_slice(profile_name(event.part->kind), here.start, here.end);
  argue(ArgKey::kSize, event.part->input_bytes);
  argue(ArgKey::kId, event.part->id);
  argue(ArgKey::kInstruction, isa::spec(*event.inst).name);
  argue(ArgKey::kAlgorithm, profile_name(event.part->algorithm));
  argue(ArgKey::kGroup, group);
  if (here.waited_for >= 0) argue(ArgKey::kWaitedForRank, here.waited_for);
  argue_source(*event.inst);
  if (flows_) slice_.flow = flow_id(event.core, event.queue, event.sequence);
  write_slice(event.core, row);
  for (const models::CcInstruction& i : instructions) {
    start_slice(i.description, i.start, i.end);
    argue(ArgKey::kId, event.part->id);
    write_slice(event.core, row + " instructions");
  }
  occupancy_->add(*event.inst, event.trigger_start, here.end);
}

void Timeline::on_event(const models::SemaphoreEvent& event) {
  const std::string label = "S[" + std::to_string(event.semaphore) + "]";
  const std::uint64_t track = track_for(event.core, label);
  for (const auto& w : writers_) {
    w->instant(track, event.time, label + " = " + std::to_string(event.value));
  }
}

// Sums of changes become values; the throttling series is a value already.
void Timeline::write_counters() {
  for (int core = 0; core < program_->cores(); ++core) {
    auto sbuf = occupancy_->changes(isa::Space::kSbuf, core);
    auto psum = occupancy_->changes(isa::Space::kPsum, core);
    if (!sbuf.empty()) changes_[{core, "Sb Usage"}] = std::move(sbuf);
    if (!psum.empty()) changes_[{core, "Psum Usage"}] = std::move(psum);
  }
  for (auto& [key, changes] : changes_) {
    const bool absolute = key.second == "Throttling";
    const std::string unit = key.second == "DMA Throughput" ? "GB/s" : "";
    const std::uint64_t track = track_for(key.first, key.second, &unit);
    std::stable_sort(changes.begin(), changes.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    double value = 0;
    for (std::size_t i = 0; i < changes.size(); ++i) {
      value = absolute ? changes[i].second : value + changes[i].second;
      if (i + 1 < changes.size() && changes[i + 1].first == changes[i].first) continue;
      // What comes and goes leaves rounding errors around zero.
      const double shown = value < 1e-9 ? 0 : value;
      for (const auto& w : writers_) w->counter(track, changes[i].first, shown);
    }
  }
}

void Timeline::on_end(const models::RunEnd& run) {
  write_counters();
  if (run.partial) {
    const std::uint64_t track = track_for(0, "Run");
    for (const auto& w : writers_) {
      w->instant(track, run.time, "interrupted here: this timeline is partial");
    }
  }
  for (const auto& w : writers_) w->end();
}

}  // namespace nkisim
