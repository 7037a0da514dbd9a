// The public C++ API of nkisim: build or read a program of NKI instructions, run it on a simulated
// machine, read its outputs, latency and metrics.
//
//   Config          a machine: trn1, trn2, trn3, a file, with numbers changed
//   ProgramBuilder  makes a Program in memory, an instruction at a time
//   Program         NKI instructions: read from a file or text, or built; saved in either form
//   Job             what is to be run of it, and with which data
//   run()           runs it: values, time or both
//   Outcome         exit code, latency, outputs and the metrics of the run
//   Observer        receives each instruction and transfer as it ends in simulated time
//
// Names of instructions and parameters are nki.isa's (`nkisim isa show NAME`), those of metrics
// neuron-profile's (`nkisim explain NAME`). Times are integers in femtoseconds unless a name says
// otherwise. Everything here needs the standard library only.
//
// Errors: every function throws nkisim::v1::Error where it says so, and for nothing else but what
// the standard library throws (std::bad_alloc). Objects may be used by one thread at a time; two
// threads may run two programs.
//
// `v1` is the version of this interface: a change that breaks a program gets a new one, and the old
// one stays for one release.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace nkisim::v1 {

/// Simulated time in femtoseconds.
using Time = std::int64_t;
[[nodiscard]] constexpr double to_ns(Time fs) { return static_cast<double>(fs) / 1e6; }
[[nodiscard]] constexpr double to_us(Time fs) { return static_cast<double>(fs) / 1e9; }

/// The version of the library: "0.9.0".
[[nodiscard]] std::string version();

/// Something is wrong with the program, its data, the machine or the options. what() says where,
/// what was found and what is required.
class Error : public std::runtime_error {
 public:
  struct Facts {
    std::string rule;         // its id: `nkisim explain ID`
    std::string message;      // without the place
    std::string instruction;  // empty where it is about none
    std::string file;         // the kernel's file, or the trace's; may be empty
    int line = 0;             // in that file; 0: unknown
    int exit_code = 3;        // of a command that ends with it: 2 for options, 3 for bad input
  };
  Error(const std::string& what, Facts facts)
      : std::runtime_error(what), facts_(std::make_shared<const Facts>(std::move(facts))) {}
  [[nodiscard]] const Facts& facts() const noexcept { return *facts_; }

 private:
  std::shared_ptr<const Facts> facts_;  // copied without throwing
};

// ---- Arrays ------------------------------------------------------------------------------------

/// The dtype of a C++ type; other dtypes (bfloat16, float8_e4m3, ...) travel as raw bytes.
template <typename T>
[[nodiscard]] constexpr std::string_view dtype_of();
template <>
constexpr std::string_view dtype_of<float>() {
  return "float32";
}
template <>
constexpr std::string_view dtype_of<std::int32_t>() {
  return "int32";
}
template <>
constexpr std::string_view dtype_of<std::uint32_t>() {
  return "uint32";
}
template <>
constexpr std::string_view dtype_of<std::int16_t>() {
  return "int16";
}
template <>
constexpr std::string_view dtype_of<std::uint16_t>() {
  return "uint16";
}
template <>
constexpr std::string_view dtype_of<std::int8_t>() {
  return "int8";
}
template <>
constexpr std::string_view dtype_of<std::uint8_t>() {
  return "uint8";
}

/// Values of a tensor: row-major, little-endian.
struct Array {
  std::string dtype;  // of nki.language
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  template <typename T>
  [[nodiscard]] static Array of(std::vector<std::int64_t> shape, std::span<const T> values) {
    const auto raw = std::as_bytes(values);
    return {std::string(dtype_of<T>()), std::move(shape), {raw.begin(), raw.end()}};
  }
  /// A copy of the elements. Throws std::invalid_argument if they are of another dtype.
  template <typename T>
  [[nodiscard]] std::vector<T> values() const {
    if (dtype != dtype_of<T>()) throw std::invalid_argument("the array holds " + dtype);
    std::vector<T> out(bytes.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
    return out;
  }
};

// ---- The machine -------------------------------------------------------------------------------

/// A machine description (configs/*.json; `nkisim config show trn2` prints one).
class Config {
 public:
  /// `name`: a target ("trn2"), a built-in config or a file. `set`: "path=value", numbers changed.
  /// Throws Error for an unknown name or key, or a value out of bounds.
  explicit Config(std::string name = "trn2", std::vector<std::string> set = {});
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::vector<std::string>& set() const { return set_; }
  /// trn1, inf2, trn2, trn3, ...: the instructions and limits that programs are checked against.
  [[nodiscard]] const std::string& target() const { return target_; }
  /// The whole description as JSON text, with what it inherits.
  [[nodiscard]] std::string json() const;

 private:
  std::string name_;
  std::vector<std::string> set_;
  std::string target_;
};

// ---- Programs ----------------------------------------------------------------------------------

enum class Space : std::uint8_t { kHbm, kSbuf, kPsum };
enum class Role : std::uint8_t { kInternal, kInput, kOutput, kInputOutput };

struct TensorSpec {
  std::string name;  // unique
  Space space = Space::kHbm;
  std::vector<std::int64_t> shape;  // on chip the first axis is the partition, at most 128
  std::string dtype = "float32";
  Role role = Role::kInternal;
  /// On chip: bytes from the start of each partition. Either all on-chip tensors have one, or none:
  /// the compiler then places them.
  std::optional<std::int64_t> address = {};
  int core = 0;  // owner of an on-chip tensor
};

/// An argument of an instruction. A tensor is its name, or a part of it as NumPy writes it:
/// "x", "x[0:64, ::2]". Operators, dtypes and engines are their names: "add". Lists hold arguments.
class Value {
 public:
  using List = std::vector<Value>;
  Value(const char* text) : held_(std::string(text)) {}  // NOLINT(google-explicit-constructor)
  Value(std::string text) : held_(std::move(text)) {}    // NOLINT(google-explicit-constructor)
  Value(double number) : held_(number) {}                // NOLINT(google-explicit-constructor)
  Value(int number) : held_(std::int64_t{number}) {}     // NOLINT(google-explicit-constructor)
  Value(std::int64_t number) : held_(number) {}          // NOLINT(google-explicit-constructor)
  Value(bool flag) : held_(flag) {}                      // NOLINT(google-explicit-constructor)
  Value(List list) : held_(std::move(list)) {}           // NOLINT(google-explicit-constructor)
  using Held = std::variant<std::string, double, std::int64_t, bool, List>;
  [[nodiscard]] const Held& held() const { return held_; }

 private:
  Held held_;
};

struct TensorInfo {
  std::string name, dtype;
  Space space = Space::kHbm;
  Role role = Role::kInternal;
  std::vector<std::int64_t> shape;
};

/// A checked program. Copies share it.
class Program {
 public:
  /// Reads a trace (JSON Lines or binary, plain or gzip; docs/trace-format.md). Throws Error.
  [[nodiscard]] static Program read(const std::string& path);
  /// The same from memory; `name` stands for the file in messages.
  [[nodiscard]] static Program parse(std::string bytes, std::string name = "program");

  [[nodiscard]] std::size_t instructions() const;
  [[nodiscard]] std::string target() const;
  [[nodiscard]] std::vector<TensorInfo> tensors() const;
  /// One instruction a line, as the trace format writes them.
  [[nodiscard]] std::string text() const;
  /// `.nisa` is binary, anything else JSON Lines; a further `.gz` compresses. The file appears only
  /// when it is complete. Throws Error.
  void save(const std::string& path) const;

  struct Inside;  // of the library

 private:
  explicit Program(std::shared_ptr<Inside> inside) : inside_(std::move(inside)) {}
  std::shared_ptr<Inside> inside_;
  friend class ProgramBuilder;
  friend struct Access;
};

/// Makes a program an instruction at a time. Semaphores follow from the operands.
class ProgramBuilder {
 public:
  using Arguments = std::initializer_list<std::pair<std::string_view, Value>>;
  explicit ProgramBuilder(std::string target = "trn2", std::string name = "program");
  ~ProgramBuilder();
  ProgramBuilder(const ProgramBuilder&) = delete;
  ProgramBuilder& operator=(const ProgramBuilder&) = delete;

  /// Declares a tensor; returns its name, the operand that means all of it.
  std::string tensor(const TensorSpec& spec);
  /// Appends an instruction with its arguments by name. "engine", "core", "label" and the other
  /// keys of docs/trace-format.md are arguments, too; so are loops ("loop_begin", ...)
  /// instructions.
  ProgramBuilder& add(std::string_view instruction, Arguments arguments = {});
  /// The source line of the instructions that follow, for messages and reports.
  ProgramBuilder& at(std::string file, int line);
  /// Checks everything. Throws Error: its line counts tensors and instructions from 2 on, in the
  /// order in which they were added. The builder is empty afterwards.
  [[nodiscard]] Program finish();

 private:
  struct Lines;
  std::unique_ptr<Lines> lines_;
};

// ---- Runs --------------------------------------------------------------------------------------

/// An instruction ran [start, end), on `engine` of a core. Valid during the call only.
struct InstructionEvent {
  std::string_view instruction, engine;
  int rank = 0, core = 0;
  std::uint64_t sequence = 0;  // of executed instructions of the core, from 0
  Time start = 0, end = 0;
  std::string_view file;  // of the kernel; may be empty
  int line = 0;
  bool inserted = false;  // a wait that the machine put before the instruction
};

/// The data of a DMA moved [start, end); from `visible` on, instructions see that it has.
struct TransferEvent {
  std::string_view instruction;
  int rank = 0, core = 0;
  int queue = 0;
  std::uint64_t sequence = 0;  // of the instruction that triggered it
  Time triggered = 0, start = 0, end = 0, visible = 0;
  std::int64_t packets = 0;
  std::string_view file;
  int line = 0;
};

/// Receives the events of a run in time, in the order in which things end. A run of several ranks
/// may be begun a second time: on_start says so for each rank.
class Observer {
 public:
  Observer() = default;
  virtual ~Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual void on_start(int /*rank*/) {}
  virtual void on_instruction(const InstructionEvent& /*event*/) {}
  virtual void on_transfer(const TransferEvent& /*event*/) {}
  virtual void on_end(int /*rank*/, Time /*end*/) {}
};

/// One run of a program. `{rank}` in a file's name stands for the rank.
struct Job {
  std::optional<Config> config = {};  // none: the program's target
  std::map<std::string, std::string> switches =
      {};                         // of the compiler (`nkisim run --help-compiler`)
  std::optional<int> ranks = {};  // none: as the program says
  bool values = true, time = true;

  std::map<std::string, Array> inputs =
      {};  // by tensor, of all ranks; the others as the program says
  std::map<std::string, Array> expected = {};  // outputs to compare with, by tensor
  double rtol = 1e-5, atol = 1e-8;             // as numpy.allclose
  bool allow_unwritten = false;                // bytes never written are zeros
  bool allow_races = false;
  std::vector<std::string> suppress = {}, error = {};  // rules: not reported; made errors

  std::uint64_t max_instructions = 0;  // 0: no limit; a run that reaches it ends, partial
  std::string session = {}, perfetto = {}, summary_json = {};  // reports to write
};

struct Mismatch {
  std::string output;
  std::int64_t elements = 0;  // that differ
  double largest = 0;         // absolute difference
};

class Outcome {
 public:
  int exit_code = 0;      // 0: all is well; 1: outputs differ from those expected
  bool partial = false;   // a limit ended the run early
  double latency_us = 0;  // first start to last end on any core of any rank; 0 without time
  std::uint64_t instructions = 0;  // executed, of all ranks
  std::string bottleneck;          // "TensorEngine (93 % active)"; empty without time
  std::vector<std::string> warnings, printed;
  std::vector<Mismatch> mismatches;

  [[nodiscard]] bool ok() const { return exit_code == 0; }
  /// An output of a rank. Throws std::out_of_range if there is none of that name.
  [[nodiscard]] const Array& output(const std::string& name, std::size_t rank = 0) const;
  /// Outputs by name, for each rank; empty without values.
  std::vector<std::map<std::string, Array>> outputs;
  /// A number of the run's totals: "dma_active_time_percent". Throws std::out_of_range.
  [[nodiscard]] double metric(const std::string& name) const;
  std::map<std::string, double> metrics;
  /// All of it as `nkisim run --json` prints it (docs/jobs.md).
  std::string json;
};

/// Runs a program. It is compiled once for jobs of one machine and the same switches. Throws Error
/// for whatever is wrong with the program, its data, the machine or the options; outputs that
/// differ from those expected are no error but an exit code. May be called from a SystemC process:
/// the run has a simulation context of its own.
[[nodiscard]] Outcome run(const Program& program, const Job& job = {},
                          Observer* observer = nullptr);

}  // namespace nkisim::v1
