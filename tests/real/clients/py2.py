"""The Python SDK 2.x as a client: runs a plan against URL and prints what it saw as one JSON line.

Modes: `auto` (probes for 2026-07-28, falls back), `pinned` (2026-07-28 without a probe, so that a call is the first request) and
`legacy` (the initialize handshake).
"""
import anyio
import httpx2
from common import Leaving, Notices, arguments, finish, pages_of, tls_context, tool_text, walk_extra, walk_prompts

from mcp import Client, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

PINNED = "2026-07-28"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"


def connect(args, http: httpx2.AsyncClient):
    """A stream's own path means HTTP+SSE, the transport of 2024-11-05."""
    if "/sse" in args.url:
        return sse_client(args.url, headers=args.headers)
    return streamable_http_client(args.url, http_client=http)


async def cancelled_call(client: Client, name: str, args: dict) -> bool:
    """Calls a tool that does not end and leaves at the first progress report."""
    with anyio.CancelScope() as scope:
        async def leave(_progress, _total, _message):
            scope.cancel()

        await client.call_tool(name, args, progress_callback=leave)
    return scope.cancelled_caught


async def answer_form(_context, params) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=None if params.mode == "url" else {"name": "Ada"})


async def answer_roots(_context) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada", name="ada")])


async def answer_model(_context, _params) -> types.CreateMessageResult:
    content = types.TextContent(type="text", text="sampled")
    return types.CreateMessageResult(role="assistant", content=content, model="test")


async def notices_of(client: Client, notices: Notices, plan: dict, modern: bool) -> list:
    """Subscribes, and goes through the rounds."""
    if not modern:
        await client.set_logging_level(plan["rounds"][0]["level"])
        for uri in plan["uris"]:
            await client.subscribe_resource(uri)
        return await notices.rounds(plan, lambda name, args, _level: client.call_tool(name, args), client.set_logging_level)
    names = {"ToolsListChanged": "tools/list_changed", "ResourcesListChanged": "resources/list_changed",
             "ResourceUpdated": "resources/updated"}
    call = lambda name, args, level: client.call_tool(name, args, meta={LOG_LEVEL: level})
    watched = {"tools_list_changed": True, "resources_list_changed": True, "resource_subscriptions": plan["uris"]}
    async with client.listen(**watched) as events:
        async def follow():
            async for event in events:
                notices.note(names[type(event).__name__])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            found = await notices.rounds(plan, call)
            tasks.cancel_scope.cancel()
    return found


async def main() -> None:
    args = arguments()
    plan, seen, progress, notices = args.plan, {}, [], Notices()

    async def collect(value, total, _message):
        progress.append([value, total])

    http = httpx2.AsyncClient(verify=tls_context(args.ca), headers=args.headers, timeout=30)
    answers = {"elicitation_callback": answer_form, "sampling_callback": answer_model,
               "list_roots_callback": answer_roots} if "extra" in plan else {}
    hears = {"message_handler": notices.message, "logging_callback": notices.log}
    transport = connect(args, http)
    pinned = args.mode == "pinned"
    with Leaving() as leaving:
        async with http, Client(transport, mode=PINNED if pinned else args.mode, **answers, **hears) as client:
            seen["protocol"] = client.protocol_version
            seen["server"] = client.server_info.name if client.server_info else None
            if pinned:
                seen["echo"] = tool_text(await client.call_tool(*plan["echo"]))
            list_tools = lambda cursor: client.list_tools(cursor=cursor)
            pages = await pages_of(list_tools)
            seen["pages"], seen["tools"] = len(pages), sum(pages, [])
            if not pinned:
                seen["echo"] = tool_text(await client.call_tool(*plan["echo"]))
            if "slow" in plan:
                seen["counted"] = tool_text(await client.call_tool(*plan["progress"], progress_callback=collect))
                seen["progress"] = progress
                seen["cancelled"] = await cancelled_call(client, *plan["slow"])
                seen["echo_after"] = tool_text(await client.call_tool(*plan["echo"]))
            if "extra" in plan:
                seen["extra"] = await walk_extra(client.call_tool, plan)
            if "read" in plan:
                seen["read"] = (await client.read_resource(plan["read"])).contents[0].text
            if "prompt" in plan:
                await walk_prompts(client, plan, types.PromptReference, seen)
            if "notices" in plan:
                seen["notices"] = await notices_of(client, notices, plan["notices"], seen["protocol"] >= "2026")
                seen["after"] = sum(await pages_of(list_tools), [])
            leaving.done = True
    finish(seen)


anyio.run(main)
