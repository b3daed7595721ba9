//! What the built-in tools cost, beside what they cannot do without. Prints a table; asserts nothing.
//!
//! `cargo bench --bench tools`, or with names of cases: `-- gate fetch dedup memory`. Texts come from the sets that
//! `SMARTGATE_TEST_DATA` names (else `../shared/data`); a case whose set is absent is left out with a message. The
//! program and its baseline take turns, and each figure is a median, so that a busy machine disturbs both alike.

use std::{
    env, fs,
    hint::black_box,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use smartgate::{
    config::Smart,
    policy::budget::Ledger,
    store::Store,
    text::{
        gate::{self, Options},
        shingles, tokens,
    },
    upstream::{Caller, builtin::Builtin},
    web,
};
use tokio::{runtime::Runtime, task::JoinSet};

const MEGABYTE: usize = 1_000_000;
/// Turns of what takes a good part of a second.
const TURNS: usize = 9;
/// Turns of each page.
const PAGE_TURNS: usize = 3;
const PASSAGES: usize = 500;
const MEMORIES: usize = 100_000;
const RECALLS: usize = 400;

/// What one run took: on the clock, and of the processors.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
struct Cost {
    wall: f64,
    processor: f64,
}

fn measure<T>(run: impl FnOnce() -> T) -> Cost {
    let processor = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32).as_secs_f64()
    };
    let (begun, before) = (Instant::now(), processor());
    black_box(run());
    Cost { wall: begun.elapsed().as_secs_f64() * 1e3, processor: (processor() - before) * 1e3 }
}

fn median(costs: &[Cost]) -> Cost {
    let middle = |pick: fn(&Cost) -> f64| {
        let mut values: Vec<f64> = costs.iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    Cost { wall: middle(|c| c.wall), processor: middle(|c| c.processor) }
}

/// The medians of both, taking turns.
fn beside<A, B>(turns: usize, mut run: impl FnMut() -> A, mut baseline: impl FnMut() -> B) -> (Cost, Cost) {
    let (mut runs, mut baselines) = (Vec::new(), Vec::new());
    for _ in 0..turns {
        baselines.push(measure(&mut baseline));
        runs.push(measure(&mut run));
    }
    (median(&runs), median(&baselines))
}

fn row(what: &str, goal: &str, cost: Cost, baseline: (&str, Cost)) {
    let (name, base) = baseline;
    println!(
        "{what:<34}{goal:>10}{:>10.2}{:>11.2}   {name:<22}{:>10.2}{:>11.2}",
        cost.wall, cost.processor, base.wall, base.processor
    );
}

/// A folder of the sets.
fn set(name: &str) -> Option<PathBuf> {
    let root = env::var_os("SMARTGATE_TEST_DATA").map_or_else(|| "../shared/data".into(), PathBuf::from);
    let folder = root.join(name);
    if !folder.is_dir() {
        println!("left out: no {}", folder.display());
        return None;
    }
    Some(folder)
}

fn json_of(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).expect("the file can be read")).expect("it is JSON")
}

/// Paragraphs and questions of XQuAD.
fn xquad(language: &str) -> Option<(Vec<String>, Vec<String>)> {
    let set = json_of(&set("xquad")?.join(format!("xquad.{language}.json")));
    let (mut paragraphs, mut questions) = (Vec::new(), Vec::new());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for paragraph in items(&set["data"]).iter().flat_map(|article| items(&article["paragraphs"])) {
        paragraphs.push(text(&paragraph["context"]));
        questions.extend(items(&paragraph["qas"]).iter().map(|question| text(&question["question"])));
    }
    Some((paragraphs, questions))
}

/// A megabyte of paragraphs, numbered so that none comes twice.
fn megabyte(parts: &[String]) -> String {
    let mut text = String::new();
    for (n, part) in parts.iter().cycle().enumerate() {
        if text.len() >= MEGABYTE {
            break;
        }
        text += &format!("{n} {part}\n\n");
    }
    text.truncate(text.floor_char_boundary(MEGABYTE));
    text
}

/// This package's own source.
fn source() -> Vec<String> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the source is here").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect()
}

fn gate() {
    let english = xquad("en").map(|(text, _)| megabyte(&text));
    let chinese = xquad("zh").map(|(text, _)| megabyte(&text));
    let code = megabyte(&source());
    let texts = [
        ("English", english, "How many points did the Panthers defense surrender?"),
        ("Chinese", chinese, "黑豹队的防守丢了多少分？"),
        ("code", Some(code), "where is the rate limit of a key checked"),
    ];
    for (name, text, purpose) in texts {
        let Some(text) = text else { continue };
        for purpose in [Some(purpose), None] {
            let options = Options { ratio: 0.3, max_tokens: None, ..Options::to_fit(0, purpose) };
            let (cost, base) =
                beside(TURNS, || gate::cut(&text, &options).is_ok(), || tokens::Offsets::of(&text));
            let what =
                format!("gate, 1 MB {name}, {}", if purpose.is_some() { "purpose" } else { "no purpose" });
            row(&what, "150", cost, ("its tokens alone", base));
        }
    }
}

fn pages() -> Option<Vec<String>> {
    let mut files: Vec<_> =
        fs::read_dir(set("article-extraction")?.join("html")).ok()?.flatten().map(|f| f.path()).collect();
    files.sort();
    let page = |file: &PathBuf| {
        let mut html = String::new();
        flate2::read::GzDecoder::new(fs::File::open(file).ok()?).read_to_string(&mut html).ok()?;
        Some(html)
    };
    Some(files.iter().filter_map(page).collect())
}

fn fetch(runtime: &Runtime) {
    let Some(pages) = pages() else { return };
    let url = url::Url::parse("https://example.com/page").expect("a URL");
    let costs = pages.iter().map(|html| {
        let read = || {
            let body = html.clone().into_bytes();
            runtime.block_on(web::read(body, "text/html; charset=utf-8", url.clone())).is_ok()
        };
        beside(PAGE_TURNS, read, || dom_query::Document::from(html.as_str()))
    });
    let (costs, bases): (Vec<Cost>, Vec<Cost>) = costs.unzip();
    row("extraction, the median page", "10", median(&costs), ("its DOM alone", median(&bases)));
}

/// Passages of 80 to 150 words of real articles, of which every tenth is a slight edit of an earlier one.
fn passages() -> Option<Vec<String>> {
    let truth = json_of(&set("article-extraction")?.join("ground-truth.json"));
    let mut passages: Vec<String> = Vec::new();
    for article in truth.as_object()?.values() {
        let words: Vec<&str> = article["articleBody"].as_str()?.split_whitespace().collect();
        for passage in words.chunks(80 + passages.len() % 71).filter(|words| words.len() >= 80) {
            if passages.len() % 10 == 9 {
                let edited = passages[passages.len() / 2].replacen(" the ", " that ", 2);
                passages.push(edited);
            }
            passages.push(passage.join(" "));
        }
    }
    passages.truncate(PASSAGES);
    Some(passages)
}

fn builtin(path: Option<&Path>) -> Arc<Builtin> {
    let store = Store::open(path, 1 << 30).expect("the storage opens");
    let ledger = Arc::new(Ledger::open(store.clone()).expect("the ledger opens"));
    Arc::new(Builtin::new(&Smart::default(), store, ledger))
}

async fn call(tools: &Builtin, tool: &str, arguments: Value) -> Value {
    tools.run(tool, arguments, Caller::default()).await.expect("there is such a tool").expect("it answers")
}

fn dedup(runtime: &Runtime) {
    let Some(passages) = passages() else { return };
    let _guard = runtime.enter();
    let tools = builtin(None);
    let run = || {
        let arguments = json!({"texts": passages, "return": "indices"});
        runtime.block_on(call(&tools, "smart_dedup", arguments))
    };
    let baseline = || passages.iter().map(|text| shingles::prepare(text).shingles.len()).sum::<usize>();
    let (cost, base) = beside(TURNS * 3, run, baseline);
    let what = format!("dedup, {} passages of 80-150 words", passages.len());
    row(&what, "50", cost, ("their word pairs alone", base));
}

/// Halves of two sentences and a number, so that no two are the same.
fn memory_of(n: usize, sentences: &[String]) -> String {
    let half = |n: usize| {
        let text = &sentences[n % sentences.len()];
        &text[..text.ceil_char_boundary(text.len() / 2)]
    };
    format!("{} {} {n}", half(n), half(n * 7))
}

fn memory(runtime: &Runtime) {
    let Some((paragraphs, questions)) = xquad("en") else { return };
    let sentences: Vec<String> =
        paragraphs.iter().flat_map(|text| text.split_inclusive(". ")).map(str::to_owned).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let _guard = runtime.enter();
    let tools = builtin(Some(&folder.path().join("memory.db")));
    runtime.block_on(async {
        let mut calls = JoinSet::new();
        for n in 0..MEMORIES {
            let (tools, content) = (Arc::clone(&tools), memory_of(n, &sentences));
            if calls.len() >= 256 {
                calls.join_next().await;
            }
            calls.spawn(async move {
                let arguments = json!({"action": "store", "key": n.to_string(), "content": content});
                call(&tools, "smart_memory", arguments).await;
            });
        }
        calls.join_all().await;
    });
    let costs = questions.iter().step_by(questions.len() / RECALLS).enumerate().map(|(n, question)| {
        let recall = json!({"action": "recall", "query": question});
        let get = json!({"action": "get", "key": (n * 241 % MEMORIES).to_string()});
        let run = |arguments: &Value| runtime.block_on(call(&tools, "smart_memory", arguments.clone()));
        beside(1, || run(&recall), || run(&get))
    });
    let (costs, bases): (Vec<Cost>, Vec<Cost>) = costs.unzip();
    row("memory, recall among 100,000", "10", median(&costs), ("get by key", median(&bases)));
}

fn main() {
    let wanted: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    let runtime = Runtime::new().expect("a runtime");
    println!(
        "medians in ms; {} tokens counted first, so that the tables are loaded\n",
        tokens::count("some words")
    );
    println!(
        "{:<34}{:>10}{:>10}{:>11}   {:<22}{:>10}{:>11}",
        "what", "goal", "wall", "processor", "baseline", "wall", "processor"
    );
    if wants("gate") {
        gate();
    }
    if wants("fetch") {
        fetch(&runtime);
    }
    if wants("dedup") {
        dedup(&runtime);
    }
    if wants("memory") {
        memory(&runtime);
    }
}
