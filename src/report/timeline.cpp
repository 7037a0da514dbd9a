// Makes tracks, slices and counters of a timeline from a run's events.

#include "src/report/timeline.hpp"

#include <algorithm>

namespace nkisim {
namespace {

using models::Fs;

std::uint64_t flow_id(int core, models::QueueIndex queue, std::uint64_t sequence) {
  return (static_cast<std::uint64_t>(core) << 60U) ^ (static_cast<std::uint64_t>(queue) << 44U) ^
         (sequence + 1);
}

constexpr std::size_t kMostTexts = std::size_t{1}
                                   << 16U;  // with a number; others stand where they are used

// The value of `list` at `index`, which exists from now on.
template <typename T>
T& at(std::vector<T>& list, std::size_t index) {
  if (index >= list.size()) list.resize(index + 1);
  return list[index];
}

}  // namespace

void Timeline::on_start(const isa::Program& program, const models::Config& config) {
  program_ = &program;
  config_ = config;
  occupancy_ = std::make_unique<Occupancy>(program);
  operands_ = std::make_unique<PartTexts>(program);
  labels_.fill(kNotAsked);
  subgroups_.fill(kNotAsked);
  for (const auto& w : writers_) w->begin();
}

void Timeline::on_queue(const models::QueueName& queue) {
  this->queue(queue.core, queue.index).name = queue.name;
}

Timeline::Core& Timeline::core(int id) { return at(cores_, static_cast<std::size_t>(id)); }

Timeline::Queue& Timeline::queue(int core_id, models::QueueIndex index) {
  return at(core(core_id).queues, index);
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
std::uint64_t Timeline::row_for(int core, Rows& rows, const std::string& family) {
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
  slice_.arg_count = 0;
  slice_.flow = slice_.ends_flow = 0;
}

// 0: it has none.
std::int64_t Timeline::number_of(std::string_view text) {
  const auto found = numbers_.find(text);
  if (found != numbers_.end()) return found->second;
  if (numbers_.size() >= kMostTexts) return 0;
  const auto number = static_cast<std::int64_t>(numbers_.size()) + 1;
  numbers_.emplace(text, number);
  return number;
}

// `number` is the text's, or kNotAsked.
void Timeline::argue(ArgKey key, std::string_view text, std::int64_t& number) {
  if (text.empty()) return;
  if (number == kNotAsked) number = number_of(text);
  slice_.args.at(slice_.arg_count++) = {key, number, text};
}

void Timeline::argue(ArgKey key, std::string_view text) {
  std::int64_t number = kNotAsked;
  argue(key, text, number);
}

void Timeline::write_slice(int core, Rows& rows, const std::string& family) {
  const std::uint64_t track = row_for(core, rows, family);
  for (const auto& w : writers_) w->slice(track, slice_);
}

void Timeline::write_unit_slice(int core_id, isa::Unit unit) {
  const std::string family = std::string(isa::name(unit)) + " Engine";
  Rows*& rows = core(core_id).units.at(static_cast<std::size_t>(unit));
  if (rows == nullptr) rows = &rows_[{core_id, family}];
  write_slice(core_id, *rows, family);
}

void Timeline::argue_source(const isa::Inst& inst) {
  if (inst.loc.kernel_file == 0) return;
  const std::uint64_t key = std::uint64_t{inst.loc.kernel_file} << 32U | inst.loc.kernel_line;
  const auto [place, is_new] = places_.try_emplace(key);
  if (is_new) place->second.text = program_->shared_place(inst);
  argue(ArgKey::kSource, place->second.text, place->second.number);
}

void Timeline::argue_opcode(ArgKey key, isa::Opcode opcode) {
  Text& known = at(opcodes_, static_cast<std::size_t>(opcode));
  if (known.text.empty()) known.text = program_->opcode_name(opcode);
  argue(key, known.text, known.number);
}

void Timeline::argue_operands(const models::PartEvent& event) {
  if (event.inst->args.size() != isa::spec(*event.inst).params.size()) return;  // not a program's
  if (event.part_index < 0) {                                                   // added for it
    argue_opcode(ArgKey::kOperands, event.part->opcode);
    return;
  }
  PartTexts::Lines& lines = operands_->of(*event.inst);
  const auto part = static_cast<std::size_t>(event.part_index);
  if (part < lines.texts.size()) argue(ArgKey::kOperands, lines.texts[part], lines.numbers[part]);
}

void Timeline::on_event(const models::PartEvent& event) {
  const isa::Part& part = *event.part;
  start_slice(program_->opcode_name(part.opcode), event.start, event.end);
  argue(ArgKey::kTimestamp, event.start / kFsPerNsInteger);
  argue(ArgKey::kDuration, (event.end - event.start) / kFsPerNsInteger);
  argue_opcode(ArgKey::kOpcode, part.opcode);
  argue(ArgKey::kId, static_cast<std::int64_t>(event.sequence));
  Text& op = at(ops_, static_cast<std::size_t>(event.inst->op));
  argue(ArgKey::kInstruction, isa::spec(*event.inst).name, op.number);
  argue(ArgKey::kElements, part.elements);
  argue(ArgKey::kPc, event.inst->loc.trace_line);
  const auto unit = static_cast<std::size_t>(part.unit);
  argue(ArgKey::kLabel, isa::name(part.unit), labels_.at(unit));
  argue(ArgKey::kSubgroup, isa::name(isa::unit_of(engine_of(part.unit))), subgroups_.at(unit));
  argue_operands(event);
  argue_source(*event.inst);
  if (!event.mode.empty()) {
    argue(ArgKey::kMode, event.mode,
          modes_.try_emplace(event.mode.data(), kNotAsked).first->second);
  }
  if (event.throttled > 0) argue(ArgKey::kThrottled, event.throttled / kFsPerNsInteger);
  const bool waited = event.wait.producer != models::kNoQueue;
  if (waited) {
    Queue& producer = queue(event.core, event.wait.producer);
    argue(ArgKey::kWaitedFor, producer.name, producer.number);
  }
  if (flows_) {
    const auto queue = static_cast<models::QueueIndex>(engine_of(part.unit));
    slice_.flow = flow_id(event.core, queue, event.sequence);
    if (waited) {
      slice_.ends_flow = flow_id(event.core, event.wait.producer, event.wait.producer_sequence);
    }
  }
  write_unit_slice(event.core, part.unit);
  occupancy_->add(*event.inst, event.start, event.end);
  if (event.kind != models::PartKind::kArray || part.unit != isa::Unit::kTensorMatrix) return;
  core(event.core).throttling.emplace_back(event.start, event.throttled > 0 ? 1.0 : 0.0);
}

void Timeline::on_event(const models::DmaLaneEvent& event) {
  start_slice(queue(event.core, event.queue).name, event.start, event.end);
  argue(ArgKey::kSize, event.bytes);
  argue(ArgKey::kPackets, event.packets);
  argue(ArgKey::kId, static_cast<std::int64_t>(event.sequence));
  Core& mine = core(event.core);
  Rows*& rows = at(mine.dma_engines, static_cast<std::size_t>(event.engine));
  const std::string family = "DMA Engine " + std::to_string(event.engine);
  if (rows == nullptr) rows = &rows_[{event.core, family}];
  write_slice(event.core, *rows, family);
  const double rate =
      static_cast<double>(event.bytes) / std::max(1.0, models::to_ns(event.end - event.start));
  mine.throughput.emplace_back(event.start, rate);
  mine.throughput.emplace_back(event.end, -rate);
}

void Timeline::on_event(const models::DmaEvent& event) {
  start_slice(isa::spec(*event.inst).name, event.trigger_start, event.visible);
  argue(ArgKey::kSize, event.work->bytes);
  argue(ArgKey::kPackets, event.packets);
  argue(ArgKey::kId, static_cast<std::int64_t>(event.sequence));
  argue(ArgKey::kFirstPacket, event.first_packet / kFsPerNsInteger);
  argue_source(*event.inst);
  if (flows_) slice_.flow = flow_id(event.core, event.queue, event.sequence);
  Queue& own = queue(event.core, event.queue);
  if (own.rows == nullptr) own.rows = &rows_[{event.core, own.name}];
  write_slice(event.core, *own.rows, own.name);
  occupancy_->add(*event.inst, event.trigger_start, event.visible);
  Changes& pending = core(event.core).pending;
  pending.emplace_back(event.trigger_start, 1);
  pending.emplace_back(event.visible, -1);
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

// Counters by name, those of a core together.
void Timeline::write_counters() {
  for (int id = 0; id < program_->cores(); ++id) {
    Core& mine = core(id);
    Changes sbuf = occupancy_->changes(isa::Space::kSbuf, id);
    Changes psum = occupancy_->changes(isa::Space::kPsum, id);
    write_counter(id, "DMA Throughput", mine.throughput);
    write_counter(id, "Pending DMA Count", mine.pending);
    write_counter(id, "Psum Usage", psum);
    write_counter(id, "Sb Usage", sbuf);
    write_counter(id, "Throttling", mine.throttling);
  }
}

// Sums of changes become values; the throttling series is a value already.
void Timeline::write_counter(int core, const std::string& name, Changes& changes) {
  if (changes.empty()) return;
  const bool absolute = name == "Throttling";
  const std::string unit = name == "DMA Throughput" ? "GB/s" : "";
  const std::uint64_t track = track_for(core, name, &unit);
  std::stable_sort(changes.begin(), changes.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  double value = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    value = absolute ? changes[i].second : value + changes[i].second;
    if (i + 1 < changes.size() && changes[i + 1].first == changes[i].first) continue;
    // Counters that go up and down leave rounding errors around zero.
    const double shown = value < 1e-9 ? 0 : value;
    for (const auto& w : writers_) w->counter(track, changes[i].first, shown);
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
