"""python -m nkisim_profile tables_json FOLDER FILE: a profile's Parquet tables as its JSON.

`nkisim import-profile` and `diff-profile` read the JSON; given a folder with the tables of Neuron
Explorer (schema 7.4.0; a large table may be split into NAME_0.parquet, NAME_1.parquet, ...), they
call this. Absent values are left out.
"""

import json
import re
import sys
from pathlib import Path

# Table of the schema -> its name in the JSON.
TABLES = {"Instruction": "instruction", "DmaPacket": "dma", "DmaQueuesInfo": "dma_queues_info",
          "SemaphoreUpdate": "semaphore_update", "Throttle": "ham", "Metadata": "metadata",
          "Summary": "summary"}


class BadTables(Exception):
    """The folder has no readable tables."""


def parts(folder, table):
    """The files of a table in their order."""
    named = [(int(m.group(1) or 0), file) for file in Path(folder).glob(f"{table}*.parquet")
             if (m := re.fullmatch(rf"{table}(?:_(\d+))?", file.stem))]
    return [file for _, file in sorted(named)]


def rows(folder, table):
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise BadTables("Parquet needs the Python package pyarrow: pip install pyarrow") from None
    for file in parts(folder, table):
        try:
            for batch in parquet.ParquetFile(file).iter_batches():
                yield from batch.to_pylist()
        except (OSError, ValueError) as error:
            raise BadTables(f"{file}: {error}") from None


def convert(folder, out):
    if not parts(folder, "Instruction"):
        raise BadTables(f"{folder} has no Instruction.parquet; the folder of a profile's Parquet "
                        "tables is required")
    first = True
    out.write("{")
    for table, name in TABLES.items():
        out.write(f'{"" if first else ","}"{name}":[')
        first = False
        for n, row in enumerate(rows(folder, table)):
            out.write("," if n else "")
            json.dump({k: v for k, v in row.items() if v is not None}, out, default=str)
        out.write("]")
    out.write("}\n")


def main(words):
    if len(words) != 2:
        print("usage: python -m nkisim_profile tables_json FOLDER FILE", file=sys.stderr)
        return 2
    try:
        with open(words[1], "w", encoding="utf-8") as out:
            convert(words[0], out)
    except (BadTables, OSError) as error:
        print(f"nkisim: {error}", file=sys.stderr)
        return 3
    return 0
