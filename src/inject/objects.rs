//! Objects as they stand in files: where each kind keeps its pods. Owns the list of kinds.
//!
//! Invariant: an object that has containers and is of no kind listed here is left alone, and named.

use serde_json::Value;

use super::{CONTAINER, LABEL, Outcome, Sidecar};

/// How deep containers are looked for in objects of unknown kinds.
const DEPTH: usize = 8;

/// Adds the sidecar to every pod template of an object, and says of each what became of it.
pub fn object(sidecar: &Sidecar, object: &mut Value) -> Vec<(String, Outcome)> {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    if let Some(items) =
        object.get_mut("items").filter(|_| kind.ends_with("List")).and_then(Value::as_array_mut)
    {
        return items.iter_mut().flat_map(|item| self::object(sidecar, item)).collect();
    }
    let name = format!("{kind}/{}", object["metadata"]["name"].as_str().unwrap_or("?"));
    let Some(pointer) = pods(&kind, object["apiVersion"].as_str().unwrap_or_default()) else {
        let unknown = has_containers(object, DEPTH).then_some((name, Outcome::Unknown));
        return unknown.into_iter().collect();
    };
    // As the component, which sees the workload's labels, and the webhook, which sees the pod's.
    let off = object["metadata"]["labels"][LABEL] == "off";
    let server = object["metadata"]["annotations"][CONTAINER].as_str().map(str::to_owned);
    let elsewhere = object["spec"]["workloadRef"]["name"].as_str().map(str::to_owned);
    let outcome = match object.pointer_mut(pointer) {
        _ if off => Outcome::Off,
        Some(template) => sidecar.add_before(server.as_deref(), template),
        None => match elsewhere {
            Some(workload) => Outcome::Impossible(format!(
                "its pods are those of '{workload}', which workloadRef names: inject that one"
            )),
            None => Outcome::Impossible("it has no pod template".to_owned()),
        },
    };
    vec![(name, outcome)]
}

/// Where a kind keeps its pod, or the template of its pods.
fn pods(kind: &str, version: &str) -> Option<&'static str> {
    match kind {
        "Pod" => Some(""),
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "ReplicationController" | "Job" => {
            Some("/spec/template")
        }
        "Rollout" if version.starts_with("argoproj.io/") => Some("/spec/template"),
        "CronJob" => Some("/spec/jobTemplate/spec/template"),
        _ => None,
    }
}

/// Whether there is a list of containers somewhere in it.
fn has_containers(value: &Value, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    let are = |list: &Value| list.as_array().is_some_and(|all| all.iter().any(|c| c["image"].is_string()));
    match value {
        Value::Object(members) => {
            members.get("containers").is_some_and(are) || members.values().any(|v| has_containers(v, depth))
        }
        Value::Array(items) => items.iter().any(|item| has_containers(item, depth)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::inject::Names;

    fn added() -> Outcome {
        Outcome::Added { server: "c".into(), warnings: vec![] }
    }

    #[test]
    fn every_kind_of_workload_is_known() {
        let sidecar = Sidecar::new(&Names::default());
        let template = json!({"spec": {"containers": [{"name": "c"}]}});
        let mut list = json!({"kind": "List", "items": [
            {"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": template}},
            {"kind": "CronJob", "metadata": {"name": "j"}, "spec": {"jobTemplate": {"spec": {"template": template}}}},
            {"kind": "ConfigMap", "metadata": {"name": "m"}},
            {"kind": "StatefulSet", "metadata": {"name": "o", "labels": {"smartgate": "off"}}, "spec": {"template": template}},
            {"kind": "Job", "metadata": {"name": "e"}, "spec": {}}]});
        let outcomes = object(&sidecar, &mut list);
        let no = Outcome::Impossible("it has no pod template".into());
        let of = |name: &str, outcome| (name.to_owned(), outcome);
        assert_eq!(
            outcomes,
            [
                of("Deployment/d", added()),
                of("CronJob/j", added()),
                of("StatefulSet/o", Outcome::Off),
                of("Job/e", no)
            ]
        );
        assert_eq!(list["items"][2], json!({"kind": "ConfigMap", "metadata": {"name": "m"}}));
    }

    #[test]
    fn rollouts_are_workloads_and_other_kinds_with_containers_are_named() {
        let sidecar = Sidecar::new(&Names::default());
        let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
        let argo = |spec: Value| json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "r"}, "spec": spec});
        let mut own = argo(json!({"template": template}));
        assert_eq!(object(&sidecar, &mut own)[0].1, added());
        assert_eq!(own["spec"]["template"]["spec"]["initContainers"][0]["name"], "smartgate");
        let mut elsewhere = argo(json!({"workloadRef": {"kind": "Deployment", "name": "files"}}));
        let outcome = &object(&sidecar, &mut elsewhere)[0].1;
        assert!(matches!(outcome, Outcome::Impossible(why) if why.contains("'files'")), "{outcome:?}");

        let mut foreign = json!({"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "k"},
            "spec": {"template": template}});
        let before = foreign.clone();
        assert_eq!(object(&sidecar, &mut foreign), [("Service/k".to_owned(), Outcome::Unknown)]);
        assert_eq!(foreign, before);
    }
}
