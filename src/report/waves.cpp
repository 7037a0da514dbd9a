// Declares waveform signals for each block of the chip, and records their changes.

#include "src/report/waves.hpp"

#include <algorithm>
#include <cmath>

#include "isa/base/stable_order.hpp"
#include "isa/program/footprint.hpp"
#include "src/report/waits.hpp"

namespace nkisim {
namespace {
namespace of_waves {

using models::Fs;

constexpr Fs kWindow = 1'000'000'000;    // of HBM's bytes: a microsecond
constexpr int kDma = isa::kEngineCount;  // as an owner of a bank, besides the engines

// Modules of engines and owners.
std::string engine_name(int engine) {
  return engine == kDma ? "dma" : std::string(isa::name(static_cast<isa::Engine>(engine)));
}

// "tensor+vector".
std::string names_of(std::uint32_t engines) {
  std::string text;
  for (int e = 0; e <= kDma; ++e) {
    if ((engines >> static_cast<unsigned>(e) & 1U) == 0) continue;
    text += (text.empty() ? "" : "+") + engine_name(e);
  }
  return text;
}

// fn(time, spans under way in the order of their start) wherever these change.
template <typename Span, typename Fn>
void sweep(std::vector<Span>& spans, Fn&& fn) {
  isa::sort_stably(spans, [](const Span& a, const Span& b) { return a.from < b.from; });
  std::vector<const Span*> active;
  std::size_t next = 0;
  while (next < spans.size() || !active.empty()) {
    Fs now = next < spans.size() ? spans[next].from : models::kNever;
    for (const Span* s : active) now = std::min(now, s->to);
    std::erase_if(active, [now](const Span* s) { return s->to <= now; });
    for (; next < spans.size() && spans[next].from <= now; ++next) {
      if (spans[next].to > spans[next].from) active.push_back(&spans[next]);
    }
    fn(now, active);
  }
}

bool counted(const isa::Inst& inst, models::PartKind kind) {
  const isa::OpSpec& op = isa::spec(inst);
  return op.control == isa::OpSpec::Control::kNone && !op.on_sequencer && op.combine == nullptr &&
         kind != models::PartKind::kDmaTrigger;
}

}  // namespace of_waves
}  // namespace

void Waves::on_start(const isa::Program& program, const models::Config& config) {
  program_ = &program;
  config_ = config;
  costs_ = std::make_unique<models::CostTable>(config_, program);
  cores_.resize(static_cast<std::size_t>(program.cores()));
  for (Core& c : cores_) {
    c.dma_engines.resize(static_cast<std::size_t>(config_.dma.engines));
    c.banks.resize(static_cast<std::size_t>(program.machine().psum_banks));
    c.ports.resize(config_.ports.size());
    c.bank_ports.assign(config_.ports.size(), std::vector<Spans>(c.banks.size()));
  }
}

void Waves::on_queue(const models::QueueName& queue) {
  this->queue(queue.core, queue.index).name = queue.name;
}

Waves::Queue& Waves::queue(int id, models::QueueIndex index) {
  auto& queues = core(id).queues;
  if (index >= queues.size()) queues.resize(index + 1U);
  return queues[index];
}

std::string Waves::queue_name(int id, models::QueueIndex index) {
  if (index < isa::kEngineCount) return of_waves::engine_name(index);
  std::string name = queue(id, index).name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '.' || c <= ' '; }, '_');
  return name;
}

std::int64_t Waves::line_of(const isa::Inst& inst) {
  const std::uint64_t key = inst.loc.kernel_file == 0
                                ? inst.loc.trace_line
                                : std::uint64_t{inst.loc.kernel_file} << 32U | inst.loc.kernel_line;
  const auto [place, is_new] = places_.try_emplace(key);
  if (is_new) {
    const std::string text = inst.loc.kernel_file != 0
                                 ? program_->shared_place(inst)
                                 : "line:" + std::to_string(inst.loc.trace_line);
    place->second = vcd_.text(text.substr(text.rfind('/') + 1));  // viewers show its beginning
  }
  return place->second;
}

void Waves::add_waits(Engine& engine, const models::PartEvent& event) {
  const models::Wait& w = event.wait;
  const auto text = [&](WaitFor what) -> std::string {
    switch (what) {
      case WaitFor::kProducer:
        return queue_name(event.core, w.producer) +
               (w.semaphore >= 0 ? ":S" + std::to_string(w.semaphore) : "");
      case WaitFor::kCore:
        return "other_core";
      case WaitFor::kSemaphore:
        return "semaphore";
      case WaitFor::kPort:
        return "port:" + of_waves::engine_name(static_cast<int>(w.port_holder));
      case WaitFor::kDataPath:
        break;
    }
    return "data_path";
  };
  each_wait(w, event.start, isa::spec(*event.inst).rendezvous, [&](WaitFor what, Fs from, Fs to) {
    engine.waits.push_back({from, to, vcd_.text(text(what))});
  });
}

// fn(bank, tensor) of what an instruction touches in PSUM; where the address is known only at run
// time, of all that it may touch.
template <typename Fn>
void Waves::each_bank(const isa::Inst& inst, Fn&& fn) {
  const isa::Machine& m = program_->machine();
  if (inst.args.size() != isa::spec(inst).params.size()) return;  // not a program's
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool) {
    if (ref.space != isa::Space::kPsum) return;
    const isa::BucketRange range =
        isa::bucket_range(isa::static_footprint(ref, *program_), m.psum_bank_bytes(),
                          static_cast<std::size_t>(m.psum_banks));
    for (std::size_t b = range.from; b <= range.to; ++b) fn(b, ref.tensor);
  });
}

// The users of banks and shared ports: as SharedPort has it, for the interval of a part.
void Waves::add_memory(Core& c, const models::PartEvent& event) {
  const isa::Part& part = *event.part;
  const auto engine = static_cast<int>(engine_of(part.unit));
  if (part.psum_read_bytes + part.psum_write_bytes > 0) {
    each_bank(*event.inst, [&](std::size_t bank, std::uint32_t tensor) {
      c.banks[bank].push_back(
          {event.start, event.end, engine, vcd_.text(program_->tensor(tensor).name)});
    });
  }
  if (event.kind == models::PartKind::kSequencer || event.part_index < 0) return;
  for (std::size_t p = 0; p < config_.ports.size(); ++p) {
    const models::PortRule& rule = config_.ports[p];
    if ((rule.engines >> static_cast<unsigned>(engine) & 1U) == 0) continue;
    const Span held{event.start, event.start + costs_->cost(part).interval, engine};
    bool uses = false;
    if (rule.space == isa::Space::kPsum) {
      each_bank(*event.inst, [&](std::size_t bank, std::uint32_t) {
        uses = true;
        if (rule.per_bank) c.bank_ports[p][bank].push_back(held);
      });
    } else {
      isa::for_each_tensor(*event.inst, [&](const isa::TensorRef& ref, const auto&, bool) {
        uses = uses || ref.space == rule.space;
      });
    }
    if (uses && !rule.per_bank) c.ports[p].push_back(held);
  }
}

// The instruction that the engine's counter waits for has ended when the next one's parts come.
void Waves::close(Core& c, int engine) {
  Engine& e = c.engines.at(static_cast<std::size_t>(engine));
  if (!e.counts) return;
  if (static_cast<std::size_t>(engine) < c.queues.size()) {
    c.queues[static_cast<std::size_t>(engine)].completed.emplace_back(e.done, 1);
  }
  e.counts = false;
}

void Waves::count(Core& c, int engine, const models::PartEvent& event) {
  Engine& e = c.engines.at(static_cast<std::size_t>(engine));
  if (e.sequence != event.sequence) close(c, engine);
  e.sequence = event.sequence;
  e.counts = of_waves::counted(*event.inst, event.kind);
  const Fs update = config_.engines.at(static_cast<std::size_t>(engine)).update;
  e.done = std::max(e.done, event.end + update);
}

void Waves::on_event(const models::QueuedEvent& event) {
  Engine& e = core(event.core).engines.at(static_cast<std::size_t>(event.engine));
  e.queued.emplace_back(event.time, 1);
}

void Waves::on_event(const models::PartEvent& event) {
  Core& c = core(event.core);
  const auto engine = static_cast<int>(engine_of(event.part->unit));
  Engine& e = c.engines.at(static_cast<std::size_t>(engine));
  if (!std::exchange(e.begun, true) || e.last != event.sequence) {
    e.queued.emplace_back(event.start, -1);
    e.last = event.sequence;
  }
  e.parts.push_back({event.start, event.end, vcd_.text(isa::spec(*event.inst).name),
                     vcd_.text(program_->opcode_name(event.part->opcode)), line_of(*event.inst),
                     static_cast<std::int64_t>(event.sequence)});
  add_waits(e, event);
  add_memory(c, event);
  if (!program_->explicit_semaphores()) count(c, engine, event);
}

void Waves::on_event(const models::DmaLaneEvent& event) {
  Core& c = core(event.core);
  c.lanes[event.sequence].push_back(event);
  c.dma_engines.at(static_cast<std::size_t>(event.engine))
      .push_back({event.start, event.end, vcd_.text(queue_name(event.core, event.queue)),
                  static_cast<std::int64_t>(event.sequence)});
}

// The bytes of a share, spread evenly over its time.
void Waves::add_bytes(Windows& windows, const models::DmaLaneEvent& lane) {
  const Fs last = std::max(lane.end, lane.start + 1);
  const double rate = static_cast<double>(lane.bytes) / static_cast<double>(last - lane.start);
  for (Fs from = lane.start; from < last;) {
    const auto window = static_cast<std::size_t>(from / of_waves::kWindow);
    const Fs to = std::min(last, static_cast<Fs>(window + 1) * of_waves::kWindow);
    if (window >= windows.size()) windows.resize(window + 1, 0);
    windows[window] += rate * static_cast<double>(to - from);
    from = to;
  }
}

void Waves::on_event(const models::DmaEvent& event) {
  Core& c = core(event.core);
  Queue& q = queue(event.core, event.queue);
  q.transfers.emplace_back(event.trigger_end, 1);
  q.transfers.emplace_back(event.visible, -1);
  q.bytes.emplace_back(event.trigger_end, event.work->bytes);
  q.bytes.emplace_back(event.visible, -event.work->bytes);
  q.completed.emplace_back(event.visible, 1);
  if (event.last_packet > event.first_packet) {
    q.moving.emplace_back(event.first_packet, 1);
    q.moving.emplace_back(event.last_packet, -1);
  }
  if (event.work->src == isa::Space::kPsum || event.work->dst == isa::Space::kPsum) {
    each_bank(*event.inst, [&](std::size_t bank, std::uint32_t tensor) {
      c.banks[bank].push_back({event.first_packet, event.last_packet, of_waves::kDma,
                               vcd_.text(program_->tensor(tensor).name)});
    });
  }
  const auto lanes = c.lanes.extract(event.sequence);
  if (lanes.empty()) return;
  for (const models::DmaLaneEvent& lane : lanes.mapped()) {
    if (event.work->src == isa::Space::kHbm) add_bytes(read_, lane);
    if (event.work->dst == isa::Space::kHbm) add_bytes(written_, lane);
  }
}

void Waves::on_event(const models::SemaphoreEvent& event) {
  core(event.core).semaphores[event.semaphore].emplace_back(event.time, event.value);
}

// Each core of a rank has triggered it; it is shown once.
void Waves::on_event(const models::CollectiveEvent& event) {
  const models::RankTiming& here = event.part->timing;
  queue(event.core, event.queue).completed.emplace_back(here.end, 1);
  if (event.core != 0) return;
  const int cc = cc_core(config_.topology, program_->cores(), event.rank, event.part->stream);
  collectives_[cc].push_back({here.start, here.end, vcd_.text(profile_name(event.part->kind))});
}

void Waves::on_end(const models::RunEnd& run) {
  end_ = run.time;
  partial_ = run.partial;
}

void Waves::build_latest(const std::string& module, const std::string& name, Spans& spans) {
  const Vcd::Signal signal = vcd_.add(module, name, Vcd::Kind::kText);
  of_waves::sweep(spans, [&](Fs now, const std::vector<const Span*>& active) {
    vcd_.change(signal, now, active.empty() ? Vcd::idle() : active.back()->first);
  });
}

void Waves::build_engine(const std::string& module, Engine& engine) {
  const Vcd::Signal busy = vcd_.add(module, "busy", Vcd::Kind::kBit);
  const Vcd::Signal instruction = vcd_.add(module, "instruction", Vcd::Kind::kText);
  const Vcd::Signal opcode = vcd_.add(module, "opcode", Vcd::Kind::kText);
  const Vcd::Signal line = vcd_.add(module, "line", Vcd::Kind::kText);
  const Vcd::Signal sequence = vcd_.add(module, "sequence", Vcd::Kind::kNumber);
  const Vcd::Signal under_way = vcd_.add(module, "under_way", Vcd::Kind::kNumber);
  of_waves::sweep(engine.parts, [&](Fs now, const std::vector<const Span*>& active) {
    const Span* last = active.empty() ? nullptr : active.back();
    vcd_.change(busy, now, last != nullptr ? 1 : 0);
    vcd_.change(instruction, now, last != nullptr ? last->first : Vcd::idle());
    vcd_.change(opcode, now, last != nullptr ? last->second : Vcd::idle());
    vcd_.change(line, now, last != nullptr ? last->third : Vcd::idle());
    if (last != nullptr) vcd_.change(sequence, now, last->fourth);
    vcd_.change(under_way, now, static_cast<std::int64_t>(active.size()));
  });
  build_latest(module, "waits_for", engine.waits);
  build_number(module, "queued", engine.queued);
}

// Sums of changes become values.
void Waves::build_number(const std::string& module, const std::string& name, Changes& changes,
                         Vcd::Kind kind) {
  const Vcd::Signal signal = vcd_.add(module, name, kind);
  isa::sort_stably(changes, [](const auto& a, const auto& b) { return a.first < b.first; });
  std::int64_t value = 0;
  for (const auto& [time, by] : changes) {
    value += by;
    vcd_.change(signal, time, kind == Vcd::Kind::kBit ? std::min<std::int64_t>(value, 1) : value);
  }
}

void Waves::build_dma(const std::string& module, Core& c) {
  for (std::size_t e = 0; e < c.dma_engines.size(); ++e) {
    const std::string own = module + ".engine" + std::to_string(e);
    const Vcd::Signal busy = vcd_.add(own, "busy", Vcd::Kind::kBit);
    const Vcd::Signal from = vcd_.add(own, "queue", Vcd::Kind::kText);
    const Vcd::Signal sequence = vcd_.add(own, "sequence", Vcd::Kind::kNumber);
    of_waves::sweep(c.dma_engines[e], [&](Fs now, const std::vector<const Span*>& active) {
      vcd_.change(busy, now, active.empty() ? 0 : 1);
      if (active.empty()) return;  // the last one stays
      vcd_.change(from, now, active.back()->first);
      vcd_.change(sequence, now, active.back()->second);
    });
  }
  for (std::size_t q = isa::kEngineCount; q < c.queues.size(); ++q) {
    if (c.queues[q].transfers.empty()) continue;
    const auto index = static_cast<models::QueueIndex>(q);
    const std::string own = module + "." + queue_name(static_cast<int>(&c - cores_.data()), index);
    build_number(own, "transfers", c.queues[q].transfers);
    build_number(own, "bytes", c.queues[q].bytes);
    build_number(own, "moving", c.queues[q].moving, Vcd::Kind::kBit);
  }
}

void Waves::build_owner(const std::string& module, Spans& spans, bool with_tensor) {
  const Vcd::Signal owner = vcd_.add(module, with_tensor ? "owner" : "port", Vcd::Kind::kText);
  const Vcd::Signal tensor = with_tensor ? vcd_.add(module, "tensor", Vcd::Kind::kText) : owner;
  of_waves::sweep(spans, [&](Fs now, const std::vector<const Span*>& active) {
    std::uint32_t engines = 0;
    for (const Span* s : active) engines |= 1U << static_cast<unsigned>(s->first);
    if (with_tensor) {
      vcd_.change(tensor, now, active.empty() ? Vcd::idle() : active.back()->second);
    }
    vcd_.change(owner, now, vcd_.text(of_waves::names_of(engines)));
  });
}

void Waves::build_memories(const std::string& module, Core& c) {
  const auto each_port = [&](isa::Space space, bool per_bank, const auto& fn) {
    for (std::size_t p = 0; p < config_.ports.size(); ++p) {
      const models::PortRule& rule = config_.ports[p];
      if (rule.space == space && rule.per_bank == per_bank) fn(p);
    }
  };
  for (std::size_t b = 0; b < c.banks.size(); ++b) {
    const std::string bank = module + ".psum.bank" + std::to_string(b);
    build_owner(bank, c.banks[b], true);
    each_port(isa::Space::kPsum, true,
              [&](std::size_t p) { build_owner(bank, c.bank_ports[p][b], false); });
  }
  each_port(isa::Space::kPsum, false,
            [&](std::size_t p) { build_owner(module + ".psum", c.ports[p], false); });
  each_port(isa::Space::kSbuf, false,
            [&](std::size_t p) { build_owner(module + ".sbuf", c.ports[p], false); });
}

void Waves::build_semaphores(const std::string& module, Core& c) {
  for (auto& [number, values] : c.semaphores) {
    const Vcd::Signal signal = vcd_.add(module, "S" + std::to_string(number), Vcd::Kind::kNumber);
    for (const auto& [time, value] : values) vcd_.change(signal, time, value);
  }
  if (program_->explicit_semaphores()) return;
  for (int e = 0; e < isa::kEngineCount; ++e) close(c, e);
  for (std::size_t q = 0; q < c.queues.size(); ++q) {
    if (c.queues[q].completed.empty()) continue;
    build_number(
        module,
        queue_name(static_cast<int>(&c - cores_.data()), static_cast<models::QueueIndex>(q)),
        c.queues[q].completed);
  }
}

// Bytes of each window, as whole numbers of the same sum.
void Waves::build_windows(const std::string& name, const Windows& windows) {
  const Vcd::Signal signal = vcd_.add("hbm", name, Vcd::Kind::kNumber);
  double sum = 0;
  std::int64_t reported = 0;
  for (std::size_t w = 0; w < windows.size(); ++w) {
    sum += windows[w];
    const std::int64_t now = std::llround(sum);
    vcd_.change(signal, static_cast<Fs>(w) * of_waves::kWindow, now - reported);
    reported = now;
  }
  vcd_.change(signal, static_cast<Fs>(windows.size()) * of_waves::kWindow, 0);
}

void Waves::build() {
  if (std::exchange(built_, true)) return;
  for (std::size_t id = 0; id < cores_.size(); ++id) {
    Core& c = cores_[id];
    const std::string module = "nc" + std::to_string(id);
    for (int e = 0; e < isa::kEngineCount; ++e) {
      build_engine(module + "." + of_waves::engine_name(e),
                   c.engines.at(static_cast<std::size_t>(e)));
    }
    build_dma(module + ".dma", c);
    build_memories(module, c);
    build_semaphores(module + ".semaphores", c);
  }
  for (auto& [cc, spans] : collectives_) {
    build_latest("cc" + std::to_string(cc), "operation", spans);
  }
  build_windows("read_bytes_per_us", read_);
  build_windows("written_bytes_per_us", written_);
  cores_.clear();
}

void Waves::write(std::size_t rank, const ByteSink& out) {
  build();
  vcd_.write("rank" + std::to_string(rank), end_, partial_ ? "partial: the run was stopped" : "",
             out);
}

}  // namespace nkisim
