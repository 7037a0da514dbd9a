#include "src/report/session.hpp"

#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "isa/disasm.hpp"

namespace nkisim {
namespace {

using Json = nlohmann::ordered_json;
using Arrays = std::vector<std::pair<std::string, NpyArray>>;

constexpr int kSessionVersion = 1;

NpyArray integers(const std::vector<std::int64_t>& values) {
  NpyArray a{"<i8", {static_cast<std::int64_t>(values.size())}, {}};
  a.data.resize(values.size() * sizeof(std::int64_t));
  if (!values.empty()) std::memcpy(a.data.data(), values.data(), a.data.size());
  return a;
}

NpyArray bytes(const std::string& text) {
  NpyArray a{"|u1", {static_cast<std::int64_t>(text.size())}, {}};
  a.data.resize(text.size());
  if (!text.empty()) std::memcpy(a.data.data(), text.data(), text.size());
  return a;
}

std::string_view name(isa::TensorRole role) {
  constexpr std::array<std::string_view, 5> kNames = {"internal", "input", "output", "input_output",
                                                      "constant"};
  return kNames.at(static_cast<std::size_t>(role));
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t n : shape) text += (text.empty() ? "" : ",") + std::to_string(n);
  return "[" + text + "]";
}

std::int64_t signed_number(std::uint64_t n) { return static_cast<std::int64_t>(n); }

}  // namespace

Columns::Columns(std::string table, std::initializer_list<std::string_view> names)
    : table_(std::move(table)), names_(names.begin(), names.end()), data_(names.size()) {}

void Columns::add(std::initializer_list<std::int64_t> row) {
  auto column = data_.begin();
  for (const std::int64_t value : row) (column++)->push_back(value);
}

void Columns::save(Arrays& arrays) const {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    arrays.emplace_back(table_ + "." + names_[i], integers(data_[i]));
  }
}

std::int64_t Texts::add(std::string_view text) {
  const auto [at, is_new] = ids_.try_emplace(std::string(text), signed_number(ends_.size()));
  if (is_new) {
    bytes_ += text;
    ends_.push_back(signed_number(bytes_.size()));
  }
  return at->second;
}

void Texts::save(Arrays& arrays) const {
  arrays.emplace_back("texts.bytes", bytes(bytes_));
  arrays.emplace_back("texts.ends", integers(ends_));
}

Session::Session()
    : insts_("insts", {"op", "engine", "core", "trace_line", "file", "line", "label"}),
      parts_("parts", {"inst",         "sequence",  "core",       "unit",      "opcode",
                       "part",         "start",     "end",        "busy_from", "busy_to",
                       "throttled",    "elements",  "flops",      "features",  "sbuf_read",
                       "sbuf_write",   "psum_read", "psum_write", "producer",  "producer_sequence",
                       "producer_end", "visible",   "semaphore",  "mode",      "operands",
                       "engine"}),
      transfers_("transfers",
                 {"inst", "sequence", "core", "queue", "mode", "src", "dst", "bytes", "descriptors",
                  "descriptor_bytes", "packets", "trigger_start", "trigger_end", "first_packet",
                  "last_packet", "visible", "transpose"}),
      lanes_("lanes", {"core", "engine", "queue", "sequence", "start", "end", "bytes", "packets",
                       "packet_bytes"}),
      semaphores_("semaphores", {"core", "semaphore", "value", "time"}),
      queues_("queues", {"core", "index", "name"}),
      tensors_("tensors", {"name", "space", "role", "core", "dtype", "shape", "bytes", "address",
                           "partition", "partitions"}),
      uses_("uses", {"inst", "tensor", "write"}) {}

void Session::on_start(const isa::Program& program, const models::Config& config) {
  program_ = &program;
  config_ = config;
  add_tensors();
}

void Session::add_tensors() {
  for (const isa::Tensor& t : program_->tensors()) {
    const bool on_chip = t.space != isa::Space::kHbm;
    tensors_.add({texts_.add(t.name), texts_.add(isa::name(t.space)), texts_.add(name(t.role)),
                  t.core, texts_.add(isa::name(t.dtype)), texts_.add(shape_text(t.shape)),
                  t.extent_bytes(), t.address, t.partition,
                  on_chip && !t.shape.empty() ? t.shape[0] : 0});
  }
}

void Session::on_queue(const models::QueueName& queue) {
  queues_.add({queue.core, queue.index, texts_.add(queue.name)});
}

std::int64_t Session::inst_row(const isa::Inst& inst) {
  const auto [at, is_new] = rows_.try_emplace(&inst, signed_number(insts_.rows()));
  if (!is_new) return at->second;
  const auto& files = program_->files();
  const std::uint32_t file = inst.loc.kernel_file;
  const bool known = file != 0 && file <= files.size();
  insts_.add({texts_.add(isa::spec(inst).name), static_cast<std::int64_t>(inst.engine), inst.core,
              inst.loc.trace_line, texts_.add(known ? files[file - 1] : std::string()),
              inst.loc.kernel_line, texts_.add(inst.label != nullptr ? *inst.label : "")});
  std::vector<std::int64_t> texts;
  for (const std::string& line : isa::disasm_parts(*program_, inst)) {
    texts.push_back(texts_.add(line));
  }
  operand_texts_.push_back(std::move(texts));
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
    if (ref.tensor < program_->tensors().size()) uses_.add({at->second, ref.tensor, write});
  });
  return at->second;
}

std::int64_t Session::operands(const models::PartEvent& event, std::int64_t row) {
  const auto& texts = operand_texts_[static_cast<std::size_t>(row)];
  if (event.part_index < 0) return opcode_text(event.part->opcode);  // added for it
  const auto part = static_cast<std::size_t>(event.part_index);
  return part < texts.size() ? texts[part] : texts_.add("");
}

std::int64_t Session::opcode_text(isa::Opcode opcode) {
  const auto index = static_cast<std::size_t>(opcode);
  if (index >= opcode_texts_.size()) opcode_texts_.resize(index + 1, -1);
  std::int64_t& text = opcode_texts_[index];
  if (text < 0) text = texts_.add(program_->opcode_name(opcode));
  return text;
}

// Modes are names in the config: the same one has the same address.
std::int64_t Session::mode_text(std::string_view mode) {
  const auto [at, is_new] = mode_texts_.try_emplace(mode.data(), 0);
  if (is_new) at->second = texts_.add(mode);
  return at->second;
}

void Session::on_event(const models::PartEvent& e) {
  const isa::Part& p = *e.part;
  const std::int64_t row = inst_row(*e.inst);
  const models::Wait& w = e.wait;
  parts_.add({row,
              signed_number(e.sequence),
              e.core,
              static_cast<std::int64_t>(p.unit),
              opcode_text(p.opcode),
              e.part_index,
              e.start,
              e.end,
              e.busy_from,
              e.busy_to,
              e.throttled,
              p.elements,
              p.flops,
              p.features,
              p.sbuf_read_bytes,
              p.sbuf_write_bytes,
              p.psum_read_bytes,
              p.psum_write_bytes,
              w.producer == models::kNoQueue ? -1 : w.producer,
              signed_number(w.producer_sequence),
              w.producer_end,
              w.visible,
              w.semaphore,
              mode_text(e.mode),
              operands(e, row),
              static_cast<std::int64_t>(engine_of(p.unit))});
}

void Session::on_event(const models::DmaLaneEvent& e) {
  lanes_.add({e.core, e.engine, e.queue, signed_number(e.sequence), e.start, e.end, e.bytes,
              e.packets, e.packet_bytes});
}

void Session::on_event(const models::DmaEvent& e) {
  const isa::DmaWork& w = *e.work;
  transfers_.add({inst_row(*e.inst), signed_number(e.sequence), e.core, e.queue,
                  static_cast<std::int64_t>(e.mode), static_cast<std::int64_t>(w.src),
                  static_cast<std::int64_t>(w.dst), w.bytes, w.descriptors, w.descriptor_bytes,
                  e.packets, e.trigger_start, e.trigger_end, e.first_packet, e.last_packet,
                  e.visible, w.transpose});
}

void Session::on_event(const models::SemaphoreEvent& e) {
  semaphores_.add({e.core, e.semaphore, e.value, e.time});
}

Json Session::describe_machine() const {
  Json clocks = Json::object();
  for (std::size_t e = 0; e < config_.engines.size(); ++e) {
    clocks[std::string(isa::name(static_cast<isa::Engine>(e)))] = config_.engines.at(e).clock_ghz;
  }
  const isa::Machine& m = program_->machine();
  return {{"config", config_.name},
          {"target", config_.target},
          {"instance_type", config_.instance_type},
          {"base_clock_ghz", config_.base_clock_ghz},
          {"clocks_ghz", clocks},
          {"hbm_bytes_per_ns", config_.hbm.bytes_per_ns},
          {"dma_bytes_per_ns", config_.dma.bytes_per_ns},
          {"dma_engines", config_.dma.engines},
          {"pe_rows", config_.pe_rows},
          {"pe_columns", config_.pe_columns},
          {"psum_bank_bytes", m.psum_bank_bytes()},
          {"sbuf_partition_bytes", m.sbuf_partition_bytes},
          {"cores", program_->cores()}};
}

void Session::save(const std::filesystem::path& path, const Accounting& accounting,
                   Json facts) const {
  Arrays arrays;
  for (const Columns* table :
       {&insts_, &parts_, &transfers_, &lanes_, &semaphores_, &queues_, &tensors_, &uses_}) {
    table->save(arrays);
  }
  texts_.save(arrays);
  // The charges of part i, one column per cause; parts of an engine come in the same order.
  std::vector<std::vector<std::int64_t>> charged(kCauseCount);
  std::vector<std::array<std::size_t, isa::kEngineCount>> next(accounting.cores().size());
  for (std::size_t i = 0; i < parts_.rows(); ++i) {
    const auto core = static_cast<std::size_t>(parts_.column(2)[i]);
    const auto engine = static_cast<std::size_t>(parts_.column(25)[i]);
    const auto& part =
        accounting.cores()[core].engines.at(engine).parts.at(next[core].at(engine)++);
    for (std::size_t c = 0; c < kCauseCount; ++c) charged[c].push_back(part.charged.at(c));
  }
  for (std::size_t c = 0; c < kCauseCount; ++c) {
    arrays.emplace_back("charged." + std::string(nkisim::name(static_cast<Cause>(c))),
                        integers(charged[c]));
  }
  Columns critical("path", {"core", "from", "to", "cause", "where", "inst", "sequence"});
  for (std::size_t c = 0; c < accounting.cores().size(); ++c) {
    for (const PathItem& item : critical_path(accounting, static_cast<int>(c))) {
      const auto inst = rows_.find(item.inst);
      critical.add({signed_number(c), item.from, item.to, static_cast<std::int64_t>(item.cause),
                    item.where, inst == rows_.end() ? -1 : inst->second,
                    signed_number(item.sequence)});
    }
  }
  critical.save(arrays);
  facts["session_version"] = kSessionVersion;
  facts["trace"] = program_->trace_file();
  facts["machine"] = describe_machine();
  facts["accounting"] = accounting_json(accounting);
  Json sources = Json::object();
  for (const std::string& file : program_->files()) {
    std::ifstream in(file);
    if (in) sources[file] = std::string(std::istreambuf_iterator<char>(in), {});
  }
  facts["sources"] = sources;
  arrays.emplace_back("facts", bytes(facts.dump(-1, ' ', false, Json::error_handler_t::replace)));
  write_npz(path, arrays);
}

}  // namespace nkisim
