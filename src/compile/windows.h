// Windows: the kernel of one reduction over windows that keeps its channels apart or nearly so, as it is put together
// (windows.cc: which tiles there are and in which order; window_tile.cc: what one tile does).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compile/kernel_writer.h"
#include "compile/window_shape.h"

namespace isomer::compile {

class Windows : KernelWriter {
 public:
  using Stmt = loop::Stmt;
  using Expr = te::Expr;
  using Reduced = WindowShape::Reduced;
  using Source = WindowShape::Source;

  Windows(const Scene& scene, const Group& group, WindowShape shape, Totals* totals)
      : scene_(scene), group_(group), s_(std::move(shape)), stage_(scene.stage(group.stages[0])), totals_(totals) {
    lanes_ = scene.lanes(DType::F32);
    while (lanes_ > 1 && !lanes_fit(lanes_)) lanes_ /= 2;
    if (spreads(lanes_) && narrow_is_better()) lanes_ = s_.group;
    // Enough sums at once to hide the latency of one; more where what is loaded once is used often.
    const bool many = s_.taps() >= 16 && !spreads(lanes_);
    const int64_t most = (many ? 14 : 8) / (scene.target.vector_registers >= 32 ? 1 : 2);
    width_ = ceil_div(s_.x, ceil_div(s_.x, most));
  }

  std::optional<Kernel> make(std::string name);

 private:
  // Channels from `start` on, as many as a vector has or fewer at the end.
  struct Piece {
    Expr start;
    int64_t lanes;
    int64_t offset;  // in its panel
    Expr panel;
  };
  struct Tile {
    Expr start;
    int64_t first, width;  // first: the position of one of its tiles as a number
  };
  using Values = std::map<int, Expr>;
  using Point = std::vector<int64_t>;
  // Vectors that hold several groups, loaded once for a tile: by read and by how far along they lie.
  struct Staged {
    int buffer = -1;
    DType type = DType::F32;
    int64_t span = 0;
    std::map<std::pair<const te::Node*, int64_t>, int64_t> slots;  // looked up, never walked through
  };

  bool lanes_fit(int64_t lanes) const;
  bool narrow_is_better() const;
  // Whether a vector of so many lanes holds several groups.
  bool spreads(int64_t lanes) const {
    return s_.group < lanes &&
           std::any_of(s_.sources.begin(), s_.sources.end(), [](const Source& s) { return s.spread; });
  }
  bool written_out() const;  // whether deep axes are written out rather than looped over
  void arguments();
  Packing packing(const Source& source) const;
  bool inside(int64_t first, int64_t width) const;
  bool counts(int64_t x, const Point& taps) const;
  Stmt tiles(const std::function<Stmt(const Tile&)>& body);
  std::vector<Piece> rest() const;
  Stmt strip(const Expr& chunk);
  Stmt row();
  Stmt tile(const Tile& t, const Piece& piece);
  int64_t shift(const Source& s, int64_t p, const Point& at) const;
  void set_taps(Values& values, const Tile& t, int64_t p, const Point& at) const;
  Staged stage(const Tile& t, const Piece& piece, Values values, std::vector<Stmt>& parts);
  Stmt updates(const Tile& t, const Piece& piece, int acc, Values values, const Staged* staged);
  Stmt taps(const Tile& t, const Piece& piece, int acc, Values values);
  Stmt results(const Tile& t, const Piece& piece, int acc);
  int channel_of_totals() const;
  void open_totals();
  Expr place_of_total(const Piece& piece, const Expr& lane) const;
  Stmt cleared(const Piece& piece, Stmt body);
  Expr position(const Source& s, const Values& values, const Piece& piece, const Expr& lane, bool base = false) const;
  Expr address(const Source& s, const Values& values, const Piece& piece, const Expr& lane) const;
  static void each_point(const std::vector<Reduced>& axes, const std::function<void(const Point&)>& f);

  const Scene& scene_;
  const Group& group_;
  WindowShape s_;
  const ModelStage& stage_;
  Totals* totals_ = nullptr;
  int total_ = -1;  // the buffer of the sums of lines, where they are wanted
  int64_t lanes_ = 1, width_ = 1;
  std::optional<Accesses> accesses_;
  std::map<int, LoopAxis> outer_;  // loop variables of the axes outside of a tile
};

}  // namespace isomer::compile
