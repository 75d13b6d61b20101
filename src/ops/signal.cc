// Signal processing: Fourier transforms, window functions and the mel filter bank.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "ir/graph.h"
#include "ir/op.h"

namespace isomer::ops {
namespace {

using ir::AttrKind;
using te::Expr;

constexpr double kTurn = 2 * std::numbers::pi;

// The known value of a scalar input as an extent; nothing when it is not known.
Expected<std::optional<Dim>> extent_of(const ir::OpContext& c, size_t i, int64_t least) {
  if (c.shape(i).has_rank() && !(c.shape(i).elements() == Dim(1)) && c.shape(i).is_static())
    return c.error(
        fmt::format("expected '{}' as one number, found shape {}", c.op().inputs[i].name, c.shape(i).to_string()));
  const auto v = c.sizes(i);
  if (!v || v->size() != 1) return std::optional<Dim>();
  if (v->at(0).is_const() && v->at(0).value() < least)
    return c.error(
        fmt::format("expected '{}' of at least {}, found {}", c.op().inputs[i].name, least, v->at(0).value()));
  return std::optional<Dim>(v->at(0));
}

Diagnostic needs(const ir::OpContext& c, size_t i) {
  return c.error(fmt::format("needs the value of input '{}'", c.op().inputs[i].name));
}

Expr f64(const Expr& x) { return cast(DType::F64, x); }
Expr f64(double x) { return Expr::real(DType::F64, x); }
Expr sine(const Expr& x) { return te::unary(te::UnaryOp::Sin, x); }
Expr cosine(const Expr& x) { return te::unary(te::UnaryOp::Cos, x); }

// sum(n < terms) (real + i imaginary)(n) * exp(sign * 2 pi i * k * n / length), its real (part 0) or imaginary part.
// The angle is reduced as an integer first, so that long transforms stay exact.
Expr fourier(te::Builder& b, const Dim& terms, const Dim& length, const Expr& k, const Expr& part, double sign,
             const std::function<Expr(const Expr& n)>& real, const std::function<Expr(const Expr& n)>& imaginary) {
  const te::Axis n = b.axis("n", terms);
  const Expr angle = f64(floor_mod(k * Expr(n), Expr(length))) / f64(Expr(length)) * f64(sign * kTurn);
  Expr re = real(Expr(n)) * cosine(angle), im = real(Expr(n)) * sine(angle);
  if (imaginary) {
    re = re - imaginary(Expr(n)) * sine(angle);
    im = im + imaginary(Expr(n)) * cosine(angle);
  }
  return te::sum({n}, select(eq(part, Expr(0)), re, im));
}

struct Transform {
  size_t axis = 0;
  std::optional<Dim> length;  // nothing: not known
};

// The inverse of a real signal's transform, of which the first half is given: the rest mirrors it, and the signal is real.
bool halves(const ir::OpContext& c) { return c.flag("inverse") && c.flag("onesided"); }

Expected<Transform> transform(const ir::OpContext& c) {
  const size_t rank = c.rank(0);
  if (rank < 2) return c.error(fmt::format("expected a signal of rank 2 or more, found {}", c.shape(0).to_string()));
  const Dim& last = c.dim(0, rank - 1);
  if (last.is_const() && last.value() != 1 && last.value() != 2)
    return c.error(fmt::format("expected a last axis of 1 (real) or 2 (complex), found {}", last.value()));
  int64_t axis = -2;
  if (c.has(2)) {
    const auto v = c.ints_value(2);
    if (!v || v->size() != 1) return needs(c, 2);
    axis = v->at(0);
  }
  Transform t;
  ISOMER_TRY(t.axis, c.axis(axis, rank));
  if (t.axis == rank - 1) return c.error("cannot transform along the axis of real and imaginary parts");
  t.length = halves(c) ? (c.dim(0, t.axis) - Dim(1)) * Dim(2) : c.dim(0, t.axis);
  if (c.has(1)) {
    ISOMER_TRY(t.length, extent_of(c, 1, 1));
  }
  return t;
}

Expected<std::vector<Dim>> transform_dims(const ir::OpContext& c, const Transform& t) {
  std::vector<Dim> dims = c.shape(0).dims();
  const Dim length = t.length.value_or(Dim::invalid());
  if (length.is_const() && length.value() < 1)
    return c.error(fmt::format("expected a signal of at least one element, found {}", c.shape(0).to_string()));
  dims[t.axis] = c.flag("onesided") && !c.flag("inverse") ? floor_div(length, Dim(2)) + Dim(1) : length;
  dims.back() = Dim(halves(c) ? 1 : 2);
  return dims;
}

Expected<te::Program> dft(const ir::OpContext& c) {
  te::Builder b;
  const auto in = c.declare(b);
  ISOMER_TRY(const Transform t, transform(c));
  if (!t.length) return needs(c, 1);
  const Dim& last = c.dim(0, c.rank(0) - 1);
  if (!last.is_const()) return c.error("needs to know whether the signal is real or complex");
  ISOMER_TRY(const std::vector<Dim> dims, transform_dims(c, t));
  const bool inverse = c.flag("inverse"), half = halves(c);
  const Dim used = half ? floor_div(*t.length, Dim(2)) + Dim(1) : *t.length;
  return b.finish({b.map("y", c.dtype(0), dims, [&](auto i) {
    const auto part = [&](int64_t which) {
      return [&, which](const Expr& n) {
        std::vector<Expr> at(i.begin(), i.end());
        at[t.axis] = n;
        at.back() = Expr(which);
        const Expr x = f64(in[0].at(at));
        // The terms that mirror themselves count once, the others for their mirror images too.
        return half ? select(eq(n, Expr(0)) || eq(n * Expr(2), Expr(*t.length)), x, x * f64(2)) : x;
      };
    };
    const Expr y = fourier(b, min(used, c.dim(0, t.axis)), *t.length, i[t.axis], i.back(), inverse ? 1 : -1, part(0),
                           last == Dim(2) ? std::function<Expr(const Expr&)>(part(1)) : nullptr);
    return cast(c.dtype(0), inverse ? y / f64(Expr(*t.length)) : y);
  })});
}

// Opset 17 had the axis as an attribute, counted from the batch axis.
Expected<std::vector<ir::Value>> import_axis(ir::ForeignNode& node, ir::GraphBuilder& b) {
  if (node.version >= 20) return ir::add_as_is(node, b);
  const int64_t* axis = node.attrs.get<int64_t>("axis");
  node.inputs.resize(2, ir::Value::none());
  node.inputs.push_back(b.constant(Tensor::int_scalar(DType::I64, axis ? *axis : 1)));
  node.attrs.erase("axis");
  return ir::add_as_is(node, b);
}

}  // namespace

ir::OpDef op_dft() {
  ir::OpDef op;
  op.name = "dft";
  op.doc = "Discrete Fourier transform along one axis; the last axis holds real and imaginary parts.";
  op.inputs = {{"input", "T1", kFloats},
               {"dft_length", "T2", kIndexInts, ir::Arity::Optional},
               {"axis", "T3", DType::I64, ir::Arity::Optional}};
  op.outputs = {{"output", "T1"}};
  op.attrs = {{"inverse", AttrKind::Int, int64_t{0}}, {"onesided", AttrKind::Int, int64_t{0}}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    if (c.has(2) && !c.ints_value(2)) return std::vector{c.out(0, Shape::unknown())};
    ISOMER_TRY(const Transform t, transform(c));
    ISOMER_TRY(std::vector<Dim> dims, transform_dims(c, t));
    return std::vector{c.out(0, Shape(std::move(dims)))};
  };
  op.compute = dft;
  op.samples = {"dft(f32[1,5,1])", "dft(f32[2,6,2]){inverse=1}", "dft(f32[1,6,3,1], i64 8, i64 1){onesided=1}",
                "dft(f32[1,4,2]){inverse=1, onesided=1}", "dft(f32[2,4,2], i64 7){inverse=1, onesided=1}"};
  op.onnx = {{.type = "DFT", .since = {17, 20}, .stable = 20, .import = import_axis}};
  return op;
}

namespace {

struct Frames {
  Dim step, length;
};

// Nothing when the step or the length is not known yet.
Expected<std::optional<Frames>> frames(const ir::OpContext& c) {
  const Shape& s = c.shape(0);
  if (s.rank() != 3 && s.rank() != 2)
    return c.error(fmt::format("expected a signal of rank 3, found {}", s.to_string()));
  if (s.rank() == 3 && s[2].is_const() && s[2].value() != 1 && s[2].value() != 2)
    return c.error(fmt::format("expected a last axis of 1 (real) or 2 (complex), found {}", s[2].value()));
  if (s.rank() == 3 && s[2] == Dim(2) && c.flag("onesided"))
    return c.error("onesided needs a real signal; set onesided to 0");
  if (c.has(2) && c.rank(2) != 1)
    return c.error(fmt::format("expected a window of rank 1, found {}", c.shape(2).to_string()));
  ISOMER_TRY(const std::optional<Dim> step, extent_of(c, 1, 1));
  std::optional<Dim> length;
  if (c.has(2)) length = c.dim(2, 0);
  if (c.has(3)) {
    ISOMER_TRY(const std::optional<Dim> given, extent_of(c, 3, 1));
    if (given && length && given->is_const() && length->is_const() && !(*given == *length))
      return c.error(
          fmt::format("frame_length is {}, but the window has {} elements", given->value(), length->value()));
    if (given) length = given;
  } else if (!c.has(2)) {
    return c.error("expected a window or a frame_length, found neither");
  }
  if (!step || !length) return std::optional<Frames>();
  if (length->is_const() && (length->value() < 1 || (s[1].is_const() && length->value() > s[1].value())))
    return c.error(fmt::format("a frame of {} does not fit a signal of {} samples", length->value(), s[1].to_string()));
  return std::optional<Frames>({*step, *length});
}

std::vector<Dim> frame_dims(const ir::OpContext& c, const std::optional<Frames>& f) {
  if (!f) return {c.dim(0, 0), Dim::invalid(), Dim::invalid(), Dim(2)};
  return {c.dim(0, 0), floor_div(c.dim(0, 1) - f->length, f->step) + Dim(1),
          c.flag("onesided") ? floor_div(f->length, Dim(2)) + Dim(1) : f->length, Dim(2)};
}

Expected<te::Program> stft(const ir::OpContext& c) {
  te::Builder b;
  const auto in = c.declare(b);
  ISOMER_TRY(const std::optional<Frames> f, frames(c));
  if (!f) return c.error("needs the values of frame_step and frame_length");
  const bool complex = c.rank(0) == 3 && c.dim(0, 2) == Dim(2);
  return b.finish({b.map("y", c.dtype(0), frame_dims(c, f), [&](auto i) {
    const auto part = [&](int64_t which) {
      return [&, which](const Expr& n) {
        std::vector<Expr> at = {i[0], i[1] * Expr(f->step) + n};
        if (c.rank(0) == 3) at.emplace_back(which);
        const Expr x = f64(in[0].at(at));
        return c.has(2) ? x * f64(in[2].at({n})) : x;
      };
    };
    return cast(c.dtype(0), fourier(b, f->length, f->length, i[2], i[3], -1, part(0),
                                    complex ? std::function<Expr(const Expr&)>(part(1)) : nullptr));
  })});
}

}  // namespace

ir::OpDef op_stft() {
  ir::OpDef op;
  op.name = "stft";
  op.doc = "Fourier transforms of overlapping frames of a signal, each multiplied by a window.";
  op.inputs = {{"signal", "T1", kFloats},
               {"frame_step", "T2", kIndexInts},
               {"window", "T1", kFloats, ir::Arity::Optional},
               {"frame_length", "T2", kIndexInts, ir::Arity::Optional}};
  op.outputs = {{"output", "T1"}};
  op.attrs = {{"onesided", AttrKind::Int, int64_t{1}}};
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    ISOMER_TRY(const std::optional<Frames> f, frames(c));
    return std::vector{c.out(0, Shape(frame_dims(c, f)))};
  };
  op.compute = stft;
  op.samples = {"stft(f32[1,12,1], i64 4, f32[6])", "stft(f32[2,10,2], i64 3, _, i64 4){onesided=0}"};
  op.onnx = {{.type = "STFT", .since = {17}, .stable = 17}};
  return op;
}

namespace {

// w[n] = a0 - a1 cos(2 pi n / m) + a2 cos(4 pi n / m), where m is the size, or one less for a symmetric window.
ir::OpDef cosine_window(std::string name, std::string doc, const char* type, double a0, double a1, double a2) {
  ir::OpDef op;
  op.samples = {fmt::format("{}(i64 10)", name), fmt::format("{}(i64 7){{periodic=0, output_datatype=f64}}", name)};
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.inputs = {{"size", "T1", kIndexInts}};
  op.outputs = {{"output", "$output_datatype"}};
  op.attrs = {{"output_datatype", AttrKind::DType, DType::F32}, {"periodic", AttrKind::Int, int64_t{1}}};
  op.infer_unranked = true;
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    if (!kNumbers.contains(c.dtype_attr("output_datatype")))
      return c.error(
          fmt::format("cannot make a window of element type {}", isomer::name(c.dtype_attr("output_datatype"))));
    ISOMER_TRY(const std::optional<Dim> n, extent_of(c, 0, 0));
    return std::vector{c.out(0, {n.value_or(Dim::invalid())})};
  };
  op.compute = [a0, a1, a2](const ir::OpContext& c) -> Expected<te::Program> {
    te::Builder b;
    c.declare(b);
    ISOMER_TRY(const std::optional<Dim> n, extent_of(c, 0, 0));
    if (!n) return needs(c, 0);
    const std::vector<Dim> dims = {*n};
    return b.finish({b.map("y", c.dtype_attr("output_datatype"), dims, [&](auto i) {
      const Expr angle = f64(i[0]) / f64(Expr(c.flag("periodic") ? *n : *n - Dim(1))) * f64(kTurn);
      Expr y = f64(a0) - f64(a1) * cosine(angle);
      if (a2 != 0) y = y + f64(a2) * cosine(angle * f64(2));
      return cast(c.dtype_attr("output_datatype"), y);
    })});
  };
  op.onnx = {{.type = type, .since = {17}, .stable = 17}};
  return op;
}

}  // namespace

ir::OpDef op_hann_window() { return cosine_window("hann_window", "Hann window.", "HannWindow", 0.5, 0.5, 0); }
ir::OpDef op_hamming_window() {
  return cosine_window("hamming_window", "Hamming window.", "HammingWindow", 25.0 / 46, 21.0 / 46, 0);
}
ir::OpDef op_blackman_window() {
  return cosine_window("blackman_window", "Blackman window.", "BlackmanWindow", 0.42, 0.5, 0.08);
}

namespace {

struct MelSizes {
  std::optional<Dim> bands, length;
};

Expected<MelSizes> mel_sizes(const ir::OpContext& c) {
  MelSizes m;
  ISOMER_TRY(m.bands, extent_of(c, 0, 1));
  ISOMER_TRY(m.length, extent_of(c, 1, 1));
  for (size_t i : {2, 3, 4})
    if (c.shape(i).is_static() && !(c.shape(i).elements() == Dim(1)))
      return c.error(fmt::format("expected '{}' as one number", c.op().inputs[i].name));
  return m;
}

Expected<te::Program> mel_weights(const ir::OpContext& c) {
  te::Builder b;
  const auto in = c.declare(b);
  ISOMER_TRY(const MelSizes m, mel_sizes(c));
  if (!m.bands) return needs(c, 0);
  if (!m.length) return needs(c, 1);
  const auto scalar = [&](size_t i) { return f64(in[i].at(std::vector<Expr>(in[i].rank(), Expr(0)))); };
  const Expr log10 = f64(std::log(10.0));
  const auto mel = [&](const Expr& hertz) { return f64(2595) * (log(f64(1) + hertz / f64(700)) / log10); };
  const Dim points = *m.bands + Dim(2);
  const std::vector<Dim> edges = {points};
  // The spectrogram bin at which each band starts: equal steps on the mel scale.
  const te::Handle bin = b.map("bin", DType::I64, edges, [&](auto i) {
    const Expr low = mel(scalar(3)), step = (mel(scalar(4)) - low) / f64(Expr(points));
    const Expr hertz = f64(700) * (pow(f64(10), (f64(i[0]) * step + low) / f64(2595)) - f64(1));
    return cast(DType::I64, floor(f64(Expr(*m.length + Dim(1))) * hertz / scalar(2)));
  });
  const DType t = c.dtype_attr("output_datatype");
  const std::vector<Dim> dims = {floor_div(*m.length, Dim(2)) + Dim(1), *m.bands};
  return b.finish({b.map("y", t, dims, [&](auto i) {
    const Expr low = bin.at({i[1]}), centre = bin.at({i[1] + Expr(1)}), high = bin.at({i[1] + Expr(2)});
    const Expr falling = f64(high - i[0]) / f64(high - centre);
    const Expr rising = select(eq(centre, low), f64(1), f64(i[0] - low) / f64(centre - low));
    return cast(t,
                select(centre <= i[0] && i[0] < high, falling, select(low <= i[0] && i[0] <= centre, rising, f64(0))));
  })});
}

}  // namespace

ir::OpDef op_mel_weight_matrix() {
  ir::OpDef op;
  op.name = "mel_weight_matrix";
  op.doc = "Triangular filters, equally spaced on the mel scale, as a matrix from spectrogram bins to mel bands.";
  op.inputs = {{"num_mel_bins", "T1", kIndexInts},
               {"dft_length", "T1", kIndexInts},
               {"sample_rate", "T1", kIndexInts},
               {"lower_edge_hertz", "T2", kFloats},
               {"upper_edge_hertz", "T2", kFloats}};
  op.outputs = {{"output", "$output_datatype"}};
  op.attrs = {{"output_datatype", AttrKind::DType, DType::F32}};
  op.infer_unranked = true;
  op.infer = [](const ir::OpContext& c) -> Expected<std::vector<Type>> {
    if (!kNumbers.contains(c.dtype_attr("output_datatype")))
      return c.error(fmt::format("cannot make weights of element type {}", name(c.dtype_attr("output_datatype"))));
    ISOMER_TRY(const MelSizes m, mel_sizes(c));
    return std::vector{
        c.out(0, {floor_div(m.length.value_or(Dim::invalid()), Dim(2)) + Dim(1), m.bands.value_or(Dim::invalid())})};
  };
  op.compute = mel_weights;
  op.samples = {"mel_weight_matrix(i64 8, i64 16, i64 8192, f32[] 0, f32[] 4096)"};
  op.onnx = {{.type = "MelWeightMatrix", .since = {17}, .stable = 17}};
  return op;
}

}  // namespace isomer::ops
