"""Fills the tables of AWS's Neuron Explorer (schema 7.4.0) from the profile of a simulated run.

Every value is from the simulated run. Columns the schema requires but a simulation does not have
hold an empty text or 0; optional ones are null. Time stamps are whole nanoseconds from the start.
Each function takes a Session (the events of a run) and gives its columns by name, all of one length.
"""

from .barriers import core_barriers
from .collectives import cc_instruction, cc_op, cc_stream
from .common import SCHEMA, VERSION
from .dma import (dma_packet, dma_packet_aggregated, dma_queues_info, dma_usage, hbm_usage,
                  pending_dma)
from .engines import active_time, flow, instruction, opcode_summary, semaphore_update
from .memory import hbm_usage_by_type, psum_usage, sbuf_allocation, sbuf_usage, tensor_info
from .run import execution_info, metadata, schema_fields, summary, warnings
from .source import (kernel_instructions, kernel_stack_frames, stack_frame,
                     stack_frame_file_location, stack_frame_file_name, stack_frame_function_name)
from .throttle import throttle, throttle_summary

__all__ = ["SCHEMA", "TABLES", "VERSION"]

TABLES = {
    "Summary": summary, "Instruction": instruction, "DmaPacket": dma_packet,
    "DmaPacketAggregated": dma_packet_aggregated, "ActiveTime": active_time,
    "SemaphoreUpdate": semaphore_update, "DmaUsage": dma_usage, "PendingDma": pending_dma,
    "DmaQueuesInfo": dma_queues_info, "SbufUsage": sbuf_usage,
    "SbufAllocation": sbuf_allocation, "PsumUsage": psum_usage, "HbmUsage": hbm_usage,
    "HbmUsageSummaryByType": hbm_usage_by_type, "OpcodeSummary": opcode_summary, "Flow": flow,
    "CcOp": cc_op, "CcInstruction": cc_instruction, "CcStream": cc_stream,
    "CoreBarriers": core_barriers, "Throttle": throttle, "ThrottleSummary": throttle_summary,
    "KernelInstructions": kernel_instructions, "KernelStackFrames": kernel_stack_frames,
    "StackFrame": stack_frame, "StackFrameFileLocation": stack_frame_file_location,
    "StackFrameFileName": stack_frame_file_name,
    "StackFrameFunctionName": stack_frame_function_name, "TensorInfo": tensor_info,
    "Warning": warnings, "Metadata": metadata, "ExecutionInfo": execution_info,
    "SchemaFields": schema_fields,
}
