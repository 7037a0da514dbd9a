// Finds parts of loaded tiles that no instruction reads (unread.hpp).
//
// For each tile: what DMAs load into it from HBM, as rectangles; without what any instruction
// reads of it. What is left is named at its load.
#include <algorithm>
#include <array>
#include <set>

#include "checks/rectangles.hpp"
#include "checks/unread.hpp"
#include "checks/words.hpp"
#include "isa/program/footprint.hpp"
#include "isa/program/writes.hpp"

namespace nkisim::checks {
namespace {

// A tile that is read in more pieces, or falls into more, is not looked at.
constexpr std::int64_t kMostLoadRuns = 4096;
constexpr std::size_t kMostLeft = 1024;

struct Load {
  const isa::Inst* inst = nullptr;
  const isa::TensorRef* ref = nullptr;
  Rect all;
  std::vector<Rect> left;
};

class Loads {
 public:
  explicit Loads(const isa::Program& program)
      : program_(program), of_tensor_(program.tensors().size()) {}

  std::vector<Remark> run() {
    const auto& tensors = program_.tensors();
    // An operand that is bytes may read what any tensor holds.
    if (std::any_of(tensors.begin(), tensors.end(), [](const auto& t) { return t.is_raw(); })) {
      return {};
    }
    for (const isa::Inst& inst : program_.insts()) find(inst);
    for (const isa::Inst& inst : program_.insts()) {
      isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param& p, bool write) {
        if (!write || isa::reads_before(inst, p)) read(ref);
      });
    }
    for (std::size_t i = 0; i < loads_.size(); ++i) remark(loads_[i]);
    return std::move(remarks_);
  }

 private:
  void find(const isa::Inst& inst) {
    if (isa::spec(inst).moves != isa::OpSpec::Moves::kCopies) return;
    const isa::TensorRef *to = nullptr, *from = nullptr;
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
      (write ? to : from) = &ref;
    });
    if (to == nullptr || from == nullptr || !to->on_chip() || from->on_chip()) return;
    const isa::Tensor& tensor = program_.tensor(*to);
    if (tensor.fixed || to->dynamic != nullptr || from->dynamic != nullptr) return;
    const auto all = rectangle(*to, isa::static_footprint(*to, program_), tensor);
    if (!all) return;
    Load load{&inst, to, *all, {*all}};
    for (const std::size_t other : of_tensor_[to->tensor]) subtract(load.left, loads_[other].all);
    if (load.left.empty()) return;  // loaded again
    of_tensor_[to->tensor].push_back(loads_.size());
    loads_.push_back(std::move(load));
  }

  void read(const isa::TensorRef& ref) {
    if (!ref.on_chip() || of_tensor_[ref.tensor].empty()) return;
    const isa::Footprint f = isa::static_footprint(ref, program_);
    std::int64_t runs = 1;
    for (std::int32_t d = 0; d < f.dim_count; ++d)
      runs *= f.dims.at(static_cast<std::size_t>(d)).count;
    for (const std::size_t i : of_tensor_[ref.tensor]) {
      Load& load = loads_[i];
      if (load.left.empty()) continue;
      if (runs > kMostLoadRuns) {
        load.left.clear();
        continue;
      }
      take(load, f);
      if (load.left.size() > kMostLeft) load.left.clear();
    }
  }

  static void take(Load& load, const isa::Footprint& f) {
    std::array<std::int64_t, isa::Footprint::kMaxDims> at{};
    Rect run{f.partition, f.partition_end - f.partition, f.first, f.run};
    for (;;) {
      subtract(load.left, run);
      int d = f.dim_count;
      while (d-- > 0) {
        const auto i = static_cast<std::size_t>(d);
        run.column += f.dims.at(i).stride;
        if (++at.at(i) < f.dims.at(i).count) break;
        run.column -= f.dims.at(i).stride * f.dims.at(i).count;
        at.at(i) = 0;
      }
      if (d < 0 || load.left.empty() || load.left.size() > kMostLeft) return;
    }
  }

  void remark(const Load& load) {
    std::int64_t bytes = 0;
    const Rect* first = nullptr;
    for (const Rect& r : load.left) {
      bytes += r.rows * r.columns;
      const bool earlier = first == nullptr || r.row < first->row ||
                           (r.row == first->row && r.column < first->column);
      if (earlier) first = &r;
    }
    const std::int64_t loaded = load.all.rows * load.all.columns;
    if (bytes == 0 || bytes == loaded || remarks_.size() >= kMostRemarks) return;
    if (!said_.insert(line_of(*load.inst)).second) return;
    const std::int64_t size = isa::size_bytes(load.ref->dtype);
    const isa::Tensor& tensor = program_.tensor(*load.ref);
    remarks_.push_back({load.inst, isa::Rule::load_unread,
                        "nothing reads " + std::to_string(bytes / size) + " of the " +
                            std::to_string(loaded / size) + " elements that it loads into " +
                            tensor.name + ", the first of them " + tensor.name + "[" +
                            std::to_string(first->row - tensor.partition) + ", " +
                            std::to_string(first->column / size) + "]"});
  }

  const isa::Program& program_;
  std::vector<std::vector<std::size_t>> of_tensor_;  // the loads of each
  std::vector<Load> loads_;
  std::set<Line> said_;
  std::vector<Remark> remarks_;
};

}  // namespace

std::vector<Remark> load_remarks(const isa::Program& program) { return Loads(program).run(); }

}  // namespace nkisim::checks
