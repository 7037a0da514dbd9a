// Implements the Python class Figures: summary, latency and bottleneck of a simulated run.

#include "python/binding/figures.hpp"

#include <sstream>

#include "python/binding/bind.hpp"
#include "src/report/report.hpp"

namespace nkisim::python {
namespace {

class Figures {
 public:
  Figures(std::unique_ptr<Run> run, py::object program)
      : program_(std::move(program)), run_(std::move(run)) {
    run_->artifacts.ranks.front().reports.reset();
    run_->artifacts.ranks.front().accounting.reset();
    run_->artifacts.ranks.front().steps.reset();
  }
  [[nodiscard]] std::string summary() const { return ended().json().dump(); }
  [[nodiscard]] std::string totals() const { return nkisim::Totals(ended()).metrics().dump(); }
  [[nodiscard]] std::string bottleneck() const { return nkisim::Totals(ended()).bottleneck(); }
  [[nodiscard]] std::string text() const { return text_of(ended()); }
  [[nodiscard]] std::string confidence() const { return run_->execution.trust(0).dump(); }

 private:
  [[nodiscard]] const nkisim::Summary& ended() const {
    return run_->artifacts.ranks.front().summary;
  }

  py::object program_;  // outlives the run
  std::unique_ptr<Run> run_;
};

}  // namespace

std::string text_of(const nkisim::Summary& summary) {
  std::ostringstream text;
  summary.print(text);
  return text.str();
}

void bind_figures(py::module_& m) {
  py::class_<Figures>(m, "Figures")
      .def("summary", &Figures::summary)
      .def("totals", &Figures::totals)
      .def("bottleneck", &Figures::bottleneck)
      .def("text", &Figures::text)
      .def("confidence", &Figures::confidence);
}

py::object figures_of(std::unique_ptr<Run> run, const py::object& program) {
  return py::cast(std::make_unique<Figures>(std::move(run), program));
}

}  // namespace nkisim::python
