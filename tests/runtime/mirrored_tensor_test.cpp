// A tensor with two copies: what is copied and when, what is refused, what is left when a device is lost.
#include "remote_device.h"
#include "runtime/device/mirrored_tensor.h"
#include <cmath>
#include <gtest/gtest.h>

namespace tcc::runtime {
namespace {

using test::RemoteDevice;

MirroredTensor tensorOf(std::initializer_list<float> values) {
  TensorStorage storage = *TensorStorage::allocate(static_cast<int64_t>(values.size() * 4));
  std::copy(values.begin(), values.end(), storage.as<float>().begin());
  return MirroredTensor(std::move(storage));
}

float first(MirroredTensor &tensor) {
  return *static_cast<const float *>(*tensor.read());
}

TEST(MirroredTensor, NothingIsCopiedTwice) {
  auto device = std::make_shared<RemoteDevice>();
  MirroredTensor tensor = tensorOf({1, 2});
  char *there = *tensor.onDevice(device);
  EXPECT_EQ(device->bytesIn, 8);
  EXPECT_EQ(*tensor.onDevice(device), there);
  EXPECT_EQ(first(tensor), 1); // the host's copy is as new
  EXPECT_EQ(device->bytesIn, 8);
  EXPECT_EQ(device->bytesOut, 0);
  reinterpret_cast<float *>(there)[0] = 5;
  tensor.deviceWrote(false);
  EXPECT_EQ(first(tensor), 5);
  EXPECT_EQ(first(tensor), 5);
  EXPECT_EQ(device->bytesOut, 8);
  EXPECT_EQ(*tensor.onDevice(device), there); // a const read leaves the device's copy as it is
  EXPECT_EQ(device->bytesIn, 8);
}

TEST(MirroredTensor, WhatTheHostWritesReachesTheDevice) {
  auto device = std::make_shared<RemoteDevice>();
  MirroredTensor tensor = tensorOf({1, 2});
  char *there = *tensor.onDevice(device);
  reinterpret_cast<float *>(there)[1] = 7;
  tensor.deviceWrote(false);
  auto *values = static_cast<float *>(*tensor.write()); // with the device's newer values
  EXPECT_EQ(values[1], 7);
  values[0] = 3;
  there = *tensor.onDevice(device);
  EXPECT_EQ(reinterpret_cast<float *>(there)[0], 3);
  EXPECT_EQ(reinterpret_cast<float *>(there)[1], 7);
}

TEST(MirroredTensor, ASpanKeptTooLongIsNan) {
  auto device = std::make_shared<RemoteDevice>();
  MirroredTensor tensor = tensorOf({1});
  const auto *kept = static_cast<const float *>(*tensor.read());
  ASSERT_TRUE(tensor.onDevice(device));
  tensor.deviceWrote(true);
  EXPECT_TRUE(std::isnan(*kept));
  EXPECT_EQ(first(tensor), 1);
}

TEST(MirroredTensor, GoesFromDeviceToDevice) {
  auto one = std::make_shared<RemoteDevice>(), other = std::make_shared<RemoteDevice>();
  MirroredTensor tensor = tensorOf({1});
  *reinterpret_cast<float *>(*tensor.onDevice(one)) = 2;
  tensor.deviceWrote(false);
  char *there = *tensor.onDevice(other);
  EXPECT_EQ(*reinterpret_cast<float *>(there), 2);
  EXPECT_EQ(one->bytesOut, 4);
  EXPECT_EQ(one->allocatedBytes(), 0);
  *reinterpret_cast<float *>(there) = 4;
  tensor.deviceWrote(false);
  EXPECT_EQ(first(tensor), 4);
}

TEST(MirroredTensor, ALostDeviceIsAnErrorUntilTheOlderCopyIsTaken) {
  auto device = std::make_shared<RemoteDevice>();
  MirroredTensor tensor = tensorOf({1}), same = tensorOf({6});
  ASSERT_TRUE(tensor.onDevice(device));
  ASSERT_TRUE(same.onDevice(device));
  tensor.deviceWrote(false);
  device->lost = "remote is closed";
  EXPECT_EQ(first(same), 6); // nothing newer was there
  EXPECT_EQ(tensor.read().error().message(), "remote is closed");
  EXPECT_EQ(tensor.write().error().message(), "remote is closed");
  auto other = std::make_shared<RemoteDevice>();
  EXPECT_EQ(tensor.onDevice(other).error().message(), "remote is closed");
  tensor.fallBack();
  EXPECT_EQ(first(tensor), 1);
  EXPECT_EQ(*reinterpret_cast<float *>(*tensor.onDevice(other)), 1);
}

TEST(MirroredTensor, AnOutputArrivesWhenItIsRead) {
  struct Outputs : StepOutputs {
    int reads = 0;
    Error problem;
    Error read(size_t index, void *to, int64_t bytes) override {
      ++reads;
      EXPECT_EQ(bytes, 4);
      *static_cast<float *>(to) = static_cast<float>(index);
      return problem;
    }
  };
  auto outputs = std::make_shared<Outputs>();
  const int64_t live = countedLiveBytes();
  MirroredTensor tensor(outputs, 3, 4);
  EXPECT_EQ(countedLiveBytes(), live);
  outputs->problem = Error("not there");
  EXPECT_TRUE(tensor.read().error());
  outputs->problem = {};
  EXPECT_EQ(first(tensor), 3);
  EXPECT_EQ(first(tensor), 3);
  EXPECT_EQ(outputs->reads, 2);
  EXPECT_EQ(outputs.use_count(), 1) << "what is no longer needed is given back";
  auto device = std::make_shared<RemoteDevice>();
  EXPECT_EQ(*reinterpret_cast<float *>(*tensor.onDevice(device)), 3);
}

} // namespace
} // namespace tcc::runtime
