//! The gateway under test, with everything on: keys, limits, normaliser, journal with fsync, OTLP.

use std::{
    fmt::Write as _,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use sha2::{Digest, Sha256};

use crate::{
    Res,
    bodies::SECRET,
    client::Client,
    process::{self, Process},
};

/// How long the last spans and records may take to arrive after the last call.
const SETTLE: Duration = Duration::from_secs(10);

/// A running gateway and where it leaves its records.
pub(crate) struct Gateway {
    pub(crate) process: Process,
    admin: SocketAddr,
    journal: PathBuf,
}

/// What a gateway stands between.
pub(crate) struct Setting<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) upstream: SocketAddr,
    pub(crate) sink: SocketAddr,
    /// Keys in the configuration; the one that is used is the last.
    pub(crate) keys: usize,
    /// How many upstreams the configuration has; all of them lead to the same server.
    pub(crate) upstreams: usize,
    /// Whether tools have a prefix also with one upstream, which is then shown as several are.
    pub(crate) prefixed: bool,
}

impl Gateway {
    /// Writes the configuration, starts the process and waits until it listens.
    pub(crate) fn start(program: &Path, setting: &Setting<'_>) -> Res<Self> {
        let (listen, admin) = (process::free_address()?, process::free_address()?);
        let (file, journal) = (setting.folder.join("smartgate.toml"), setting.folder.join("journal"));
        fs::create_dir_all(&journal)?;
        fs::write(&file, configuration(setting, listen, admin)?)?;
        let mut command = process::unlimited(&program.to_string_lossy());
        command
            .arg("serve")
            .arg("-c")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(fs::File::create(setting.folder.join("gateway.log"))?);
        let process = Process::program(&mut command, listen)?;
        Ok(Self { process, admin, journal })
    }

    /// Waits until the upstream's tools are known, so that no measured call is repaired differently.
    pub(crate) fn settle(&self) -> Res<()> {
        let template = crate::bodies::Template::call(crate::bodies::Shape::Clean, 1024);
        Client::connect(self.process.address)?.calls(&template, 50)?;
        thread::sleep(Duration::from_millis(300));
        Ok(())
    }

    /// Waits until all of so many modern upstreams have been asked.
    pub(crate) fn knows(&self, upstreams: usize) -> Res<()> {
        let deadline = Instant::now() + SETTLE;
        while Client::connect(self.admin)?.get("/readyz")?.matches(" tools, modern, confirmed ").count()
            < upstreams
        {
            if Instant::now() > deadline {
                return Err("the gateway does not learn its upstreams".into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The sum of a counter over its labels; 0 if it is not there yet.
    pub(crate) fn counter(&self, name: &str) -> Res<f64> {
        let text = Client::connect(self.admin)?.get("/metrics")?;
        let values = text
            .lines()
            .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
        Ok(values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }

    /// Records of calls in the journal and its older segments, once their number stays the same.
    pub(crate) fn records(&self) -> Res<u64> {
        settled(|| count_records(&self.journal))
    }
}

/// Spans that the sink has received, once their number stays the same.
pub(crate) fn spans(sink: SocketAddr) -> Res<u64> {
    settled(|| Ok(Client::connect(sink)?.get("/count")?.trim().parse()?))
}

fn settled(read: impl Fn() -> Res<u64>) -> Res<u64> {
    let deadline = Instant::now() + SETTLE;
    let (mut before, mut same) = (read()?, 0);
    while same < 8 && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(250));
        let now = read()?;
        same = if now == before { same + 1 } else { 0 };
        before = now;
    }
    Ok(before)
}

fn count_records(folder: &Path) -> Res<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let bytes = fs::read(entry?.path())?;
        sum += memchr::memmem::find_iter(&bytes, b"\"kind\":\"call\"").count() as u64;
    }
    Ok(sum)
}

fn configuration(setting: &Setting<'_>, listen: SocketAddr, admin: SocketAddr) -> Res<String> {
    let mut text = format!(
        "[server]\nlisten = \"{listen}\"\n[admin]\nlisten = \"{admin}\"\n\
         [limits]\nrate = \"100000000/min\"\n\
         [audit]\njournal = {{ path = \"journal/audit.jsonl\", fsync = \"1s\" }}\n\
         [storage]\npath = \"storage.db\"\n\
         [telemetry]\notlp = \"http://{}\"\n",
        setting.sink,
    );
    for upstream in 0..setting.upstreams {
        writeln!(
            text,
            "[upstreams.load{upstream}]\nurl = \"http://{}/mcp\"\n\
             headers.authorization = \"Bearer load-benchmark-no-secret-{upstream:02}\"",
            setting.upstream
        )?;
        if setting.prefixed {
            writeln!(text, "prefix = \"load{upstream}\"")?;
        }
    }
    for other in 1..setting.keys {
        write_key(&mut text, &format!("other-{other}"), &format!("other secret {other}"))?;
    }
    write_key(&mut text, "bench", SECRET)?;
    Ok(text)
}

fn write_key(text: &mut String, name: &str, secret: &str) -> Res<()> {
    write!(text, "[[keys]]\nname = \"{name}\"\nsha256 = \"")?;
    for byte in Sha256::digest(secret) {
        write!(text, "{byte:02x}")?;
    }
    text.push_str("\"\n");
    Ok(())
}
