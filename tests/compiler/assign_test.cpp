// Tests the compiler pass that chooses a DMA queue where the kernel names no engine.
#include "compiler/passes/assign.hpp"

#include <catch2/catch.hpp>

#include "tests/support/program_builder.hpp"

using namespace nkisim;
using isa::Dtype;
using isa::Engine;
using PB = test::ProgramBuilder;

TEST_CASE("a program's only DMA leaves the queue it was recorded on", "[assign]") {
  PB b;
  const auto s = b.sbuf("s", Dtype::kFloat32, {128, 512});
  const auto y = b.hbm("y", Dtype::kFloat32, {128, 512});
  b.op("memset", {{"dst", PB::arg(b.all(s))}, {"value", PB::arg(1.0)}}, Engine::kVector);
  b.op("dma_copy", {{"dst", PB::arg(b.all(y))}, {"src", PB::arg(b.all(s))}});
  isa::Program& program = b.program();
  REQUIRE(program.uses(Engine::kSync, 0));
  CHECK_FALSE(program.uses(Engine::kScalar, 0));
  CHECK(compiler::assign_queues(program, compiler::DmaQueues::k_split) == 1);
  CHECK_FALSE(program.uses(Engine::kSync, 0));
  CHECK(program.uses(Engine::kScalar, 0));
  CHECK(program.uses(Engine::kVector, 0));
}

TEST_CASE("a queue that the kernel named stays", "[assign]") {
  PB b;
  const auto s = b.sbuf("s", Dtype::kFloat32, {128, 512});
  const auto y = b.hbm("y", Dtype::kFloat32, {128, 512});
  b.op("memset", {{"dst", PB::arg(b.all(s))}, {"value", PB::arg(1.0)}}, Engine::kVector);
  b.op("dma_copy", {{"dst", PB::arg(b.all(y))}, {"src", PB::arg(b.all(s))}}, Engine::kSync);
  CHECK(compiler::assign_queues(b.program(), compiler::DmaQueues::k_split) == 0);
  CHECK(b.program().uses(Engine::kSync, 0));
}
