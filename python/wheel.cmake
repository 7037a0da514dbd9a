# Lists what a wheel of nkisim contains (pip install ., scripts/wheels).
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME wheel)
install(TARGETS nkisim_python LIBRARY DESTINATION nkisim)
# Names of its own alone: whatever else is installed keeps its files, also when this is uninstalled.
install(DIRECTORY nkisim nkisim_adapters nkisim_advise nkisim_debug nkisim_editor nkisim_evaluate nkisim_kernels nkisim_model nkisim_profile nkisim_validation
        nkisim_work DESTINATION .
        FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed" PATTERN "*.json" PATTERN "*.html"
        PATTERN "*.js" PATTERN "public_api.txt" PATTERN "torch_native.cpp")
# The validation table goes next to its command, in the folders in which the source tree has it.
set(TABLE nkisim_validation/table)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/validation DESTINATION ${TABLE}
        FILES_MATCHING PATTERN "*.py" PATTERN "measurements.json"
        PATTERN "leave_one_out.json" PATTERN "held_out.json" PATTERN "public.json"
        PATTERN "replay.json" PATTERN "*.json.gz"
        PATTERN "LICENSE")
install(FILES ${CMAKE_SOURCE_DIR}/traces/builder.py DESTINATION ${TABLE}/traces)
# The names that kernels import are found here by a process that asks for them (nkisim/tools/install.py),
# with NKI_SIMULATOR=1 as it starts.
install(DIRECTORY nki neuronxcc nki_cpu_simulator neuron_dtypes torch_neuronx jax_neuronx
        DESTINATION nkisim/packages
        FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed")
# To which messages lead where no site is known (nkisim/values/links.py).
install(FILES ${CMAKE_SOURCE_DIR}/docs/mistakes.md DESTINATION nkisim/docs)
install(FILES nkisim_simulator.pth DESTINATION .)
install(TARGETS nkisim RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR})
