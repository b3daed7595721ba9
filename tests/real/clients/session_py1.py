"""The Python SDK 1.x as a client that holds one session and obeys commands from its input; see `session.py`."""
import anyio
import httpx
from session import arguments, serve

from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client


class Calls:
    """The SDK's calls under the names that `session.py` uses."""

    def __init__(self, session: ClientSession):
        self.call, self.prompt, self.read = session.call_tool, session.get_prompt, session.read_resource
        self._session = session

    async def tools(self, cursor):
        return await self._session.list_tools(params=page(cursor))

    async def prompts(self, cursor):
        return await self._session.list_prompts(params=page(cursor))

    async def resources(self, cursor):
        return await self._session.list_resources(params=page(cursor))

    async def templates(self, cursor):
        return await self._session.list_resource_templates(params=page(cursor))


def page(cursor):
    return types.PaginatedRequestParams(cursor=cursor) if cursor else None


async def answer_form(_context, _params) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def answer_model(_context, _params) -> types.CreateMessageResult:
    content = types.TextContent(type="text", text="sampled")
    return types.CreateMessageResult(role="assistant", content=content, model="test")


async def main() -> None:
    args = arguments()
    answers = {"elicitation_callback": answer_form, "sampling_callback": answer_model}
    async with httpx.AsyncClient(timeout=30) as http, streamable_http_client(args.url, http_client=http) as (read, write, _id):
        async with ClientSession(read, write, **answers) as session:
            hello = await session.initialize()
            await serve(Calls(session), hello.protocolVersion)


anyio.run(main)
