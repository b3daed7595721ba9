"""deploy/kubernetes: what kustomize makes of it is valid for the oldest and newest Kubernetes promised, and the component
adds the sidecar to Deployments that know nothing of it."""

import pathlib
import tomllib

from harness import ROOT, check, run
from tools import DEPLOY, documents, judge_pod, one, output, tool, validate

KUBERNETES = DEPLOY / "kubernetes"
STRANGERS = """
apiVersion: apps/v1
kind: Deployment
metadata: { name: files }
spec:
  selector: { matchLabels: { app: files } }
  template:
    metadata: { labels: { app: files }, annotations: { mine: kept } }
    spec:
      initContainers:
        - { name: migrate, image: files:1, command: [migrate] }
      containers:
        - { name: files, image: files:1, volumeMounts: [{ name: data, mountPath: /data }] }
        - { name: cache, image: cache:1 }
      volumes:
        - { name: data, emptyDir: {} }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: bare }
spec:
  selector: { matchLabels: { app: bare } }
  template:
    metadata: { labels: { app: bare } }
    spec:
      containers: [{ name: bare, image: bare:1 }]
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: left-out, labels: { smartgate: "off" } }
spec:
  selector: { matchLabels: { app: left-out } }
  template:
    metadata: { labels: { app: left-out } }
    spec:
      containers: [{ name: left-out, image: left-out:1 }]
"""
OVERLAY = """
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [strangers.yaml]
components: [component]
namePrefix: one-
images: [{ name: smartgate, newName: registry.example/smartgate, newTag: "9" }]
"""


def kustomize(folder):
    return output([tool("kubectl"), "kustomize", folder])


def configuration():
    return tomllib.loads((KUBERNETES / "component/smartgate.toml").read_text())


def base(bench):
    text = kustomize(KUBERNETES / "base")
    validate(text, bench.stack.work)
    objects = documents(text)
    pod = one(objects, "Deployment")["spec"]["template"]["spec"]
    judge_pod(pod, configuration())
    server_port = int(next(e["value"] for e in pod["containers"][0]["env"] if e["name"] == "PORT"))
    check(f":{server_port}/" in configuration()["upstreams"]["server"]["url"], "the upstream is not the server's port")
    policy = one(objects, "NetworkPolicy")["spec"]
    allowed = {port["port"] for rule in policy["ingress"] for port in rule["ports"]}
    check(policy["policyTypes"] == ["Ingress"] and allowed == {8787, 9787}, f"the policy lets in {allowed}")
    labels = one(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    check(policy["podSelector"]["matchLabels"].items() <= labels.items(), "the policy is for other pods")
    check(one(objects, "Service")["spec"]["ports"][0]["targetPort"] == 8787, "the Service goes past the gateway")


def component(bench):
    folder = bench.stack.work / "overlay"
    folder.mkdir()
    (folder / "strangers.yaml").write_text(STRANGERS)
    (folder / "kustomization.yaml").write_text(OVERLAY)
    (folder / "component").mkdir()
    for file in (KUBERNETES / "component").iterdir():
        (folder / "component" / file.name).write_text(file.read_text())
    text = kustomize(folder)
    validate(text, bench.stack.work)
    objects = documents(text)
    files, bare, left = (
        one(objects, "Deployment", name)["spec"]["template"] for name in ("one-files", "one-bare", "one-left-out")
    )
    for template in (files, bare):
        judge_pod(template["spec"], configuration())
        images = [c["image"] for c in template["spec"]["initContainers"] if c["name"] == "smartgate"]
        used = [v["configMap"]["name"] for v in template["spec"]["volumes"] if "configMap" in v]
        check(used == [one(objects, "ConfigMap")["metadata"]["name"]] == ["one-smartgate"], f"ConfigMap: {used}")
        check(images == ["registry.example/smartgate:9"], f"images: {images}")
    spec = files["spec"]
    check(files["metadata"]["annotations"]["mine"] == "kept", "an annotation is gone")
    check({c["name"] for c in spec["initContainers"]} == {"migrate", "smartgate"}, "an init container is gone")
    check([c["name"] for c in spec["containers"]] == ["files", "cache"], "the containers changed")
    check("data" in {v["name"] for v in spec["volumes"]} and spec["containers"][0]["volumeMounts"], "a volume is gone")
    check("initContainers" not in left["spec"], "the label smartgate=off is not obeyed")


def schemas_refuse(bench):
    """The validator itself works: it refuses what is wrong."""
    file = pathlib.Path(bench.stack.work) / "wrong.yaml"
    file.write_text("apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {ports: [{port: no}]}\n")
    check(run([tool("kubernetes-validate"), "--strict", file])[0] != 0, "a port that is a word was taken")


def example(bench):
    """config/sidecar.toml fits the pods that the component and the chart make."""
    config = tomllib.loads((ROOT / "config/sidecar.toml").read_text())
    judge_pod(one(documents(kustomize(KUBERNETES / "base")), "Deployment")["spec"]["template"]["spec"], config)
    inside = ("/etc/smartgate-keys/", "/var/lib/smartgate/")
    paths = [*config["server"]["tls"].values(), config["storage"]["path"], config["audit"]["journal"]["path"]]
    paths += [key["file"] for key in config["keys"] if "file" in key]
    check(all(path.startswith(inside) for path in paths), f"paths are {paths}")


def tests(bench):
    yield "kubernetes/schemas-refuse-what-is-wrong", lambda: schemas_refuse(bench)
    yield "kubernetes/base", lambda: base(bench)
    yield "kubernetes/component-adds-the-sidecar-to-any-deployment", lambda: component(bench)
    yield "kubernetes/the-example-configuration-fits-the-pods", lambda: example(bench)
