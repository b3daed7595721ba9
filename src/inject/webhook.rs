//! The mutating webhook: `AdmissionReview` in, a JSON patch out. Owns paths and the shape of answers.
//!
//! Source: Kubernetes, "Dynamic Admission Control" (admission.k8s.io/v1). Invariant: what cannot be injected is refused with
//! the reason, not let in without the gateway; whoever wants it otherwise has the label or `failurePolicy`.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::{Outcome, Sidecar};
use crate::server::{Handler, Peer};

/// Largest review that is read: etcd takes objects of 1.5 MiB, and a review may hold two.
const LARGEST: usize = 8 * 1024 * 1024;
/// Where reviews are sent.
const PATH: &str = "/inject";

/// Answers the API server.
#[derive(Debug)]
pub struct Webhook(pub Sidecar);

impl Handler for Webhook {
    type Body = Full<Bytes>;

    async fn handle(&self, req: Request<Incoming>, _peer: Peer) -> Response<Full<Bytes>> {
        match (req.method(), req.uri().path()) {
            (&Method::GET, "/healthz") => answer(StatusCode::OK, "ok".into()),
            (&Method::POST, PATH) => match Limited::new(req.into_body(), LARGEST).collect().await {
                Ok(body) => match self.review(&body.to_bytes()) {
                    Ok(review) => answer(StatusCode::OK, review.to_string()),
                    Err(why) => answer(StatusCode::BAD_REQUEST, json!({"error": why}).to_string()),
                },
                Err(_) => answer(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    json!({"error": "no such large object"}).to_string(),
                ),
            },
            (_, PATH) => {
                answer(StatusCode::METHOD_NOT_ALLOWED, json!({"error": "POST a review"}).to_string())
            }
            _ => answer(StatusCode::NOT_FOUND, json!({"error": format!("reviews go to {PATH}")}).to_string()),
        }
    }
}

impl Webhook {
    /// The answer to one review.
    fn review(&self, body: &[u8]) -> Result<Value, String> {
        let mut review: Value = serde_json::from_slice(body).map_err(|e| format!("not JSON: {e}"))?;
        if review["apiVersion"] != "admission.k8s.io/v1" || review["kind"] != "AdmissionReview" {
            return Err("not an AdmissionReview of admission.k8s.io/v1".to_owned());
        }
        let mut request = review["request"].take();
        let uid = request["uid"].as_str().ok_or("the review has no request.uid")?.to_owned();
        let before = request["object"].take();
        if before["kind"] != "Pod" {
            return Err("this webhook is for pods".to_owned());
        }
        let mut after = before.clone();
        let outcome = self.0.add(&mut after);
        let name = before["metadata"]["generateName"].as_str().or(before["metadata"]["name"].as_str());
        tracing::info!(pod = name, namespace = request["namespace"].as_str(), ?outcome, "reviewed");
        let mut response = json!({"uid": uid, "allowed": true});
        match outcome {
            Outcome::Added { warnings, .. } => {
                let patch =
                    serde_json::to_vec(&json_patch::diff(&before, &after)).map_err(|e| e.to_string())?;
                response["patchType"] = "JSONPatch".into();
                response["patch"] = STANDARD.encode(patch).into();
                if !warnings.is_empty() {
                    let told = warnings.iter().map(|warning| format!("smartgate: {warning}"));
                    response["warnings"] = told.collect::<Vec<_>>().into();
                }
            }
            Outcome::There | Outcome::Off | Outcome::Unknown => {}
            Outcome::Impossible(why) => {
                response["allowed"] = false.into();
                response["status"] =
                    json!({"code": 422, "message": format!("smartgate cannot be added: {why}")});
            }
        }
        Ok(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
    }
}

fn answer(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inject::Names;

    fn asked(object: &Value) -> Value {
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {"uid": "u1", "namespace": "n", "operation": "CREATE", "object": object}});
        Webhook(Sidecar::new(&Names::default())).review(review.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn the_patch_makes_the_pod_with_the_sidecar() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a-"},
            "spec": {"containers": [{"name": "server"}]}});
        let review = asked(&pod);
        let response = &review["response"];
        assert_eq!((&response["uid"], &response["allowed"]), (&json!("u1"), &json!(true)));
        let patch = STANDARD.decode(response["patch"].as_str().unwrap()).unwrap();
        let patch: json_patch::Patch = serde_json::from_slice(&patch).unwrap();
        let (mut patched, mut expected) = (pod.clone(), pod);
        json_patch::patch(&mut patched, &patch).unwrap();
        Sidecar::new(&Names::default()).add(&mut expected);
        assert_eq!(patched, expected);
        assert!(asked(&patched)["response"]["patch"].is_null(), "a second review changes nothing");
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_the_reason() {
        let pod = json!({"kind": "Pod", "metadata": {"annotations": {"smartgate/container": "x"}},
            "spec": {"containers": [{"name": "server"}]}});
        let response = &asked(&pod)["response"];
        assert_eq!(response["allowed"], false);
        assert!(response["status"]["message"].as_str().unwrap().contains("no container 'x'"));
    }

    #[test]
    fn what_is_no_review_is_refused() {
        let webhook = Webhook(Sidecar::new(&Names::default()));
        let reviews = [
            "",
            "{}",
            r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"u"}}"#,
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#,
            r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","object":{"kind":"Node"}}}"#,
        ];
        for review in reviews {
            assert!(webhook.review(review.as_bytes()).is_err(), "{review}");
        }
    }
}
