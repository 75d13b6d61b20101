#include "driver/module_file.h"

#include <algorithm>
#include <cstring>

#include "ops/table.h"

namespace isomer::driver {

namespace {

struct NumberedType {
  int32_t number;
  DType dtype;
};
constexpr NumberedType kTypes[] = {
    {ISO_F32, DType::F32}, {ISO_U8, DType::U8},   {ISO_I8, DType::I8},     {ISO_U16, DType::U16}, {ISO_I16, DType::I16},
    {ISO_I32, DType::I32}, {ISO_I64, DType::I64}, {ISO_BOOL, DType::Bool}, {ISO_F16, DType::F16}, {ISO_F64, DType::F64},
    {ISO_U32, DType::U32}, {ISO_U64, DType::U64}, {ISO_BF16, DType::BF16}};

int32_t number_of(DType type) {
  for (const NumberedType& t : kTypes) {
    if (t.dtype == type) return t.number;
  }
  return 0;
}

Diagnostic failure(const char* code, const iso_error& error) { return {code, error.message}; }

Expected<ModuleFile::Port> port_of(const iso_tensor* tensor) {
  ModuleFile::Port port;
  port.name = tensor->name;
  port.dtype = DType::Opaque;
  for (const NumberedType& t : kTypes) {
    if (t.number == tensor->dtype) port.dtype = t.dtype;
  }
  port.dims.assign(tensor->dims, tensor->dims + tensor->rank);
  if (port.dtype == DType::Opaque) {
    return Diagnostic("E-module",
                      "The tensor " + isomer::quoted(port.name) + " of the module has an unknown element type.");
  }
  ISOMER_CHECK_OK(checked_elements(port.dtype, port.dims));
  return port;
}

iso_buffer buffer_of(const Tensor& tensor, void* data) {
  return {data,
          tensor.byte_size(),
          nullptr,
          tensor.dims().data(),
          static_cast<int32_t>(tensor.rank()),
          number_of(tensor.dtype())};
}

}  // namespace

bool is_module_name(std::string_view spec) { return spec.ends_with(".so") && !spec.starts_with("zoo:"); }

Expected<std::shared_ptr<const ModuleFile>> ModuleFile::open(const std::string& path, bool verify) {
  iso_error error{};
  iso_model* model = iso_open(path.c_str(), verify ? ISO_VERIFY : 0, &error);
  if (!model) return failure("E-module", error);
  std::shared_ptr<ModuleFile> file(new ModuleFile(model));
  iso_describe(model, &file->info_, nullptr);
  for (uint32_t s = 0; s < iso_size_count(model); ++s) {
    Ports& ports = file->sizes_.emplace_back();
    for (uint32_t i = 0; i < file->info_.inputs; ++i) {
      ISOMER_TRY(Port port, port_of(iso_input_at(model, s, i)));
      ports.inputs.push_back(std::move(port));
    }
    for (uint32_t i = 0; i < file->info_.outputs; ++i) {
      ISOMER_TRY(Port port, port_of(iso_output_at(model, s, i)));
      ports.outputs.push_back(std::move(port));
    }
  }
  return std::shared_ptr<const ModuleFile>(std::move(file));
}

ModuleFile::~ModuleFile() { iso_close(model_, nullptr); }

const std::vector<ModuleFile::Port>& ModuleFile::outputs_for(const std::vector<Tensor>& inputs) const {
  for (const Ports& ports : sizes_)
    if (std::equal(inputs.begin(), inputs.end(), ports.inputs.begin(), ports.inputs.end(),
                   [](const Tensor& t, const Port& p) { return t.dims() == p.dims; }))
      return ports.outputs;
  return outputs();
}

Expected<ir::Graph> ModuleFile::input_graph() const {
  ir::GraphBuilder builder(ops::table(), info_.model);
  for (const Port& port : inputs()) {
    ISOMER_TRY([[maybe_unused]] const ir::Value value,
               builder.input(port.name, {port.dtype, Shape::of(port.dims), nullptr}));
  }
  return std::move(builder).finish();
}

Expected<ModuleRun> ModuleRun::make(std::shared_ptr<const ModuleFile> file, int threads, uint32_t flags) {
  iso_error error{};
  iso_context* context = iso_new_context(file->model_, threads, flags, &error);
  if (!context) return failure("E-run", error);
  return ModuleRun(std::move(file), context);
}

ModuleRun::~ModuleRun() { iso_free_context(context_, nullptr); }

Expected<std::vector<Tensor>> ModuleRun::run(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> outputs;
  for (const ModuleFile::Port& port : file_->outputs_for(inputs)) outputs.emplace_back(port.dtype, port.dims);
  ISOMER_CHECK_OK(run_into(inputs, outputs));
  for (uint32_t k = 0; k < outputs.size(); ++k) {
    const iso_tensor* tensor = iso_output(file_->model_, k);
    if (!tensor->varies) continue;
    std::vector<int64_t> dims(static_cast<size_t>(tensor->rank));
    iso_output_dims(context_, k, dims.data(), nullptr);
    Tensor found(outputs[k].dtype(), dims);
    if (found.byte_size() > 0) std::memcpy(found.mutable_bytes(), outputs[k].bytes(), found.byte_size());
    outputs[k] = std::move(found);
  }
  return outputs;
}

Expected<void> ModuleRun::run_into(const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) {
  std::vector<iso_buffer> in, out;
  for (const Tensor& t : inputs) in.push_back(buffer_of(t, const_cast<std::byte*>(t.bytes())));  // never written
  for (Tensor& t : outputs) out.push_back(buffer_of(t, t.mutable_bytes()));
  iso_error error{};
  const int code = iso_run(context_, in.data(), static_cast<uint32_t>(in.size()), out.data(),
                           static_cast<uint32_t>(out.size()), &error);
  if (code != ISO_OK) return failure("E-run", error);
  return {};
}

std::vector<iso_profile> ModuleRun::profile() const {
  std::vector<iso_profile> steps;
  iso_profile step{};
  for (uint32_t i = 0; i < file_->info().steps; ++i) {
    if (iso_step_profile(context_, i, &step, nullptr) == ISO_OK) steps.push_back(step);
  }
  return steps;
}

}  // namespace isomer::driver
