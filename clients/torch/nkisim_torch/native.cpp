// The C++ part of torch's device "neuron": a guard that can wait for the device, and an allocator
// that knows what is on it. Compiled once per version of torch by torch_native.py, with torch's own
// headers.

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::Stream;

constexpr DeviceType kType = DeviceType::PrivateUse1;

/// Functions of Python: bytes of the tensors on the device, bytes of its memory, and the
/// nanoseconds that kernels have taken on it so far.
struct MemoryCallbacks {
  std::int64_t (*allocated)();
  std::int64_t (*memory)();
  double (*elapsed_ns)();
};

/// One device with one stream, on which everything has run when its call returns.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  explicit Guard(const MemoryCallbacks& callbacks) : callbacks_(callbacks) {}

  DeviceType type() const override { return kType; }
  Device exchangeDevice(Device /*device*/) const override { return {kType, 0}; }
  Device getDevice() const override { return {kType, 0}; }
  void setDevice(Device /*device*/) const override {}
  void uncheckedSetDevice(Device /*device*/) const noexcept override {}
  Stream getStream(Device /*device*/) const override { return stream(); }
  Stream getDefaultStream(Device /*device*/) const override { return stream(); }
  Stream getNewStream(Device /*device*/, int /*priority*/) const override { return stream(); }
  Stream exchangeStream(Stream /*stream*/) const override { return stream(); }
  void record(void** event, const Stream& /*stream*/, DeviceIndex /*device*/,
              c10::EventFlag /*flag*/) const override {
    if (*event == nullptr) *event = new double;
    *static_cast<double*>(*event) = callbacks_.elapsed_ns();
  }
  void destroyEvent(void* event, DeviceIndex /*device*/) const noexcept override {
    delete static_cast<double*>(event);
  }
  void block(void* /*event*/, const Stream& /*stream*/) const override {}
  bool queryEvent(void* /*event*/) const override { return true; }
  DeviceIndex deviceCount() const noexcept override { return 1; }
  bool queryStream(const Stream& /*stream*/) const override { return true; }
  double elapsedTime(void* first, void* second, DeviceIndex /*device*/) const override {
    return (*static_cast<double*>(second) - *static_cast<double*>(first)) / 1e6;  // ms
  }
#ifdef NKISIM_TORCH_CAPABILITY
  c10::DeviceCapability getDeviceCapability(Device /*device*/) const override {
    return {};  // tensors on the device are the host's, which has every type
  }
#endif
  void synchronizeStream(const Stream& /*stream*/) const override {}
  void synchronizeEvent(void* /*event*/) const override {}
  void synchronizeDevice(DeviceIndex /*device*/) const override {}
  void recordDataPtrOnStream(const c10::DataPtr& /*data*/,
                             const Stream& /*stream*/) const override {}

 private:
  MemoryCallbacks callbacks_;

  static Stream stream() { return Stream(Stream::DEFAULT, Device(kType, 0)); }
};

/// Says how much is on the device. It gives no memory: tensors on the device wrap tensors of the
/// host.
class Allocator final : public c10::DeviceAllocator {
 public:
  explicit Allocator(const MemoryCallbacks& callbacks) : callbacks_(callbacks) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    TORCH_CHECK(bytes == 0, "tensors on the device \"neuron\" have memory of the host");
    return {nullptr, Device(kType, 0)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {}
  void recordStream(const c10::DataPtr& /*data*/, Stream /*stream*/) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex /*device*/) override {
    const std::int64_t now = callbacks_.allocated();
    peak_ = std::max(peak_, now);
    c10::CachingDeviceAllocator::DeviceStats stats;
    for (auto* each : {&stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes,
                       &stats.requested_bytes}) {
      (*each)[0].current = now;
      (*each)[0].peak = peak_;
    }
    return stats;
  }
  void resetAccumulatedStats(DeviceIndex /*device*/) override {}
  void resetPeakStats(DeviceIndex /*device*/) override { peak_ = 0; }
#ifdef NKISIM_TORCH_MEMORY_INFO
  std::pair<std::size_t, std::size_t> getMemoryInfo(DeviceIndex /*device*/) override {
    const std::int64_t memory = callbacks_.memory();
    const std::int64_t free = std::max<std::int64_t>(0, memory - callbacks_.allocated());
    return {static_cast<std::size_t>(free), static_cast<std::size_t>(memory)};
  }
#endif

 private:
  MemoryCallbacks callbacks_;
  std::int64_t peak_ = 0;
};

}  // namespace

/// Gives torch the two; they live as long as the process.
extern "C" __attribute__((visibility("default"))) void nkisim_register(
    const MemoryCallbacks* callbacks) {
  static const Guard guard(*callbacks);
  static Allocator allocator(*callbacks);
  c10::impl::DeviceGuardImplRegistrar(kType, &guard);
  c10::SetAllocator(kType, &allocator, 1);
}
