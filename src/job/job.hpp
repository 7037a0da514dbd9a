// Collects the functions for jobs, which are simulation runs described as data: the public header
// of src/job.
//
//   Job, Outcome                     one run as plain data, and what came of it; JSON both ways
//   run(job, ...)                    the one place where a run is put together
//   RunListener, RunArtifacts        who follows it, and its results that are no plain data
//   Execution                        the middle of every run: ranks that are given already
//   Programs                         programs read and compiled, kept for the jobs that follow
//   DebugRun                         a run that is looked at at one instant after the other
//   config_for                       the machine that a program and some options name
//
// Within: runner has the steps of a run, files what it reads and writes, limits what it may take.
#pragma once

#include "src/job/data.hpp"
#include "src/job/debug_run.hpp"
#include "src/job/execution.hpp"
#include "src/job/limits.hpp"
#include "src/job/programs.hpp"
#include "src/job/run.hpp"
