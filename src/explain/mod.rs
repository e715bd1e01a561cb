//! Pages on the codes of problems: what is meant, a wrong and a right example. `redrive explain CODE` prints
//! them; a test makes each wrong example give its code, and each right one not.

mod brokers;
mod form;
mod rules;
mod secrets;

/// The page of one code.
#[derive(Debug)]
pub struct Page {
    /// `RD0103`.
    pub code: &'static str,
    /// A few words: `a duration has no unit`.
    pub title: &'static str,
    /// Why it is a problem, in a sentence or two.
    pub why: &'static str,
    /// An example that gives this code.
    pub wrong: &'static str,
    /// The same, right.
    pub right: &'static str,
    /// Where the examples stand.
    pub within: Within,
}

/// Where an example stands in a topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Within {
    /// It is a whole file.
    File,
    /// Lines at the top level of a file that is right otherwise.
    Top,
    /// Keys of a broker.
    Broker,
    /// Keys of a channel on a broker with this url; `source: orders` is added if the example has none.
    Channel(&'static str),
}

/// Every page, by area.
static AREAS: &[&[Page]] = &[form::PAGES, secrets::PAGES, rules::PAGES, brokers::PAGES];

/// Every page, in the order of codes within an area.
pub fn pages() -> impl Iterator<Item = &'static Page> {
    AREAS.iter().copied().flatten()
}

/// The page of a code, in either case: `RD0103`, `rd0103`.
pub fn page(code: &str) -> Option<&'static Page> {
    pages().find(|page| page.code.eq_ignore_ascii_case(code))
}

impl Page {
    /// The page as lines for a terminal.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{}  {}", self.code, self.title)];
        lines.extend(wrapped(self.why, 96).into_iter().map(|line| format!("  {line}")));
        for (word, example) in [("wrong", self.wrong), ("right", self.right)] {
            for (index, line) in example.lines().enumerate() {
                let word = if index == 0 { word } else { "" };
                lines.push(format!("  {word:<5}  {line}").trim_end().to_owned());
            }
        }
        lines
    }

    /// An example of this page as a whole topology.
    pub fn whole(&self, example: &str) -> String {
        let indented =
            |by: &str, text: &str| -> String { text.lines().map(|line| format!("{by}{line}\n")).collect() };
        let broker = "brokers:\n  local:\n    url: \"sqlite:redrive.db\"\n";
        let channel = "channels:\n  orders:\n    source: orders\n";
        match self.within {
            Within::File => example.to_owned(),
            Within::Top => format!("version: 1\n{broker}{channel}{example}\n"),
            Within::Broker => {
                let url = if example.contains("url:") { "" } else { "    url: \"amqp://mq.internal\"\n" };
                // A channel that Kafka takes too.
                let channel = format!("{channel}    return_to: source\n    consumer: billing\n");
                format!("version: 1\nbrokers:\n  mq:\n{url}{}{channel}", indented("    ", example))
            }
            Within::Channel(url) => {
                let source = if example.contains("source:") { "" } else { "    source: orders\n" };
                let name = if example.starts_with("  ") { "" } else { "  orders:\n" };
                let by = if name.is_empty() { "" } else { "    " };
                let source = if name.is_empty() { "" } else { source };
                format!(
                    "version: 1\nbrokers:\n  b:\n    url: \"{url}\"\nchannels:\n{name}{source}{}",
                    indented(by, example)
                )
            }
        }
    }
}

/// A text in lines of at most `width` characters, broken at blanks.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests;
