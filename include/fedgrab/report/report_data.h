/// The data of the page: the runs as JSON, curves thinned so that the page stays small. web/src/report.ts is its
/// schema.
#pragma once

#include <span>

#include "fedgrab/report/run.h"

namespace fedgrab {

Json report_data(std::span<const Run> runs);

}  // namespace fedgrab
