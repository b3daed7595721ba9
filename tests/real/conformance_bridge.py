"""The conformance suite with the gateway between two eras, judgement by judgement beside a run without it.

As a client, the suite stands before a server that `protocol` holds to the other era, and beside that run is the suite
before the same server in its own era. As a server, it judges a client of the other era, and beside that is the same
client in the suite's era. What differs must be exactly what `EXPLAINED` and `EXPLAINED_CLIENT` say, and the journal
must say that every call that reached the server was translated. `conformance_page` writes it down.
"""
import collections
import sys

import conformance
import conformance_client
from gateway import Gateway
from harness import HERE, check

MODERN, LEGACY = "2026-07-28", "2025-11-25"
# The suite speaks `client` to a server that is held to `server`.
Pair = collections.namedtuple("Pair", "name client server")
SLICE = [Pair("typescript", LEGACY, MODERN), Pair("typescript", MODERN, LEGACY)]
PAIRS = [
    Pair("typescript", "2025-03-26", MODERN), Pair("typescript", "2025-06-18", MODERN), SLICE[0],
    SLICE[1], Pair("typescript", MODERN, "2025-06-18"), Pair("typescript", MODERN, "2025-03-26"),
    Pair("python", LEGACY, MODERN), Pair("python", MODERN, LEGACY), Pair("everything", MODERN, LEGACY),
]
COUNTED = ("SUCCESS", "FAILURE", "WARNING")

NOT_LEGACY = "-32021 is a code of the modern era. A legacy server says what its client lacks in its own way: here as a failed tool call"
KEYS = "a legacy server's questions have ids and no names; the bridge numbers them, and the scenario looks for the name `user_name`"
NO_RESUME = "a modern server has no event ids and cannot resume a stream, so there is nothing to poll; the answer comes in one piece, which the revision allows"
ONE_PIECE = "the modern server answers these calls as JSON, and so does the gateway; streams are optional"
BY_GATEWAY = "answered by the gateway, which keeps levels and subscriptions in its own session; the server's legacy half has neither"
LISTENS = "the server announces no `listChanged` to legacy clients, so there is nothing to subscribe to"
READS_ANSWERS = "the bridge reads `inputResponses` itself and refuses what is no object, as the scenario wishes; the server's modern half does not look at it"

# By direction and server: {(scenario, check): why}.
EXPLAINED = {
    ("modern", "typescript"): {
        ("server-stateless", "sep-2575-server-rejects-undeclared-capability"): NOT_LEGACY,
        ("server-stateless", "sep-2575-missing-capability-http-400"): NOT_LEGACY,
        ("input-required-result-basic-elicitation", "sep-2322-elicitation-incomplete"): KEYS,
        ("input-required-result-basic-elicitation", "sep-2322-elicitation-complete"): KEYS,
        ("input-required-result-ignore-extra-params", "sep-2322-ignore-unexpected-params"): KEYS,
    },
    ("legacy", "typescript"): {
        ("server-sse-polling", "server-sse-priming-event"): NO_RESUME,
        ("server-sse-polling", "server-sse-retry-field"): NO_RESUME,
        ("server-sse-polling", "server-sse-disconnect-resume"): NO_RESUME,
        ("server-sse-multiple-streams", "server-sse-streams-functional"): ONE_PIECE,
    },
    ("modern", "python"): {
        ("server-stateless", "sep-2575-server-sends-tools-list-changed-on-subscription"): LISTENS,
        ("server-stateless", "sep-2575-server-sends-prompts-list-changed-on-subscription"): LISTENS,
        ("input-required-result-validate-input", "sep-2322-error-on-protocol-error"): READS_ANSWERS,
    },
    ("legacy", "python"): {
        ("server-sse-polling", "incoming-sse-event"): NO_RESUME,
        ("server-sse-polling", "server-sse-priming-event"): NO_RESUME,
        ("server-sse-polling", "server-sse-retry-field"): NO_RESUME,
        ("server-sse-multiple-streams", "server-sse-streams-functional"): ONE_PIECE,
        ("logging-set-level", "logging-set-level"): BY_GATEWAY,
        ("resources-subscribe", "resources-subscribe"): BY_GATEWAY,
        ("resources-unsubscribe", "resources-unsubscribe"): BY_GATEWAY,
    },
    ("modern", "everything"): {},
}


def counted(verdicts):
    """{check: how often each verdict that counts came}"""
    found = collections.defaultdict(collections.Counter)
    for (name, verdict), times in verdicts.items():
        if verdict in COUNTED:
            found[name][verdict] += times
    return found


def differences(beside, through):
    """{(scenario, check)} that were judged otherwise."""
    found = set()
    for scenario in beside.verdicts.keys() | through.verdicts.keys():
        one, other = counted(beside.verdicts.get(scenario, {})), counted(through.verdicts.get(scenario, {}))
        found |= {(scenario, name) for name in one.keys() | other.keys() if one.get(name) != other.get(name)}
    return found


def new_failures(beside, through):
    """The same where the two runs are of two revisions: what fails in both may be said in other checks."""
    failed = lambda found, scenario: {name for name, verdicts in counted(found.verdicts[scenario]).items() if verdicts["FAILURE"]}
    both = beside.verdicts.keys() & through.verdicts.keys()
    return {(scenario, name) for scenario in both if not failed(beside, scenario) for name in failed(through, scenario)}


def explained(pair, through):
    """What is known to differ, of the scenarios that the revision has."""
    known = EXPLAINED["modern" if pair.client == MODERN else "legacy", pair.name]
    return {where: why for where, why in known.items() if where[0] in through.lines}


def judge(bench, pair):
    """Both runs of a pair. `everything` has no modern half: beside it is the suite in the server's own era."""
    beside = conformance.direct(bench, pair.name, pair.server if pair.name == "everything" else pair.client)
    label = f"{pair.name}-{pair.client}-before-{pair.server}"
    gateway = Gateway(bench, f"conformance-{label}", bench.server(pair.name).url, protocol=pair.server)
    gateway.knows()
    through = conformance.judged(bench, gateway.url, pair.client, label)
    gateway.stop()
    calls = [record for record in gateway.records() if record["method"] == "tools/call" and record["outcome"] != "rejected"]
    return beside, through, calls


def pair_test(bench, pair):
    def test():
        beside, through, calls = judge(bench, pair)
        bench.conformance[pair] = beside, through
        conformance.judge_direct(beside.lines, pair.name)
        compare = new_failures if pair.name == "everything" else differences
        found, known = compare(beside, through), explained(pair, through).keys()
        check(found == known, lambda: f"not explained: {sorted(found - known)}; explained and gone: {sorted(known - found)}")
        bare = [record for record in calls if not record["bridged"]]
        check(not bare, lambda: f"{len(bare)} of {len(calls)} calls were not translated: {bare[0]}")

    return test


# The suite as the server. A legacy client has no word about the headers and `_meta` that are judged: the gateway writes them.
Client = collections.namedtuple("Client", "scenario server")
CLIENTS = [
    Client("initialize", LEGACY), Client("tools_call", LEGACY), Client("tools_call", MODERN),
    Client("elicitation-sep1034-client-defaults", LEGACY), Client("sse-retry", LEGACY),
    Client("json-schema-2020-12-preservation", LEGACY), Client("json-schema-2020-12-preservation", MODERN),
    Client("request-metadata", MODERN), Client("http-standard-headers", MODERN), Client("http-custom-headers", MODERN),
    Client("http-invalid-tool-headers", MODERN), Client("sep-2322-client-request-state", MODERN),
    Client("json-schema-ref-no-deref", MODERN),
]
CLIENT_SLICE = {Client("tools_call", LEGACY), Client("http-custom-headers", MODERN), Client("sep-2322-client-request-state", MODERN)}
# By run: {check: why}. Nothing differs.
EXPLAINED_CLIENT = {}


def client_test(bench, client):
    def test():
        beside, said = conformance_client.judged(conformance_client.CLIENT, client.scenario, client.server)
        conformance_client.judge_direct(beside, said)
        mode = "legacy" if client.server == MODERN else "auto"
        command = [sys.executable, HERE / "conformance_client.py", bench.binary, mode, client.server]
        through, said = conformance_client.judged(command, client.scenario, client.server)
        bench.conformance[client] = beside, through
        found = conformance_client.differences(beside, through)
        known = EXPLAINED_CLIENT.get(client, {}).keys()
        check(found == known, lambda: f"differ: {sorted(found)}, explained: {sorted(known)}\n{said[-3000:]}")

    return test


def tests(bench):
    if bench.binary is None:
        return
    for pair in PAIRS:
        if bench.whole_conformance or pair in SLICE:
            yield f"conformance-bridge/{pair.name}/{pair.client}-before-{pair.server}", pair_test(bench, pair)
    for client in CLIENTS:
        if bench.whole_conformance or client in CLIENT_SLICE:
            yield f"conformance-bridge/client/{client.scenario}/{client.server}", client_test(bench, client)
