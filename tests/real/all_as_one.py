"""Nine servers over three transports behind one endpoint, and every client that there is in front of it.

Each client lists everything, calls a tool of every server, gets prompts and reads resources, and is asked by those
servers that ask. Then servers are killed under all clients' open sessions: the others still list and answer, and what
comes back works again in the same sessions.

The inspector's CLI runs one method and ends; it has no way to answer a server, so it is not asked anything.
"""
import json
import os

import matrix
from all_parts import ASKS, PROMPTS, RESOURCES, TEMPLATES, Parts
from harness import FULL, HERE, NODE, check, run, wait_until
from held import Held, close, each, hold, kinds, says
from stdio import descendants

DOWN = ("everything", "everything-sse")
INSPECTOR = HERE / "node_modules/.bin/mcp-inspector"


def parts(bench):
    return bench.once("all-as-one", lambda: Parts(bench))


def public(name, tool):
    return f"{name}__{tool}"


def complete(lists, calls):
    """Whether lists hold what each member is known to have; a URI that two members have must be shown of neither."""
    tools = {public(name, call[0]) for name, call in calls.items()}
    tools |= {public(name, call[0]) for name, asks in ASKS.items() for call in asks}
    check(tools <= set(lists["tools"]), lambda: f"tools that are missing: {sorted(tools - set(lists['tools']))}")
    check(len(lists["tools"]) == len(set(lists["tools"])), "a tool is listed twice")
    prompts = {public(name, prompt[0]) for name, prompt in PROMPTS.items()}
    check(prompts <= set(lists["prompts"]), lambda: f"prompts: {lists['prompts']}")
    check(set(RESOURCES) <= set(lists["resources"]), lambda: f"resources: {lists['resources']}")
    check(set(TEMPLATES) <= set(lists["templates"]), lambda: f"templates: {lists['templates']}")
    shared = [uri for uri in lists["resources"] + lists["templates"] if uri.startswith("demo://")]
    check(not shared, lambda: f"of several servers, and listed: {shared}")


def walk(bench, client, mode):
    def test():
        all_parts = parts(bench)
        held = Held(bench, client, mode, all_parts.gateway.url)
        try:
            check(held.protocol == matrix.revision(mode == "auto"), f"protocol {held.protocol}")
            complete(held.ask(do="lists"), all_parts.calls)
            for name, (tool, arguments, text) in all_parts.calls.items():
                says(held, public(name, tool), arguments, text)
            for name, (prompt, arguments, text) in PROMPTS.items():
                answer = held.ask(do="prompt", name=public(name, prompt), arguments=arguments)
                check(text in answer.get("text", ""), lambda: f"prompt of {name}: {answer}")
            for uri, text in RESOURCES.items():
                answer = held.ask(do="read", uri=uri)
                check(text in answer.get("text", ""), lambda: f"{uri}: {answer}")
            for name, asks in ASKS.items():
                for tool, arguments, text in asks:
                    says(held, public(name, tool), arguments, text)
        finally:
            held.close()

    return test


def inspect(bench, era, method, **more):
    """One run of the inspector's CLI; returns the result that it printed."""
    folder = bench.stack.work / "inspector"
    folder.mkdir(exist_ok=True)
    flags = [word for name, value in more.items() for word in (f"--{name.replace('_', '-')}", value)]
    command = [NODE, INSPECTOR, "--cli", parts(bench).gateway.url, "--transport", "http", "--protocol-era", era,
               "--format", "json", "--quiet", "--method", method, *flags]
    env = {"HOME": str(folder), "PATH": f"{NODE.parent}:{os.environ['PATH']}"}
    status, out, err = run(command, env=env, cwd=folder)
    check(status == 0, lambda: f"{method} {more}: the inspector exited {status}: {out[-500:]}{err[-1000:]}")
    answer = json.loads(out)
    return answer.get("result", answer)


def inspector(bench, era):
    def test():
        lists = {
            "tools": [tool["name"] for tool in inspect(bench, era, "tools/list")["tools"]],
            "prompts": [prompt["name"] for prompt in inspect(bench, era, "prompts/list")["prompts"]],
            "resources": [resource["uri"] for resource in inspect(bench, era, "resources/list")["resources"]],
            "templates": [template["uriTemplate"] for template in inspect(bench, era, "resources/templates/list")["resourceTemplates"]],
        }
        complete(lists, parts(bench).calls)
        for name, (tool, arguments, text) in parts(bench).calls.items():
            answer = inspect(bench, era, "tools/call", tool_name=public(name, tool), tool_args_json=json.dumps(arguments))
            check(text in json.dumps(answer["content"]), lambda: f"{name}: {answer}")
        name, (prompt, _, text) = next(iter(PROMPTS.items()))
        answer = inspect(bench, era, "prompts/get", prompt_name=public(name, prompt))
        check(text in json.dumps(answer), lambda: f"{prompt}: {answer}")
        uri, text = next(iter(RESOURCES.items()))
        check(text in json.dumps(inspect(bench, era, "resources/read", uri=uri)), f"{uri} does not say {text!r}")

    return test


def others_work(all_parts, held):
    complete(held.ask(do="lists"), all_parts.calls)
    for name, (tool, arguments, text) in all_parts.calls.items():
        if name not in DOWN:
            says(held, public(name, tool), arguments, text)


def fail(all_parts, held):
    for name in DOWN:
        tool, arguments, _ = all_parts.calls[name]
        answer = held.call(public(name, tool), arguments)
        check(answer.get("failed") or answer["error"], lambda: f"{name} is down, and answered {answer}")


def work_again(all_parts, held):
    """It may take a moment: a server that failed is left alone for a while."""
    for name in DOWN:
        tool, arguments, text = all_parts.calls[name]

        def again():
            answer = held.call(public(name, tool), arguments)
            return not answer.get("failed") and not answer["error"] and text in answer["text"]

        wait_until(f"{name} answers again", again, 40)


def ask_back(held):
    for name in DOWN:
        for tool, arguments, text in ASKS[name]:
            says(held, public(name, tool), arguments, text)


def down_and_up(bench):
    """Servers over HTTP and HTTP+SSE die under open sessions and are started again."""
    all_parts = parts(bench)
    sessions = hold(bench, all_parts.gateway.url)
    try:
        each(sessions, lambda held: says(held, "everything__echo", {"message": "hi"}, "Echo: hi"))
        each(sessions, lambda held: says(held, "everything-sse__echo", {"message": "hi"}, "Echo: hi"))
        for name in DOWN:
            all_parts.take_down(name)
        each(sessions, lambda held: fail(all_parts, held))
        each(sessions, lambda held: others_work(all_parts, held))
        for name in DOWN:
            all_parts.bring_up(name)
        each(sessions, lambda held: work_again(all_parts, held))
        each(sessions, ask_back)
    finally:
        close(sessions)


def child_dies(bench):
    """The children of a `command` die under open sessions; the gateway starts others with the next calls."""
    all_parts = parts(bench)
    tool, arguments, text = all_parts.calls["memory"]
    sessions = hold(bench, all_parts.gateway.url)
    try:
        each(sessions, lambda held: says(held, public("memory", tool), arguments, text))
        check(kill_children(all_parts, "server-memory"), "the gateway has no child for it")
        each(sessions, lambda held: others_work(all_parts, held))
    finally:
        close(sessions)


def kill_children(all_parts, word):
    """Kills the gateway's children with this word in their command line; returns their pids."""
    pids = [pid for pid in descendants(all_parts.gateway.process.child.pid) if word in command_line(pid)]
    for pid in pids:
        os.kill(pid, 9)
    return pids


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def alone(bench):
    """Resources that several servers have are there at the path of each of them."""
    held = Held(bench, "python2", "auto", f"{parts(bench).gateway.url}/everything")
    try:
        uris = held.ask(do="lists")["resources"]
        check(uris and all(uri.startswith("demo://") for uri in uris), lambda: f"resources: {uris}")
        answer = held.ask(do="read", uri=uris[0])
        check(answer.get("text"), lambda: f"{uris[0]}: {answer}")
    finally:
        held.close()


def journal(bench):
    """Every call of every client is recorded with the server that it went to, and the chain holds."""
    gateway = parts(bench).gateway
    check(gateway.stop() == 0, f"the gateway exited {gateway.process.child.returncode}")
    calls = [record for record in gateway.records() if record["method"] == "tools/call"]
    seen = {record["upstream"] for record in calls if record["outcome"] == "ok"}
    check(seen >= set(parts(bench).calls), lambda: f"calls that succeeded went to {sorted(seen)}")
    gateway.verify_journal()


def tests(bench):
    if bench.binary is None:
        return
    for client, mode in kinds():
        yield f"together/{client}-{mode}", walk(bench, client, mode)
    for era in ("legacy", "modern") if FULL else ("legacy",):
        yield f"together/inspector-{era}", inspector(bench, era)
    yield "together/alone", lambda: alone(bench)
    yield "together/down", lambda: down_and_up(bench)
    yield "together/child-dies", lambda: child_dies(bench)
    yield "together/journal", lambda: journal(bench)
