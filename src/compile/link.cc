#include "compile/link.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "compile/elf.h"

extern char** environ;

namespace isomer::compile {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLibc[] = {"abort",         "calloc",
                                      "clock_gettime", "close",
                                      "free",          "getauxval",
                                      "getenv",        "madvise",
                                      "malloc",        "memchr",
                                      "memcmp",        "memcpy",
                                      "memmove",       "memset",
                                      "mmap",          "mprotect",
                                      "munmap",        "open",
                                      "qsort",         "read",
                                      "realloc",       "sched_getaffinity",
                                      "snprintf",      "strcmp",
                                      "strlen",        "strncmp",
                                      "strstr",        "syscall",
                                      "vsnprintf"};
constexpr std::string_view kPthread[] = {"pthread_create", "pthread_join"};
constexpr std::string_view kMath[] = {
    "acos",   "acosf",   "acosh",     "acoshf",     "asin",   "asinf", "asinh", "asinhf",    "atan",       "atan2",
    "atan2f", "atanf",   "atanh",     "atanhf",     "cbrt",   "cbrtf", "ceil",  "ceilf",     "copysign",   "copysignf",
    "cos",    "cosf",    "cosh",      "coshf",      "erf",    "erfc",  "erfcf", "erff",      "exp",        "exp2",
    "exp2f",  "expf",    "expm1",     "expm1f",     "fabs",   "fabsf", "floor", "floorf",    "fma",        "fmaf",
    "fmax",   "fmaxf",   "fmin",      "fminf",      "fmod",   "fmodf", "ldexp", "ldexpf",    "lgamma",     "lgammaf",
    "log",    "log10",   "log10f",    "log1p",      "log1pf", "log2",  "log2f", "logf",      "nearbyint",  "nearbyintf",
    "pow",    "powf",    "remainder", "remainderf", "rint",   "rintf", "round", "roundeven", "roundevenf", "roundf",
    "sin",    "sinf",    "sinh",      "sinhf",      "sqrt",   "sqrtf", "tan",   "tanf",      "tanh",       "tanhf",
    "tgamma", "tgammaf", "trunc",     "truncf"};

// A folder for the time of one link.
class WorkFolder {
 public:
  WorkFolder() {
    const char* base = std::getenv("TMPDIR");
    path_ = std::string(base && *base ? base : "/tmp") + "/isomer-XXXXXX";
    made_ = ::mkdtemp(path_.data()) != nullptr;
  }
  ~WorkFolder() {
    std::error_code ignored;
    if (made_) fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  bool made() const { return made_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  bool made_ = false;
};

bool write_file(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return file.good();
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

bool is_program(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

// -1 when the program could not be started, else its exit status.
int run(const std::vector<std::string>& words, const std::string& error_file) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  if (posix_spawn_file_actions_init(&actions) != 0) return -1;
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, error_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child = 0;
  const int failed = posix_spawn(&child, words[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return -1;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

// What the linker said, in one line.
std::string first_line(const std::string& text) {
  const size_t end = text.find('\n');
  return printable(text.substr(0, end), 300);
}

Diagnostic cannot_write(const std::string& path) {
  return {"E-file", "The file " + isomer::quoted(path) + " cannot be written: " + std::strerror(errno) + "."};
}

}  // namespace

Expected<std::string> find_linker() {
  if (const char* chosen = std::getenv("ISOMER_LINKER"); chosen && *chosen) {
    if (is_program(chosen)) return std::string(chosen);
    return Diagnostic("E-linker",
                      "ISOMER_LINKER is " + isomer::quoted(chosen) + ", which is no program; give the path of ld.lld.");
  }
  std::vector<std::string> folders;
  const char* path = std::getenv("PATH");
  std::istringstream list(path ? path : "");
  for (std::string folder; std::getline(list, folder, ':');) folders.push_back(folder);
  folders.insert(folders.end(), {"/usr/lib/llvm-19/bin", "/usr/local/lib/llvm-19/bin", "/usr/bin"});
  for (const char* name : {"ld.lld-19", "ld.lld"}) {
    for (const std::string& folder : folders) {
      std::string candidate = folder + "/" + name;
      if (!folder.empty() && is_program(candidate)) return candidate;
    }
  }
  return Diagnostic(
      "E-linker",
      "A module needs LLVM's linker, and neither ld.lld-19 nor ld.lld was found; install the package lld-19, or "
      "give its path in ISOMER_LINKER.");
}

Expected<std::string> link_shared(loop::Arch arch, const std::vector<LinkInput>& objects) {
  ISOMER_TRY(const std::string linker, find_linker());
  const WorkFolder folder;
  if (!folder.made()) {
    return Diagnostic("E-file", "No folder for temporary files can be made; set TMPDIR to one that can be written.");
  }
  std::vector<std::string> words = {linker,
                                    "-m",
                                    arch == loop::Arch::X86_64 ? "elf_x86_64" : "aarch64linux",
                                    "-shared",
                                    "--no-undefined",
                                    "--as-needed",
                                    "--hash-style=gnu",
                                    "--build-id=none",
                                    "--threads=1",
                                    "-z",
                                    "relro",
                                    "-z",
                                    "now",
                                    "-z",
                                    "noexecstack",
                                    "-o",
                                    folder.file("module.so")};
  for (size_t i = 0; i < objects.size(); ++i) {
    const std::string path = folder.file(std::to_string(i) + ".o");
    if (!write_file(path, objects[i].bytes)) return cannot_write(path);
    words.push_back(path);
  }
  const auto stub = [&](const char* name, std::span<const std::string_view> symbols) {
    words.push_back(folder.file(name));
    return write_file(words.back(), stub_library(arch, name, symbols));
  };
  if (!stub("libpthread.so.0", kPthread) || !stub("libm.so.6", kMath) || !stub("libc.so.6", kLibc)) {
    return cannot_write(words.back());
  }
  const int status = run(words, folder.file("errors"));
  if (status < 0) return Diagnostic("E-linker", "The linker " + isomer::quoted(linker) + " cannot be started.");
  std::string library = status == 0 ? read_file(folder.file("module.so")) : std::string();
  if (!library.empty()) return library;
  Diagnostic failed("E-linker", "The linker failed: " + first_line(read_file(folder.file("errors"))));
  for (size_t i = 0; i < objects.size(); ++i) {
    if (failed.message.find("/" + std::to_string(i) + ".o") != std::string::npos) {
      failed.note(std::to_string(i) + ".o is " + objects[i].name);
    }
  }
  return failed;
}

}  // namespace isomer::compile
