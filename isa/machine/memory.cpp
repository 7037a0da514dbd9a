// Implements the simulated device's memories, and finds the bytes of an operand in them.

#include "isa/machine/memory.hpp"

#include <algorithm>
#include <cstring>

#include "isa/host/host.hpp"

namespace nkisim::isa {

SharedBytes::SharedBytes(std::span<const std::byte> bytes)
    : size_(static_cast<std::int64_t>(bytes.size())) {
  constexpr std::size_t kWorthwhile = 65536;
  if (bytes.size() >= kWorthwhile) file_ = host::memory_file(bytes);
  if (file_ < 0) copy_.assign(bytes.begin(), bytes.end());
}

SharedBytes::~SharedBytes() {
  if (file_ >= 0) host::close_memory_file(file_);
}

Region::Region(const SharedBytes& shared) : size_(shared.size()) {
  const auto bytes = static_cast<std::size_t>(size_);
  if (shared.file_ >= 0) {
    data_ = Pages(shared.file_, bytes);
    return;
  }
  data_ = Pages(bytes);
  if (size_ > 0) std::memcpy(data(), shared.copy_.data(), bytes);
}

Region::Region(std::int64_t bytes, bool filled)
    : size_(bytes), data_(static_cast<std::size_t>(bytes), filled) {}

std::unique_ptr<Region> Region::to_copy(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  const int file = host::memory_file(size);
  if (file < 0) return std::make_unique<Region>(bytes);
  Pages own = Pages::of_file(file, size);
  if (!own) {
    host::close_memory_file(file);
    return std::make_unique<Region>(bytes);
  }
  auto region = std::make_unique<Region>(0);
  region->size_ = bytes;
  region->file_ = file;
  region->data_ = std::move(own);
  return region;
}

Region::~Region() {
  if (file_ >= 0) host::close_memory_file(file_);
}

Pages Region::copy() const {
  if (file_ < 0) return {};
  const auto size = static_cast<std::size_t>(size_);
  host::leave_to_file(data_.data(), size);
  return {file_, size};
}

Region::Region(const Region& other, std::int64_t& copied)
    : size_(other.size_), data_(static_cast<std::size_t>(other.size_)) {
  copied += copy_nonzero(data_.data(), other.data_.data(), static_cast<std::size_t>(size_));
  if (!other.foreign_) return;
  const std::size_t words = static_cast<std::size_t>(size_) / 64 + 1;
  foreign_ = ZeroedArray<std::uint64_t>(words);
  copied += copy_nonzero(foreign_.get(), other.foreign_.get(), words * sizeof(std::uint64_t));
}

Region::Region(const Region& other, std::int64_t rows, std::int64_t pitch)
    : Region(rows * pitch, true) {
  const std::int64_t before = other.size_ / rows;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::memcpy(data() + r * pitch, other.data() + r * before, static_cast<std::size_t>(before));
    for (std::int64_t b = 0; b < before && other.foreign_; ++b) {
      if (other.find_foreign(r * before + b, 1) >= 0) mark_foreign(r * pitch + b, 1, true);
    }
  }
}

void Region::mark_foreign(std::int64_t first, std::int64_t count, bool foreign) {
  if (!foreign_) {
    if (!foreign) return;
    foreign_ = ZeroedArray<std::uint64_t>(static_cast<std::size_t>(size_) / 64 + 1);
  }
  set_bits(foreign_.get(), first, count, foreign);
}

std::int64_t Region::find_foreign(std::int64_t first, std::int64_t count) const {
  return !foreign_ ? -1 : find_bit(foreign_.get(), first, count, true);
}

const std::vector<std::uint32_t> Memory::kNone;

namespace {

// The bytes from one partition to the next where a program uses `used` of each. Were they a
// multiple of a large power of two, the rows of a tile would compete for a few sets of the host's
// caches: an odd number of lines, and of large partitions half a page more.
std::int64_t pitch_for(std::int64_t used) {
  constexpr std::int64_t kLine = 64, kPage = 4096;
  if (used < kPage) return ((used + kLine - 1) / kLine | 1) * kLine;
  return (used + kPage - 1) / kPage * kPage + kPage / 2 + kLine;
}

}  // namespace

Memory::Memory(const Program& program) : program_(program) {
  tensors_.resize(program.tensors().size());
}

// Makes SBUF and PSUM as large as the tensors of now need, and keeps what they hold.
void Memory::size_on_chip() {
  sized_for_ = program_.tensors().size();
  std::int64_t sbuf = 0, psum = 0;  // what the program uses of a partition, which it will fill
  for (const Tensor& t : program_.tensors()) {
    if (t.space == Space::kSbuf) sbuf = std::max(sbuf, t.address + t.extent_bytes());
    if (t.space == Space::kPsum) psum = std::max(psum, t.address + t.extent_bytes());
  }
  const auto cores = static_cast<std::size_t>(program_.cores());
  for (auto& [regions, used] : {std::pair{&sbuf_, sbuf}, std::pair{&psum_, psum}}) {
    const std::int64_t pitch = pitch_for(used);
    regions->resize(cores);
    for (std::unique_ptr<Region>& region : *regions) {
      if (region == nullptr) {
        region = std::make_unique<Region>(pitch * kPartitions, true);
      } else if (region->size() < pitch * kPartitions) {
        region = std::make_unique<Region>(*region, kPartitions, pitch);
      }
    }
  }
}

std::unique_ptr<Memory> Memory::copy(const std::vector<bool>& written) const {
  auto made = std::make_unique<Memory>(program_);
  made->limit_ = limit_;
  made->taken_ = taken_;
  made->sharing_ = sharing_;
  made->uses_left_ = uses_left_;
  made->kept_ = kept_;
  made->origins_ = origins_;
  std::int64_t& copied = made->copied_;
  for (std::size_t id = 0; id < tensors_.size(); ++id) {
    if (tensors_[id] == nullptr) continue;
    made->tensors_[id] =
        written.at(id) ? std::make_shared<Region>(*tensors_[id], copied) : tensors_[id];
  }
  made->sized_for_ = sized_for_;
  for (std::size_t core = 0; core < sbuf_.size(); ++core) {
    made->sbuf_.push_back(std::make_unique<Region>(*sbuf_[core], copied));
    made->psum_.push_back(std::make_unique<Region>(*psum_[core], copied));
  }
  made->bits_.resize(bits_.size());
  for (std::size_t id = 0; id < bits_.size(); ++id) {
    if (bits_[id] != nullptr) made->bits_[id] = std::make_unique<Definedness>(*bits_[id], copied);
  }
  return made;
}

Region& Memory::tensor_region(std::uint32_t tensor) {
  if (tensor >= tensors_.size()) tensors_.resize(program_.tensors().size());
  std::shared_ptr<Region>& region = tensors_[tensor];
  if (region == nullptr) {
    const Tensor& t = program_.tensor(tensor);
    const std::int64_t bytes = t.elements() * size_bytes(t.dtype);
    require_memory(bytes, "tensor " + t.name);
    constexpr std::int64_t kWorthFile = std::int64_t{8} << 20U;
    const bool output = t.role == TensorRole::kOutput || t.role == TensorRole::kInputOutput;
    const bool to_copy = copies_outputs_ && output && bytes >= kWorthFile;
    region = to_copy ? Region::to_copy(bytes)
                     : std::make_unique<Region>(bytes, t.role != TensorRole::kInternal);
    taken_ += bytes;
  }
  return *region;
}

void Memory::require_memory(std::int64_t bytes, const std::string& what) const {
  if (bytes <= limit_ - taken_) return;
  fail(Rule::memory_limit, "the memory that the run needs for " + what,
       std::to_string(bytes) + " bytes next to the " + std::to_string(taken_) + " of other tensors",
       "at most " + std::to_string(limit_) + " bytes together (--max-memory)");
}

Definedness& Memory::bits(std::uint32_t tensor) {
  if (tensor >= bits_.size()) bits_.resize(program_.tensors().size());
  std::unique_ptr<Definedness>& bits = bits_[tensor];
  if (bits == nullptr) {
    const Tensor& t = program_.tensor(tensor);
    bits = std::make_unique<Definedness>(t.elements() * size_bytes(t.dtype));
  }
  return *bits;
}

Placement Memory::place(const TensorRef& ref) {
  if (ref.space == Space::kHbm) {
    return {&tensor_region(ref.tensor), ref.offset, 0, &bits(ref.tensor)};
  }
  const Tensor& t = program_.tensor(ref);
  const std::int64_t extent = t.extent_bytes();
  if (program_.virtual_addresses()) {
    return {&tensor_region(ref.tensor), (ref.partition - t.partition) * extent + ref.offset, extent,
            &bits(ref.tensor)};
  }
  if (sized_for_ != program_.tensors().size()) size_on_chip();
  Region& region = *(ref.space == Space::kSbuf ? sbuf_ : psum_).at(t.core);
  const std::int64_t pitch = region.size() / kPartitions;
  if (t.address + extent > pitch) {
    fail(Rule::internal_error,
         "internal error: tensor " + t.name + " has moved since the memory was made");
  }
  const std::int64_t row = ref.partition * pitch + t.address;
  return {&region,
          row + ref.offset,
          pitch,
          &bits(ref.tensor),
          (ref.partition - t.partition) * extent - row,
          extent - pitch};
}

Region& Memory::hbm(std::uint32_t tensor) { return tensor_region(tensor); }

void Memory::require_size(std::uint32_t tensor, std::int64_t bytes) const {
  const Tensor& t = program_.tensor(tensor);
  const std::int64_t wanted = t.elements() * size_bytes(t.dtype);
  if (bytes == wanted && t.space == Space::kHbm) return;
  fail(Rule::data_size, "data for tensor " + t.name, std::to_string(bytes) + " bytes",
       std::to_string(wanted) + " bytes in HBM");
}

void Memory::load(std::uint32_t tensor, std::span<const std::byte> bytes) {
  require_size(tensor, static_cast<std::int64_t>(bytes.size()));
  Region& region = tensor_region(tensor);
  std::memcpy(region.data(), bytes.data(), bytes.size());
  bits(tensor).define(0, region.size());
}

void Memory::load(std::uint32_t tensor, const SharedBytes& bytes) {
  require_size(tensor, bytes.size());
  if (tensor >= tensors_.size()) tensors_.resize(program_.tensors().size());
  if (tensors_[tensor] == nullptr) taken_ += bytes.size();
  tensors_[tensor] = std::make_shared<Region>(bytes);
  bits(tensor).define(0, bytes.size());
}

std::vector<std::byte> Memory::read(std::uint32_t tensor) {
  const Tensor& t = program_.tensor(tensor);
  std::vector<std::byte> out(static_cast<std::size_t>(t.elements() * size_bytes(t.dtype)));
  read(tensor, out);
  return out;
}

Pages Memory::copy(std::uint32_t tensor) const {
  if (tensor >= tensors_.size() || tensors_[tensor] == nullptr) return {};
  return program_.tensor(tensor).space == Space::kHbm ? tensors_[tensor]->copy() : Pages();
}

void Memory::release(std::uint32_t tensor) {
  if (tensor < bits_.size()) bits_[tensor].reset();
  if (tensor >= tensors_.size() || tensors_[tensor] == nullptr) return;
  taken_ -= tensors_[tensor]->size();
  tensors_[tensor].reset();
}

namespace {

// Calls fn(row's bytes, row, bytes per row) for every row of the whole tensor.
template <typename Fn>
void each_row(Memory& memory, const Tensor& t, std::uint32_t tensor, Fn&& fn) {
  TensorRef ref{.tensor = tensor, .partition = t.partition, .space = t.space, .dtype = t.dtype};
  const Placement p = memory.place(ref);
  const std::int64_t rows = t.space == Space::kHbm ? 1 : t.shape[0];
  for (std::int64_t r = 0; r < rows; ++r) {
    fn(p.region->data() + p.start + r * p.pitch, r, t.extent_bytes());
  }
}

}  // namespace

void Memory::read(std::uint32_t tensor, std::span<std::byte> out) {
  each_row(*this, program_.tensor(tensor), tensor,
           [&](const std::byte* row, std::int64_t r, std::int64_t bytes) {
             std::memcpy(out.data() + r * bytes, row, static_cast<std::size_t>(bytes));
           });
}

void Memory::write(std::uint32_t tensor, std::span<const std::byte> in) {
  each_row(*this, program_.tensor(tensor), tensor,
           [&](std::byte* row, std::int64_t r, std::int64_t bytes) {
             std::memcpy(row, in.data() + r * bytes, static_cast<std::size_t>(bytes));
           });
  bits(tensor).define(0, static_cast<std::int64_t>(in.size()));
}

}  // namespace nkisim::isa
