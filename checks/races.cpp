// Finds data races: it compares each memory access with earlier ones to the same bytes.
#include "checks/races.hpp"

#include <map>
#include <set>
#include <tuple>

#include "checks/shadow.hpp"

namespace nkisim::checks {
namespace {

// Looks at every access in an order that the semaphores allow.
class Search {
 public:
  Search(const isa::Program& program, const Stream& stream, const Order* order,
         std::function<void()> goes_on)
      : program_(program),
        stream_(stream),
        order_(order),
        goes_on_(std::move(goes_on)),
        components_(static_cast<std::size_t>(program.cores()), stream.queues.size()),
        shadow_(program) {
    if (order == nullptr) {
      derived_.emplace(stream, components_);
      engines_.resize(static_cast<std::size_t>(program.cores()) * kLanes,
                      Clock(components_.count(), 0));
      done_.resize(engines_.size(), 0);
      transfers_.resize(stream.queues.size(), 0);
    }
  }

  RaceReport run() {
    if (order_ != nullptr) {
      for (const std::uint32_t step : order_->order()) visit(step);
      report_.stuck = order_->stuck();
    } else {
      for (std::uint32_t step = 0; step < stream_.steps.size(); ++step) derive(step);
    }
    report_.steps = stream_.steps.size();
    report_.unknown = stream_.unknown;
    report_.cut = stream_.cut;
    if (report_.cut) report_.stuck.clear();  // what they wait for may have come later
    report_.pairs = found_.size();
    for (auto& [key, race] : found_) report_.races.push_back(race);
    std::sort(report_.races.begin(), report_.races.end(), [](const Race& a, const Race& b) {
      return std::tie(a.second_step, a.first_step, a.hazard) <
             std::tie(b.second_step, b.first_step, b.hazard);
    });
    if (report_.races.size() > kMostRaces) report_.races.resize(kMostRaces);
    return std::move(report_);
  }

 private:
  const Step& step_at(std::uint32_t step) const { return stream_.steps[step]; }
  const Clocks& clocks() const { return order_ != nullptr ? order_->clocks() : *derived_; }
  bool derives() const { return order_ == nullptr; }

  void collect(std::uint32_t step) {
    goes_on_();
    accesses_.clear();
    const Step& s = step_at(step);
    std::uint32_t dynamic = s.dynamic;
    isa::for_each_tensor(*s.inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
      const bool constant = !ref.on_chip() && !program_.tensor(ref).written;
      if (ref.dynamic == nullptr) {
        if (constant) return;
        accesses_.push_back({{}, &ref, step, write});
        isa::find_footprint(ref, program_, kNoState, accesses_.back().bytes);
        return;
      }
      for (const isa::Footprint& f : stream_.places[dynamic++]) {
        if (!constant) accesses_.push_back({f, &ref, step, write});
      }
    });
  }

  // With semaphores in the trace: a meeting touches nothing that its semaphores do not say.
  void visit(std::uint32_t step) {
    const isa::OpSpec& op = isa::spec(*step_at(step).inst);
    if (op.rendezvous && op.eval == nullptr) return;
    collect(step);
    const Clock& start = clocks().start(step);
    look(step, start);
  }

  // Without: what the operands of one core require is what it waits for.
  void derive(std::uint32_t step) {
    const Step& s = step_at(step);
    Clock& engine = engines_[lane(*s.inst)];
    if (s.holder != kNone) join(engine, clocks().after(s.holder));
    collect(step);
    Clock learned = engine;
    learn(step, learned);
    look(step, learned);
    engine = std::move(learned);
    const bool full = stops_core(*s.inst);
    if (full) join_core(s.inst->core, engine);
    done_[lane(*s.inst)] = s.number;
    if (s.queue != kNone) transfers_[s.queue] = s.transfer;
    const bool meets = isa::spec(*s.inst).rendezvous && program_.cores() > 1;
    if (!meets) {
      derived_->set_start(step, engine);
      return;
    }
    meeting_.push_back(step);
    if (meeting_.size() < static_cast<std::size_t>(program_.cores())) return;
    Clock all(components_.count(), 0);
    for (const std::uint32_t m : meeting_) join(all, engines_[lane(*step_at(m).inst)]);
    for (const std::uint32_t m : meeting_) {
      const isa::Inst& inst = *step_at(m).inst;
      engines_[lane(inst)] = all;
      derived_->set_start(m, all);
      if (!stops_core(inst)) continue;
      for (std::size_t e = 0; e < kLanes; ++e) join(engines_[inst.core * kLanes + e], all);
    }
    meeting_.clear();
  }

  // A barrier that names a tile says nothing of HBM; kernels of nki-library that do so mean all
  // that their core has done and will do.
  static bool stops_core(const isa::Inst& inst) {
    const isa::OpSpec& op = isa::spec(inst);
    return op.rendezvous && op.eval == nullptr && inst.is_tensor(0) && inst.tensor(0).on_chip();
  }
  void join_core(std::size_t core, Clock& clock) const {
    for (std::size_t e = 0; e < kLanes; ++e) {
      const auto engine = static_cast<isa::Engine>(e);
      join(clock, engines_[core * kLanes + e]);
      join(clock, Point{components_.finished(core, engine), done_[core * kLanes + e]});
      join(clock, Point{components_.issued(core, engine), done_[core * kLanes + e]});
    }
    for (std::uint32_t q = 0; q < stream_.queues.size(); ++q) {
      if (stream_.queues[q].core == core) {
        join(clock, Point{components_.queue(q), transfers_[q]});
      }
    }
  }

  static std::size_t lane(const isa::Inst& inst) {
    return static_cast<std::size_t>(inst.core) * kLanes + static_cast<std::size_t>(inst.engine);
  }

  // Without semaphores in the trace an access waits for those of its own core, and then knows what
  // they know: of a barrier, what the other core did before it.
  void learn(std::uint32_t step, Clock& learned) {
    for (const Access& access : accesses_) {
      shadow_.scan(
          access,
          [&](const Access& earlier) {
            if (core_of(earlier.step) == core_of(step) &&
                !knows(learned, clocks().end(earlier.step))) {
              join(learned, clocks().after(earlier.step));
            }
            return false;
          },
          [](const Access&) { return false; });
    }
  }

  void look(std::uint32_t step, const Clock& start) {
    const bool transfer = step_at(step).queue != kNone;
    // Reads before writes: a write puts away what the reads still have to see.
    for (const bool writes : {false, true}) {
      for (const Access& access : accesses_) {
        if (access.write != writes) continue;
        // A barrier comes after its core's accesses, and stands for none of another core's.
        const bool stands = !orders_only(step);
        const auto in_order = [&](const Access& earlier) {
          if (earlier.step == step) return true;
          const Step& e = step_at(earlier.step);
          if (over(e, core_of(step))) return true;
          const bool same_core = e.inst->core == core_of(step);
          const bool same_engine =
              e.queue == kNone && !transfer && e.inst->engine == step_at(step).inst->engine;
          // An access waits for conflicting accesses of its own core: two reads do not conflict.
          const bool waited = derives() && (access.write || earlier.write);
          return (same_core && (waited || same_engine)) || knows(start, clocks().end(earlier.step));
        };
        shadow_.scan(
            access,
            [&](const Access& earlier) {
              return (in_order(earlier) || meet(earlier, access)) && stands;
            },
            [&](const Access& earlier) { return stands && in_order(earlier); });
      }
    }
    for (const Access& access : accesses_) shadow_.insert(access);
    if (step_at(step).collective != 0) called_[core_of(step)] = step_at(step).collective;
  }

  // True if another core's operation has ended for a core: its own call of the operation waits for
  // the same end.
  bool over(const Step& earlier, std::uint8_t core) const {
    const auto own = called_.find(core);
    return earlier.collective != 0 && earlier.inst->core != core && own != called_.end() &&
           earlier.collective <= own->second;
  }

  std::uint8_t core_of(std::uint32_t step) const { return step_at(step).inst->core; }

  // A barrier stands for the order of its operand, not for an access to it.
  bool orders_only(std::uint32_t step) const {
    const isa::OpSpec& op = isa::spec(*step_at(step).inst);
    return op.rendezvous && op.eval == nullptr;
  }

  // True if both cores write the place: a core may then write the same values that the other has
  // written and reads.
  bool may_repeat(const Access& earlier, const Access& access) {
    if (earlier.write && access.write) return true;
    const Access& read = access.write ? earlier : access;
    if (writers_.empty()) find_writers();
    return writers_.count({core_of(read.step), read.ref->tensor}) != 0;
  }

  void find_writers() {
    for (const isa::Inst& inst : program_.insts()) {
      isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
        if (write && !ref.on_chip()) writers_.emplace(inst.core, ref.tensor);
      });
    }
  }

  // Both cores of a rank call a collective, which reads and writes HBM once.
  bool same_collective(std::uint32_t a, std::uint32_t b) const {
    return step_at(a).collective != 0 && step_at(a).collective == step_at(b).collective;
  }

  // Handles two accesses that nothing orders. True if the earlier one needs no further look.
  bool meet(const Access& earlier, const Access& access) {
    if (orders_only(earlier.step) || orders_only(access.step)) return false;
    if (same_collective(earlier.step, access.step)) return false;
    const std::optional<Bytes> bytes = shared_bytes(earlier.bytes, access.bytes);
    if (!bytes) return false;
    if (core_of(earlier.step) != core_of(access.step) && may_repeat(earlier, access)) {
      // Several cores may write the same values to the same place; unknown without values.
      if (step_at((access.write ? access : earlier).step).same) return true;
      const bool both_write = earlier.write && access.write;
      if (derives() && both_write && stream_.alike.count(access.ref->tensor) != 0) return true;
      report_.unsure = true;
      if (!stream_.values) return true;
    }
    note(earlier, access, *bytes);
    return true;
  }

  void note(const Access& earlier, const Access& access, const Bytes& bytes) {
    const Hazard hazard = !access.write   ? Hazard::kReadAfterWrite
                          : earlier.write ? Hazard::kWriteAfterWrite
                                          : Hazard::kWriteAfterRead;
    const Step &a = step_at(earlier.step), &b = step_at(access.step);
    Race& race = found_[std::tuple(b.inst, a.inst, hazard)];
    if (race.count++ > 0) return;
    race.hazard = hazard;
    race.first_step = earlier.step;
    race.second_step = access.step;
    race.first = a.inst;
    race.second = b.inst;
    race.first_operand = earlier.ref;
    race.second_operand = access.ref;
    race.bytes = bytes;
    race.transfers = a.queue != kNone && a.queue == b.queue;
    if (order_ != nullptr && a.inst->core == b.inst->core)
      race.waits = order_->proofs_of(earlier.step, access.step);
  }

  static inline const isa::CoreState kNoState{};
  const isa::Program& program_;
  const Stream& stream_;
  const Order* order_;  // null: semaphores are derived from the operands
  std::function<void()> goes_on_;
  Components components_;
  std::optional<Clocks> derived_;
  std::vector<Clock> engines_;
  std::vector<std::uint32_t> done_, transfers_;  // per engine and queue: how many so far
  std::vector<std::uint32_t> meeting_;
  std::map<std::uint8_t, std::uint32_t> called_;  // the last collective of each core
  std::set<std::pair<std::uint8_t, std::uint32_t>>
      writers_;  // (core, tensor in HBM that it writes)
  Shadow shadow_;
  std::vector<Access> accesses_;
  std::map<std::tuple<const isa::Inst*, const isa::Inst*, Hazard>, Race> found_;
  RaceReport report_;
};

RaceReport check(const isa::Program& program, const Stream& stream,
                 const isa::InterpretOptions& options) {
  constexpr std::uint64_t kEvery = 256;
  std::uint64_t steps = 0;
  const auto goes_on = [&] {
    if (options.progress && ++steps % kEvery == 0 && !options.progress(0)) throw Stopped{};
  };
  if (!program.explicit_semaphores()) return Search(program, stream, nullptr, goes_on).run();
  const Order order(program, stream, goes_on);
  return Search(program, stream, &order, goes_on).run();
}

RaceReport look_for(const isa::Program& program, const MakeMemory& load,
                    const isa::InterpretOptions& options) {
  using Unknown = Stream::Unknown;
  const bool values = load != nullptr && !program.timing_only();
  const ValueNeeds needs = needs_values(program);
  if (!needs.control) {
    const Unknown unknown = !needs.addresses ? Unknown::kNothing
                            : values         ? Unknown::kWholeTensor
                                             : Unknown::kLeftOut;
    RaceReport report = check(program, record(program, nullptr, unknown, options), options);
    const bool sure = report.clean() || unknown != Unknown::kWholeTensor;
    if ((sure && !report.unsure) || !values) return report;
  }
  if (!values)
    isa::fail(isa::Rule::timing_only_values,
              "control flow depends on values in memory, and the program has no data");
  const std::unique_ptr<isa::Memory> memory = load();
  return check(program, record(program, memory.get(), Unknown::kNothing, options), options);
}

}  // namespace

bool may_race(const isa::Program& program) {
  return program.explicit_semaphores() || program.cores() > 1;
}

RaceReport find_races(const isa::Program& program, const MakeMemory& load,
                      const isa::InterpretOptions& options) {
  try {
    return look_for(program, load, options);
  } catch (const Stopped&) {
    RaceReport report;
    report.stopped = true;
    return report;
  }
}

}  // namespace nkisim::checks
