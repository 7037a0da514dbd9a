// Tests the parser of operand texts in device profiles.
#include "src/device_profile/profile_operands.hpp"

#include <catch2/catch.hpp>

namespace nkisim {
namespace {

using Use = ProfileTensor::Use;

TEST_CASE("a matmul's operands are understood") {
  const auto o = parse_operands(
      "S[8] (qSyncDynamicHW)>=16 S[5] (Tensor)++@complete acc_flags=3 fp32_mode=LOW_HIGH "
      "src=bfloat16@0x37e00[1,0,0][128,1,1] dst=0x2000800[1,0,0][128,1,1] 128*64 ");
  REQUIRE(o.waits.size() == 1);
  CHECK(o.waits[0].wait.semaphore == 8);
  CHECK(o.waits[0].wait.compare == isa::SemaphoreWait::Compare::kGe);
  CHECK(o.waits[0].wait.value == 16);
  CHECK(o.waits[0].owner == "qSyncDynamicHW");
  CHECK_FALSE(o.waits[0].runtime);
  REQUIRE(o.posts.size() == 1);
  CHECK(o.posts[0].post.semaphore == 5);
  CHECK(o.posts[0].post.action == isa::SemaphorePost::Action::kIncrement);
  REQUIRE(o.tensors.size() == 2);
  CHECK(o.tensors[0].use == Use::kRead);
  CHECK(o.tensors[0].dtype == isa::Dtype::kBfloat16);
  CHECK(o.tensors[0].address == 0x37e00);
  CHECK(o.tensors[0].elements() == 128);
  CHECK(o.tensors[1].use == Use::kWrite);
  CHECK_FALSE(o.tensors[1].dtype);
  CHECK(o.rows == 128);
  CHECK(o.columns == 64);
  CHECK(o.acc_flags == 3);
  CHECK(o.fp32_mode == "low_high");
  CHECK(o.rest.empty());
}

TEST_CASE("register pointers in a profile come from keys and from immediates") {
  const auto a = parse_operands(
      "EXP bias_ptr=fp32@0x6010 src=fp32@0x357f8[1,1,1][512,1,1] dst=fp32@0x6020[1,1,1][512,1,1] "
      "channels=128 scale=1.000000 imm=0.000000 accumulator_cmd=IDLE");
  CHECK(a.function == "EXP");
  CHECK(a.channels == 128);
  REQUIRE(a.tensors.size() == 3);
  CHECK(a.tensors[0].use == Use::kPointer);
  CHECK(a.rest == "scale=1.000000 imm=0.000000 accumulator_cmd=IDLE");

  const auto b = parse_operands("ops=MULTIPLY,BYPASS imm=0x8040,0 imm_src=PTR,INSTRUCTION");
  CHECK(b.function == "MULTIPLY,BYPASS");
  REQUIRE(b.tensors.size() == 1);
  CHECK(b.tensors[0].use == Use::kPointer);
  CHECK(b.tensors[0].address == 0x8040);

  CHECK(parse_operands("imm=0x8040,0 imm_src=INSTRUCTION,INSTRUCTION").tensors.empty());
}

TEST_CASE("both sides of a DMA are understood") {
  const auto o = parse_operands(
      "S[4] (Scalar)>=1 semaphore=40 sem_increment=16  src_elem_size=2048 dst_elem_size=2048 "
      "src_pattern=[2048,262144][2,128] dst_pattern=[262144,2048][2,128] "
      "src_addr_imm=0x802000004000 src_shape_reg=0 dst_table_offset_imm=0x40 dst_table_index=3 "
      "compute_op=NONE ");
  CHECK(o.dma.semaphore == 40);
  CHECK(o.dma.increment == 16);
  CHECK(o.dma.src.address == 0x802000004000U);
  CHECK(o.dma.src.elements() == 256);
  CHECK(o.dma.src.adjacent());
  CHECK_FALSE(o.dma.dst.address);
  CHECK(o.dma.dst.table == 3);
  CHECK(o.dma.dst.offset == 0x40);
  CHECK_FALSE(o.dma.dst.adjacent());
  CHECK_FALSE(o.dma.compute);
  CHECK(parse_operands("in_dtype=fp32 out_dtype=bf16").dma.compute);
  CHECK(parse_operands("compute_op=ADD").dma.compute);
}

TEST_CASE("the runtime's semaphores and events are distinguished") {
  const auto o = parse_operands(" setter=0 $S[2]==8 $S[2]=0@complete $S[3]--@complete $E[4]==1- ");
  REQUIRE(o.waits.size() == 1);
  CHECK(o.waits[0].runtime);
  CHECK(o.waits[0].wait.compare == isa::SemaphoreWait::Compare::kEq);
  REQUIRE(o.posts.size() == 2);
  CHECK(o.posts[0].post.action == isa::SemaphorePost::Action::kSet);
  CHECK(o.posts[0].post.value == 0);
  CHECK(o.posts[1].post.action == isa::SemaphorePost::Action::kDecrement);
  CHECK(o.events);
}

TEST_CASE("strange operands are kept, never fatal") {
  for (const char* text : {"",
                           "   ",
                           "S[",
                           "S[1",
                           "S[1]",
                           "S[1] (",
                           "S[99999999]>=1",
                           "S[1]>=",
                           "src=",
                           "=",
                           "src=0x",
                           "src=fp32@0x10[1",
                           "src=fp32@0x10[1,1][1]",
                           "src=fp32@0x10[1][2][3]",
                           "*",
                           "128*",
                           "*128",
                           "imm_src=PTR imm=",
                           "src_pattern=[1][2,3]",
                           "semaphore=x",
                           "$E[",
                           "$S[2]??",
                           "src=fp32@0x10[99999999999999999999][1]",
                           "\xff\xfe =\x01"}) {
    CHECK_NOTHROW(parse_operands(text));
  }
  const auto o = parse_operands("src=fp32@0x10[1,1][9000000000000,9000000000000]");
  REQUIRE(o.tensors.size() == 1);
  CHECK(o.tensors[0].elements() == isa::kMostElements);
}

}  // namespace
}  // namespace nkisim
