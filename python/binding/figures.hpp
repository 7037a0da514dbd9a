// Gives Python the results of a simulated run: summary, totals, bottleneck, confidence. Each is
// computed when it is asked for.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "python/binding/recorder.hpp"
#include "src/job/job.hpp"

namespace nkisim::python {

/// A run of one program, with all that it watched and needs.
struct Run {
  Run(nkisim::RankInputs rank, std::shared_ptr<const models::Config> machine)
      : config(std::move(machine)), execution({std::move(rank)}, *config, artifacts) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  std::shared_ptr<const models::Config> config;
  nkisim::RunArtifacts artifacts;
  nkisim::Execution execution;
};

/// The summary of a rank as text for people.
std::string text_of(const nkisim::Summary& summary);
/// The class Figures of the module.
void bind_figures(py::module_& m);
/// The figures of a run that has ended. Text, which most callers never read, is made when it is
/// asked for. `program` (a Recorder) stays alive until then, the reports do not.
py::object figures_of(std::unique_ptr<Run> run, const py::object& program);

}  // namespace nkisim::python
