/// The program without LibTorch: it reads runs and trains none.
#include "commands.h"
#include "fedgrab/core/error.h"

namespace fedgrab::cli {
namespace {

/// Not in the help; calling it prints what to do.
void add_absent(CLI::App& app, const std::string& name) {
  auto* command = app.add_subcommand(name)->group("");
  command->allow_extras();
  command->set_help_flag();
  command->callback([name] {
    throw Error(Fault::usage, "fedgrab " + name, "this program was built without LibTorch",
                "configure with -DFEDGRAB_TORCH=ON and build again; docs/dependencies.md names what it takes");
  });
}

}  // namespace

void add_demo(CLI::App& app) { add_absent(app, "demo"); }
void add_run(CLI::App& app, Communicator& /*ranks*/) { add_absent(app, "run"); }
void add_sweep(CLI::App& app) { add_absent(app, "sweep"); }
void add_reproduce(CLI::App& app) { add_absent(app, "reproduce"); }
void add_eval(CLI::App& app) { add_absent(app, "eval"); }
void add_predict(CLI::App& app) { add_absent(app, "predict"); }
void add_export(CLI::App& app) { add_absent(app, "export"); }
void add_init(CLI::App& app) { add_absent(app, "init"); }
void add_data(CLI::App& app) { add_absent(app, "data"); }
void add_bench(CLI::App& app) { add_absent(app, "bench"); }
void add_params(CLI::App& app) { add_absent(app, "params"); }
void add_completion(CLI::App& app) { add_absent(app, "completion"); }

std::string libtorch_text() { return "built without LibTorch"; }

std::string gpu_text() { return ""; }

std::string first_steps() { return "Built without LibTorch: it shows the runs that another program has trained."; }

}  // namespace fedgrab::cli
