// isomer: the command line. Exit codes: 0 done, 1 the answer is no, 2 wrong input or usage, 3 our bug.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <iostream>
#include <new>
#include <optional>

#include "base/diagnostic.h"
#include "build_info.h"
#include "isomer/command.h"

namespace isomer::tool {

const std::vector<Command>& commands() {
  static const std::vector<Command> all = {
      {"run", "Run a model on given or random inputs",
       "  isomer run zoo:tiny\n"
       "  isomer run model.onnx --input x=image.npy --output-dir out\n"
       "  isomer run bert.onnx --dim batch=1 --dim sequence=16 --seed 7\n"
       "  isomer run model.onnx --reference\n"
       "  isomer run model.so\n",
       declare_run},
      {"optimize", "Find a faster form of a model by proved rewrites, and check it",
       "  isomer optimize model.onnx -o faster.onnx\n"
       "  isomer optimize zoo:nasrnn --budget 30s --trace nasrnn.json\n"
       "  isomer optimize zoo:nasrnn --replay nasrnn.json -o nasrnn.onnx\n"
       "  isomer optimize bert.onnx --dim batch=1 --dim sequence=128 --input input_ids=ids.npy -o bert_fast.onnx\n",
       declare_optimize},
      {"compile", "Compile a model into one library that runs without Isomer",
       "  isomer compile model.onnx -o model.so\n"
       "  isomer compile zoo:resnet50 --target x86-64-v4,x86-64-v3 -o resnet50.so\n"
       "  isomer compile bert.onnx --dim batch=1 --dim sequence=128 --target aarch64 -o bert.so\n",
       declare_compile},
      {"bench", "How fast is a model, and how exact?",
       "  isomer bench zoo:resnet50\n"
       "  isomer bench model.onnx --threads 1 --duration 10 --profile\n"
       "  isomer bench bert.onnx --dim batch=1 --dim sequence=128 --json\n"
       "  isomer bench model.so --against model.onnx\n",
       declare_bench},
      {"show", "Show what is in a model",
       "  isomer show model.onnx\n"
       "  isomer show zoo:resnet50 --json\n"
       "  isomer show model.onnx --text > model.iso\n",
       declare_show},
      {"compare", "Are two models the same function? Does a model agree with its own meaning, or with a test data set?",
       "  isomer compare model.onnx\n"
       "  isomer compare model.onnx optimised.onnx --rtol 1e-4\n"
       "  isomer compare model.onnx --data test_data_set_0\n",
       declare_compare},
      {"convert", "Write a model in another format (.onnx, .iso)",
       "  isomer convert model.onnx model.iso\n"
       "  isomer convert model.iso model.onnx\n",
       declare_convert},
      {"check", "Is a model well formed, and can Isomer run all of it?", "  isomer check model.onnx\n", declare_check},
      {"cost", "What a model costs by kernel, and the store of measured kernels",
       "  isomer cost show zoo:squeezenet1_1 --threads 1\n"
       "  isomer cost show zoo:resnet50 --measure --json\n"
       "  isomer cost show zoo:bert_base --estimate\n"
       "  isomer cost show\n"
       "  isomer cost export times.db\n"
       "  isomer cost import times.db\n"
       "  isomer cost clear\n",
       declare_cost},
      {"zoo", "Write a benchmark network",
       "  isomer zoo resnet50 -o resnet50.onnx\n"
       "  isomer zoo bert_base --layers 2 --sequence 32 -o bert.onnx\n"
       "  isomer zoo --list\n",
       declare_zoo},
      {"ops", "List the supported operators with their opsets and element types",
       "  isomer ops\n"
       "  isomer ops conv\n",
       declare_ops},
      {"passes", "List the graph passes, or run some on a model",
       "  isomer passes list\n"
       "  isomer passes run zoo:resnet50 --time\n"
       "  isomer passes run model.onnx --passes fold_constants,dead_code -o smaller.onnx\n"
       "  isomer passes run model.onnx --bisect\n",
       declare_passes},
      {"rules", "List, show, prove, explain and find graph rewrites",
       "  isomer rules list\n"
       "  isomer rules list --family conv --json\n"
       "  isomer rules show merge-convs\n"
       "  isomer rules verify my.rules --write\n"
       "  isomer rules explain merge-convs\n"
       "  isomer rules generate --set taso --size 3 -o found.rules\n",
       declare_rules},
      {"rewrite", "Apply rules to a model by hand",
       "  isomer rewrite zoo:inception_v3 --rule merge-convs-with-relu -o merged.onnx\n"
       "  isomer rewrite model.onnx --rule pad-into-conv --at conv1 -o out.iso\n"
       "  isomer rewrite model.onnx --rule batch-norm-into-conv --explain\n",
       declare_rewrite},
      {"completion", "Print a completion script for bash, zsh or fish", "  source <(isomer completion bash)\n",
       declare_completion},
  };
  return all;
}

void print_warnings(const std::vector<std::string>& warnings) {
  for (const std::string& w : warnings) fmt::print(stderr, "warning: {}\n", printable(w, 2000));
}

namespace {

std::string version_text() {
  std::string out = fmt::format("isomer {} ({})\n  built with {} for {}, {}\n  features: {}", build_info::version,
                                build_info::commit, build_info::compiler, build_info::platform, build_info::build_type,
                                fmt::join(build_info::features, " "));
  return out;
}

nlohmann::ordered_json error_json(const Diagnostic& d) {
  nlohmann::ordered_json e;
  e["code"] = d.code;
  e["message"] = printable(d.message, 2000);
  if (!d.where.file.empty() || d.where.line)
    e["where"] = {{"file", printable(d.where.file)}, {"line", d.where.line}, {"column", d.where.column}};
  e["notes"] = nlohmann::json::array();
  for (const std::string& n : d.notes) e["notes"].push_back(printable(n, 2000));
  return {{"error", e}};
}

std::string dump(const nlohmann::ordered_json& j) {
  return j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

int finish(const Expected<Answer>& answer, bool json) {
  if (!answer.ok()) {
    if (json) fmt::print("{}\n", dump(error_json(answer.error())));
    fmt::print(stderr, "{}\n", answer.error().to_string());
    return 2;
  }
  if (json)
    fmt::print("{}\n", dump(answer->json));
  else if (!answer->text.empty())
    fmt::print("{}", answer->text);
  // A full disk or a closed pipe must not look like success.
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    fmt::print(stderr, "error[E-write]: the output could not be written\n");
    return 2;
  }
  return answer->exit_code;
}

int run(int argc, char** argv) {
  CLI::App app{"Isomer: reads, runs, compares and converts ONNX models by one meaning per operator.", "isomer"};
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  app.footer(
      "MODEL is an .onnx file, an .iso text file, or zoo:NAME (options: zoo:resnet18,batch=4,image=64).\n"
      "Exit codes: 0 done, 1 the answer is no, 2 wrong input or usage, 3 a bug of ours.\n"
      "isomer COMMAND --help shows a command's options and examples.");
  bool json = false;
  std::optional<Action> chosen;
  for (const Command& c : commands()) {
    CLI::App* sub = app.add_subcommand(c.name, c.summary);
    sub->footer("Examples:\n" + c.examples);
    sub->add_flag("--json", json, "Print the result as JSON");
    Action action = c.declare(*sub);
    sub->callback([&chosen, action = std::move(action)] { chosen = action; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  return chosen ? finish((*chosen)(), json) : 2;
}

}  // namespace
}  // namespace isomer::tool

int main(int argc, char** argv) {
  try {
    return isomer::tool::run(argc, argv);
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "error[E-memory]: there is not enough memory for this model\n");
    return 2;
  } catch (const std::exception& e) {
    fmt::print(
        stderr,
        "isomer: internal error: {}\nThis is a bug in Isomer; please report it with the command and the model.\n",
        e.what());
    return 3;
  }
}
