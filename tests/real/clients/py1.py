"""The Python SDK 1.x as a client: runs a plan against URL and prints what it saw as one JSON line.

Modes: `legacy`, or an older revision, which this SDK has no way to ask for but its constant.
This SDK has no call to cancel a request: the caller sends `notifications/cancelled` and leaves the call.
"""
import anyio
import httpx
from common import Leaving, Notices, arguments, finish, pages_of, tls_context, tool_text, walk_extra, walk_prompts

from mcp import ClientSession, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client


def connect(args, http: httpx.AsyncClient):
    """A stream's own path means HTTP+SSE, the transport of 2024-11-05."""
    if "/sse" in args.url:
        return sse_client(args.url, headers=args.headers)
    return streamable_http_client(args.url, http_client=http)


async def cancelled_call(session: ClientSession, name: str, args: dict) -> bool:
    """Calls a tool that does not end, and cancels it by its id at the first progress report."""
    request_id = session._request_id  # the id the next request will carry; the SDK has no public name for it
    with anyio.CancelScope() as scope:
        async def cancel(_progress, _total, _message):
            params = types.CancelledNotificationParams(requestId=request_id, reason="enough")
            notification = types.CancelledNotification(params=params)
            await session.send_notification(types.ClientNotification(notification))
            scope.cancel()

        await session.call_tool(name, args, progress_callback=cancel)
    return scope.cancelled_caught


async def answer_form(_context, params) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=None if params.mode == "url" else {"name": "Ada"})


async def answer_roots(_context) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada", name="ada")])


async def answer_model(_context, _params) -> types.CreateMessageResult:
    content = types.TextContent(type="text", text="sampled")
    return types.CreateMessageResult(role="assistant", content=content, model="test")


async def notices_of(session: ClientSession, notices: Notices, plan: dict) -> list:
    """Subscribes, and goes through the rounds."""
    await session.set_logging_level(plan["rounds"][0]["level"])
    for uri in plan["uris"]:
        await session.subscribe_resource(uri)
    return await notices.rounds(plan, lambda name, args, _level: session.call_tool(name, args), session.set_logging_level)


async def main() -> None:
    args = arguments()
    if args.mode[0].isdigit():
        types.LATEST_PROTOCOL_VERSION = args.mode
    plan, seen, progress, notices = args.plan, {}, [], Notices()

    async def collect(value, total, _message):
        progress.append([value, total])

    http = httpx.AsyncClient(verify=tls_context(args.ca), headers=args.headers, timeout=30)
    with Leaving() as leaving:
        async with http, connect(args, http) as (read, write, *_session_id):
            answers = {"elicitation_callback": answer_form, "sampling_callback": answer_model,
                       "list_roots_callback": answer_roots} if "extra" in plan else {}
            hears = {"message_handler": notices.message, "logging_callback": notices.log}
            async with ClientSession(read, write, **answers, **hears) as session:
                hello = await session.initialize()
                seen["protocol"] = hello.protocolVersion
                seen["server"] = hello.serverInfo.name
                list_tools = lambda cursor: session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
                pages = await pages_of(list_tools)
                seen["pages"], seen["tools"] = len(pages), sum(pages, [])
                seen["echo"] = tool_text(await session.call_tool(*plan["echo"]))
                if "slow" in plan:
                    seen["counted"] = tool_text(await session.call_tool(*plan["progress"], progress_callback=collect))
                    seen["progress"] = progress
                    seen["cancelled"] = await cancelled_call(session, *plan["slow"])
                    seen["echo_after"] = tool_text(await session.call_tool(*plan["echo"]))
                if "extra" in plan:
                    seen["extra"] = await walk_extra(session.call_tool, plan)
                if "read" in plan:
                    seen["read"] = (await session.read_resource(plan["read"])).contents[0].text
                if "prompt" in plan:
                    await walk_prompts(session, plan, types.PromptReference, seen)
                if "notices" in plan:
                    seen["notices"] = await notices_of(session, notices, plan["notices"])
                    seen["after"] = sum(await pages_of(list_tools), [])
                leaving.done = True
    finish(seen)


anyio.run(main)
