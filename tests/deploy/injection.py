"""`smartgate inject`: files and the webhook end in the same pods as the kustomize component, and the webhook is spoken to as
the API server does: HTTPS with a CA of its own, AdmissionReview in, JSON patch out."""

import base64
import json
import signal
import ssl
import subprocess
import urllib.request

import yaml

from harness import ROOT, check, free_ports, listening, run, wait_until
from manifests import KUBERNETES, STRANGERS, configuration, kustomize
from tools import documents, judge_pod, one, output, validate


def in_order(value):
    """Without what the order of lists of named things means; init containers keep theirs."""
    if isinstance(value, dict):
        return {k: in_order(sorted(v, key=lambda volume: volume["name"]) if k == "volumes" else v) for k, v in value.items()}
    return [in_order(v) for v in value] if isinstance(value, list) else value


def by_component(bench):
    folder = bench.stack.work / "by-component"
    folder.mkdir(exist_ok=True)
    (folder / "strangers.yaml").write_text(STRANGERS)
    (folder / "kustomization.yaml").write_text("resources: [strangers.yaml]\ncomponents: [component]\n")
    (folder / "component").mkdir(exist_ok=True)
    for file in (KUBERNETES / "component").iterdir():
        (folder / "component" / file.name).write_text(file.read_text())
    return [d for d in documents(kustomize(folder)) if d["kind"] == "Deployment"]


def files(bench):
    file = bench.stack.work / "strangers.yaml"
    file.write_text(STRANGERS)
    status, out, err = run([bench.binary, "inject", "-f", file])
    check(status == 0 and "Deployment/left-out: left alone" in err, err)
    validate(out, bench.stack.work)
    injected, patched = documents(out), by_component(bench)
    for name in ("files", "bare", "left-out"):
        ours, theirs = (one(side, "Deployment", name)["spec"]["template"] for side in (injected, patched))
        check(in_order(ours) == in_order(theirs), lambda: f"{name}:\n{yaml.dump(ours)}\nby kustomize:\n{yaml.dump(theirs)}")
    status, again, _ = run([bench.binary, "inject", "-f", "-"], stdin=out)
    check(status == 0 and documents(again) == injected, "a second time changed something")


def refusals(bench):
    broken = bench.stack.work / "broken.yaml"
    broken.write_text("a: [1")
    check(run([bench.binary, "inject", "-f", broken])[0] == 64, "what is not YAML was taken")
    nothing = bench.stack.work / "nothing.yaml"
    nothing.write_text("kind: ConfigMap\nmetadata: {name: a}\n")
    check(run([bench.binary, "inject", "-f", nothing])[0] == 1, "nothing to inject was called success")
    check(run([bench.binary, "inject"])[0] == 64, "no file was taken")


def patched(pod, patch):
    """RFC 6902, the operations that appear."""
    for operation in patch:
        *path, last = [p.replace("~1", "/").replace("~0", "~") for p in operation["path"].split("/")[1:]]
        place = pod
        for part in path:
            place = place[int(part)] if isinstance(place, list) else place[part]
        if isinstance(place, list):
            last = len(place) if last == "-" else int(last)
        check(operation["op"] in ("add", "replace", "remove"), f"{operation['op']} is not known here")
        if operation["op"] == "remove":
            del place[last]
        elif isinstance(place, list) and operation["op"] == "add":
            place.insert(last, operation["value"])
        else:
            place[last] = operation["value"]
    return pod


def webhook(bench):
    (port,) = free_ports(1)
    folder = bench.stack.work / "webhook"
    folder.mkdir()
    output([ROOT / ".tools/py2/bin/python", ROOT / "tests/real/certificates.py", folder])
    command = [bench.binary, "inject", "serve", "--listen", f"127.0.0.1:{port}", "--cert", folder / "tls.crt", "--key", folder / "tls.key"]
    process = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE)
    try:
        wait_until("the webhook", lambda: listening(port))
        trust = ssl.create_default_context(cafile=folder / "ca.crt")

        def post(review):
            request = urllib.request.Request(
                f"https://127.0.0.1:{port}/inject?timeout=5s",
                data=json.dumps(review).encode(),
                headers={"content-type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=10, context=trust) as answer:
                return json.load(answer)["response"]

        template = next(d for d in documents(STRANGERS) if d["metadata"]["name"] == "files")["spec"]["template"]
        pod = {"apiVersion": "v1", "kind": "Pod", **template}
        pod["metadata"]["labels"]["smartgate"] = "on"
        review = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {"uid": "705ab4f5", "operation": "CREATE", "namespace": "default", "object": pod},
        }
        response = post(review)
        check(response["allowed"] and response["uid"] == "705ab4f5" and response["patchType"] == "JSONPatch", response)
        made = patched(json.loads(json.dumps(pod)), json.loads(base64.b64decode(response["patch"])))
        judge_pod(made["spec"], configuration())
        component = one(by_component(bench), "Deployment", "files")["spec"]["template"]["spec"]
        check(in_order(made["spec"]) == in_order(component), lambda: yaml.dump(made))
        review["request"]["object"] = made
        check("patch" not in post(review), "a pod that has the sidecar was changed")
        with urllib.request.urlopen(f"https://127.0.0.1:{port}/healthz", timeout=10, context=trust) as answer:
            check(answer.status == 200, "it is not healthy")
        process.send_signal(signal.SIGTERM)
        check(process.wait(timeout=10) == 0, "SIGTERM is no clean end")
    finally:
        process.kill()
        process.wait()


def manifests_of_the_webhook(bench):
    text = kustomize(KUBERNETES / "webhook")
    objects = documents(text)
    known = [o for o in objects if "cert-manager" not in o["apiVersion"]]
    validate(yaml.dump_all(known), bench.stack.work)
    hook = one(objects, "MutatingWebhookConfiguration")["webhooks"][0]
    service = one(objects, "Service")
    target = hook["clientConfig"]["service"]
    check((target["name"], target["namespace"]) == (service["metadata"]["name"], service["metadata"]["namespace"]), target)
    certificate = one(objects, "Certificate")["spec"]
    check(certificate["dnsNames"] == [f"{target['name']}.{target['namespace']}.svc"], certificate)
    pod = one(objects, "Deployment")["spec"]["template"]
    check(service["spec"]["selector"].items() <= pod["metadata"]["labels"].items(), "the Service is of other pods")
    check("smartgate" not in pod["metadata"]["labels"], "the injector would wait for itself")
    container = pod["spec"]["containers"][0]
    check(container["image"] in container["args"], "the injector puts another version in")
    volume = pod["spec"]["volumes"][0]["secret"]["secretName"]
    check(volume == certificate["secretName"], "the certificate is not the one that is mounted")
    output([bench.binary, "inject", "serve", "--help"])


def tests(bench):
    yield "inject/files-are-as-the-component-makes-them", lambda: files(bench)
    yield "inject/refusals", lambda: refusals(bench)
    yield "inject/webhook", lambda: webhook(bench)
    yield "inject/manifests-of-the-webhook", lambda: manifests_of_the_webhook(bench)
