//! Puts the gateway into pods as a native sidecar. Owns what of a workload is changed; what is put in is the kustomize
//! component's own patch, so that the three ways into a pod (component, file, webhook) end in the same pod.
//!
//! Invariant: what the workload says itself is kept, and a pod that has the sidecar is left as it is.

mod objects;
pub mod webhook;
pub mod yaml;

use serde_json::{Value, json};

pub use objects::object;

/// The patch of `deploy/kubernetes/component`: a Deployment with nothing but what is added.
const SIDECAR: &str = include_str!("../../deploy/kubernetes/component/sidecar.yaml");
/// And its patch of the server's container.
const SERVER: &str = include_str!("../../deploy/kubernetes/component/server.yaml");

/// The label by which a pod asks for the sidecar (`on`), or refuses it (`off`).
pub const LABEL: &str = "smartgate";
/// The annotation that names the server's container; the first one without it.
pub const CONTAINER: &str = "smartgate/container";
/// YAML 1.1, which Kubernetes reads, takes `off` without quotes for a truth value, and a label must be text.
const UNQUOTED: &str = "the label smartgate is a truth value: write \"off\" or \"on\" with quotes";
/// What Kubernetes waits for where a pod says nothing, in seconds.
const DEFAULT_GRACE: u64 = 30;

/// What is put in, and what of it differs from the component.
#[derive(Debug, Clone)]
pub struct Sidecar {
    annotations: Value,
    grace: u64,
    container: Value,
    volumes: Vec<Value>,
    lifecycle: Value,
}

/// Names that differ from the component's.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// The gateway's image.
    pub image: Option<String>,
    /// The ConfigMap with `smartgate.toml`.
    pub config_map: Option<String>,
    /// The Secret with the keys.
    pub secret: Option<String>,
}

/// What became of one pod template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The sidecar was added, before the server of this container.
    Added {
        /// The server's container.
        server: String,
        /// What the user should know of it.
        warnings: Vec<String>,
    },
    /// It has one already.
    There,
    /// Its label says `off`.
    Off,
    /// It has containers, and is of a kind that is not known here.
    Unknown,
    /// It cannot be done, and why.
    Impossible(String),
}

impl Sidecar {
    /// The component's sidecar, with these names.
    #[must_use]
    pub fn new(names: &Names) -> Self {
        let mut template = part(SIDECAR, "/spec/template");
        let mut spec = template["spec"].take();
        let mut container = spec["initContainers"][0].take();
        let mut volumes = match spec["volumes"].take() {
            Value::Array(volumes) => volumes,
            _ => Vec::new(),
        };
        if let Some(image) = &names.image {
            container["image"] = image.as_str().into();
        }
        for volume in &mut volumes {
            if let (Some(name), Some(map)) = (&names.config_map, volume.get_mut("configMap")) {
                map["name"] = name.as_str().into();
            }
            if let (Some(name), Some(secret)) = (&names.secret, volume.get_mut("secret")) {
                secret["secretName"] = name.as_str().into();
            }
        }
        Self {
            annotations: template["metadata"]["annotations"].take(),
            grace: spec["terminationGracePeriodSeconds"].as_u64().unwrap_or(DEFAULT_GRACE),
            container,
            volumes,
            lifecycle: part(SERVER, "/0/value"),
        }
    }

    /// Adds it to a pod or pod template, before the container that its annotation names, or its first.
    pub fn add(&self, template: &mut Value) -> Outcome {
        self.add_before(None, template)
    }

    /// The same, with what the workload's own annotation says; the template's counts more.
    fn add_before(&self, server: Option<&str>, template: &mut Value) -> Outcome {
        match &template["metadata"]["labels"][LABEL] {
            label if label == "off" => return Outcome::Off,
            Value::Bool(_) => return Outcome::Impossible(UNQUOTED.to_owned()),
            _ => {}
        }
        let ours = &self.container["name"];
        let Some(spec) = template["spec"].as_object() else {
            return Outcome::Impossible("it has no spec".to_owned());
        };
        let named = |list: &str, name: &Value| {
            spec.get(list).and_then(Value::as_array).is_some_and(|all| all.iter().any(|c| &c["name"] == name))
        };
        if named("initContainers", ours) || named("containers", ours) {
            return Outcome::There;
        }
        let taken = self.volumes.iter().find(|volume| named("volumes", &volume["name"]));
        if let Some(volume) = taken {
            return Outcome::Impossible(format!("it has a volume {} of its own", volume["name"]));
        }
        let server = match self.server(server, template) {
            Ok(server) => server,
            Err(why) => return Outcome::Impossible(why),
        };
        let mut warnings = self.taken_ports(&template["spec"]);
        warnings.extend(self.keep_up(&mut template["spec"]["containers"][server]));
        let server = template["spec"]["containers"][server]["name"].as_str().unwrap_or_default().to_owned();
        self.put(template);
        Outcome::Added { server, warnings }
    }

    /// The place of the server's container.
    fn server(&self, named: Option<&str>, template: &Value) -> Result<usize, String> {
        let containers = template["spec"]["containers"].as_array().filter(|all| !all.is_empty());
        let containers = containers.ok_or("it has no containers")?;
        match template["metadata"]["annotations"][CONTAINER].as_str().or(named) {
            None => Ok(0),
            Some(name) => containers
                .iter()
                .position(|container| container["name"] == name)
                .ok_or_else(|| format!("it has no container '{name}', which {CONTAINER} names")),
        }
    }

    /// Containers of a pod share its ports: whoever comes second cannot listen.
    fn taken_ports(&self, spec: &Value) -> Vec<String> {
        let of = |container: &Value| {
            let ports = container["ports"].as_array().into_iter().flatten();
            ports.filter_map(|port| port["containerPort"].as_u64()).collect::<Vec<_>>()
        };
        let ours = of(&self.container);
        let containers =
            ["containers", "initContainers"].into_iter().filter_map(|list| spec[list].as_array());
        let taken = containers
            .flatten()
            .flat_map(|container| of(container).into_iter().map(move |port| (container, port)));
        let warn = |(container, port): (&Value, u64)| {
            format!(
                "container {} names port {port}, which the gateway listens on: one of them will not start; \
                 move the container's, a container port cannot be used twice in a pod",
                container["name"]
            )
        };
        taken.filter(|(_, port)| ours.contains(port)).map(warn).collect()
    }

    /// Lets the server outlive the calls in flight, unless it has its own way of stopping.
    fn keep_up(&self, container: &mut Value) -> Option<String> {
        if container["lifecycle"]["preStop"].is_null() {
            container["lifecycle"]["preStop"] = self.lifecycle["preStop"].clone();
            return None;
        }
        Some(format!(
            "its own preStop is kept: calls in flight are lost at a restart unless it waits as long as {}",
            self.lifecycle["preStop"]
        ))
    }

    fn put(&self, template: &mut Value) {
        for (name, value) in self.annotations.as_object().into_iter().flatten() {
            let mine = &mut template["metadata"]["annotations"][name];
            if mine.is_null() {
                *mine = value.clone();
            }
        }
        let spec = &mut template["spec"];
        let grace = spec["terminationGracePeriodSeconds"].as_u64().unwrap_or(DEFAULT_GRACE);
        spec["terminationGracePeriodSeconds"] = grace.max(self.grace).into();
        // First, so that it is there for init containers too that call the server's neighbours.
        list(spec, "initContainers").insert(0, self.container.clone());
        list(spec, "volumes").extend(self.volumes.iter().cloned());
    }
}

/// A list of the spec, made if it is not there.
fn list<'a>(spec: &'a mut Value, name: &str) -> &'a mut Vec<Value> {
    let list = &mut spec[name];
    if !list.is_array() {
        *list = json!([]);
    }
    list.as_array_mut().expect("it was made one")
}

/// A part of a file that is compiled in.
fn part(text: &str, pointer: &str) -> Value {
    let mut documents = yaml::read(text).expect("a test reads the files that are compiled in");
    documents[0].pointer_mut(pointer).map(Value::take).expect("a test finds the parts of those files")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Value {
        json!({"kind": "Pod", "metadata": {"name": "a", "annotations": {"prometheus.io/port": "1"}}, "spec": {
            "containers": [{"name": "server", "image": "s:1"}, {"name": "cache", "image": "c:1"}],
            "volumes": [{"name": "data"}], "terminationGracePeriodSeconds": 90}})
    }

    fn add(template: &mut Value) -> Outcome {
        Sidecar::new(&Names::default()).add(template)
    }

    #[test]
    fn what_the_pod_says_is_kept() {
        let mut pod = pod();
        assert_eq!(add(&mut pod), Outcome::Added { server: "server".into(), warnings: vec![] });
        assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 90);
        assert_eq!(pod["metadata"]["annotations"]["prometheus.io/port"], "1");
        assert_eq!(pod["metadata"]["annotations"]["prometheus.io/path"], "/metrics");
        assert_eq!(pod["spec"]["volumes"].as_array().unwrap().len(), 4);
        let sidecar = &pod["spec"]["initContainers"][0];
        assert_eq!((&sidecar["name"], &sidecar["restartPolicy"]), (&json!("smartgate"), &json!("Always")));
        assert_eq!(pod["spec"]["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"], 22);
        assert!(pod["spec"]["containers"][1]["lifecycle"].is_null());
    }

    #[test]
    fn a_second_time_changes_nothing() {
        let mut once = pod();
        add(&mut once);
        let mut twice = once.clone();
        assert_eq!(add(&mut twice), Outcome::There);
        assert_eq!(once, twice);
    }

    #[test]
    fn labels_and_annotations_choose() {
        let mut off = pod();
        off["metadata"]["labels"] = json!({"smartgate": "off"});
        assert_eq!(add(&mut off), Outcome::Off);
        let mut second = pod();
        second["metadata"]["annotations"][CONTAINER] = json!("cache");
        assert_eq!(add(&mut second), Outcome::Added { server: "cache".into(), warnings: vec![] });
        let mut none = pod();
        none["metadata"]["annotations"][CONTAINER] = json!("nobody");
        let before = none.clone();
        assert!(matches!(add(&mut none), Outcome::Impossible(why) if why.contains("nobody")));
        assert_eq!(none, before);
        let mut unquoted = pod();
        unquoted["metadata"]["labels"] = json!({"smartgate": false});
        assert!(matches!(add(&mut unquoted), Outcome::Impossible(why) if why.contains("quotes")));
        let mut outer = json!({"kind": "Deployment", "metadata": {"name": "d", "annotations": {CONTAINER: "cache"}},
            "spec": {"template": pod()}});
        let added = object(&Sidecar::new(&Names::default()), &mut outer);
        assert_eq!(added[0].1, Outcome::Added { server: "cache".into(), warnings: vec![] });
    }

    #[test]
    fn an_own_way_of_stopping_is_kept_and_warned_of() {
        let mut pod = pod();
        pod["spec"]["containers"][0]["lifecycle"] = json!({"preStop": {"exec": {"command": ["a"]}}});
        let Outcome::Added { warnings, .. } = add(&mut pod) else { panic!("it is added") };
        assert!(warnings.len() == 1 && warnings[0].contains("22"), "{warnings:?}");
        assert_eq!(pod["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][0], "a");
    }

    #[test]
    fn names_are_taken() {
        let names = Names {
            image: Some("registry.example/gate:2".into()),
            config_map: Some("mine".into()),
            secret: Some("hidden".into()),
        };
        let mut pod = pod();
        Sidecar::new(&names).add(&mut pod);
        let text = pod.to_string();
        assert!(text.contains("registry.example/gate:2") && text.contains(r#""configMap":{"name":"mine"}"#));
        assert!(text.contains(r#""secretName":"hidden""#), "{text}");
    }

    #[test]
    fn ports_that_are_taken_are_warned_of() {
        let mut pod = pod();
        pod["spec"]["containers"][1]["ports"] = json!([{"containerPort": 80}, {"containerPort": 9787}]);
        let Outcome::Added { warnings, .. } = add(&mut pod) else { panic!("it is added") };
        assert!(warnings.len() == 1 && warnings[0].contains("\"cache\" names port 9787"), "{warnings:?}");
    }
}
