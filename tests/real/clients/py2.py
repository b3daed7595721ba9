"""The Python SDK 2.x as a client: runs a plan against URL and prints what it saw as one JSON line.

Modes: `auto` (probes for 2026-07-28, falls back) and `legacy` (the initialize handshake).
"""
import anyio
import httpx2
from common import arguments, finish, tls_context, tool_text, walk_extra

from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client


async def cancelled_call(client: Client, name: str, args: dict) -> bool:
    """Calls a tool that does not end and leaves at the first progress report."""
    with anyio.CancelScope() as scope:
        async def leave(_progress, _total, _message):
            scope.cancel()

        await client.call_tool(name, args, progress_callback=leave)
    return scope.cancelled_caught


async def answer_form(_context, _params) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def answer_model(_context, _params) -> types.CreateMessageResult:
    content = types.TextContent(type="text", text="sampled")
    return types.CreateMessageResult(role="assistant", content=content, model="test")


async def main() -> None:
    args = arguments()
    plan, seen, progress = args.plan, {}, []

    async def collect(value, total, _message):
        progress.append([value, total])

    http = httpx2.AsyncClient(verify=tls_context(args.ca), headers=args.headers, timeout=30)
    answers = {"elicitation_callback": answer_form, "sampling_callback": answer_model} if "extra" in plan else {}
    async with http, Client(streamable_http_client(args.url, http_client=http), mode=args.mode, **answers) as client:
        seen["protocol"] = client.protocol_version
        seen["server"] = client.server_info.name if client.server_info else None
        seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        seen["echo"] = tool_text(await client.call_tool(*plan["echo"]))
        if "slow" in plan:
            seen["counted"] = tool_text(await client.call_tool(*plan["progress"], progress_callback=collect))
            seen["progress"] = progress
            seen["cancelled"] = await cancelled_call(client, *plan["slow"])
            seen["echo_after"] = tool_text(await client.call_tool(*plan["echo"]))
        if "extra" in plan:
            seen["extra"] = await walk_extra(client.call_tool, plan)
    finish(seen)


anyio.run(main)
