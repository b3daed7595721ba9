//! The questions of `smartgate init`. Owns their words and their order; prompts go to stderr, so that answers may come
//! from a pipe.

use std::io::{self, BufRead, Write};

use super::Answers;

/// Asks what no flag has said.
pub(super) fn rest(answers: &mut Answers, from: &mut impl BufRead, to: &mut impl Write) -> io::Result<()> {
    let mut talk = Talk { from, to };
    if answers.upstreams.is_empty() && !answers.builtin {
        talk.say("Which MCP servers stand behind the gateway? A URL, or the command that runs one;")?;
        talk.say("NAME= before it names it. One on each line; an empty line ends.")?;
        while let Some(line) = talk.ask("server")? {
            if let Err(why) = answers.add(&line) {
                talk.say(&why)?;
            }
        }
        let default = answers.upstreams.is_empty();
        answers.builtin = talk.yes("The built-in tools (fetch, search, memory and others) too?", default)?;
    }
    if answers.listen.is_none() && talk.yes("Will clients on other machines call it?", false)? {
        answers.listen = Some("0.0.0.0:8787".to_owned());
    }
    if answers.keys.is_empty() && (answers.is_open() || talk.yes("Shall callers need a key?", false)?) {
        let name = talk.ask("Name of the first key, such as the program or person that gets it [default]")?;
        answers.keys.push(name.unwrap_or_else(|| "default".to_owned()));
    }
    if answers.otlp.is_none() {
        answers.otlp = talk.ask("OpenTelemetry collector, such as http://127.0.0.1:4317 [none]")?;
    }
    Ok(())
}

impl Answers {
    /// Whether other machines reach it.
    fn is_open(&self) -> bool {
        let listen = self.listen.as_deref().and_then(|l| l.parse::<std::net::SocketAddr>().ok());
        listen.is_some_and(|address| !address.ip().is_loopback())
    }
}

struct Talk<'a, R, W> {
    from: &'a mut R,
    to: &'a mut W,
}

impl<R: BufRead, W: Write> Talk<'_, R, W> {
    fn say(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.to, "{text}")
    }

    /// The answer; `None` for an empty line or the end.
    fn ask(&mut self, question: &str) -> io::Result<Option<String>> {
        write!(self.to, "{question}: ")?;
        self.to.flush()?;
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        Ok(Some(line.trim().to_owned()).filter(|line| !line.is_empty()))
    }

    fn yes(&mut self, question: &str, default: bool) -> io::Result<bool> {
        let choices = if default { "[Y/n]" } else { "[y/N]" };
        loop {
            match self
                .ask(&format!("{question} {choices}"))?
                .as_deref()
                .map(str::to_ascii_lowercase)
                .as_deref()
            {
                None => return Ok(default),
                Some("y" | "yes") => return Ok(true),
                Some("n" | "no") => return Ok(false),
                Some(_) => self.say("y or n")?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(lines: &str) -> (Answers, String) {
        let (mut answers, mut shown) = (Answers::default(), Vec::new());
        rest(&mut answers, &mut lines.as_bytes(), &mut shown).unwrap();
        (answers, String::from_utf8(shown).unwrap())
    }

    #[test]
    fn no_answers_make_the_built_in_tools_on_this_machine() {
        let (answers, _) = asked("");
        assert_eq!(answers, Answers { builtin: true, ..Answers::default() });
    }

    #[test]
    fn open_listeners_always_get_a_key() {
        let (answers, shown) = asked("http://127.0.0.1:3001/mcp\n\n\ny\n\nhttp://127.0.0.1:4317\n");
        assert!(!answers.builtin);
        assert_eq!(answers.listen.as_deref(), Some("0.0.0.0:8787"));
        assert_eq!(answers.keys, ["default"]);
        assert_eq!(answers.otlp.as_deref(), Some("http://127.0.0.1:4317"));
        assert!(!shown.contains("Shall callers"), "{shown}");
    }

    #[test]
    fn nonsense_is_asked_again() {
        let (answers, shown) = asked("a='\n\nmaybe\ny\n");
        assert!(shown.contains("neither a URL nor a command") && shown.contains("y or n"), "{shown}");
        assert!(answers.builtin);
    }
}
