// Builds a program in memory, runs it with values on trn2, and hears of it: two tiles are loaded,
// added by the vector engine and stored. Prints what ran when, and the latency.
#include <iomanip>
#include <iostream>
#include <nkisim/nkisim.hpp>
#include <vector>

namespace nki = nkisim::v1;

/// Prints when each instruction ran, and when the data of each DMA moved.
class Timeline : public nki::Observer {
 public:
  void on_instruction(const nki::InstructionEvent& e) override {
    line(e.start, e.end) << (e.inserted ? "wait of " : "") << e.instruction << " on " << e.engine
                         << '\n';
  }
  void on_transfer(const nki::TransferEvent& e) override {
    line(e.start, e.end) << "data of " << e.instruction << '\n';
  }

 private:
  static std::ostream& line(nki::Time start, nki::Time end) {
    return std::cout << std::setw(10) << nki::to_ns(start) << " to " << std::setw(8)
                     << nki::to_ns(end) << " ns  ";
  }
};

int main() try {
  const std::vector<std::int64_t> shape = {128, 512};
  nki::ProgramBuilder build("trn2", "add_tiles");
  build.tensor({.name = "a", .shape = shape, .role = nki::Role::kInput});
  build.tensor({.name = "b", .shape = shape, .role = nki::Role::kInput});
  build.tensor({.name = "c", .shape = shape, .role = nki::Role::kOutput});
  build.tensor({.name = "x", .space = nki::Space::kSbuf, .shape = shape, .address = 0});
  build.tensor({.name = "y", .space = nki::Space::kSbuf, .shape = shape, .address = 2048});
  build.add("dma_copy", {{"dst", "x"}, {"src", "a"}})
      .add("dma_copy", {{"dst", "y"}, {"src", "b"}})
      .add("tensor_tensor", {{"dst", "x"}, {"data1", "x"}, {"data2", "y"}, {"op", "add"}})
      .add("dma_copy", {{"dst", "c"}, {"src", "x"}});
  const nki::Program program = build.finish();

  std::vector<float> a(128 * 512), b(a.size(), 0.5F), sums(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i);
    sums[i] = a[i] + b[i];
  }
  Timeline timeline;
  const nki::Outcome out = nki::run(
      program,
      {.inputs = {{"a", nki::Array::of<float>(shape, a)}, {"b", nki::Array::of<float>(shape, b)}},
       .expected = {{"c", nki::Array::of<float>(shape, sums)}}},
      &timeline);
  std::cout << "latency " << out.latency_us << " us, bound by " << out.bottleneck << "; "
            << (out.ok() ? "all" : "not all") << ' ' << out.output("c").values<float>().size()
            << " sums are right\n";
  return out.exit_code;
} catch (const nki::Error& e) {
  std::cerr << e.what() << '\n';
  return e.facts().exit_code;
}
