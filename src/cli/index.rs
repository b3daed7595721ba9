//! `smartgate index`: the documents of the `local` search engine. Owns the arguments, the batches in which documents
//! are written and what is said about each; reading files and indexing are in [`crate::search`].

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, Subcommand};

use super::{FAILURE, USAGE, print};
use crate::{
    config::{self, CliOverrides, Config, Target},
    search::{
        import,
        local::{self, Added, Document, OPERATOR},
    },
    store::Store,
    web::Fetcher,
};

/// Documents in one write: each write waits for the disk.
const BATCH: usize = 32;

/// `index`
#[derive(Debug, Parser)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add text, Markdown, HTML and PDF files, all such files of folders, or web pages; what is there already is renewed
    #[command(after_help = "Examples:\n  \
        smartgate index add docs/ handbook.html\n  \
        smartgate index add -c smartgate.toml https://example.com/guide\n\n\
        Files are found under their file:// URL. Every key that may call smart_search finds and reads them.\n\
        Exit code: 0 if all were added, 1 if one was not, 64 for wrong usage.")]
    Add {
        /// What to add
        #[arg(value_name = "FILE|DIR|URL", required = true)]
        what: Vec<String>,
        #[command(flatten)]
        storage: Storage,
    },
    /// List the documents: URL, size of the text, title
    #[command(after_help = "Example:\n  smartgate index list")]
    List {
        #[command(flatten)]
        storage: Storage,
    },
    /// Remove documents
    #[command(after_help = "Example:\n  smartgate index remove https://example.com/guide\n\n\
        Exit code: 0 if all were there, 1 if one was not, 64 for wrong usage.")]
    Remove {
        /// Their URLs, or the files they came from
        #[arg(value_name = "URL", required = true)]
        what: Vec<String>,
        #[command(flatten)]
        storage: Storage,
    },
}

#[derive(Debug, clap::Args)]
struct Storage {
    /// Configuration file whose storage is used
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Storage {
    fn open(&self) -> Result<(Config, Store), String> {
        let loaded = match &self.config {
            Some(file) => config::load(file),
            None => config::default_with(&CliOverrides::default()),
        };
        let config = loaded.map_err(|problems| problems.to_string())?.config;
        let store = Store::open(config.storage.path.as_deref(), config.storage.quota);
        Ok((config, store.map_err(|why| format!("smartgate: {why}"))?))
    }
}

/// Runs the command.
pub fn run(args: Args) -> ExitCode {
    let (Command::Add { storage, .. } | Command::List { storage } | Command::Remove { storage, .. }) =
        &args.command;
    let (config, store) = match storage.open() {
        Ok(opened) => opened,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(USAGE);
        }
    };
    match args.command {
        Command::Add { what, .. } => add(&config, store, &what),
        Command::List { .. } => list(&store),
        Command::Remove { what, .. } => remove(&store, what),
    }
}

fn add(config: &Config, store: Store, what: &[String]) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return failure(&format!("cannot start the runtime: {e}")),
    };
    let builtin = config.upstreams.iter().find(|u| u.target == Target::Builtin);
    let settings = builtin.map(|u| u.smart.fetch.clone()).unwrap_or_default();
    let fetcher = Fetcher::new(&settings, store.clone());
    let mut import = Import { store, waiting: Vec::new(), counts: Counts::default() };
    for place in what {
        if is_url(place) {
            import.take(place, runtime.block_on(import::page(&fetcher, place)));
            continue;
        }
        match import::files(Path::new(place)) {
            Ok(files) if files.is_empty() => {
                import.failed(place, "there is no text, Markdown, HTML or PDF in it");
            }
            Ok(files) => {
                for file in files {
                    let document = runtime.block_on(import::document(&file));
                    import.take(&file.display().to_string(), document);
                }
            }
            Err(error) => import.failed(place, &error.to_string()),
        }
    }
    import.finish()
}

#[derive(Default)]
struct Counts {
    new: usize,
    changed: usize,
    unchanged: usize,
    failed: usize,
}

struct Import {
    store: Store,
    waiting: Vec<(String, Document)>,
    counts: Counts,
}

impl Import {
    fn take(&mut self, place: &str, document: Result<Document, String>) {
        match document {
            Ok(document) => self.waiting.push((place.to_owned(), document)),
            Err(why) => self.failed(place, &why),
        }
        if self.waiting.len() == BATCH {
            self.write();
        }
    }

    fn failed(&mut self, place: &str, why: &str) {
        eprintln!("failed     {place}: {why}");
        self.counts.failed += 1;
    }

    fn write(&mut self) {
        let (places, documents): (Vec<_>, Vec<_>) = self.waiting.drain(..).unzip();
        let written = self.store.write_blocking(move |c| {
            documents.iter().map(|document| local::add(c, OPERATOR, document)).collect::<Result<Vec<_>, _>>()
        });
        match written {
            Ok(added) => {
                for (place, added) in places.iter().zip(added) {
                    let (word, count) = match added {
                        Added::New => ("added", &mut self.counts.new),
                        Added::Changed => ("renewed", &mut self.counts.changed),
                        Added::Unchanged => ("unchanged", &mut self.counts.unchanged),
                    };
                    *count += 1;
                    eprintln!("{word:<10} {place}");
                }
            }
            Err(error) => places.iter().for_each(|place| self.failed(place, &error.to_string())),
        }
    }

    fn finish(mut self) -> ExitCode {
        self.write();
        let Counts { new, changed, unchanged, failed } = self.counts;
        eprintln!("{new} added, {changed} renewed, {unchanged} unchanged, {failed} failed");
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILURE) }
    }
}

fn list(store: &Store) -> ExitCode {
    match store.read_blocking(|c| local::list(c, OPERATOR)) {
        Ok(documents) => {
            if documents.is_empty() {
                eprintln!("smartgate: there are no documents; smartgate index add FILE|DIR|URL adds some");
            }
            let mut text = String::new();
            for document in documents {
                writeln!(text, "{}\t{}\t{}", document.url, document.bytes, document.title)
                    .expect("writing to a string never fails");
            }
            print(&text)
        }
        Err(error) => failure(&error.to_string()),
    }
}

fn remove(store: &Store, what: Vec<String>) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for place in what {
        let url = if place.contains("://") { Ok(place.clone()) } else { import::file_url(Path::new(&place)) };
        let removed = url.and_then(|url| {
            store.write_blocking(move |c| local::remove(c, OPERATOR, &url)).map_err(|e| e.to_string())
        });
        match removed {
            Ok(true) => eprintln!("removed    {place}"),
            Ok(false) => {
                code = failure(&format!("{place}: there is no such document; see smartgate index list"))
            }
            Err(why) => code = failure(&format!("{place}: {why}")),
        }
    }
    code
}

fn failure(why: &str) -> ExitCode {
    eprintln!("smartgate: {why}");
    ExitCode::from(FAILURE)
}

fn is_url(place: &str) -> bool {
    ["http://", "https://"]
        .iter()
        .any(|scheme| place.get(..scheme.len()).is_some_and(|s| s.eq_ignore_ascii_case(scheme)))
}
