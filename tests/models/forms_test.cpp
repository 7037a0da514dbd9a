// Tests the cache of expanded instructions: instructions with equal arguments share one entry.
#include "models/issue/forms.hpp"

#include <catch2/catch.hpp>

#include "tests/support/program_builder.hpp"

using namespace nkisim;
using PB = test::ProgramBuilder;

namespace {

const isa::Inst& copy(PB& b, const isa::TensorRef* dst, const isa::TensorRef* src) {
  return b.op("tensor_copy", {{"dst", PB::arg(dst)}, {"src", PB::arg(src)}}, isa::Engine::kVector);
}

}  // namespace

TEST_CASE("equal arguments are kept once, others are not mixed up") {
  PB b;
  const auto* x = b.all(b.sbuf("x", isa::Dtype::kFloat32, {128, 64}));
  const auto* y = b.all(b.sbuf("y", isa::Dtype::kFloat32, {128, 32}));
  const auto* z = b.all(b.sbuf("z", isa::Dtype::kFloat32, {128, 64}));
  const isa::Arg* first = copy(b, x, z).args.data();
  // One after the other: where they are kept hangs on addresses, so others may take their place.
  CHECK(copy(b, x, z).args.data() == first);
  CHECK(copy(b, z, x).args.data() != first);
  for (int i = 0; i < 500; ++i) {  // through the growth of what is compared
    CHECK(copy(b, x, z).arg(0).tensor == x);
    CHECK(copy(b, y, y).arg(1).tensor == y);
  }
  CHECK(b.program().add_list({1, 2}) == b.program().add_list({1, 2}));
  CHECK(*b.program().add_list({1, 3}) == isa::IntList{1, 3});
}

TEST_CASE("a cached expansion is shared, and stays valid while it is used") {
  PB b;
  const auto* x = b.all(b.sbuf("x", isa::Dtype::kFloat32, {128, 64}));
  const auto* z = b.all(b.sbuf("z", isa::Dtype::kFloat32, {128, 64}));
  const isa::Inst& inst = copy(b, x, z);
  models::Forms forms(b.program().machine());
  models::Form& vector = forms.take(inst, isa::Engine::kVector);
  models::Form& again = forms.take(inst, isa::Engine::kVector);
  CHECK(&again == &vector);
  REQUIRE(vector.expansion.parts.size() == 1);
  CHECK(vector.expansion.parts[0].elements == 64);
  CHECK(&forms.take(inst, isa::Engine::kScalar) != &vector);

  // Others take its place; it is not given to them while an operation has it.
  std::vector<const isa::TensorRef*> tiles;
  for (int i = 0; i < 64; ++i) {
    tiles.push_back(b.all(b.sbuf("t" + std::to_string(i), isa::Dtype::kFloat32, {128, 8})));
  }
  for (const auto* dst : tiles) {
    for (const auto* src : tiles)
      forms.release(forms.take(copy(b, dst, src), isa::Engine::kVector));
    for (const auto* src : tiles)
      forms.release(forms.take(copy(b, src, dst), isa::Engine::kVector));
  }
  CHECK(vector.expansion.parts[0].elements == 64);
  forms.release(vector);
  forms.release(again);
}
