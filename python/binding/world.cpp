// A world of ranks, as the class World of the module.
#include <pybind11/stl.h>

#include <algorithm>

#include "python/binding/bind.hpp"
#include "python/binding/link.hpp"
#include "python/binding/running.hpp"
#include "src/config/config.hpp"

namespace nkisim::python {
namespace {

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

  // Results of the ranks. `undefined` and `prints`: as for a program, with the rank in front.
  // `shard`: None, or (its number, the shard of every rank, meet) of a world in several processes;
  // the other shards' ranks have no results then.
  py::dict run(const std::string& config_name, const std::vector<std::string>& overrides,
               const std::vector<py::dict>& files, const py::list& undefined,
               const py::list& prints, const py::dict& choices, const py::object& given) {
    const auto config = nkisim::load_config(config_name, overrides);
    const auto chosen = [&](const char* key) { return choices[key].cast<bool>(); };
    const std::size_t n = programs_.size();
    std::vector<nkisim::Summary> summaries(n);
    std::vector<nkisim::Confidence> confidences(n);
    std::vector<std::unique_ptr<nkisim::Reports>> reports(n);
    std::vector<nkisim::RankInput> ranks(n);
    std::optional<PythonLink> link;
    const Shard shard = shard_of(given, link);
    for (std::size_t r = 0; r < n; ++r) {
      const auto& recorder = programs_[r].cast<Recorder&>();
      const InterpretOptions services = options_for(recorder, undefined[r], prints[r]);
      nkisim::RankInput& rank = ranks[r];
      rank.program = &recorder.program;
      rank.memory = chosen("timing_only") ? nullptr : memories_[r].get();
      rank.inputs = inputs_[r];
      nkisim::SimOptions& options = rank.options;
      options.unwritten = services.unwritten;
      options.undefined_output = services.undefined_output;
      options.print = services.print;
      options.stochastic_rounding = services.stochastic_rounding;
      options.progress = [ask = services.progress](std::uint64_t count, nkisim::models::Fs) {
        return ask(count);
      };
      if (!chosen("timed")) continue;
      const bool own = shard.owns(static_cast<std::int64_t>(r));
      rank.observe = observer(summaries[r], confidences[r], reports[r],
                              own ? files : std::vector<py::dict>(), r);
    }
    nkisim::WorldResult result;
    {
      const py::gil_scoped_release release;
      result = nkisim::run_world(ranks, config, {world_, chosen("timed"), chosen("fold"), shard});
    }
    interrupted(chosen("keep_partial"));
    values_of_ = result.values_of;
    Found found{result, summaries, confidences, reports, files, chosen("timed")};
    py::list out;
    for (std::size_t r = 0; r < n; ++r) {
      const bool own = shard.owns(static_cast<std::int64_t>(r));
      out.append(own ? py::object(rank_result(r, found, shard)) : py::none());
    }
    py::dict all;
    all["ranks"] = out;
    all["timed_as"] = result.timed_as;
    all["values_of"] = result.values_of;
    return all;
  }

 private:
  // What a run came to.
  struct Found {
    const nkisim::WorldResult& result;
    const std::vector<nkisim::Summary>& summaries;
    const std::vector<nkisim::Confidence>& confidences;
    const std::vector<std::unique_ptr<nkisim::Reports>>& reports;
    const std::vector<py::dict>& files;
    bool timed;
    nlohmann::ordered_json facts = {};  // of all ranks, for their sessions
  };

  // One rank's; its reports are written.
  py::dict rank_result(std::size_t r, Found& found, const Shard& shard) const {
    const nkisim::SimResult& result = found.result.ranks[r];
    const auto as = static_cast<std::size_t>(found.result.timed_as[r]);
    const nkisim::Summary& summary = found.summaries[as];
    const auto trust = trust_of(as, found.confidences[as], summary,
                                found.timed && !found.result.ranks[as].partial);
    if (found.reports[r] != nullptr && as == r) {
      if (found.facts.is_null()) found.facts = facts_of(found.reports, found.result);
      // It crosses to ranks whose events other processes have.
      if (!shard.alone()) found.facts["path"] = nlohmann::ordered_json::array();
      found.facts["rank"] = r;
      write(*found.reports[r], report_files(found.files[r]).session,
            {summary, result, trust, &found.facts});
    }
    py::dict rank = result_of(summary, result, found.timed);
    if (!trust.is_null()) rank["confidence"] = trust.dump();
    return rank;
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

  // How far to trust the time of rank `r`; null unless it ran to its end in time.
  [[nodiscard]] nlohmann::ordered_json trust_of(std::size_t r, const nkisim::Confidence& confidence,
                                                const nkisim::Summary& summary, bool whole) const {
    if (!whole) return nullptr;
    nkisim::ProgramOrigin origin = programs_[r].cast<Recorder&>().origin;
    origin.alone = false;
    return confidence.json(origin, summary);
  }

  static void write(nkisim::Reports& reports, const std::string& session,
                    const nkisim::RunFacts& facts) {
    reports.write_files();
    if (!session.empty()) reports.write_session(session, facts, {});
  }

  // What every rank's session says of all of them; null if they have none.
  static nlohmann::ordered_json facts_of(
      const std::vector<std::unique_ptr<nkisim::Reports>>& reports,
      const nkisim::WorldResult& result) {
    std::vector<const nkisim::Accounting*> accountings;
    bool any = false;
    for (const auto& report : reports) {
      accountings.push_back(report == nullptr ? nullptr : report->accounting());
      any = any || accountings.back() != nullptr;
    }
    if (!any) return nullptr;
    return nkisim::world_facts(accountings, result.timed_as);
  }

  // Begins the reports of a rank anew; `files` may be empty.
  static std::function<std::vector<nkisim::models::Observer*>()> observer(
      nkisim::Summary& summary, nkisim::Confidence& confidence,
      std::unique_ptr<nkisim::Reports>& reports, const std::vector<py::dict>& files,
      std::size_t rank) {
    std::optional<nkisim::ReportFiles> names;
    if (rank < files.size()) names = report_files(files[rank]);
    return [&summary, &confidence, &reports, names] {
      summary = nkisim::Summary();
      confidence = nkisim::Confidence();
      std::vector<nkisim::models::Observer*> observers = {&summary, &confidence};
      if (names) {
        reports.reset();
        reports = std::make_unique<nkisim::Reports>(*names);
        reports->observe(observers);
      }
      return observers;
    };
  }

  static py::dict result_of(const nkisim::Summary& summary, const nkisim::SimResult& result,
                            bool timed) {
    if (timed) return python::result_of(summary, result);
    py::dict out;
    out["instructions"] = result.instructions;
    out["partial"] = result.partial;
    return out;
  }

  std::vector<py::object> programs_;
  std::vector<std::unique_ptr<Memory>> memories_;
  std::vector<int> inputs_, values_of_;
  isa::World world_;
};

// Of ranks that ran from a first start to a last end each, in fs.
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
      .def("restart", &World::restart)
      .def("load", &World::load)
      .def("load_all", &World::load_all)
      .def("same_inputs", &World::same_inputs)
      .def("read", &World::read)
      .def("run", &World::run);
}

}  // namespace nkisim::python
