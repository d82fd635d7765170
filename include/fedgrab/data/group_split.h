/// Holds samples out for testing or validation without separating those that belong together, such as the images of one
/// patient.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fedgrab {

/// Whether a class of which the share is less than one sample has one held out all the same.
enum class OfEveryClass { share, one_at_least };

/// True for the samples to hold out: all samples of a group or none, and of every class as near to `fraction` as whole
/// groups allow. A class keeps at least one sample on the other side; one whose samples are all of one group stays
/// there. Labels and groups are numbers from 0 on, one for each sample.
std::vector<bool> hold_out_groups(std::span<const int32_t> labels, std::span<const int32_t> groups, double fraction,
                                  OfEveryClass least, uint64_t seed);

}  // namespace fedgrab
