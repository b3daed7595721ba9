//! Throughput by `wrk`, a load generator that others know. Owns its script and the reading of its result.

use std::{fs, net::SocketAddr, path::Path, process::Command};

use crate::{
    Res,
    bodies::{FIRST_ID, Template},
};

/// What one run of wrk saw.
pub(crate) struct Run {
    pub(crate) calls: u64,
    pub(crate) per_second: f64,
}

/// Whether wrk is installed.
pub(crate) fn installed() -> bool {
    Command::new("wrk").arg("-v").output().is_ok()
}

/// Calls `address` over `connections` connections kept alive, each with one call in flight, for `seconds`.
/// Every call has an id of its own. Fails on any answer that is not a success.
pub(crate) fn run(
    folder: &Path,
    address: SocketAddr,
    template: &Template,
    connections: u32,
    seconds: u32,
) -> Res<Run> {
    let script = folder.join("call.lua");
    fs::write(&script, lua(template))?;
    let out = Command::new("wrk")
        .args(["-t1", "-c", &connections.to_string(), "-d", &format!("{seconds}s"), "-s"])
        .arg(&script)
        .arg(format!("http://{address}/mcp"))
        .output()?;
    let text = String::from_utf8_lossy(&out.stdout);
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("RESULT "))
        .ok_or_else(|| format!("wrk said: {text}"))?;
    let [calls, micros, failed] = line.split(' ').map(str::parse).collect::<Result<Vec<u64>, _>>()?[..]
    else {
        return Err(format!("wrk said: {line}").into());
    };
    if failed > 0 || calls == 0 {
        return Err(format!("{failed} of {calls} calls failed: {text}").into());
    }
    Ok(Run { calls, per_second: calls as f64 / (micros as f64 / 1e6) })
}

fn lua(template: &Template) -> String {
    let (head, tail) = template.halves();
    format!(
        "local head, tail, id = [[{}]], [[{tail}]], {FIRST_ID}\n\
         head = head:gsub('\\n', '\\r\\n')\n\
         function request()\n  id = id + 1\n  return head .. id .. tail\nend\n\
         function done(summary)\n  local e = summary.errors\n\
         \x20 print(string.format('RESULT %d %d %d', summary.requests, summary.duration,\n\
         \x20   e.connect + e.read + e.write + e.status + e.timeout))\nend\n",
        head.replace("\r\n", "\n"),
    )
}
