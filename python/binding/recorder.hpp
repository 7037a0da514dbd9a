// What the extension module records: a kernel's Program, and how Python values become arguments.
//
// Recording is the hot path: conversions read the Python tensors' slots through the C API.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "isa/eval.hpp"
#include "isa/interpreter.hpp"
#include "isa/memory.hpp"
#include "isa/program.hpp"
#include "python/binding/psum_writes.hpp"
#include "src/trace/trace.hpp"

namespace nkisim::python {

namespace py = pybind11;
using namespace nkisim::isa;

inline constexpr std::size_t kMaxArgs = 32;

/// What Python registers once: its tensor and register types, operator tokens and error class.
struct Front {
  PyTypeObject* tensor = nullptr;
  PyTypeObject* reg = nullptr;
  PyObject* alu = nullptr;  // dict: token -> code
  PyObject* act = nullptr;
  PyObject* engines = nullptr;  // dict: engine token -> code
  PyObject* error = nullptr;    // class
  PyObject* is_ours = nullptr;  // callable(code object) -> bool
  PyObject *st, *part, *off, *shape, *strides, *dtype, *dyn, *ref, *exact, *id, *space, *code,
      *pitch, *partition, *name;
};
extern Front front;
/// Interns the attribute names in `front`.
void intern_names();

/// Records one kernel: the program, the memory behind evaluation on demand, locations.
class Recorder {
 public:
  explicit Recorder(const Machine& machine) : program(*new Program(machine)) {
    trace.program.reset(&program);
    program.set_virtual_addresses(true);
  }

  Program& program;  // owned by the trace
  nkisim::TraceFile trace;
  std::unique_ptr<Memory> memory;
  std::unique_ptr<Evaluation> evaluation;    // of what is recorded so far; null until asked for
  std::optional<Program::Version> recorded;  // the program before it was compiled
  std::optional<std::uint32_t> stochastic_rounding;  // seed; none: nearest even
  std::optional<SourceLoc> fixed_location;           // of a call that was held back

  SourceLoc location();
  /// `wanted`, or the first of wanted.1, wanted.2, ... that no tensor has.
  std::string free_name(const std::string& wanted);
  const TensorRef* ref(PyObject* tensor, bool exact);
  Arg convert(const Param& param, PyObject* value, bool exact);
  void append(PyObject* const* args, Py_ssize_t count);
  Memory& live_memory() {
    if (memory == nullptr) memory = std::make_unique<Memory>(program);
    return *memory;
  }

 private:
  struct Code {
    std::uint32_t file = 0;
    bool ours = false;
    py::object keep;  // a code object must not be recycled while it is a key
    std::unordered_map<int, std::uint32_t> lines;
  };
  Code& code_of(PyCodeObject* code);
  void add_dims(PyObject* shape, PyObject* strides, bool on_chip, bool exact,
                std::vector<Dim>& dims);
  const DynamicOffset* dynamic(PyObject* entries);

  void infer_accumulate(const OpSpec& op, std::span<Arg> values);

  std::unordered_map<PyCodeObject*, Code> codes_;
  std::unordered_map<std::string, std::uint32_t> numbered_;  // name -> the last number given out
  PsumWrites psum_;
  std::vector<Dim> dims_;
};

}  // namespace nkisim::python
