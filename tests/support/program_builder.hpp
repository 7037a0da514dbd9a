// Builds small programs for tests: tensors with values, instructions by name, results as floats.
#pragma once

#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "isa/base/act.hpp"
#include "isa/base/alu.hpp"
#include "isa/machine/memory.hpp"
#include "isa/program/program.hpp"
#include "isa/world/interpreter.hpp"

namespace nkisim::test {

/// One named argument of an instruction.
struct Named {
  std::string_view name;
  isa::Arg arg;
};

class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::string_view target = "trn2")
      : program_(std::make_unique<isa::Program>(*isa::find_machine(target))) {}

  [[nodiscard]] isa::Program& program() { return *program_; }

  /// Adds a tensor; on-chip ones are placed one after the other, 64-byte aligned (2 KiB in PSUM).
  std::uint32_t tensor(const std::string& name, isa::Space space, isa::Dtype dtype,
                       std::vector<std::int64_t> shape, std::uint16_t partition = 0,
                       std::uint8_t core = 0) {
    isa::Tensor t{.name = name,
                  .space = space,
                  .dtype = dtype,
                  .core = core,
                  .shape = std::move(shape),
                  .partition = partition};
    if (space != isa::Space::kHbm) {
      std::int64_t& next = space == isa::Space::kSbuf ? sbuf_ : psum_;
      const std::int64_t align = space == isa::Space::kSbuf ? 64 : 2048;
      t.address = next;
      next += (t.extent_bytes() + align - 1) / align * align;
    }
    return program_->add_tensor(std::move(t));
  }
  std::uint32_t sbuf(const std::string& name, isa::Dtype dtype, std::vector<std::int64_t> shape,
                     std::uint16_t partition = 0) {
    return tensor(name, isa::Space::kSbuf, dtype, std::move(shape), partition);
  }
  std::uint32_t psum(const std::string& name, isa::Dtype dtype, std::vector<std::int64_t> shape,
                     std::uint16_t partition = 0) {
    return tensor(name, isa::Space::kPsum, dtype, std::move(shape), partition);
  }
  std::uint32_t hbm(const std::string& name, isa::Dtype dtype, std::vector<std::int64_t> shape) {
    return tensor(name, isa::Space::kHbm, dtype, std::move(shape));
  }

  /// The whole tensor, and views of it (dims: free dimensions on chip, all in HBM).
  const isa::TensorRef* all(std::uint32_t id) { return program_->whole(id); }
  const isa::TensorRef* view(std::uint32_t id, std::vector<isa::Dim> dims,
                             std::int64_t offset_elements = 0, int partition = -1,
                             int partitions = -1, const isa::DynamicOffset* dynamic = nullptr) {
    isa::TensorRef ref = *program_->whole(id);
    ref.pattern = program_->intern(std::move(dims));
    ref.offset = offset_elements * isa::size_bytes(ref.dtype);
    if (partition >= 0) ref.partition = static_cast<std::uint16_t>(partition);
    if (partitions >= 0) ref.partitions = static_cast<std::uint16_t>(partitions);
    ref.dynamic = dynamic;
    return program_->add_ref(ref);
  }
  const isa::TensorRef* as(const isa::TensorRef* ref, isa::Dtype dtype) {
    isa::TensorRef copy = *ref;
    copy.dtype = dtype;
    return program_->add_ref(copy);
  }

  static isa::Arg arg(const isa::TensorRef* ref) {
    isa::Arg a;
    a.kind = isa::Arg::Kind::kTensor;
    a.tensor = ref;
    return a;
  }
  static isa::Arg arg(double value) {
    isa::Arg a;
    a.kind = isa::Arg::Kind::kReal;
    a.real = value;
    return a;
  }
  static isa::Arg arg(bool value) { return number(isa::Arg::Kind::kBool, value ? 1 : 0); }
  static isa::Arg arg(int value) { return number(isa::Arg::Kind::kInt, value); }
  static isa::Arg arg(isa::AluOp op) {
    return number(isa::Arg::Kind::kEnum, static_cast<std::int64_t>(op));
  }
  static isa::Arg arg(isa::ActFn fn) {
    return number(isa::Arg::Kind::kEnum, static_cast<std::int64_t>(fn));
  }
  static isa::Arg choice(int index) { return number(isa::Arg::Kind::kEnum, index); }
  static isa::Arg reg(int index) { return number(isa::Arg::Kind::kRegister, index); }
  isa::Arg list(isa::IntList values) {
    isa::Arg a;
    a.kind = isa::Arg::Kind::kList;
    a.list = program_->add_list(std::move(values));
    return a;
  }
  isa::Arg refs(isa::RefList values) {
    isa::Arg a;
    a.kind = isa::Arg::Kind::kTensors;
    a.tensors = program_->add_refs(std::move(values));
    return a;
  }

  /// Appends an instruction; throws Error if a check fails or an argument name is unknown.
  const isa::Inst& op(std::string_view name, std::initializer_list<Named> args,
                      isa::Engine engine = isa::Engine::kAny, std::uint8_t core = 0) {
    const isa::OpSpec* spec = isa::find_op(name);
    if (spec == nullptr)
      isa::fail(isa::Rule::unknown_instruction, "no instruction " + std::string(name));
    std::vector<isa::Arg> values(spec->params.size());
    for (const Named& named : args) {
      const int i = isa::param_index(*spec, named.name);
      if (i < 0) isa::fail(isa::Rule::unknown_parameter, "no parameter " + std::string(named.name));
      values[static_cast<std::size_t>(i)] = named.arg;
    }
    isa::Inst inst;
    inst.op = isa::op_id(*spec);
    inst.engine = engine;
    inst.core = core;
    return program_->append(inst, values);
  }

  /// Message of the Error that `fn` throws, "" if it throws none.
  static std::string error_of(const std::function<void()>& fn) {
    try {
      fn();
    } catch (const isa::Error& e) {
      return e.message();
    }
    return {};
  }

  isa::Memory& memory() {
    if (memory_ == nullptr) memory_ = std::make_unique<isa::Memory>(*program_);
    return *memory_;
  }
  /// Writes a tensor's bytes or values (all tensors must have been added before).
  void set_bytes(std::uint32_t id, const std::vector<std::byte>& bytes) {
    memory().write(id, bytes);
  }
  void set(std::uint32_t id, const std::vector<float>& values) {
    const isa::Tensor& t = program_->tensor(id);
    const std::int64_t width = isa::is_packed(t.dtype) ? 4 : 1;
    const auto count = static_cast<std::size_t>(t.elements());
    if (values.size() != count * static_cast<std::size_t>(width)) {
      isa::fail(isa::Rule::data_size, "wrong value count for " + t.name);
    }
    std::vector<std::byte> bytes(count * static_cast<std::size_t>(isa::size_bytes(t.dtype)));
    isa::encode(t.dtype, values.data(), count, bytes.data());
    set_bytes(id, bytes);
  }
  template <typename T>
  void set_words(std::uint32_t id, const std::vector<T>& words) {
    std::vector<std::byte> bytes(words.size() * sizeof(T));
    std::memcpy(bytes.data(), words.data(), bytes.size());
    set_bytes(id, bytes);
  }
  std::vector<float> get(std::uint32_t id) {
    const isa::Tensor& t = program_->tensor(id);
    const std::vector<std::byte> bytes = memory().read(id);
    const auto count = static_cast<std::size_t>(t.elements());
    std::vector<float> values(count * (isa::is_packed(t.dtype) ? 4 : 1));
    isa::decode(t.dtype, bytes.data(), count, values.data());
    return values;
  }
  template <typename T>
  std::vector<T> get_words(std::uint32_t id) {
    const std::vector<std::byte> bytes = memory().read(id);
    std::vector<T> words(bytes.size() / sizeof(T));
    std::memcpy(words.data(), bytes.data(), bytes.size());
    return words;
  }

  void run(const isa::InterpretOptions& options = {}) {
    isa::interpret(*program_, memory(), options);
  }
  isa::Expansion parts(const isa::Inst& inst) {
    isa::Expansion out;
    isa::expand(inst, program_->machine(), out);
    return out;
  }

 private:
  static isa::Arg number(isa::Arg::Kind kind, std::int64_t value) {
    isa::Arg a;
    a.kind = kind;
    a.integer = value;
    return a;
  }
  std::unique_ptr<isa::Program> program_;
  std::unique_ptr<isa::Memory> memory_;
  std::int64_t sbuf_ = 0, psum_ = 0;
};

}  // namespace nkisim::test
