// Tests the writers of timelines in Perfetto's and Chrome's form.
#include "src/report/timeline.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>

#include "src/config/config_json.hpp"

using namespace nkisim;

namespace {

// Reads the wire format back, by the published field numbers.
struct Reader {
  std::string_view bytes;
  std::uint64_t varint() {
    std::uint64_t v = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto b = static_cast<unsigned char>(bytes.at(0));
      bytes.remove_prefix(1);
      v |= static_cast<std::uint64_t>(b & 0x7fU) << shift;
      if (b < 0x80U) return v;
    }
  }
  template <typename Fn>  // fn(field, integer, text)
  void each(Fn&& fn) {
    while (!bytes.empty()) {
      const std::uint64_t tag = varint();
      std::uint64_t integer = 0;
      std::string_view text;
      if (tag % 8 == 0) integer = varint();
      if (tag % 8 == 1 || tag % 8 == 2) {
        const std::size_t n = tag % 8 == 1 ? 8 : varint();
        text = bytes.substr(0, n);
        REQUIRE(text.size() == n);
        bytes.remove_prefix(n);
      }
      REQUIRE(tag % 8 <= 2);
      fn(tag / 8, integer, text);
    }
  }
};

struct Event {
  std::uint64_t time = 0, type = 0, track = 0;
  std::string name;
};

struct Decoded {
  std::vector<Event> events;
  std::map<std::uint64_t, std::string> tracks;  // names by UUID
};

Decoded decode(std::string_view out) {
  Decoded decoded;
  Reader{out}.each([&](auto field, auto, auto packet) {
    REQUIRE(field == 1);
    Event event;
    Reader{packet}.each([&](auto f, auto integer, auto text) {
      if (f == 8) event.time = integer;
      if (f == 60) {
        std::uint64_t uuid = 0;
        Reader{text}.each([&](auto g, auto i, auto t) {
          if (g == 1) uuid = i;
          if (g == 2) decoded.tracks[uuid] = t;
        });
      }
      if (f != 11) return;
      Reader{text}.each([&](auto g, auto i, auto t) {
        if (g == 9) event.type = i;
        if (g == 11) event.track = i;
        if (g == 23) event.name = t;
      });
    });
    if (event.type != 0) decoded.events.push_back(event);
  });
  return decoded;
}

// Two overlapping instructions, a transfer and an interruption.
void play(Timeline& timeline) {
  isa::Program program(*isa::find_machine("trn2"));
  timeline.on_start(program, load_config("trn2"));
  timeline.on_queue({0, 5, "qSyncDynamicHW"});
  isa::Inst inst;
  isa::Part part{.opcode = isa::Opcode::kTENSOR_TENSOR, .unit = isa::Unit::kVector};
  models::PartEvent p{.inst = &inst, .part = &part};
  p.start = models::from_ns(100);
  p.end = models::from_ns(600);
  timeline.on_event(p);
  p.start = models::from_ns(500);  // overlaps: a second row
  p.end = models::from_ns(1100);
  timeline.on_event(p);
  models::DmaLaneEvent lane{.queue = 5, .inst = &inst};
  lane.end = models::from_ns(100);
  lane.bytes = 2720;
  timeline.on_event(lane);
  timeline.on_end({models::from_ns(1100), true});
}

}  // namespace

TEST_CASE("slices, tracks and counters decode with Perfetto's field numbers") {
  std::string out, json;
  Timeline::Writers writers;
  writers.push_back(std::make_unique<PerfettoWriter>([&](std::string_view b) { out += b; }));
  writers.push_back(std::make_unique<ChromeWriter>([&](std::string_view b) { json += b; }));
  Timeline timeline(std::move(writers));
  play(timeline);

  auto [events, tracks] = decode(out);
  REQUIRE(events.size() == 6 + 2 + 1);  // three slices, two counter values, the interruption
  CHECK(events[0].name == "TENSOR_TENSOR");
  CHECK(events[0].time == 100);
  CHECK(events[1].time == 600);
  CHECK(tracks[events[0].track] == "Vector Engine - Row 0");
  CHECK(tracks[events[2].track] == "Vector Engine - Row 1");
  CHECK(tracks[events[4].track] == "DMA Engine 0 - Row 0");
  CHECK(tracks[events[6].track] == "DMA Throughput");
  CHECK(events[8].name.find("partial") != std::string::npos);
  CHECK(events[8].time == 1100);

  // The same as Chrome trace events, in microseconds.
  std::vector<nlohmann::json> slices;
  const auto document = nlohmann::json::parse(json);
  for (const auto& e : document.at("traceEvents")) {
    if (e.at("ph") == "X") slices.push_back(e);
  }
  REQUIRE(slices.size() == 3);
  CHECK(slices[0].at("name") == "TENSOR_TENSOR");
  CHECK(slices[0].at("ts") == Approx(0.1));
  CHECK(slices[0].at("dur") == Approx(0.5));
  CHECK(slices[0].at("tid") != slices[1].at("tid"));
  CHECK(slices[0].at("args").at("label") == "Vector");
}

namespace {

struct Argument {
  std::uint64_t key = 0, number = 0;
  std::string text;
};

// The arguments of each slice, whose texts are numbers of texts that came before or with them.
std::vector<std::vector<Argument>> arguments(std::string_view out) {
  std::vector<std::vector<Argument>> slices;
  std::map<std::uint64_t, std::string> texts;
  Reader{out}.each([&](auto, auto, auto packet) {
    std::vector<Argument> args;
    bool begins = false;
    Reader{packet}.each([&](auto f, auto, auto body) {
      if (f == 12) {  // interned data
        Reader{body}.each([&](auto g, auto, auto entry) {
          std::pair<std::uint64_t, std::string> found;
          Reader{entry}.each([&](auto h, auto i, auto t) {
            if (h == 1) found.first = i;
            if (h == 2) found.second = t;
          });
          if (g == 29) CHECK(texts.insert(found).second);
        });
      }
      if (f != 11) return;
      Reader{body}.each([&](auto g, auto i, auto t) {
        if (g == 9) begins = i == 1;
        if (g != 4) return;
        Argument arg;
        Reader{t}.each([&](auto h, auto n, auto) {
          if (h == 1) arg.key = n;
          if (h == 4) arg.number = n;
          if (h == 17) arg.text = std::to_string(n);
        });
        args.push_back(arg);
      });
    });
    for (Argument& arg : args) {
      if (!arg.text.empty()) arg.text = texts.at(std::stoull(arg.text));
    }
    if (begins) slices.push_back(args);
  });
  return slices;
}

std::string text_of(const std::vector<Argument>& args, ArgKey key) {
  for (const Argument& arg : args) {
    if (arg.key == static_cast<std::uint64_t>(key) + 1) return arg.text;
  }
  return "none";
}

}  // namespace

TEST_CASE("argument texts are written once, before or with their first use") {
  std::string out;
  Timeline::Writers writers;
  writers.push_back(std::make_unique<PerfettoWriter>([&](std::string_view b) { out += b; }));
  Timeline timeline(std::move(writers));
  play(timeline);
  const auto slices = arguments(out);
  REQUIRE(slices.size() == 3);
  for (const int i : {0, 1}) {
    CHECK(text_of(slices[i], ArgKey::kOpcode) == "TENSOR_TENSOR");
    CHECK(text_of(slices[i], ArgKey::kLabel) == "Vector");
    CHECK(text_of(slices[i], ArgKey::kSubgroup) == "Vector");  // the same text as the label
  }
  CHECK(slices[1][1].number == 600);   // ns
  CHECK(slices[2][0].number == 2720);  // bytes
}

TEST_CASE("numbers of any size and long texts keep their place in a packet") {
  std::string out;
  PerfettoWriter writer([&](std::string_view b) { out += b; });
  writer.begin();
  TimelineSlice slice{.name = "x", .start = 0, .end = 1'000'000};
  const std::string longest(300'000, 'y');
  slice.args[0] = {ArgKey::kElements, std::numeric_limits<std::int64_t>::max(), {}};
  slice.args[1] = {ArgKey::kId, -1, {}};
  slice.args[2] = {ArgKey::kOperands, 1, longest};
  slice.args[3] = {ArgKey::kSize, 1 << 14U, {}};
  slice.arg_count = 4;
  writer.slice(7, slice);
  writer.slice(7, slice);
  writer.end();
  const auto slices = arguments(out);
  REQUIRE(slices.size() == 2);
  for (const auto& args : slices) {
    REQUIRE(args.size() == 4);
    CHECK(args[0].number == std::uint64_t{0x7fffffffffffffff});
    CHECK(args[1].number == ~std::uint64_t{0});
    CHECK((args[2].text == longest));
    CHECK(args[3].number == 16384);
  }
  CHECK(out.size() < 301'000);
}
