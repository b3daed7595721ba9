"""What both Python clients share: the command line, TLS trust and the one line of output."""
import argparse
import json
import ssl

import anyio


# How long news may take.
PATIENCE = 8


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--mode", default="auto")
    parser.add_argument("--plan", type=json.loads, required=True, help='{"echo":[NAME,ARGS],"progress":...,"slow":...}')
    parser.add_argument("--ca", help="PEM file of the only authority to trust")
    parser.add_argument("--key", help="bearer secret")
    args = parser.parse_args()
    args.headers = {"authorization": f"Bearer {args.key}"} if args.key else {}
    return args


def tls_context(ca: str | None) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca)


def tool_text(result) -> str:
    return "".join(part.text for part in result.content if part.type == "text")


async def walk_extra(call, plan: dict) -> dict:
    """Calls each tool of the plan's `extra`; what goes wrong in one step does not end the others."""
    seen = {}
    for step, (name, args) in plan["extra"].items():
        try:
            result = (await call(name, args)).model_dump(by_alias=True, mode="json")
            text = "".join(part.get("text", "") for part in result["content"])
            seen[step] = {"text": text, "structured": result.get("structuredContent"), "error": bool(result.get("isError"))}
        except Exception as failure:
            seen[step] = {"failed": f"{type(failure).__name__}: {failure}"}
    return seen


async def pages_of(list_tools) -> list:
    """The names of the tools, page by page."""
    pages, cursor = [], None
    while not pages or cursor is not None:
        page = (await list_tools(cursor)).model_dump(by_alias=True, mode="json")
        pages.append([tool["name"] for tool in page["tools"]])
        cursor = page.get("nextCursor")
    return pages


async def walk_prompts(client, plan: dict, reference, seen: dict) -> None:
    """Gets a prompt, and has one of the same server's arguments completed."""
    name, args = plan["prompt"]
    seen["prompt"] = (await client.get_prompt(name, args)).messages[0].content.text
    name, argument, begun = plan["completion"]
    found = await client.complete(reference(type="ref/prompt", name=name), {"name": argument, "value": begun})
    seen["completion"] = found.completion.values


class Notices:
    """What the server tells of by itself, by short names."""

    def __init__(self):
        self.seen = set()

    def note(self, method: str) -> None:
        self.seen.add(method.removeprefix("notifications/"))

    async def message(self, message) -> None:
        """Takes what an SDK gives to its message handler: notices, and much else."""
        method = getattr(getattr(message, "root", message), "method", None)
        if isinstance(method, str):
            self.note(method)

    async def log(self, _params) -> None:
        self.note("message")

    async def rounds(self, plan: dict, call, set_level=None) -> list:
        """In each round lets the server change, and tells what came of it: the names of the notices, and the texts of the
        calls. `set_level` is of sessions; without it `call` has the level."""
        found = []
        for one in plan["rounds"]:
            self.seen.clear()
            if set_level:
                await set_level(one["level"])
            texts = [tool_text(await call(name, args, one["level"])) for name, args in one["calls"]]
            with anyio.move_on_after(PATIENCE):
                while not set(one["wanted"]) <= self.seen:
                    await anyio.sleep(0.02)
            found.append({"heard": sorted(self.seen), "texts": texts})
        return found


class Leaving:
    """Around a connection: once the plan is `done`, a message for which the session has no reader any more is no fault.
    Over HTTP+SSE the SDKs raise it: `sse_reader` sends into the closed stream."""
    done = False

    def __enter__(self):
        return self

    def __exit__(self, _kind, error, _trace) -> bool:
        late = (anyio.BrokenResourceError, anyio.ClosedResourceError)
        return self.done and isinstance(error, BaseExceptionGroup) and error.split(late)[1] is None


def finish(seen: dict) -> None:
    print(json.dumps(seen))
