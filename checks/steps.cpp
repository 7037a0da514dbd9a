// Finds inputs and loaded tiles of which a loop reads all but its last step, or one part again and
// again where each iteration was to read its own.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>
#include <vector>

#include "checks/unread.hpp"
#include "checks/words.hpp"
#include "isa/program/footprint.hpp"
#include "isa/program/writes.hpp"

namespace nkisim::checks {
namespace {

using isa::Footprint;
using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;  // bytes [first, last)

constexpr std::size_t kMostRanges = 4096;  // ranges of bytes of one tensor, or parts that are read
constexpr std::size_t kMostLines = 4;      // that read one tensor
constexpr std::int64_t kFewestParts = 3;   // of which one alone is read

// The same bytes, each once.
Ranges in_order(Ranges all) {
  std::sort(all.begin(), all.end());
  Ranges out;
  for (const auto& [first, last] : all) {
    if (!out.empty() && first <= out.back().second) {
      out.back().second = std::max(out.back().second, last);
    } else {
      out.emplace_back(first, last);
    }
  }
  return out;
}

Ranges without(const Ranges& all, const Ranges& gone) {
  Ranges out;
  std::size_t g = 0;
  for (auto [first, last] : all) {
    while (g < gone.size() && gone[g].second <= first) ++g;
    for (std::size_t i = g; i < gone.size() && gone[i].first < last; ++i) {
      if (gone[i].first > first) out.emplace_back(first, gone[i].first);
      first = std::max(first, gone[i].second);
    }
    if (first < last) out.emplace_back(first, last);
  }
  return out;
}

std::int64_t bytes_of(const Ranges& all) {
  return std::accumulate(all.begin(), all.end(), std::int64_t{0},
                         [](std::int64_t sum, const auto& r) { return sum + r.second - r.first; });
}

// Adds the bytes of a footprint that begins at `first`; false if they are too many ranges.
bool add_footprint(Ranges& all, const Footprint& f, std::int64_t first) {
  std::size_t count = 1;
  for (std::int32_t d = 0; d < f.dim_count; ++d) {
    count *= static_cast<std::size_t>(f.dims.at(static_cast<std::size_t>(d)).count);
    if (count > kMostRanges) return false;
  }
  if (all.size() + count > 2 * kMostRanges) all = in_order(std::move(all));
  if (all.size() + count > 2 * kMostRanges) return false;
  std::vector<std::int64_t> starts{first};
  for (std::int32_t d = 0; d < f.dim_count; ++d) {
    const Footprint::Dim& dim = f.dims.at(static_cast<std::size_t>(d));
    const std::size_t have = starts.size();
    for (std::int64_t n = 1; n < dim.count; ++n) {
      for (std::size_t i = 0; i < have; ++i) starts.push_back(starts[i] + n * dim.stride);
    }
  }
  for (const std::int64_t start : starts) all.emplace_back(start, start + f.run);
  return true;
}

bool same_form(const Footprint& a, const Footprint& b) {
  return a.run == b.run && a.dim_count == b.dim_count && a.last - a.first == b.last - b.first &&
         std::equal(a.dims.begin(), a.dims.begin() + a.dim_count, b.dims.begin());
}

// The parts of one tensor that the instructions of one line read, by their first bytes.
struct Reader {
  const isa::Inst* inst = nullptr;
  Footprint form;
  std::map<std::int64_t, std::int64_t> times;  // by first byte
};

// A tensor of which each byte is to be read.
struct Source {
  const isa::Inst* load = nullptr;  // null: an input
  Ranges all, read;
  std::int32_t partition = 0, partition_end = 0;
  std::map<Line, Reader> readers;
  bool known = true;
};

class Steps {
 public:
  explicit Steps(const isa::Program& program) : program_(program) {}

  std::vector<Remark> run() {
    const auto& tensors = program_.tensors();
    // An operand that is bytes may read what any tensor holds.
    if (std::any_of(tensors.begin(), tensors.end(), [](const auto& t) { return t.is_raw(); })) {
      return {};
    }
    for (std::uint32_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].role != isa::TensorRole::kInput || tensors[i].space != isa::Space::kHbm)
        continue;
      sources_[i].all = {{0, tensors[i].elements() * isa::size_bytes(tensors[i].dtype)}};
    }
    for (const isa::Inst& inst : program_.insts()) visit(inst);
    std::vector<Remark> remarks;
    std::set<Line> said;
    for (std::uint32_t i = 0; i < tensors.size() && remarks.size() < kMostRemarks; ++i) {
      const auto source = sources_.find(i);
      if (source == sources_.end() || !source->second.known) continue;
      if (auto remark = look_at(tensors[i], source->second);
          remark && said.insert(line_of(*remark->inst)).second) {
        remarks.push_back(std::move(*remark));
      }
    }
    return remarks;
  }

 private:
  void visit(const isa::Inst& inst) {
    const isa::TensorRef* loaded = load_of(inst);
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param& param, bool write) {
      if (write && &ref == loaded) return load(inst, ref);
      const auto source = sources_.find(ref.tensor);
      if (source == sources_.end() || !source->second.known) return;
      if (!write) {
        read(inst, ref, source->second);
      } else if (!ref.on_chip() || ref.dynamic != nullptr || isa::reads_before(inst, param)) {
        source->second.known = false;
      }
    });
  }

  // The tile that a DMA loads from HBM; null where the kernel chose its address.
  const isa::TensorRef* load_of(const isa::Inst& inst) const {
    if (isa::spec(inst).moves != isa::OpSpec::Moves::kCopies) return nullptr;
    const isa::TensorRef *to = nullptr, *from = nullptr;
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
      (write ? to : from) = &ref;
    });
    const bool loads = to != nullptr && from != nullptr && to->on_chip() && !from->on_chip();
    return loads && !program_.tensor(*to).fixed ? to : nullptr;
  }

  void load(const isa::Inst& inst, const isa::TensorRef& ref) {
    const Footprint f = isa::static_footprint(ref, program_);
    auto [at, fresh] = sources_.try_emplace(ref.tensor);
    Source& source = at->second;
    if (fresh) {
      source.load = &inst;
      source.partition = f.partition;
      source.partition_end = f.partition_end;
    }
    if (!source.known) return;
    const bool whole = f.partition == source.partition && f.partition_end == source.partition_end;
    if (source.load == nullptr || ref.dynamic != nullptr || !whole ||
        !add_footprint(source.all, f, f.first)) {
      source.known = false;
    }
  }

  void read(const isa::Inst& inst, const isa::TensorRef& ref, Source& source) const {
    const Footprint f = isa::static_footprint(ref, program_);
    const bool whole = source.load == nullptr ||
                       (f.partition == source.partition && f.partition_end == source.partition_end);
    auto [at, fresh] = source.readers.try_emplace(line_of(inst));
    Reader& reader = at->second;
    if (fresh) reader = {&inst, f, {}};
    source.known = ref.dynamic == nullptr && whole && source.readers.size() <= kMostLines;
    if (!source.known) return;
    if (!same_form(reader.form, f)) reader.inst = nullptr;
    const std::int64_t times = ++reader.times[f.first];
    source.known =
        reader.times.size() <= kMostRanges && (times > 1 || add_footprint(source.read, f, f.first));
  }

  std::optional<Remark> look_at(const isa::Tensor& tensor, Source& source) const {
    source.all = in_order(std::move(source.all));
    source.read = in_order(std::move(source.read));
    const Ranges left = without(source.all, source.read);
    if (left.empty() || source.read.empty()) return std::nullopt;
    for (const auto& [line, reader] : source.readers) {
      if (reader.inst == nullptr) continue;
      const std::string why = one_step_short(reader, left) ? " stops one step short"
                              : one_part(reader, source.all, left)
                                  ? " reads the same part each time"
                                  : "";
      if (why.empty()) continue;
      return remark(tensor, source, left, reader, why);
    }
    return std::nullopt;
  }

  // True if another step of the distance between its parts reads exactly what is left.
  static bool one_step_short(const Reader& reader, const Ranges& left) {
    const std::int64_t span = reader.form.last - reader.form.first;
    const std::int64_t first = reader.times.begin()->first, last = reader.times.rbegin()->first;
    const std::int64_t up = left.back().second - last - span, down = left.front().first - first;
    return (up > 0 && stepped(reader, left, up)) || (down < 0 && stepped(reader, left, down));
  }

  // The parts stand in rows of equal length, of at least two parts, and `step` apart in each row.
  static bool stepped(const Reader& reader, const Ranges& left, std::int64_t step) {
    std::size_t length = 0;
    Ranges more;
    for (const auto& [first, times] : reader.times) {
      if (reader.times.contains(first - step)) continue;
      std::size_t parts = 1;
      std::int64_t at = first + step;
      for (; reader.times.contains(at); at += step) ++parts;
      if (length == 0) length = parts;
      if (parts != length || !add_footprint(more, reader.form, at)) return false;
    }
    return length > 1 && in_order(std::move(more)) == left;
  }

  // True if each part is read as often as there are parts in equal steps, which read what is left.
  static bool one_part(const Reader& reader, const Ranges& all, const Ranges& left) {
    const std::int64_t times = reader.times.begin()->second;
    const bool equal = std::all_of(reader.times.begin(), reader.times.end(),
                                   [&](const auto& part) { return part.second == times; });
    const std::int64_t span = reader.form.last - reader.form.first;
    const std::int64_t distance = left.back().second - reader.times.rbegin()->first - span;
    for (std::int64_t parts = kFewestParts; equal && parts <= times; ++parts) {
      if (times % parts != 0 || distance % (parts - 1) != 0 || distance <= 0) continue;
      Ranges more;
      for (const auto& [first, n] : reader.times) {
        for (std::int64_t i = 1; i < parts; ++i) {
          if (!add_footprint(more, reader.form, first + i * (distance / (parts - 1)))) return false;
        }
      }
      more = in_order(std::move(more));
      if (without(left, more).empty() && without(more, all).empty()) return true;
    }
    return false;
  }

  Remark remark(const isa::Tensor& tensor, const Source& source, const Ranges& left,
                const Reader& reader, const std::string& why) const {
    const std::int64_t element = isa::size_bytes(tensor.dtype);
    const std::int64_t rows = source.load == nullptr ? 1 : source.partition_end - source.partition;
    const std::string found = "nothing reads " + std::to_string(rows * bytes_of(left) / element) +
                              " of the " + std::to_string(rows * bytes_of(source.all) / element) +
                              " elements ";
    const std::int64_t first = left.front().first / element;
    if (source.load == nullptr) {
      return {reader.inst, isa::Rule::input_unread,
              found + "of " + tensor.name + ", the first of them " + element_text(tensor, first) +
                  ": " + place_text(program_, *reader.inst) + why};
    }
    return {source.load, isa::Rule::load_unread,
            found + "that it loads into " + tensor.name + ", the first of them " + tensor.name +
                "[" + std::to_string(source.partition - tensor.partition) + ", " +
                std::to_string(first) + "]: " + place_text(program_, *reader.inst) + why};
  }

  const isa::Program& program_;
  std::unordered_map<std::uint32_t, Source> sources_;  // by tensor
};

}  // namespace

std::vector<Remark> step_remarks(const isa::Program& program) { return Steps(program).run(); }

}  // namespace nkisim::checks
