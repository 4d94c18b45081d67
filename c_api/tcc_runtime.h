/* tcc_runtime.h: runs training steps that tcc has compiled. For C, C++ and whatever calls C; no compiler is needed.

   A program is a compiled step as a file or a library has it. A step is a program that was loaded: it has its states
   (parameters, moments) in memory, zeros at first, and each run updates them.

       tcc_program *program;
       tcc_step *step;
       if (tcc_open("step.so", &program) || tcc_create(program, NULL, &step))
         return fprintf(stderr, "%s\n", tcc_last_error()), 1;
       ... tcc_set_state, tcc_run ...
       tcc_destroy(step);
       tcc_close(program);

   Each function that returns int gives TCC_OK (0), or another value after an error, which tcc_last_error() describes.
   A step is used by one thread at a time; different steps may be used at once. The runtime and step libraries stay in
   memory after dlclose(), since threads of theirs do. A child of fork() goes on with one thread. Structs begin with
   their size, so that a program compiled with an older header still works with a newer runtime. */
#ifndef TCC_RUNTIME_H
#define TCC_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TCC_RUNTIME_ABI 1

typedef struct tcc_program tcc_program;
typedef struct tcc_step tcc_step;

enum {
  TCC_OK = 0,
  TCC_FAILED = 1,   /* a file, the machine or the step itself: no memory, a CPU without the code's instructions, ... */
  TCC_WRONG_USE = 2 /* an argument of the call is wrong; nothing was done */
};

/* What went wrong in this thread's last failed call: text in UTF-8, there until the next call. Never null. */
const char *tcc_last_error(void);

/* The runtime's version, "0.1.0"; its TCC_RUNTIME_ABI. */
const char *tcc_version(void);
int tcc_abi(void);

/* Opens a step library (step.so, step.o) or an artefact (step.tcc). The whole content is verified by its checksum. The
   file is not needed afterwards. */
int tcc_open(const char *path, tcc_program **program);
/* Ends a program of tcc_open(); steps made of it live on. Null, and a program that is linked in, are left alone. */
void tcc_close(tcc_program *program);

typedef struct tcc_options {
  size_t struct_size; /* sizeof(tcc_options) */
  int32_t threads;    /* 0: as many as CPUs may be used, at most what the step was compiled for */
  int32_t checked;    /* not 0: fill memory with NaN before each run and look for writes out of place; slow */
  const char *device; /* NULL: what the step was compiled for; "cpu"; "cuda"; "cuda:1" */
} tcc_options;

/* Loads a program. If it has parts for several CPUs or GPUs, the first that this machine can run is taken; if there is
   none, the error says what the machine lacks. `options` may be null. */
int tcc_create(const tcc_program *program, const tcc_options *options, tcc_step **step);
/* The same for a program whose tensors were `signature` when the caller was compiled: another program is refused. The
   NAME_create of a step's header is this one. */
int tcc_create_for(const tcc_program *program, uint64_t signature, const tcc_options *options, tcc_step **step);
void tcc_destroy(tcc_step *step);

/* The tensors of a step. They are dense and row-major. */
enum { TCC_INPUT = 0, TCC_OUTPUT = 1, TCC_STATE = 2 };

typedef struct tcc_tensor_info {
  size_t struct_size;   /* sizeof(tcc_tensor_info), set by the caller */
  const char *name;     /* there as long as the step, as are dtype and shape */
  const char *dtype;    /* "f32", "bf16", "f16", "f8e4m3", "f8e5m2", "i1" (one byte), "i32", "i64" */
  const int64_t *shape; /* `rank` sizes */
  int32_t rank;
  int32_t reserved;
  size_t bytes;
} tcc_tensor_info;

/* How many inputs, outputs or states there are. */
size_t tcc_count(const tcc_step *step, int kind);
/* Describes one of them. */
int tcc_describe(const tcc_step *step, int kind, size_t index, tcc_tensor_info *tensor);
/* The index of the one with this name. */
int tcc_find(const tcc_step *step, int kind, const char *name, size_t *index);

/* Runs one step: one pointer for each input and each output, in the order of tcc_describe(). The call returns when the
   step is done. An output's pointer may be null: it is then not given. Memory that begins at a multiple of 64 bytes is
   used where it lies, other memory is copied. */
int tcc_run(tcc_step *step, const void *const *inputs, size_t input_count, void *const *outputs, size_t output_count);
/* The same with structs as a step's header declares them: size_t struct_size, then one pointer for each tensor. Either
   may be null where the step has no such tensors or none of them is wanted. */
int tcc_run_structs(tcc_step *step, const void *inputs, const void *outputs);

/* A state's value, which must have exactly this many bytes. */
int tcc_get_state(tcc_step *step, const char *name, void *to, size_t bytes);
int tcc_set_state(tcc_step *step, const char *name, const void *from, size_t bytes);
/* Where a state lies, if that is memory of the host; null otherwise, or if there is no such state. */
void *tcc_state_data(tcc_step *step, const char *name);
/* All states as a safetensors file, and back. A file appears whole or not at all. All of a file is checked before any
   state changes; each state must be in it. */
int tcc_save_states(tcc_step *step, const char *path);
int tcc_load_states(tcc_step *step, const char *path);

/* Bytes that the step needs by its plan: arena, states, inputs, outputs, constants. */
size_t tcc_planned_bytes(const tcc_step *step);
/* Bytes that its runs have really used, counted without asking the plan; with what other steps allocated meanwhile. */
size_t tcc_peak_bytes(const tcc_step *step);
/* Which of the program's parts is loaded: "cpu:x86-64-v3", "cuda:sm_90a". */
const char *tcc_target(const tcc_step *step);

/* Tensors by DLPack (a program that includes dlpack/dlpack.h first): inputs and outputs where a library has them. They
   are dense, row-major, in the host's memory, with the step's shapes and types. */
#if defined(DLPACK_VERSION) || defined(DLPACK_MAJOR_VERSION)
int tcc_run_dlpack(tcc_step *step, const DLTensor *const *inputs, size_t input_count, const DLTensor *const *outputs,
                   size_t output_count);
/* Lends a state: its memory stays until `deleter` is called and the step is destroyed, and each run changes it. */
int tcc_state_dlpack(tcc_step *step, const char *name, DLManagedTensor **tensor);
#endif

#ifdef __cplusplus
}
#endif
#endif
