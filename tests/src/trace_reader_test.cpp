// Tests the reader of traces (files of NKI instructions) in text form: locations, operands, errors.
#include "src/trace/trace_reader.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "src/trace/inst_reader.hpp"
#include "src/trace/operand_text.hpp"
#include "src/trace/trace_names.hpp"

using namespace nkisim;
using Catch::Matchers::Contains;

namespace {

const std::string kHeader =
    R"({"nisa":1,"target":"trn2","tensors":[)"
    R"({"name":"x","space":"hbm","dtype":"float32","shape":[128,512],"role":"input"},)"
    R"({"name":"a","space":"sbuf","dtype":"float32","shape":[128,512],"address":0},)"
    R"({"name":"b","space":"sbuf","dtype":"float32","shape":[128,512],"address":2048},)"
    R"({"name":"c","space":"sbuf","dtype":"float32","shape":[128,4,128],"address":4096}]})"
    "\n";

TraceFile read(const std::string& body, const std::string& header = kHeader) {
  return read_trace_text(header + body, "k.jsonl");
}

/// The message of the Error that reading `body` after the header gives.
std::string error_of(const std::string& body, const std::string& header = kHeader) {
  try {
    (void)read(body, header);
  } catch (const isa::Error& e) {
    CHECK(e.code() == isa::ErrorCode::kBadInput);
    return e.what();
  }
  return "no error";
}

std::string add(const std::string& dst, const std::string& data1, const std::string& data2) {
  return R"({"i":"tensor_tensor","dst":)" + dst + R"(,"data1":)" + data1 + R"(,"data2":)" + data2 +
         R"(,"op":"add","loc":"kernel.py:42"})" + "\n";
}

}  // namespace

TEST_CASE("a small trace is read with its locations") {
  const TraceFile t = read("\n" + add("\"c\"", "\"a\"", "\"b\""));
  REQUIRE(t.program->insts().size() == 1);
  const isa::Inst& inst = t.program->insts().front();
  CHECK(isa::spec(inst).name == "tensor_tensor");
  CHECK(inst.engine == isa::Engine::kVector);
  CHECK(inst.loc.trace_line == 3);
  CHECK(inst.loc.kernel_line == 42);
  CHECK(t.program->files().at(inst.loc.kernel_file - 1) == "kernel.py");
  CHECK(inst.tensor(0).pattern->dims == std::vector<isa::Dim>{{128, 4}, {1, 128}});
}

TEST_CASE("a byte order mark is skipped") {
  CHECK(read("", "\xef\xbb\xbf" + kHeader).program->tensors().size() == 4);
}

TEST_CASE("operand slices mean what NumPy means") {
  const TraceFile t = read("");
  OperandReader operands(*t.program);
  struct Row {
    std::string text;
    int partition, partitions;
    std::int64_t offset;
    std::vector<isa::Dim> dims;
  };
  // Offsets and steps by hand: c has 512 floats per partition, rows of 128.
  const std::vector<Row> rows = {
      {"a", 0, 128, 0, {{1, 512}}},
      {"a[:]", 0, 128, 0, {{1, 512}}},
      {"a[0:64, 128:256]", 0, 64, 512, {{1, 128}}},
      {"a[32:64,::2]", 32, 32, 0, {{2, 256}}},
      {"a[5, 7]", 5, 1, 28, {}},
      {"a[-1, -2:]", 127, 1, 2040, {{1, 2}}},
      {"a[:,::-1]", 0, 128, 2044, {{-1, 512}}},
      {"a[:,9:5:-2]", 0, 128, 36, {{-2, 2}}},
      {"c[:,1]", 0, 128, 512, {{1, 128}}},
      {"c[:,1:3,4:8]", 0, 128, 528, {{128, 2}, {1, 4}}},
      {"c[:,:,3]", 0, 128, 12, {{128, 4}}},
      {"c[:,::3,::64]", 0, 128, 0, {{384, 2}, {64, 2}}},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    const isa::TensorRef& ref = *operands.read_text("data1", row.text);
    CHECK(ref.partition == row.partition);
    CHECK(ref.partitions == row.partitions);
    CHECK(ref.offset == row.offset);
    CHECK(ref.pattern->dims == row.dims);
    std::string text;
    append_operand(text, *t.program, ref);
    JsonLine line;
    const isa::TensorRef& again = *operands.read("data1", line.parse(text), 0);
    CHECK(again.partition == ref.partition);
    CHECK(again.partitions == ref.partitions);
    CHECK(again.offset == ref.offset);
    CHECK(again.pattern == ref.pattern);
  }
  const isa::TensorRef& hbm = *operands.read_text("src", "x[3, 5:9]");
  CHECK(hbm.offset == (3 * 512 + 5) * 4);
  CHECK(hbm.pattern->dims == std::vector<isa::Dim>{{1, 4}});
  CHECK(hbm.partitions == 0);
}

TEST_CASE("explicit and raw operands") {
  const TraceFile t = read("");
  OperandReader operands(*t.program);
  JsonLine line;
  const isa::TensorRef& ap = *operands.read(
      "src",
      line.parse(R"({"tensor":"a","partition":32,"partitions":16,"offset":6,"ap":[[0,2],[-1,4]],)"
                 R"("dtype":"bfloat16","dynamic":[{"register":3,"stride":512,"limit":4},)"
                 R"({"scalar":"b[0,0]"}]})"),
      0);
  CHECK(ap.partition == 32);
  CHECK(ap.partitions == 16);
  CHECK(ap.offset == 6);
  CHECK(ap.dtype == isa::Dtype::kBfloat16);
  CHECK(ap.pattern->dims == std::vector<isa::Dim>{{0, 2}, {-1, 4}});
  REQUIRE(ap.dynamic != nullptr);
  CHECK(ap.dynamic->kind == isa::DynamicOffset::Kind::kRegister);
  CHECK(ap.dynamic->reg == 3);
  CHECK(ap.dynamic->stride == 512);
  CHECK(ap.dynamic->limit == 4);
  REQUIRE(ap.dynamic->next != nullptr);
  CHECK(ap.dynamic->next->kind == isa::DynamicOffset::Kind::kScalar);
  CHECK(ap.dynamic->next->index->offset == 0);
  const isa::TensorRef& raw =
      *operands.read("src",
                     line.parse(R"({"space":"psum","address":2048,"partitions":128,"ap":[[1,512]],)"
                                R"("dtype":"float32"})"),
                     0);
  CHECK(t.program->tensor(raw).name == "$psum0");
  CHECK(raw.offset == 2048);
  CHECK(raw.dtype == isa::Dtype::kFloat32);
}

TEST_CASE("malformed traces say what and where") {
  CHECK_THAT(error_of("", ""), Contains("empty"));
  CHECK_THAT(error_of("", "{}\n"), Contains("k.jsonl:1: ") && Contains("not a trace header"));
  CHECK_THAT(error_of("", R"({"nisa":2,"target":"trn2"})"), Contains("version 2"));
  CHECK_THAT(error_of("", R"({"nisa":1,"target":"trn9"})"), Contains("trn9"));
  CHECK_THAT(error_of("{\"i\": nope}\n"), Contains("k.jsonl:2: ") && Contains("column 8"));
  CHECK_THAT(error_of("{\"i\":1,\"i\":2}\n"), Contains("appears twice"));
  CHECK_THAT(error_of("{\"i\":1,\"\\u0069\":2}\n"), Contains("key \"i\" appears twice"));
  for (const std::string big : {"9223372036854775808", "99999999999999999999"}) {
    CHECK_THAT(error_of("{\"i\":" + big + "}\n"),
               Contains("k.jsonl:2: ") && Contains("integer " + big + " is beyond 64 bits"));
  }
  const std::string deep(33, '['), deeper(2000, '[');
  CHECK_THAT(error_of(deep + std::string(33, ']')), Contains("deeper than 32 levels"));
  CHECK_THAT(error_of(deeper + std::string(2000, ']')), Contains("deeper than 32 levels"));
  CHECK_THAT(error_of("{\"i\":1e999}"), Contains("column 10") && Contains("overflow"));
  CHECK_THAT(error_of("{\"i\":\"tensor_tensr\"}\n"), Contains("did you mean tensor_tensor?"));
  CHECK_THAT(error_of(R"({"i":"tensor_tensor","dat1":"a"})"),
             Contains("unknown parameter \"dat1\"; did you mean data1?") && Contains("dst"));
  CHECK_THAT(error_of(add("\"c\"", "\"aa\"", "\"b\"")), Contains("tensor_tensor: data1") &&
                                                            Contains("not declared") &&
                                                            Contains("(kernel.py:42)"));
  CHECK_THAT(error_of(add("\"c\"", "\"a[0:64,0:513]\"", "\"b\"")),
             Contains("data1") && Contains("leaves dimension 1"));
  CHECK_THAT(error_of(add("\"c\"", "\"a[0:64,\"", "\"b\"")), Contains("closing ]"));
  CHECK_THAT(error_of(add("\"c\"", "7", "\"b\"")), Contains("data1 is 7"));
  CHECK_THAT(error_of(R"({"tensor":{"name":"a","space":"hbm","dtype":"float32","shape":[1]}})"),
             Contains("k.jsonl:2: ") && Contains("twice"));
  CHECK_THAT(error_of(R"({"tensor":{"name":"n","space":"sbuf","dtype":"float32","shape":[1]}})"),
             Contains("address"));
  CHECK_THAT(error_of(R"({"i":"tensor_tensor","op":"ad"})"), Contains("did you mean add?"));
  CHECK_THAT(error_of(R"({"i":"tensor_tensor","wait":[]})"), Contains("explicit"));
  CHECK_THAT(error_of(add("\"c\"",
                          R"({"tensor":"a","dynamic":[{"scalar":{"tensor":"b","partitions":1,)"
                          R"("offset":2048,"ap":[]}}]})",
                          "\"b\"")),
             Contains("index of data1") && Contains("tensor b"));
  CHECK_THAT(error_of(R"({"i":"tensor_tensor","core":1})"), Contains("core is 1"));
}

TEST_CASE("every enumerator has its name, and other numbers have none") {
  TraceFile trace = read("");
  int kinds = 0;
  for (const char* name : {"tensor_scalar", "activation", "dma_copy", "dma_compute", "memset"}) {
    for (const isa::Param& param : isa::find_op(name)->params) {
      if (!is_choice(param.kind) || param.kind == isa::ParamKind::kOpcode) continue;
      INFO(name << ' ' << param.name);
      std::int64_t count = 0;
      for (std::string_view text; !(text = choice_name(*trace.program, param, count)).empty();
           ++count) {
        CHECK(parse_choice(*trace.program, param, text) == count);
        REQUIRE(count < 1000);
      }
      CHECK(count >= 2);
      CHECK(choice_name(*trace.program, param, -1).empty());
      CHECK(choice_name(*trace.program, param, count + 1).empty());
      ++kinds;
    }
  }
  CHECK(kinds >= 5);
}

TEST_CASE("registers are r0 to r65535") {
  CHECK(parse_register("r0") == 0);
  CHECK(parse_register("r65535") == 65535);
  for (const char* text : {"r65536", "r99999", "r-1", "r", "R1", "r1x", "r000001"}) {
    CHECK(parse_register(text) == std::nullopt);
  }
}

TEST_CASE("no instruction has a parameter named like a key of the file format") {
  for (const isa::OpSpec* op : isa::op_table()) {
    for (const isa::Param& param : op->params) {
      INFO(op->name << "." << param.name);
      CHECK_FALSE(find_name(kInstKeys, param.name));
    }
  }
}
