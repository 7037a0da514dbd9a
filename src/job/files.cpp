// Reads and writes the files of a simulation run: inputs, outputs and texts.
#include "src/files/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/job/runner.hpp"

namespace nkisim {
namespace {
namespace of_files {

constexpr std::string_view kRank = "{rank}";

bool is_input(isa::TensorRole role) {
  return role != isa::TensorRole::kInternal && role != isa::TensorRole::kOutput;
}

// An array straight into a tensor, where it is of its type and shape.
bool load_mapped(const isa::Tensor& tensor, std::uint32_t id, const MappedNpy& array,
                 isa::Memory& memory) {
  if (!holds(array.header(), tensor.dtype) || array.header().shape != tensor.shape) return false;
  memory.load(id, array.bytes());
  return true;
}

// Replaces the bytes of a plain file of ours in place, or makes it: no link is followed.
void overwrite(const std::string& path, std::string_view head, std::span<const std::byte> body) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  struct stat s {};
  const bool ours = file >= 0 && ::fstat(file, &s) == 0 && S_ISREG(s.st_mode) && s.st_nlink == 1;
  bool good = ours;
  off_t at = 0;
  const auto put = [&](const char* data, std::size_t size) {
    while (good && size > 0) {
      const ssize_t n = ::pwrite(file, data, size, at);
      good = n > 0;
      if (!good) break;
      at += n;
      data += n;
      size -= static_cast<std::size_t>(n);
    }
  };
  put(head.data(), head.size());
  put(reinterpret_cast<const char*>(body.data()), body.size());
  good = good && ::ftruncate(file, at) == 0;
  if (file >= 0) ::close(file);
  if (!good) isa::fail(isa::Rule::file_unwritable, path + " cannot be written");
}

}  // namespace of_files
}  // namespace

std::string for_rank(std::string name, std::size_t rank) {
  for (std::size_t at = name.find(of_files::kRank); at != std::string::npos;
       at = name.find(of_files::kRank)) {
    name.replace(at, of_files::kRank.size(), std::to_string(rank));
  }
  return name;
}

bool inputs_differ(const Job& job, const TraceFile& trace) {
  bool differs = job.inputs.find(of_files::kRank) != std::string::npos;
  for (const DataSource& source : trace.data) differs = differs || differs_by_rank(source);
  return differs;
}

void load_inputs(const Job& job, const TraceFile& trace, const HostArrays* arrays,
                 const std::vector<std::unique_ptr<isa::Memory>>& memories) {
  const isa::Program& program = *trace.program;
  LoadOptions options{.folder = trace.folder};
  if (arrays != nullptr) options.inputs = arrays->inputs;
  for (const std::string& root : job.roots) options.roots.emplace_back(root);
  for (std::uint32_t id = 0; id < program.tensors().size() && !job.arrays.empty(); ++id) {
    const isa::Tensor& t = program.tensor(id);
    const DataSource& source = trace.source(id);
    const auto found = job.arrays.find(source.kind == DataSource::Kind::kNpz ? source.key : t.name);
    if (found == job.arrays.end() || !of_files::is_input(t.role)) continue;
    const MappedNpy array(found->second);
    bool loaded = true;
    for (const auto& memory : memories) {
      loaded = loaded && of_files::load_mapped(t, id, array, *memory);
    }
    if (loaded)
      options.done.insert(t.name);
    else
      options.inputs.emplace(t.name, read_npy(found->second, npy_bytes(t.elements(), t.dtype)));
  }
  const auto archive = [&](std::size_t rank) {
    for (auto& [name, array] : read_npz(for_rank(job.inputs, rank), input_size_limit(program))) {
      options.inputs.insert_or_assign(name, array);
    }
  };
  const bool each = job.inputs.find(of_files::kRank) != std::string::npos;
  if (!job.inputs.empty() && !each) archive(0);
  if (!each && memories.size() > 1) {
    load_ranks(program, trace.data, memories, options);
    return;
  }
  for (std::size_t r = 0; r < memories.size(); ++r) {
    options.rank = static_cast<int>(r);
    if (each) archive(r);
    load_inputs(program, trace.data, *memories[r], options);
  }
}

void write_text(const std::string& name, const std::string& bytes) {
  AtomicFile file(name);
  file.write(bytes);
  file.commit();
}

std::vector<std::pair<std::string, std::string>> write_outputs(const Job& job,
                                                               const isa::Program& program,
                                                               isa::Memory& memory,
                                                               std::size_t rank) {
  if (!job.outputs.empty()) {
    write_npz(for_rank(job.outputs, rank), output_arrays(program, memory));
  }
  std::vector<std::pair<std::string, std::string>> files;
  if (job.output_arrays.empty()) return files;
  for (std::uint32_t id = 0; id < program.tensors().size(); ++id) {
    const isa::Tensor& t = program.tensor(id);
    if (!is_output(t)) continue;
    const std::string path =
        for_rank(job.output_arrays, rank) + "." + std::to_string(files.size()) + ".npy";
    const isa::Region& region = memory.hbm(id);
    const NpyArray shape = make_array(t.dtype, t.shape, {});
    of_files::overwrite(path, npy_header(shape),
                        {region.data(), static_cast<std::size_t>(region.size())});
    files.emplace_back(t.name, path);
  }
  return files;
}

}  // namespace nkisim
