// Reads the binary form of a trace (a file of NKI instructions).
#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "isa/program/ordering.hpp"
#include "src/trace/operand_text.hpp"
#include "src/trace/trace_binary.hpp"
#include "src/trace/trace_declare.hpp"
#include "src/trace/trace_names.hpp"

namespace nkisim {
namespace {

using isa::Arg;

constexpr std::uint64_t kProgressInsts = 1U << 16U;
constexpr int kMaxIndexDepth = 8;
constexpr std::uint64_t kMaxItems = std::uint64_t{1} << 20U;  // of one list

bool valid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<std::uint8_t>(text[i]);
    const std::size_t more = lead < 0x80U   ? 0
                             : lead < 0xc2U ? 4
                             : lead < 0xe0U ? 1
                             : lead < 0xf0U ? 2
                             : lead < 0xf5U ? 3
                                            : 4;
    if (more == 4 || text.size() - i <= more) return false;
    for (std::size_t k = 1; k <= more; ++k) {
      if ((static_cast<std::uint8_t>(text[i + k]) & 0xc0U) != 0x80U) return false;
    }
    i += more + 1;
  }
  return true;
}

[[noreturn]] void corrupt(const std::string& what) {
  isa::fail(isa::Rule::file_damaged, "the binary trace is corrupt: " + what);
}

/// One parameter of a form: how its value is stored, or the value itself.
struct FormArg {
  std::size_t index = 0;
  binary::Value value = binary::kInt;
  Arg constant;
};

struct Form {
  isa::Inst inst;
  const isa::OpSpec* op = nullptr;
  std::uint64_t flags = 0;
  std::vector<FormArg> args;
};

class Reader {
 public:
  Reader(ByteReader& in, const ReadOptions& options) : in_(in), options_(options) {}

  TraceFile read() {
    try {
      read_records();
    } catch (isa::Error& e) {
      e.at("", {.trace_line = line_});
      if (trace_.program) trace_.program->locate(e);
      e.in(in_.name(), "");
      throw;
    }
    trace_.program->finish();
    isa::check_ordering(*trace_.program, !trace_.open);
    return std::move(trace_);
  }

 private:
  void read_records() {
    in_.skip(binary::kMagic.size());
    const int version = in_.read(1).front();
    if (version != binary::kVersion) {
      isa::fail(isa::Rule::trace_version, "the trace",
                "of binary version " + std::to_string(version), "version 1");
    }
    if (in_.read_varint() != binary::kHeader) corrupt("no header");
    line_ = 1;
    read_header(json_.parse(in_.read(in_.read_varint())), in_.name(), options_, trace_);
    program_ = trace_.program.get();
    for (std::uint32_t id = 0; id < program_->tensors().size(); ++id) tensors_.push_back(id);
    for (std::uint64_t tag = in_.read_varint(); tag != binary::kEnd; tag = in_.read_varint()) {
      if (tag >= binary::kFirstForm) {
        read_inst(tag - binary::kFirstForm);
      } else {
        read_entry(tag);
      }
    }
    if (in_.read_varint() != program_->insts().size()) corrupt("wrong number of instructions");
    if (!in_.at_end()) corrupt("bytes after the end");
  }

  void read_entry(std::uint64_t tag) {
    switch (tag) {
      case binary::kTensor:
        return read_tensor_record();
      case binary::kString: {
        std::string text(in_.read(in_.read_varint()));
        if (!valid_utf8(text)) corrupt("a text is not UTF-8");
        dtypes_.push_back(isa::parse_dtype(text));
        strings_.push_back(std::move(text));
        return;
      }
      case binary::kPattern:
        return read_pattern();
      case binary::kRef:
        return read_ref();
      case binary::kForm:
        return read_form();
      default:
        corrupt("record type " + std::to_string(tag));
    }
  }

  void read_tensor_record() {
    ++line_;
    const Json json = json_.parse(in_.read(in_.read_varint()));
    const auto tensor = json.find("tensor");
    if (!tensor) corrupt("a tensor record without tensor");
    tensors_.push_back(static_cast<std::uint32_t>(program_->tensors().size()));
    read_tensor(*tensor, trace_);
  }

  template <typename T>
  const T& entry(const std::vector<T>& table, std::uint64_t id, const char* what) const {
    if (id >= table.size()) corrupt(std::string("unknown ") + what + " " + std::to_string(id));
    return table[static_cast<std::size_t>(id)];
  }
  const std::string& string() { return entry(strings_, in_.read_varint(), "text"); }
  std::int64_t integer(std::int64_t high, const char* what) {
    const std::uint64_t value = in_.read_varint();
    if (value > static_cast<std::uint64_t>(high)) corrupt(std::string(what) + " out of range");
    return static_cast<std::int64_t>(value);
  }
  std::uint64_t count(const char* what) {
    return static_cast<std::uint64_t>(integer(kMaxItems, what));
  }

  void read_pattern() {
    std::vector<isa::Dim> dims(static_cast<std::size_t>(integer(kMaxDims, "dimensions")));
    for (isa::Dim& d : dims) {
      d.step = binary::unzigzag(in_.read_varint());
      d.num = integer(isa::kMostElements, "dimension");
    }
    check_dims("pattern", dims);
    patterns_.push_back(program_->intern(std::move(dims)));
  }

  std::uint32_t base_tensor() {
    const std::uint64_t base = in_.read_varint();
    const std::uint64_t id = in_.read_varint();
    if (base == binary::kDeclared) return entry(tensors_, id, "tensor");
    if (base > binary::kRawPsum || id >= static_cast<std::uint64_t>(trace_.cores)) {
      corrupt("bad base of an operand");
    }
    return raw_tensor(*program_, base == binary::kRawSbuf ? isa::Space::kSbuf : isa::Space::kPsum,
                      static_cast<int>(id));
  }

  void read_ref() {
    isa::TensorRef ref;
    ref.tensor = base_tensor();
    const isa::Tensor& tensor = program_->tensor(ref);
    ref.space = tensor.space;
    const auto dtype = entry(dtypes_, in_.read_varint(), "dtype");
    if (!dtype) corrupt("a dtype that is none");
    ref.dtype = *dtype;
    ref.offset = integer(kMaxAddress, "offset");
    ref.pattern = entry(patterns_, in_.read_varint(), "pattern");
    if (ref.on_chip()) {
      const std::int64_t first = integer(isa::kPartitions - 1, "partition");
      const std::int64_t rows = integer(isa::kPartitions, "partitions");
      if (rows < 1 || first + rows > tensor.shape[0]) corrupt("partitions outside the tensor");
      ref.partition = static_cast<std::uint16_t>(tensor.partition + first);
      ref.partitions = static_cast<std::uint16_t>(rows);
    }
    std::vector<isa::DynamicOffset> chain;
    for (std::uint64_t kind = in_.read_varint(); kind != 0; kind = in_.read_varint()) {
      if (kind > 4 || chain.size() >= 4) corrupt("bad dynamic offset");
      chain.push_back(read_dynamic(static_cast<isa::DynamicOffset::Kind>(kind - 1)));
    }
    for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
      it->next = ref.dynamic;
      ref.dynamic = program_->add_dynamic(*it);
    }
    refs_.push_back(program_->add_ref(ref));
  }

  /// Levels of index operands below (and with) `ref`; records can chain them without end.
  static int depth_of(const isa::TensorRef* ref) {
    int depth = 0;
    if (ref == nullptr) return depth;
    for (const isa::DynamicOffset* d = ref->dynamic; d != nullptr; d = d->next) {
      depth = std::max(depth, depth_of(d->index));
    }
    return depth + 1;
  }

  isa::DynamicOffset read_dynamic(isa::DynamicOffset::Kind kind) {
    isa::DynamicOffset d;
    d.kind = kind;
    if (kind == isa::DynamicOffset::Kind::kRegister) {
      d.reg = static_cast<std::uint16_t>(integer(65535, "register"));
    } else {
      d.index = entry(refs_, in_.read_varint(), "operand");
    }
    if (depth_of(d.index) > kMaxIndexDepth) corrupt("index operands nest too deeply");
    d.stride = binary::unzigzag(in_.read_varint());
    if (d.stride > isa::kMostElements || d.stride < -isa::kMostElements)
      corrupt("stride out of range");
    d.limit = integer(isa::kMostElements, "limit");
    d.group = integer(isa::kPartitions, "group");
    return d;
  }

  void read_form() {
    Form form;
    const std::string& op_name = string();
    form.op = isa::find_op(op_name);
    if (form.op == nullptr)
      isa::fail(isa::Rule::unknown_instruction, "i", "\"" + op_name + "\"",
                "the name of an instruction");
    form.inst.op = isa::op_id(*form.op);
    const std::string& engine = string();
    const auto parsed = isa::parse_engine(engine);
    if (!parsed)
      isa::fail(isa::Rule::unknown_engine, "engine", "\"" + engine + "\"", "an engine name");
    form.inst.engine = *parsed;
    form.inst.core = static_cast<std::uint8_t>(integer(trace_.cores - 1, "core"));
    form.flags = in_.read_varint();
    if (form.flags > binary::kFlags) corrupt("flags of a form that this version does not know");
    form.inst.forward = (form.flags & binary::kForward) != 0;
    const std::uint64_t args = count("arguments");
    for (std::uint64_t i = 0; i < args; ++i) form.args.push_back(read_form_arg(*form.op));
    if ((form.flags & binary::kHasSync) != 0 && !program_->explicit_semaphores()) {
      isa::fail(isa::Rule::trace_semaphores,
                "wait and post are given; \"semaphores\": \"explicit\" is required in the header");
    }
    forms_.push_back(std::move(form));
  }

  FormArg read_form_arg(const isa::OpSpec& op) {
    const std::string& param = string();
    const int index = isa::param_index(op, param);
    if (index < 0)
      isa::fail(isa::Rule::unknown_parameter,
                "unknown parameter \"" + param + "\" of " + std::string(op.name));
    FormArg arg;
    arg.index = static_cast<std::size_t>(index);
    arg.value = static_cast<binary::Value>(integer(binary::kText, "kind of value"));
    const isa::Param& spec = op.params[arg.index];
    if (arg.value == binary::kTrue || arg.value == binary::kFalse) {
      arg.constant.kind = Arg::Kind::kBool;
      arg.constant.integer = arg.value == binary::kTrue ? 1 : 0;
    } else if (arg.value == binary::kChoice) {
      if (!is_choice(spec.kind)) corrupt("a name given for " + param);
      arg.constant.kind = choice_kind(spec.kind);
      arg.constant.integer = parse_choice(*program_, spec, string());
    } else if (is_choice(spec.kind)) {
      corrupt("a number given for " + param);
    }
    return arg;
  }

  void read_inst(std::uint64_t id) {
    ++line_;
    const Form& form = entry(forms_, id, "form");
    isa::Inst inst = form.inst;
    inst.loc.trace_line = line_;
    if ((form.flags & binary::kHasLoc) != 0) read_location(inst.loc);
    if ((form.flags & binary::kHasLabel) != 0) inst.label = program_->add_text(string());
    if ((form.flags & binary::kHasRegion) != 0) inst.region = program_->add_text(string());
    if ((form.flags & binary::kHasSync) != 0) inst.sync = read_sync();
    if ((form.flags & binary::kHasDma) != 0) inst.dma = read_dma();
    if ((form.flags & binary::kHasOrdering) != 0) inst.ordering = read_ordering();
    args_.assign(form.op->params.size(), Arg{});
    for (const FormArg& arg : form.args) args_[arg.index] = read_arg(arg);
    program_->append(inst, args_);
    if (options_.progress && program_->insts().size() % kProgressInsts == 0) {
      options_.progress(in_.consumed(), in_.total());
    }
  }

  void read_location(isa::SourceLoc& loc) {
    const std::uint64_t file = in_.read_varint();
    entry(strings_, file, "text");
    if (file_ids_.size() <= file) file_ids_.resize(strings_.size(), 0);
    std::uint32_t& known = file_ids_[static_cast<std::size_t>(file)];
    if (known == 0) known = program_->add_file(strings_[static_cast<std::size_t>(file)]);
    const std::int64_t change = binary::unzigzag(in_.read_varint());
    if (change > UINT32_MAX || change < -std::int64_t{UINT32_MAX}) corrupt("line out of range");
    last_line_ += change;
    if (last_line_ < 0 || last_line_ > UINT32_MAX) corrupt("line out of range");
    loc.kernel_file = known;
    loc.kernel_line = static_cast<std::uint32_t>(last_line_);
  }

  std::int32_t semaphore_value() {
    const std::int64_t value = binary::unzigzag(in_.read_varint());
    if (value > INT32_MAX || value < INT32_MIN) corrupt("semaphore value out of range");
    return static_cast<std::int32_t>(value);
  }

  std::uint32_t read_ordering() {
    isa::Ordering ordering;
    ordering.id = static_cast<std::uint32_t>(integer(kMaxOrderId, "id"));
    for (std::uint64_t n = count("after"); n > 0; --n) {
      ordering.after.push_back(static_cast<std::uint32_t>(integer(kMaxOrderId, "id")));
    }
    return program_->add_ordering(std::move(ordering));
  }

  const isa::Sync* read_sync() {
    isa::Sync sync;
    for (std::uint64_t n = count("waits"); n > 0; --n) {
      isa::SemaphoreWait w;
      w.semaphore = static_cast<std::uint16_t>(integer(65535, "semaphore"));
      w.compare = static_cast<isa::SemaphoreWait::Compare>(integer(4, "comparison"));
      w.value = semaphore_value();
      sync.waits.push_back(w);
    }
    for (std::uint64_t n = count("posts"); n > 0; --n) {
      isa::SemaphorePost p;
      p.semaphore = static_cast<std::uint16_t>(integer(65535, "semaphore"));
      const std::int64_t action = integer(9, "action");
      p.action = static_cast<isa::SemaphorePost::Action>(action / 2);
      p.at_issue = action % 2 != 0;
      p.value = semaphore_value();
      sync.posts.push_back(p);
    }
    return program_->add_sync(std::move(sync));
  }

  const isa::DmaPlan* read_dma() {
    isa::DmaPlan plan;
    if (program_->queues().size() >= 4096) corrupt("more than 4096 queues");
    plan.queue_name = program_->add_queue(string());
    for (std::uint64_t n = count("packets"); n > 0; --n) {
      isa::DmaPacket p;
      p.engine = static_cast<std::uint16_t>(integer(15, "engine"));
      p.queue = static_cast<std::uint16_t>(integer(65535, "queue"));
      p.bytes = integer(kMaxAddress, "packet");
      plan.packets.push_back(p);
    }
    plan.semaphore = static_cast<std::int32_t>(integer(65536, "semaphore")) - 1;
    if (plan.semaphore >= 0) {
      plan.increment = static_cast<std::int32_t>(integer(INT32_MAX, "increment"));
    }
    return program_->add_plan(std::move(plan));
  }

  Arg read_arg(const FormArg& form) {
    Arg arg = form.constant;
    switch (form.value) {
      case binary::kOperand:
        arg.kind = Arg::Kind::kTensor;
        arg.tensor = entry(refs_, in_.read_varint(), "operand");
        break;
      case binary::kOperands: {
        isa::RefList refs;
        for (std::uint64_t n = count("operands"); n > 0; --n) {
          refs.push_back(entry(refs_, in_.read_varint(), "operand"));
        }
        arg.kind = Arg::Kind::kTensors;
        arg.tensors = program_->add_refs(std::move(refs));
        break;
      }
      case binary::kReal: {
        const std::string_view bytes = in_.read(8);
        std::uint64_t bits = 0;
        for (std::size_t k = 8; k-- > 0;) bits = (bits << 8U) | static_cast<std::uint8_t>(bytes[k]);
        arg.kind = Arg::Kind::kReal;
        arg.real = std::bit_cast<double>(bits);
        break;
      }
      case binary::kInt:
        arg.kind = Arg::Kind::kInt;
        arg.integer = binary::unzigzag(in_.read_varint());
        break;
      case binary::kRegister:
        arg.kind = Arg::Kind::kRegister;
        arg.integer = binary::unzigzag(in_.read_varint());
        if (arg.integer < 0 || arg.integer > 65535) corrupt("register out of range");
        break;
      case binary::kInts: {
        isa::IntList list;
        for (std::uint64_t n = count("integers"); n > 0; --n) {
          list.push_back(binary::unzigzag(in_.read_varint()));
        }
        arg.kind = Arg::Kind::kList;
        arg.list = program_->add_list(std::move(list));
        break;
      }
      case binary::kText:
        arg.kind = Arg::Kind::kText;
        arg.text = program_->add_text(string());
        break;
      default:
        break;
    }
    return arg;
  }

  ByteReader& in_;
  const ReadOptions& options_;
  TraceFile trace_;
  isa::Program* program_ = nullptr;
  JsonLine json_;
  std::uint32_t line_ = 0;
  std::int64_t last_line_ = 0;
  std::vector<std::string> strings_;
  std::vector<std::optional<isa::Dtype>> dtypes_;  // parallel to strings_
  std::vector<std::uint32_t> file_ids_;            // parallel to strings_; 0 = not a file yet
  std::vector<std::uint32_t> tensors_;
  std::vector<const isa::Pattern*> patterns_;
  std::vector<const isa::TensorRef*> refs_;
  std::vector<Form> forms_;
  std::vector<Arg> args_;
};

}  // namespace

bool is_binary_trace(ByteReader& in) { return in.peek(binary::kMagic.size()) == binary::kMagic; }

TraceFile read_binary_trace(ByteReader& in, const ReadOptions& options) {
  return Reader(in, options).read();
}

}  // namespace nkisim
