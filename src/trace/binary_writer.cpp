// Writes the binary form of a trace (a file of NKI instructions).
#include <bit>
#include <string>
#include <unordered_map>

#include "src/trace/operand_text.hpp"
#include "src/trace/trace_binary.hpp"
#include "src/trace/trace_declare.hpp"
#include "src/trace/trace_names.hpp"

namespace nkisim {
namespace {

using binary::zigzag;
using isa::Arg;

void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80U) {
    out += static_cast<char>((value & 0x7fU) | 0x80U);
    value >>= 7U;
  }
  out += static_cast<char>(value);
}

/// Ids in order of first use; the record of a new entry is written before anything refers to it.
template <typename Key>
class Table {
 public:
  std::pair<std::uint64_t, bool> id(const Key& key) {
    const auto [it, added] = ids_.emplace(key, ids_.size());
    return {it->second, added};
  }

 private:
  std::unordered_map<Key, std::uint64_t> ids_;
};

class Writer {
 public:
  Writer(const TraceFile& trace, const std::filesystem::path& folder, const ByteSink& sink)
      : trace_(trace), program_(*trace.program), folder_(folder), sink_(sink) {}

  void write() {
    out_ = binary::kMagic;
    out_ += binary::kVersion;
    text_record(binary::kHeader, format_header(trace_));
    for (std::uint32_t id = 0; id < program_.tensors().size(); ++id) {
      const bool raw = program_.tensor(id).is_raw();
      tensor_ids_.push_back(declared_);
      if (raw) continue;
      ++declared_;
      text_record(binary::kTensor, format_tensor(trace_, id, folder_));
    }
    for (const isa::Inst& inst : program_.insts()) {
      write_inst(inst);
      if (out_.size() >= kFlushBytes) flush();
    }
    put_varint(out_, binary::kEnd);
    put_varint(out_, program_.insts().size());
    flush();
  }

 private:
  void flush() {
    sink_(out_);
    out_.clear();
  }

  void text_record(std::uint64_t tag, std::string_view text) {
    put_varint(out_, tag);
    put_varint(out_, text.size());
    out_ += text;
  }

  std::uint64_t string_id(std::string_view text) {
    const auto [id, added] = strings_.id(std::string(text));
    if (added) text_record(binary::kString, text);
    return id;
  }

  std::uint64_t pattern_id(const isa::Pattern* pattern) {
    const auto [id, added] = patterns_.id(pattern);
    if (added) {
      put_varint(out_, binary::kPattern);
      put_varint(out_, pattern->dims.size());
      for (const isa::Dim& d : pattern->dims) {
        put_varint(out_, zigzag(d.step));
        put_varint(out_, static_cast<std::uint64_t>(d.num));
      }
    }
    return id;
  }

  std::uint64_t ref_id(const isa::TensorRef* ref) {
    if (const auto it = ref_pointers_.find(ref); it != ref_pointers_.end()) return it->second;
    const auto [id, added] = refs_.id(encode(*ref));
    if (added) {
      put_varint(out_, binary::kRef);
      out_ += scratch_;
    }
    ref_pointers_.emplace(ref, id);
    return id;
  }

  /// The fields of a ref record; entries it refers to are written on the way.
  const std::string& encode(const isa::TensorRef& ref) {
    const isa::Tensor& tensor = program_.tensor(ref);
    std::string fields;
    if (tensor.is_raw()) {
      const bool sbuf = tensor.space == isa::Space::kSbuf;
      put_varint(fields, sbuf ? binary::kRawSbuf : binary::kRawPsum);
      put_varint(fields, tensor.core);
    } else {
      put_varint(fields, binary::kDeclared);
      put_varint(fields, tensor_ids_[ref.tensor]);
    }
    put_varint(fields, string_id(isa::name(ref.dtype)));
    put_varint(fields, static_cast<std::uint64_t>(ref.offset));
    put_varint(fields, pattern_id(ref.pattern));
    if (ref.on_chip()) {
      put_varint(fields, static_cast<std::uint64_t>(ref.partition - tensor.partition));
      put_varint(fields, ref.partitions);
    }
    for (const isa::DynamicOffset* d = ref.dynamic; d != nullptr; d = d->next) {
      put_varint(fields, static_cast<std::uint64_t>(d->kind) + 1);
      put_varint(fields, d->index != nullptr ? ref_id(d->index) : d->reg);
      put_varint(fields, zigzag(d->stride));
      put_varint(fields, static_cast<std::uint64_t>(d->limit));
      put_varint(fields, static_cast<std::uint64_t>(d->group));
    }
    put_varint(fields, 0);
    scratch_ = std::move(fields);
    return scratch_;
  }

  void form_arg(std::string& form, const isa::Param& param, const Arg& arg) {
    put_varint(form, string_id(param.name));
    const auto value = [&form](binary::Value v) { put_varint(form, v); };
    if (is_choice(param.kind)) {
      value(binary::kChoice);
      put_varint(form, string_id(choice_name(program_, param, arg.integer)));
      return;
    }
    switch (arg.kind) {
      case Arg::Kind::kTensor:
        return value(binary::kOperand);
      case Arg::Kind::kTensors:
        return value(binary::kOperands);
      case Arg::Kind::kReal:
        return value(binary::kReal);
      case Arg::Kind::kBool:
        return value(arg.integer != 0 ? binary::kTrue : binary::kFalse);
      case Arg::Kind::kRegister:
        return value(binary::kRegister);
      case Arg::Kind::kList:
        return value(binary::kInts);
      case Arg::Kind::kText:
        return value(binary::kText);
      default:
        return value(binary::kInt);
    }
  }

  /// The id of a form. Its instructions share op, engine, core, parameters and enumerated values.
  std::uint64_t form_id(const isa::Inst& inst) {
    const isa::OpSpec& op = isa::spec(inst);
    std::string form;
    put_varint(form, string_id(op.name));
    const bool open = trace_.open && inst.engine_open;
    put_varint(form, string_id(isa::name(open ? isa::Engine::kAny : inst.engine)));
    put_varint(form, inst.core);
    put_varint(form, (inst.loc.kernel_file != 0 ? binary::kHasLoc : 0) |
                         (inst.label != nullptr ? binary::kHasLabel : 0) |
                         (inst.sync != nullptr ? binary::kHasSync : 0) |
                         (inst.dma != nullptr ? binary::kHasDma : 0) |
                         (program_.virtual_addresses() && inst.forward ? binary::kForward : 0) |
                         (inst.ordering != 0 ? binary::kHasOrdering : 0) |
                         (inst.region != nullptr ? binary::kHasRegion : 0));
    std::uint64_t count = 0;
    std::string args;
    for (std::size_t i = 0; i < inst.args.size(); ++i) {
      if (!inst.args[i].present()) continue;
      form_arg(args, op.params[i], inst.args[i]);
      ++count;
    }
    put_varint(form, count);
    form += args;
    const auto [id, added] = forms_.id(form);
    if (added) {
      put_varint(out_, binary::kForm);
      out_ += form;
    }
    return id;
  }

  void write_inst(const isa::Inst& inst) {
    const std::uint64_t form = form_id(inst);
    std::string& body = body_;
    body.clear();
    if (inst.loc.kernel_file != 0) {
      put_varint(body, string_id(program_.shared_files().at(inst.loc.kernel_file - 1)));
      put_varint(body, zigzag(static_cast<std::int64_t>(inst.loc.kernel_line) - last_line_));
      last_line_ = inst.loc.kernel_line;
    }
    if (inst.label != nullptr) put_varint(body, string_id(*inst.label));
    if (inst.region != nullptr) put_varint(body, string_id(*inst.region));
    if (inst.sync != nullptr) write_sync(body, *inst.sync);
    if (inst.dma != nullptr) write_dma(body, *inst.dma);
    if (inst.ordering != 0) write_ordering(body, program_.ordering(inst));
    const auto params = isa::spec(inst).params;
    for (std::size_t i = 0; i < inst.args.size(); ++i) {
      if (!is_choice(params[i].kind)) write_arg(body, inst.args[i]);
    }
    put_varint(out_, form + binary::kFirstForm);
    out_ += body;
  }

  static void write_sync(std::string& body, const isa::Sync& sync) {
    put_varint(body, sync.waits.size());
    for (const isa::SemaphoreWait& w : sync.waits) {
      put_varint(body, w.semaphore);
      put_varint(body, static_cast<std::uint64_t>(w.compare));
      put_varint(body, zigzag(w.value));
    }
    put_varint(body, sync.posts.size());
    for (const isa::SemaphorePost& p : sync.posts) {
      put_varint(body, p.semaphore);
      put_varint(body, static_cast<std::uint64_t>(p.action) * 2 + (p.at_issue ? 1 : 0));
      put_varint(body, zigzag(p.value));
    }
  }

  static void write_ordering(std::string& body, const isa::Ordering& ordering) {
    put_varint(body, ordering.id);
    put_varint(body, ordering.after.size());
    for (const std::uint32_t id : ordering.after) put_varint(body, id);
  }

  void write_dma(std::string& body, const isa::DmaPlan& plan) {
    put_varint(body, string_id(program_.queues().at(plan.queue_name)));
    put_varint(body, plan.packets.size());
    for (const isa::DmaPacket& p : plan.packets) {
      put_varint(body, p.engine);
      put_varint(body, p.queue);
      put_varint(body, static_cast<std::uint64_t>(p.bytes));
    }
    put_varint(body, static_cast<std::uint64_t>(plan.semaphore + 1));
    if (plan.semaphore >= 0) put_varint(body, static_cast<std::uint64_t>(plan.increment));
  }

  void write_arg(std::string& body, const Arg& arg) {
    switch (arg.kind) {
      case Arg::Kind::kTensor:
        put_varint(body, ref_id(arg.tensor));
        break;
      case Arg::Kind::kTensors:
        put_varint(body, arg.tensors->size());
        for (const isa::TensorRef* ref : *arg.tensors) put_varint(body, ref_id(ref));
        break;
      case Arg::Kind::kReal: {
        const auto bits = std::bit_cast<std::uint64_t>(arg.real);
        for (unsigned k = 0; k < 64; k += 8) body += static_cast<char>((bits >> k) & 0xffU);
        break;
      }
      case Arg::Kind::kList:
        put_varint(body, arg.list->size());
        for (const std::int64_t v : *arg.list) put_varint(body, zigzag(v));
        break;
      case Arg::Kind::kText:
        put_varint(body, string_id(*arg.text));
        break;
      case Arg::Kind::kInt:
      case Arg::Kind::kRegister:
        put_varint(body, zigzag(arg.integer));
        break;
      default:
        break;
    }
  }

  const TraceFile& trace_;
  const isa::Program& program_;
  const std::filesystem::path& folder_;
  const ByteSink& sink_;
  std::string out_, body_, scratch_;
  std::vector<std::uint64_t> tensor_ids_;  // program's id to position among declared tensors
  std::uint64_t declared_ = 0;
  std::int64_t last_line_ = 0;
  Table<std::string> strings_, refs_, forms_;
  Table<const isa::Pattern*> patterns_;
  std::unordered_map<const isa::TensorRef*, std::uint64_t> ref_pointers_;
};

}  // namespace

void write_binary_trace(const TraceFile& trace, const std::filesystem::path& folder,
                        const ByteSink& sink) {
  Writer(trace, folder, sink).write();
}

}  // namespace nkisim
