// Device prelude: cp.async copies from global to shared memory (sm_80 and later). Needs core.cuh.
// A thread sees its own copies after copy_async_wait, other threads see them after a barrier that follows.
#pragma once

// Both addresses are multiples of 16. An invalid copy writes 16 zero bytes and does not read `global`.
DEVICE void copy_async_16(void *shared, const void *global, bool valid = true) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global),
               "r"(valid ? 16 : 0)
               : "memory");
}
// Both addresses are multiples of 4. An invalid copy writes 4 zero bytes and does not read `global`.
DEVICE void copy_async_4(void *shared, const void *global, bool valid = true) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(shared)), "l"(global),
               "r"(valid ? 4 : 0)
               : "memory");
}
// Closes the group of all copies that this thread has issued since the previous commit.
DEVICE void copy_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until at most `pending` of this thread's latest groups are unfinished.
template <int pending>
DEVICE void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}
