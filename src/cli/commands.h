/// One function per subcommand: each adds itself and what it does when called.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "fedgrab/core/communicator.h"

namespace fedgrab::cli {

void add_demo(CLI::App& app);
void add_run(CLI::App& app, Communicator& ranks);
void add_sweep(CLI::App& app);
void add_reproduce(CLI::App& app);
void add_report(CLI::App& app);
void add_watch(CLI::App& app);
void add_table(CLI::App& app);
void add_eval(CLI::App& app);
void add_predict(CLI::App& app);
void add_export(CLI::App& app);
void add_init(CLI::App& app);
void add_data(CLI::App& app);
void add_data_get(CLI::App& data);
void add_bench(CLI::App& app);
void add_params(CLI::App& app);
void add_version(CLI::App& app);
void add_completion(CLI::App& app);

/// "0.1.0 (REVISION), LibTorch 1.13.1": what made a result.
std::string revision_text();

/// "LibTorch 1.13.1", and where it can compute besides the CPU: "; cuda, 1 GPU" or nothing.
std::string libtorch_text();
std::string gpu_text();
/// What the help suggests to begin with.
std::string first_steps();

}  // namespace fedgrab::cli
