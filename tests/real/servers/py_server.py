"""An MCP server on the Python SDK 2.x, for the client matrix.

Owns: the tools of a walk (`echo`, `count` with progress, `slow` which ends only when cancelled; `total` with a structured
result, `fail`; `greet`, `ask_model`, `list_roots` and `open_page`, which ask the client; `change`, which adds a tool to the list
in the place of the last one that it added, and of which it tells) and the event file in which `slow` reports how it ended. Lists of tools come in two pages. Does not own: anything the SDK
does on the wire; that is what is tested.
Usage: py_server.py PORT|stdio EVENTS_FILE [sse] [REVISION], the latter for one legacy revision and no other.
"""
import sys
import weakref
from typing import Annotated

import anyio
from mcp.server import runner, streamable_http_manager
from mcp.server.lowlevel.server import NotificationOptions
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS, Completion, CreateMessageResult, ElicitRequest, ElicitRequestURLParams, EmptyResult, InputRequiredResult,
    ListRootsResult, ListToolsResult, PaginatedRequestParams, SamplingMessage, SetLevelRequestParams, SubscribeRequestParams,
    TextContent, Tool, UnsubscribeRequestParams,
)
from pydantic import BaseModel

PLACE, EVENTS, *HOW = sys.argv[1:]
SLOW_SECONDS = 60
WATCHED = "test://python/watched"
PAGE = "https://example.com/page"
QUIETEST_FIRST = ("emergency", "alert", "critical", "error", "warning", "notice", "info", "debug")
server = MCPServer("smartgate-py-server", version="1.0.0")
added: list[str] = []
# What each legacy session wants to hear.
levels = weakref.WeakKeyDictionary()


def hold_to(revision: str) -> None:
    """The SDK has no way to serve one revision alone but its constants."""
    runner.HANDSHAKE_PROTOCOL_VERSIONS = streamable_http_manager.HANDSHAKE_PROTOCOL_VERSIONS = (revision,)
    runner.LATEST_HANDSHAKE_VERSION = revision


def report(event: str, tag: str) -> None:
    with open(EVENTS, "a", encoding="utf-8") as out:
        out.write(f"{event} {tag}\n")


@server.tool()
async def echo(message: str) -> str:
    """Answer with the message."""
    return f"Echo: {message}"


@server.tool()
async def count(steps: int, ctx: Context) -> str:
    """Report progress once for each step."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps)
        await anyio.sleep(0.02)
    return f"Counted to {steps}"


@server.tool()
async def slow(tag: str, ctx: Context) -> str:
    """Report one step of progress, then wait to be cancelled."""
    report("start", tag)
    try:
        await ctx.report_progress(1, 2)
        await anyio.sleep(SLOW_SECONDS)
    except anyio.get_cancelled_exc_class():
        report("cancelled", tag)
        raise
    report("finished", tag)
    return "nobody cancelled"


@server.resource("test://about")
async def about() -> str:
    """What this is."""
    return "a resource of the Python server"


class Total(BaseModel):
    total: int


@server.tool()
async def total(a: int, b: int) -> Total:
    """Add two numbers, as a structured result."""
    return Total(total=a + b)


@server.tool()
async def fail() -> str:
    """End in an error."""
    raise ValueError("this tool always fails")


class Person(BaseModel):
    name: str


async def who() -> Elicit[Person]:
    return Elicit("What is your name?", Person)


async def model() -> Sample:
    return Sample([SamplingMessage(role="user", content=TextContent(type="text", text="Say something"))], max_tokens=20)


@server.tool()
async def greet(person: Annotated[Person, Resolve(who)]) -> str:
    """Ask the user for a name and greet them."""
    return f"Hello {person.name}"


@server.tool()
async def ask_model(answer: Annotated[CreateMessageResult, Resolve(model)]) -> str:
    """Ask the client's model."""
    return f"The model said {answer.content.text}"


async def roots() -> ListRoots:
    return ListRoots()


@server.tool()
async def list_roots(found: Annotated[ListRootsResult, Resolve(roots)]) -> str:
    """Ask the client for its roots."""
    return f"Roots: {found.roots[0].uri}"


def is_modern(ctx: Context) -> bool:
    return (ctx.protocol_version or "") >= "2026"


@server.tool()
async def open_page(ctx: Context) -> str | InputRequiredResult:
    """Ask the user to open a page."""
    if not is_modern(ctx):
        return f"The page: {(await ctx.elicit_url('Please look', PAGE, 'page-1')).action}"
    if not ctx.input_responses:
        asked = ElicitRequest(params=ElicitRequestURLParams(message="Please look", url=PAGE))
        return InputRequiredResult(input_requests={"page": asked})
    return f"The page: {ctx.input_responses['page'].action}"


@server.tool()
async def change(ctx: Context) -> str:
    """Change a resource and the tools, tell of it and log it, in the way of the caller's era."""
    added.append(f"added_{len(added) + 1}")
    if wants_log(ctx):
        await ctx.log("warning", "changed")
    if is_modern(ctx):
        await ctx.notify_resource_updated(WATCHED)
        await ctx.notify_tools_changed()
    else:
        await ctx.session.send_resource_updated(WATCHED)
        await ctx.session.send_tool_list_changed()
    return added[-1]


def wants_log(ctx: Context) -> bool:
    """The SDK knows what modern calls want; legacy sessions hear all until they say otherwise."""
    level = levels.get(ctx.session._connection, "debug")
    return is_modern(ctx) or QUIETEST_FIRST.index("warning") <= QUIETEST_FIRST.index(level)


@server.resource(WATCHED)
async def watched() -> str:
    """What `change` tells of."""
    return "watched"


@server.prompt()
async def visit(city: str) -> str:
    """A place to see."""
    return f"Visit {city}"


@server.completion()
async def complete(_ref, _argument, _context) -> Completion:
    return Completion(values=["paris"], total=1, has_more=False)


async def page_of_tools(_ctx, params: PaginatedRequestParams) -> ListToolsResult:
    tools = await server.list_tools()
    tools += [Tool(name=name, input_schema={"type": "object"}) for name in added[-1:]]
    half = len(tools) // 2
    if params.cursor is None:
        return ListToolsResult(tools=tools[:half], next_cursor="second")
    if params.cursor != "second":
        raise MCPError(INVALID_PARAMS, "no such page")
    return ListToolsResult(tools=tools[half:])


async def accept(_ctx, _params) -> EmptyResult:
    return EmptyResult()


async def set_level(ctx, params: SetLevelRequestParams) -> EmptyResult:
    levels[ctx.session._connection] = params.level
    return EmptyResult()


# What the high-level server has no way to say: pages, and the legacy era's subscriptions and log levels.
wire = server._lowlevel_server
wire.add_request_handler("tools/list", PaginatedRequestParams, page_of_tools)
wire.add_request_handler("resources/subscribe", SubscribeRequestParams, accept)
wire.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, accept)
wire.add_request_handler("logging/setLevel", SetLevelRequestParams, set_level)
options = wire.create_initialization_options
wire.create_initialization_options = lambda: options(NotificationOptions(tools_changed=True))

for revision in set(HOW) - {"sse"}:
    hold_to(revision)
if PLACE == "stdio":
    server.run("stdio")
else:
    server.run("sse" if "sse" in HOW else "streamable-http", host="127.0.0.1", port=int(PLACE))
