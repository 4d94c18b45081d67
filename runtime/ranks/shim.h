/* The functions of a shim, which is a shared object that is compiled against one MPI's headers and opened at run time
   (mpi.cpp). The interface is C, so that it does not depend on a C++ library. Functions return 0, or the status that
   MPI returned. */
#ifndef TCC_RANKS_SHIM_H
#define TCC_RANKS_SHIM_H
#include <stdint.h>

#define TCC_RANKS_SHIM_VERSION 1

struct TccRanksShim {
  int version; /* TCC_RANKS_SHIM_VERSION */
  int (*start)(int64_t *rank, int64_t *count);
  /* The library's own words for itself and for a status; both go to `text`, of `size` bytes. */
  void (*describe)(char *text, int size);
  void (*explain)(int status, char *text, int size);
  /* Numbers of bytes and their places are in units of `unit` bytes. `work` must be 0 before; it gets a number for
   * test().
   */
  int (*all_to_all)(const void *send, const int *sends, const int *send_places, void *receive, const int *receives,
                    const int *receive_places, int unit, uint64_t *work);
  int (*all_gather)(const void *send, void *receive, int count, int unit, uint64_t *work);
  int (*all_reduce)(float *values, int count, uint64_t *work);
  int (*broadcast)(void *data, int count, int unit, int root, uint64_t *work);
  int (*barrier)(uint64_t *work);
  int (*test)(uint64_t work, int *done); /* releases `work` if it is done */
  void (*abort)(int status);
  void (*finish)(void);
};

#ifdef __cplusplus
extern "C"
#endif
    const struct TccRanksShim *tcc_ranks_shim(void);

#endif
