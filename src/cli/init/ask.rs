//! The questions of `smartgate init`. Owns their words and their order; prompts go to stderr, so that answers may come
//! from a pipe.

use std::io::{self, BufRead, Write};

use super::{Answers, Refusal, collector};

/// Asks what no flag has said. A wrong answer is asked again if the user is `patient`, at a terminal; from a pipe the next
/// line would be the answer to another question.
pub(super) fn rest(
    answers: &mut Answers,
    patient: bool,
    from: &mut impl BufRead,
    to: &mut impl Write,
) -> Result<(), Refusal> {
    let mut talk = Talk { patient, from, to };
    if answers.upstreams.is_empty() && !answers.builtin {
        talk.say("Which MCP servers stand behind the gateway? A URL, such as http://127.0.0.1:3001/mcp, or the command")?;
        talk.say("that runs one, such as uvx mcp-server-time; NAME= before it names it. One on each line; an empty line ends.")?;
        while talk.until_good("server", |line| answers.add(line))?.is_some() {}
        let default = answers.upstreams.is_empty();
        answers.builtin = talk.yes("The built-in tools (fetch, search, memory and others) too?", default)?;
    }
    if answers.listen.is_none() && talk.yes("Will clients on other machines call it?", false)? {
        answers.listen = Some(([0, 0, 0, 0], 8787).into());
    }
    if answers.keys.is_empty() && (answers.is_open() || talk.yes("Shall callers need a key?", false)?) {
        let question = "Name of the first key, such as the program or person that gets it [default]";
        if talk.until_good(question, |name| answers.add_key(name))?.is_none() {
            answers.keys.push("default".to_owned());
        }
    }
    if answers.otlp.is_none() {
        answers.otlp =
            talk.until_good("OpenTelemetry collector, such as http://127.0.0.1:4317 [none]", collector)?;
    }
    Ok(())
}

impl Answers {
    /// Whether other machines reach it.
    fn is_open(&self) -> bool {
        self.listen.is_some_and(|address| !address.ip().is_loopback())
    }
}

struct Talk<'a, R, W> {
    patient: bool,
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

    /// The first answer that `check` takes; `None` for no answer.
    fn until_good<T>(
        &mut self,
        question: &str,
        mut check: impl FnMut(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Refusal> {
        loop {
            let Some(answer) = self.ask(question)? else { return Ok(None) };
            match check(&answer) {
                Ok(good) => return Ok(Some(good)),
                Err(why) if self.patient => self.say(&why)?,
                Err(why) => {
                    self.say("")?;
                    return Err(Refusal::Wrong(why));
                }
            }
        }
    }

    fn yes(&mut self, question: &str, default: bool) -> Result<bool, Refusal> {
        let choices = if default { "[Y/n]" } else { "[y/N]" };
        let answer = self.until_good(&format!("{question} {choices}"), |answer| {
            match &*answer.to_ascii_lowercase() {
                "y" | "yes" => Ok(true),
                "n" | "no" => Ok(false),
                _ => Err(format!("type y or n, not '{answer}'")),
            }
        })?;
        Ok(answer.unwrap_or(default))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(patient: bool, lines: &str) -> (Result<Answers, Refusal>, String) {
        let (mut answers, mut shown) = (Answers::default(), Vec::new());
        let done = rest(&mut answers, patient, &mut lines.as_bytes(), &mut shown);
        (done.map(|()| answers), String::from_utf8(shown).unwrap())
    }

    fn asked(lines: &str) -> (Answers, String) {
        let (answers, shown) = answered(true, lines);
        (answers.unwrap(), shown)
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
        assert_eq!(answers.listen, Some(([0, 0, 0, 0], 8787).into()));
        assert_eq!(answers.keys, ["default"]);
        assert_eq!(answers.otlp.as_deref(), Some("http://127.0.0.1:4317"));
        assert!(!shown.contains("Shall callers"), "{shown}");
    }

    #[test]
    fn each_wrong_answer_is_told_and_asked_again() {
        let lines =
            "localhost:3001/mcp\nhttp://localhost:3001/mcp\n\nmaybe\ny\nn\ny\n\x01\nada\nlocalhost:4317\n\n";
        let (answers, shown) = asked(lines);
        for told in [
            "did you mean http://localhost:3001/mcp ?",
            "type y or n",
            "control characters",
            "such as http://127.0.0.1:4317\n",
        ] {
            assert!(shown.contains(told), "{told} is missing in {shown}");
        }
        assert!(answers.builtin && answers.upstreams.len() == 1, "{answers:?}");
        assert_eq!((answers.keys, answers.otlp), (vec!["ada".to_owned()], None));
    }

    #[test]
    fn from_a_pipe_a_wrong_answer_ends_it() {
        for lines in ["localhost:3001/mcp\n\n", "http://h/\n\nmaybe\n"] {
            assert!(matches!(answered(false, lines).0, Err(Refusal::Wrong(_))), "{lines}");
        }
    }
}
