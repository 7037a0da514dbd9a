// Passes the simulator's log messages to Python's logging module.
#include <pybind11/stl.h>

#include <iostream>

#include "python/binding/bind.hpp"
#include "src/log/log.hpp"

namespace nkisim::python {
namespace {

log::Level level_of(const std::string& name) {
  const auto level = log::find_level(name);
  if (!level) throw py::value_error("the log has no level '" + name + "'");
  return *level;
}

std::vector<std::string> listed(std::span<const std::string_view> names) {
  return {names.begin(), names.end()};
}

// `callback(category, level, text)` is called with what categories say at their level or above, by
// any thread. It is kept for as long as the process lives, which may log until its very end.
void listen(const std::vector<std::string>& levels, py::function callback) {
  log::Levels from{};
  for (std::size_t r = 0; r < log::kCategories; ++r) from[r] = level_of(levels.at(r));
  log::listen(from, [raw = callback.release().ptr()](log::Category category, log::Level level,
                                                     std::string_view text) {
    const py::gil_scoped_acquire gil;
    const py::handle callee{raw};
    callee(std::string(log::category_names()[static_cast<std::size_t>(category)]),
           std::string(log::level_names()[static_cast<std::size_t>(level)]),
           py::reinterpret_steal<py::str>(
               PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace")));
  });
}

}  // namespace

void bind_logs(py::module_& m) {
  m.def("log_categories", [] { return listed(log::category_names()); });
  m.def("log_levels", [] { return listed(log::level_names()); });
  m.def("log_start", [] { log::start(std::cerr); });
  m.def("log_listen", &listen);
}

}  // namespace nkisim::python
