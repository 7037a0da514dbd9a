// Collects the functions that make reports on a simulated run: the public header of src/report.
//
//   Reports                          a run's files: which observers they need, and writing them
//   Totals, latency                  what a run comes to over all its cores and ranks
//   Confidence                       how far to trust a latency
//   try_switches                     what the compiler's choices would change
//   Budget, junit_xml                limits of a run's metrics, and how it kept them
//   stop_at                          a run as it is at one instant: values, who waits for what
//   print_explanation, verdict       where the time went, in words
//   metrics, find_metric, find_kind, rules_about what metrics and rules mean
//   rule_of_message                  which rule a message is of
//   op_json, catalogue_json, ...     the instruction table as documents
//   error_json                       an error for programs
//   race_lines, race_json            what the check for races found
//   block_tree, block_svg            the modules of a chip
//
// Within: each report is an observer (summary, accounting, session, timeline, occupancy, waves);
// timelines go through a TimelineWriter per file format, waves through a Vcd, and what_if runs
// again with another config.
#pragma once

#include "src/report/block_diagram.hpp"
#include "src/report/budget.hpp"
#include "src/report/confidence.hpp"
#include "src/report/error_json.hpp"
#include "src/report/explain.hpp"
#include "src/report/glossary.hpp"
#include "src/report/isa_catalogue.hpp"
#include "src/report/messages.hpp"
#include "src/report/race_report.hpp"
#include "src/report/reports.hpp"
#include "src/report/sources.hpp"
#include "src/report/stop.hpp"
#include "src/report/stops.hpp"
#include "src/report/switches.hpp"
#include "src/report/totals.hpp"
