// Reads the fields of an instruction in a trace (a file of NKI instructions) and checks their
// names.

#include "src/trace/inst_reader.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include "src/trace/trace_declare.hpp"
#include "src/trace/trace_names.hpp"

namespace nkisim {
namespace {

using isa::Arg;
using isa::ParamKind;

constexpr std::size_t kMaxListItems = std::size_t{1} << 20U;

std::string quoted(std::string_view text) { return "\"" + std::string(text.substr(0, 80)) + "\""; }

Arg integer_arg(Arg::Kind kind, std::int64_t value) {
  Arg arg;
  arg.kind = kind;
  arg.integer = value;
  return arg;
}

std::vector<std::string_view> param_names(const isa::OpSpec& op) {
  std::vector<std::string_view> names;
  for (const isa::Param& p : op.params) names.push_back(p.name);
  return names;
}

[[noreturn]] void fail_key(const isa::OpSpec& op, std::string_view key) {
  std::vector<std::string_view> names = param_names(op);
  std::string takes = list_names(names);
  if (takes.empty()) takes = "no parameters";
  names.insert(names.end(), kInstKeys.begin(), kInstKeys.end());
  isa::fail(isa::Rule::unknown_parameter, "unknown parameter " + quoted(key) + suggest(key, names) +
                                              "; " + std::string(op.name) + " takes " + takes);
}

}  // namespace

std::optional<std::int64_t> parse_register(std::string_view text) {
  if (text.size() < 2 || text.size() > 6 || text.front() != 'r') return std::nullopt;
  text.remove_prefix(1);
  std::int64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool ok = ec == std::errc{} && end == text.data() + text.size() && value >= 0 &&
                  value <= std::numeric_limits<std::uint16_t>::max();
  return ok ? std::optional(value) : std::nullopt;
}

InstReader::InstReader(TraceFile& trace)
    : trace_(trace), program_(*trace.program), operands_(*trace.program) {
  for (const isa::OpSpec* op : isa::op_table()) ops_.emplace(op->name, op);
  for (const auto& [id, text] : trace.semaphore_names) semaphore_ids_.emplace(text, id);
}

const isa::OpSpec& InstReader::find(Json name) const {
  if (!name.is(JsonType::kString))
    isa::fail(isa::Rule::unknown_instruction, "i", name.describe(), "the name of an instruction");
  if (const auto it = ops_.find(name.text()); it != ops_.end()) return *it->second;
  std::vector<std::string_view> names;
  for (const isa::OpSpec* op : isa::op_table()) names.push_back(op->name);
  isa::fail(isa::Rule::unknown_instruction, "i", quoted(name.text()), "the name of an instruction",
            suggest(name.text(), names));
}

void InstReader::read(Json object, std::uint32_t line) {
  isa::Inst inst;
  inst.loc.trace_line = line;
  const isa::OpSpec* op = nullptr;
  try {
    const auto name = object.find("i");
    if (!name)
      isa::fail(isa::Rule::trace_line, "line", "neither an instruction nor a tensor",
                "\"i\" or \"tensor\"");
    op = &find(*name);
    inst.op = isa::op_id(*op);
    read_fields(object, *op, inst);
  } catch (isa::Error& e) {
    e.at(op != nullptr ? op->name : std::string_view{}, inst.loc);
    program_.locate(e);
    throw;
  }
  program_.append(inst, args_);
}

void InstReader::read_fields(Json object, const isa::OpSpec& op, isa::Inst& inst) {
  args_.assign(op.params.size(), Arg{});
  // Location and core come first: messages and raw operands of the other fields need them.
  ReservedFields reserved;
  bool has_sync = false, ordered = false;
  if (const auto loc = object.find("loc")) read_reserved(*loc, inst, reserved);
  if (const auto core = object.find("core")) read_reserved(*core, inst, reserved);
  std::size_t guess = 0;  // parameters usually come in their declared order
  for (const Json value : object) {
    const std::string_view key = value.key();
    if (guess < op.params.size() && op.params[guess].name == key) {
      args_[guess] = read_arg(op.params[guess], value, inst.core);
      ++guess;
      continue;
    }
    if (key == "i" || key == "loc" || key == "core") continue;
    if (find_name(kInstKeys, key)) {
      read_reserved(value, inst, reserved);
      has_sync = has_sync || key == "wait" || key == "post";
      ordered = ordered || key == "id" || key == "after";
      continue;
    }
    const int index = isa::param_index(op, key);
    if (index < 0) fail_key(op, key);
    const auto at = static_cast<std::size_t>(index);
    args_[at] = read_arg(op.params[at], value, inst.core);
    guess = at + 1;
  }
  if (ordered) inst.ordering = program_.add_ordering(std::move(reserved.ordering));
  if (!has_sync) return;
  if (!program_.explicit_semaphores()) {
    isa::fail(isa::Rule::trace_semaphores,
              "wait and post are given; \"semaphores\": \"explicit\" is required in the header");
  }
  inst.sync = program_.add_sync(std::move(reserved.sync));
}

namespace {

std::vector<Json> items(std::string_view what, Json list, std::size_t low, std::size_t high,
                        const std::string& required) {
  if (!list.is(JsonType::kArray) || list.size() < low || list.size() > high) {
    isa::fail(isa::Rule::trace_field, what, list.describe(), required);
  }
  std::vector<Json> out;
  for (const Json item : list) out.push_back(item);
  return out;
}

std::uint32_t read_id(std::string_view key, Json value) {
  if (!value.is(JsonType::kInt) || value.integer() < 1 || value.integer() > kMaxOrderId) {
    isa::fail(isa::Rule::trace_field, key, value.describe(),
              "an integer from 1 to " + std::to_string(kMaxOrderId));
  }
  return static_cast<std::uint32_t>(value.integer());
}

}  // namespace

void InstReader::read_reserved(Json value, isa::Inst& inst, ReservedFields& reserved) {
  const std::string_view key = value.key();
  if (key == "engine") {
    const auto engine = isa::parse_engine(value.text());
    if (!engine)
      isa::fail(isa::Rule::unknown_engine, key, value.describe(),
                "tensor, vector, scalar, gpsimd, sync or any");
    inst.engine = *engine;
  } else if (key == "core") {
    if (!value.is(JsonType::kInt) || value.integer() < 0 || value.integer() >= trace_.cores) {
      isa::fail(isa::Rule::trace_field, key, value.describe(),
                "a core from 0 to " + std::to_string(trace_.cores - 1) + " (header \"cores\")");
    }
    inst.core = static_cast<std::uint8_t>(value.integer());
  } else if (key == "loc") {
    std::string text(value.text());
    if (const auto it = locs_.find(text); it != locs_.end()) {
      inst.loc.kernel_file = it->second.kernel_file;
      inst.loc.kernel_line = it->second.kernel_line;
    } else {
      read_loc(key, value, program_, inst.loc.kernel_file, inst.loc.kernel_line);
      locs_.emplace(std::move(text), inst.loc);
    }
  } else if (key == "label" || key == "region") {
    if (!value.is(JsonType::kString))
      isa::fail(isa::Rule::trace_field, key, value.describe(), "a text");
    (key == "label" ? inst.label : inst.region) = program_.add_text(value.text());
  } else if (key == "forward") {
    if (!value.is(JsonType::kBool))
      isa::fail(isa::Rule::trace_field, key, value.describe(), "true or false");
    inst.forward = value.integer() != 0;
  } else if (key == "dma") {
    inst.dma = read_dma(value);
  } else if (key == "wait") {
    read_waits(value, reserved.sync);
  } else if (key == "post") {
    read_posts(value, reserved.sync);
  } else if (key == "id") {
    reserved.ordering.id = read_id(key, value);
  } else {
    const std::string required = "a list of ids";
    for (const Json item : items(key, value, 0, kMaxListItems, required)) {
      reserved.ordering.after.push_back(read_id(key, item));
    }
  }
}

std::uint16_t InstReader::semaphore(std::string_view what, Json value) const {
  if (value.is(JsonType::kInt) && value.integer() >= 0 && value.integer() <= 65535) {
    return static_cast<std::uint16_t>(value.integer());
  }
  if (value.is(JsonType::kString)) {
    const auto it = semaphore_ids_.find(std::string(value.text()));
    if (it != semaphore_ids_.end()) return it->second;
  }
  isa::fail(isa::Rule::trace_semaphores, what, "on semaphore " + value.describe(),
            "a number from 0 to 65535 or a name in the header's semaphore_names");
}

namespace {

std::int32_t semaphore_value(std::string_view what, Json value) {
  if (!value.is(JsonType::kInt) || value.integer() < std::numeric_limits<std::int32_t>::min() ||
      value.integer() > std::numeric_limits<std::int32_t>::max()) {
    isa::fail(isa::Rule::trace_semaphores, what, "with value " + value.describe(),
              "a 32-bit integer");
  }
  return static_cast<std::int32_t>(value.integer());
}

}  // namespace

void InstReader::read_waits(Json list, isa::Sync& sync) const {
  const std::string required = "a list of [semaphore, comparison, value]";
  for (const Json item : items("wait", list, 0, kMaxListItems, required)) {
    const auto parts = items("wait", item, 3, 3, required);
    const auto compare = find_name(kCompareNames, parts[1].text());
    if (!compare)
      isa::fail(isa::Rule::trace_semaphores, "wait", "with comparison " + parts[1].describe(),
                ">=, ==, <=, > or <");
    sync.waits.push_back({semaphore("wait", parts[0]),
                          static_cast<isa::SemaphoreWait::Compare>(*compare),
                          semaphore_value("wait", parts[2])});
  }
}

void InstReader::read_posts(Json list, isa::Sync& sync) const {
  const std::string required = "a list of [semaphore, action, value, \"@issue\"]";
  for (const Json item : items("post", list, 0, kMaxListItems, required)) {
    auto parts = items("post", item, 2, 4, required);
    isa::SemaphorePost post;
    post.semaphore = semaphore("post", parts[0]);
    const auto action = find_name(kActionNames, parts[1].text());
    if (!action)
      isa::fail(isa::Rule::trace_semaphores, "post", "with action " + parts[1].describe(),
                "++, --, +=, -= or =");
    post.action = static_cast<isa::SemaphorePost::Action>(*action);
    if (parts.back().is(JsonType::kString) && parts.size() > 2) {
      const std::string_view when = parts.back().text();
      if (when != "@issue" && when != "@complete") {
        isa::fail(isa::Rule::trace_semaphores, "post", "at " + parts.back().describe(),
                  "\"@issue\" or \"@complete\"");
      }
      post.at_issue = when == "@issue";
      parts.pop_back();
    }
    const bool counts = post.action == isa::SemaphorePost::Action::kIncrement ||
                        post.action == isa::SemaphorePost::Action::kDecrement;
    if (counts ? parts.size() != 2 : parts.size() != 3) {
      isa::fail(isa::Rule::trace_semaphores, "post",
                "\"" + std::string(parts[1].text()) + "\" with " +
                    std::to_string(parts.size() - 2) + " values",
                counts ? "no value" : "one value");
    }
    if (!counts) post.value = semaphore_value("post", parts[2]);
    sync.posts.push_back(post);
  }
}

const isa::DmaPlan* InstReader::read_dma(Json value) {
  isa::DmaPlan plan;
  if (!value.is(JsonType::kObject))
    isa::fail(isa::Rule::trace_field, "dma", value.describe(), "an object");
  check_keys("dma", value, {"queue", "packets", "semaphore", "increment"});
  const auto queue = value.find("queue");
  if (!queue || !queue->is(JsonType::kString)) {
    isa::fail(isa::Rule::trace_field, "dma.queue", queue ? queue->describe() : "missing",
              "the name of a queue");
  }
  if (program_.queues().size() >= 4096)
    isa::fail(isa::Rule::trace_field, "dma.queue", "the 4097th", "at most 4096 queues");
  plan.queue_name = program_.add_queue(queue->text());
  if (const auto packets = value.find("packets")) {
    const std::string required = "a list of [engine 0..15, queue, bytes]";
    for (const Json packet : items("dma.packets", *packets, 0, kMaxListItems, required)) {
      const auto p = items("dma.packets", packet, 3, 3, required);
      constexpr std::array<std::int64_t, 3> kMax = {15, 65535, kMaxAddress};
      for (std::size_t k = 0; k < 3; ++k) {
        if (!p[k].is(JsonType::kInt) || p[k].integer() < 0 || p[k].integer() > kMax.at(k)) {
          isa::fail(isa::Rule::trace_field, "dma.packets", "a packet with " + p[k].describe(),
                    required);
        }
      }
      plan.packets.push_back({static_cast<std::uint16_t>(p[0].integer()),
                              static_cast<std::uint16_t>(p[1].integer()), p[2].integer()});
    }
  }
  if (const auto raised = value.find("semaphore")) {
    plan.semaphore = semaphore("dma", *raised);
    plan.increment = static_cast<std::int32_t>(int_member(
        "dma", value, "increment", 1, std::numeric_limits<std::int32_t>::max(), std::nullopt));
  } else if (value.find("increment")) {
    isa::fail(isa::Rule::trace_field, "dma.increment is given; \"semaphore\" is required with it");
  }
  return program_.add_plan(std::move(plan));
}

namespace {

// One reader per kind of parameter that needs no program.

Arg read_number(const isa::Param& param, Json value) {
  if (value.is(JsonType::kInt) && param.kind != ParamKind::kReal) {
    return integer_arg(Arg::Kind::kInt, value.integer());
  }
  Arg arg;
  arg.kind = Arg::Kind::kReal;
  arg.real = read_real(param.name, value);
  return arg;
}

Arg read_int(const isa::Param& param, Json value, const char* required = "an integer") {
  if (!value.is(JsonType::kInt))
    isa::fail(isa::Rule::trace_field, param.name, value.describe(), required);
  return integer_arg(Arg::Kind::kInt, value.integer());
}

Arg read_register(const isa::Param& param, Json value) {
  if (value.is(JsonType::kString)) {
    if (const auto reg = parse_register(value.text())) {
      return integer_arg(Arg::Kind::kRegister, *reg);
    }
  }
  isa::fail(isa::Rule::operand_text, param.name, value.describe(),
            "a register (\"r0\", \"r1\", ...)");
}

Arg read_int_or_register(const isa::Param& param, Json value) {
  if (value.is(JsonType::kString) && parse_register(value.text())) {
    return read_register(param, value);
  }
  return read_int(param, value, "an integer or a register (\"r3\")");
}

Arg read_bool(const isa::Param& param, Json value) {
  if (!value.is(JsonType::kBool))
    isa::fail(isa::Rule::trace_field, param.name, value.describe(), "true or false");
  return integer_arg(Arg::Kind::kBool, value.integer());
}

}  // namespace

Arg InstReader::read_choice(const isa::Param& param, Json value) const {
  if (!value.is(JsonType::kString))
    isa::fail(isa::Rule::trace_field, param.name, value.describe(), "a name");
  return integer_arg(choice_kind(param.kind), parse_choice(program_, param, value.text()));
}

Arg InstReader::read_text(const isa::Param& param, Json value) const {
  if (!value.is(JsonType::kString))
    isa::fail(isa::Rule::trace_field, param.name, value.describe(), "a text");
  Arg arg;
  arg.kind = Arg::Kind::kText;
  arg.text = program_.add_text(value.text());
  return arg;
}

Arg InstReader::read_int_list(const isa::Param& param, Json value) const {
  isa::IntList list;
  for (const Json v : items(param.name, value, 0, kMaxListItems, "a list of integers")) {
    if (!v.is(JsonType::kInt))
      isa::fail(isa::Rule::trace_field, param.name, "a list with " + v.describe(), "integers");
    list.push_back(v.integer());
  }
  Arg arg;
  arg.kind = Arg::Kind::kList;
  arg.list = program_.add_list(std::move(list));
  return arg;
}

Arg InstReader::read_groups(const isa::Param& param, Json value) const {
  const std::string required = "a list of lists of ranks";
  isa::IntList list;
  for (const Json group : items(param.name, value, 0, kMaxListItems, required)) {
    for (const Json rank : items(param.name, group, 0, kMaxListItems, required)) {
      if (!rank.is(JsonType::kInt) || rank.integer() < 0) {
        isa::fail(isa::Rule::trace_field, param.name, "a list with " + rank.describe(), required);
      }
      list.push_back(rank.integer());
    }
    list.push_back(isa::kGroupEnd);
  }
  Arg arg;
  arg.kind = Arg::Kind::kList;
  arg.list = program_.add_list(std::move(list));
  return arg;
}

Arg InstReader::read_operand(const isa::Param& param, Json value, int core) {
  Arg arg;
  arg.kind = Arg::Kind::kTensor;
  arg.tensor = operands_.read(param.name, value, core);
  return arg;
}

Arg InstReader::read_operand_list(const isa::Param& param, Json value, int core) {
  isa::RefList refs;
  for (const Json v : items(param.name, value, 0, kMaxListItems, "a list of operands")) {
    refs.push_back(operands_.read(param.name, v, core));
  }
  Arg arg;
  arg.kind = Arg::Kind::kTensors;
  arg.tensors = program_.add_refs(std::move(refs));
  return arg;
}

Arg InstReader::read_scalar_or_operand(const isa::Param& param, Json value, int core) {
  const bool text = value.is(JsonType::kString);
  if (value.is_number() || (text && parse_special_real(value.text()))) {
    return read_number(param, value);
  }
  if (text || value.is(JsonType::kObject)) return read_operand(param, value, core);
  isa::fail(isa::Rule::trace_field, param.name, value.describe(), "a number or an operand");
}

Arg InstReader::read_arg(const isa::Param& param, Json value, int core) {
  if (value.is(JsonType::kNull)) return {};
  switch (param.kind) {
    case ParamKind::kIn:
    case ParamKind::kOut:
    case ParamKind::kInOut:
      return read_operand(param, value, core);
    case ParamKind::kInList:
    case ParamKind::kOutList:
      return read_operand_list(param, value, core);
    case ParamKind::kScalarOrTensor:
      return read_scalar_or_operand(param, value, core);
    case ParamKind::kReal:
      return read_number(param, value);
    case ParamKind::kInt:
      return read_int(param, value);
    case ParamKind::kIntOrRegister:
      return read_int_or_register(param, value);
    case ParamKind::kRegister:
      return read_register(param, value);
    case ParamKind::kBool:
      return read_bool(param, value);
    case ParamKind::kAlu:
    case ParamKind::kAct:
    case ParamKind::kDtype:
    case ParamKind::kOpcode:
    case ParamKind::kEnum:
      return read_choice(param, value);
    case ParamKind::kIntList:
      return read_int_list(param, value);
    case ParamKind::kGroups:
      return read_groups(param, value);
    case ParamKind::kText:
      return read_text(param, value);
  }
  return {};
}

}  // namespace nkisim
