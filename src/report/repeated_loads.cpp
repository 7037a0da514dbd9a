// Finds loads from HBM that one statement of a kernel repeats, which AWS's compiler does once in
// some kernels.
#include "src/report/repeated_loads.hpp"

#include <algorithm>

namespace nkisim {

using models::Fs;

void RepeatedLoads::start(const isa::Program& program, const models::Config& config) {
  program_ = &program;
  config_ = &config;
  loads_.clear();
  rows_ = false;
}

void RepeatedLoads::add(const models::DmaEvent& event) {
  const isa::Inst& inst = *event.inst;
  if (inst.loc.kernel_line == 0) return;
  const isa::TensorRef *from = nullptr, *to = nullptr;
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
    (write ? to : from) = &ref;
  });
  if (from == nullptr || to == nullptr || from->on_chip() || to->space != isa::Space::kSbuf) return;
  const isa::Tensor& source = program_->tensors()[from->tensor];
  if (source.role == isa::TensorRole::kInternal) return;
  rows_ = rows_ || to->partitions == 1;
  if (source.written || from->dynamic != nullptr || program_->tensors()[to->tensor].fixed) return;
  const Data data{inst.loc.kernel_file, inst.loc.kernel_line, from->tensor, from->offset,
                  from->pattern};
  Loads& loads = loads_[{event.core, data}];
  if (loads.first == nullptr) {
    loads.first = &inst;
    loads.bytes = to->columns() * isa::size_bytes(to->dtype);
  } else if (loads.first != &inst) {  // else an iteration of the device's loop
    const models::DmaRates& dma = config_->dma;
    const double ns = static_cast<double>(event.work->bytes) /
                      (dma.bytes_per_ns * static_cast<double>(std::max(1, dma.engines)));
    ++loads.again;
    loads.time += std::max(dma.software.interval_base, models::from_ns(ns));
  }
}

RepeatedLoads::Found RepeatedLoads::found() const {
  if (rows_) return {};
  struct Statement {
    std::int64_t bytes = 0;
    Found found;
  };
  std::map<std::tuple<int, std::uint32_t, std::uint32_t>, Statement> statements;
  for (const auto& [key, loads] : loads_) {
    if (loads.again == 0) continue;
    Statement& s = statements[{key.first, std::get<0>(key.second), std::get<1>(key.second)}];
    s.bytes += loads.bytes;
    s.found.loads += loads.again;
    s.found.time += loads.time;
  }
  std::map<int, Found> cores;
  for (const auto& [key, s] : statements) {
    if (s.bytes > config_->machine.sbuf_partition_bytes) continue;
    Found& core = cores[std::get<0>(key)];
    core.loads += s.found.loads;
    core.time += s.found.time;
  }
  Found most;
  for (const auto& [core, found] : cores) {
    if (found.time > most.time) most = found;
  }
  return most;
}

}  // namespace nkisim
