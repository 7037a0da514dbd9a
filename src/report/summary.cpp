// Adds up the events of a simulated run to the metrics of its summary.

#include "src/report/summary.hpp"

#include <algorithm>
#include <span>

namespace nkisim {
namespace {

using Json = nlohmann::ordered_json;
using models::Fs;

double seconds_of(Fs fs) { return static_cast<double>(fs) * 1e-15; }
double ratio(double a, double b) { return b > 0 ? a / b : 0; }
double number(std::int64_t n) { return static_cast<double>(n); }

Fs total(const std::vector<Interval>& intervals) {
  Fs sum = 0;
  for (const Interval& i : intervals) sum += i.end - i.start;
  return sum;
}

// Adds an interval that mostly begins after the last one: what touches that joins it.
void extend(std::vector<Interval>& all, Interval i) {
  while (!all.empty() && all.back().start >= i.start && all.back().start <= i.end) {
    i.end = std::max(i.end, all.back().end);
    all.pop_back();
  }
  if (all.empty() || i.start < all.back().start || i.start > all.back().end) {
    all.push_back(i);
  } else {
    all.back().end = std::max(all.back().end, i.end);
  }
}

// Adds up the time that any of several lists covers; each has sorted intervals that lie apart.
Fs union_time(const std::vector<const std::vector<Interval>*>& lists) {
  std::vector<std::span<const Interval>> left;
  for (const auto* list : lists) {
    if (!list->empty()) left.emplace_back(*list);
  }
  Fs sum = 0, covered = 0;
  while (!left.empty()) {
    const auto first = std::min_element(left.begin(), left.end(), [](const auto& a, const auto& b) {
      return a.front().start < b.front().start;
    });
    const Interval next = first->front();
    sum += std::max<Fs>(0, next.end - std::max(next.start, covered));
    covered = std::max(covered, next.end);
    *first = first->subspan(1);
    if (first->empty()) left.erase(first);
  }
  return sum;
}

// BF16-equivalent work of one operation (profile schema, adjusted_flops).
double bf16_equivalent(const isa::Part& part, isa::Generation generation) {
  if ((part.features & isa::kFeatMx) != 0) return 0.25;
  if ((part.features & isa::kFeatFp32) != 0) return 4;
  if ((part.features & isa::kFeatFp8) != 0) return generation == isa::Generation::kV2 ? 1 : 0.5;
  return 1;
}

// Set-up and clean-up, which total_exec_time leaves out (profile schema).
bool is_setup(isa::Opcode opcode) {
  using enum isa::Opcode;
  constexpr std::array kSetup = {
      kNOP,         kSET_ORDERING_MODE, kEVENT_SEMAPHORE, kEVENT_SEMAPHORE_RANGE_CLEAR,
      kNOTIFY,      kCOMPARE_BRANCH,    kDRAIN,           kWRITE,
      kTENSOR_LOAD, kMODIFY_POOL_CONFIG};
  return std::find(kSetup.begin(), kSetup.end(), opcode) != kSetup.end();
}

void cover(Interval& span, Fs start, Fs end) {
  span.start = std::min(span.start, start);
  span.end = std::max(span.end, end);
}

Fs length(const Interval& span) { return std::max<Fs>(0, span.end - span.start); }

}  // namespace

Fs merge_intervals(std::vector<Interval>& intervals) {
  const auto earlier = [](const Interval& a, const Interval& b) { return a.start < b.start; };
  if (!std::is_sorted(intervals.begin(), intervals.end(), earlier)) {
    std::sort(intervals.begin(), intervals.end(), earlier);
  }
  std::size_t kept = 0;
  Fs total = 0;
  for (const Interval& i : intervals) {
    if (kept > 0 && i.start <= intervals[kept - 1].end) {
      Interval& last = intervals[kept - 1];
      total += std::max<Fs>(0, i.end - last.end);
      last.end = std::max(last.end, i.end);
    } else {
      intervals[kept++] = i;
      total += i.end - i.start;
    }
  }
  intervals.resize(kept);
  return total;
}

void Summary::on_start(const isa::Program& program, const models::Config& config) {
  program_ = &program;
  config_ = &config;
  cores_.assign(static_cast<std::size_t>(program.cores()), {});
  for (const isa::Tensor& t : program.tensors()) {
    using enum isa::TensorRole;
    if (t.space != isa::Space::kHbm) continue;
    spills_ |= t.spill;
    if (t.role == kInput || t.role == kConstant || t.role == kInputOutput) {
      input_bytes_ += t.extent_bytes();
    }
    if (t.role == kConstant) weight_bytes_ += t.extent_bytes();
    if (t.role == kOutput || t.role == kInputOutput) output_bytes_ += t.extent_bytes();
  }
}

Summary::CoreTotals& Summary::core(int id) { return cores_.at(static_cast<std::size_t>(id)); }

void Summary::on_queue(const models::QueueName& queue) {
  if (queue.index >= isa::kEngineCount) core(queue.core).queues.insert(queue.index);
}

void Summary::add_flops(CoreTotals& c, const isa::Part& part) const {
  const double flops = number(part.flops);
  const double adjusted = flops * bf16_equivalent(part, program_->machine().generation);
  c.flops += flops;
  c.adjusted_flops += adjusted;
  if ((part.features & isa::kFeatTranspose) == 0) return;
  c.transpose_flops += flops;
  c.adjusted_transpose_flops += adjusted;
}

// Throttling is active from the first slowed part of the array to the next that is not slowed.
void Summary::count_throttle(CoreTotals& c, const models::PartEvent& event) {
  if (event.part->unit != isa::Unit::kTensorMatrix || event.busy_to <= event.busy_from) return;
  c.throttled += event.throttled;
  if (event.throttled == 0) {
    c.slow_until = 0;
    return;
  }
  const models::Fs from = c.slow_until > 0 ? c.slow_until : event.busy_from;
  c.slow_until = std::max(from, event.busy_to);
  c.slow_time += c.slow_until - from;
}

// The array says when data stream through it; other engines take an element a cycle.
Fs Summary::streaming(const models::PartEvent& event) const {
  if (event.kind == models::PartKind::kArray) return event.busy_to - event.busy_from;
  const auto engine = static_cast<std::size_t>(engine_of(event.part->unit));
  const double ns = number(event.part->elements) / config_->engines.at(engine).clock_ghz;
  return std::min(event.end - event.start, models::from_ns(ns));
}

void Summary::on_event(const models::PartEvent& event) {
  CoreTotals& c = core(event.core);
  const isa::Part& part = *event.part;
  EngineTotals& e = c.engines.at(static_cast<std::size_t>(engine_of(part.unit)));
  extend(e.active, {event.start, event.end});
  e.time += event.end - event.start;
  e.streaming += streaming(event);
  ++e.count;
  cover(c.span, event.start, event.end);
  if (!is_setup(part.opcode)) cover(c.exec_span, event.start, event.end);
  count_throttle(c, event);
  c.sbuf_read += part.sbuf_read_bytes;
  c.sbuf_write += part.sbuf_write_bytes;
  c.psum_read += part.psum_read_bytes;
  c.psum_write += part.psum_write_bytes;
  if (part.psum_read_bytes > 0 && part.sbuf_write_bytes > 0) {
    ++c.evicted.count;
    c.evicted.bytes += part.psum_read_bytes;
  }
  if (part.unit == isa::Unit::kTensorMatrix) {
    ++c.matmuls;
    c.matmul_time += event.busy_to - event.busy_from;
    add_flops(c, part);
  }
  if (part.opcode == isa::Opcode::kACTIVATE) {
    ++c.activates;
    c.activate_time += event.end - event.start;
  }
}

void Summary::on_event(const models::DmaLaneEvent& event) {
  CoreTotals& c = core(event.core);
  c.packet_time += event.end - event.start;
  cover(c.span, event.start, event.end);
  cover(c.exec_span, event.start, event.end);
  ++c.lanes;
}

void Summary::on_event(const models::SemaphoreEvent& event) {
  ++core(event.core).semaphore_updates;
}

void Summary::on_event(const models::CollectiveEvent& event) {
  CoreTotals& c = core(event.core);
  const models::RankTiming& here = event.part->timing;
  cover(c.span, event.trigger_end, here.end);
  cover(c.exec_span, event.trigger_end, here.end);
  c.cc_ops.push_back({here.start, here.end});
  for (const models::CcInstruction& i : cc_instructions(here, config_->collectives, 0)) {
    c.cc_instructions.push_back({i.start, i.end});
  }
}

void Summary::on_event(const models::DmaEvent& event) {
  CoreTotals& c = core(event.core);
  DmaClass& d = c.dma.at(static_cast<std::size_t>(event.mode));
  if (event.packets > 0) extend(d.active, {event.first_packet, event.last_packet});
  d.packets += event.packets;
  d.bytes += event.work->bytes;
  ++c.transfers;
  c.transfer_time += event.last_packet - event.trigger_start;
  const auto count = [&](isa::Space space, std::int64_t& hbm, std::int64_t& sbuf) {
    (space == isa::Space::kHbm ? hbm : sbuf) += event.work->bytes;
  };
  count(event.work->src, c.hbm_read, c.sbuf_read);
  count(event.work->dst, c.hbm_write, c.sbuf_write);
  if (event.mode == isa::DgeMode::kNone) add_static_bytes(c, event);
  if (spills_) add_spilled(c, event);
}

// Stores to tensors that the compiler made for tiles that leave SBUF, and loads from them.
void Summary::add_spilled(CoreTotals& c, const models::DmaEvent& event) const {
  isa::for_each_tensor(*event.inst, [&](const isa::TensorRef& ref, const auto&, bool write) {
    if (ref.tensor >= program_->tensors().size() || !program_->tensors()[ref.tensor].spill) return;
    c.spilled.at(write ? 0 : 1) += event.work->bytes;
  });
}

// Queues prepared before the run are of a kind: inputs, outputs or data (weights).
void Summary::add_static_bytes(CoreTotals& c, const models::DmaEvent& event) const {
  std::int64_t* kind = nullptr;
  isa::for_each_tensor(*event.inst, [&](const isa::TensorRef& ref, const auto&, bool write) {
    using enum isa::TensorRole;
    if (ref.tensor >= program_->tensors().size()) return;
    const isa::TensorRole role = program_->tensors()[ref.tensor].role;
    if (write && (role == kOutput || role == kInputOutput)) kind = &c.output_queue;
    if (!write && (role == kInput || role == kInputOutput)) kind = &c.input_queue;
    if (!write && role == kConstant) kind = &c.weight_queue;
  });
  if (kind != nullptr) *kind += event.work->bytes;
}

void Summary::on_end(const models::RunEnd& run) {
  partial_ = run.partial;
  for (CoreTotals& c : cores_) {
    for (EngineTotals& e : c.engines) (void)merge_intervals(e.active);  // asked for many times
    for (DmaClass& d : c.dma) (void)merge_intervals(d.active);
    for (Interval* span : {&c.span, &c.exec_span}) {
      if (span->start == models::kNever) *span = {};
    }
  }
  if (path_ == nullptr) return;
  shares_ = path_shares(*path_, static_cast<int>(last_core()), path_->forgotten());
  path_ = nullptr;
}

std::size_t Summary::last_core() const {
  const auto earlier = [](const CoreTotals& a, const CoreTotals& b) {
    return a.span.end < b.span.end;
  };
  return static_cast<std::size_t>(std::max_element(cores_.begin(), cores_.end(), earlier) -
                                  cores_.begin());
}

std::optional<Bound> Summary::bound() const {
  if (!shares_) return {};
  const CoreTotals& c = cores_[last_core()];
  CoreWork work{.latency = length(c.span)};
  for (std::size_t e = 0; e < c.engines.size(); ++e) {
    work.active.at(e) = total(c.engines.at(e).active);
    work.streaming.at(e) = c.engines.at(e).streaming;
  }
  std::vector<const std::vector<Interval>*> moving;
  for (const DmaClass& d : c.dma) {
    work.bytes += d.bytes;
    work.packets += d.packets;
    moving.push_back(&d.active);
  }
  const int engines = std::max(1, config_->dma.engines);
  // Packets of several queues share the time of a DMA engine.
  work.dma = std::min(union_time(moving), c.packet_time / engines);
  work.dma_ideal = models::from_ns(number(work.bytes) / config_->dma.bytes_per_ns / engines);
  return bound_of(*shares_, work);
}

void Summary::put_overall(Json& out, const CoreTotals& c, double seconds) const {
  std::vector<const std::vector<Interval>*> all = {&busy_};
  for (const auto& e : c.engines) all.push_back(&e.active);
  for (const auto& d : c.dma) all.push_back(&d.active);
  const double active = seconds_of(union_time(all));
  out["total_time"] = seconds;
  out["total_exec_time"] = seconds_of(length(c.exec_span));
  out["total_active_time"] = active;
  out["total_active_time_percent"] = ratio(active, seconds);
  out["neuroncore_cycle_count"] =
      static_cast<std::int64_t>(std::llround(seconds * config_->base_clock_ghz * 1e9));
  std::int64_t instructions = 0;
  for (const auto& e : c.engines) instructions += e.count;
  out["trace_count"] = instructions + c.semaphore_updates + c.transfers;
  out["event_count"] = c.semaphore_updates;
  out["total_row_count"] = instructions + c.transfers + c.lanes + c.semaphore_updates;
}

void Summary::put_flops(Json& out, const CoreTotals& c, double seconds) const {
  const double peak = 2.0 * config_->pe_rows * config_->pe_columns *
                      config_->engines[static_cast<std::size_t>(isa::Engine::kTensor)].clock_ghz *
                      1e9 * joined_;
  const double bandwidth = config_->hbm.bytes_per_ns * 1e9 * joined_;
  const double hbm = number(c.hbm_read + c.hbm_write);
  const double useful = c.flops - c.transpose_flops;
  const double intensity = ratio(useful, hbm);
  out["hardware_flops"] = static_cast<std::int64_t>(c.flops);
  out["transpose_flops"] = static_cast<std::int64_t>(c.transpose_flops);
  out["model_flops"] = 0;  // known to a compiler's graph only
  out["adjusted_hardware_flops"] = static_cast<std::int64_t>(c.adjusted_flops);
  out["adjusted_transpose_flops"] = static_cast<std::int64_t>(c.adjusted_transpose_flops);
  out["mm_arithmetic_intensity"] = intensity;
  out["peak_flops_bandwidth_ratio"] = ratio(peak, bandwidth);
  const double mfu = ratio(useful, peak * seconds);
  const double reachable = std::min(1.0, ratio(intensity, ratio(peak, bandwidth)));
  out["mfu_estimated_percent"] = mfu;
  out["mfu_inst_estimated_percent"] = mfu;
  out["mfu_hlo_estimated_percent"] = 0.0;
  out["mfu_max_achievable_estimated_percent"] = reachable;
  out["mfu_inst_max_achievable_estimated_percent"] = reachable;
  out["mfu_hlo_max_achievable_estimated_percent"] = 0.0;
  out["hfu_estimated_percent"] = ratio(c.flops, peak * seconds);
  out["mbu_estimated_percent"] = ratio(hbm, seconds * bandwidth);
  out["mbu_min_read_util_percent"] = ratio(number(input_bytes_), seconds * bandwidth);
}

void Summary::put_engines(Json& out, const CoreTotals& c, double seconds) const {
  for (std::size_t i = 0; i < c.engines.size(); ++i) {
    const EngineTotals& e = c.engines.at(i);
    const std::string key = std::string(isa::name(static_cast<isa::Engine>(i))) + "_engine_";
    const Fs active = total(e.active);
    out[key + "active_time"] = seconds_of(active);
    out[key + "active_time_percent"] = ratio(seconds_of(active), seconds);
    out[key + "instruction_time"] = seconds_of(e.time);
    out[key + "instruction_count"] = e.count;
  }
  out["matmul_instruction_count"] = c.matmuls;
  out["activate_instruction_count"] = c.activates;
  out["activate_instruction_time"] = seconds_of(c.activate_time);
}

void Summary::put_dma(Json& out, const CoreTotals& c, double seconds) const {
  std::vector<const std::vector<Interval>*> all, dynamic;
  std::int64_t packets = 0, bytes = 0;
  for (std::size_t m = 0; m < c.dma.size(); ++m) {
    const DmaClass& d = c.dma.at(m);
    all.push_back(&d.active);
    if (static_cast<isa::DgeMode>(m) != isa::DgeMode::kNone) dynamic.push_back(&d.active);
    packets += d.packets;
    bytes += d.bytes;
  }
  const double active = seconds_of(union_time(all));
  out["dma_active_time"] = active;
  out["dma_active_time_percent"] = ratio(active, seconds);
  out["dma_active_cycles"] =
      static_cast<std::int64_t>(std::llround(active * config_->base_clock_ghz * 1e9));
  out["dma_packet_time"] = seconds_of(c.packet_time);
  out["dma_transfer_time"] = seconds_of(c.transfer_time);
  out["dma_transfer_count"] = c.transfers;
  out["dma_transfer_total_bytes"] = bytes;
  out["dma_transfer_average_bytes"] = ratio(number(bytes), number(c.transfers));
  out["dma_queue_count"] = static_cast<std::int64_t>(c.queues.size()) + c.other_queues;
  double dynamic_packets = 0, dynamic_bytes = 0;
  const std::pair<std::string, isa::DgeMode> classes[] = {
      {"static", isa::DgeMode::kNone},
      {"software_dynamic", isa::DgeMode::kSwdge},
      {"hardware_dynamic", isa::DgeMode::kHwdge}};
  for (const auto& [key, mode] : classes) {
    const DmaClass& d = c.dma.at(static_cast<std::size_t>(mode));
    const Fs time = total(d.active);
    out[key + "_dma_active_time"] = seconds_of(time);
    out[key + "_dma_active_time_percent"] = ratio(seconds_of(time), seconds);
    out[key + "_dma_packet_count"] = d.packets;
    out[key + "_dma_size"] = d.bytes;
    out[key + "_dma_packet_percent"] = ratio(number(d.packets), number(packets));
    out[key + "_dma_size_percent"] = ratio(number(d.bytes), number(bytes));
    if (mode == isa::DgeMode::kNone) continue;
    dynamic_packets += number(d.packets);
    dynamic_bytes += number(d.bytes);
  }
  out["dynamic_dma_active_time_percent"] = ratio(seconds_of(union_time(dynamic)), seconds);
  out["dynamic_dma_packet_percent"] = ratio(dynamic_packets, number(packets));
  out["dynamic_dma_size_percent"] = ratio(dynamic_bytes, number(bytes));
}

void Summary::put_memory(Json& out, const CoreTotals& c) const {
  out["hbm_read_bytes"] = c.hbm_read;
  out["hbm_write_bytes"] = c.hbm_write;
  out["sbuf_read_bytes"] = c.sbuf_read;
  out["sbuf_write_bytes"] = c.sbuf_write;
  out["psum_read_bytes"] = c.psum_read;
  out["psum_write_bytes"] = c.psum_write;
  out["psum_read_sbuf_write_count"] = c.evicted.count;
  out["psum_read_sbuf_write_bytes"] = c.evicted.bytes;
  out["input_queue_bytes"] = c.input_queue;
  out["output_queue_bytes"] = c.output_queue;
  out["weight_queue_bytes"] = c.weight_queue;
  out["spill_save_bytes"] = c.spilled[0];
  out["spill_reload_bytes"] = c.spilled[1];
  out["inputs_outputs_weights_size_bytes"] = input_bytes_ + output_bytes_;
  out["inputs_and_weights_size_bytes"] = input_bytes_;
  out["weight_size_bytes"] = weight_bytes_;
}

// Every core of a rank triggers its operations: all of them show the same.
void Summary::put_collectives(Json& out, const CoreTotals& c, double seconds) {
  const auto put = [&](const std::string& key, const std::vector<Interval>& list) {
    std::vector<Interval> apart = list;
    const Fs active = merge_intervals(apart);
    out[key + "_time"] = seconds_of(total(list));
    out[key + "_active_time"] = seconds_of(active);
    out[key + "_active_time_percent"] = ratio(seconds_of(active), seconds);
    out[key + "_count"] = list.size();
  };
  put("cc_op", c.cc_ops);
  put("cc_cores_instruction", c.cc_instructions);
}

// Average rate the limit allowed while the array streamed.
void Summary::put_throttle(Json& out, const CoreTotals& c, int id) const {
  if (!config_->throttle.enabled || c.matmuls == 0) return;
  const double limit =
      ratio(seconds_of(c.matmul_time) - seconds_of(c.throttled), seconds_of(c.matmul_time));
  out["throttle_avg_util_limit_nc" + std::to_string(id) + "_percent"] = limit;
  out["throttle_active_nc" + std::to_string(id) + "_time_ns"] = models::to_ns(c.slow_time);
}

nlohmann::ordered_json Summary::metrics(int id) const {
  const CoreTotals& c = cores_.at(static_cast<std::size_t>(id));
  const double seconds = seconds_of(length(c.span));
  Json out;
  if (partial_) out["partial"] = true;
  put_overall(out, c, seconds);
  put_flops(out, c, seconds);
  put_engines(out, c, seconds);
  put_dma(out, c, seconds);
  put_memory(out, c);
  put_collectives(out, c, seconds);
  if (joined_ == 1) put_throttle(out, c, id);
  out["instance_type"] = config_->instance_type;
  if (joined_ == 1) out["nc_idx"] = id;
  out["nd_idx"] = 0;
  return out;
}

Interval Summary::span() const {
  Interval all{models::kNever, 0};
  for (const CoreTotals& c : cores_) {
    if (length(c.span) > 0) cover(all, c.span.start, c.span.end);
  }
  return all.start == models::kNever ? Interval{} : all;
}

nlohmann::ordered_json Summary::json() const {
  Json out;
  for (std::size_t c = 0; c < cores_.size(); ++c) {
    out["nc_" + std::to_string(c)] = metrics(static_cast<int>(c));
  }
  return out;
}

}  // namespace nkisim
