// Collects and updates the readers and writers of each tensor of a program.

#include "isa/program/uses.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace nkisim::isa {

Uses::Uses(const Program& program) : Uses(std::make_shared<const Operands>(program)) {}

Uses::Uses(std::shared_ptr<const Operands> operands)
    : operands_(std::move(operands)), of_(operands_->tensors()) {
  for (std::uint32_t i = 0; i < operands_->instructions(); ++i) {
    for (const Operand& operand : operands_->of(i)) note(operand, i);
  }
  each_use([this](std::uint32_t tensor, std::uint32_t, bool write) {
    ++(write ? of_[tensor].writers : of_[tensor].readers).count;
  });
  std::uint32_t reading = 0, writing = 0;
  for (OfTensor& t : of_) {
    t.readers.begin = reading;
    t.writers.begin = writing;
    reading += std::exchange(t.readers.count, 0);
    writing += std::exchange(t.writers.count, 0);
  }
  readers_.resize(reading);
  writers_.resize(writing);
  each_use([this](std::uint32_t tensor, std::uint32_t inst, bool write) {
    Range& range = write ? of_[tensor].writers : of_[tensor].readers;
    (write ? writers_ : readers_)[range.begin + range.count++] = inst;
  });
}

// fn(tensor, instruction, writes), once for each that an instruction uses, by instruction.
template <typename Fn>
void Uses::each_use(Fn&& fn) const {
  std::vector<std::uint32_t> reader(of_.size(), 0), writer(of_.size(), 0);  // the last so far, + 1
  for (std::uint32_t i = 0; i < operands_->instructions(); ++i) {
    const std::span<const Operand> operands = operands_->of(i);
    for (const Operand& operand : operands) {
      if (operand.write() && std::exchange(writer[operand.tensor()], i + 1) != i + 1) {
        fn(operand.tensor(), i, true);
      }
    }
    for (const Operand& operand : operands) {
      if (operand.write() || writer[operand.tensor()] == i + 1) continue;
      if (std::exchange(reader[operand.tensor()], i + 1) != i + 1) {
        fn(operand.tensor(), i, false);
      }
    }
  }
}

void Uses::note(const Operand& operand, std::uint32_t inst) {
  OfTensor& t = of_[operand.tensor()];
  if (!t.used) t.first = inst;
  t.used = true;
  t.last = inst;
  if (operand.write()) ++t.writes;
  t.direct &= !operand.is(Operand::kPart);  // else a tensor in another place could not take over
  t.fixed &= !operand.is(Operand::kDynamic);
}

Uses::Numbers Uses::readers(std::uint32_t tensor) const {
  const OfTensor& t = of_[tensor];
  if (t.redirected) return redirected_.at(tensor);
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
  std::vector<std::uint32_t>& all = redirected_[to];
  if (!std::exchange(t.redirected, true)) {
    const auto own = std::span(readers_).subspan(t.readers.begin, t.readers.count);
    all.assign(own.begin(), own.end());
  }
  all.insert(all.end(), more.begin(), more.end());
  t.last = std::max(t.last, *std::max_element(more.begin(), more.end()));
  of_[from].readers.count = 0;
  if (std::exchange(of_[from].redirected, false)) redirected_.erase(from);
}

}  // namespace nkisim::isa
