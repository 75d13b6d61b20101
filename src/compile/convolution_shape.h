// A convolution in the plane, or of frames of a plane, read off a contraction: dims of its input by role, axes of its stage by
// role. The only guards are those of the padding.
#pragma once

#include <optional>

#include "base/diagnostic.h"
#include "compile/kernel.h"

namespace isomer::compile {

struct ConvolutionShape {
  int images = -1, rows = -1, columns = -1;                            // axes of the result; images -1: one image
  int outputs = -1;                                                    // axis of output channels, of all groups
  int channels = -1, down = -1, across = -1;                           // reduced axes; -1: no taps along it
  size_t image_dim = 0, channel_dim = 0, row_dim = 0, column_dim = 0;  // of the input
  int64_t pad_rows = 0, pad_columns = 0;
  int64_t taps_down = 1, taps_across = 1;
  int64_t step_rows = 1, step_columns = 1;  // of the input, from position to position
  int64_t step_down = 1, step_across = 1;   // from tap to tap
  bool channels_together = false;           // in memory
  int64_t first_channel = 0;                // of the input: it may read a part of them
  int64_t n = 1, oh = 0, ow = 0, o = 0, c = 0, h = 0, w = 0;

  // Groups of channels that stay apart: `o` outputs of `c` channels each, which begin so many channels behind those of the group before.
  int64_t groups = 1, group_step = 0;

  // Frames of a video: a place is the sum of its taps in several frames. Where each frame is by itself and there is one
  // video, frames are images.
  bool video = false;
  int frames = -1, through = -1;  // axes: of the result, -1: one frame; reduced, -1: no taps along it
  size_t frame_dim = 0;
  int64_t pad_frames = 0, taps_through = 1;
  int64_t step_frames = 1, step_through = 1;
  int64_t d = 1, od = 1;  // frames of the input, of the result

  // Neighbours differ by one pixel, in positions and in taps, and by one frame in positions.
  bool plain() const { return step_rows * step_columns * step_down * step_across * step_frames == 1; }
  int64_t images_made() const { return n * od; }
};

// Nothing when the group's contraction is none, or its taps are no constant.
std::optional<ConvolutionShape> convolution_shape(const Scene& scene, const Group& group);

// Whether Winograd's filtering of 3x3 taps can compute it, in one frame or in several (winograd.cc).
Decision filterable(const ConvolutionShape& shape);

}  // namespace isomer::compile
