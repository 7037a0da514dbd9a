// Makes random programs, and finds by brute force which of their instructions share bytes.
#pragma once

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/program_builder.hpp"

namespace nkisim::test {

/// A random program over a few tensors with overlapping addresses, views and engine state.
struct RandomProgram {
  ProgramBuilder b{"trn3"};
  std::mt19937 random;
  std::vector<std::uint32_t> sbuf, psum, hbm;

  explicit RandomProgram(unsigned seed, int count) : random(seed) {
    for (int i = 0; i < 6; ++i) {
      sbuf.push_back(add("s" + std::to_string(i), isa::Space::kSbuf, pick(24) * 128L));
    }
    for (int i = 0; i < 3; ++i) {
      psum.push_back(add("p" + std::to_string(i), isa::Space::kPsum, pick(2) * 2048L));
    }
    for (int i = 0; i < 2; ++i)
      hbm.push_back(b.hbm("h" + std::to_string(i), isa::Dtype::kFloat32, {32, 96}));
    for (int i = 0; i < count; ++i) instruction();
  }

  int pick(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); }
  std::uint32_t add(const std::string& name, isa::Space space, std::int64_t address) {
    return b.program().add_tensor({.name = name,
                                   .space = space,
                                   .dtype = isa::Dtype::kFloat32,
                                   .shape = {32, 96},
                                   .address = address});
  }
  const isa::TensorRef* view(const std::vector<std::uint32_t>& from, int columns, bool on_chip) {
    const int step = 1 + pick(2);
    const int first = pick(96 - (columns - 1) * step);
    std::vector<isa::Dim> dims;
    if (!on_chip) dims.push_back({96, 32});
    dims.push_back({step, columns});
    return b.view(from[static_cast<std::size_t>(pick(static_cast<int>(from.size())))], dims, first);
  }
  void instruction() {
    const int columns = 1 + pick(32);
    const auto& dst = pick(4) == 0 ? psum : sbuf;
    switch (pick(6)) {
      case 0:
        b.op("dma_copy", {{"dst", ProgramBuilder::arg(view(sbuf, columns, true))},
                          {"src", ProgramBuilder::arg(view(hbm, columns, false))}});
        return;
      case 1:
        b.op("dma_copy",
             {{"dst", ProgramBuilder::arg(view(hbm, columns, false))},
              {"src", ProgramBuilder::arg(view(sbuf, columns, true))}},
             pick(2) == 0 ? isa::Engine::kScalar : isa::Engine::kSync);
        return;
      case 2:
        b.op("tensor_tensor", {{"dst", ProgramBuilder::arg(view(dst, columns, true))},
                               {"data1", ProgramBuilder::arg(view(sbuf, columns, true))},
                               {"data2", ProgramBuilder::arg(view(sbuf, columns, true))},
                               {"op", ProgramBuilder::arg(isa::AluOp::kAdd)}});
        return;
      case 3:  // the reduce registers make the order of these visible
        b.op("activation", {{"dst", ProgramBuilder::arg(view(sbuf, columns, true))},
                            {"op", ProgramBuilder::arg(isa::ActFn::kCopy)},
                            {"data", ProgramBuilder::arg(view(dst, columns, true))},
                            {"reduce_cmd", ProgramBuilder::choice(2)},
                            {"reduce_res", ProgramBuilder::arg(view(sbuf, 1, true))}});
        return;
      case 4:
        b.op("nc_matmul",
             {{"dst", ProgramBuilder::arg(b.view(psum[static_cast<std::size_t>(pick(3))], {{1, 32}},
                                                 32 * pick(3)))},
              {"stationary", ProgramBuilder::arg(b.view(sbuf[0], {{1, 32}}))},
              {"moving", ProgramBuilder::arg(b.view(sbuf[1], {{1, 32}}))},
              {"accumulate", ProgramBuilder::arg(pick(2) == 0)}});
        return;
      default:
        b.op("memset", {{"dst", ProgramBuilder::arg(view(dst, columns, true))},
                        {"value", ProgramBuilder::arg(static_cast<double>(pick(9)))}});
    }
  }

  // Bytes per tensor afterwards; everything starts as written zeros.
  std::vector<std::vector<std::byte>> result() {
    isa::Memory memory(b.program());
    std::vector<std::vector<std::byte>> all;
    isa::InterpretOptions options;
    options.conditions.unwritten = isa::Unwritten::kAllow;
    isa::interpret(b.program(), memory, options);
    for (std::uint32_t t = 0; t < b.program().tensors().size(); ++t) all.push_back(memory.read(t));
    return all;
  }
};

// Every byte an instruction reads and writes, the slow way.
struct Touched {
  std::set<std::tuple<int, std::int64_t, std::int64_t>> read,
      written;  // space or tensor, row, byte
};

inline Touched touched(const isa::Inst& inst, const isa::Program& program) {
  Touched out;
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
    const isa::Tensor& t = program.tensor(ref);
    const int where =
        ref.on_chip() ? static_cast<int>(ref.space) : 100 + static_cast<int>(ref.tensor);
    const std::int64_t rows = ref.on_chip() ? ref.partitions : 1;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (const isa::Dim& outer :
           {ref.pattern->dims.size() > 1 ? ref.pattern->dims[0] : isa::Dim{0, 1}}) {
        const isa::Dim inner = ref.pattern->dims.back();
        for (std::int64_t i = 0; i < outer.num * inner.num; ++i) {
          const std::int64_t at = i / inner.num * outer.step + i % inner.num * inner.step;
          const std::int64_t byte = (ref.on_chip() ? t.address : 0) + ref.offset + 4 * at;
          for (std::int64_t k = 0; k < 4; ++k) {
            (write ? out.written : out.read)
                .insert({where, ref.on_chip() ? ref.partition + r : 0, byte + k});
          }
        }
      }
    }
  });
  return out;
}

inline bool meet(const std::set<std::tuple<int, std::int64_t, std::int64_t>>& a,
                 const std::set<std::tuple<int, std::int64_t, std::int64_t>>& b) {
  return std::any_of(a.begin(), a.end(), [&](const auto& x) { return b.contains(x); });
}

/// Pairs (earlier, later) of instructions of which one writes what the other touches.
inline std::vector<std::pair<std::size_t, std::size_t>> conflicts(const isa::Program& program) {
  std::vector<Touched> all;
  for (const isa::Inst& inst : program.insts()) all.push_back(touched(inst, program));
  std::vector<std::pair<std::size_t, std::size_t>> out;
  for (std::size_t j = 0; j < all.size(); ++j) {
    for (std::size_t i = 0; i < j; ++i) {
      if (meet(all[i].written, all[j].read) || meet(all[i].written, all[j].written) ||
          meet(all[i].read, all[j].written)) {
        out.emplace_back(i, j);
      }
    }
  }
  return out;
}

}  // namespace nkisim::test
