// Gives Python the class World, which simulates several ranks that communicate.
#include <pybind11/stl.h>

#include <algorithm>

#include "python/binding/bind.hpp"
#include "python/binding/figures.hpp"
#include "python/binding/link.hpp"
#include "python/binding/machine.hpp"
#include "python/binding/running.hpp"

namespace nkisim::python {
namespace {

py::dict result_of(const nkisim::Execution& done, const nkisim::RunArtifacts& artifacts,
                   std::size_t rank, bool timed) {
  py::dict out = counts_of(done, artifacts, rank, timed);
  if (!timed) return out;
  const nkisim::Summary& summary = artifacts.ranks[rank].summary;
  out["json"] = summary.json().dump();
  out["text"] = text_of(summary);
  const auto bound = summary.bound();
  out["bottleneck"] = bound ? bound->text() : "";
  const auto trust = done.trust(rank);
  if (!trust.is_null()) out["confidence"] = trust.dump();
  return out;
}

// The ranks' programs (several may be one) and their memories.
class World {
 public:
  World(const std::vector<py::object>& programs, const std::string& ring, bool any_shape)
      : programs_(programs) {
    world_.ranks = static_cast<int>(programs.size());
    world_.ring = parse_ring_order(ring);
    world_.any_shape = any_shape;
    inputs_.resize(programs.size());
    restart();
  }

  void restart() {
    memories_.clear();
    values_of_.clear();
    for (const py::object& program : programs_) {
      memories_.push_back(std::make_unique<Memory>(program.cast<Recorder&>().program));
    }
  }

  void load(std::size_t rank, std::uint32_t id, const py::buffer& data) {
    memories_.at(rank)->load(id, bytes_of(data.request()));
  }

  // The same bytes for several ranks: kept once until one of them writes there.
  void load_all(const std::vector<std::size_t>& ranks, std::uint32_t id, const py::buffer& data) {
    const SharedBytes shared(bytes_of(data.request()));
    for (const std::size_t rank : ranks) memories_.at(rank)->load(id, shared);
  }

  // Ranks of the same number other than 0 have the same inputs.
  void same_inputs(const std::vector<int>& classes) { inputs_ = classes; }

  void read(std::size_t rank, std::uint32_t id, const py::buffer& out) {
    const py::buffer_info info = out.request(true);
    const std::size_t as =
        values_of_.empty() ? rank : static_cast<std::size_t>(values_of_.at(rank));
    memories_.at(as)->read(id, {static_cast<std::byte*>(info.ptr),
                                static_cast<std::size_t>(info.size * info.itemsize)});
  }

  // Results of the ranks. `warn` and `prints`: as for a program, with the rank in front.
  // `shard`: None, or (its number, the shard of every rank, meet) of a world in several processes;
  // the other shards' ranks have no results then.
  py::dict run(const std::string& config_name, const std::vector<std::string>& overrides,
               const std::vector<py::dict>& files, const py::list& warn, const py::list& prints,
               const py::dict& choices, const py::object& given) {
    const auto config = machine_description(config_name, overrides);
    const RunChoices chosen = run_choices_of(choices);
    const std::size_t n = programs_.size();
    std::optional<PythonLink> link;
    std::vector<nkisim::RankInputs> ranks;
    for (std::size_t r = 0; r < n; ++r) {
      auto& recorder = programs_[r].cast<Recorder&>();
      InterpretOptions services = options_for(recorder, warn[r], prints[r]);
      services.world = world_;
      ranks.push_back(
          python::rank_inputs(recorder, chosen.timing_only ? nullptr : memories_[r].get(), services,
                              r < files.size() ? files[r] : py::dict(), chosen));
      ranks.back().input.inputs = inputs_[r];
      if (r == 0) ranks.back().input.options.shard = shard_of(given, link);
    }
    nkisim::RunArtifacts artifacts;
    nkisim::Execution execution(std::move(ranks), *config, artifacts);
    execution.plan(chosen.stop);
    const nkisim::FreshMemories fresh =
        chosen.stop.wanted() && !chosen.timing_only ? kept_inputs() : nkisim::FreshMemories();
    execute(execution, {}, chosen.keep_partial, fresh, choices);
    values_of_ = execution.result().values_of;
    py::list out;
    for (std::size_t r = 0; r < n; ++r) {
      out.append(execution.owns(r) ? py::object(result_of(execution, artifacts, r, chosen.timed))
                                   : py::none());
    }
    py::dict all;
    all["ranks"] = out;
    all["timed_as"] = execution.result().timed_as;
    all["values_of"] = values_of_;
    all["stop"] = stop_of(execution, fresh);
    return all;
  }

 private:
  // Makes memories of all ranks as they are now.
  nkisim::FreshMemories kept_inputs() {
    auto inputs = std::make_shared<std::vector<Inputs>>();
    for (std::size_t r = 0; r < programs_.size(); ++r) {
      inputs->push_back(share_inputs(programs_[r].cast<Recorder&>().program, *memories_[r]));
    }
    std::vector<const Program*> programs;
    for (const py::object& p : programs_) programs.push_back(&p.cast<Recorder&>().program);
    return [inputs, programs] {
      std::vector<std::unique_ptr<Memory>> all;
      for (std::size_t r = 0; r < programs.size(); ++r) {
        all.push_back(memory_with(*programs[r], (*inputs)[r]));
      }
      return all;
    };
  }

  static Shard shard_of(const py::object& given, std::optional<PythonLink>& link) {
    if (given.is_none()) return {};
    const auto [number, owner, meet] = given.cast<std::tuple<int, std::vector<int>, py::object>>();
    link.emplace(meet);
    return {.link = &*link,
            .number = number,
            .count = 1 + *std::max_element(owner.begin(), owner.end()),
            .owner = owner};
  }

  std::vector<py::object> programs_;
  std::vector<std::unique_ptr<Memory>> memories_;
  std::vector<int> inputs_, values_of_;
  isa::World world_;
};

// The latency of a world, in ns, from the first start and the last end of each rank, in fs.
double latency_ns(const std::vector<std::pair<models::Fs, models::Fs>>& ranks) {
  std::vector<nkisim::Interval> spans;
  for (const auto& [start, end] : ranks) spans.push_back({start, end});
  return nkisim::in_seconds(nkisim::latency(spans)) * 1e9;
}

}  // namespace

void bind_world(py::module_& m) {
  m.def("latency_ns", &latency_ns);
  py::class_<World>(m, "World")
      .def(py::init<const std::vector<py::object>&, const std::string&, bool>())
      .def("load", &World::load)
      .def("load_all", &World::load_all)
      .def("same_inputs", &World::same_inputs)
      .def("read", &World::read)
      .def("run", &World::run);
}

}  // namespace nkisim::python
