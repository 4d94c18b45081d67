// A scatter-add alone: a block owns a tile of the result and looks through all rows, in order, for those that are added
// there. No two blocks write one element, and each element takes its rows in ascending order, as one thread would.
//   1. each thread looks at several rows of the space, one in each batch of as many rows as there are threads, so that
//      its loads are in flight together; most batches hit nothing;
//   2. for a batch with hits, the threads leave the numbers of its rows that hit in order;
//   3. all threads walk down the hits, each with one column; the tile is in shared memory, a row of it is taken from
//      the base when the first hit comes;
//   4. rows with hits are written; the others are copied, unless the result lies over the base.
#include "codegen/cuda/kernel/body.h"
#include "codegen/cuda/kernel/expressions.h"
#include "codegen/cuda/kernel/shapes.h"

namespace tcc::cuda {
namespace {

class Scatter : public KernelBody {
public:
  Scatter(const FormKernel &source, KernelCalling calling, bool steady)
      : KernelBody(source, calling, steady), store(form.stores[0]), type(form.results[0].type) {}

private:
  static constexpr int batches = 8; // of the rows that are looked at together

  const KernelStore &store;
  ElementType type;

  /// The element of `tensor` in row `first + t` and column c.
  std::string place(const std::string &tensor) const {
    return tensor + "[static_cast<i64>(first + t) * " + std::to_string(store.scatterStride) + " + " +
           indexText(store.index) + "]";
  }
  std::string base() const { return "in" + std::to_string(store.scatterBase); }
  std::string inTile() const { return "tile[t * " + std::to_string(division.threads) + " + thread_x()]"; }

  void writeShape() override {
    std::string threads = std::to_string(division.threads), rows = std::to_string(division.tileRows);
    std::string columns = std::to_string(form.space.columns);
    int64_t tiles = (form.space.columns + division.tile - 1) / division.tile;
    w.line("SHARED(" + elementType(type) + ", tile, " + std::to_string(division.tileRows * division.threads) + ");");
    w.line("SHARED(int, hits, " + threads + ");");
    w.line("SHARED(int, counts, " + std::to_string(warps()) + ");");
    w.line("SHARED(u32, found, " + std::to_string(2 * warps()) + ");");
    w.line("const int first = block_x() / " + std::to_string(tiles) + " * " + rows + ";");
    w.line("const int c = block_x() % " + std::to_string(tiles) + " * " + threads + " + thread_x();");
    w.line("const int o = 0;");
    w.line("u32 touched = 0;"); // a bit a row of the tile, the same in all threads
    w.line("int turn = 0;");
    writeNodes(stages.constantNodes);
    const std::string batchRows = std::to_string(batches * division.threads);
    open("for (int begin = 0; begin < " + std::to_string(form.space.rows) + "; begin += " + batchRows + ")");
    writeBatches();
    open("for (int batch = 0; batch < " + std::to_string(batches) + "; ++batch)");
    open("if ((hitBatches >> batch & 1u) != 0)");
    w.line("const int next = begin + batch * " + threads + ";");
    writeSearch();
    writeHits();
    close();
    close();
    close();
    open("if (c < " + columns + ")");
    open("for (int t = 0; t < " + rows + " && first + t < " + std::to_string(store.scatterRows) + "; ++t)");
    declareAxesOf(store.index);
    w.line("if ((touched >> t & 1u) != 0)");
    w.line("  " + place("out0") + " = " + inTile() + ";");
    w.line("else if (" + base() + " != out0)");
    w.line("  " + place("out0") + " = " + place(base()) + ";");
    close();
    close();
  }

  /// Declares `hit`: whether the row `row`, an expression, goes to the tile.
  void writeHit(const std::string &row) {
    w.line("bool hit = false;");
    open("if (" + row + " < " + std::to_string(form.space.rows) + ")");
    w.line("const int r = " + row + ";");
    writeNodes(stages.stages[0].rowNodes);
    std::string target = name(store.scatterRow);
    w.line("hit = " + target + " >= first && " + target + " < first + " + std::to_string(division.tileRows) + " && " +
           target + " < " + std::to_string(store.scatterRows) + ";");
    close();
  }

  /// Step 1: hitBatches has a bit for each batch, the same in all threads. Warps that are a round ahead write the other
  /// half of `found`.
  void writeBatches() {
    w.line("u32 hitsOfWarp = 0;");
    w.line("#pragma unroll");
    open("for (int batch = 0; batch < " + std::to_string(batches) + "; ++batch)");
    writeHit("begin + batch * " + std::to_string(division.threads) + " + thread_x()");
    w.line("hitsOfWarp |= vote_any(hit) ? 1u << batch : 0u;");
    close();
    w.line("if (lane_index() == 0)");
    w.line("  found[turn + thread_x() / " + std::to_string(warpSize) + "] = hitsOfWarp;");
    w.line("block_barrier();");
    w.line("u32 hitBatches = 0;");
    w.line("#pragma unroll");
    w.line("for (int warp = 0; warp < " + std::to_string(warps()) + "; ++warp)");
    w.line("  hitBatches |= found[turn + warp];");
    w.line("turn ^= " + std::to_string(warps()) + ";");
  }

  /// Step 2: hits[0 .. total) in ascending order.
  void writeSearch() {
    writeHit("next + thread_x()");
    const std::string warp = "thread_x() / " + std::to_string(warpSize);
    w.line("const u32 votes = vote_ballot(hit);");
    w.line("if (lane_index() == 0)");
    w.line("  counts[" + warp + "] = popcount(votes);");
    w.line("block_barrier();");
    w.line("int total = 0, before = popcount(votes & ((1u << lane_index()) - 1u));");
    open("for (int warp = 0; warp < " + std::to_string(warps()) + "; ++warp)");
    w.line("before += warp < " + warp + " ? counts[warp] : 0;");
    w.line("total += counts[warp];");
    close();
    w.line("if (hit)");
    w.line("  hits[before] = next + thread_x();");
    w.line("block_barrier();");
  }

  /// Step 3. Before hits are written again, all threads have passed a barrier after this.
  void writeHits() {
    open("for (int i = 0; i < total; ++i)");
    w.line("const int r = hits[i];");
    writeNodes(stages.stages[0].rowNodes);
    w.line("const int t = static_cast<int>(" + name(store.scatterRow) + ") - first;");
    open("if (c < " + std::to_string(form.space.columns) + ")");
    writeGroupBody(0);
    close();
    w.line("touched |= 1u << t;");
    close();
  }

  void writeAccumulation(unsigned) override {
    declareAxesOf(store.index);
    w.line("const " + elementType(type) + " old = (touched >> t & 1u) != 0 ? " + inTile() + " : " + place(base()) +
           ";");
    w.line(inTile() + " = " + stored(loaded("old", type) + " + " + name(store.node), type) + ";");
  }
};

} // namespace

std::string scatterText(const FormKernel &source, KernelCalling calling, bool steady) {
  return Scatter(source, calling, steady).text();
}

} // namespace tcc::cuda
