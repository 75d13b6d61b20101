// Tensor data in files beside the model. A model is data from a stranger: it may name regular files below its own
// folder and nothing else. No absolute path, no "..", no link on the way, no device; checked on what was opened.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/expected.h"
#include "base/mapped_file.h"

namespace isomer::onnx {

class ExternalFiles {
 public:
  // `folder` is where the model lies; "": external data is refused.
  explicit ExternalFiles(std::string folder) : folder_(std::move(folder)) {}
  // The file at a relative location, mapped once.
  Expected<std::shared_ptr<const MappedFile>> open(const std::string& location);

 private:
  std::string folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

}  // namespace isomer::onnx
