// Formats instructions as text: operands, arguments, semaphores and machine operations.

#include "isa/program/disasm.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "isa/base/act.hpp"
#include "isa/base/alu.hpp"

namespace nkisim::isa {
namespace {

constexpr std::int64_t kPartitionStride = 0x40000;
constexpr std::int64_t kPsumBase = 0x2000000;
constexpr std::size_t kMinDims = 3;

std::string hex(std::int64_t value) {
  std::array<char, 20> digits{};
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return "0x" + std::string(digits.data(), result.ptr);
}

std::string real_text(double value) {
  std::array<char, 32> digits{};
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), result.ptr};
}

std::string start_address(const Program& program, const TensorRef& ref) {
  const Tensor& tensor = program.tensor(ref);
  if (program.virtual_addresses() || (!ref.on_chip() && tensor.address == 0)) {
    std::string text = tensor.name;
    if (ref.on_chip() && ref.partition != 0) text += ":p" + std::to_string(ref.partition);
    return ref.offset == 0 ? text : text + "+" + hex(ref.offset);
  }
  std::int64_t address = tensor.address + ref.offset;
  if (ref.on_chip()) address += ref.partition * kPartitionStride;
  if (ref.space == Space::kPsum) address += kPsumBase;
  return hex(address);
}

std::string dynamic_text(const Program& program, const TensorRef& ref) {
  std::string text;
  for (const DynamicOffset* d = ref.dynamic; d != nullptr; d = d->next) {
    using Kind = DynamicOffset::Kind;
    if (d->kind == Kind::kRegister) {
      text += "+$R[" + std::to_string(d->reg) + "]";
    } else {
      text += d->kind == Kind::kScalar ? "+$S(" : d->kind == Kind::kVector ? "+$V(" : "+$T(";
      text += disasm_operand(program, *d->index) + ")";
    }
    if (d->stride != 1) text += "*" + std::to_string(d->stride);
  }
  return text;
}

std::string choice_text(const Program& program, const Param& param, std::int64_t value) {
  std::string_view text;
  switch (param.kind) {
    case ParamKind::kAlu:
      text = name(static_cast<AluOp>(value));
      break;
    case ParamKind::kAct:
      text = name(static_cast<ActFn>(value));
      break;
    case ParamKind::kDtype:
      text = name(static_cast<Dtype>(value));
      break;
    case ParamKind::kOpcode:
      text = program.opcode_name(static_cast<Opcode>(value));
      break;
    case ParamKind::kEnum:
      if (static_cast<std::size_t>(value) < param.choices.size()) {
        text = param.choices[static_cast<std::size_t>(value)];
      }
      break;
    default:
      break;
  }
  return text.empty() ? std::to_string(value) : std::string(text);
}

template <typename Items, typename Fn>
std::string list_text(const Items& items, Fn&& one) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : ",") + one(item);
  return "[" + text + "]";
}

std::string arg_text(const Program& program, const Param& param, const Arg& arg) {
  switch (arg.kind) {
    case Arg::Kind::kNone:
      return {};
    case Arg::Kind::kTensor:
      return disasm_operand(program, *arg.tensor);
    case Arg::Kind::kTensors:
      return list_text(*arg.tensors,
                       [&](const TensorRef* ref) { return disasm_operand(program, *ref); });
    case Arg::Kind::kReal:
      return real_text(arg.real);
    case Arg::Kind::kInt:
    case Arg::Kind::kBool:
    case Arg::Kind::kEnum:
      return choice_text(program, param, arg.integer);
    case Arg::Kind::kRegister:
      return "$R[" + std::to_string(arg.integer) + "]";
    case Arg::Kind::kList:
      if (param.kind == ParamKind::kGroups) {
        return list_text(groups_in(*arg.list), [](const RankGroup& group) {
          return list_text(group, [](auto rank) { return std::to_string(rank); });
        });
      }
      return list_text(*arg.list, [](auto v) { return std::to_string(v); });
    case Arg::Kind::kText:
      return *arg.text;
  }
  return {};
}

std::string semaphore_text(std::uint16_t id, const SemaphoreNames& names) {
  const auto it = names.find(id);
  return " S[" + std::to_string(id) + "]" + (it == names.end() ? "" : " (" + it->second + ")");
}

std::string waits_text(const Inst& inst, const SemaphoreNames& names) {
  constexpr std::array<std::string_view, 5> kCompare = {">=", "==", "<=", ">", "<"};
  std::string text;
  if (inst.sync == nullptr) return text;
  for (const SemaphoreWait& w : inst.sync->waits) {
    text += semaphore_text(w.semaphore, names);
    text += kCompare.at(static_cast<std::size_t>(w.compare));
    text += std::to_string(w.value);
  }
  return text;
}

std::string posts_text(const Inst& inst, const SemaphoreNames& names) {
  constexpr std::array<std::string_view, 5> kAction = {"++", "--", "+=", "-=", "="};
  std::string text;
  if (inst.sync == nullptr) return text;
  for (const SemaphorePost& p : inst.sync->posts) {
    text += semaphore_text(p.semaphore, names);
    text += kAction.at(static_cast<std::size_t>(p.action));
    const bool counts = p.action == SemaphorePost::Action::kIncrement ||
                        p.action == SemaphorePost::Action::kDecrement;
    if (!counts) text += std::to_string(p.value);
    text += p.at_issue ? "@issue" : "@complete";
  }
  return text;
}

/// Operands and attributes of the parameters in `mask` (0: all), then the partitions in use.
std::string args_text(const Program& program, const Inst& inst, std::uint32_t mask) {
  const auto params = spec(inst).params;
  std::string text;
  int channels = 0;
  for (std::size_t i = 0; i < inst.args.size(); ++i) {
    const Arg& arg = inst.args[i];
    const bool tensor = arg.kind == Arg::Kind::kTensor;
    if (params[i].kind == ParamKind::kOpcode) continue;  // leads the line
    if (!arg.present() || (tensor && mask != 0 && i < 32 && (mask >> i & 1U) == 0)) continue;
    text += " " + std::string(params[i].name) + "=" + arg_text(program, params[i], arg);
    if (tensor && arg.tensor->on_chip()) channels = std::max<int>(channels, arg.tensor->partitions);
  }
  return channels == 0 ? text : text + " channels=" + std::to_string(channels);
}

/// The op's main opcode, or the one a raw instruction names.
Opcode opcode_of(const Inst& inst) {
  const OpSpec& op = spec(inst);
  for (std::size_t i = 0; i < op.params.size(); ++i) {
    if (op.params[i].kind == ParamKind::kOpcode) return static_cast<Opcode>(inst.args[i].integer);
  }
  return op.opcode;
}

std::string matrix_text(const Part& part) {
  if (part.rows == 0) return {};
  return " " + std::to_string(part.rows) + "*" + std::to_string(part.columns);
}

}  // namespace

std::string disasm_operand(const Program& program, const TensorRef& ref) {
  std::string steps, sizes;
  const auto& dims = ref.pattern->dims;
  for (std::size_t k = 0; k < std::max(dims.size(), kMinDims); ++k) {
    const bool given = k < dims.size();
    const Dim d = given ? dims[dims.size() - 1 - k] : Dim{.step = 0, .num = 1};
    steps += (k == 0 ? "" : ",") + std::to_string(dims.empty() && k == 0 ? 1 : d.step);
    sizes += (k == 0 ? "" : ",") + std::to_string(d.num);
  }
  return std::string(name(ref.dtype)) + "@" + start_address(program, ref) +
         dynamic_text(program, ref) + "[" + steps + "][" + sizes + "]";
}

std::string disasm(const Program& program, const Inst& inst, const SemaphoreNames& names) {
  std::string text(program.opcode_name(opcode_of(inst)));
  text += waits_text(inst, names) + posts_text(inst, names) + args_text(program, inst, 0);
  return text;
}

std::vector<std::string> disasm_parts(const Program& program, const Inst& inst,
                                      const SemaphoreNames& names) {
  Expansion expansion;
  expand(inst, program.machine(), expansion);
  if (expansion.parts.empty()) return {disasm(program, inst, names)};
  std::vector<std::string> lines;
  for (const Part& part : expansion.parts) {
    std::string text(program.opcode_name(part.opcode));
    if (&part == &expansion.parts.front()) text += waits_text(inst, names);
    if (&part == &expansion.parts.back()) text += posts_text(inst, names);
    lines.push_back(text + args_text(program, inst, part.operands) + matrix_text(part));
  }
  return lines;
}

}  // namespace nkisim::isa
