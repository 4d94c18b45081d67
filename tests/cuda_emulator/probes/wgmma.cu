// Every form of wgmma for one ELEMENT and COLUMNS, which the test defines; a text for the compiler, its results mean
// nothing.
KERNEL(wgmma, 128, 1)(float *out) {
  DYNAMIC_SHARED(arena, 1024);
  u32 a[4] = {1, 2, 3, static_cast<u32>(thread_x())};
  float d[COLUMNS / 2];
  u64 descriptorA = wgmma_descriptor(arena, 16, 1024, swizzle_128);
  u64 descriptorB = wgmma_descriptor(arena + 16384, 16384, 1024, swizzle_128);
  wgmma_hold(d);
  wgmma_hold(a);
  wgmma_fence();
  wgmma_shared<ELEMENT>(d, descriptorA, descriptorB, false);
  wgmma_shared<ELEMENT, false, true>(d, wgmma_advance(descriptorA, 32), wgmma_advance(descriptorB, 2048), true);
  wgmma_shared<ELEMENT, true, true>(d, wgmma_advance(descriptorA, 2048), wgmma_advance(descriptorB, 4096), true);
  wgmma_registers<ELEMENT, true>(d, a, descriptorB, true);
  wgmma_registers<ELEMENT>(d, a, descriptorB, true);
  wgmma_commit();
  wgmma_wait<0>();
  wgmma_hold(d);
#pragma unroll
  for (int i = 0; i < COLUMNS / 2; ++i)
    out[i * 128 + thread_x()] = d[i];
}
