// Handles of Python objects, over the part of CPython's interface that stays the same from version 3.11 on.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tcc::python {

/// A Python error is set; the function that Python called gives null.
struct PythonError {};

/// Owns a reference, or nothing.
class Ref {
public:
  Ref() = default;
  /// Takes the reference that a call gave. Throws PythonError for null, with which a call says that it failed.
  static Ref made(PyObject *object) {
    if (!object)
      throw PythonError();
    return Ref(object);
  }
  static Ref shared(PyObject *object) {
    Py_XINCREF(object);
    return Ref(object);
  }
  Ref(const Ref &other) : object(other.object) { Py_XINCREF(object); }
  Ref(Ref &&other) noexcept : object(std::exchange(other.object, nullptr)) {}
  Ref &operator=(Ref other) noexcept {
    std::swap(object, other.object);
    return *this;
  }
  ~Ref() { Py_XDECREF(object); }

  PyObject *get() const { return object; }
  PyObject *release() { return std::exchange(object, nullptr); }
  explicit operator bool() const { return object != nullptr; }

private:
  explicit Ref(PyObject *object) : object(object) {}
  PyObject *object = nullptr;
};

inline void check(bool isFine) {
  if (!isFine)
    throw PythonError();
}

[[noreturn]] inline void raise(PyObject *kind, const std::string &message) {
  PyErr_SetString(kind, message.c_str());
  throw PythonError();
}

inline Ref text(std::string_view value) {
  return Ref::made(PyUnicode_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size())));
}
inline Ref integer(int64_t value) {
  return Ref::made(PyLong_FromLongLong(value));
}

inline std::string toText(PyObject *object) {
  Py_ssize_t size = 0;
  const char *bytes = PyUnicode_AsUTF8AndSize(object, &size);
  check(bytes);
  return {bytes, static_cast<size_t>(size)};
}
inline int64_t toInteger(PyObject *object) {
  const int64_t value = PyLong_AsLongLong(object);
  check(value != -1 || !PyErr_Occurred());
  return value;
}

/// The items of a sequence.
inline std::vector<Ref> items(PyObject *sequence) {
  const Py_ssize_t size = PySequence_Size(sequence);
  check(size >= 0);
  std::vector<Ref> list;
  for (Py_ssize_t i = 0; i < size; ++i)
    list.push_back(Ref::made(PySequence_GetItem(sequence, i)));
  return list;
}
inline std::vector<int64_t> integers(PyObject *sequence) {
  std::vector<int64_t> list;
  for (const Ref &item : items(sequence))
    list.push_back(toInteger(item.get()));
  return list;
}

/// The Python error that is set, as text, and no longer set.
std::string takeError();

/// Calls `fn` with the GIL, which this thread has released, and gives the Python error that it ended with as text;
/// empty if there is none.
template <typename Fn>
std::string withGil(Fn &&fn) {
  const PyGILState_STATE gil = PyGILState_Ensure();
  std::string message;
  try {
    fn();
  } catch (const PythonError &) {
    message = takeError();
  }
  PyGILState_Release(gil);
  return message;
}

} // namespace tcc::python
