// Implements run() of the public C++ API, whose input and output arrays are the caller's.
#include <stdexcept>
#include <utility>

#include "src/api/inside.hpp"
#include "src/files/npy.hpp"

namespace nkisim::v1 {
namespace {
namespace of_api {

NpyArray array_of(const std::string& tensor, const Array& array) {
  const auto dtype = isa::parse_dtype(array.dtype);
  if (!dtype) isa::fail(isa::Rule::unknown_dtype, tensor, array.dtype, "a dtype of nki.language");
  std::int64_t bytes = isa::size_bytes(*dtype);
  for (const std::int64_t n : array.shape) bytes *= n;
  if (static_cast<std::int64_t>(array.bytes.size()) != bytes) {
    isa::fail(isa::Rule::data_size, tensor, std::to_string(array.bytes.size()) + " bytes",
              std::to_string(bytes) + ", as its shape says,");
  }
  return make_array(*dtype, array.shape, array.bytes);
}

Array public_array(const isa::Tensor& tensor, NpyArray array) {
  return {std::string(isa::name(tensor.dtype)), std::move(array.shape), std::move(array.data)};
}

/// Hands events of one rank on.
class Events : public models::Observer {
 public:
  Events(v1::Observer& to, int rank) : to_(to), rank_(rank) {}

  void on_start(const isa::Program& program, const models::Config& /*config*/) override {
    program_ = &program;
    to_.on_start(rank_);
  }
  void on_event(const models::PartEvent& e) override {
    to_.on_instruction({.instruction = isa::spec(*e.inst).name,
                        .engine = isa::name(e.inst->engine),
                        .rank = rank_,
                        .core = e.core,
                        .sequence = e.sequence,
                        .start = e.start,
                        .end = e.end,
                        .file = file_of(*e.inst),
                        .line = static_cast<int>(e.inst->loc.kernel_line),
                        .inserted = e.part_index < 0});
  }
  void on_event(const models::DmaEvent& e) override {
    to_.on_transfer({.instruction = isa::spec(*e.inst).name,
                     .rank = rank_,
                     .core = e.core,
                     .queue = e.queue,
                     .sequence = e.sequence,
                     .triggered = e.trigger_start,
                     .start = e.first_packet,
                     .end = e.last_packet,
                     .visible = e.visible,
                     .packets = e.packets,
                     .file = file_of(*e.inst),
                     .line = static_cast<int>(e.inst->loc.kernel_line)});
  }
  void on_end(const models::RunEnd& e) override { to_.on_end(rank_, e.time); }

 private:
  [[nodiscard]] std::string_view file_of(const isa::Inst& inst) const {
    const std::uint32_t file = inst.loc.kernel_file;
    return file == 0 ? std::string_view() : std::string_view(program_->files().at(file - 1));
  }
  v1::Observer& to_;
  int rank_;
  const isa::Program* program_ = nullptr;
};

/// Fills an Outcome with what a run says and gives.
class Listener : public KeepingListener {
 public:
  Listener(const Job& job, v1::Observer* observer, Outcome& out)
      : KeepingListener(out.warnings, out.printed), observer_(observer), out_(out) {
    for (const auto& [name, array] : job.inputs) arrays_.inputs[name] = array_of(name, array);
    for (const auto& [name, array] : job.expected) arrays_.expected[name] = array_of(name, array);
  }
  [[nodiscard]] const HostArrays* arrays() const override { return &arrays_; }
  std::vector<models::Observer*> observers(std::size_t rank) override {
    if (observer_ == nullptr) return {};
    events_.push_back(std::make_unique<Events>(*observer_, static_cast<int>(rank)));
    return {events_.back().get()};
  }
  void computed(std::size_t rank, const isa::Program& program, isa::Memory& memory) override {
    if (out_.outputs.size() <= rank) out_.outputs.resize(rank + 1);
    for (auto& [name, array] : output_arrays(program, memory)) {
      out_.outputs[rank].emplace(
          name, public_array(program.tensor(*program.find_tensor(name)), std::move(array)));
    }
  }

 private:
  v1::Observer* observer_;
  Outcome& out_;
  HostArrays arrays_;
  std::vector<std::unique_ptr<Events>> events_;
};

nkisim::Job inner(const std::string& trace, const Job& job) {
  nkisim::Job out{.trace = trace,
                  .switches = job.switches,
                  .ranks = job.ranks,
                  .values = job.values,
                  .time = job.time,
                  .tolerance = {.rtol = job.rtol, .atol = job.atol},
                  .allow_unwritten = job.allow_unwritten,
                  .allow_races = job.allow_races,
                  .rules = {.suppress = job.suppress, .error = job.error},
                  .summary_json = job.summary_json,
                  .reports = {.session = job.session, .perfetto = job.perfetto}};
  if (job.config) {
    out.config = job.config->name();
    out.set = job.config->set();
    out.target = job.config->target();
  }
  if (job.max_instructions > 0) out.most.instructions = std::to_string(job.max_instructions);
  if (!job.values && !job.expected.empty()) {
    isa::fail(isa::Rule::options_exclude, "expected needs values; set Job::values");
  }
  return out;
}

void fill(const nkisim::Outcome& done, Outcome& out) {
  out.exit_code = done.exit_code;
  out.partial = done.partial;
  for (const nkisim::Outcome::Rank& rank : done.ranks) {
    out.instructions += rank.instructions;
    for (const Comparison& row : rank.outputs) {
      if (!row.equal) out.mismatches.push_back({row.tensor, row.mismatches, row.max_abs_error});
    }
  }
  if (done.timed) {
    out.latency_us = done.totals.at("latency_us");
    out.bottleneck = done.totals.at("bottleneck");
    for (const auto& [name, value] : done.totals.at("totals").items()) {
      if (value.is_number()) out.metrics[name] = value;
    }
  }
}

}  // namespace of_api
}  // namespace

const Array& Outcome::output(const std::string& name, std::size_t rank) const {
  return outputs.at(rank).at(name);
}

double Outcome::metric(const std::string& name) const { return metrics.at(name); }

Outcome run(const Program& program, const Job& job, Observer* observer) {
  return translated([&] {
    Program::Inside& inside = Access::of(program);
    Outcome out;
    of_api::Listener listener(job, observer, out);
    const nkisim::Job inner = of_api::inner(inside.name, job);
    RunArtifacts artifacts;
    nkisim::Outcome done = nkisim::run(inner, listener, artifacts, inside.programs);
    of_api::fill(done, out);
    out.json = to_json(std::move(done))
                   .dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    return out;
  });
}

}  // namespace nkisim::v1
