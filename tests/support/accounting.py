"""Checks the rules for reports of where the simulated time went (nkisim run --accounting-json)."""

import json


def check(path):
    """The parts of the file sum to the run, by engine, by queue and over the instructions."""
    accounting = json.loads(path.read_text())
    end, whole = accounting["end_fs"], 0
    for core in accounting["cores"]:
        rows = {}
        for row in core["instructions"]:
            engine = "Tensor" if row["row"] == "TensorMatrix" else row["row"]
            rows[engine] = rows.get(engine, 0) + sum(row["fs"].values())
        for name, engine in core["engines"].items():
            total = engine["total_fs"]
            assert sum(total.values()) == end, name
            idle = sum(fs for cause, fs in total.items() if cause.startswith(("idle", "unfinished")))
            assert rows.get(name, 0) == end - idle, name
            assert sum(sum(c.values()) for c in engine["by_line_fs"].values()) == end - idle
            assert sum(sum(c.values()) for c in engine["by_opcode_fs"].values()) == end - idle
            whole += end
        for name, queue in core["dma_queues"].items():
            assert sum(queue["total_fs"].values()) == end, name
        path_rows = core["critical_path"]
        assert all(a["to_fs"] == b["from_fs"] for a, b in zip(path_rows, path_rows[1:]))
        if path_rows:
            assert path_rows[0]["from_fs"] == 0
            assert len(accounting["cores"]) > 1 or path_rows[-1]["to_fs"] == end
    assert whole > 0
    return accounting
