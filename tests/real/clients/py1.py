"""The Python SDK 1.x as a client: runs a plan against URL and prints what it saw as one JSON line.

This SDK has no call to cancel a request: the caller sends `notifications/cancelled` and leaves the call.
"""
import anyio
import httpx
from common import arguments, finish, tls_context, tool_text

from mcp import ClientSession, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client


def connect(args, http: httpx.AsyncClient):
    """A stream's own path means HTTP+SSE, the transport of 2024-11-05."""
    if args.url.endswith("/sse"):
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


async def main() -> None:
    args = arguments()
    plan, seen, progress = args.plan, {}, []

    async def collect(value, total, _message):
        progress.append([value, total])

    http = httpx.AsyncClient(verify=tls_context(args.ca), headers=args.headers, timeout=30)
    async with http, connect(args, http) as (read, write, *_session_id):
        async with ClientSession(read, write) as session:
            hello = await session.initialize()
            seen["protocol"] = hello.protocolVersion
            seen["server"] = hello.serverInfo.name
            seen["tools"] = [tool.name for tool in (await session.list_tools()).tools]
            seen["echo"] = tool_text(await session.call_tool(*plan["echo"]))
            if "slow" in plan:
                seen["counted"] = tool_text(await session.call_tool(*plan["progress"], progress_callback=collect))
                seen["progress"] = progress
                seen["cancelled"] = await cancelled_call(session, *plan["slow"])
                seen["echo_after"] = tool_text(await session.call_tool(*plan["echo"]))
    finish(seen)


anyio.run(main)
