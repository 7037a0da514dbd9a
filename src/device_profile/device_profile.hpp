// Collects the functions for profiles that neuron-profile recorded on a device: the public header
// of src/device_profile.
//
//   read_hw_profile(path)            a decoded profile's tables as records
//   import_profile(profile)          a profile as a program that can be simulated
//   timed_run, diff_runs             a simulated run next to the profiled one
//
// Within: one file per question a profile leaves open (profile_body, profile_operands,
// profile_addresses, profile_dma, profile_semaphores), and align matches two instruction streams.
#pragma once

#include "src/device_profile/hw_profile.hpp"
#include "src/device_profile/profile_diff.hpp"
#include "src/device_profile/profile_import.hpp"
