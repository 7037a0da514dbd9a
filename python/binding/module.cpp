// Defines the Python extension module nkisim._core: a kernel's calls build a Program, which it
// evaluates and simulates.
#include "python/binding/allocation.hpp"
#include "python/binding/bind.hpp"
#include "python/binding/compile.hpp"
#include "python/binding/debugged.hpp"
#include "python/binding/emit.hpp"
#include "python/binding/figures.hpp"
#include "python/binding/front.hpp"
#include "python/binding/instruction.hpp"
#include "python/binding/link.hpp"
#include "python/binding/logs.hpp"
#include "python/binding/naming.hpp"
#include "python/binding/tiles.hpp"
#include "python/binding/view.hpp"

PYBIND11_MODULE(_core, m) {
  using namespace nkisim::python;  // NOLINT(google-build-using-namespace)
  py::register_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const Error& e) {
      raise(e);
    }
  });
  m.def("register", &register_front);
  bind_options(m);
  bind_instruction(m);
  bind_allocation(m);
  bind_view(m);
  bind_tiles(m);
  bind_naming(m);
  bind_emit(m);
  py::class_<Recorder> program(m, "Program");
  bind_recording(program);
  bind_compile(program);
  bind_running(program);
  bind_figures(m);
  bind_debugged(m);
  bind_documents(m, program);
  bind_world(m);
  bind_link(program);
  bind_logs(m);
}
