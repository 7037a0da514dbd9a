// The compiler's part, as methods of the recorded program.
#include "python/compile.hpp"

#include <pybind11/stl.h>

#include "models/assign.hpp"
#include "models/forward.hpp"
#include "models/rename.hpp"
#include "models/reuse.hpp"
#include "models/schedule.hpp"
#include "src/config_json.hpp"

namespace nkisim::python {
namespace {

std::vector<bool> flags(const Program& program, const std::vector<std::uint32_t>& ids) {
  std::vector<bool> out(program.tensors().size(), false);
  for (const std::uint32_t id : ids) out.at(id) = true;
  return out;
}

std::size_t apply_schedule(Recorder& r, const std::string& config_name,
                           const std::vector<std::string>& overrides,
                           const std::vector<std::uint32_t>& placed, double share) {
  const models::Config config = nkisim::load_config(config_name, overrides);
  models::ScheduleOptions options;
  options.placed = flags(r.program, placed);
  options.share = share;
  models::Schedule schedule;
  {
    const py::gil_scoped_release release;
    schedule = models::schedule(r.program, config, options);
    if (schedule.moved > 0) r.program.reorder(schedule.order);
  }
  r.program_order.assign(schedule.order.size(), 0);
  for (std::uint32_t k = 0; k < schedule.order.size(); ++k) {
    r.program_order[schedule.order[k]] = k;
  }
  return schedule.moved;
}

}  // namespace

void bind_compile(py::class_<Recorder>& program) {
  program
      .def("assign_queues",
           [](Recorder& r, const std::string& queues) {
             return models::assign_queues(r.program,
                                          models::parse_dma_queues("dma_queues is", queues));
           })
      .def("forward_copies",  // those that nobody needs afterwards are dropped
           [](Recorder& r, const std::vector<std::uint32_t>& copies) {
             const auto unneeded = models::forward_copies(r.program, copies);
             r.program.remove(unneeded);
             return unneeded.size();
           })
      .def("reuse_results",  // the repeated instructions are dropped
           [](Recorder& r, const std::vector<std::uint32_t>& placed) {
             const auto repeated = models::reuse_results(r.program, flags(r.program, placed));
             r.program.remove(repeated);
             return repeated.size();
           })
      .def("drop_clears",
           [](Recorder& r, const std::vector<std::uint32_t>& placed) {
             const auto dead = models::dead_clears(r.program, flags(r.program, placed));
             r.program.remove(dead);
             return dead.size();
           })
      .def("rename_tiles",
           [](Recorder& r, const std::vector<std::uint32_t>& placed) {
             return models::rename_tiles(r.program, flags(r.program, placed));
           })
      .def("schedule", &apply_schedule)
      .def("unschedule", [](Recorder& r) {  // back to program order
        if (!r.program_order.empty()) r.program.reorder(r.program_order);
        r.program_order.clear();
      });
}

}  // namespace nkisim::python
