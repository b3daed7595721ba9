//! The normaliser alone, in this process: microseconds of processor time for each KiB of body, small, middling and large. What
//! is linear costs the same for each KiB at every size; each shape is one that tempts a normaliser not to be.

use std::hint::black_box;

use smartgate::mcp::{
    normalize::{Rules, normalize},
    tools::ToolSet,
};

use crate::{Plan, Res, process::own_cpu_seconds, table::Table};

const CASE: &str = "repair";
const KIB: usize = 1024;
const SIZES: [usize; 3] = [KIB, 64 * KIB, 4096 * KIB];
const TOOLS: &str = r#"{"tools":[{"name":"echo","inputSchema":{"type":"object","properties":{
    "text":{"type":"string"},"n":{"type":"integer"},"list":{"type":"array","items":{"type":"integer"}}}}}]}"#;

/// A way to write a call: its name, what stands before and after the filling, the filling, which is
/// repeated, and whether a rule must fire.
struct Shape {
    name: &'static str,
    before: &'static str,
    filling: &'static str,
    after: &'static str,
    fires: bool,
}

const SHAPES: [Shape; 6] = [
    Shape {
        name: "clean",
        before: r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":""#,
        filling: "lorem ipsum dolor ",
        after: r#"","n":7}}}"#,
        fires: false,
    },
    Shape {
        name: "arguments as text, a number in it as text",
        before: r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":"{\"text\":\""#,
        filling: r"lorem \\u00e9 ipsum ",
        after: r#"\",\"n\":\"7\"}"}}"#,
        fires: true,
    },
    Shape {
        name: "a list whose every number is text",
        before: r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"list":["1""#,
        filling: r#","12345678""#,
        after: "]}}}",
        fires: true,
    },
    Shape {
        name: "tool as method, list behind",
        before: r#"{"jsonrpc":"2.0","id":1,"method":"echo","params":{"list":[1"#,
        filling: ",12345678",
        after: "]}}",
        fires: true,
    },
    Shape {
        name: "number as text after deep nesting",
        before: r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"x":["#,
        filling: "[[[[[[[[0]]]]]]]],",
        after: r#"0],"n":"7"}}}"#,
        fires: true,
    },
    Shape {
        name: "no arguments, many other parameters",
        before: r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo""#,
        filling: r#","parameter-@@@@@@@":[0,1,2]"#,
        after: "}}",
        fires: true,
    },
];

impl Shape {
    /// A body of about `size` bytes. `@@@@@@@` in the filling becomes a number that is never the same.
    fn body(&self, size: usize) -> Vec<u8> {
        let mut body = self.before.to_string();
        for number in 1_000_000.. {
            if body.len() + self.filling.len() + self.after.len() > size {
                break;
            }
            body.push_str(&self.filling.replace("@@@@@@@", &number.to_string()));
        }
        body.push_str(self.after);
        body.into_bytes()
    }
}

pub(super) fn run(plan: &Plan, table: &mut Table) -> Res<()> {
    let tools = ToolSet::from_list_result(TOOLS.as_bytes()).map_err(|error| format!("{error:?}"))?;
    for shape in &SHAPES {
        let mut figures = Vec::new();
        for size in SIZES {
            let body = shape.body(size);
            let fired = normalize(&body, &Rules::default(), &tools).body.is_some();
            if fired != shape.fires {
                return Err(format!("{}: a rule fired: {fired}", shape.name).into());
            }
            let times = plan.pick(64 * 1024 * KIB / size, 3).clamp(3, 20_000);
            let micros = cpu_micros(&body, &tools, times)?;
            figures.push(format!("{:.2}", micros / (body.len() as f64 / KIB as f64)));
        }
        let what = format!("{}: cpu us/KiB at 1 / 64 / 4096 KiB", shape.name);
        table.row(CASE, what, figures.join(" / "), "<= 2, flat");
    }
    Ok(())
}

/// Processor time of one of `times` repairs.
fn cpu_micros(body: &[u8], tools: &ToolSet, times: usize) -> Res<f64> {
    let rules = Rules::default();
    let before = own_cpu_seconds()?;
    for _ in 0..times {
        black_box(normalize(black_box(body), &rules, tools));
    }
    Ok((own_cpu_seconds()? - before) * 1e6 / times as f64)
}
