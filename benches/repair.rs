//! What a repair costs, and what watching an answer costs. Prints tables; asserts nothing.
//!
//! `cargo bench --bench repair`. Each figure is the best of many short batches, from body bytes to repaired bytes:
//! parsing, all rules and writing the result. Rows grow to 4 MiB, so that a cost that is not linear shows.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use smartgate::mcp::{
    normalize::{Coercion, Rules, normalize},
    response::{Format, Keep, ResponseScanner},
    tools::ToolSet,
};

/// Time spent on one figure.
const FIGURE: Duration = Duration::from_millis(100);

/// Shortest stretch that is timed: the clock itself costs some 50 ns.
const BATCH: Duration = Duration::from_micros(50);

const SIZES: [usize; 5] = [1 << 10, 16 << 10, 256 << 10, 1 << 20, 4 << 20];

const TOOLS: &str = r#"{"tools":[{"name":"t","inputSchema":{"type":"object","properties":{
    "rows":{"type":"array","items":{"type":"object","properties":{"n":{"type":"integer"},"note":{"type":"string"}}}},
    "map":{"type":"object","additionalProperties":{"type":"integer"}}}}}]}"#;

/// A body of about `size` bytes that needs a repair.
struct Shape {
    name: &'static str,
    body: fn(usize) -> String,
}

const SHAPES: [Shape; 10] = [
    // One long string; the same full of escapes; and beyond ASCII.
    Shape { name: "long text", body: |n| call(&format!("\"text\":\"{}\"", "lorem ipsum ".repeat(n / 12))) },
    Shape { name: "escapes", body: |n| call(&format!("\"text\":\"{}\"", r#"a\n\"b\" "#.repeat(n / 10))) },
    Shape { name: "unicode", body: |n| call(&format!("\"text\":\"{}\"", "åß世界 ".repeat(n / 11))) },
    // Members of some eleven bytes, in `arguments` and in `params`, where names are compared.
    Shape { name: "members", body: |n| call(&list(n, short)) },
    Shape { name: "params", body: |n| without_version("ping", &list(n, short)) },
    Shape { name: "nested", body: |n| call(&format!("\"x\":[{}]", list(n, nested))) },
    // Arguments that are one text; a tool's name as the method.
    Shape {
        name: "as text",
        body: |n| call_with(&format!("\"{{{}}}\"", list(n, |i| short(i).replace('"', "\\\"")))),
    },
    Shape { name: "direct", body: |n| without_version("t", &list(n, short)) },
    // About five numbers in text for each KiB; and nothing but such numbers.
    Shape { name: "coercion", body: |n| call(&format!("\"rows\":[{}]", list(n, |i| row(i, 150)))) },
    Shape { name: "dense", body: |n| call(&format!("\"rows\":[{}]", list(n, |i| row(i, 10)))) },
];

fn short(i: usize) -> String {
    format!("\"k{i}\":{i}")
}

fn nested(_: usize) -> String {
    format!("{}1{}", "[{\"a\":".repeat(200), "}]".repeat(200))
}

/// A row with a number in text beside a text that is none.
fn row(i: usize, note: usize) -> String {
    format!("{{\"n\":\"{i}\",\"note\":\"{}\"}}", "x".repeat(note))
}

fn without_version(method: &str, params: &str) -> String {
    format!("{{\"id\":1,\"method\":\"{method}\",\"params\":{{{params}}}}}")
}

/// Items up to `size` bytes, with commas.
fn list(size: usize, item: impl Fn(usize) -> String) -> String {
    let mut out = String::with_capacity(size + 64);
    let mut i = 0;
    while out.len() < size {
        if i > 0 {
            out.push(',');
        }
        out.push_str(&item(i));
        i += 1;
    }
    out
}

fn call(arguments: &str) -> String {
    call_with(&format!("{{{arguments}}}"))
}

/// `jsonrpc` is missing, so that every body needs a repair.
fn call_with(arguments: &str) -> String {
    format!("{{\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"t\",\"arguments\":{arguments}}}}}")
}

/// Nanoseconds of one run: the best of many short batches, so that a busy machine disturbs little.
fn time(mut run: impl FnMut()) -> f64 {
    let start = Instant::now();
    run();
    let first = start.elapsed().max(Duration::from_nanos(50));
    let times = (BATCH.as_nanos() / first.as_nanos()).clamp(1, 1000) as u32;
    let mut best = f64::MAX;
    while best == f64::MAX || start.elapsed() < FIGURE {
        let batch = Instant::now();
        for _ in 0..times {
            run();
        }
        best = best.min(batch.elapsed().as_nanos() as f64 / f64::from(times));
    }
    best
}

fn repairs(tools: &ToolSet, coercion: Coercion) {
    let rules = Rules { coercion, ..Rules::default() };
    println!("\nrepair, coercion {coercion:?}: us per KiB of body (target: at most 2)\n");
    let mut head = format!("{:>10}", "body");
    for shape in &SHAPES {
        head += &format!("{:>11}", shape.name);
    }
    println!("{head}");
    for size in SIZES {
        let mut row = format!("{:>6} KiB", size >> 10);
        for shape in &SHAPES {
            let body = (shape.body)(size);
            let done = normalize(body.as_bytes(), &rules, tools);
            assert!(done.body.is_some(), "{} needs a repair", shape.name);
            let ns = time(|| drop(black_box(normalize(black_box(body.as_bytes()), &rules, tools))));
            row += &format!("{:>11.3}", ns / 1000.0 / (body.len() as f64 / 1024.0));
        }
        println!("{row}");
    }
}

fn answers() {
    let text = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{}\"}}]}}}}",
        "lorem ipsum ".repeat(80_000)
    );
    let data = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"structuredContent\":[{}]}}}}",
        list(1 << 20, |i| format!("{{\"id\":{i},\"ok\":true,\"name\":\"row\"}}"))
    );
    let sse = format!("event: message\ndata: {text}\n\n");
    println!("\nwatching an answer of about 1 MiB in chunks of 16 KiB: ns per byte\n");
    println!("{:>10}{:>11}{:>11}{:>11}", "answer", "nothing", "hash", "64 KiB");
    for (name, format, body) in
        [("text", Format::Json, &text), ("data", Format::Json, &data), ("sse", Format::Sse, &sse)]
    {
        let mut row = format!("{name:>10}");
        for keep in [Keep::Nothing, Keep::Hash, Keep::Bytes(64 << 10)] {
            let ns = time(|| {
                let mut scanner = ResponseScanner::new(format, keep, Some("1"));
                for chunk in body.as_bytes().chunks(16 << 10) {
                    black_box(scanner.feed(black_box(chunk)));
                }
                assert!(black_box(scanner.finish()).valid);
            });
            row += &format!("{:>11.3}", ns / body.len() as f64);
        }
        println!("{row}");
    }
}

fn main() {
    let tools = ToolSet::from_list_result(TOOLS.as_bytes()).expect("the list is well-formed");
    repairs(&tools, Coercion::Safe);
    repairs(&tools, Coercion::Full);
    answers();
}
