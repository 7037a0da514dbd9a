// What torch asks of the device "neuron" in C++ alone: a guard that can wait for the device, and an
// allocator that knows what is on it. Compiled once per version of torch by torch_native.py, with
// torch's own headers.

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::Stream;

constexpr DeviceType kType = DeviceType::PrivateUse1;

/// Bytes of the tensors on the device; asked of Python, which has them.
using Allocated = std::int64_t (*)();

/// One device with one stream, on which everything has run when its call returns.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  DeviceType type() const override { return kType; }
  Device exchangeDevice(Device /*device*/) const override { return {kType, 0}; }
  Device getDevice() const override { return {kType, 0}; }
  void setDevice(Device /*device*/) const override {}
  void uncheckedSetDevice(Device /*device*/) const noexcept override {}
  Stream getStream(Device /*device*/) const override { return stream(); }
  Stream getDefaultStream(Device /*device*/) const override { return stream(); }
  Stream getNewStream(Device /*device*/, int /*priority*/) const override { return stream(); }
  Stream exchangeStream(Stream /*stream*/) const override { return stream(); }
  void record(void** /*event*/, const Stream& /*stream*/, DeviceIndex /*device*/,
              c10::EventFlag /*flag*/) const override {}
  void block(void* /*event*/, const Stream& /*stream*/) const override {}
  bool queryEvent(void* /*event*/) const override { return true; }
  DeviceIndex deviceCount() const noexcept override { return 1; }
  bool queryStream(const Stream& /*stream*/) const override { return true; }
  void synchronizeStream(const Stream& /*stream*/) const override {}
  void synchronizeEvent(void* /*event*/) const override {}
  void synchronizeDevice(DeviceIndex /*device*/) const override {}
  void recordDataPtrOnStream(const c10::DataPtr& /*data*/,
                             const Stream& /*stream*/) const override {}

 private:
  static Stream stream() { return Stream(Stream::DEFAULT, Device(kType, 0)); }
};

/// Says how much is on the device. It gives no memory: tensors on the device wrap tensors of the
/// host.
class Allocator final : public c10::DeviceAllocator {
 public:
  explicit Allocator(Allocated allocated) : allocated_(allocated) {}

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
    const std::int64_t now = allocated_();
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

 private:
  Allocated allocated_;
  std::int64_t peak_ = 0;
};

}  // namespace

/// Gives torch the two; they live as long as the process.
extern "C" __attribute__((visibility("default"))) void nkisim_register(Allocated allocated) {
  static const Guard guard;
  static Allocator allocator(allocated);
  c10::impl::DeviceGuardImplRegistrar(kType, &guard);
  c10::SetAllocator(kType, &allocator, 1);
}
