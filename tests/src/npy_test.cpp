// Tests the reader and the writer of NPY and NPZ files.
#include "src/files/npy.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "isa/base/error.hpp"
#include "src/trace/data_source.hpp"
#include "tests/support/source_folder.hpp"

using namespace nkisim;
using Catch::Matchers::Contains;
using isa::Dtype;

namespace {

const std::string kReference = source_folder() + "/tests/src/data/numpy_reference.npz";

constexpr std::uint64_t kAnySize = std::numeric_limits<std::uint64_t>::max();

template <typename T>
std::vector<T> as(const std::vector<std::byte>& bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

std::filesystem::path temp(const char* name) {
  std::filesystem::path folder = std::filesystem::temp_directory_path();
  return folder.append("nkisim" + std::to_string(getpid())).concat(name);
}

isa::Tensor tensor(Dtype dtype, std::vector<std::int64_t> shape) {
  isa::Tensor t;
  t.name = "t";
  t.dtype = dtype;
  t.shape = std::move(shape);
  return t;
}

std::vector<std::byte> bytes_of(const isa::Tensor& t, const DataSource& s) {
  return tensor_bytes(t, s, {});
}

std::string reference_bytes() {
  std::ifstream in(kReference, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("arrays that NumPy wrote are read") {
  const auto arrays = read_npz(kReference);
  REQUIRE(arrays.size() == 6);
  CHECK(arrays.at("x").shape == std::vector<std::int64_t>{2, 3});
  CHECK(as<float>(arrays.at("x").data) == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(as<std::int16_t>(arrays.at("fortran").data) == std::vector<std::int16_t>{0, 1, 2, 3, 4, 5});
  CHECK(as<std::uint16_t>(to_dtype(arrays.at("bf16"), Dtype::kBfloat16, "bf16")) ==
        std::vector<std::uint16_t>{0x3fc0, 0xc000});
  // 0.1 is nearest to 0x3dcd; 1 + 2^-9 is a quarter of the way from 1 to the next bfloat16.
  CHECK(as<std::uint16_t>(to_dtype(arrays.at("wide"), Dtype::kBfloat16, "wide")) ==
        std::vector<std::uint16_t>{0x3dcd, 0x3f80});
  CHECK(arrays.at("scalar").shape.empty());
  CHECK(arrays.at("scalar").elements() == 1);
  CHECK(arrays.at("empty").elements() == 0);
  CHECK_THROWS_WITH(read_npz(kReference, "nope", kAnySize),
                    Contains("has no array nope") && Contains("x"));
  CHECK_THROWS_WITH(to_dtype(arrays.at("x"), Dtype::kInt32, "x"), Contains("int32"));
  CHECK_THROWS_WITH(to_dtype(arrays.at("fortran"), Dtype::kBool, "f"), Contains("fit bool"));
}

TEST_CASE("arrays round-trip through files") {
  const auto path = temp("a.npz");
  const NpyArray a{"<f4", {2}, std::vector<std::byte>(8, std::byte{1})};
  const NpyArray b = make_array(Dtype::kFloat8E4m3, {1, 3}, std::vector<std::byte>(3));
  write_npz(path, {{"a", a}, {"b", b}});
  const auto read = read_npz(path);
  CHECK(read.at("a").data == a.data);
  CHECK(read.at("a").shape == a.shape);
  CHECK(read.at("b").descr == "|V1");
  CHECK(read.at("b").shape == b.shape);
  std::filesystem::remove(path);
  const auto single = temp("a.npy");
  std::ofstream(single, std::ios::binary) << format_npy(a);
  CHECK(read_npy(single, kAnySize).data == a.data);
  std::filesystem::remove(single);
}

TEST_CASE("big-endian arrays and other kinds are refused") {
  for (const char* descr : {">f4", ">i2", "<c8", "<U1", "<f16", "f4"}) {
    INFO(descr);
    const auto path = temp("kind.npy");
    std::ofstream(path, std::ios::binary)
        << format_npy(NpyArray{descr, {1}, std::vector<std::byte>(16)});
    CHECK_THROWS_WITH(
        read_npy(path, kAnySize),
        Contains(descr) && Contains("little-endian numbers or raw bytes are required"));
    std::filesystem::remove(path);
  }
}

TEST_CASE("an archive without arrays round-trips") {
  const auto path = temp("empty.npz");
  write_npz(path, {});
  CHECK(read_npz(path).empty());
  std::filesystem::remove(path);
}

TEST_CASE("archives cut short are errors wherever they are cut") {
  const std::string good = reference_bytes();
  const auto path = temp("cut.npz");
  for (std::size_t size = 0; size < good.size(); ++size) {
    INFO("cut to " << size << " bytes");
    std::ofstream(path, std::ios::binary) << good.substr(0, size);
    CHECK_THROWS_AS(read_npz(path), isa::Error);
  }
  std::filesystem::remove(path);
}

// A megabyte of zeros packs to about a thousandth; a member that claims more has a lying directory.
TEST_CASE("members that claim more than their bytes can hold are errors") {
  std::string bytes = reference_bytes();
  const std::size_t entry = bytes.find("PK\x01\x02");
  REQUIRE(entry != std::string::npos);
  bytes.replace(entry + 24, 4, "\xff\xff\xff\x7f");  // its unpacked size
  const auto path = temp("bomb.npz");
  std::ofstream(path, std::ios::binary) << bytes;
  CHECK_THROWS_WITH(read_npz(path), Contains("impossible size"));
  std::filesystem::remove(path);
}

TEST_CASE("damaged archives are errors") {
  const std::string good = reference_bytes();
  const auto path = temp("bad.npz");
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    std::string bytes = good;
    for (std::size_t n = 1 + random() % 3; n > 0; --n) {
      if (random() % 8 == 0) bytes.resize(random() % bytes.size() + 1);
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    std::ofstream(path, std::ios::binary) << bytes;
    try {
      (void)read_npz(path);
    } catch (const isa::Error& e) {
      CHECK_THAT(e.what(), Contains("bad.npz"));
    }
  }
  std::filesystem::remove(path);
}

// Expected values: splitmix64's published first outputs for seed 0, and traces/generators.py.
TEST_CASE("generators give NumPy's numbers") {
  DataSource s;
  s.kind = DataSource::Kind::kGenerator;
  std::vector<double> x(3);
  s.generator = Generator::kUniform;
  generate(s, 0, 2, x.data());
  CHECK(x[0] == static_cast<double>(0xe220a8397b1dcdafULL >> 11U) * 0x1p-53);
  CHECK(x[1] == static_cast<double>(0x6e789e6aa1b965f4ULL >> 11U) * 0x1p-53);
  s.seed = 7;
  s.low = -1;
  generate(s, 0, 3, x.data());
  CHECK(x ==
        std::vector<double>{-0x1.c341e1ba6cdf8p-3, -0x1.eecf0ca02f0e8p-1, 0x1.9a610202eac4ap-1});
  s.generator = Generator::kNormal;
  generate(s, 0, 3, x.data());
  CHECK(x == std::vector<double>{0x1.e69ec21p-3, -0x1.d6b522f7p+0, 0x1.866522f2p-1});
  CHECK(as<std::uint16_t>(bytes_of(tensor(Dtype::kBfloat16, {2, 2}), s)) ==
        std::vector<std::uint16_t>{15987, 49131, 16195, 49048});
  s.generator = Generator::kIntegers;
  s.low = -3;
  s.high = 10;
  CHECK(as<std::int32_t>(bytes_of(tensor(Dtype::kInt32, {5}), s)) ==
        std::vector<std::int32_t>{8, 6, 6, 5, 7});
  s.generator = Generator::kArange;
  s.start = 254;
  CHECK(as<std::uint8_t>(bytes_of(tensor(Dtype::kUint8, {4}), s)) ==
        std::vector<std::uint8_t>{254, 255, 0, 1});
  s.generator = Generator::kNormal;
  CHECK_THROWS_WITH(bytes_of(tensor(Dtype::kInt8, {4}), s), Contains("normal"));
}

TEST_CASE("values fill a tensor") {
  DataSource s;
  s.kind = DataSource::Kind::kValues;
  s.values = {2};
  CHECK(as<float>(bytes_of(tensor(Dtype::kFloat32, {3}), s)) == std::vector<float>{2, 2, 2});
  s.values = {1, 2};
  CHECK_THROWS_WITH(bytes_of(tensor(Dtype::kFloat32, {3}), s), Contains("2 values"));
  s.values = {1.5};
  CHECK_THROWS_WITH(bytes_of(tensor(Dtype::kInt32, {3}), s), Contains("whole numbers"));
}

TEST_CASE("archive members that are not asked for are not unpacked") {
  const auto path = temp("unwanted.npz");
  NpyArray small{"<f4", {2}, std::vector<std::byte>(8)};
  NpyArray large{"<f4", {1 << 20}, std::vector<std::byte>(4 << 20)};
  write_npz(path, {{"small", small}, {"large", large}});
  std::vector<std::string> asked;
  const auto read = read_npz(path, [&](const std::string& key) -> std::optional<std::uint64_t> {
    asked.push_back(key);
    return key == "small" ? std::optional<std::uint64_t>(1000) : std::nullopt;
  });
  CHECK(asked == std::vector<std::string>{"small", "large"});
  CHECK(read.size() == 1);
  CHECK(read.at("small").shape == std::vector<std::int64_t>{2});
  CHECK_THROWS_WITH(
      read_npz(path, [](const std::string&) { return std::optional<std::uint64_t>(1000); }),
      Contains("[large]") && Contains("at most 1000"));
  CHECK_THROWS_WITH(read_npz(path, "large", 1000), Contains("at most 1000"));
  std::filesystem::remove(path);
}

TEST_CASE("a file with an array of any number type fits the space for a tensor") {
  CHECK(npy_bytes(10, Dtype::kInt8) >= 10 * 8 + 128);
  CHECK(npy_bytes(10, Dtype::kFloat8E4m3fnX4) >= 40 * 8 + 128);
}

TEST_CASE("files that are no regular ones are no arrays") {
  CHECK_THROWS_WITH(read_npy("/dev/zero", kAnySize), Contains("regular file"));
  CHECK_THROWS_WITH(read_npz("/dev/zero"), Contains("regular file"));
}

// The rule of npy.hpp: raw and unsigned arrays of the same width are the dtype's own bits where
// NumPy has none.
TEST_CASE("an array's bits are a dtype's where NumPy has no such type") {
  struct Row {
    const char* descr;
    Dtype dtype;
    bool own;
  };
  for (const Row& r : std::initializer_list<Row>{
           {"<V2", Dtype::kBfloat16, true},        {"<u2", Dtype::kBfloat16, true},
           {"<i2", Dtype::kBfloat16, false},       {"<f2", Dtype::kBfloat16, false},
           {"<u4", Dtype::kBfloat16, false},       {"|u1", Dtype::kFloat8E4m3fn, true},
           {"|V1", Dtype::kFloat8E4m3fn, true},    {"|i1", Dtype::kFloat8E4m3fn, false},
           {"<u4", Dtype::kFloat8E4m3fnX4, true},  {"<u2", Dtype::kFloat4E2m1fnX4, true},
           {"<i4", Dtype::kFloat8E4m3fnX4, false}, {"<f4", Dtype::kFloat8E4m3fnX4, false},
           {"<u2", Dtype::kFloat16, false},        {"<u2", Dtype::kInt16, false},
           {"<i2", Dtype::kInt16, true},           {"<V2", Dtype::kInt16, true},
           {"<V4", Dtype::kInt16, false},          {"<f4", Dtype::kFloat32, true},
           {"<u4", Dtype::kFloat32, false},        {"<f8", Dtype::kFloat32, false},
           {"<i8", Dtype::kInt64, true},           {"|u1", Dtype::kUint8, true}}) {
    INFO(r.descr << " as " << isa::name(r.dtype));
    CHECK(holds({r.descr, {1}, {}}, r.dtype) == r.own);
  }
  const std::vector<std::byte> one = {std::byte{0x80}, std::byte{0x3f}};  // 0x3f80 is 1 in bfloat16
  CHECK(to_dtype({"<u2", {1}, one}, Dtype::kBfloat16, "x") == one);
  CHECK(as<std::uint16_t>(to_dtype({"<i2", {1}, one}, Dtype::kBfloat16, "x")) ==
        std::vector<std::uint16_t>{0x467e});  // 16256 = 127 * 2^7, of which bfloat16 keeps all bits
}
