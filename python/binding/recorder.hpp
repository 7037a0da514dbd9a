// Declares Recorder, which collects a kernel's nki.isa calls as a Program. It converts Python
// values to arguments on a hot path, so it reads the Python tensors' slots through the C API.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "isa/base/policy.hpp"
#include "isa/machine/eval.hpp"
#include "isa/machine/memory.hpp"
#include "isa/program/program.hpp"
#include "isa/world/interpreter.hpp"
#include "python/binding/psum_writes.hpp"
#include "src/report/report.hpp"
#include "src/trace/trace.hpp"

namespace nkisim::python {

namespace py = pybind11;
using namespace nkisim::isa;

inline constexpr std::size_t kMaxArgs = 32;

/// Records one kernel: the program, the memory behind evaluation on demand, locations.
class Recorder {
 public:
  explicit Recorder(const Machine& machine) : program(*new Program(machine)) {
    trace.program.reset(&program);
    program.set_virtual_addresses(true);
  }
  /// One that was recorded elsewhere, to be run.
  explicit Recorder(nkisim::TraceFile read) : program(*read.program), trace(std::move(read)) {}

  Program& program;  // owned by the trace
  nkisim::TraceFile trace;
  std::unique_ptr<Memory> memory;
  std::unique_ptr<Evaluation> evaluation;    // of what is recorded so far; null until asked for
  std::optional<Program::Version> recorded;  // the program before it was compiled
  std::vector<isa::Error> remarks;           // what was odd about it then
  RulePolicy policy;                         // what is done about them
  nkisim::ProgramOrigin origin;              // what the compiler made of it
  compiler::CompilerOptions used = {};       // ... with these switches
  std::optional<std::uint32_t> stochastic_rounding;  // seed; none: nearest even
  bool limits_ranks = true;  // whether the kernel's API has limits of dimensions (Param::free_dims)
  bool other_operators = false;   // whether the kernel's API takes other spellings of operators
  int rank = 0;                   // whose values it has while it is recorded
  py::object own_reference = {};  // what its tensors refer to it by; null without tensors

  /// The innermost line of a frame outside the front end.
  SourceLoc location();
  /// The same as Python's (file, line), one object for each; ("", 0) if unknown.
  py::object place();
  /// A place of place()'s, at which everything is from now on (a call that was held back); None:
  /// where it is called.
  void at(PyObject* place);
  /// Enables or disables program order for the instructions that a core records from now on: each
  /// starts when the one before it has completed.
  void keep_order(int core, bool on);
  /// An instruction as Python gives it.
  struct Call {
    PyObject* op;
    std::span<PyObject* const> values;  // of the op's parameters
    PyObject* engine;                   // None: left open
    PyObject* core;
    PyObject* label;  // or None
    bool exact;
  };
  void append(const Call& call);
  /// Nothing more will be recorded: forgets what only that needs.
  void end() {
    psum_ = {};
    numbered_ = {};
  }
  /// The region of what is recorded from now on: names with "/" between; empty: none.
  [[nodiscard]] std::string region() const { return region_ == nullptr ? "" : *region_; }
  void set_region(const std::string& name) {
    region_ = name.empty() ? nullptr : program.add_text(name);
  }
  /// add_tensor(name, space, dtype, shape, role, core, partition, address); the
  /// tensor's number and the name it is given: the one wanted, or with a number if that is taken.
  std::pair<std::uint32_t, std::string> add_tensor(PyObject* const* args, Py_ssize_t count);
  Memory& live_memory() {
    if (memory == nullptr) {
      memory = std::make_unique<Memory>(program);
      memory->copy_outputs();
    }
    return *memory;
  }

 private:
  struct Code {
    std::uint32_t file = 0;
    bool ours = false;
    py::object keep;                   // a code object must not be recycled while it is a key
    std::vector<std::uint32_t> lines;  // by offset in the byte code; 0: not asked for yet
  };
  Code& code_of(PyCodeObject* code);
  std::string free_name(const std::string& given);
  const std::string* region_ = nullptr;  // of what is recorded now; in program's texts
  void add_dims(PyObject* shape, PyObject* strides, bool on_chip, bool exact);
  const DynamicOffset* dynamic(PyObject* entries);
  TensorRef operand(PyObject* tensor, bool exact);
  const TensorRef* ref(PyObject* tensor, bool exact);
  void check_rank(const Param& param, PyObject* value) const;
  Arg tensor_arg(const Param& param, PyObject* value, bool exact);
  Arg tensor_list(const Param& param, PyObject* value, bool exact);
  Arg text_arg(PyObject* value);
  Arg list_arg(const Param& param, PyObject* value);
  Arg groups_arg(const Param& param, PyObject* value);
  Arg convert(const Param& param, PyObject* value, bool exact);
  void infer_accumulate(const Inst& inst, std::span<Arg> values);
  void chain();
  void note_raw(std::string_view parameter, PyObject* value) const;

  std::unordered_map<PyCodeObject*, Code> codes_;
  std::optional<SourceLoc> fixed_location_;
  std::unordered_map<std::uint64_t, py::object> places_;     // by file and line
  std::unordered_map<PyObject*, SourceLoc> located_;         // by place
  std::unordered_map<std::string, std::uint32_t> numbered_;  // name -> the last number given out
  PsumWrites psum_;
  std::unordered_map<int, std::optional<std::size_t>> kept_;  // by core in a no-reorder block: the
                                                              // last instruction there
  std::vector<Dim> dims_;                                     // of the operand being made
};

}  // namespace nkisim::python
