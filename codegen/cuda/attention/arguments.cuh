// The run-time arguments of every attention kernel: one text for host and device, so the layouts agree.
// Needs nothing before it; has no include guard because the host includes it inside its namespace.

// A tensor [batch, head, row, headDim] of 16-bit elements, headDim contiguous; strides in elements. The address and all
// strides are multiples of 16 bytes.
struct AttentionView {
  void *data;
  long long batchStride;
  long long headStride;
  long long rowStride;
};

struct AttentionArguments {
  AttentionView query, key, value, output;
  // Backward only.
  AttentionView outputGradient, queryGradient, keyGradient, valueGradient;
  // [batch, heads, queries]: natural logarithm of each row's sum of exponentials; -inf for a fully masked row.
  float *logSumExp;
  // Backward's workspace, both [batch · heads, queries rounded up to 128], written by the dQ kernel, read by dK/dV's:
  // logSumExp in base 2, with a bias in base e (+inf for masked rows and the tail), and the row sums of output ·
  // outputGradient.
  float *rowShift;
  float *rowDelta;
  // On the device, read only by kernels with dropout: the low and the high word of its seed, and the number of the whole
  // batch's row that this one begins with.
  const unsigned *seedLow;
  const unsigned *seedHigh;
  const int *first;
  // The dropout op's number: different ops of one step draw different masks.
  unsigned stream;
  // An element is dropped when its random word is below this: p · 2³².
  unsigned dropBelow;
  // 1 / (1 - p); 0 for p = 1.
  float keepScale;
  float scale;
  int queries, keys;
  // Query heads, and how many of them share one key head.
  int heads, group;
  // A causal kernel lets query i see keys up to i + diagonal; one with a window, the last `window` of them alone.
  int diagonal, window;
  // How many batches there are; read by persistent kernels alone.
  int batch;
  // Read only by kernels with a bias: what is added to the scaled scores, [batch, heads, queries, keys]; the keys of a
  // row are contiguous, the strides of the others are in elements, and 0 where one value serves all.
  const float *bias;
  long long biasBatchStride, biasHeadStride, biasRowStride;
};
