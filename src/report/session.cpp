// Saves each event of a simulated run as a row of a table, and the tables as a profile file (.npz).

#include "src/report/session.hpp"

#include <array>
#include <nlohmann/json.hpp>

namespace nkisim {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSessionVersion = 2;  // 1: each column as it is, in eight bytes

void write_bytes(NpzWriter& out, const std::string& key, std::string_view text) {
  constexpr std::size_t kPiece = std::size_t{1} << 26U;
  out.begin(key, "|u1", {static_cast<std::int64_t>(text.size())});
  for (std::size_t at = 0; at < text.size(); at += kPiece) out.write(text.substr(at, kPiece));
  out.end();
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

std::int64_t Texts::add(std::string_view text) {
  if (const auto known = ids_.find(text); known != ids_.end()) return known->second;
  const auto id = signed_number(ends_.size());
  ids_.emplace(text, id);
  bytes_ += text;
  ends_.push_back(signed_number(bytes_.size()));
  return id;
}

void Texts::save(NpzWriter& out) const {
  write_bytes(out, "texts.bytes", bytes_);
  write_integers(out, "texts.ends", ends_);
}

Session::Session()
    : insts_("insts", {"op", "engine", "core", "trace_line", "file", "line", "label", "region"}),
      parts_("parts", {"inst",
                       "sequence",
                       "core",
                       "unit",
                       "opcode",
                       "part",
                       "start by steps",
                       "end from start",
                       "busy_from from start",
                       "busy_to from end",
                       "throttled",
                       "elements",
                       "flops",
                       "features",
                       "sbuf_read",
                       "sbuf_write",
                       "psum_read",
                       "psum_write",
                       "producer",
                       "producer_sequence",
                       "producer_end",
                       "visible from producer_end",
                       "semaphore",
                       "mode",
                       "operands",
                       "engine"}),
      transfers_("transfers",
                 {"inst", "sequence", "core", "queue", "mode", "src", "dst", "bytes", "descriptors",
                  "descriptor_bytes", "packets", "trigger_start by steps",
                  "trigger_end from trigger_start", "first_packet from trigger_end",
                  "last_packet from first_packet", "visible from last_packet", "transpose"}),
      lanes_("lanes", {"core", "engine", "queue", "sequence", "start by steps", "end from start",
                       "bytes", "packets", "packet_bytes"}),
      semaphores_("semaphores", {"core", "semaphore", "value", "time by steps"}),
      queues_("queues", {"core", "index", "name"}),
      tensors_("tensors", {"name", "space", "role", "core", "dtype", "shape", "bytes", "address",
                           "partition", "partitions"}),
      uses_("uses", {"inst", "tensor", "write"}),
      collectives_("collectives",
                   {"inst",          "sequence",    "core",      "queue", "engine",   "id",
                    "stream",        "operation",   "algorithm", "dtype", "elements", "group",
                    "trigger_start", "trigger_end", "start",     "ready", "end",      "waited_for",
                    "input",         "output",      "ranks"}),
      cc_instructions_("cc_instructions",
                       {"collective", "cc_core", "start", "end", "description"}) {}

void Session::on_start(const isa::Program& program, const models::Config& config) {
  program_ = &program;
  config_ = config;
  rows_ = PointerTable<std::int64_t>(program.insts().size());
  lines_ = std::make_unique<PartTexts>(program);
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
  if (&inst == last_) return last_row_;
  const auto [row, is_new] = rows_.find_or_add(&inst);
  if (is_new) *row = signed_number(insts_.rows());
  last_ = &inst;
  last_row_ = *row;
  if (is_new) add_inst(inst, last_row_);
  return last_row_;
}

void Session::add_inst(const isa::Inst& inst, std::int64_t row) {
  // A text by the number of what it is of, added where it is used first.
  const auto text_of = [this](std::vector<std::int64_t>& known, std::size_t which, auto&& text) {
    if (which >= known.size()) known.resize(which + 1, PartTexts::kNone);
    if (known[which] == PartTexts::kNone) known[which] = texts_.add(text());
    return known[which];
  };
  const auto& files = program_->shared_files();
  const std::size_t file = inst.loc.kernel_file <= files.size() ? inst.loc.kernel_file : 0;
  insts_.add(
      {text_of(op_texts_, static_cast<std::size_t>(inst.op),
               [&] { return std::string_view(isa::spec(inst).name); }),
       static_cast<std::int64_t>(inst.engine), inst.core, inst.loc.trace_line,
       text_of(file_texts_, file, [&] { return file == 0 ? std::string_view() : files[file - 1]; }),
       inst.loc.kernel_line, texts_.add(inst.label != nullptr ? *inst.label : std::string_view()),
       texts_.add(inst.region != nullptr ? *inst.region : std::string_view())});
  PartTexts::Lines& lines = lines_->of(inst);
  for (std::size_t i = 0; i < lines.texts.size(); ++i) {
    if (lines.numbers[i] == PartTexts::kNone) lines.numbers[i] = texts_.add(lines.texts[i]);
    operand_texts_.push_back(static_cast<std::int32_t>(lines.numbers[i]));
  }
  first_text_.push_back(operand_texts_.size());
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
    if (ref.tensor < program_->tensors().size()) uses_.add({row, ref.tensor, write});
  });
}

std::int64_t Session::operands(const models::PartEvent& event, std::int64_t row) {
  const std::size_t first = first_text_[static_cast<std::size_t>(row)];
  const std::size_t end = first_text_[static_cast<std::size_t>(row) + 1];
  if (event.part_index < 0) return opcode_text(event.part->opcode);  // added for it
  const std::size_t part = first + static_cast<std::size_t>(event.part_index);
  return part < end ? operand_texts_[part] : texts_.add("");
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

void Session::on_event(const models::CollectiveEvent& e) {
  const models::RankTiming& here = e.part->timing;
  rank_ = e.rank;
  const int cc = cc_core(config_.topology, program_->cores(), e.rank, e.part->stream);
  const auto row = signed_number(collectives_.rows());
  collectives_.add({inst_row(*e.inst),
                    signed_number(e.sequence),
                    e.core,
                    e.queue,
                    static_cast<std::int64_t>(e.engine),
                    e.part->id,
                    e.part->stream,
                    texts_.add(profile_name(e.part->kind)),
                    texts_.add(profile_name(e.part->algorithm)),
                    texts_.add(isa::name(e.part->dtype)),
                    e.part->input_bytes / isa::size_bytes(e.part->dtype),
                    texts_.add(models::group_text(e.part->group)),
                    e.trigger_start,
                    e.trigger_end,
                    here.start,
                    here.ready,
                    here.end,
                    here.waited_for,
                    e.part->input_bytes,
                    e.part->output_bytes,
                    signed_number(e.part->group.size())});
  for (const models::CcInstruction& i : cc_instructions(here, config_.collectives, cc)) {
    cc_instructions_.add({row, i.core, i.start, i.end, texts_.add(i.description)});
  }
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
          {"psum_banks", m.psum_banks},
          {"sbuf_partition_bytes", m.sbuf_partition_bytes},
          {"cores", program_->cores()},
          {"cc_cores", cc_cores(config_.topology, program_->cores(), rank_)}};
}

// The charges of part i, one column per cause; parts of an engine come in the same order.
void Session::save_charges(NpzWriter& out, const Accounting& accounting) const {
  constexpr std::size_t kCore = 2, kEngine = 25;  // columns of parts
  std::vector<std::uint16_t> engines;             // of the parts, over all cores
  engines.reserve(parts_.rows());
  ColumnReader cores(parts_.column(kCore)), own(parts_.column(kEngine));
  while (engines.size() < parts_.rows()) {
    engines.push_back(static_cast<std::uint16_t>(cores.next() * isa::kEngineCount + own.next()));
  }
  for (std::size_t c = 0; c < kCauseCount; ++c) {
    std::vector<ColumnReader> charges;
    for (const Accounting::Core& core : accounting.cores()) {
      for (const auto& engine : core.engines) charges.emplace_back(engine.closed.at(c));
    }
    std::vector<std::int64_t> of_parts(parts_.rows());
    for (std::size_t i = 0; i < of_parts.size(); ++i) of_parts[i] = charges[engines[i]].next();
    write_integers(out, "charged." + std::string(nkisim::name(static_cast<Cause>(c))), of_parts);
  }
}

// From the end to the start.
Columns Session::critical_path(const Accounting& accounting) const {
  Columns critical("path",
                   {"core", "from by steps", "to from from", "cause", "where", "inst", "sequence"});
  for (std::size_t c = accounting.cores().size(); c-- > 0;) {
    trace_back(accounting, static_cast<int>(c), [&](const PathItem& item) {
      const std::int64_t* row = item.inst == nullptr ? nullptr : rows_.find(item.inst);
      critical.add({signed_number(c), item.from, item.to, static_cast<std::int64_t>(item.cause),
                    item.where, row == nullptr ? -1 : *row, signed_number(item.sequence)});
    });
  }
  return critical;
}

void Session::save(const std::filesystem::path& path, const Accounting& accounting,
                   const SourceRules& rules, Json facts) const {
  NpzWriter out(path);
  facts["session_version"] = kSessionVersion;
  for (const Columns* table : {&insts_, &parts_, &transfers_, &lanes_, &semaphores_, &queues_,
                               &tensors_, &uses_, &collectives_, &cc_instructions_}) {
    table->save(out);
  }
  texts_.save(out);
  save_charges(out, accounting);
  critical_path(accounting).save(out, Columns::Order::kBackwards);
  facts["trace"] = program_->shared_trace();
  facts["machine"] = describe_machine();
  facts["accounting"] = accounting_json(accounting);
  facts["sources"] = sources_of(*program_, rules);
  write_bytes(out, "facts", facts.dump(-1, ' ', false, Json::error_handler_t::replace));
  out.commit();
}

}  // namespace nkisim
