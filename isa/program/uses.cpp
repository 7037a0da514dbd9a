#include "isa/program/uses.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace nkisim::isa {

// In the order of the instructions; sorted by tensor afterwards.
struct Uses::Found {
  struct Entry {
    std::uint32_t tensor, inst;
  };
  std::vector<Entry> reads, writes;
  std::vector<std::uint32_t> reader, writer;  // by tensor: the last so far, + 1
  std::vector<const TensorRef*> operands;     // that the instruction at hand reads
};

Uses::Uses(const Program& program) : of_(program.tensors().size()) {
  Found found;
  found.reader.resize(of_.size(), 0);
  found.writer.resize(of_.size(), 0);
  found.reads.reserve(program.insts().size() * 2);
  found.writes.reserve(program.insts().size());
  std::uint32_t i = 0;
  for (const Inst& inst : program.insts()) {
    found.operands.clear();
    for_each_tensor(inst, [&](const TensorRef& ref, const Param&, bool write) {
      write ? note(found, ref, true, i) : found.operands.push_back(&ref);
    });
    for (const TensorRef* ref : found.operands) note(found, *ref, false, i);
    mark(inst);
    ++i;
  }
  const auto sort = [this](const std::vector<Found::Entry>& entries, Range OfTensor::*which,
                           std::vector<std::uint32_t>& sorted) {
    std::uint32_t begin = 0;
    for (OfTensor& t : of_) {
      (t.*which).begin = begin;
      begin += std::exchange((t.*which).count, 0);
    }
    sorted.resize(begin);
    for (const auto& [tensor, inst] : entries) {
      Range& range = of_[tensor].*which;
      sorted[range.begin + range.count++] = inst;
    }
  };
  sort(found.reads, &OfTensor::readers, readers_);
  sort(found.writes, &OfTensor::writers, writers_);
}

void Uses::note(Found& found, const TensorRef& ref, bool write, std::uint32_t inst) {
  OfTensor& t = of_[ref.tensor];
  if (!t.used) t.first = inst;
  t.used = true;
  t.last = inst;
  if (write) ++t.writes;
  if (!write && found.writer[ref.tensor] == inst + 1) return;
  if (std::exchange((write ? found.writer : found.reader)[ref.tensor], inst + 1) == inst + 1) {
    return;
  }
  ++(write ? t.writers : t.readers).count;
  (write ? found.writes : found.reads).push_back({ref.tensor, inst});
}

// Uses that a tensor in another place could not take over.
void Uses::mark(const Inst& inst) {
  const auto indices = [this](const TensorRef& ref) {
    for (const DynamicOffset* d = ref.dynamic; d != nullptr; d = d->next) {
      if (d->index != nullptr) of_[d->index->tensor].direct = false;
    }
    if (ref.dynamic != nullptr) of_[ref.tensor].fixed = false;
  };
  for (const Arg& arg : inst.args) {
    if (arg.kind == Arg::Kind::kTensor) indices(*arg.tensor);
    if (arg.kind != Arg::Kind::kTensors) continue;
    for (const TensorRef* ref : *arg.tensors) {
      of_[ref->tensor].direct = false;
      indices(*ref);
    }
  }
}

Uses::Numbers Uses::readers(std::uint32_t tensor) const {
  const OfTensor& t = of_[tensor];
  if (!t.redirected.empty()) return t.redirected;
  return Numbers(readers_).subspan(t.readers.begin, t.readers.count);
}

Uses::Numbers Uses::writers(std::uint32_t tensor) const {
  const OfTensor& t = of_[tensor];
  return Numbers(writers_).subspan(t.writers.begin, t.writers.count);
}

std::vector<std::uint32_t> Uses::users(std::uint32_t tensor) const {
  std::vector<std::uint32_t> all;
  all.reserve(readers(tensor).size() + writers(tensor).size());
  add_users(tensor, all);
  return all;
}

void Uses::add_users(std::uint32_t tensor, std::vector<std::uint32_t>& all) const {
  const Numbers reading = readers(tensor), writing = writers(tensor);
  std::set_union(reading.begin(), reading.end(), writing.begin(), writing.end(),
                 std::back_inserter(all));
}

void Uses::redirect(std::uint32_t from, std::uint32_t to) {
  const Numbers more = readers(from);
  if (more.empty()) return;
  OfTensor& t = of_[to];
  if (t.redirected.empty()) {
    const Numbers own = readers(to);
    t.redirected.assign(own.begin(), own.end());
  }
  t.redirected.insert(t.redirected.end(), more.begin(), more.end());
  t.last = std::max(t.last, *std::max_element(more.begin(), more.end()));
  of_[from].redirected.clear();
  of_[from].readers.count = 0;
}

}  // namespace nkisim::isa
