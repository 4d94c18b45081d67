// The opaque objects of the stand-in: a handle, and three kinds of attribute lists.
#pragma once

#include "tests/cuda_machine/cublaslt/api.h"

#include <cstring>
#include <span>
#include <string>

namespace tcc::lt {

/// One attribute: its number, its size in bytes and the value it has before it is set.
struct AttributeRule {
  int attribute;
  std::size_t bytes;
  std::int64_t initial;
};

/// Values of attributes; what a value means is checked where a matmul is, as the real library does.
class Attributes {
public:
  explicit Attributes(std::span<const AttributeRule> rules);
  Status set(int attribute, const void *value, std::size_t bytes);
  Status get(int attribute, void *value, std::size_t bytes, std::size_t *written) const;
  bool isInitial(int attribute) const;

  template <class T>
  T value(int attribute) const {
    T result;
    std::memcpy(&result, values[attribute], sizeof result);
    return result;
  }
  template <class T>
  void assign(int attribute, T value) {
    std::memcpy(values[attribute], &value, sizeof value);
  }

private:
  const AttributeRule *find(int attribute) const;
  std::span<const AttributeRule> rules;
  unsigned char values[40][8] = {};
};

/// What the caller's pointers point to; `kind` tells a destroyed or foreign object from a live one.
struct Object {
  std::uint32_t kind;
};
struct HandleObject : Object {
  static constexpr std::uint32_t kindOf = 0x6c744831;
};
struct DescObject : Object, Attributes {
  static constexpr std::uint32_t kindOf = 0x6c744432;
  DescObject();
};
struct LayoutObject : Object, Attributes {
  static constexpr std::uint32_t kindOf = 0x6c744c33;
  LayoutObject();
};
struct PreferenceObject : Object, Attributes {
  static constexpr std::uint32_t kindOf = 0x6c745034;
  PreferenceObject();
};

template <class T>
bool isLive(const T *object) {
  return object && object->kind == T::kindOf;
}

/// Keeps `reason` for tccCublasLtReason() and returns `status`.
Status refuse(Status status, std::string reason);
/// Begins a call: forgets the last reason, and returns the failure that was asked for, else success.
Status begin(const char *function);

} // namespace tcc::lt
