"""Shows how an AI agent uses `nkisim mcp`: it has ten kernels tested and timed, and asks about errors.

    python examples/search/agent.py
"""

import asyncio
import itertools
from pathlib import Path

from mcp import Client, StdioServerParameters, stdio_client

from nkisim_work import program
from variants import variants

HERE = Path(__file__).parent


async def main():
    server = StdioServerParameters(command=program(), args=[
        "mcp", "--reference", str(HERE / "reference.py"), "--target", "trn2"])
    async with Client(stdio_client(server)) as agent:
        right = []
        for kernel in itertools.islice(variants(), 10):
            said = (await agent.call_tool("evaluate", {"source": kernel["source"]})).structured_content
            print(f"{kernel['id']}: {said['status']}", said.get("latency_us", ""))
            if said["status"] == "illegal":
                meaning = (await agent.call_tool("explain", {"name": said["error"]["kind"]})).structured_content
                print(f"  {said['error']['message']}\n  {meaning['cause']}")
            if said["status"] == "ok":
                right.append((said["latency_us"], kernel))
        right.sort(key=lambda r: r[0])
        best, worst = right[0][1], right[-1][1]
        said = await agent.call_tool("compare", {"before": worst["source"], "after": best["source"]})
        print(f"{worst['id']} -> {best['id']}: {said.structured_content['times_faster']:.2f} times faster")


if __name__ == "__main__":
    asyncio.run(main())
