/* Trains a GPT on the bytes of a text: no compiler, no C++, only a step library and the C runtime.

     train_gpt --model gpt2 --vocab 256 --batch 4 --seq 256 --compile-only=step.so --initial-states=step.safetensors
     cc -I. train_step.c ./step.so -Wl,-rpath,'$ORIGIN' -o train && ./train book.txt 20

   The losses are those of train_gpt --order sequential --schedule constant --warmup 0 --lr 3e-4, to the bit. */
#include "step.h"
#include <stdio.h>
#include <stdlib.h>

static int fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, training_step_last_error());
  return 1;
}

int main(int count, char **arguments) {
  if (count < 3) {
    fprintf(stderr, "usage: %s TEXT STEPS [STATES [SAVED]]\n", arguments[0]);
    return 2;
  }
  const char *states = count > 3 ? arguments[3] : "step.safetensors";
  FILE *text = fopen(arguments[1], "rb");
  if (!text) {
    perror(arguments[1]);
    return 1;
  }

  tcc_step *step;
  tcc_tensor_info tokens = {sizeof tokens, NULL, NULL, NULL, 0, 0, 0};
  if (training_step_create(NULL, &step) || training_step_load_states(step, states) ||
      training_step_describe(step, TCC_INPUT, 0, &tokens))
    return fail(states);
  const long batch = (long)(tokens.bytes / sizeof(int32_t)); /* rows times tokens of a row */
  unsigned char *bytes = malloc((size_t)batch + 1);
  int32_t *window = malloc(((size_t)batch + 1) * sizeof *window);
  if (!bytes || !window)
    return fail("no memory");

  float rate = 3e-4f, number, loss, norm;
  struct training_step_inputs in = {sizeof in, window, window + 1, &rate, &number};
  struct training_step_outputs out = {sizeof out, &loss, &norm};
  const long steps = strtol(arguments[2], NULL, 10);
  for (long i = 0; i < steps; ++i) {
    if (fseek(text, i * batch, SEEK_SET) || fread(bytes, 1, (size_t)batch + 1, text) != (size_t)batch + 1) {
      fprintf(stderr, "%s has no bytes for step %ld\n", arguments[1], i);
      return 1;
    }
    for (long j = 0; j <= batch; ++j)
      window[j] = bytes[j];
    number = (float)(i + 1);
    if (training_step_run(step, &in, &out))
      return fail("run");
    printf("step %ld loss %.9g norm %.9g\n", i, loss, norm);
  }
  if (count > 4 && training_step_save_states(step, arguments[4]))
    return fail(arguments[4]);
  printf("%s, %zu bytes planned, %zu counted\n", training_step_target(step), training_step_planned_bytes(step),
         training_step_peak_bytes(step));
  training_step_destroy(step);
  free(bytes);
  free(window);
  return fclose(text) != 0;
}
