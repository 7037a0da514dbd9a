// Tests vector and GpSimd instructions in aspects that their tables of tests cannot express.
#include <catch2/catch.hpp>
#include <set>

#include "tests/support/program_builder.hpp"

using namespace nkisim;
using isa::Dtype;
using test::ProgramBuilder;

TEST_CASE("device_print prints prefix, shape and values in program order") {
  ProgramBuilder b;
  const auto x = b.sbuf("x", Dtype::kFloat32, {2, 2});
  const auto n = b.sbuf("n", Dtype::kUint32, {1, 14});
  const auto prefix = [&](const char* text) {
    isa::Arg a;
    a.kind = isa::Arg::Kind::kText;
    a.text = b.program().add_text(text);
    return a;
  };
  b.op("device_print", {{"print_prefix", prefix("before")}, {"tensor", b.arg(b.all(x))}});
  b.op("memset", {{"dst", b.arg(b.all(x))}, {"value", b.arg(-0.5)}});
  b.op("device_print", {{"print_prefix", prefix("after")}, {"tensor", b.arg(b.all(x))}});
  b.op("device_print", {{"print_prefix", prefix("n")}, {"tensor", b.arg(b.all(n))}});
  b.set(x, {1, 2, 3, 4});
  b.set_words<std::uint32_t>(n, std::vector<std::uint32_t>(14, 0xffffffffU));
  std::string text;
  isa::InterpretOptions options;
  options.conditions.print = [&](const std::string& part) { text += part; };
  b.run(options);
  CHECK(text ==
        "before sbuf[2 x 2] float32\n [1 2]\n [3 4]\n"
        "after sbuf[2 x 2] float32\n [-0.5 -0.5]\n [-0.5 -0.5]\n"
        "n sbuf[1 x 14] uint32\n [4294967295 4294967295 4294967295 ... 4294967295 4294967295 "
        "4294967295]\n");
}

TEST_CASE("VectorE's generator differs by lane, seed and call, and covers its range") {
  const auto draw = [](std::uint32_t seed) {
    ProgramBuilder b("trn2");
    const auto s = b.sbuf("s", Dtype::kUint32, {1, 1});
    const auto x = b.sbuf("x", Dtype::kUint32, {128, 64});
    b.op("set_rng_seed", {{"src_seeds", b.arg(b.all(s))}});
    b.op("rng", {{"dst", b.arg(b.all(x))}});
    b.set_words<std::uint32_t>(s, {seed});
    b.run();
    return b.get_words<std::uint32_t>(x);
  };
  const auto one = draw(1), two = draw(2);
  CHECK(one == draw(1));
  CHECK(one != two);
  const std::set<std::uint32_t> distinct(one.begin(), one.end());
  CHECK(distinct.size() > 8185);  // of 8192; 2^32 values make repeats rare
  // Each bit is set in half of 8192 draws: 4096 +- 6 standard deviations of 45.
  for (unsigned bit = 0; bit < 32; ++bit) {
    int count = 0;
    for (std::uint32_t word : one) count += static_cast<int>((word >> bit) & 1U);
    CHECK(std::abs(count - 4096) < 272);
  }
}

TEST_CASE("the LFSR follows its polynomial bit by bit") {
  // One number is 32 Galois steps; recomputed here one step at a time from the first number drawn.
  ProgramBuilder b("trn1");
  const auto x = b.sbuf("x", Dtype::kUint32, {4, 3});
  b.op("rng", {{"dst", b.arg(b.all(x))}});
  b.run();
  const auto words = b.get_words<std::uint32_t>(x);
  for (std::size_t lane = 0; lane < 4; ++lane) {
    std::uint32_t state = words[3 * lane];
    for (std::size_t i = 1; i < 3; ++i) {
      for (int step = 0; step < 32; ++step) {
        const bool low = (state & 1U) != 0;
        state >>= 1U;
        if (low) state ^= 0x80200003U;
      }
      CHECK(words[3 * lane + i] == state);
    }
  }
}
