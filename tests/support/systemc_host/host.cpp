// A SystemC model of its own (a clock and a counter) that runs kernels by nkisim:
//   host CASE [RESOLUTION_PS]
// prints a kernel's latency of each run, and "ok" if the model came out as it would alone.
#include <cstdlib>
#include <iostream>
#include <string>
#include <systemc>
#include <utility>

#include "isa/program/program.hpp"
#include "src/config/config.hpp"
#include "src/run/run.hpp"

namespace {

namespace isa = nkisim::isa;
using sc_core::sc_report_handler;

// A memset of a tile; refused if the tile is not where it may be.
bool run_kernel(std::int64_t address = 0) {
  try {
    isa::Program program(*isa::find_machine("trn2"));
    isa::Tensor t;
    t.name = "x";
    t.space = isa::Space::kSbuf;
    t.role = isa::TensorRole::kInternal;
    t.dtype = isa::Dtype::kFloat32;
    t.shape = {128, 64};
    t.address = address;
    const auto id = program.add_tensor(t);
    const isa::OpSpec& op = *isa::find_op("memset");
    std::vector<isa::Arg> args(op.params.size());
    isa::Arg& dst = args[static_cast<std::size_t>(isa::param_index(op, "dst"))];
    dst.kind = isa::Arg::Kind::kTensor;
    dst.tensor = program.whole(id);
    isa::Arg& value = args[static_cast<std::size_t>(isa::param_index(op, "value"))];
    value.kind = isa::Arg::Kind::kReal;
    value.real = 1;
    isa::Inst inst;
    inst.op = isa::op_id(op);
    program.append(inst, args);
    program.finish();
    isa::Memory memory(program);
    const auto result = nkisim::simulate(program, nkisim::load_config("trn2"), &memory, {});
    std::cout << "kernel " << result.end << " fs\n";
    return true;
  } catch (const isa::Error& e) {
    std::cout << "refused: " << e.message() << '\n';
    return false;
  }
}

bool all_ok = true;
void check(bool ok, const char* what) {
  if (!ok) std::cout << "WRONG: " << what << '\n';
  all_ok = all_ok && ok;
}

SC_MODULE(Model) {
  sc_core::sc_clock clock{"clock", 100, sc_core::SC_NS};
  int edges = 0, initial = 0;
  const std::string where;
  SC_HAS_PROCESS(Model);
  Model(sc_core::sc_module_name name, std::string where_to_run)
      : sc_module(name), where(std::move(where_to_run)) {
    SC_METHOD(edge);
    sensitive << clock.posedge_event();
    dont_initialize();
    SC_METHOD(once);
    if (where == "constructor") check(run_kernel(), "the kernel");
    dont_initialize();  // of once(), also after a kernel
    SC_THREAD(in_thread);
    SC_METHOD(in_method);
    sensitive << late_;
    dont_initialize();
    late_.notify(500, sc_core::SC_NS);
  }
  void edge() { ++edges; }
  void once() { ++initial; }
  void in_thread() {
    wait(500, sc_core::SC_NS);
    if (where == "thread") check(run_kernel() && run_kernel(), "the kernel");
    check(sc_core::sc_time_stamp() == sc_core::sc_time(500, sc_core::SC_NS), "the model's time");
    wait(1, sc_core::SC_NS);
    check(sc_core::sc_time_stamp() == sc_core::sc_time(501, sc_core::SC_NS), "time goes on");
  }
  void in_method() {
    if (where == "method") check(run_kernel(), "the kernel");
  }
  sc_core::sc_event late_;
};

int handled = 0;
void count_report(const sc_core::sc_report&, const sc_core::sc_actions&) { ++handled; }

// The handler, actions and counts are the program's own again, after a run and after a refusal.
void check_reports() {
  sc_report_handler::set_handler(count_report);
  sc_report_handler::set_actions(sc_core::SC_ERROR, sc_core::SC_DISPLAY);
  sc_report_handler::stop_after(sc_core::SC_ERROR, 2);
  check(run_kernel(), "the kernel");
  check(!run_kernel(std::int64_t{1} << 30), "a tile outside SBUF is refused");
  SC_REPORT_WARNING("mine", "after the run");
  SC_REPORT_ERROR("mine", "after the run");
  check(handled == 2, "the program's handler");
  check(sc_report_handler::get_count(sc_core::SC_ERROR) == 1, "the count of errors");
  check(sc_report_handler::get_cached_report() == nullptr, "the report kept");
  check(
      sc_report_handler::set_actions(sc_core::SC_ERROR, sc_core::SC_DISPLAY) == sc_core::SC_DISPLAY,
      "the actions of errors");
}

}  // namespace

int sc_main(int argc, char** argv) {
  const std::string where = argc > 1 ? argv[1] : "before";
  if (where == "before") check(run_kernel(), "the kernel");
  const int resolution = argc > 2 ? std::atoi(argv[2]) : 1;
  if (resolution != 1) sc_core::sc_set_time_resolution(resolution, sc_core::SC_PS);
  if (where == "reports") check_reports();
  Model model("model", where);
  if (where == "elaborated") check(run_kernel(), "the kernel");
  sc_core::sc_start(1, sc_core::SC_US);
  if (where == "between") check(run_kernel(), "the kernel");
  sc_core::sc_start(1, sc_core::SC_US);
  if (where == "after") check(run_kernel(), "the kernel");
  check(model.edges == 20, "the edges of the clock");
  check(model.initial == 0, "a process that is not initialized");
  check(sc_core::sc_find_object("model.clock") == &model.clock, "the model's hierarchy");
  check(sc_core::sc_get_time_resolution() == sc_core::sc_time(resolution, sc_core::SC_PS),
        "the time resolution");
  if (all_ok) std::cout << "ok\n";
  return all_ok ? 0 : 1;
}
