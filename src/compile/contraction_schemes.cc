// Which tiles a contraction is made of: of bytes, of floats in two parts, of vectors.
#include <algorithm>

#include "compile/contraction_kernel.h"
#include "compile/product_cost.h"

namespace isomer::compile {
namespace {

// Of these axes of the group's contraction, all together.
int64_t extent_of(const std::vector<int>& axes, const Scene& scene, const Group& group) {
  int64_t n = 1;
  for (const te::Axis& a : axes_of(*group.contraction, scene.stage(group.stages[0])))
    if (std::find(axes.begin(), axes.end(), a.id) != axes.end()) n *= a.extent.value();
  return n;
}

}  // namespace

std::optional<std::vector<Kernel>> split_kernels(const Scene& scene, const Group& group, const std::string& name,
                                                 SplitRows rows, const Cut& cut) {
  const Contraction& c = *group.contraction;
  if (c.bytes() || scene.value(scene.stage(group.stages[0]).value).elements() == 0) return std::nullopt;
  if (const loop::IntrinsicPtr narrow = loop::narrow_product_for(scene.target)) {
    ContractionKernel kernel(scene, group, narrow, name, cut);
    if (kernel.waits_for_columns()) return kernel.make();
  }
  const loop::IntrinsicPtr tile = loop::split_product_for(scene.target, extent_of(c.n, scene, group));
  if (!tile) return std::nullopt;
  ContractionKernel kernel(scene, group, tile, name, cut);
  if (rows == SplitRows::WherePays && !kernel.pays()) return std::nullopt;
  if (rows != SplitRows::WherePays && !scene.value(c.b->tensor).constant && !kernel.pays()) return std::nullopt;
  if (rows == SplitRows::Gathered && !kernel.without_image()) return std::nullopt;
  return kernel.make();
}

namespace {

// Of so many columns where the cut asks for one, else the best by the model.
loop::IntrinsicPtr vector_tile_of(const Scene& scene, const Group& group, const Cut& cut) {
  if (cut.columns > 0)
    for (const loop::IntrinsicPtr& tile : loop::intrinsics_for(scene.target, DType::F32))
      if (tile->meaning.stages[0].axes[1].extent.value() == cut.columns) return tile;
  const Contraction& c = *group.contraction;
  return vector_tile(scene.target, extent_of(c.m, scene, group), extent_of(c.n, scene, group));
}

}  // namespace

std::vector<Cut> product_cuts(const Scene& scene, const Group& group, bool split, SplitRows rows) {
  const Contraction& c = *group.contraction;
  if (c.bytes() || scene.value(scene.stage(group.stages[0]).value).elements() == 0) return {};
  const loop::IntrinsicPtr tile =
      split ? loop::split_product_for(scene.target, extent_of(c.n, scene, group)) : vector_tile_of(scene, group, {});
  if (!tile) return {};
  ContractionKernel kernel(scene, group, tile, "kernel");
  if (split && rows == SplitRows::Gathered && !kernel.without_image()) return {};
  std::vector<Cut> out = kernel.cuts();
  if (split) return out;
  const int64_t own = tile->meaning.stages[0].axes[1].extent.value();
  std::vector<int64_t> seen = {own};
  for (const loop::IntrinsicPtr& other : loop::intrinsics_for(scene.target, DType::F32)) {
    const int64_t columns = other->meaning.stages[0].axes[1].extent.value();
    if (std::find(seen.begin(), seen.end(), columns) != seen.end()) continue;
    seen.push_back(columns);
    out.push_back({0, 0, columns, 0});
  }
  return out;
}

std::optional<std::vector<Kernel>> contraction_kernels(const Scene& scene, const Group& group, const std::string& name,
                                                       const Cut& cut) {
  const Contraction& c = *group.contraction;
  if (scene.value(scene.stage(group.stages[0]).value).elements() == 0) return std::nullopt;
  if (c.bytes()) {
    if (const loop::IntrinsicPtr tile = loop::tiled_dot_product_for(scene.target, c.a.dtype(), c.b.dtype())) {
      ContractionKernel kernel(scene, group, tile, name);
      if (kernel.fills_tiles()) return kernel.make();
    }
    const std::vector<loop::IntrinsicPtr> tiles = loop::dot_products_for(scene.target, c.a.dtype(), c.b.dtype());
    return tiles.empty() ? std::nullopt : std::optional(ContractionKernel(scene, group, tiles[0], name).make());
  }
  const loop::IntrinsicPtr tile = vector_tile_of(scene, group, cut);
  if (!tile) return std::nullopt;
  return ContractionKernel(scene, group, tile, name, cut).make();
}

}  // namespace isomer::compile
