"""The Python SDK 2.x as a client that holds one session and obeys commands from its input; see `session.py`.

Modes: `auto` (probes for 2026-07-28, falls back) and `legacy` (the initialize handshake).
"""
import anyio
import httpx2
from session import arguments, serve

from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client


class Calls:
    """The SDK's calls under the names that `session.py` uses."""

    def __init__(self, client: Client):
        self.call, self.prompt, self.read = client.call_tool, client.get_prompt, client.read_resource
        self._client = client

    async def tools(self, cursor):
        return await self._client.list_tools(cursor=cursor)

    async def prompts(self, cursor):
        return await self._client.list_prompts(cursor=cursor)

    async def resources(self, cursor):
        return await self._client.list_resources(cursor=cursor)

    async def templates(self, cursor):
        return await self._client.list_resource_templates(cursor=cursor)


async def answer_form(_context, _params) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def answer_model(_context, _params) -> types.CreateMessageResult:
    content = types.TextContent(type="text", text="sampled")
    return types.CreateMessageResult(role="assistant", content=content, model="test")


async def main() -> None:
    args = arguments()
    answers = {"elicitation_callback": answer_form, "sampling_callback": answer_model}
    http = httpx2.AsyncClient(timeout=30)
    transport = streamable_http_client(args.url, http_client=http)
    async with http, Client(transport, mode=args.mode, **answers) as client:
        await serve(Calls(client), client.protocol_version)


anyio.run(main)
