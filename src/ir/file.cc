#include "ir/file.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "base/mapped_file.h"
#include "ir/verify.h"

namespace isomer::ir {
namespace {

Expected<void> write_text(const std::string& text, const std::string& path) {
  const std::string beside = path + ".part";
  std::error_code failed;
  {
    std::ofstream file(beside, std::ios::binary | std::ios::trunc);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    file.close();
    if (!file) return Diagnostic("E-file", fmt::format("cannot write {}", isomer::quoted(beside)));
  }
  std::filesystem::rename(beside, path, failed);
  if (failed) return Diagnostic("E-file", fmt::format("cannot write {}: {}", isomer::quoted(path), failed.message()));
  return {};
}

}  // namespace

Expected<void> save_text(const Graph& graph, const std::string& path) {
  ConstantPool pool;
  const std::string text = print(graph, &pool);
  const std::string weights = path + ".weights";
  if (pool.tensors().empty()) {
    std::error_code ignored;  // what an older save left there has no meaning any more
    std::filesystem::remove(weights, ignored);
  } else {
    ISOMER_CHECK_OK(save_weights(pool, weights));
  }
  return write_text(text, path);
}

Expected<Graph> load_text(const std::string& path, const OpTable& table) {
  ISOMER_TRY(const auto file, MappedFile::open(path));
  const std::string weights = path + ".weights";
  ConstantPool pool;
  std::error_code ignored;
  if (std::filesystem::exists(weights, ignored)) {
    ISOMER_TRY(pool, load_weights(weights));
  }
  const auto bytes = file->bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  ISOMER_TRY(Graph g, parse(text, table, &pool, path));
  ISOMER_CHECK_OK(verify_structure(g));
  return g;
}

}  // namespace isomer::ir
