"""What a walk calls on each kind of server, beyond `upstreams.Server.plan`, and what each step must say.

Invariant: the same step means the same on every server; only names of tools, prompts and resources differ.
"""
OLDEST, LEGACY, MODERN = "2024-11-05", "2025-11-25", "2026-07-28"

# On the servers that are ours.
STEPS = {
    "structured": ["total", {"a": 2, "b": 3}],
    "error": ["fail", {}],
    "elicitation": ["greet", {}],
    "page": ["open_page", {}],
    "sampling": ["ask_model", {}],
    "roots": ["list_roots", {}],
}
TYPESCRIPT = {
    **STEPS,
    "error": ["test_error_handling", {}],
    "roots": ["test_input_required_result_list_roots", {}],
}
EVERYTHING = {
    "structured": ["get-structured-content", {"location": "Chicago"}],
    "error": ["get-resource-reference", {"resourceType": "Text", "resourceId": -1}],
    "elicitation": ["trigger-elicitation-request", {}],
    "page": ["trigger-url-elicitation", {"url": "https://example.com/page"}],
    "sampling": ["trigger-sampling-request", {"prompt": "Say something"}],
    "roots": ["get-roots-list", {}],
}


def steps_of(kind, revision):
    if kind == "everything":
        return EVERYTHING
    if kind != "typescript":
        return STEPS
    if revision == MODERN:
        asks = {"elicitation": ["test_input_required_result_elicitation", {}], "sampling": ["test_input_required_result_sampling", {}]}
    else:
        asks = {"elicitation": ["test_elicitation", {"message": "Who?"}], "sampling": ["test_sampling", {"prompt": "Say something"}]}
    return {**TYPESCRIPT, **asks}


# What the answer of a step holds.
SAYS = {"elicitation": "Ada", "page": "accept", "sampling": "sampled", "roots": "file:///home/ada"}
# kind: (a URI, what reading it gives)
READS = {
    "python": ("test://about", "a resource of the Python server"),
    "typescript": ("test://static-text", "This is the content of the static text resource."),
    "rmcp": ("test://rust/about", "a resource of the Rust server"),
    "everything": ("demo://resource/dynamic/text/1", "Resource 1"),
}
# kind: (prompt with arguments, [prompt, argument, what was typed]); the prompt says the city, and its completion is known.
SERVER_PROMPTS = {
    "python": (["visit", {"city": "Paris"}], ["visit", "city", "p"]),
    "typescript": (["test_prompt_with_arguments", {"arg1": "Paris", "arg2": "x"}], ["test_prompt_with_arguments", "arg1", "p"]),
    "rmcp": (["visit", {"city": "Paris"}], ["visit", "city", "p"]),
    "everything": (["args-prompt", {"city": "Paris"}], ["completable-prompt", "department", "E"]),
}
COMPLETED = {"paris", "Engineering"}
WATCHED = {"python": "test://python/watched", "typescript": "test://watched-resource", "rmcp": "test://rust/watched",
           "everything": "demo://resource/dynamic/text/2"}
# What a notice is called in a cell.
NEWS = {"resources/updated": "subscription", "tools/list_changed": "list change", "resources/list_changed": "list change",
        "message": "log level"}


def rounds_of(kind, translated, prefix=""):
    """What lets the server tell of something at a log level, what the client must hear of it, and what it must not."""
    def one(level, calls, wanted, without=()):
        named = [[prefix + tool, args] for tool, args in calls]
        return {"level": level, "calls": named, "wanted": list(wanted), "without": list(without)}

    if kind != "everything":
        changed = ("resources/updated", "tools/list_changed")
        return [one("error", [["change", {}]], changed, ["message"]), one("info", [["change", {}]], [*changed, "message"])]
    added = ["gzip-file-as-resource", {"name": "walk.gz", "data": "data:text/plain,hello"}]
    updates, logging = ["toggle-subscriber-updates", {}], ["toggle-simulated-logging", {}]
    # Its log lines belong to no call and come every five seconds: a modern client hears those that come while it has a call open.
    open_call = [["trigger-long-running-operation", {"duration": 5.5, "steps": 1}]] if translated else []
    return [
        # It logs each subscription, at `info`.
        one("error", [["echo", {"message": "hi"}]], [], ["message"]),
        one("error", [updates], ["resources/updated"]),
        one("error", [added], ["resources/list_changed"]),
        one("debug", [logging, *open_call], ["message"]),
        one("error", [logging, updates], []),
    ]
