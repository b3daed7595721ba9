"""The tools of others that the checks use. Owns where `scripts/test` has put them; a tool that this machine cannot have
skips the test that needs it. Invariant: a skipped check says which tool was missing."""

import pathlib
import shutil

import yaml

from harness import ROOT, Skipped, check, run

DEPLOY = ROOT / "deploy"
TOOLS = ROOT / ".tools"
PLACES = {
    "hadolint": TOOLS / "deploy/bin/hadolint",
    "kubernetes-validate": TOOLS / "deploy/bin/kubernetes-validate",
    "taplo": TOOLS / "deploy/bin/taplo",
    "kubectl": TOOLS / "kubernetes/kubectl",
    "helm": TOOLS / "kubernetes/helm",
    "promtool": TOOLS / "prometheus/usr/bin/promtool",
    "prometheus": TOOLS / "prometheus/usr/bin/prometheus",
}
VERSIONS = ("1.29.1", "1.37.0")


def tool(name):
    """A tool that runs here."""
    path = PLACES.get(name)
    if not path or not pathlib.Path(path).exists():
        path = shutil.which(name)
    if not path or not runs(path, name):
        raise Skipped(f"{name} is not to be had here")
    return path


def runs(path, name):
    try:
        return run([path, "version" if name in ("helm",) else "--help"])[0] == 0
    except OSError:
        return False


def output(command, **options):
    """What a command that must succeed prints."""
    status, out, err = run(command, **options)
    check(status == 0, lambda: f"{' '.join(map(str, command))} exited {status}: {out[-2000:]}{err[-2000:]}")
    return out


def documents(text):
    """The YAML documents of `text`, without empty ones."""
    return [document for document in yaml.safe_load_all(text) if document]


def one(objects, kind, name=None):
    found = [o for o in objects if o["kind"] == kind and name in (None, o["metadata"]["name"])]
    check(len(found) == 1, f"{len(found)} objects are {kind} {name or ''}")
    return found[0]


def validate(text, work):
    """Checks manifests against the Kubernetes schemas, the oldest and newest that are promised."""
    file = pathlib.Path(work) / "manifests.yaml"
    file.write_text(text)
    for version in VERSIONS:
        output([tool("kubernetes-validate"), "--strict", "--quiet", "-k", version, file])


def seconds(duration):
    check(duration.endswith("s") and duration[:-1].isdigit(), f"{duration} is not in whole seconds")
    return int(duration[:-1])


def judge_pod(pod, config):
    """What must hold for every pod of ours, whatever made it: `config` is the parsed smartgate.toml."""
    drain = seconds(config["server"]["drain"])
    sidecar = [c for c in pod.get("initContainers", []) if c["name"] == "smartgate"]
    grace = pod["terminationGracePeriodSeconds"]
    if sidecar:
        gateway = sidecar[0]
        check(gateway["restartPolicy"] == "Always", "the gateway is no native sidecar")
        sleep = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
        check(sleep == drain + 2, f"the server sleeps {sleep} s, the drain is {drain} s")
        check(grace > sleep + drain, f"{grace} s do not hold the sleep of {sleep} s and a drain of {drain} s")
    else:
        gateway = next(c for c in pod["containers"] if c["name"] == "smartgate")
        check(grace > gateway["lifecycle"]["preStop"]["sleep"]["seconds"] + drain, "the grace period is too short")
    security = gateway["securityContext"]
    expected = {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    check(expected.items() <= security.items(), f"securityContext is {security}")
    check(
        "memory" in gateway["resources"]["limits"] and "cpu" in gateway["resources"]["requests"],
        "resources are missing",
    )
    check(all("subPath" not in m for m in gateway["volumeMounts"]), "a subPath does not follow changes")
    ports = {p["containerPort"] for p in gateway["ports"]}
    check({"name": "admin", "containerPort": 9787} in gateway["ports"], "kubernetes.yml scrapes the port named admin")
    listeners = {int(config[part]["listen"].rsplit(":", 1)[1]) for part in ("server", "admin")}
    check(ports == listeners, f"ports {ports}, listeners {listeners}")
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        check(gateway[probe]["httpGet"]["port"] == 9787, f"{probe} asks another port")
    mounted = {m["mountPath"] for m in gateway["volumeMounts"]}
    check(mounted == {"/etc/smartgate", "/etc/smartgate-keys", "/var/lib/smartgate"}, f"mounts are {mounted}")
