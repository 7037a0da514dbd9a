// Tests the instruction `isa`, which is a machine instruction by its opcode, as a profile shows it.
#include <catch2/catch.hpp>

#include "isa/program/op_spec.hpp"
#include "isa/program/program.hpp"

namespace nkisim::isa {
namespace {

class RawProgram {
 public:
  RawProgram() {
    program_.set_timing_only(true);
    sbuf_ = program_.add_tensor(
        {.name = "$sbuf0", .space = Space::kSbuf, .dtype = Dtype::kUint8, .shape = {128, 229376}});
    psum_ = program_.add_tensor(
        {.name = "$psum0", .space = Space::kPsum, .dtype = Dtype::kUint8, .shape = {128, 16384}});
  }
  const TensorRef* ref(Space space, Dtype dtype, std::int64_t columns) {
    TensorRef r{.tensor = space == Space::kSbuf ? sbuf_ : psum_,
                .partitions = 128,
                .space = space,
                .dtype = dtype};
    r.pattern = program_.intern({{1, columns}});
    return program_.add_ref(r);
  }
  RawProgram& set(std::string_view param, Arg::Kind kind, std::int64_t value) {
    Arg& a = arg(param);
    a.kind = kind;
    a.integer = value;
    return *this;
  }
  RawProgram& text(std::string_view param, std::string_view value) {
    Arg& a = arg(param);
    a.kind = Arg::Kind::kText;
    a.text = program_.add_text(value);
    return *this;
  }
  RawProgram& dst(const TensorRef* r) {
    Arg& a = arg("dst");
    a.kind = Arg::Kind::kTensor;
    a.tensor = r;
    return *this;
  }
  RawProgram& refs(std::string_view param, RefList list) {
    Arg& a = arg(param);
    a.kind = Arg::Kind::kTensors;
    a.tensors = program_.add_refs(std::move(list));
    return *this;
  }
  Expansion run(Engine engine, std::string_view opcode) {
    set("opcode", Arg::Kind::kInt, static_cast<int>(program_.add_opcode(opcode)));
    Inst inst;
    inst.op = Op::k_isa;
    inst.engine = engine;
    Expansion out;
    expand(program_.append(inst, args_), program_.machine(), out);
    return out;
  }

 private:
  Arg& arg(std::string_view param) {
    return args_.at(static_cast<std::size_t>(param_index(spec(Op::k_isa), param)));
  }
  Program program_{*find_machine("trn2")};
  std::vector<Arg> args_ = std::vector<Arg>(spec(Op::k_isa).params.size());
  std::uint32_t sbuf_ = 0, psum_ = 0;
};

TEST_CASE("a raw reduction takes elements and features from its operands") {
  RawProgram p;
  const auto e = p.text("function", "MAX")
                     .dst(p.ref(Space::kSbuf, Dtype::kFloat32, 1))
                     .refs("srcs", {p.ref(Space::kPsum, Dtype::kFloat32, 512)})
                     .run(Engine::kVector, "TENSOR_REDUCE");
  REQUIRE(e.parts.size() == 1);
  const Part& part = e.parts.front();
  CHECK(part.opcode == Opcode::kTENSOR_REDUCE);
  CHECK(part.unit == Unit::kVector);
  CHECK(part.elements == 512);
  CHECK(part.partitions == 128);
  CHECK((part.features & kFeatSrcPsum) != 0);
  CHECK((part.features & kFeatReduceAddMax) != 0);
  CHECK((part.features & (kFeatPointer | kFeatAll16Bit)) == 0);
  CHECK(part.psum_read_bytes == 128 * 512 * 4);
  CHECK(part.sbuf_write_bytes == 128 * 4);
}

TEST_CASE("a raw MATMUL runs on the matrix row with its array shape") {
  RawProgram p;
  const auto e = p.set("rows", Arg::Kind::kInt, 128)
                     .set("columns", Arg::Kind::kInt, 64)
                     .set("fp32_mode", Arg::Kind::kEnum, 2)
                     .dst(p.ref(Space::kPsum, Dtype::kFloat32, 512))
                     .refs("srcs", {p.ref(Space::kSbuf, Dtype::kFloat32, 512)})
                     .run(Engine::kTensor, "MATMUL");
  const Part& part = e.parts.front();
  CHECK(part.unit == Unit::kTensorMatrix);
  CHECK(part.elements == 512);
  CHECK(part.rows == 128);
  CHECK(part.columns == 64);
  CHECK(part.flops == std::int64_t{2} * 128 * 64 * 512);
  CHECK((part.features & kFeatFp32) != 0);
}

TEST_CASE("a raw DMA trigger declares its transfer") {
  RawProgram p;
  const auto e = p.set("bytes", Arg::Kind::kInt, 65536)
                     .set("elements", Arg::Kind::kInt, 128)
                     .set("from", Arg::Kind::kEnum, static_cast<int>(Space::kSbuf))
                     .set("to", Arg::Kind::kEnum, static_cast<int>(Space::kHbm))
                     .set("scattered", Arg::Kind::kBool, 1)
                     .run(Engine::kSync, "DMA_DIRECT2D");
  CHECK(e.is_dma);
  CHECK(e.dma.bytes == 65536);
  CHECK(e.dma.descriptors == 128);
  CHECK(e.dma.descriptor_bytes == 512);
  CHECK(e.dma.dst == Space::kHbm);
  CHECK(e.dma.scattered);
}

TEST_CASE("unknown opcodes are the program's own") {
  RawProgram p;
  const auto e = p.set("elements", Arg::Kind::kInt, 7).run(Engine::kGpSimd, "FROBNICATE");
  CHECK(e.parts.front().opcode >= Opcode::kCount);
  CHECK(e.parts.front().elements == 7);
}

}  // namespace
}  // namespace nkisim::isa
