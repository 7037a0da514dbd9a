"""Searches for the fastest kernel in an event loop: each proposal uses the results so far.

    python examples/search/climb.py
"""

import asyncio
from pathlib import Path

import nkisim
from variants import LAST, SOURCE

ROWS = (32, 64, 128, 256)


async def climb():
    """Doubles the rows as long as that is legal and faster; the best record."""
    records, best = asyncio.Queue(), None

    async def proposals():
        nonlocal best
        for rows in ROWS:
            yield {"id": f"{rows} rows", "source": SOURCE.format(rows=rows, dtype="float32", last=LAST[0])}
            record = await records.get()
            if record["status"] != "ok" or best and record["latency_us"] >= best["latency_us"]:
                return
            best = record

    async for record in nkisim.evaluate_async(Path(__file__).parent / "reference.py", proposals(), jobs=1,
                                              target="trn2"):
        print(f"{record['id']}: {record['status']}"
              + (f", {record['latency_us']:.3f} us" if record["latency_us"] else ""))
        records.put_nowait(record)
    return best


if __name__ == "__main__":
    best = asyncio.run(climb())
    print("best:", best["id"] if best else "none")
