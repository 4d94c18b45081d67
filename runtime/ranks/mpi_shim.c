/* One shim for each MPI: this file, compiled against its <mpi.h>. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "shim.h"
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static int start(int64_t *rank, int64_t *count) {
  int given = 0, own = 0, all = 0;
#ifdef OPEN_MPI
  /* Of a large message Open MPI has three fragments on their way, 96 KiB in shared memory, and sends others only when
     it is asked again: after an instruction that may take 16 ms. */
  setenv("OMPI_MCA_pml_ob1_send_pipeline_depth", "64", 0);
#endif
  int status = MPI_Init_thread(0, 0, MPI_THREAD_FUNNELED, &given);
  if (status)
    return status;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &own);
  MPI_Comm_size(MPI_COMM_WORLD, &all);
  *rank = own;
  *count = all;
  return 0;
}

static void copy_text(char *to, int size, const char *from, int length) {
  if (size <= 0)
    return;
  if (length > size - 1)
    length = size - 1;
  memcpy(to, from, (size_t)length);
  to[length] = 0;
}

static void describe(char *text, int size) {
  char own[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(own, &length);
  copy_text(text, size, own, length);
}

static void explain(int status, char *text, int size) {
  char own[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(status, own, &length);
  copy_text(text, size, own, length);
}

/* A request that is under way, with the type that its elements have. */
struct Work {
  MPI_Request request;
  MPI_Datatype type;
};

static struct Work *begin(int unit) {
  struct Work *work = malloc(sizeof(struct Work));
  if (!work)
    return 0;
  work->request = MPI_REQUEST_NULL;
  work->type = MPI_DATATYPE_NULL;
  if (unit > 0) {
    MPI_Type_contiguous(unit, MPI_BYTE, &work->type);
    MPI_Type_commit(&work->type);
  }
  return work;
}

static void end(struct Work *work) {
  if (work->type != MPI_DATATYPE_NULL)
    MPI_Type_free(&work->type);
  free(work);
}

static int started(struct Work *work, int status, uint64_t *number) {
  if (status) {
    end(work);
    return status;
  }
  *number = (uint64_t)(uintptr_t)work;
  return 0;
}

static int all_to_all(const void *send, const int *sends, const int *send_places, void *receive, const int *receives,
                      const int *receive_places, int unit, uint64_t *number) {
  struct Work *work = begin(unit);
  if (!work)
    return MPI_ERR_NO_MEM;
  return started(work,
                 MPI_Ialltoallv(send, sends, send_places, work->type, receive, receives, receive_places, work->type,
                                MPI_COMM_WORLD, &work->request),
                 number);
}

static int all_gather(const void *send, void *receive, int count, int unit, uint64_t *number) {
  struct Work *work = begin(unit);
  if (!work)
    return MPI_ERR_NO_MEM;
  return started(work,
                 MPI_Iallgather(send, count, work->type, receive, count, work->type, MPI_COMM_WORLD, &work->request),
                 number);
}

static int all_reduce(float *values, int count, uint64_t *number) {
  struct Work *work = begin(0);
  if (!work)
    return MPI_ERR_NO_MEM;
  return started(work, MPI_Iallreduce(MPI_IN_PLACE, values, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &work->request),
                 number);
}

static int broadcast(void *data, int count, int unit, int root, uint64_t *number) {
  struct Work *work = begin(unit);
  if (!work)
    return MPI_ERR_NO_MEM;
  return started(work, MPI_Ibcast(data, count, work->type, root, MPI_COMM_WORLD, &work->request), number);
}

static int barrier(uint64_t *number) {
  struct Work *work = begin(0);
  if (!work)
    return MPI_ERR_NO_MEM;
  return started(work, MPI_Ibarrier(MPI_COMM_WORLD, &work->request), number);
}

static int test(uint64_t number, int *done) {
  struct Work *work = (struct Work *)(uintptr_t)number;
  const int status = MPI_Test(&work->request, done, MPI_STATUS_IGNORE);
  if (status || *done)
    end(work);
  return status;
}

static void leave(int status) {
  MPI_Abort(MPI_COMM_WORLD, status);
}

static void finish(void) {
  MPI_Finalize();
}

const struct TccRanksShim *tcc_ranks_shim(void) {
  static const struct TccRanksShim shim = {TCC_RANKS_SHIM_VERSION,
                                           start,
                                           describe,
                                           explain,
                                           all_to_all,
                                           all_gather,
                                           all_reduce,
                                           broadcast,
                                           barrier,
                                           test,
                                           leave,
                                           finish};
  return &shim;
}
