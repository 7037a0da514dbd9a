// The compiler's part, as methods of the recorded program.
#include "python/binding/compile.hpp"

#include <pybind11/stl.h>

#include "compiler/passes/assign.hpp"
#include "compiler/passes/forward.hpp"
#include "compiler/passes/rename.hpp"
#include "compiler/passes/reuse.hpp"
#include "compiler/passes/schedule.hpp"
#include "compiler/passes/thrift.hpp"
#include "compiler/placement/partitions.hpp"
#include "src/config/config_json.hpp"

namespace nkisim::python {
namespace {

std::vector<bool> flags(const Program& program, const std::vector<std::uint32_t>& ids) {
  std::vector<bool> out(program.tensors().size(), false);
  for (const std::uint32_t id : ids) out.at(id) = true;
  return out;
}

// `order[k]`: the instruction that becomes the k-th.
void apply_order(Recorder& r, const std::vector<std::uint32_t>& order) {
  r.program.reorder(order);
  r.program_order.assign(order.size(), 0);
  for (std::uint32_t k = 0; k < order.size(); ++k) r.program_order[order[k]] = k;
}

std::size_t apply_schedule(Recorder& r, const std::string& config_name,
                           const std::vector<std::string>& overrides,
                           const std::vector<std::uint32_t>& placed, double share, bool packed) {
  const models::Config config = nkisim::load_config(config_name, overrides);
  compiler::ScheduleOptions options;
  options.placed = flags(r.program, placed);
  options.share = share;
  options.packed = packed;
  compiler::Schedule schedule;
  {
    const py::gil_scoped_release release;
    schedule = compiler::schedule(r.program, config, options);
    apply_order(r, schedule.order);
  }
  return schedule.moved;
}

}  // namespace

void bind_compile(py::class_<Recorder>& program) {
  program
      .def("assign_queues",
           [](Recorder& r, const std::string& queues) {
             return compiler::assign_queues(r.program,
                                            compiler::parse_dma_queues("dma_queues is", queues));
           })
      .def("forward_copies",  // those that nobody needs afterwards are dropped
           [](Recorder& r, const std::vector<std::uint32_t>& copies) {
             const auto unneeded = compiler::forward_copies(r.program, copies);
             r.program.remove(unneeded);
             return unneeded.size();
           })
      .def("reuse_results",  // the repeated instructions are dropped
           [](Recorder& r, const std::vector<std::uint32_t>& placed) {
             const auto repeated = compiler::reuse_results(r.program, flags(r.program, placed));
             r.program.remove(repeated);
             return repeated.size();
           })
      .def("drop_clears",
           [](Recorder& r, const std::vector<std::uint32_t>& placed) {
             const auto dead = compiler::dead_clears(r.program, flags(r.program, placed));
             r.program.remove(dead);
             return dead.size();
           })
      .def("rename_tiles",
           [](Recorder& r, const std::vector<std::uint32_t>& placed) {
             return compiler::rename_tiles(r.program, flags(r.program, placed));
           })
      .def("schedule", &apply_schedule)
      .def("delay",  // what waits for its use
           [](Recorder& r, const std::vector<std::uint32_t>& placed, const std::string& what) {
             apply_order(r, compiler::thrifty_order(r.program, flags(r.program, placed),
                                                    compiler::parse_delay("delay is", what)));
           })
      .def("partition_groups",
           [](Recorder& r, const std::vector<std::uint32_t>& placed) {
             return compiler::partition_groups(r.program, flags(r.program, placed));
           })
      .def("move_partitions",
           [](Recorder& r, const std::vector<std::pair<std::uint32_t, std::uint16_t>>& starts) {
             return compiler::move_partitions(r.program, starts);
           })
      .def("unschedule", [](Recorder& r) {  // back to the order before the last of these
        if (!r.program_order.empty()) r.program.reorder(r.program_order);
        r.program_order.clear();
      });
}

}  // namespace nkisim::python
