//! The JSON Schema of the configuration, derived from the file as written. Owns its final form: draft
//! 2020-12, without `null`, which TOML does not have.

use schemars::{Schema, generate::SchemaSettings, transform::RecursiveTransform};
use serde_json::Value;

use super::file::File;

/// The JSON Schema of the configuration file (draft 2020-12), the same text for the same version.
#[must_use]
pub fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(tidy));
    settings.into_generator().into_root_schema_for::<File>().to_value()
}

/// Optional keys may be absent, but cannot be null; formats that say how wide a number is in Rust tell
/// editors nothing.
fn tidy(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|t| t != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(variants)) = object.get_mut("anyOf") {
        variants.retain(|v| v["type"] != "null");
        if let [only] = variants.as_mut_slice() {
            let only = only.take();
            object.remove("anyOf");
            if let Value::Object(only) = only {
                only.into_iter().for_each(|(k, v)| {
                    object.entry(k).or_insert(v);
                });
            }
        }
    }
    if object.get("format").is_some_and(|f| f != "date-time") {
        object.remove("format");
    }
}
