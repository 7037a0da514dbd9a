// Encodes and decodes the messages of processes that simulate ranks together.

#include "isa/world/shard.hpp"

#include <algorithm>

#include "isa/program/program.hpp"

namespace nkisim::isa {
namespace {

constexpr std::uint64_t kNoInst = ~std::uint64_t{0};

// Only what is undefined names an instruction: that is rare.
std::uint64_t number_of(const Program& program, const Inst* inst) {
  std::uint64_t number = 0;
  for (const Inst& each : program.insts()) {
    if (&each == inst) return number;
    ++number;
  }
  return kNoInst;
}

void put_parcel(Words& out, const Parcel& parcel, const Program& program) {
  out.put_text({reinterpret_cast<const char*>(parcel.bytes.data()), parcel.bytes.size()});
  out.put(parcel.rows);
  out.put(parcel.row_bytes);
  out.put(parcel.dtype);
  out.put_text({reinterpret_cast<const char*>(parcel.undefined.data()), parcel.undefined.size()});
  if (parcel.undefined.empty()) return;
  Origin root = parcel.root;
  out.put(number_of(program, root.inst));
  root.inst = nullptr;
  out.put(root);
}

Parcel get_parcel(WordReader& in, const Program& program) {
  Parcel parcel;
  const std::string_view bytes = in.text();
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  parcel.bytes.assign(data, data + bytes.size());
  parcel.rows = in.get<std::int64_t>();
  parcel.row_bytes = in.get<std::int64_t>();
  parcel.dtype = in.get<Dtype>();
  const std::string_view undefined = in.text();
  parcel.undefined.assign(undefined.begin(), undefined.end());
  parcel.program = &program;
  if (undefined.empty()) return parcel;
  const auto inst = in.get<std::uint64_t>();
  parcel.root = in.get<Origin>();
  if (inst != kNoInst) parcel.root.inst = &program.insts().at(inst);
  return parcel;
}

void put_sources(Words& out, const RankSources& sources, const Program& program) {
  out.put<std::uint64_t>(sources.size());
  for (const CoreSources& core : sources) {
    out.put<std::uint64_t>(core.size());
    for (const auto& [key, parcel] : core) {
      out.put<std::int32_t>(key.first);
      out.put<std::uint64_t>(key.second);
      put_parcel(out, parcel, program);
    }
  }
}

RankSources get_sources(WordReader& in, const Program& program) {
  RankSources sources(in.get<std::uint64_t>());
  for (CoreSources& core : sources) {
    const auto count = in.get<std::uint64_t>();
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto param = in.get<std::int32_t>();
      const auto at = in.get<std::uint64_t>();
      core.emplace(std::pair{param, at}, get_parcel(in, program));
    }
  }
  return sources;
}

// The other shards that have ranks of a group.
std::vector<int> shards_of(RankGroup group, const Shard& shard) {
  std::vector<int> shards;
  for (const std::int64_t rank : group) {
    const int owner = shard.owner.at(static_cast<std::size_t>(rank));
    if (owner != shard.number) shards.push_back(owner);
  }
  std::sort(shards.begin(), shards.end());
  shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
  return shards;
}

void put_failure(Words& out, const std::optional<Failure>& failure) {
  out.put<bool>(failure.has_value());
  if (!failure) return;
  const Error& e = failure->error;
  out.put(failure->time);
  out.put(failure->order);
  out.put(e.rule());
  out.put(e.loc());
  out.put(e.limit());
  for (const std::string* text : {&e.message(), &e.instruction(), &e.trace_file(), &e.kernel_file(),
                                  &e.operand(), &e.found(), &e.required()}) {
    out.put_text(*text);
  }
}

}  // namespace

std::string_view WordReader::next(std::uint64_t count) {
  if (count > bytes_.size()) {
    throw Error(Rule::internal_error, "internal error: a message of another process is too short");
  }
  const std::string_view part = bytes_.substr(0, count);
  bytes_.remove_prefix(count);
  return part;
}

CollectiveTable::CollectiveTable(const Program& program) {
  for (const Inst& inst : program.insts()) {
    if (spec(inst).combine == nullptr) continue;
    numbers_.emplace(&inst, static_cast<std::uint32_t>(insts_.size()));
    insts_.push_back(&inst);
  }
}

Post::Post(const Shard& shard, std::vector<const Program*> programs)
    : shard_(shard), programs_(std::move(programs)), each_(static_cast<std::size_t>(shard.count)) {
  if (shard.alone()) return;
  for (const Program* program : programs_) tables_.try_emplace(program, *program);
}

void Post::send(const Called& called) {
  if (shard_.alone()) return;
  all_.put(called.rank);
  all_.put(static_cast<std::uint32_t>(called.core));
  all_.put(table(*programs_.at(static_cast<std::size_t>(called.rank))).number(*called.inst));
  all_.put(called.time);
  all_.put(called.prepared);
}

Post::Called Post::get_called(WordReader& in) const {
  Called called{.rank = in.get<std::int64_t>(), .core = in.get<std::uint32_t>()};
  const CollectiveTable& known = table(*programs_.at(static_cast<std::size_t>(called.rank)));
  called.inst = &known.inst(in.get<std::uint32_t>());
  called.time = in.get<std::int64_t>();
  called.prepared = in.get<std::int64_t>();
  return called;
}

void Post::send(std::span<const std::int64_t> lengths) {
  if (shard_.alone()) return;
  for (const std::int64_t length : lengths) all_.put(length);
}

std::vector<std::int64_t> Post::get_lengths(WordReader& in, std::size_t count) {
  std::vector<std::int64_t> lengths(count);
  for (std::int64_t& length : lengths) length = in.get<std::int64_t>();
  return lengths;
}

void Post::send(RankGroup group, std::int64_t rank, std::uint64_t call,
                const RankSources& sources) {
  if (shard_.alone()) return;
  for (const int to : shards_of(group, shard_)) {
    Words& words = each_[static_cast<std::size_t>(to)];
    words.put(rank);
    words.put(call);
    put_sources(words, sources, *programs_.at(static_cast<std::size_t>(rank)));
  }
}

Post::Sent Post::get_sent(WordReader& in) const {
  Sent sent{.rank = in.get<std::int64_t>(), .call = in.get<std::uint64_t>()};
  sent.sources = get_sources(in, *programs_.at(static_cast<std::size_t>(sent.rank)));
  return sent;
}

std::vector<Message> Post::meet(const std::optional<Failure>& mine, const Words& head) {
  if (shard_.alone()) {
    if (mine) throw Error(mine->error);
    return {};
  }
  Words out;
  put_failure(out, mine);
  std::vector<std::string> each;
  for (Words& words : each_) each.push_back(words.take());
  return shard_.link->meet(out.bytes() + head.bytes() + all_.take(), each);
}

std::optional<Failure> Post::get_failure(WordReader& in) {
  if (!in.get<bool>()) return std::nullopt;
  const auto time = in.get<std::int64_t>(), order = in.get<std::int64_t>();
  const auto rule = in.get<Rule>();
  const auto loc = in.get<SourceLoc>();
  const auto limit = in.get<std::int64_t>();
  Error error(rule, std::string(in.text()));
  error.at(in.text(), loc);
  const std::string_view trace_file = in.text(), kernel_file = in.text();
  if (!trace_file.empty() || !kernel_file.empty()) error.in(trace_file, kernel_file);
  const std::string_view operand = in.text();
  const std::string found(in.text()), required(in.text());
  error.of(operand, found, required).below(limit);
  return Failure{time, order, error};
}

void agree(const Shard& shard, const std::optional<Failure>& mine) {
  std::optional<Failure> first;
  for (const Message& messages : Post(shard, {}).meet(mine)) {
    WordReader in(messages.all);
    if (auto failure = Post::get_failure(in); failure && failure->before(first)) first = failure;
  }
  if (first) throw Error(first->error);
}

}  // namespace nkisim::isa
