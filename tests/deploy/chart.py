"""deploy/helm/smartgate: lint, and rendering as stored in tests/deploy/rendered, valid and with a configuration that
`smartgate check` takes. After a wanted change a failure prints the command that stores the new rendering."""

import pathlib
import tomllib

from harness import check, run
from manifests import configuration
from tools import DEPLOY, documents, judge_pod, one, output, tool, validate

CHART = DEPLOY / "helm/smartgate"
HERE = pathlib.Path(__file__).resolve().parent
CASES = {  # --set words
    "standalone": [],
    "sidecar": [
        "mode=sidecar",
        "server.image=node:22-alpine",
        "server.args={npx,-y,@modelcontextprotocol/server-everything,streamableHttp}",
    ],
    "claim": ["state.existingClaim=journal", "replicas=1", "networkPolicy.enabled=false"],
}
WRONG = {
    "mode=other": "mode",
    "replicas=0": "replicas",
    "mode=sidecar": "image",
    "drainSeconds=5": "drain",
    "unknown=1": "unknown",
}


def template(words):
    sets = [word for pair in words for word in ("--set", pair)]
    return [tool("helm"), "template", "gate", CHART, "--namespace", "agents", "--kube-version", "1.33.0", *sets]


def lint(_bench):
    output([tool("helm"), "lint", "--strict", CHART])


def rendered(bench, name):
    def test():
        command = template(CASES[name])
        text = output(command)
        stored = HERE / f"rendered/{name}.yaml"
        same = stored.exists() and stored.read_text() == text
        check(same, f"renders differently from {stored.name}: {' '.join(map(str, command))} > {stored}")
        validate(text, bench.stack.work)
        objects = documents(text)
        config = one(objects, "ConfigMap")["data"]["smartgate.toml"]
        judge_pod(one(objects, "Deployment")["spec"]["template"]["spec"], tomllib.loads(config))
        check(
            tomllib.loads(config) == configuration(),
            "the chart's configuration is not the one of the kustomize component",
        )
        configuration_loads(bench, config)
        check(("PodDisruptionBudget" in {o["kind"] for o in objects}) == (name != "claim"), "disruption budget")

    return test


def configuration_loads(bench, config):
    """The key's file is not here, so one that is takes its place."""
    key = bench.stack.work / "key"
    key.write_text("chart-tests-0123456789abcdef0123456789abcdef")
    file = bench.stack.work / "chart.toml"
    file.write_text(config.replace("/etc/smartgate-keys/default", str(key)))
    output([bench.binary, "check", file])


def refused(_bench):
    for words, named in WRONG.items():
        status, _, err = run(template([words]))
        check(status != 0 and named in err, f"{words} gave {status}: {err}")


def tests(bench):
    yield "helm/lint", lambda: lint(bench)
    for name in CASES:
        yield f"helm/{name}", rendered(bench, name)
    yield "helm/wrong-values-are-refused-by-name", lambda: refused(bench)
