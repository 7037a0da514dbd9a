// Implements the checks, the shapes and the result values that all of nki.collectives share.
#include "isa/ops/shared/collective.hpp"

#include <algorithm>
#include <set>

namespace nkisim::isa {
namespace {

constexpr std::size_t kMostChannels = 4;

std::string_view name_of(const Inst& inst, int param) {
  return spec(inst).params[static_cast<std::size_t>(param)].name;
}

const RefList& tensors(const Inst& inst, int param) { return *inst.arg(param).tensors; }

// True if two operands of one tensor may share a byte: their spans overlap.
bool overlap(const TensorRef& a, const TensorRef& b) {
  if (a.tensor != b.tensor || a.space != b.space) return false;
  const auto first = [](const TensorRef& r) {
    return r.offset + r.pattern->first * size_bytes(r.dtype);
  };
  const auto last = [](const TensorRef& r) {
    return r.offset + (r.pattern->last + 1) * size_bytes(r.dtype);
  };
  if (first(a) >= last(b) || first(b) >= last(a)) return false;
  return !a.on_chip() ||
         (a.partition < b.partition + b.partitions && b.partition < a.partition + a.partitions);
}

bool same_place(const TensorRef& a, const TensorRef& b) {
  return a.tensor == b.tensor && a.offset == b.offset && a.partition == b.partition &&
         a.pattern == b.pattern;
}

void check_tensor(std::string_view operand, const TensorRef& ref) {
  if (ref.dynamic != nullptr) {
    fail(Rule::run_time_address, operand, "at an address known only at run time",
         "a fixed address: descriptors of collectives are made when the program is loaded");
  }
  if (ref.elements() == 0)
    fail(Rule::operand_size, operand, describe(ref), "a tensor with elements");
}

}  // namespace

void check_groups(const Inst& inst, int param) {
  std::set<std::int64_t> seen;
  const auto groups = groups_in(inst.list(param));
  if (groups.empty())
    fail(Rule::replica_groups, name_of(inst, param), "without a group",
         "at least one group of ranks");
  for (const RankGroup group : groups) {
    if (group.empty())
      fail(Rule::replica_groups, name_of(inst, param), "with an empty group",
           "ranks in every group");
    for (const std::int64_t rank : group) {
      if (!seen.insert(rank).second) {
        fail(Rule::replica_groups, name_of(inst, param),
             "with rank " + std::to_string(rank) + " twice", "groups that do not overlap");
      }
    }
  }
}

namespace {

void check_pairs(const Inst& inst, int param) {
  std::set<std::int64_t> sources, targets;
  const auto pairs = groups_in(inst.list(param));
  if (pairs.empty())
    fail(Rule::source_target_pairs, name_of(inst, param), "empty",
         "at least one pair (source, target)");
  for (const RankGroup pair : pairs) {
    if (pair.size() != 2) {
      fail(Rule::source_target_pairs, name_of(inst, param),
           "with a list of " + std::to_string(pair.size()) + " ranks", "pairs (source, target)");
    }
    if (!sources.insert(pair[0]).second) {
      fail(Rule::source_target_pairs, name_of(inst, param),
           "with source " + std::to_string(pair[0]) + " twice", "each source once");
    }
    if (!targets.insert(pair[1]).second) {
      fail(Rule::source_target_pairs, name_of(inst, param),
           "with target " + std::to_string(pair[1]) + " twice", "each target once");
    }
  }
}

void check_lists(const Inst& inst, int srcs, int dsts, ListRules rules) {
  const RefList &from = tensors(inst, srcs), &to = tensors(inst, dsts);
  if (from.empty())
    fail(Rule::collective_tensors, name_of(inst, srcs), "an empty list", "at least one tensor");
  if (from.size() != to.size()) {
    fail(Rule::collective_tensors, name_of(inst, dsts), "a list of " + std::to_string(to.size()),
         "as many tensors as " + std::string(name_of(inst, srcs)) + ", " +
             std::to_string(from.size()) + ",");
  }
  if (rules.one && from.size() != 1) {
    fail(Rule::collective_tensors, name_of(inst, srcs), "a list of " + std::to_string(from.size()),
         "exactly one tensor");
  }
  const Space space = from.front()->space;
  if (space != Space::kHbm && from.size() > 1 && !rules.per_channel) {
    fail(Rule::collective_tensors, name_of(inst, srcs),
         "a list of " + std::to_string(from.size()) + " tiles in SBUF",
         "one tile (several tensors only in HBM)");
  }
  for (std::size_t i = 0; i < from.size(); ++i) {
    check_tensor(name_of(inst, srcs), *from[i]);
    check_tensor(name_of(inst, dsts), *to[i]);
    if (from[i]->space != space || to[i]->space != space) {
      fail(Rule::operand_memory, name_of(inst, dsts), describe(*to[i]),
           "sources and destinations all in HBM or all in SBUF; " +
               std::string(name_of(inst, srcs)) + " has " + describe(*from[i]) +
               ", the same memory");
    }
    if (from[i]->dtype != to[i]->dtype) {
      fail(Rule::dtypes_differ, name_of(inst, dsts), describe(*to[i]),
           "the dtype of " + std::string(name_of(inst, srcs)) + ", " + describe(*from[i]) + ",");
    }
    for (std::size_t k = 0; k < to.size(); ++k) {
      if (k > i && overlap(*to[i], *to[k])) {
        fail(Rule::collective_overlap, name_of(inst, dsts), "with tensors that overlap",
             "destinations apart from each other");
      }
      if (!overlap(*from[i], *to[k])) continue;
      if (rules.in_place && i == k && same_place(*from[i], *to[i])) continue;
      fail(Rule::collective_overlap, name_of(inst, dsts),
           "overlapping " + std::string(name_of(inst, srcs)),
           rules.in_place ? "the same place or one apart" : "a place apart");
    }
  }
}

void check_reduction(const Inst& inst, int op, int srcs) {
  const auto which = inst.choice(op, AluOp::kAdd);
  if (which != AluOp::kAdd && which != AluOp::kMinimum && which != AluOp::kMaximum) {
    fail(Rule::operator_not_taken, "op", std::string(name(which)), "add, minimum or maximum");
  }
  for (const TensorRef* ref : tensors(inst, srcs)) {
    check_dtype(name_of(inst, srcs), *ref, kComputeDtypes, "numbers to reduce");
  }
}

void check_channels(const Inst& inst, int channels, int srcs) {
  IntList ids = {0};
  if (inst.has(channels)) ids = inst.list(channels);
  std::string found = "[";
  bool consecutive = !ids.empty();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    found += (i > 0 ? ", " : "") + std::to_string(ids[i]);
    consecutive = consecutive && ids[i] == static_cast<std::int64_t>(i);
  }
  if (!consecutive || ids.size() > kMostChannels) {
    fail(Rule::channel_ids, "channel_ids", found + "]", "[0], [0, 1], [0, 1, 2] or [0, 1, 2, 3]");
  }
  if (tensors(inst, srcs).size() != ids.size()) {
    fail(Rule::collective_tensors, name_of(inst, srcs),
         "with " + std::to_string(tensors(inst, srcs).size()) + " tensors",
         "one for each of the " + std::to_string(ids.size()) + " channels");
  }
}

std::int64_t group_size(const Inst& inst, int param) {
  const auto groups = groups_in(inst.list(param));
  for (const RankGroup group : groups) {
    if (group.size() == groups.front().size()) continue;
    fail(Rule::replica_groups, name_of(inst, param),
         "with groups of " + std::to_string(groups.front().size()) + " and " +
             std::to_string(group.size()) + " ranks",
         "groups of one size");
  }
  return static_cast<std::int64_t>(groups.front().size());
}

// 0; 1 too on tiles of two dimensions in SBUF, with `columns`.
void check_dim(const Inst& inst, const Collective& op, bool columns) {
  const std::int64_t value = inst.integer(op.dim);
  const TensorRef& src = *tensors(inst, op.srcs).front();
  if (value == 0) return;
  if (value == 1 && columns && src.on_chip()) {
    if (src.shape().size() <= 2) return;
    fail(Rule::operand_size, name_of(inst, op.srcs), describe(src),
         "two dimensions for collective_dim 1");
  }
  fail(Rule::collective_dim, "collective_dim", std::to_string(value),
       columns ? "0, or 1 for tiles in SBUF" : "0");
}

std::vector<std::int64_t> scaled(const TensorRef& ref, int dim, std::int64_t times) {
  std::vector<std::int64_t> shape = ref.shape();
  if (static_cast<std::size_t>(dim) < shape.size()) shape[static_cast<std::size_t>(dim)] *= times;
  return shape;
}

}  // namespace

void same_shapes(const Inst& inst, const Collective& op) {
  for (const int srcs : {op.srcs, op.more_srcs}) {
    for (std::size_t i = 0; srcs >= 0 && i < tensors(inst, srcs).size(); ++i) {
      const TensorRef &src = *tensors(inst, srcs)[i], &dst = *tensors(inst, op.dsts)[i];
      if (src.shape() == dst.shape()) continue;
      fail(Rule::operand_shape, name_of(inst, op.dsts), describe(dst),
           "the shape of " + std::string(name_of(inst, srcs)) + ", " + describe(src) + ",");
    }
  }
}

void gathered_shapes(const Inst& inst, const Collective& op) {
  check_dim(inst, op, true);
  const auto dim = static_cast<int>(inst.integer(op.dim));
  const std::int64_t ranks = group_size(inst, op.groups);
  for (std::size_t t = 0; t < tensors(inst, op.srcs).size(); ++t) {
    const TensorRef &src = *tensors(inst, op.srcs)[t], &dst = *tensors(inst, op.dsts)[t];
    if (dst.shape() == scaled(src, dim, ranks)) continue;
    fail(Rule::operand_shape, "dsts", describe(dst),
         std::to_string(ranks) + " times srcs, " + describe(src) + ", along dimension " +
             std::to_string(dim) + ",");
  }
}

void scattered_shapes(const Inst& inst, const Collective& op) {
  check_dim(inst, op, false);
  const std::int64_t ranks = group_size(inst, op.groups);
  for (std::size_t t = 0; t < tensors(inst, op.srcs).size(); ++t) {
    const TensorRef &src = *tensors(inst, op.srcs)[t], &dst = *tensors(inst, op.dsts)[t];
    if (src.shape() == scaled(dst, 0, ranks)) continue;
    fail(Rule::operand_shape, "dsts", describe(dst),
         "one part in " + std::to_string(ranks) + " of srcs, " + describe(src) +
             ", along dimension 0,");
  }
}

void shared_shapes(const Inst& inst, const Collective& op) {
  check_dim(inst, op, false);
  same_shapes(inst, op);
  const std::int64_t ranks = group_size(inst, op.groups);
  for (const TensorRef* src : tensors(inst, op.srcs)) {
    if (src->shape().empty() || src->shape().front() % ranks == 0) continue;
    fail(Rule::operand_size, "srcs", describe(*src),
         "a dimension 0 that " + std::to_string(ranks) + " ranks can share equally");
  }
}

void counted_shapes(const Inst& inst, const Collective& op) {
  const std::int64_t ranks = group_size(inst, op.groups);
  const std::int64_t rows = inst.flag(op.displs) ? 4 : 3;
  const TensorRef& meta = inst.tensor(op.metadata);
  check_tensor("metadata_tensor", meta);
  if (meta.dtype != Dtype::kUint32) {
    fail(Rule::operand_dtype, "metadata_tensor", std::string(name(meta.dtype)), "uint32");
  }
  std::vector<std::int64_t> shape = {rows, ranks};
  if (meta.on_chip()) shape.insert(shape.begin(), 1);
  if (meta.shape() != shape) {
    fail(Rule::operand_shape, "metadata_tensor", describe(meta),
         (meta.on_chip() ? "(1, " : "(") + std::to_string(rows) + ", " + std::to_string(ranks) +
             "): rows of " +
             (rows == 4 ? "send_counts, send_displs, recv_counts, recv_displs"
                        : "send_counts, send_displs, recv_counts") +
             " for each rank of the group");
  }
  if (op.kind == Collective::Kind::kAllGather && inst.flag(op.displs)) {
    fail(Rule::has_rdispls, "has_rdispls", "true", "false");
  }
}

void check_collective(const Inst& inst, const Machine& machine, ListRules rules, ShapeRule shapes) {
  const Collective& op = spec(inst).collective;
  if (op.pairs) {
    check_pairs(inst, op.groups);
  } else {
    check_groups(inst, op.groups);
  }
  check_lists(inst, op.srcs, op.dsts, rules);
  if (op.more_srcs >= 0) check_lists(inst, op.more_srcs, op.dsts, rules);
  if (op.channels >= 0) check_channels(inst, op.channels, op.srcs);
  shapes(inst, op);
  if (op.reduce >= 0) check_reduction(inst, op.reduce, op.srcs);
  check_priority(inst, op.priority, machine);
}

void expand_collective(const Inst& inst, const Machine& /*machine*/, Expansion& out) {
  out.parts.push_back(
      {.opcode = Opcode::kPSEUDO_TRIGGER_COLLECTIVE_2, .unit = unit_of(inst.engine)});
  out.is_collective = true;
  CollectiveWork& work = out.collective;
  bool seen = false;
  for_each_tensor(inst, [&](const TensorRef& ref, const Param& param, bool written) {
    if (param.kind != ParamKind::kInList && param.kind != ParamKind::kOutList) return;
    (written ? work.dst_bytes : work.src_bytes) += ref.bytes();
    if (written) ++work.tensors;
    if (seen) return;
    seen = true;
    work.space = ref.space;
    work.dtype = ref.dtype;
  });
}

namespace {

const Collective& op_of(const Exchange& ex) { return spec(ex.inst()).collective; }

// The parcel of every member for tensor `t`, in the group's order.
std::vector<Parcel> taken(const Exchange& ex, std::size_t t) {
  std::vector<Parcel> parts;
  for (std::size_t m = 0; m < ex.size(); ++m) parts.push_back(ex.take(m, op_of(ex).srcs, t));
  return parts;
}

// The parcels of all members for tensor `t`, reduced from left to right.
Parcel reduced(const Exchange& ex, std::size_t t) {
  Reduction sum(ex.inst().choice(op_of(ex).reduce, AluOp::kAdd));
  for (std::size_t m = 0; m < ex.size(); ++m) sum.add(ex.take(m, op_of(ex).srcs, t));
  return sum.result();
}

template <typename Fn>
void for_each_destination(Exchange& ex, Fn&& fn) {
  const std::size_t count = ex.inst().arg(op_of(ex).dsts).tensors->size();
  for (std::size_t t = 0; t < count; ++t) fn(op_of(ex).dsts, t);
}

}  // namespace

void reduce_all(Exchange& ex) {
  for_each_destination(ex, [&](int dsts, std::size_t t) {
    const Parcel result = reduced(ex, t);
    for (std::size_t m = 0; m < ex.size(); ++m) ex.give(m, dsts, t, result);
  });
}

void gather_all(Exchange& ex) {
  for_each_destination(ex, [&](int dsts, std::size_t t) {
    std::vector<Parcel> parts = taken(ex, t);
    Parcel all;
    if (ex.inst().integer(op_of(ex).dim) == 1) {
      all = side_by_side(parts);
    } else {
      for (const Parcel& part : parts) append(all, part);
    }
    parts.clear();
    for (std::size_t m = 0; m < ex.size(); ++m) ex.give(m, dsts, t, all);
  });
}

void scatter_reduced(Exchange& ex) {
  for_each_destination(ex, [&](int dsts, std::size_t t) {
    const Parcel result = reduced(ex, t);
    const std::int64_t count = result.elements() / static_cast<std::int64_t>(ex.size());
    for (std::size_t m = 0; m < ex.size(); ++m) {
      ex.give(m, dsts, t, part_of(result, static_cast<std::int64_t>(m) * count, count));
    }
  });
}

void exchange_parts(Exchange& ex) {
  for_each_destination(ex, [&](int dsts, std::size_t t) {
    const std::vector<Parcel> parts = taken(ex, t);
    const std::int64_t count = parts.front().elements() / static_cast<std::int64_t>(ex.size());
    for (std::size_t to = 0; to < ex.size(); ++to) {
      Parcel received;
      for (const Parcel& part : parts) {
        append(received, part_of(part, static_cast<std::int64_t>(to) * count, count));
      }
      ex.give(to, dsts, t, received);
    }
  });
}

void send_pairs(Exchange& ex) {
  std::vector<Parcel> sources;
  const auto pairs = groups_in(ex.inst().list(op_of(ex).groups));
  for (const RankGroup pair : pairs) {
    sources.push_back(ex.take(ex.position(pair[0]), op_of(ex).srcs));
  }
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    ex.give(ex.position(pairs[i][1]), op_of(ex).dsts, 0, sources[i]);
  }
}

void pass_on(Exchange& ex) {
  const Collective& op = op_of(ex);
  const auto sent = [&](std::size_t member, std::size_t channel) {
    if (op.more_srcs < 0) return ex.take(member, op.srcs, channel);
    Reduction sum(ex.inst().choice(op.reduce, AluOp::kAdd));
    sum.add(ex.take(member, op.srcs, channel));
    sum.add(ex.take(member, op.more_srcs, channel));
    return sum.result();
  };
  std::vector<std::int64_t> ranks;
  for (std::size_t m = 0; m < ex.size(); ++m) ranks.push_back(ex.rank(m));
  for_each_destination(ex, [&](int dsts, std::size_t c) {
    const auto ring = ring_of(ranks, static_cast<std::int64_t>(c), ex.world().ring);
    std::vector<Parcel> parcels;
    for (const std::int64_t rank : ring) parcels.push_back(sent(ex.position(rank), c));
    for (std::size_t i = 0; i < ring.size(); ++i) {
      ex.give(ex.position(ring[(i + 1) % ring.size()]), dsts, c, parcels[i]);
    }
  });
}

namespace {

// The metadata of one rank.
struct Counts {
  std::vector<std::uint32_t> words;
  std::int64_t ranks = 0;
  [[nodiscard]] std::int64_t at(int row, std::int64_t rank) const {
    return words[static_cast<std::size_t>(row * ranks + rank)];
  }
};

Counts read_counts(const Exchange& ex, std::size_t member, const Collective& p) {
  const Parcel parcel = ex.take(member, p.metadata);
  Counts counts;
  counts.ranks = static_cast<std::int64_t>(ex.size());
  counts.words.resize(static_cast<std::size_t>(parcel.elements()));
  decode_bits(Dtype::kUint32, parcel.bytes.data(), counts.words.size(), counts.words.data());
  for (std::size_t i = 0; i < parcel.undefined.size(); ++i) {
    const bool output = static_cast<std::int64_t>(i) / counts.ranks == 2;  // recv_counts
    if (parcel.undefined[i] != 0 && !output) {
      ex.refuse(member, "metadata_tensor is undefined in row " +
                            std::to_string(static_cast<std::int64_t>(i) / counts.ranks));
    }
  }
  return counts;
}

struct Block {
  std::int64_t first, count;
};

void check_apart(const Exchange& ex, std::size_t member, std::vector<Block> blocks) {
  std::erase_if(blocks, [](const Block& b) { return b.count == 0; });
  std::sort(blocks.begin(), blocks.end(),
            [](const Block& a, const Block& b) { return a.first < b.first; });
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    if (blocks[i - 1].first + blocks[i - 1].count <= blocks[i].first) continue;
    ex.refuse(member, "a received block of " + std::to_string(blocks[i - 1].count) +
                          " elements at element " + std::to_string(blocks[i - 1].first) +
                          " reaches into the next one, at element " +
                          std::to_string(blocks[i].first));
  }
}

}  // namespace

void exchange_counted(Exchange& ex) {
  const Collective& p = spec(ex.inst()).collective;
  const bool gather = p.kind == Collective::Kind::kAllGather;  // one block for all
  const auto n = static_cast<std::int64_t>(ex.size());
  const bool given = ex.inst().flag(p.displs);
  std::vector<Counts> counts;
  std::vector<Parcel> sources;
  for (std::size_t m = 0; m < ex.size(); ++m) {
    counts.push_back(read_counts(ex, m, p));
    sources.push_back(ex.take(m, p.srcs));
  }
  for (std::size_t to = 0; to < ex.size(); ++to) {
    const std::int64_t capacity = ex.operand(to, p.dsts).elements();
    std::vector<Block> blocks;
    Parcel received{.bytes = {}, .rows = 1, .dtype = Dtype::kUint32};
    for (std::int64_t from = 0; from < n; ++from) {
      const Counts& sender = counts[static_cast<std::size_t>(from)];
      const auto column = static_cast<std::int64_t>(gather ? 0 : to);
      const std::int64_t count = sender.at(0, column), displ = sender.at(1, column);
      const Parcel& source = sources[static_cast<std::size_t>(from)];
      if (displ + count > source.elements()) {
        ex.refuse(static_cast<std::size_t>(from),
                  "send_counts and send_displs take elements " + std::to_string(displ) + ".." +
                      std::to_string(displ + count) + " of src; it has " +
                      std::to_string(source.elements()));
      }
      const std::int64_t first = given ? counts[to].at(3, from) : capacity / n * from;
      if (first + count > capacity) {
        ex.refuse(to, "the block of " + std::to_string(count) + " elements from rank " +
                          std::to_string(ex.rank(static_cast<std::size_t>(from))) +
                          " goes to element " + std::to_string(first) + " of dst; it has " +
                          std::to_string(capacity));
      }
      blocks.push_back({first, count});
      const auto word = static_cast<std::uint32_t>(count);
      received.bytes.resize(received.bytes.size() + sizeof word);
      encode_bits(Dtype::kUint32, &word, 1, &received.bytes[received.bytes.size() - sizeof word]);
      if (count > 0) ex.give_part(to, p.dsts, part_of(source, displ, count), first);
    }
    check_apart(ex, to, blocks);
    if (!ex.inst(to).flag(p.known)) ex.give_part(to, p.metadata, received, 2 * n);
  }
}

}  // namespace nkisim::isa
