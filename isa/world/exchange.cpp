// Checks that the calls of a collective agree, and moves data between the ranks of its group.

#include "isa/world/exchange.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "isa/base/overflow.hpp"
#include "isa/program/check.hpp"

namespace nkisim::isa {
namespace {

// A message begins with its rank, so that every way to run adds none to it (Error::of_rank).
[[noreturn]] void fail_at(const Member& member, const std::string& message) {
  Error e(Rule::ranks_disagree, message);
  e.at(spec(*member.inst).name, member.inst->loc);
  member.code().locate(e);
  throw e;
}

std::string rank_call(const Member& member) {
  return "rank " + std::to_string(member.rank) + " calls " +
         describe_call(member.code(), *member.inst);
}

bool same_value(const Arg& a, const Arg& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Arg::Kind::kReal:
      return a.real == b.real;
    case Arg::Kind::kList:
      return *a.list == *b.list;
    case Arg::Kind::kText:
      return *a.text == *b.text;
    case Arg::Kind::kNone:
    case Arg::Kind::kTensor:
    case Arg::Kind::kTensors:
      return true;
    default:
      return a.integer == b.integer;
  }
}

RefList tensors_of(const Arg& arg) {
  if (arg.kind == Arg::Kind::kTensor) return {arg.tensor};
  return arg.kind == Arg::Kind::kTensors ? *arg.tensors : RefList();
}

// The first difference between two calls of one op; empty if there is none.
std::string difference(const Inst& a, const Inst& b, bool shapes) {
  const auto params = spec(a).params;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const std::string name(params[i].name);
    const RefList x = tensors_of(a.args[i]), y = tensors_of(b.args[i]);
    if (x.size() != y.size()) {
      return name + " has " + std::to_string(y.size()) + " tensors, not " +
             std::to_string(x.size());
    }
    for (std::size_t t = 0; t < x.size(); ++t) {
      const bool shape = !shapes || x[t]->shape() == y[t]->shape();
      if (shape && x[t]->dtype == y[t]->dtype && x[t]->space == y[t]->space) continue;
      return name + " is " + describe(*y[t]) + ", not " + describe(*x[t]);
    }
    // Priorities and the like concern one rank alone.
    if (params[i].name != "priority" && !same_value(a.args[i], b.args[i])) {
      return name + " is another";
    }
  }
  return {};
}

bool in_hbm(const Inst& inst) {
  bool hbm = false;
  for_each_tensor(inst, [&](const TensorRef& ref, const Param& param, bool) {
    hbm |= !ref.on_chip() && param.kind != ParamKind::kIn;
  });
  return hbm;
}

// The members of one core number, in the order of the group.
std::vector<Member> of_core(std::span<const RankCalls> group, std::size_t core) {
  std::vector<Member> members;
  for (const RankCalls& calls : group) members.push_back(calls.at(core));
  return members;
}

std::int64_t integer_at(const std::byte* at, Dtype dtype) {
  std::uint32_t bits = 0;
  const std::int64_t size = size_bytes(dtype);
  std::memcpy(&bits, at, static_cast<std::size_t>(size));
  switch (dtype) {
    case Dtype::kInt8:
      return static_cast<std::int8_t>(bits);
    case Dtype::kInt16:
      return static_cast<std::int16_t>(bits);
    case Dtype::kInt32:
      return static_cast<std::int32_t>(bits);
    default:
      return bits;
  }
}

std::int64_t saturated(std::int64_t value, Dtype dtype) {
  const int bits = static_cast<int>(8 * size_bytes(dtype));
  const bool is_signed = dtype == Dtype::kInt8 || dtype == Dtype::kInt16 || dtype == Dtype::kInt32;
  if (dtype == Dtype::kBool) return std::clamp<std::int64_t>(value, 0, 1);
  const std::int64_t top = (std::int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
  return std::clamp(value, is_signed ? -top - 1 : 0, top);
}

}  // namespace

std::string describe_call(const Program& program, const Inst& inst) {
  std::string place = program.kernel_place(inst);
  if (place.empty() && inst.loc.trace_line != 0) {
    place = "line " + std::to_string(inst.loc.trace_line);
  }
  return std::string(spec(inst).name) + (place.empty() ? "" : " at " + place);
}

std::size_t Exchange::position(std::int64_t rank) const {
  const auto at = std::find_if(members_.begin(), members_.end(),
                               [&](const Member& m) { return m.rank == rank; });
  return static_cast<std::size_t>(at - members_.begin());
}

const TensorRef& Exchange::operand(std::size_t member, int param, std::size_t at) const {
  const Arg& arg = inst(member).arg(param);
  return arg.kind == Arg::Kind::kTensors ? *arg.tensors->at(at) : *arg.tensor;
}

Parcel Exchange::take(std::size_t member, int param, std::size_t at) const {
  const Member& m = members_[member];
  if (m.sources != nullptr) return m.sources->at({param, at});
  return m.context->take(inst(member), operand(member, param, at));
}

void Exchange::give(std::size_t member, int param, std::size_t at, const Parcel& parcel) const {
  if (!gives_to(member)) return;
  members_[member].context->give(inst(member), operand(member, param, at), parcel);
}

void Exchange::give_part(std::size_t member, int param, const Parcel& parcel,
                         std::int64_t first) const {
  if (!gives_to(member)) return;
  members_[member].context->give(inst(member), operand(member, param), parcel, first);
}

void Exchange::refuse(std::size_t member, const std::string& message) const {
  fail_at(members_[member], "rank " + std::to_string(rank(member)) + ": " + message);
}

Parcel part_of(const Parcel& whole, std::int64_t first, std::int64_t count) {
  const std::int64_t size = size_bytes(whole.dtype);
  Parcel part{
      .bytes = {whole.bytes.begin() + first * size, whole.bytes.begin() + (first + count) * size},
      .rows = 1,
      .row_bytes = count * size,
      .dtype = whole.dtype,
      .root = whole.root,
      .program = whole.program};
  if (whole.lost >= first && whole.lost < first + count) {
    part.lost = whole.lost - first;
    part.lost_value = whole.lost_value;
  }
  if (whole.undefined.empty()) return part;
  part.undefined.assign(whole.undefined.begin() + first, whole.undefined.begin() + first + count);
  return part;
}

void append(Parcel& all, const Parcel& next) {
  const auto before = static_cast<std::size_t>(all.bytes.empty() ? 0 : all.elements());
  if (all.bytes.empty()) {
    all = next;
    return;
  }
  all.bytes.insert(all.bytes.end(), next.bytes.begin(), next.bytes.end());
  all.rows += next.rows;
  if (!next.undefined.empty() && all.undefined.empty()) {
    all.undefined.resize(before);
    all.root = next.root;
    all.program = next.program;
  }
  if (all.undefined.empty()) return;
  all.undefined.resize(static_cast<std::size_t>(all.elements()));
  std::copy(next.undefined.begin(), next.undefined.end(),
            all.undefined.begin() + static_cast<std::ptrdiff_t>(before));
}

Parcel side_by_side(std::span<const Parcel> parts) {
  Parcel all;
  const std::int64_t size = size_bytes(parts.front().dtype);
  for (std::int64_t r = 0; r < parts.front().rows; ++r) {
    for (const Parcel& part : parts) {
      append(all, part_of(part, r * part.row_bytes / size, part.row_bytes / size));
    }
  }
  return all;
}

void Reduction::add(const Parcel& part) {
  const auto n = static_cast<std::size_t>(part.elements());
  const bool first = parts_++ == 0;
  if (first) {
    frame_ = part_of(part, 0, 0);
    frame_.rows = part.rows;
    frame_.row_bytes = part.row_bytes;
  }
  if (!part.undefined.empty()) {
    if (frame_.undefined.empty()) {
      frame_.undefined.resize(n);
      frame_.root = part.root;
      frame_.program = part.program;
    }
    for (std::size_t i = 0; i < n; ++i) frame_.undefined[i] |= part.undefined[i];
  }
  if (is_integer(part.dtype)) {
    if (first) integers_.resize(n);
    const std::int64_t size = size_bytes(part.dtype);
    for (std::size_t i = 0; i < n; ++i) {
      const std::int64_t x =
          integer_at(part.bytes.data() + static_cast<std::int64_t>(i) * size, part.dtype);
      std::int64_t& sum = integers_[i];
      sum = first                    ? x
            : op_ == AluOp::kAdd     ? sum + x
            : op_ == AluOp::kMaximum ? std::max(sum, x)
                                     : std::min(sum, x);
    }
    return;
  }
  constexpr std::size_t kChunk = 16384;
  if (first) {
    reals_.resize(n);
    decode(part.dtype, part.bytes.data(), n, reals_.data());
    return;
  }
  std::vector<float> next(std::min(n, kChunk));
  const auto size = static_cast<std::size_t>(size_bytes(part.dtype));
  for (std::size_t at = 0; at < n; at += kChunk) {
    const std::size_t count = std::min(kChunk, n - at);
    decode(part.dtype, part.bytes.data() + at * size, count, next.data());
    apply(op_, reals_.data() + at, next.data(), reals_.data() + at, count);
  }
}

Parcel Reduction::result() {
  Parcel out = std::move(frame_);
  const std::int64_t size = size_bytes(out.dtype);
  const std::size_t n = std::max(reals_.size(), integers_.size());
  out.bytes.resize(n * static_cast<std::size_t>(size));
  const auto lose = [&](std::size_t i, float value) {
    const bool defined = out.undefined.empty() || out.undefined[i] == 0;
    if (out.lost >= 0 || !defined) return;
    out.lost = static_cast<std::int64_t>(i);
    out.lost_value = value;
  };
  if (!reals_.empty()) {
    const std::size_t lost = find_overflow(out.dtype, reals_.data(), n);
    if (lost < n) lose(lost, reals_[lost]);
    encode(out.dtype, reals_.data(), n, out.bytes.data());
  }
  for (std::size_t i = 0; i < integers_.size(); ++i) {
    const std::int64_t x = saturated(integers_[i], out.dtype);
    if (x != integers_[i]) lose(i, static_cast<float>(integers_[i]));
    std::memcpy(out.bytes.data() + static_cast<std::int64_t>(i) * size, &x,
                static_cast<std::size_t>(size));
  }
  return out;
}

void check_alike(const Member& first, const Member& other) {
  std::string what;
  if (first.inst->op != other.inst->op) {
    what = "another instruction";
  } else if (first.inst != other.inst) {
    what = difference(*first.inst, *other.inst, !spec(*first.inst).collective.counts());
  }
  if (what.empty()) return;
  fail_at(first, rank_call(first) + ", and " + rank_call(other) + ": " + what +
                     "; the ranks of a group must make the same calls in the same order");
}

void check_cores(std::span<const Member> cores) {
  const Member& first = cores.front();
  for (const Member& other : cores.subspan(1)) {
    const std::string lead = "rank " + std::to_string(first.rank) +
                             ": both cores must make the same call: core 0 calls " +
                             describe_call(first.code(), *first.inst) + ", and core " +
                             std::to_string(other.inst->core) + " calls " +
                             describe_call(other.code(), *other.inst) + ": ";
    if (first.inst->op != other.inst->op) fail_at(first, lead + "another instruction");
    const std::string what = difference(*first.inst, *other.inst, true);
    if (!what.empty()) fail_at(first, lead + what);
    if (!in_hbm(*first.inst)) continue;
    for (std::size_t i = 0; i < first.inst->args.size(); ++i) {
      const RefList a = tensors_of(first.inst->args[i]), b = tensors_of(other.inst->args[i]);
      for (std::size_t t = 0; t < a.size(); ++t) {
        const bool same =
            a[t]->on_chip() || (a[t]->tensor == b[t]->tensor && a[t]->offset == b[t]->offset &&
                                a[t]->pattern == b[t]->pattern);
        if (same) continue;
        fail_at(first, lead + std::string(spec(*first.inst).params[i].name) +
                           " is another tensor in HBM, or another part of it (the device would "
                           "take core 0's)");
      }
    }
  }
}

void check_collective(std::span<const RankCalls> group) {
  for (const RankCalls& calls : group) {
    check_cores(calls);
    check_alike(group.front().front(), calls.front());
  }
}

void run_collective(std::span<const RankCalls> group, const World& world,
                    std::optional<std::size_t> only) {
  check_collective(group);
  const Inst& inst = *group.front().front().inst;
  const std::size_t cores = in_hbm(inst) ? 1 : group.front().size();
  for (std::size_t core = 0; core < cores; ++core) {
    const std::vector<Member> members = of_core(group, core);
    Exchange exchange(members, world, only);
    try {
      spec(inst).combine(exchange);
    } catch (Error& e) {
      e.at(spec(inst).name, inst.loc);
      members.front().code().locate(e);
      throw;
    }
  }
  for (const RankCalls& calls : group) {
    if (only && &calls != &group[*only]) continue;
    for (const Member& member : calls) {
      if (member.context != nullptr) member.context->done(*member.inst);
    }
  }
}

RankSources read_sources(const RankCalls& calls) {
  RankSources sources;
  const std::size_t cores = in_hbm(*calls.front().inst) ? 1 : calls.size();
  for (std::size_t c = 0; c < cores; ++c) {
    const Inst& inst = *calls[c].inst;
    CoreSources& core = sources.emplace_back();
    const auto params = spec(inst).params;
    for (std::size_t i = 0; i < params.size(); ++i) {
      const ParamKind kind = params[i].kind;
      if (is_written(kind) && kind != ParamKind::kInOut) continue;
      const RefList refs = tensors_of(inst.args[i]);
      for (std::size_t t = 0; t < refs.size(); ++t) {
        core.emplace(std::pair{static_cast<std::int32_t>(i), t},
                     calls[c].context->take(inst, *refs[t]));
      }
    }
  }
  return sources;
}

std::vector<std::int64_t> lengths_from(const Member& member, std::size_t group_size) {
  const Inst& inst = *member.inst;
  const Collective& op = spec(inst).collective;
  if (!op.counts()) return {};
  const std::int64_t size = size_bytes(inst.arg(op.srcs).tensors->at(0)->dtype);
  const Parcel words = member.sources != nullptr
                           ? member.sources->at({op.metadata, 0})
                           : member.context->take(inst, inst.tensor(op.metadata));
  std::vector<std::uint32_t> counts(group_size);
  decode_bits(Dtype::kUint32, words.bytes.data(), counts.size(), counts.data());
  std::vector<std::int64_t> row;
  for (std::size_t target = 0; target < group_size; ++target) {
    row.push_back(size * counts[op.kind == Collective::Kind::kAllGather ? 0 : target]);
  }
  return row;
}

}  // namespace nkisim::isa
