// Compares the speed of our readers and writers of files with that of libraries (bench/README.md).
#include <minizip/unzip.h>
#include <minizip/zip.h>
#include <zip.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "src/files/npy.hpp"
#include "src/files/zip_file.hpp"
#include "src/trace/json_line.hpp"

// libsystemc asks for it.
extern "C" int sc_main(int, char*[]) { return 0; }

namespace {

constexpr int kRepeat = 5;

struct Candidate {
  const char* name;
  std::function<std::size_t()> work;  // says how much it found, which must be the same for all
};

/// Alternates, so that a busy moment of the machine hits all; prints the best of each.
bool compare(const char* what, const std::vector<Candidate>& candidates) {
  std::vector<double> best(candidates.size(), 1e9);
  std::vector<std::size_t> found(candidates.size());
  for (int repeat = 0; repeat < kRepeat; ++repeat) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const std::clock_t start = std::clock();
      found[i] = candidates[i].work();
      best[i] = std::min(best[i], static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    }
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    std::printf("%-10s %-34s %8.1f ms\n", what, candidates[i].name, best[i] * 1e3);
    if (found[i] == found[0]) continue;
    std::printf("%s finds %zu, not %zu\n", candidates[i].name, found[i], found[0]);
    return false;
  }
  return true;
}

/// Counts values: the least that a builder on nlohmann's events would do.
class Counter : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return one(); }
  bool boolean(bool) override { return one(); }
  bool number_integer(number_integer_t) override { return one(); }
  bool number_unsigned(number_unsigned_t) override { return one(); }
  bool number_float(number_float_t, const string_t&) override { return one(); }
  bool string(string_t&) override { return one(); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return one(); }
  bool start_array(std::size_t) override { return one(); }
  bool end_object() override { return true; }
  bool end_array() override { return true; }
  bool key(string_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }
  std::size_t values = 0;

 private:
  bool one() {
    ++values;
    return true;
  }
};

bool compare_json(const std::string& trace) {
  std::vector<std::string> lines;
  std::ifstream in(trace);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return compare("JSON lines", {{"JsonLine on simdjson, checked",
                                 [&] {
                                   nkisim::JsonLine json;
                                   std::size_t values = 0;
                                   for (const std::string& line : lines) {
                                     (void)json.parse(line);
                                     values += json.nodes().size();
                                   }
                                   return values;
                                 }},
                                {"nlohmann_json's events alone", [&] {
                                   Counter counter;
                                   for (const std::string& line : lines) {
                                     nlohmann::json::sax_parse(line, &counter);
                                   }
                                   return counter.values;
                                 }}});
}

std::size_t read_ours(const std::string& path) {
  nkisim::ZipReader zip(path);
  std::size_t bytes = 0;
  for (const auto& member : zip.members()) bytes += zip.read(member).size();
  return bytes;
}

std::size_t read_libzip(const std::string& path) {
  zip_t* zip = zip_open(path.c_str(), ZIP_RDONLY, nullptr);
  std::size_t bytes = 0;
  for (zip_int64_t i = 0; i < zip_get_num_entries(zip, 0); ++i) {
    zip_stat_t about;
    zip_stat_index(zip, static_cast<zip_uint64_t>(i), 0, &about);
    std::string out(about.size + 1, '\0');  // the checksum is compared past the last byte
    zip_file_t* file = zip_fopen_index(zip, static_cast<zip_uint64_t>(i), 0);
    zip_int64_t got = 0;
    for (std::size_t at = 0; (got = zip_fread(file, out.data() + at, out.size() - at)) > 0;) {
      at += static_cast<std::size_t>(got);
      bytes += static_cast<std::size_t>(got);
    }
    zip_fclose(file);
  }
  zip_discard(zip);
  return bytes;
}

std::size_t read_minizip(const std::string& path) {
  unzFile zip = unzOpen64(path.c_str());
  std::size_t bytes = 0;
  for (int status = unzGoToFirstFile(zip); status == UNZ_OK; status = unzGoToNextFile(zip)) {
    unz_file_info64 about{};
    unzGetCurrentFileInfo64(zip, &about, nullptr, 0, nullptr, 0, nullptr, 0);
    std::string out(about.uncompressed_size, '\0');
    unzOpenCurrentFile(zip);
    const int got = unzReadCurrentFile(zip, out.data(), static_cast<unsigned>(out.size()));
    if (unzCloseCurrentFile(zip) == UNZ_OK) bytes += static_cast<std::size_t>(got);
  }
  unzClose(zip);
  return bytes;
}

using Arrays = std::vector<std::pair<std::string, nkisim::NpyArray>>;

std::size_t write_libzip(const std::string& path, const Arrays& arrays) {
  zip_t* zip = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  std::vector<std::string> members;
  members.reserve(arrays.size());  // all are read when the archive is closed
  for (const auto& [name, array] : arrays) {
    const std::string& bytes = members.emplace_back(nkisim::format_npy(array));
    zip_source_t* source = zip_source_buffer(zip, bytes.data(), bytes.size(), 0);
    const auto i = static_cast<zip_uint64_t>(
        zip_file_add(zip, (name + ".npy").c_str(), source, ZIP_FL_OVERWRITE));
    zip_set_file_compression(zip, i, ZIP_CM_STORE, 0);
    zip_file_set_dostime(zip, i, 0, 0x21, 0);
  }
  return zip_close(zip) == 0 ? arrays.size() : 0;
}

std::size_t write_minizip(const std::string& path, const Arrays& arrays) {
  zipFile zip = zipOpen64(path.c_str(), APPEND_STATUS_CREATE);
  std::size_t written = 0;
  for (const auto& [name, array] : arrays) {
    const std::string bytes = nkisim::format_npy(array);
    const zip_fileinfo about{};
    zipOpenNewFileInZip64(zip, (name + ".npy").c_str(), &about, nullptr, 0, nullptr, 0, nullptr, 0,
                          0, 0);
    zipWriteInFileInZip(zip, bytes.data(), static_cast<unsigned>(bytes.size()));
    if (zipCloseFileInZip(zip) == ZIP_OK) ++written;
  }
  zipClose(zip, nullptr);
  return written;
}

bool compare_zip(const char* what, const std::string& path) {
  return compare(what, {{"ZipReader", [&] { return read_ours(path); }},
                        {"libzip", [&] { return read_libzip(path); }},
                        {"minizip", [&] { return read_minizip(path); }}});
}

int run(const std::string& trace, const std::string& stored, const std::string& deflated) {
  const auto read = nkisim::read_npz(stored);
  const Arrays arrays(read.begin(), read.end());
  const std::string out = stored + ".written";
  const bool same = compare_json(trace) && compare_zip("stored", stored) &&
                    compare_zip("deflated", deflated) &&
                    compare("write", {{"ZipWriter",
                                       [&] {
                                         nkisim::write_npz(out, arrays);
                                         return arrays.size();
                                       }},
                                      {"libzip", [&] { return write_libzip(out, arrays); }},
                                      {"minizip", [&] { return write_minizip(out, arrays); }}});
  (void)std::remove(out.c_str());
  return same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: nkisim_libraries TRACE.jsonl STORED.npz DEFLATED.npz\n", stderr);
    return 2;
  }
  try {
    return run(argv[1], argv[2], argv[3]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 3;
  }
}
