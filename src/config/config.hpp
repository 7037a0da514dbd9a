// Collects the functions that load machine descriptions (configs/*.json): the public header of
// src/config.
//
//   load_config(name or path)        a description with what it inherits, as the models' structs
//   config_names()                   those that are built in
//   load_config_json, apply_override, parse_config    the same in steps
//   size_overrides(overrides)        the sizes that programs are made for
//   config_schema()                  what a description may hold, as a JSON Schema
//
// Within: config_reader walks the JSON and knows which keys were used, config_sections is the table
// of values (configs/config.def), config_values reads them, config_parse fills the structs, and
// embedded_configs holds the files of configs/.
#pragma once

#include "src/config/config_json.hpp"
