//! Normalising twice equals once, and what comes out is a message again.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use smartgate::mcp::{
    message::{Body, parse},
    normalize::{Coercion, Normalized, Rules, normalize},
    tools::ToolSet,
};

static TOOLS: LazyLock<ToolSet> = LazyLock::new(|| {
    let list = br##"{"tools":[{"name":"t","inputSchema":{"properties":{"n":{"type":"integer"},"b":{"type":"boolean"},
        "a":{"type":"array","items":{"type":"string"}},"o":{"$ref":"#"},"x":{"anyOf":[{"type":"number"},{"type":"null"}]}}}},
        {"name":"u_v","inputSchema":{"properties":{}}},{"name":"ping"}]}"##;
    ToolSet::from_list_result(list).expect("the list is well-formed")
});

fuzz_target!(|body: &[u8]| {
    for coercion in [Coercion::Off, Coercion::Safe, Coercion::Full] {
        let rules = Rules { coercion, ..Rules::default() };
        let once = normalize(body, &rules, &TOOLS);
        let Some(text) = once.body else { continue };
        assert!(matches!(parse(&text), Ok(Body::Object(_))));
        assert_eq!(normalize(&text, &rules, &TOOLS), Normalized::default());
    }
});
