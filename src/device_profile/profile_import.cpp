// Makes a program of a device profile: an instruction of each profiled one, with its operands.

#include "src/device_profile/profile_import.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "isa/base/names.hpp"
#include "isa/program/op_spec.hpp"
#include "src/device_profile/profile_addresses.hpp"
#include "src/device_profile/profile_body.hpp"
#include "src/device_profile/profile_dma.hpp"
#include "src/device_profile/profile_semaphores.hpp"

namespace nkisim {
namespace {

using isa::Arg;

// The arguments of one raw instruction, set by parameter name.
class RawArgs {
 public:
  RawArgs() : args_(isa::spec(isa::Op::k_isa).params.size()) {}
  Arg& at(std::string_view param) {
    return args_.at(static_cast<std::size_t>(isa::param_index(isa::spec(isa::Op::k_isa), param)));
  }
  void integer(std::string_view param, std::int64_t value, Arg::Kind kind = Arg::Kind::kInt) {
    Arg& a = at(param);
    a.kind = kind;
    a.integer = value;
  }
  void flag(std::string_view param, bool on) {
    if (on) integer(param, 1, Arg::Kind::kBool);
  }
  void text(std::string_view param, const std::string& value, isa::Program& program) {
    if (value.empty()) return;
    Arg& a = at(param);
    a.kind = Arg::Kind::kText;
    a.text = program.add_text(value);
  }
  void tensor(std::string_view param, const isa::TensorRef* ref) {
    Arg& a = at(param);
    a.kind = Arg::Kind::kTensor;
    a.tensor = ref;
  }
  void tensors(std::string_view param, isa::RefList refs, isa::Program& program) {
    if (refs.empty()) return;
    Arg& a = at(param);
    a.kind = Arg::Kind::kTensors;
    a.tensors = program.add_refs(std::move(refs));
  }
  void drop_operands() {
    for (std::string_view param : {"dst", "dst2", "srcs", "pointers"}) at(param) = {};
  }
  [[nodiscard]] std::span<const Arg> all() const { return args_; }

 private:
  std::vector<Arg> args_;
};

std::size_t size_of(const ProfileTensor& t) { return static_cast<std::size_t>(t.elements()); }

// Distance in time from the first PE instruction to the end of its first limit window.
std::optional<double> throttle_phase(const HwProfile& profile, const ProfileBody& body) {
  double first_pe = HUGE_VAL, boundary = HUGE_VAL, window = 0;
  for (const BodyInstruction& b : body.instructions) {
    const bool array = b.inst->unit == isa::Unit::kTensor && is_data_path(b.inst->opcode);
    if (array) first_pe = std::min(first_pe, b.inst->start);
  }
  for (const HwThrottle& t : profile.throttle) {
    boundary = std::min(boundary, t.start);
    window = std::max(window, t.duration);
  }
  // Spans are whole windows except where the profile ends; the longest may be several windows.
  for (const HwThrottle& t : profile.throttle) {
    for (const HwThrottle& u : profile.throttle) {
      const double gap = u.start - t.start;
      if (gap > 1 && gap < window) window = gap;
    }
  }
  if (!std::isfinite(first_pe) || !std::isfinite(boundary) || window <= 0) return std::nullopt;
  return boundary - first_pe - std::floor((boundary - first_pe) / window) * window;
}

class Importer {
 public:
  Importer(const HwProfile& profile, const ImportOptions& options)
      : profile_(profile), options_(options) {}

  ImportResult run() {
    body_ = select_body(profile_, options_.keep_preamble);
    if (body_.instructions.empty()) {
      isa::fail(isa::Rule::profile_format,
                profile_.file +
                    " has no instruction of a kernel; a profile with compiler_pc or "
                    "data-path instructions is required (or --keep-preamble)");
    }
    result_.warnings = profile_.warnings;
    result_.left_out = body_.left_out;
    make_program();
    dma_ = link_dma(profile_, body_, result_.warnings);
    sync_ = kernel_semaphores(profile_, body_, dma_, result_.warnings);
    AddressMap addresses(*result_.trace.program);
    note_addresses(addresses);
    addresses.declare();
    for (std::size_t i = 0; i < body_.instructions.size(); ++i) append(i, addresses);
    report();
    result_.throttle_phase = throttle_phase(profile_, body_);
    return std::move(result_);
  }

 private:
  void make_program();
  void note_addresses(AddressMap& addresses) const;
  void append(std::size_t i, AddressMap& addresses);
  void add_operands(const BodyInstruction& b, RawArgs& args, AddressMap& addresses);
  void add_array(const BodyInstruction& b, RawArgs& args) const;
  void add_transfer(std::size_t i, RawArgs& args, AddressMap& addresses);
  [[nodiscard]] int partitions(const BodyInstruction& b, const ProfileTensor& t) const;
  [[nodiscard]] isa::Dtype dtype(const BodyInstruction& b, const ProfileTensor& t) const;
  const isa::DmaPlan* plan(const LinkedDma& linked);
  void locate(const HwInstruction& inst, isa::Inst& out);
  void count_opcode(const std::string& opcode, const isa::Inst& inst);
  void report();

  const HwProfile& profile_;
  const ImportOptions& options_;
  ProfileBody body_;
  std::vector<LinkedDma> dma_;
  std::vector<isa::Sync> sync_;
  ImportResult result_;
  std::map<std::string, std::size_t> unknown_;
  std::size_t operands_dropped_ = 0, without_packets_ = 0;
};

void Importer::make_program() {
  std::string target = options_.target.empty() ? profile_.target() : options_.target;
  if (target.empty()) {
    target = "trn2";
    result_.warnings.push_back("the profile names no instance type; imported for trn2");
  }
  const auto machine = isa::find_machine(target);
  if (!machine) isa::fail(isa::Rule::trace_target, "target", target, "trn1, inf2, trn2 or trn3");
  TraceFile& trace = result_.trace;
  const std::string file = std::filesystem::path(profile_.file).filename().string();
  trace.program = std::make_unique<isa::Program>(*machine, file);
  trace.program->set_timing_only(true);
  trace.program->set_explicit_semaphores(true);
  trace.executed = true;
  trace.name = file.substr(0, file.find('.'));
  trace.about = "imported from device profile " + file +
                (options_.keep_preamble ? ", runtime included" : ", kernel body");
  trace.cores = std::max<int>(1, static_cast<int>(profile_.cores.size()));
}

void Importer::note_addresses(AddressMap& addresses) const {
  for (const BodyInstruction& b : body_.instructions) {
    for (const ProfileTensor& t : b.operands.tensors) {
      if (t.use != ProfileTensor::Use::kPointer) addresses.note(t);
    }
    addresses.note(b.operands.dma.src);
    addresses.note(b.operands.dma.dst);
  }
}

// PE operands cover array rows (sources) or columns (results); others their channels.
int Importer::partitions(const BodyInstruction& b, const ProfileTensor& t) const {
  const ProfileOperands& o = b.operands;
  const auto array = t.use == ProfileTensor::Use::kWrite ? o.columns : o.rows;
  const std::int64_t n = array ? *array : o.channels.value_or(1);
  return static_cast<int>(std::clamp<std::int64_t>(n, 1, isa::kPartitions));
}

// MATMUL prints no type for its result, but the profiler counts the bytes it writes.
isa::Dtype Importer::dtype(const BodyInstruction& b, const ProfileTensor& t) const {
  if (t.dtype) return *t.dtype;
  const std::int64_t bytes = b.inst->psum_write_bytes;
  if (t.use == ProfileTensor::Use::kWrite && bytes > 0 && bytes == 2 * t.elements()) {
    return isa::Dtype::kBfloat16;
  }
  return isa::Dtype::kFloat32;
}

void Importer::add_operands(const BodyInstruction& b, RawArgs& args, AddressMap& addresses) {
  isa::Program& program = *result_.trace.program;
  isa::RefList srcs, pointers, dsts;
  std::size_t widest = 0;
  bool dropped = false;
  for (const ProfileTensor& t : b.operands.tensors) {
    const isa::TensorRef* ref = addresses.make(t, dtype(b, t), partitions(b, t), b.inst->core);
    if (t.use != ProfileTensor::Use::kPointer) widest = std::max(widest, size_of(t));
    if (ref == nullptr) {
      dropped = true;
    } else if (t.use == ProfileTensor::Use::kPointer) {
      pointers.push_back(ref);
    } else {
      (t.use == ProfileTensor::Use::kWrite ? dsts : srcs).push_back(ref);
    }
  }
  if (!dsts.empty()) args.tensor("dst", dsts[0]);
  if (dsts.size() > 1) args.tensor("dst2", dsts[1]);
  args.tensors("srcs", std::move(srcs), program);
  args.tensors("pointers", std::move(pointers), program);
  if (dropped) {
    ++operands_dropped_;
    args.integer("elements", static_cast<std::int64_t>(widest));
  }
}

void Importer::add_array(const BodyInstruction& b, RawArgs& args) const {
  const ProfileOperands& o = b.operands;
  if (o.rows) args.integer("rows", *o.rows);
  if (o.columns) args.integer("columns", *o.columns);
  args.flag("multiply", b.inst->unit == isa::Unit::kTensorMatrix && b.inst->opcode != "MATMUL" &&
                            b.inst->opcode != "MATMUL_MX");
  constexpr std::array<std::string_view, 3> kModes = {"low", "high", "low_high"};
  const auto mode = std::find(kModes.begin(), kModes.end(), o.fp32_mode);
  if (mode != kModes.end()) {
    args.integer("fp32_mode", mode - kModes.begin(), Arg::Kind::kEnum);
  }
  if (o.acc_flags) args.integer("acc_flags", *o.acc_flags);
}

void Importer::add_transfer(std::size_t i, RawArgs& args, AddressMap& addresses) {
  const BodyInstruction& b = body_.instructions[i];
  const LinkedDma& linked = dma_[i];
  const ProfileDma& d = b.operands.dma;
  std::int64_t bytes = 0;
  for (const HwPacket* p : linked.payload) bytes += p->bytes;
  const std::int64_t elements = d.src.given ? d.src.elements() : 0;
  if (bytes == 0) bytes = elements * d.src.element_bytes;
  if (bytes == 0) bytes = std::max(b.inst->hbm_read_bytes, b.inst->hbm_write_bytes);
  if (linked.payload.empty()) ++without_packets_;
  result_.transfers += 1;
  result_.packets += linked.payload.size();
  args.integer("bytes", bytes);
  if (elements > 0) {
    args.integer("elements", elements);
  } else if (!linked.payload.empty()) {
    args.integer("elements", static_cast<std::int64_t>(linked.payload.size()));
  }
  const auto from = d.src.given ? dma_place(d.src).space
                    : b.inst->hbm_read_bytes > 0 || b.inst->hbm_write_bytes == 0
                        ? isa::Space::kHbm
                        : isa::Space::kSbuf;
  const auto to = d.dst.given                   ? dma_place(d.dst).space
                  : b.inst->hbm_write_bytes > 0 ? isa::Space::kHbm
                                                : isa::Space::kSbuf;
  args.integer("from", static_cast<int>(from), Arg::Kind::kEnum);
  args.integer("to", static_cast<int>(to), Arg::Kind::kEnum);
  const std::int64_t element = std::min(d.src.element_bytes, d.dst.element_bytes);
  if (element > 0) args.integer("element_bytes", element);
  if (linked.mode != isa::DgeMode::kUnknown) {
    args.integer("dge", static_cast<int>(linked.mode), Arg::Kind::kEnum);
  }
  args.flag("compute", d.compute);
  args.flag("scattered", to == isa::Space::kHbm && d.dst.given && !d.dst.adjacent());
  const isa::TensorRef* src = addresses.make(d.src, b.inst->core);
  const isa::TensorRef* dst = addresses.make(d.dst, b.inst->core);
  if (src != nullptr) args.tensors("srcs", {src}, *result_.trace.program);
  if (dst != nullptr) args.tensor("dst", dst);
  const bool lost = (d.src.given && src == nullptr) || (d.dst.given && dst == nullptr);
  operands_dropped_ += lost ? 1 : 0;
}

const isa::DmaPlan* Importer::plan(const LinkedDma& linked) {
  isa::Program& program = *result_.trace.program;
  isa::DmaPlan p;
  p.queue_name = program.add_queue(linked.queue);
  p.semaphore = linked.semaphore;
  p.increment = linked.increment;
  if (options_.packets) {
    for (const HwPacket* packet : linked.payload) {
      p.packets.push_back(
          {static_cast<std::uint16_t>(packet->engine), p.queue_name, packet->bytes});
    }
  }
  return program.add_plan(std::move(p));
}

// "path.py:12", possibly among several.
void Importer::locate(const HwInstruction& inst, isa::Inst& out) {
  const std::size_t colon = inst.location.rfind(':');
  if (colon == std::string::npos || colon == 0) return;
  std::uint32_t line = 0;
  const char* end = inst.location.data() + inst.location.size();
  const auto [stop, ec] = std::from_chars(inst.location.data() + colon + 1, end, line);
  if (ec != std::errc{} || stop != end) return;
  out.loc.kernel_file = result_.trace.program->add_file(inst.location.substr(0, colon));
  out.loc.kernel_line = line;
}

void Importer::count_opcode(const std::string& opcode, const isa::Inst& inst) {
  const auto code = static_cast<isa::Opcode>(inst.integer(0));
  if (code >= isa::Opcode::kCount) ++unknown_[opcode];
}

void Importer::append(std::size_t i, AddressMap& addresses) {
  const BodyInstruction& b = body_.instructions[i];
  isa::Program& program = *result_.trace.program;
  RawArgs args;
  const std::string opcode = b.inst->opcode.substr(0, 64);
  args.integer("opcode", static_cast<int>(program.add_opcode(opcode)));
  const bool tensor = isa::engine_of(b.inst->unit) == isa::Engine::kTensor;
  if (b.dma) {
    add_transfer(i, args, addresses);
  } else {
    add_operands(b, args, addresses);
  }
  if (tensor) add_array(b, args);
  if (b.operands.channels) args.integer("partitions", *b.operands.channels);
  args.flag("transpose", b.operands.transpose || b.inst->transpose);
  args.text("function", b.operands.function, program);
  args.text("mode", b.operands.mode.empty() ? b.inst->performance_mode : b.operands.mode, program);
  args.text("attributes", b.operands.rest, program);
  isa::Inst inst;
  inst.op = isa::Op::k_isa;
  inst.engine = isa::engine_of(b.inst->unit);
  inst.core = static_cast<std::uint8_t>(b.inst->core);
  locate(*b.inst, inst);
  const std::string name = b.inst->name.empty() ? opcode : b.inst->name;
  inst.label = program.add_text(name + "#" + instruction_key(*b.inst));
  if (!sync_[i].waits.empty() || !sync_[i].posts.empty()) {
    inst.sync = program.add_sync(std::move(sync_[i]));
  }
  if (b.dma) inst.dma = plan(dma_[i]);
  try {
    count_opcode(opcode, program.append(inst, args.all()));
  } catch (const isa::Error&) {  // an operand this machine does not have: time needs only sizes
    args.drop_operands();
    ++operands_dropped_;
    count_opcode(opcode, program.append(inst, args.all()));
  }
}

void Importer::report() {
  auto& warnings = result_.warnings;
  for (const auto& [opcode, count] : unknown_) result_.unknown_opcodes.emplace_back(opcode, count);
  if (operands_dropped_ > 0) {
    warnings.push_back(std::to_string(operands_dropped_) +
                       " instructions have an operand that does not fit the target's memory; "
                       "their sizes are kept, their addresses are not");
  }
  if (without_packets_ > 0) {
    warnings.push_back(std::to_string(without_packets_) +
                       " DMA triggers have no packets in the profile; the model makes them");
  }
  std::size_t collectives = 0;
  for (const HwPacket& p : profile_.packets) collectives += p.collective ? 1 : 0;
  if (collectives > 0) {
    warnings.push_back(std::to_string(collectives) + " packets of collectives are left out");
  }
}

}  // namespace

std::optional<double> throttle_phase(const HwProfile& profile) {
  return throttle_phase(profile, select_body(profile, false));
}

ImportResult import_profile(const HwProfile& profile, const ImportOptions& options) {
  return Importer(profile, options).run();
}

}  // namespace nkisim
