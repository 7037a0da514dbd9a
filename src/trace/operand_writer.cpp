// Writes operands as JSON text, the shortest that reads back as the same operand.
#include "src/files/json_text.hpp"
#include "src/trace/operand_text.hpp"
#include "src/trace/trace_names.hpp"

namespace nkisim {

using isa::Dim;
using isa::TensorRef;

namespace {

std::vector<Dim> own_dims(const isa::Tensor& tensor) {
  std::vector<Dim> dims = isa::row_major(tensor.shape);
  if (tensor.space != isa::Space::kHbm) dims.erase(dims.begin());
  return dims;
}

void append_member(std::string& out, std::string_view key, std::int64_t value) {
  out += ",\"";
  out += key;
  out += "\":";
  append_json_int(out, value);
}

void append_dynamic(std::string& out, const isa::Program& program, const isa::DynamicOffset* d,
                    bool pattern) {
  using Kind = isa::DynamicOffset::Kind;
  out += ",\"dynamic\":[";
  for (bool first = true; d != nullptr; d = d->next, first = false) {
    if (!first) out += ',';
    if (d->kind == Kind::kRegister) {
      out += "{\"register\":" + std::to_string(d->reg);
    } else {
      out += d->kind == Kind::kScalar   ? "{\"scalar\":"
             : d->kind == Kind::kVector ? "{\"vector\":"
                                        : "{\"indirect\":";
      append_operand(out, program, *d->index, pattern);
    }
    if (d->stride != 1 || d->kind == Kind::kVector) append_member(out, "stride", d->stride);
    if (d->limit != 0) append_member(out, "limit", d->limit);
    if (d->group != 0) append_member(out, "group", d->group);
    out += '}';
  }
  out += ']';
}

/// Writes "name" or "name[...]" if that means exactly `ref` without its dynamic part.
class SliceWriter {
 public:
  SliceWriter(const isa::Tensor& tensor, const TensorRef& ref) : tensor_(tensor), ref_(ref) {}

  bool write(std::string& out) {
    if (ref_.dtype != tensor_.dtype) return false;
    const TensorRef whole = tensor_start(tensor_, ref_.tensor);
    const bool same_rows = whole.partition == ref_.partition && whole.partitions == ref_.partitions;
    if (same_rows && ref_.offset == 0 && ref_.pattern->dims == own_dims(tensor_)) {
      out += tensor_.name;
      return true;
    }
    const std::int64_t size = isa::size_bytes(tensor_.dtype);
    if (ref_.offset % size != 0 || ref_.offset < 0) return false;
    text_ = tensor_.name + "[";
    if (!indices(ref_.offset / size)) return false;
    text_.back() = ']';
    out += text_;
    return true;
  }

 private:
  bool indices(std::int64_t rest) {
    const std::vector<Dim> own = isa::row_major(tensor_.shape);
    const std::vector<Dim>& dims = ref_.pattern->dims;
    std::size_t used = 0;
    for (std::size_t d = 0; d < own.size(); ++d) {
      if (d == 0 && ref_.on_chip()) {
        slice(ref_.partition - tensor_.partition, 1, ref_.partitions, own[d].num);
        continue;
      }
      const std::int64_t start = rest / own[d].step;
      rest %= own[d].step;
      if (start >= own[d].num) return false;
      if (used < dims.size() && fits(dims[used], own[d], start)) {
        slice(start, dims[used].step / own[d].step, dims[used].num, own[d].num);
        ++used;
      } else {
        append_json_int(text_, start);
        text_ += ',';
      }
    }
    return rest == 0 && used == dims.size();
  }
  static bool fits(const Dim& dim, const Dim& own, std::int64_t start) {
    if (dim.step == 0 || dim.step % own.step != 0) return false;
    const std::int64_t last = start + (dim.num - 1) * (dim.step / own.step);
    return last >= 0 && last < own.num && (own.num == 1 || dim.num > 1 || dim.step == own.step);
  }
  void slice(std::int64_t start, std::int64_t step, std::int64_t count, std::int64_t size) {
    if (start != 0 || step != 1 || count != size) {
      const std::int64_t last = start + (count - 1) * step;
      if (start != 0 || step < 0) append_json_int(text_, start);
      text_ += ':';
      if (step > 0 && last + 1 != size) append_json_int(text_, last + 1);
      if (step < 0 && last > 0) append_json_int(text_, last - 1);
      if (step != 1) text_ += ":" + std::to_string(step);
    } else {
      text_ += ':';
    }
    text_ += ',';
  }
  const isa::Tensor& tensor_;
  const TensorRef& ref_;
  std::string text_;
};

void append_explicit(std::string& out, const isa::Tensor& tensor, const TensorRef& ref) {
  if (tensor.is_raw()) {
    out += "{\"space\":\"";
    out += isa::name(tensor.space);
    out += '"';
    append_member(out, "address", ref.offset);
  } else {
    out += "{\"tensor\":";
    append_json_string(out, tensor.name);
    if (ref.offset != 0) append_member(out, "offset", ref.offset);
  }
  if (ref.on_chip()) {
    const int first = ref.partition - tensor.partition;
    if (first != 0) append_member(out, "partition", first);
    append_member(out, "partitions", ref.partitions);
  }
  out += ",\"ap\":[";
  for (const Dim& d : ref.pattern->dims) {
    if (out.back() != '[') out += ',';
    out += '[';
    append_json_int(out, d.step);
    out += ',';
    append_json_int(out, d.num);
    out += ']';
  }
  out += ']';
  if (ref.dtype != tensor.dtype) {
    out += ",\"dtype\":\"";
    out += isa::name(ref.dtype);
    out += '"';
  }
}

}  // namespace

void append_operand(std::string& out, const isa::Program& program, const TensorRef& ref,
                    bool pattern) {
  const isa::Tensor& tensor = program.tensor(ref);
  std::string text;
  const bool as_slice = !pattern && !tensor.is_raw() && SliceWriter(tensor, ref).write(text);
  if (as_slice && ref.dynamic == nullptr) {
    append_json_string(out, text);
    return;
  }
  if (as_slice) {
    out += "{\"tensor\":";
    append_json_string(out, text);
  } else {
    append_explicit(out, tensor, ref);
  }
  if (ref.dynamic != nullptr) append_dynamic(out, program, ref.dynamic, pattern);
  out += '}';
}

std::string operand_json(const isa::Program& program, const TensorRef& ref) {
  std::string text;
  append_operand(text, program, ref);
  return text;
}

}  // namespace nkisim
