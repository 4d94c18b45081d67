#include "tests/cuda_emulator/fiber.h"

#ifndef __x86_64__
#error "the emulator's fibers are written for x86-64"
#endif

asm(R"(
.text
.globl tccEmulatorSwitch
.hidden tccEmulatorSwitch
.type tccEmulatorSwitch, @function
tccEmulatorSwitch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tccEmulatorSwitch, .-tccEmulatorSwitch
)");
