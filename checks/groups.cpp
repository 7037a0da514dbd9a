// Finds PSUM sums that are read before they are complete, and PSUM banks with two unfinished sums.
#include "checks/groups.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "checks/loop_iterations.hpp"
#include "checks/words.hpp"
#include "isa/program/footprint.hpp"

namespace nkisim::checks {
namespace {

struct Group {
  isa::Footprint bytes;
  std::uint32_t tensor = 0;
  const isa::Inst* last = nullptr;    // the matmul that wrote it last
  std::size_t at = 0;                 // which instruction that was
  int matmuls = 0;                    // 0: no group, but zeros that groups may begin with
  bool cleared = false;               // by a memset before its first matmul
  const isa::Inst* reader = nullptr;  // since then
};

class Groups {
 public:
  Groups(const isa::Program& program, bool placed) : program_(program), placed_(placed) {}

  std::vector<Remark> run() {
    for_each_twice(program_, [&](const isa::Inst& inst) { look(inst); });
    return std::move(remarks_);
  }

 private:
  void look(const isa::Inst& inst) {
    ++at_;
    const isa::OpSpec& op = isa::spec(inst);
    if (op.eval == nullptr) return;
    const int adds = isa::param_index(op, "accumulate");
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
      if (ref.space != isa::Space::kPsum || ref.dynamic != nullptr) return;
      if (adds >= 0 && write) {
        multiply(inst, ref, inst.flag(adds));
      } else {
        touch(inst, ref, write);
      }
    });
  }

  // Calls fn(groups of a bank) for each bank of PSUM that an operand is in.
  template <typename Fn>
  void for_each_bank(const isa::TensorRef& ref, const isa::Footprint& f, Fn&& fn) {
    const isa::Tensor& t = program_.tensor(ref);
    const bool own = placed_ || t.fixed;
    const std::int64_t size = program_.machine().psum_bank_bytes();
    const std::int64_t base = own ? 0 : t.address;
    const std::uint64_t key =
        own ? std::uint64_t{t.core} << 1U | 1U : std::uint64_t{ref.tensor} << 1U;
    for (std::int64_t b = (f.first - base) / size; b <= (f.last - 1 - base) / size; ++b) {
      fn(banks_[key << 16U | static_cast<std::uint64_t>(b)]);
    }
  }

  void multiply(const isa::Inst& inst, const isa::TensorRef& ref, bool adds) {
    const isa::Footprint f = isa::static_footprint(ref, program_);
    for_each_bank(ref, f, [&](std::vector<Group>& bank) {
      const auto hit = [&](const Group& g) { return isa::may_overlap(g.bytes, f); };
      const auto begun = [&](const Group& g) { return g.matmuls > 0 && hit(g); };
      const auto own = adds ? std::find_if(bank.begin(), bank.end(), begun) : bank.end();
      if (own == bank.end()) {
        const bool cleared = std::any_of(bank.begin(), bank.end(),
                                         [&](const Group& g) { return g.cleared && hit(g); });
        std::erase_if(bank, begun);
        bank.push_back({.bytes = f,
                        .tensor = ref.tensor,
                        .last = &inst,
                        .at = at_,
                        .matmuls = 1,
                        .cleared = cleared});
        return;
      }
      if (own->reader != nullptr) early_read(*own, inst, ref);
      for (const Group& other : bank) {
        const bool summed_onto_zeros = other.cleared && own->cleared;
        const bool same_rows =
            other.bytes.partition < f.partition_end && f.partition < other.bytes.partition_end;
        if (&other == &*own || other.matmuls < 2 || summed_onto_zeros || !same_rows) continue;
        if (other.at > own->at) two_open(other, inst, ref);
        if (other.tensor == ref.tensor && other.reader == nullptr) waits(other, inst, ref);
      }
      own->last = &inst;
      own->at = at_;
      own->reader = nullptr;
      ++own->matmuls;
    });
  }

  void touch(const isa::Inst& inst, const isa::TensorRef& ref, bool write) {
    const isa::Footprint f = isa::static_footprint(ref, program_);
    for_each_bank(ref, f, [&](std::vector<Group>& bank) {
      if (write) {
        std::erase_if(bank, [&](const Group& g) { return isa::may_overlap(g.bytes, f); });
        if (isa::spec(inst).fills) bank.push_back({.bytes = f, .cleared = true});
        return;
      }
      for (Group& g : bank) {
        if (isa::may_overlap(g.bytes, f)) g.reader = &inst;
      }
    });
  }

  void early_read(const Group& group, const isa::Inst& inst, const isa::TensorRef& ref) {
    remark(isa::Rule::group_read_early, *group.reader, inst,
           "reads " + program_.tensor(ref).name +
               " in the middle of an accumulation group, a part of the sum: " +
               place_text(program_, inst) + " adds to it later");
  }

  // The rule is one of trn1 and trn2; on trn3, where a product may span all banks, nki-library has
  // four groups open in one.
  void two_open(const Group& other, const isa::Inst& inst, const isa::TensorRef& ref) {
    if (program_.machine().generation >= isa::Generation::kV4) return;
    remark(isa::Rule::groups_in_one_bank, inst, *other.last,
           "adds to " + program_.tensor(ref).name +
               " while another accumulation group is open in its PSUM bank, of " +
               place_text(program_, *other.last) + "; a bank holds one");
  }

  // Seen on devices of trn1 and trn2 where the slices are read together after the last sum; one
  // product a slice, and a tile for each sum, are right there.
  void waits(const Group& other, const isa::Inst& inst, const isa::TensorRef& ref) {
    if (program_.machine().generation >= isa::Generation::kV4) return;
    remark(isa::Rule::sums_in_one_tile, inst, *other.last,
           "adds to a slice of " + program_.tensor(ref).name +
               " while nothing has read the sum in another, of " +
               place_text(program_, *other.last) +
               "; devices may keep that one's last product alone: a tile for each sum, or a read "
               "before the next sum, is right");
  }

  void remark(isa::Rule rule, const isa::Inst& inst, const isa::Inst& other, std::string text) {
    if (remarks_.size() >= kMostRemarks || !said_.insert({line_of(inst), line_of(other)}).second) {
      return;
    }
    remarks_.push_back({&inst, rule, std::move(text)});
  }

  const isa::Program& program_;
  bool placed_;
  std::unordered_map<std::uint64_t, std::vector<Group>> banks_;
  std::size_t at_ = 0;
  std::set<std::pair<Line, Line>> said_;
  std::vector<Remark> remarks_;
};

}  // namespace

std::vector<Remark> group_remarks(const isa::Program& program, bool placed) {
  return Groups(program, placed).run();
}

}  // namespace nkisim::checks
