//! The contract of `smart_context_gate`, called as a client would.

use serde_json::{Value, json};

use super::super::tests::Client;

const TEXT: &str = "The quay was built in 1840 by the guild. Fishing boats unload there before dawn. Rents rose in May. \
    Nobody knows who painted the sheds. The railway reached the coast in 1871. It carried wool, timber and salt to the inland valleys. \
    Two trains ran each day, and a ticket cost four pence. The market moved uphill, close to the station.";

async fn cut(client: &Client, arguments: Value) -> Value {
    client.call("smart_context_gate", arguments).await.expect("a result")
}

#[tokio::test]
async fn a_text_is_cut_and_its_original_kept() {
    let client = Client::new();
    let result =
        cut(&client, json!({"text": TEXT, "purpose": "When did the railway come?", "ratio": "0.4"})).await;
    let text = result["text"].as_str().expect("text");
    assert!(
        text.contains("The railway reached the coast in 1871.") && text.contains("tokens omitted]"),
        "{text}"
    );
    assert_eq!(
        (&result["mode_used"], &result["lossy"], &result["content_type"]),
        (&json!("extract"), &json!(true), &json!("prose"))
    );
    assert!(result["ratio_actual"].as_f64() <= Some(0.41) && result["ratio_target"] == 0.4, "{result}");
    assert_eq!(
        (&result["usage"]["savings_basis"], &result["usage"]["tokens_saved"]),
        (&json!("inline"), &json!(0))
    );

    let original = result["original_ref"].as_str().expect("a reference");
    let again =
        cut(&client, json!({"ref": original, "purpose": "When did the railway come?", "ratio": 0.4})).await;
    assert_eq!((&again["text"], &again["original_ref"]), (&result["text"], &json!(original)));
    assert_eq!(again["usage"]["savings_basis"], "by_reference");
}

#[tokio::test]
async fn what_fits_is_left_alone_and_not_kept() {
    let result = cut(&Client::new(), json!({"text": TEXT, "ratio": 1})).await;
    assert_eq!(
        (&result["text"], &result["mode_used"], &result["lossy"]),
        (&json!(TEXT), &json!("none"), &json!(false))
    );
    assert!(result.get("original_ref").is_none());
}

#[tokio::test]
async fn arguments_are_checked() {
    let client = Client::new();
    for (arguments, code) in [
        (json!({}), "invalid_arguments"),
        (json!({"text": "a", "ref": "cx_01J9ZQ4K7M8N3P5R6S7T8V9W0X"}), "invalid_arguments"),
        (json!({"text": "a", "ratio": 2}), "invalid_arguments"),
        (json!({"text": "a", "max_tokens": 5}), "invalid_arguments"),
        (json!({"text": "a", "max_tokens": 20.5}), "invalid_arguments"),
        (json!({"text": "a", "keep": ["x"]}), "invalid_arguments"),
        (json!({"text": "a", "purpos": "x"}), "invalid_arguments"),
        (json!({"text": " \n"}), "empty_input"),
        (json!({"text": TEXT, "ratio": 0.2, "keep": ["the"]}), "keep_exceeds_budget"),
        (json!({"text": "x ".repeat(1_000_001)}), "too_large"),
        (json!({"ref": "cx_01J9ZQ4K7M8N3P5R6S7T8V9W0X"}), "ref_not_found"),
    ] {
        let error = client.call("smart_context_gate", arguments).await.expect_err("refused");
        assert_eq!(error["code"], code, "{error}");
    }
}
