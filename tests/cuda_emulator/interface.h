// What kernel text compiled for the CPU and the emulator share: one table of functions and the running thread's place.
// Embedded before the CPU prelude, so it includes nothing.
#pragma once

namespace tcc::emulator {

struct ThreadView {
  int x, lane, warp;
  char *stackLow, *stackHigh;
};

enum class FastMath { Exp2, Log2, Tanh, Reciprocal, Rsqrt };
enum class AccurateMath {
  Fma,
  Sqrt,
  Exp,
  Exp2,
  Log,
  Tanh,
  Sin,
  Cos,
  Erf,
  Pow,
  Floor,
  Ceil,
  Expm1,
  Log1p,
  Round,
  Trunc,
  Remainder
};
enum class Shuffle { Xor, Down, Up, From };

/// One wgmma by one thread of a warpgroup.
struct WgmmaCall {
  float *d;
  int columns;
  const unsigned *a; // null: A comes from descriptorA
  unsigned long long descriptorA, descriptorB;
  bool half, accumulate, transposedA, transposedB;
};

/// Filled by the emulator, read by kernels. `line` identifies the collective that a warp or block must agree on.
struct Table {
  ThreadView *thread;
  int block[3], grid[3], blockSize;
  char *arena; // shared memory
  unsigned long arenaBytes;
  bool checking; // accesses are reported through `access`
  bool counting; // accesses are reported through `count`

  void *(*sharedArray)(int id, unsigned long bytes, unsigned long alignment);
  void *(*dynamicShared)(unsigned long alignment);
  void (*blockBarrier)(int line);
  void (*warpBarrier)(int line);
  void (*namedBarrier)(int id, int threads, bool wait, int line);
  int (*warpIndex)(int line);
  unsigned (*shuffle)(unsigned value, Shuffle kind, int operand, int line);
  unsigned (*ballot)(bool condition, int line);
  void (*access)(const void *pointer, unsigned long bytes, bool write, void *programCounter);
  void (*count)(const void *pointer, unsigned long bytes, void *programCounter);
  void (*readOnly)(const void *pointer, unsigned long bytes);
  void (*misaligned)(const void *pointer, int bytes);
  float (*fastMath)(FastMath function, float x);
  float (*accurateMath)(AccurateMath function, float x, float y, float z);
  void (*copyAsync)(void *shared, const void *global, int bytes, bool valid);
  void (*copyAsyncCommit)();
  void (*copyAsyncWait)(int pending);
  void (*ldmatrix)(unsigned *const *results, const void *row, int matrices, bool transposed, int line);
  void (*mma)(float *d, const unsigned *a, unsigned b0, unsigned b1, bool half, int line);
  void (*fenceProxyAsync)();
  void (*fenceMbarrierInit)();
  void (*mbarrierInit)(void *barrier, int count);
  void (*mbarrierArrive)(void *barrier, int arrivals, int expectedBytes);
  void (*mbarrierWait)(void *barrier, unsigned parity);
  void (*tmaLoad)(void *shared, const void *map, void *barrier, int rank, const int *coordinates);
  void (*tmaStore)(const void *map, const void *shared, int rank, const int *coordinates);
  void (*tmaStoreCommit)();
  void (*tmaStoreWait)(int pending, bool readOnly);
  void (*bulkLoad)(void *shared, const void *global, int bytes, void *barrier);
  bool (*electOne)(int line);
  void (*setRegisters)(int registers, bool acquire, int line);
  unsigned long long (*sharedAddress)(const void *pointer);
  void (*wgmma)(const WgmmaCall *call, int line);
  void (*wgmmaFence)(int line);
  void (*wgmmaCommit)(int line);
  void (*wgmmaWait)(int pending, int line);
};

} // namespace tcc::emulator
