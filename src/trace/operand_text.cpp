// Parses operands such as "a[0:64, 128:256]" in a file of instructions, and finds their tensors.

#include "src/trace/operand_text.hpp"

#include <algorithm>
#include <charconv>

#include "src/trace/trace_names.hpp"

namespace nkisim {
namespace {

using isa::Dim;
using isa::TensorRef;

std::string quoted_operand(std::string_view text) {
  return "\"" + std::string(text.substr(0, 120)) + "\"";
}

/// One index of a slice: "3", ":", "0:64", "::-1".
struct Index {
  bool single = false;
  std::int64_t start = 0, count = 1, step = 1;
};

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// Parses one index of `name[...]`: NumPy's meaning, but leaving the tensor is an error.
class IndexParser {
 public:
  IndexParser(std::string_view param, std::string_view text) : param_(param), text_(text) {}

  Index parse(std::string_view item, std::int64_t size, std::size_t dim) const {
    item = trim(item);
    const std::size_t colon = item.find(':');
    if (colon == std::string_view::npos) {
      const Index index{.single = true, .start = wrap(required(item), size)};
      if (index.start < 0 || index.start >= size) outside(item, size, dim);
      return index;
    }
    std::string_view stop_text = item.substr(colon + 1);
    Index index;
    if (const std::size_t second = stop_text.find(':'); second != std::string_view::npos) {
      const std::string_view step = trim(stop_text.substr(second + 1));
      if (!step.empty()) index.step = required(step);
      if (index.step == 0) bad("a step other than 0");
      stop_text = stop_text.substr(0, second);
    }
    stop_text = trim(stop_text);
    const std::string_view start_text = trim(item.substr(0, colon));
    const bool forward = index.step > 0;
    index.start = start_text.empty() ? (forward ? 0 : size - 1) : wrap(required(start_text), size);
    const std::int64_t stop =
        stop_text.empty() ? (forward ? size : -1) : wrap(required(stop_text), size);
    if (index.start < 0 || index.start >= size || stop > size || (stop < 0 && !stop_text.empty())) {
      outside(item, size, dim);
    }
    const std::int64_t distance = forward ? stop - index.start : index.start - stop;
    if (distance <= 0) bad("at least one element in dimension " + std::to_string(dim));
    index.count = (distance - 1) / (forward ? index.step : -index.step) + 1;
    return index;
  }

 private:
  static std::int64_t wrap(std::int64_t value, std::int64_t size) {
    return value < 0 ? value + size : value;
  }
  std::int64_t required(std::string_view text) const {
    std::int64_t value = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (ec != std::errc{} || end != text.data() + text.size() || value > isa::kMostElements ||
        value < -isa::kMostElements) {
      bad("an integer or start:stop:step for each index");
    }
    return value;
  }
  [[noreturn]] void outside(std::string_view item, std::int64_t size, std::size_t dim) const {
    isa::fail(isa::Rule::operand_outside, param_,
              quoted_operand(text_) + ", whose index " + std::string(item) + " leaves dimension " +
                  std::to_string(dim),
              "an index within 0:" + std::to_string(size));
  }
  [[noreturn]] void bad(const std::string& need) const {
    isa::fail(isa::Rule::operand_text, param_, quoted_operand(text_), need);
  }

  std::string_view param_, text_;
};

// Elements from one row of the first dimension to the next: what a vector offset counts in.
std::int64_t row_elements(const isa::Tensor& tensor) {
  return tensor.elements() / tensor.shape.front();
}

}  // namespace

TensorRef tensor_start(const isa::Tensor& tensor, std::uint32_t id) {
  TensorRef ref;
  ref.tensor = id;
  ref.space = tensor.space;
  ref.dtype = tensor.dtype;
  if (ref.on_chip()) {
    ref.partition = tensor.partition;
    ref.partitions = static_cast<std::uint16_t>(tensor.shape[0]);
  }
  return ref;
}

std::string raw_tensor_name(isa::Space space, int core) {
  return "$" + std::string(isa::name(space)) + std::to_string(core);
}

std::uint32_t raw_tensor(isa::Program& program, isa::Space space, int core) {
  const std::string name = raw_tensor_name(space, core);
  if (const std::uint32_t* id = program.find_tensor(name)) return *id;
  const isa::Machine& m = program.machine();
  isa::Tensor t;
  t.name = name;
  t.space = space;
  t.dtype = isa::Dtype::kUint8;
  t.core = static_cast<std::uint8_t>(core);
  t.shape = {isa::kPartitions,
             space == isa::Space::kSbuf ? m.sbuf_partition_bytes : m.psum_partition_bytes};
  return program.add_tensor(std::move(t));
}

std::int64_t int_member(std::string_view what, Json object, std::string_view key, std::int64_t low,
                        std::int64_t high, std::optional<std::int64_t> fallback) {
  const auto value = object.find(key);
  if (!value && fallback) return *fallback;
  if (value && value->is(JsonType::kInt) && value->integer() >= low && value->integer() <= high) {
    return value->integer();
  }
  const std::string label = std::string(what) + "." + std::string(key);
  const std::string range =
      "an integer from " + std::to_string(low) + " to " + std::to_string(high);
  if (!value) isa::fail(isa::Rule::argument_missing, label, "missing", range);
  isa::fail(isa::Rule::operand_text, label, value->describe(), range);
}

void check_keys(std::string_view what, Json object, std::initializer_list<std::string_view> known) {
  for (const Json member : object) {
    if (std::find(known.begin(), known.end(), member.key()) == known.end()) {
      isa::fail(isa::Rule::operand_text, std::string(what) + ": unknown key " +
                                             quoted_operand(member.key()) + "; one of " +
                                             list_names(known) + " is required");
    }
  }
}

void check_dims(std::string_view what, const std::vector<Dim>& dims) {
  const std::string limit = "a pattern of at most " + std::to_string(kMaxDims) +
                            " dimensions, at least one and at most 2^36 elements, reaching at "
                            "most 2^36 elements";
  bool ok = dims.size() <= kMaxDims;
  std::int64_t elements = 1;
  for (const Dim& d : dims) {
    ok = ok && d.num >= 1 && d.num <= isa::kMostElements / elements &&
         d.step <= isa::kMostElements && d.step >= -isa::kMostElements;
    if (!ok) break;
    elements *= d.num;
    const std::int64_t step = d.step < 0 ? -d.step : d.step;
    ok = step == 0 || d.num - 1 <= isa::kMostElements / step;
  }
  if (!ok) isa::fail(isa::Rule::operand_text, what, "too large or empty", limit);
}

std::uint32_t OperandReader::find_tensor(std::string_view param, std::string_view name) const {
  if (const std::uint32_t* id = program_.find_tensor(name)) return *id;
  std::vector<std::string_view> names;
  for (const isa::Tensor& t : program_.tensors()) {
    if (names.size() < 10000) names.push_back(t.name);
  }
  isa::fail(isa::Rule::unknown_tensor, param,
            "tensor " + quoted_operand(name) + ", which is not declared", "a declared tensor",
            suggest(name, names));
}

TensorRef OperandReader::slice(std::string_view param, std::string_view text) const {
  const std::size_t bracket = text.find('[');
  const std::uint32_t id = find_tensor(param, text.substr(0, bracket));
  const isa::Tensor& tensor = program_.tensor(id);
  TensorRef ref = tensor_start(tensor, id);
  std::vector<Dim> dims;
  std::string_view items;
  if (bracket != std::string_view::npos) {
    if (text.back() != ']')
      isa::fail(isa::Rule::operand_text, param, quoted_operand(text), "a closing ]");
    items = text.substr(bracket + 1, text.size() - bracket - 2);
  }
  const IndexParser parser(param, text);
  const std::vector<Dim> own = isa::row_major(tensor.shape);
  bool more = bracket != std::string_view::npos;
  for (std::size_t d = 0; d < own.size(); ++d) {
    Index index{.count = own[d].num};
    if (more) {
      const std::size_t comma = items.find(',');
      index = parser.parse(items.substr(0, comma), own[d].num, d);
      more = comma != std::string_view::npos;
      if (more) items.remove_prefix(comma + 1);
    }
    if (d == 0 && ref.on_chip()) {
      if (index.step != 1)
        isa::fail(isa::Rule::operand_text, param, quoted_operand(text),
                  "step 1 in the partition dimension");
      ref.partition = static_cast<std::uint16_t>(tensor.partition + index.start);
      ref.partitions = static_cast<std::uint16_t>(index.count);
      continue;
    }
    ref.offset += index.start * own[d].step * isa::size_bytes(tensor.dtype);
    if (!index.single) dims.push_back({own[d].step * index.step, index.count});
  }
  if (more) {
    isa::fail(isa::Rule::operand_text, param, quoted_operand(text),
              "at most " + std::to_string(own.size()) + " indices");
  }
  ref.pattern = program_.intern(std::move(dims));
  return ref;
}

const TensorRef* OperandReader::read_text(std::string_view param, std::string_view text) {
  if (const auto it = cache_.find(text); it != cache_.end()) return it->second;
  const TensorRef* ref = program_.add_ref(slice(param, text));
  cache_.emplace(text, ref);
  return ref;
}

const TensorRef* OperandReader::read(std::string_view param, Json value, int core) {
  if (value.is(JsonType::kString)) return read_text(param, value.text());
  if (value.is(JsonType::kObject)) return program_.add_ref(explicit_ref(param, value, core));
  isa::fail(isa::Rule::operand_text, param, value.describe(),
            "an operand (\"tensor\", \"tensor[0:64, 0:128]\" or an object)");
}

TensorRef OperandReader::raw_start(std::string_view param, Json value, int core) {
  const Json space_json = *value.find("space");
  const auto space_index = find_name(kSpaceNames, space_json.text());
  if (!space_index)
    isa::fail(isa::Rule::operand_text, param, "in space " + space_json.describe(),
              "hbm, sbuf or psum");
  const auto space = static_cast<isa::Space>(*space_index);
  const std::int64_t address = int_member(param, value, "address", 0, kMaxAddress, std::nullopt);
  if (space == isa::Space::kHbm) {
    for (std::uint32_t id = 0; id < program_.tensors().size(); ++id) {
      const isa::Tensor& t = program_.tensor(id);
      if (t.space != space || address < t.address || address - t.address >= t.extent_bytes()) {
        continue;
      }
      TensorRef ref = tensor_start(t, id);
      ref.offset = address - t.address;
      return ref;
    }
    isa::fail(isa::Rule::operand_outside, param,
              "HBM address " + std::to_string(address) + ", which no tensor covers",
              "an address inside a declared tensor");
  }
  const std::uint32_t whole = raw_tensor(program_, space, core);
  TensorRef ref = tensor_start(program_.tensor(whole), whole);
  ref.offset = address;
  return ref;
}

TensorRef OperandReader::start_ref(std::string_view param, Json value, int core) {
  if (value.find("space")) {
    if (value.find("tensor"))
      isa::fail(isa::Rule::operand_text, param, "both raw and in a tensor",
                "\"space\" or \"tensor\"");
    if (value.find("offset"))
      isa::fail(isa::Rule::operand_text, param, "raw with an offset", "\"address\" alone");
    if (!value.find("ap"))
      isa::fail(isa::Rule::operand_text, param, "raw without a pattern", "\"ap\"");
    return raw_start(param, value, core);
  }
  const auto name = value.find("tensor");
  if (!name || !name->is(JsonType::kString)) {
    isa::fail(isa::Rule::operand_text, param, "an object without \"tensor\" or \"space\"",
              "one of them");
  }
  if (value.find("address"))
    isa::fail(isa::Rule::operand_text, param, "a tensor with an address", "\"offset\"");
  if (!value.find("ap")) {
    if (value.find("offset") || value.find("partition") || value.find("partitions")) {
      isa::fail(isa::Rule::operand_text, param, "an explicit operand without a pattern", "\"ap\"");
    }
    return slice(param, name->text());
  }
  const std::uint32_t id = find_tensor(param, name->text());
  TensorRef ref = tensor_start(program_.tensor(id), id);
  ref.offset = int_member(param, value, "offset", 0, kMaxAddress, 0);
  return ref;
}

TensorRef OperandReader::explicit_ref(std::string_view param, Json value, int core) {
  check_keys(param, value,
             {"tensor", "space", "address", "partition", "partitions", "offset", "ap", "dtype",
              "dynamic"});
  TensorRef ref = start_ref(param, value, core);
  if (const auto dtype = value.find("dtype")) {
    const auto parsed = isa::parse_dtype(dtype->text());
    if (!parsed)
      isa::fail(isa::Rule::unknown_dtype, param, "of dtype " + dtype->describe(), "a dtype name");
    ref.dtype = *parsed;
  }
  if (const auto ap = value.find("ap")) {
    std::vector<Dim> dims;
    if (!ap->is(JsonType::kArray))
      isa::fail(isa::Rule::operand_text, param, "\"ap\" " + ap->describe(),
                "a list of [step, num]");
    for (const Json pair : *ap) {
      Dim d;
      std::size_t n = 0;
      for (const Json v : pair) {
        if (!v.is(JsonType::kInt)) n = 3;
        (n++ == 0 ? d.step : d.num) = v.integer();
      }
      if (!pair.is(JsonType::kArray) || n != 2) {
        isa::fail(isa::Rule::operand_text, param, "\"ap\" with " + pair.describe(),
                  "a list of [step, num]");
      }
      dims.push_back(d);
      if (dims.size() > kMaxDims) break;
    }
    check_dims(std::string(param) + ".ap", dims);
    ref.pattern = program_.intern(std::move(dims));
    if (ref.on_chip()) {
      const isa::Tensor& t = program_.tensor(ref);
      const auto first = int_member(param, value, "partition", 0, isa::kPartitions - 1, 0);
      const auto count = int_member(param, value, "partitions", 1, isa::kPartitions, std::nullopt);
      if (first + count > t.shape[0]) {
        isa::fail(isa::Rule::operand_outside, param,
                  "partitions " + std::to_string(first) + ":" + std::to_string(first + count) +
                      " of a tensor with " + std::to_string(t.shape[0]),
                  "partitions inside the tensor");
      }
      ref.partition = static_cast<std::uint16_t>(t.partition + first);
      ref.partitions = static_cast<std::uint16_t>(count);
    } else if (value.find("partition") || value.find("partitions")) {
      isa::fail(isa::Rule::operand_text, param, "in HBM with partitions", "\"ap\" alone");
    }
  }
  if (const auto list = value.find("dynamic")) ref.dynamic = dynamic(param, *list, ref, core);
  return ref;
}

const isa::DynamicOffset* OperandReader::dynamic(std::string_view param, Json list,
                                                 const TensorRef& ref, int core) {
  if (!list.is(JsonType::kArray) || list.size() > 4) {
    isa::fail(isa::Rule::operand_text, param, "\"dynamic\" " + list.describe(),
              "a list of at most 4 dynamic offsets");
  }
  std::vector<Json> parts;
  for (const Json part : list) parts.push_back(part);
  const isa::DynamicOffset* chain = nullptr;
  for (auto it = parts.rbegin(); it != parts.rend(); ++it) {
    chain = dynamic_part(param, *it, ref, core, chain);
  }
  return chain;
}

const isa::DynamicOffset* OperandReader::dynamic_part(std::string_view param, Json part,
                                                      const TensorRef& ref, int core,
                                                      const isa::DynamicOffset* next) {
  using Kind = isa::DynamicOffset::Kind;
  check_keys(param, part, {"register", "scalar", "vector", "indirect", "stride", "limit", "group"});
  isa::DynamicOffset d;
  d.next = next;
  constexpr std::array<std::string_view, 4> kKinds = {"register", "scalar", "vector", "indirect"};
  int kinds = 0;
  for (std::size_t k = 0; k < kKinds.size(); ++k) {
    const auto member = part.find(kKinds[k]);
    if (!member) continue;
    ++kinds;
    d.kind = static_cast<Kind>(k);
    if (d.kind == Kind::kRegister) {
      d.reg = static_cast<std::uint16_t>(int_member(param, part, "register", 0, 65535, 0));
    } else {
      d.index = read(std::string(param) + "." + std::string(kKinds[k]), *member, core);
    }
  }
  if (!part.is(JsonType::kObject) || kinds != 1) {
    isa::fail(isa::Rule::operand_text, param,
              "a dynamic offset with " + std::to_string(kinds) + " kinds",
              "one of register, scalar, vector or indirect");
  }
  const std::int64_t unit = d.kind == Kind::kVector ? row_elements(program_.tensor(ref)) : 1;
  d.stride = int_member(param, part, "stride", -isa::kMostElements, isa::kMostElements, unit);
  d.limit = int_member(param, part, "limit", 0, isa::kMostElements, 0);
  d.group = int_member(param, part, "group", 1, isa::kPartitions, 0);
  return program_.add_dynamic(d);
}

}  // namespace nkisim
