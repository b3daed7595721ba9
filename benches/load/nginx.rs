//! nginx as a bare `proxy_pass`, with a configuration of its own in a folder of its own.

use std::{fs, net::SocketAddr, path::Path, process::Command};

use crate::{
    Res,
    process::{self, Process},
};

/// Whether nginx is installed.
pub(crate) fn installed() -> bool {
    Command::new("nginx").arg("-v").output().is_ok()
}

/// Starts nginx in front of `upstream`. Its files are in `folder`.
pub(crate) fn start(folder: &Path, upstream: SocketAddr) -> Res<Process> {
    let address = process::free_address()?;
    let file = folder.join("nginx.conf");
    fs::write(&file, configuration(address, upstream))?;
    let mut command = process::unlimited("nginx");
    command.arg("-p").arg(folder).arg("-c").arg(&file).args(["-e", "nginx.log"]);
    Process::program(&mut command, address)
}

/// As lean as nginx gets: no log, no buffering, connections kept alive on both sides without end.
fn configuration(address: SocketAddr, upstream: SocketAddr) -> String {
    format!(
        "daemon off;\nworker_processes 2;\npid nginx.pid;\nerror_log nginx.log;\n\
         events {{ worker_connections 4096; }}\n\
         http {{\n  access_log off;\n\
         \x20 client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;\n\
         \x20 uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n\
         \x20 upstream up {{ server {upstream}; keepalive 64; keepalive_requests 1000000000; }}\n\
         \x20 server {{\n    listen {address};\n    keepalive_requests 1000000000;\n    client_max_body_size 8m;\n\
         \x20   location / {{\n      proxy_pass http://up;\n      proxy_http_version 1.1;\n\
         \x20     proxy_set_header Connection \"\";\n      proxy_buffering off;\n      proxy_request_buffering off;\n\
         \x20   }}\n  }}\n}}\n"
    )
}
